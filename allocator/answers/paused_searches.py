"""Searches that used up what one call allows and go on in a later call, as long as nothing changed for them.

A scheduler that has other pods to serve cannot let one search run for its whole budget. A paused search reads the
ledger and the pools with which it began, so it goes on only while those are unchanged. Otherwise it begins anew, and
what it has spent stays spent: a cluster in motion cannot keep it searching for ever.

Rules of this module
  1. The answer is the one that an uninterrupted search would give, or "exhausted" where restarts used up the budget.
  2. At most `_PAUSED_MAX` searches are paused at once: they may be large. One more ends exhausted instead of pausing,
     unless a paused search was not asked about for `_STALE` pauses (its pod is gone) and can make room.

Cost: O(paused searches) for each call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from allocator.pools.node_pools import NodePools
from allocator.requests.requests import Plan
from allocator.search.search import Search

_PAUSED_MAX: Final = 64
_STALE: Final = 256
_STATES_MAX: Final = 200_000
"""Failed states that paused searches remember together, about 100 MB; then they forget them."""


@dataclass(slots=True, eq=False)
class PausedSearch:
    """A search, and with what it began.

    Attributes:
        spent_before: What earlier beginnings spent.
        touched: When it was last asked about, in pauses.
        is_supposed: Whether it reads what is supposed for a question: those do not take each other's place.
    """

    plan: Plan
    node_name: str
    pools: NodePools
    state: tuple[int, int]
    search: Search
    spent_before: int
    touched: int
    is_supposed: bool

    @property
    def spent(self) -> int:
        return self.spent_before + self.search.spent


class PausedSearches:
    """The paused searches of one inventory."""

    def __init__(self) -> None:
        self._paused: Final[list[PausedSearch]] = []
        self._pauses = 0

    def __len__(self) -> int:
        return len(self._paused)

    def take(self, plan: Plan, node_name: str, *, is_supposed: bool) -> PausedSearch | None:
        """The paused search of this plan on this node, which is paused no longer."""
        for index, one in enumerate(self._paused):
            if one.plan is plan and one.node_name == node_name and one.is_supposed is is_supposed:
                return self._paused.pop(index)
        return None

    def keep(self, paused: PausedSearch) -> bool:
        """Pause a search; False when there are too many."""
        self._pauses += 1
        paused.touched = self._pauses
        if len(self._paused) >= _PAUSED_MAX:
            oldest = min(self._paused, key=lambda one: one.touched)
            if self._pauses - oldest.touched < _STALE:
                return False
            self._paused.remove(oldest)
        self._paused.append(paused)
        if sum(one.search.size for one in self._paused) > _STATES_MAX:
            for one in self._paused:
                one.search.forget()
        return True
