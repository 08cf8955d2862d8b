"""What a search has picked so far, and what that takes of counters and shares.

Rule: masks are saved before a pick and restored by assignment; everything else is changed through the journal.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from allocator.requests.requests import Slot
from allocator.search.constraints import ConstraintState, constraint_state
from allocator.search.counters import CounterLedger
from allocator.search.problem import Problem
from allocator.search.shares import ShareLedger
from allocator.search.stages import Stage
from allocator.values.journal import Journal

Before: TypeAlias = tuple[int, int, int]
"""The state before a choice: mark of the journal, devices in all, devices of the claim."""


class Picked:
    """Picks that can be taken back.

    Attributes:
        devices, devices_of_claim: Masks of whole devices that are picked, in all and by claim.
        results: Number of devices by claim, shares included.
        states: Of constraints, by claim and index.
        special: Devices that need more than a bit when they are picked.
        refused: Number of picks that counters or capacity refused.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem: Final = problem
        self._journal: Final = Journal()
        self.devices = 0
        self.devices_of_claim: Final = [0] * len(problem.plan.claims)
        self.results: Final = [0] * len(problem.plan.claims)
        self.shares: Final = ShareLedger()
        self.counters: Final = CounterLedger(problem.pools, problem.in_use)
        self.states: Final[list[list[ConstraintState]]] = [
            [constraint_state(constraint, problem) for constraint in claim.constraints] if claim.requests else []
            for claim in problem.plan.claims
        ]
        self.special: Final = problem.pools.counting | problem.pools.shareable | problem.sharing
        self.refused = 0

    def blocked(self, slot: Slot) -> int:
        """Devices that the slot cannot have, because they are picked."""
        return self.devices_of_claim[slot.claim] if slot.is_admin else self.devices

    def allowed(self, slot: Slot, devices: int) -> int:
        """Those of the devices that the slot's constraints allow beside what is picked."""
        states = self.states[slot.claim]
        for index in slot.constraints:
            devices = states[index].allowed(slot, devices)
        return devices

    def incomparable(self, slot: Slot, position: int) -> str:
        """The attribute that a constraint cannot compare before one refuses the device; empty where there is none."""
        bit = 1 << position
        constraints = self._problem.plan.claims[slot.claim].constraints
        for index in slot.constraints:
            state = self.states[slot.claim][index]
            if state.index_of(slot).failed & bit:
                return constraints[index].attribute
            if state.allowed(slot, bit) != bit:
                return ""
        return ""

    def before(self, slot: Slot) -> Before:
        """The present state, for `restore`."""
        return self._journal.mark(), self.devices, self.devices_of_claim[slot.claim]

    def restore(self, slot: Slot, before: Before, count: int) -> None:
        """Take back what was picked for the slot since then: so many devices."""
        mark, self.devices, self.devices_of_claim[slot.claim] = before
        self._journal.undo_to(mark)
        self.results[slot.claim] -= count

    def take(self, slot: Slot, position: int) -> bool:
        """Pick a device that is allowed, if counters and capacity suffice."""
        bit = 1 << position
        claim = slot.claim
        if bit & self.special:
            mark = self._journal.mark()
            refusal = self.charge(slot, position)
            if refusal is not None:
                self._journal.undo_to(mark)
                self.refused += 1
                return False
        if not bit & self._problem.pools.shareable:
            self.devices |= bit
            self.devices_of_claim[claim] |= bit
        for index in slot.constraints:
            self.states[claim][index].add(slot, position, self._journal)
        self.results[claim] += 1
        return True

    def take_plain(self, slot: Slot, devices: int, count: int) -> None:
        """Pick devices, so many, of which none is special, for a slot without constraints."""
        self.devices |= devices
        self.devices_of_claim[slot.claim] |= devices
        self.results[slot.claim] += count

    def can_charge(self, slot: Slot, position: int) -> bool:
        """Whether counters and capacity suffice for the device."""
        if not 1 << position & self.special:
            return True
        mark = self._journal.mark()
        refusal = self.charge(slot, position)
        self._journal.undo_to(mark)
        return refusal is None

    def charge(self, slot: Slot, position: int) -> Stage | None:
        """Charge counters and capacity; what refuses the device, if anything."""
        problem = self._problem
        bit = 1 << position
        is_shareable = bit & problem.pools.shareable
        if bit & problem.pools.counting and not (is_shareable and bit & (problem.sharing | self.shares.shared)):
            pool, view, index = problem.pools.locate(position)
            amounts, groups = view.consumption[index], view.groups.of.get(index, ())
            if groups and not self.counters.admits(pool, groups):
                return Stage.GROUPS
            if not self.counters.fits(pool, amounts):
                return Stage.COUNTERS
            self.counters.take(pool, amounts, groups, self._journal)
        if is_shareable:
            consumption = problem.consumption(slot, position)
            if not consumption.fits(problem.consumed(position), self.shares.used_of(position)):
                return Stage.CAPACITY
            self.shares.take(position, consumption, self._journal)
        elif bit & problem.sharing and not problem.has_room(slot, position):
            return Stage.CAPACITY
        return None
