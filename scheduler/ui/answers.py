"""The forms of the page's answers; its scripts have the same as types (`static/js/answer_types.d.ts`).

`python -m tests.ui.answer_types` writes these types. `ANSWERS` says which address below /api/ answers what. What the
commands print too has its form there (`scheduler.inventory.device_answer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from scheduler.inventory.device_answer import ClassSummary, ProfileSummary, States


class Answered(Struct, frozen=True, kw_only=True):
    """An answer that is followed: its version, and when it was made, in milliseconds since 1970."""

    version: int = 0
    as_of: int = field(default=0, name="asOf")


# -- the frame ---------------------------------------------------------------------------------------------------------


class About(Struct, frozen=True, kw_only=True):
    """Where answers come from, whether they can change, and what is not seen."""

    source: str
    live: bool
    problems: tuple[str, ...]


# -- overview ----------------------------------------------------------------------------------------------------------


class OwnerShare(Struct, frozen=True, kw_only=True):
    """What the pods of one owner have: `deployment ml/chat`, a bare pod, or a claim that is reserved for nobody.

    `pod` is one of them, NAMESPACE/NAME, "" where there is none.
    """

    owner: str
    devices: int
    pod: str


class Holder(Struct, frozen=True, kw_only=True):
    """A namespace whose claims have devices, or shares of them; `owners` are those with most."""

    namespace: str
    devices: int
    owners: tuple[OwnerShare, ...]


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is wrong, or of note.

    `count` devices are concerned, `devices` are the first few, each as driver, pool and name with spaces between.
    """

    kind: str
    text: str
    since: str | None = None
    count: int = 0
    devices: tuple[str, ...] = ()


class Overview(Answered, frozen=True, kw_only=True):
    """The cluster in short. Lists have an end; `*_count` count all.

    `waiting` pods have no node; `held` devices or shares are claims'.
    """

    waiting: int
    count: int
    nodes: int
    states: States
    classes: tuple[ClassSummary, ...]
    classes_count: int
    profiles: tuple[ProfileSummary, ...]
    profiles_count: int
    held: int
    holders: tuple[Holder, ...]
    holders_count: int
    warnings: tuple[Finding, ...]
    warnings_count: int
    remarks: tuple[Finding, ...]
    notes: tuple[str, ...]


ANSWERS: Final[Mapping[str, type[Struct]]] = {
    "about": About,
    "overview": Overview,
}
