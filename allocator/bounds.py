"""What the search needs to know to cut branches: made at the first failure, so easy cases never pay for it.

Every bound is a necessary condition: what it refuses has no solution. It may let hopeless branches pass.

Two facts carry all of them. Picking more never opens a possibility: whatever cannot be served with fewer
picks cannot be served with more. And which devices an earlier request picked matters to a later one only
through shared candidates, counters of a common pool, or a common constraint (they are neighbours then).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from allocator.constraints import ConstraintState
from allocator.counters import Amounts, CounterLedger
from allocator.matching import can_match
from allocator.model import RESULTS_MAX
from allocator.problem import Problem
from allocator.requests import RequestPlan, Slot
from allocator.shares import ShareLedger


class Bounds:
    """Static relations between requests, and bounds on what can still be reached."""

    def __init__(
        self,
        problem: Problem,
        states: Sequence[Sequence[ConstraintState]],
        counters: CounterLedger,
        shares: ShareLedger,
    ) -> None:
        self._problem: Final = problem
        self._states: Final = states
        self._counters: Final = counters
        self._shares: Final = shares
        requests = problem.plan.requests
        self.has_admin: Final = any(slot.is_admin for slot in problem.plan.slots)
        self._candidates: Final = [self._candidates_of(request) for request in requests]
        self._pools: Final = [self._counter_pools(request) for request in requests]
        self._neighbours: Final = [self._gather_neighbours(request) for request in requests]
        self._later: Final = [
            [
                other.index
                for other in requests[request.index + 1 :]
                if self._neighbours[other.index] >> request.index & 1
            ]
            for request in requests
        ]
        self._relevant_after: Final = self._gather_relevant()
        self._pools_from: Final = self._gather_pools_from()
        self._is_limited: Final = [
            sum(max((problem.count(slot) for slot in request.slots), default=0) for request in claim.requests)
            > RESULTS_MAX
            for claim in problem.plan.claims
        ]
        self._twins: dict[int, int] | None = None
        self._least: list[dict[tuple[int, int], int]] | None = None
        self._distinct_units = 0

    # --- relations --------------------------------------------------------------------------------------

    def _candidates_of(self, request: RequestPlan) -> int:
        mask = 0
        for slot in request.slots:
            mask |= self._problem.reachable[slot.index]
            for position in self._problem.listed.get(slot.index, ()):
                mask |= 1 << position
        return mask

    def _counter_pools(self, request: RequestPlan) -> frozenset[int]:
        """Pools (by index) whose counters devices of the request consume."""
        counting = self._candidates[request.index] & self._problem.static.counting
        if not counting:
            return frozenset()
        return frozenset(
            number
            for number, (view, start) in enumerate(self._problem.pools.usable)
            if view.consumption and counting >> start & ((1 << len(view.devices)) - 1)
        )

    def _gather_neighbours(self, request: RequestPlan) -> int:
        mask = 0
        scope = {index for slot in request.slots for index in slot.constraints}
        for other in self._problem.plan.requests[: request.index]:
            is_neighbour = (
                self._candidates[request.index] & self._candidates[other.index]
                or self._pools[request.index] & self._pools[other.index]
                or (other.claim == request.claim and any(scope.intersection(slot.constraints) for slot in other.slots))
            )
            if is_neighbour:
                mask |= 1 << other.index
        return mask

    def _gather_relevant(self) -> list[int]:
        relevant = [0] * (len(self._candidates) + 1)
        for index in reversed(range(len(self._candidates))):
            relevant[index] = relevant[index + 1] | self._candidates[index]
        return relevant

    def _gather_pools_from(self) -> list[tuple[int, ...]]:
        pools: list[tuple[int, ...]] = [()] * (len(self._pools) + 1)
        for index in reversed(range(len(self._pools))):
            pools[index] = tuple(sorted({*pools[index + 1], *self._pools[index]}))
        return pools

    def neighbours(self, request: int) -> int:
        """Earlier requests (bits) whose picks can matter to this one."""
        return self._neighbours[request]

    def relevant_after(self, request: int) -> int:
        """Devices that requests after this one look at."""
        return self._relevant_after[request + 1]

    def counter_pools_from(self, request: int) -> tuple[int, ...]:
        """Pools whose counters this request or a later one consumes."""
        return self._pools_from[request]

    def is_limited(self, claim: int) -> bool:
        """Whether the claim could reach its limit of results."""
        return self._is_limited[claim]

    # --- symmetry ---------------------------------------------------------------------------------------

    def twins(self, position: int) -> int:
        """Devices that nothing in this question tells apart from this one, itself included.

        Devices of which this search already picked a share are nobody's twins.
        """
        if self._twins is None:
            self._twins = self._gather_twins()
        if self._shares.shared >> position & 1:
            return 1 << position
        return self._twins.get(position, 1 << position) & ~self._shares.shared

    def _gather_twins(self) -> dict[int, int]:
        masks: dict[Hashable, int] = {}
        signatures: dict[int, Hashable] = {}
        rest = self._relevant_after[0]
        while rest:
            bit = rest & -rest
            rest ^= bit
            position = bit.bit_length() - 1
            signature = self._signature(position, bit)
            signatures[position] = signature
            masks[signature] = masks.get(signature, 0) | bit
        return {position: masks[signature] for position, signature in signatures.items()}

    def _signature(self, position: int, bit: int) -> Hashable:
        problem = self._problem
        number, view, index = problem.pools.locate(position)
        is_shareable = bool(problem.static.shareable & bit)
        slots = problem.plan.slots
        return (
            tuple([bool(problem.reachable[slot.index] & bit) for slot in slots]),
            tuple([bool(problem.doubtful[slot.index] & bit) for slot in slots]),
            tuple([position in problem.listed.get(slot.index, ()) for slot in slots if slot.is_all]),
            tuple([state.index.values_of(position) for states in self._states for state in states]),
            tuple([bool(state.index.present & bit) for states in self._states for state in states]),
            (number, view.consumption[index]) if problem.static.counting & bit else None,
            self._share_signature(position, bit) if is_shareable else None,
        )

    def _share_signature(self, position: int, bit: int) -> Hashable:
        problem = self._problem
        return (
            bool(problem.sharing & bit),
            tuple(sorted(problem.consumed(position).items())),
            tuple([problem.consumption(slot, position).nanos for slot in problem.plan.slots]),
        )

    # --- what is left for later requests ----------------------------------------------------------------

    def starving(self, request: int, picked: int, picked_of_claim: Sequence[int]) -> int | None:
        """A later neighbour that has too few candidates left, if there is one."""
        problem = self._problem
        requests = problem.plan.requests
        for index in self._later[request]:
            if not any(self._is_enough(slot, picked, picked_of_claim) for slot in requests[index].slots):
                return index
        return None

    def _is_enough(self, slot: Slot, picked: int, picked_of_claim: Sequence[int]) -> bool:
        problem = self._problem
        left = problem.usable[slot.index] & ~(picked_of_claim[slot.claim] if slot.is_admin else picked)
        for index in slot.constraints:
            left = self._states[slot.claim][index].allowed(left)
        return left.bit_count() >= problem.count(slot)

    def can_all_be_served(self, slot: Slot, need: int, start: int, picked: int) -> bool:
        """Whether the rest of this slot and all later requests could get different devices."""
        problem = self._problem
        shareable = problem.static.shareable
        units: list[tuple[int, int]] = []
        if need > 0 and not slot.is_admin:
            units.append(self._unit(slot, problem.usable[slot.index] & (-1 << start) & ~picked, need, shareable))
        for request in problem.plan.requests[slot.request + 1 :]:
            if any(other.is_admin for other in request.slots):
                continue
            mask = 0
            least = RESULTS_MAX
            for other in request.slots:
                left, count = self._unit(other, problem.usable[other.index] & ~picked, problem.count(other), shareable)
                mask |= left
                least = min(least, count)
            units.append((mask, least))
        return can_match(units)

    def _unit(self, slot: Slot, left: int, need: int, shareable: int) -> tuple[int, int]:
        """Devices of a slot that nobody else can have, and how many of them it needs at least."""
        for index in slot.constraints:
            left = self._states[slot.claim][index].allowed(left)
        return left & ~shareable, max(0, need - (left & shareable).bit_count())

    # --- counters ---------------------------------------------------------------------------------------

    def counters_suffice(self, slot: Slot, need: int, allowed: int) -> bool:
        """Whether the cheapest `need` devices among `allowed`, and the cheapest later ones, fit the counters."""
        problem = self._problem
        pools = self._pools[slot.request]
        if not pools:
            return True
        later = self._least_from(slot.request + 1)
        if len(pools) > 1 or allowed & ~problem.static.counting or allowed & problem.static.shareable:
            # Devices that cost nothing, or another pool's counters: only what later requests need is certain.
            return self._fits_all(later)
        (number,) = pools
        view, start = problem.pools.usable[number]
        costs: dict[int, list[int]] = {}
        rest = allowed >> start
        while rest:
            bit = rest & -rest
            rest ^= bit
            for counter, amount in view.consumption[bit.bit_length() - 1]:
                costs.setdefault(counter, []).append(amount)
        total = dict(later)
        candidates = allowed.bit_count()
        for counter, amounts in costs.items():
            free = candidates - len(amounts)
            if need > free:
                amounts.sort()
                key = (number, counter)
                total[key] = total.get(key, 0) + sum(amounts[: need - free])
        return self._fits_all(total)

    def _fits_all(self, amounts: dict[tuple[int, int], int]) -> bool:
        by_pool: dict[int, list[tuple[int, int]]] = {}
        for (pool, counter), amount in amounts.items():
            by_pool.setdefault(pool, []).append((counter, amount))
        return all(self._counters.fits(pool, tuple(wanted)) for pool, wanted in by_pool.items())

    def _least_from(self, request: int) -> dict[tuple[int, int], int]:
        """By (pool, counter): what the requests from this one on take at least, together."""
        if self._least is None:
            least: list[dict[tuple[int, int], int]] = [{}]
            for plan in reversed(self._problem.plan.requests):
                total = dict(least[-1])
                for key, amount in self._least_of(plan).items():
                    total[key] = total.get(key, 0) + amount
                least.append(total)
            least.reverse()
            self._least = least
        return self._least[request]

    def _least_of(self, request: RequestPlan) -> dict[tuple[int, int], int]:
        """What a request takes at least: the minimum over its alternatives, of their cheapest devices."""
        result: dict[tuple[int, int], int] | None = None
        for slot in request.slots:
            least = self._least_of_slot(slot)
            if result is None:
                result = least
            else:
                result = {key: min(amount, least[key]) for key, amount in result.items() if key in least}
        return result or {}

    def _least_of_slot(self, slot: Slot) -> dict[tuple[int, int], int]:
        problem = self._problem
        usable = problem.usable[slot.index]
        pools = self._pools[slot.request]
        if len(pools) != 1 or usable & ~problem.static.counting or usable & problem.static.shareable:
            return {}
        (number,) = pools
        view, start = problem.pools.usable[number]
        costs: dict[int, list[int]] = {}
        devices: list[Amounts] = []
        rest = usable >> start
        while rest:
            bit = rest & -rest
            rest ^= bit
            amounts = view.consumption[bit.bit_length() - 1]
            devices.append(amounts)
            for counter, amount in amounts:
                costs.setdefault(counter, []).append(amount)
        least = {}
        for counter, amounts_of_counter in costs.items():
            need = problem.count(slot) - (len(devices) - len(amounts_of_counter))
            if need > 0:
                least[number, counter] = sum(sorted(amounts_of_counter)[:need])
        return least
