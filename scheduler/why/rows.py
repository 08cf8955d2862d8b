"""What a row of the tables of reasons and fixes has."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Kind(Struct, frozen=True):
    """One kind of reason for which a pod waits.

    Args:
        name: Stable: alerts, scripts and links use it. It says the fact, not the fix that would help.
        means: What is so, in one sentence.
        do: What helps, the usual thing first.
        says: Its sentences (templates of `say`) by form; "" is the usual one. The object that makes it so stands first.
        same: Fields that are equal for reasons about the same things.
    """

    name: str
    means: str
    do: str
    says: Mapping[str, str]
    same: tuple[str, ...] = ()


class FixKind(Struct, frozen=True):
    """One kind of fix.

    Args:
        size: How much it asks of people: 1 a name, 2 a toleration, label, gate or cordon, 3 a smaller amount, 4 and 5
            rules of the pod or claim and what a driver must publish, 6 somebody else's pod or claim, 7 a selector
            dropped, 8 a class (docs/adr/0030-explain.md).
        says: What to do (a template of `say`).
        same: Fields that are equal where the first that helps is enough; None: all that it says.
    """

    name: str
    size: int
    says: str
    same: tuple[str, ...] | None = None
