"""Do the counters suffice for what must still be picked? A bound that looks at the cheapest devices.

Different requests get different devices (admin access and shareable devices aside), so together they take at
least as many of the cheapest devices as they need devices. If those exceed what is left of any counter, no
solution lies ahead.
"""

from __future__ import annotations

from typing import Final

from allocator.pools.pools import CounterCosts
from allocator.requests.requests import RequestPlan, Slot
from allocator.search.counters import CounterLedger
from allocator.search.problem import Problem


class CounterBounds:
    """The bound for one problem; reads the ledger of counters."""

    def __init__(self, problem: Problem, counters: CounterLedger) -> None:
        self._problem: Final = problem
        self._counters: Final = counters
        self._later: Final = self._gather_later()
        self._most_consumers: Final = problem.pools.most_consumers

    def _gather_later(self) -> list[tuple[int, int]]:
        """By request: candidates and number of devices of the requests after it, as far as they must differ."""
        later = [(0, 0)]
        for request in reversed(self._problem.plan.requests):
            mask, need = later[-1]
            candidates, least = self._exclusive(request)
            later.append((mask | candidates, need + least))
        later.reverse()
        return later[1:]

    def _exclusive(self, request: RequestPlan) -> tuple[int, int]:
        """Candidates of a request and how many it needs at least; nothing when others may have the same ones."""
        problem = self._problem
        mask = 0
        for slot in request.slots:
            mask |= problem.usable[slot.index]
            if slot.is_admin or mask & problem.pools.shareable:
                return 0, 0
        return mask, min((problem.count(slot) for slot in request.slots), default=0)

    def suffice(self, slot: Slot, need: int, allowed: int, picked: int) -> bool:
        """Whether the counters could hold `need` of `allowed` for the slot, and what later requests need."""
        mask = allowed
        if not slot.is_admin:
            later, more = self._later[slot.request]
            mask |= later & ~picked
            need += more
        if need <= 1 or mask & self._problem.pools.shareable:
            return True
        size = mask.bit_count()
        if size < need:
            return False
        if size - self._most_consumers >= need:
            return True  # whichever pool is too small, enough devices are elsewhere
        pools = self._problem.pools
        for pool in pools.numbers_among(mask & self._problem.pools.counting):
            local = pools.among(mask, pool)
            elsewhere = size - local.bit_count()
            for costs in pools.usable[pool][0].counter_costs:
                paying = need - elsewhere - (local & ~costs.consumers).bit_count()
                if paying > 0 and not self._can_pay(pool, costs, paying, local):
                    return False
        return True

    def _can_pay(self, pool: int, costs: CounterCosts, paying: int, mask: int) -> bool:
        available = self._counters.available(pool)
        if available is None:
            return False
        used = self._counters.used.get(pool)
        left = available[costs.counter] - (used[costs.counter] if used is not None else 0)
        return costs.paid(left, mask, paying) == paying
