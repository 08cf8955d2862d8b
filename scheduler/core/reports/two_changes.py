"""Which changes are tried together, in which order, and two of them as one.

Not here: whether they help (`cause_search`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from scheduler.model.keys import NodeName
from scheduler.why.reasons import Fix

_ALIKE_MAX: Final = 16


def few_of_a_kind(changes: Sequence[Fix]) -> list[Fix]:
    """Of each kind the first: of a thousand cordoned nodes one is as good as another, and each is asked about again."""
    seen: Counter[tuple[str, int]] = Counter()
    found: list[Fix] = []
    for one in changes:
        what = one.reason.kind if one.reason is not None else "", one.size
        seen[what] += 1
        if seen[what] <= _ALIKE_MAX:
            found.append(one)
    return found


def by_turns(changes: Sequence[Fix], count: int) -> Iterator[tuple[Fix, NodeName]]:
    """Changes with one of their nodes, each change before any has its second."""
    most = max((len(one.on) for one in changes), default=0)
    turns = ((one, one.on[turn]) for turn in range(most) for one in changes if turn < len(one.on))
    return itertools.islice(turns, count)


def both(first: Fix, second: Fix) -> Fix:
    """Both changes; the second was found as if the first were made, so what it changes has that, too."""
    claims = {one.key: one for one in (*first.claims, *second.claims)}
    return Fix(
        first.kind,
        first.fields,
        first.on,
        pod=second.pod or first.pod,
        node=second.node or first.node,
        claims=tuple(claims.values()),
        slices=tuple({one.name: one for one in (*first.slices, *second.slices)}.values()),
        classes=tuple({one.name: one for one in (*first.classes, *second.classes)}.values()),
        removed=(*first.removed, *second.removed),
        released=(*first.released, *second.released),
    )
