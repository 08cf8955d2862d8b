"""Picks found before for the same candidates, on whichever node.

Nodes of one kind differ in names and in nothing that a search reads: where only the number and the place of the
candidates count, what was found for one node is found for all that have the same devices left.

Rules of this module
  1. A problem is plain when its answer follows from `Problem.usable` alone: no constraint, no All request, no counters,
     no device that several allocations may hold, no device that cannot be decided.
  2. What is kept is what a search gave that ended with an answer within the budget, a "no" as well as picks.

Cost: one look-up by the masks of the slots; at most `_KEPT_MAX` answers for each plan, and about
`_KEPT_BYTES_MAX` of masks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from allocator.problem import Problem
from allocator.requests import Slot

_KEPT_MAX: Final = 4096
_KEPT_BYTES_MAX: Final = 2_000_000
_KEY: Final = "known picks"


class KnownPicks(NamedTuple):
    """What a search gave: picks in order (None: there is no solution), its steps, and what it took of the budget."""

    picks: tuple[tuple[Slot, int], ...] | None
    steps: int
    spent: int


def is_plain(problem: Problem) -> bool:
    """Whether the answer follows from the candidates alone (rule 1)."""
    static = problem.static
    return problem.plan.is_unconstrained and not (
        static.counting or static.shareable or problem.sharing or any(problem.doubtful)
    )


def known_picks(problem: Problem) -> KnownPicks | None:
    """What was found for a plain problem with these candidates."""
    known = problem.plan.derived.get(_KEY)
    found = known.get(tuple(problem.usable)) if isinstance(known, dict) else None
    assert found is None or isinstance(found, KnownPicks)
    return found


def remember_picks(problem: Problem, found: KnownPicks) -> None:
    """Keep what a search gave for a plain problem."""
    known = problem.plan.derived.setdefault(_KEY, {})
    assert isinstance(known, dict)
    key = tuple(problem.usable)
    if len(known) >= min(_KEPT_MAX, 1 + _KEPT_BYTES_MAX // ((len(key) or 1) * (problem.pools.size // 8 + 32))):
        known.clear()
    known[key] = found
