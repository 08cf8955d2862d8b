"""Do the counters suffice for what must still be picked? A bound that looks at the cheapest devices.

Different requests get different devices (admin access and shareable devices aside), so together they take at
least as many of the cheapest devices as they need devices. If those exceed what is left of any counter, no
solution lies ahead.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from allocator.counters import CounterLedger
from allocator.problem import Problem
from allocator.requests import RequestPlan, Slot


class _Costs(NamedTuple):
    """One counter: devices that consume it, and what each consumes, cheapest first."""

    pool: int
    counter: int
    consumers: int
    by_amount: tuple[tuple[int, int], ...]


class CounterBounds:
    """The bound for one problem; reads the ledger of counters."""

    def __init__(self, problem: Problem, counters: CounterLedger) -> None:
        self._problem: Final = problem
        self._counters: Final = counters
        self._later: Final = self._gather_later()
        self._costs: Final = self._gather_costs()

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
            if slot.is_admin or mask & problem.static.shareable:
                return 0, 0
        return mask, min((problem.count(slot) for slot in request.slots), default=0)

    def _gather_costs(self) -> tuple[_Costs, ...]:
        problem = self._problem
        relevant = 0
        for mask in problem.usable:
            relevant |= mask
        relevant &= problem.static.counting & ~problem.static.shareable
        amounts: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for number, (view, start) in enumerate(problem.pools.usable):
            if not relevant >> start & ((1 << len(view.devices)) - 1):
                continue
            for index, consumption in view.consumption.items():
                bit = 1 << (start + index)
                if bit & relevant:
                    for counter, amount in consumption:
                        amounts.setdefault((number, counter), []).append((amount, bit))
        costs = []
        for (pool, counter), entries in amounts.items():
            consumers = 0
            for _, bit in entries:
                consumers |= bit
            costs.append(_Costs(pool, counter, consumers, tuple(sorted(entries))))
        return tuple(costs)

    def suffice(self, slot: Slot, need: int, allowed: int, picked: int) -> bool:
        """Whether the counters could hold `need` of `allowed` for the slot, and what later requests need."""
        mask = allowed
        if not slot.is_admin:
            later, more = self._later[slot.request]
            mask |= later & ~picked
            need += more
        if need <= 1 or mask & self._problem.static.shareable:
            return True
        for costs in self._costs:
            paying = need - (mask & ~costs.consumers).bit_count()
            if paying > 0 and not self._can_pay(costs, paying, mask):
                return False
        return True

    def _can_pay(self, costs: _Costs, paying: int, mask: int) -> bool:
        available = self._counters.available(costs.pool)
        if available is None:
            return False
        used = self._counters.used.get(costs.pool)
        left = available[costs.counter] - (used[costs.counter] if used is not None else 0)
        for amount, bit in costs.by_amount:
            if bit & mask:
                left -= amount
                if left < 0:
                    return False
                paying -= 1
                if not paying:
                    return True
        return True
