"""The smallest change that makes the pod fit: candidates are tried one by one, then two by two.

Rules of this module
  1. Nothing is said to help that was not asked and did.
  2. A question costs a step for each object, and at least `_STEPS_LEAST`. When the steps are used up, that is said.

Not here: the candidates.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.explain.world import Change, World

BUDGET: Final = 400_000
"""Steps for one explanation: 1,000 questions to a small cluster, 8 to one of 50,000 objects."""
_STEPS_LEAST: Final = 400
_ALSO_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Found:
    """What the search came to.

    Attributes:
        changes: What makes the pod fit, together; empty when nothing was found.
        also: Other single changes that make it fit.
        asked: How many questions were asked.
        is_exhausted: The steps were used up before all was asked: what was found may not be the smallest.
    """

    changes: tuple[Change, ...]
    also: tuple[Change, ...]
    asked: int
    is_exhausted: bool


def smallest(world: World, candidates: Sequence[Change], budget: int = BUDGET) -> Found:
    """The smallest single change that helps, else the smallest pair."""
    ordered = sorted(candidates, key=lambda change: change.size)
    cost = max(_STEPS_LEAST, len(world.objects))
    left, asked = budget // cost, 0
    helped: list[Change] = []
    is_exhausted = False
    for change in ordered:
        if len(helped) > _ALSO_MAX:
            break
        if change.amount_of and any(change.amount_of == one.amount_of for one in helped):
            continue
        if left <= asked:
            is_exhausted = True
            break
        asked += 1
        if world.ask((change,)).fits:
            helped.append(change)
    if helped:
        return Found((helped[0],), tuple(helped[1:]), asked, is_exhausted)
    pairs = sorted(itertools.combinations(ordered, 2), key=lambda pair: pair[0].size + pair[1].size)
    for pair in pairs:
        if left <= asked:
            return Found((), (), asked, True)
        asked += 1
        if world.ask(pair).fits:
            return Found(pair, (), asked, False)
    return Found((), (), asked, is_exhausted)
