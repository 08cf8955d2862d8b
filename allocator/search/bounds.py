"""What the search needs to know to cut branches: made at the first failure, so easy cases never pay for it.

Every bound is a necessary condition: what it refuses has no solution. It may let hopeless branches pass.

One fact carries all of them. Picking more never opens a possibility: whatever cannot be served with fewer picks cannot
be served with more.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from allocator.requests.requests import RequestPlan, Slot
from allocator.search.constraints import in_reach
from allocator.search.matching import Demand, can_match
from allocator.search.picked import Picked
from allocator.search.problem import Problem
from allocator.values.masks import mask_of, positions_of
from allocator.values.model import RESULTS_MAX


class Bounds:
    """Static relations between requests, and bounds on what can still be reached."""

    def __init__(self, problem: Problem, picked: Picked) -> None:
        self._problem: Final = problem
        self._picked: Final = picked
        requests = problem.plan.requests
        self._is_admin: Final = [any(slot.is_admin for slot in request.slots) for request in requests]
        self._counts: Final = [problem.count(slot) for slot in problem.plan.slots]
        self._candidates: Final = [self._candidates_of(request) for request in requests]
        self._relevant: Final = self._gather_relevant()
        self._candidates_from: Final = self._gather_candidates_from()
        self._is_limited: Final = [
            sum(max((problem.count(slot) for slot in request.slots), default=0) for request in claim.requests)
            > RESULTS_MAX
            for claim in problem.plan.claims
        ]
        self._distinct: Final = [
            (claim, index)
            for claim, of_claim in enumerate(picked.states)
            for index, state in enumerate(of_claim)
            if not state.is_match
        ]
        self._twins: Final[dict[int, int]] = {}

    # --- relations --------------------------------------------------------------------------------------

    def _candidates_of(self, request: RequestPlan) -> int:
        mask = 0
        for slot in request.slots:
            mask |= self._problem.reachable[slot.index] | mask_of(self._problem.listed.get(slot.index, ()))
        return mask

    def _gather_relevant(self) -> list[tuple[int, int]]:
        """By request: devices that later requests look at among all picks, and among their claim's picks only."""
        relevant = [(0, 0)] * len(self._candidates)
        of_all = of_claim = 0
        claim = -1
        for request in reversed(self._problem.plan.requests):
            if request.claim != claim:
                claim, of_claim = request.claim, 0
            relevant[request.index] = (of_all, of_claim)
            if self._is_admin[request.index]:
                of_claim |= self._candidates[request.index]
            else:
                of_all |= self._candidates[request.index]
        return relevant

    def _gather_candidates_from(self) -> list[int]:
        candidates = [0] * (len(self._candidates) + 1)
        for index in reversed(range(len(self._candidates))):
            candidates[index] = candidates[index + 1] | self._candidates[index]
        return candidates

    def picks_that_matter(self, request: RequestPlan) -> tuple[int, int]:
        """Of what is picked, what requests after this one can notice: by any claim, and by this claim."""
        of_all, of_claim = self._relevant[request.index]
        return self._picked.devices & of_all, self._picked.devices_of_claim[request.claim] & of_claim

    def shares_that_matter(self, request: int) -> int:
        """Devices whose shares this request or a later one can notice."""
        return self._candidates_from[request] & self._problem.pools.shareable

    def counters_that_matter(self, request: int) -> int:
        """Devices whose counters this request or a later one consumes."""
        return self._candidates_from[request] & self._problem.pools.counting

    def is_limited(self, claim: int) -> bool:
        """Whether the claim could reach its limit of results."""
        return self._is_limited[claim]

    # --- symmetry ---------------------------------------------------------------------------------------

    def twins(self, position: int) -> int:
        """Devices that nothing in this question tells apart from this one, itself included.

        Devices of which this search already picked a share are nobody's twins.
        """
        bit = 1 << position
        shared = self._picked.shares.shared
        if shared & bit:
            return bit
        mask = self._twins.get(position)
        if mask is None:
            mask = self._gather_twins(position, bit)
            self._twins.update(dict.fromkeys(positions_of(mask), mask))
        return mask & ~shared

    def _gather_twins(self, position: int, bit: int) -> int:
        """Sieved with masks: an inventory of thousands of pools is not looked at device by device."""
        problem = self._problem
        mask = self._candidates_from[0]
        for special in (problem.pools.counting, problem.pools.shareable, problem.sharing):
            mask &= _side(special, bit)
        if problem.pools.counting & bit:
            # Counters belong to a pool, so only devices of one pool can consume the same.
            _, view, index = problem.pools.locate(position)
            mask &= ((1 << len(view.devices)) - 1) << (position - index)
        for slot in problem.plan.slots:
            mask &= _side(problem.reachable[slot.index], bit)
            mask &= _side(problem.doubtful[slot.index], bit)
        for listed in problem.listed.values():
            mask &= _side(mask_of(listed), bit)
        for states in self._picked.states:
            for state in states:
                mask &= state.alike(position)
        if bit & (problem.pools.counting | problem.pools.shareable | problem.sharing):
            signature = self._signature(position, bit)
            for other in positions_of(mask & ~bit):
                if self._signature(other, 1 << other) != signature:
                    mask ^= 1 << other
        return mask | bit

    def _signature(self, position: int, bit: int) -> Hashable:
        """What masks do not show."""
        problem = self._problem
        number, view, index = problem.pools.locate(position)
        return (
            (number, view.consumption[index], view.groups.of.get(index)) if problem.pools.counting & bit else None,
            self._share_signature(position) if (problem.pools.shareable | problem.sharing) & bit else None,
        )

    def _share_signature(self, position: int) -> Hashable:
        problem = self._problem
        return (
            tuple(sorted(problem.consumed(position).items())),
            tuple([problem.consumption(slot, position).nanos for slot in problem.plan.slots]),
        )

    # --- what is left for later requests ----------------------------------------------------------------

    def is_dead_end(self, slot: Slot, need: int, start: int, *, matching: bool) -> bool:
        """Whether what is picked leaves too little for the rest of this slot (`need` devices from `start` on) or for
        later requests.
        """
        problem, picked = self._problem, self._picked
        lefts: dict[int, int] = {}
        demands: list[Demand] = []
        for request in problem.plan.requests[slot.request + 1 :]:
            if not self._can_be_served(request, lefts, demands):
                return True
        if not matching:
            return False
        if need > 0:
            left = problem.usable[slot.index] & (-1 << start) & ~picked.blocked(slot)
            lefts[slot.index] = picked.allowed(slot, left)
        if any(not self._values_suffice(*constraint, slot, need, lefts) for constraint in self._distinct):
            return True
        if not demands:
            return False
        if need > 0 and not slot.is_admin:
            left, shareable = lefts[slot.index], problem.pools.shareable
            least = need - (left & shareable).bit_count()
            if least > 0:
                demands.append((left & ~shareable, least))
        is_plenty = min(mask.bit_count() for mask, _ in demands) >= sum(least for _, least in demands)
        return not is_plenty and not can_match(demands)

    def _can_be_served(self, request: RequestPlan, lefts: dict[int, int], demands: list[Demand]) -> bool:
        """Whether enough devices are left for a later request by itself.

        Args:
            lefts: By slot, what it could still pick first; only slots for which that suffices.
            demands: Of whole devices, which no two requests can share.
        """
        shareable = self._problem.pools.shareable
        can_be_served = False
        mask = 0
        least = RESULTS_MAX
        for slot in request.slots:
            count = self._counts[slot.index]
            left = self._left(slot)
            if left.bit_count() >= count:
                can_be_served = True
                lefts[slot.index] = left
            mask |= left
            least = min(least, count - (left & shareable).bit_count())
        if least > 0 and not self._is_admin[request.index]:
            demands.append((mask & ~shareable, least))
        return can_be_served

    def _values_suffice(self, claim: int, index: int, now: Slot, need: int, lefts: Mapping[int, int]) -> bool:
        """Whether all devices still needed under a distinctAttribute could have values of their own.

        Args:
            now: The slot being picked for, which needs `need` devices more.
            lefts: By slot, what it could still pick; slots that cannot be served are missing.
        """
        state = self._picked.states[claim][index]
        units = []
        for request in self._problem.plan.requests[now.request :]:
            if request.claim != claim:
                continue
            slots = [now] if request.index == now.request else [slot for slot in request.slots if slot.index in lefts]
            least = (
                need if request.index == now.request else min((self._counts[slot.index] for slot in slots), default=0)
            )
            if least > 0 and all(index in slot.constraints for slot in slots):
                values = 0
                for slot in slots:
                    values |= state.values_among(slot, lefts[slot.index])
                units.append((values, least))
        return can_match(units)

    def _left(self, slot: Slot) -> int:
        """Devices a later slot could still pick first; none when its constraints leave no set large enough."""
        problem, picked = self._problem, self._picked
        left = picked.allowed(slot, problem.usable[slot.index] & ~picked.blocked(slot))
        if (need := self._counts[slot.index]) > 1:
            for index in slot.constraints:
                left = in_reach(picked.states[slot.claim][index], slot, left, need)
        for position in positions_of(left & picked.shares.shared):
            used = picked.shares.used_of(position)
            if not problem.consumption(slot, position).fits(problem.consumed(position), used):
                left ^= 1 << position
        return left


def _side(mask: int, bit: int) -> int:
    """The devices on the same side of the mask as `bit`."""
    return mask if mask & bit else ~mask
