"""The choices of a search: an alternative of a request, one device, several devices at once, all devices of a slot.

Each knows how to make its next choice and how to take it back; what it makes possible it opens: `enter` goes on with
the next request, `open_slot` with a slot's devices.

Source: `allocateOne`, `allocateDevice` of structured/internal/incubating/allocator_incubating.go v0.36.3.
"""

from __future__ import annotations

from typing import Final

from allocator.requests.requests import RequestPlan, Slot, claim_error
from allocator.search.bounds import Bounds
from allocator.search.search_state import TRIAL_WORK, Choice, Move, SearchState
from allocator.search.stages import Stage
from allocator.values.meter import PausedError
from allocator.values.model import RESULTS_MAX


def enter(search: SearchState, node: int) -> Move:
    """Go on with a request, or with the next claim."""
    search.step()
    nodes = search.nodes
    while node < len(nodes):
        request = nodes[node]
        if request is not None:
            if request.is_list:
                search.stack.append(Alternatives(node, request))
                return Move.DOWN
            return open_slot(search, node, request, request.slots[0])
        node += 1
        search.step()
    return Move.DONE


def open_slot(search: SearchState, node: int, request: RequestPlan, slot: Slot) -> Move:
    """Start to pick devices for a slot."""
    need = search.problem.count(slot)
    if slot.is_all and not need:
        return Move.FAILED
    if need <= 0:
        return enter(search, node + 1)
    if search.picked.results[slot.claim] + need > RESULTS_MAX:
        search.exceeded_claim = slot.claim
        return Move.EXCEEDED
    if slot.is_all:
        return AllDevices(node, request, slot).open(search)
    if need > 1 and search.shortcuts.bulk and not slot.constraints and request.index >= search.free_from:
        move = SeveralDevices(node, request, slot).open(search)
        if move is not None:
            return move
    return OneDevice(node, request, slot, 0).open(search, 0)


class Alternatives(Choice):
    """One alternative of a firstAvailable list."""

    __slots__ = ("_all_exceeded", "_next")

    def __init__(self, node: int, request: RequestPlan) -> None:
        super().__init__(node, request, request.slots[0])
        self._next = 0
        self._all_exceeded = True

    def advance(self, search: SearchState) -> Move:
        request = self.request
        if self._next < len(request.slots):
            self.slot = request.slots[self._next]
            self._next += 1
            search.step()
            return open_slot(search, self.node, request, self.slot)
        failed = self.fail(search)
        if not self._all_exceeded:
            return failed
        search.exceeded_claim = request.claim
        return Move.EXCEEDED

    def retry(self, search: SearchState) -> Move:
        self._all_exceeded = False
        return self.advance(search)

    def exceed(self, search: SearchState) -> Move:
        return self.advance(search)


class OneDevice(Choice):
    """One device: the slot's `number`th, after those of the choices below it."""

    __slots__ = ("_need", "_number", "_rest")

    def __init__(self, node: int, request: RequestPlan, slot: Slot, number: int) -> None:
        super().__init__(node, request, slot)
        self._number: Final = number
        self._need: Final = slot.count - number
        self._rest = 0
        """Devices that are left to try."""

    def open(self, search: SearchState, start: int) -> Move:
        """Come onto the stack, with the devices from `start` on to try."""
        problem, request, slot = search.problem, self.request, self.slot
        rest = problem.reachable[slot.index] & ~search.picked.blocked(slot) & (-1 << start)
        doubtful = rest & problem.doubtful[slot.index]
        candidates = rest & ~doubtful
        allowed = search.picked.allowed(slot, candidates)
        if request.index >= search.free_from:
            if search.shortcuts.forward_check:
                if slot.constraints:
                    allowed = search.in_reach(slot, self._need, allowed)
                if allowed.bit_count() < self._need:
                    return Move.FAILED
            if allowed & problem.pools.counting and not search.counters_suffice(slot, self._need, allowed):
                return Move.FAILED
        if self._need > 1 or request.index < search.last:
            self.key = search.state_key(request, slot, self._number, allowed | doubtful)
            if self.key in search.failed_states:
                return Move.FAILED
        self._rest = allowed | doubtful
        search.stack.append(self)
        return Move.DOWN

    def take(self, search: SearchState, position: int) -> bool:
        """Pick this device, if counters and capacity allow; those before it are done."""
        self._rest &= -1 << (position + 1)
        self.before = search.picked.before(self.slot)
        if not search.picked.take(self.slot, position):
            return False
        self.positions = (position,)
        return True

    def advance(self, search: SearchState) -> Move:
        """Raises PausedError between two devices."""
        slot, meter = self.slot, search.meter
        doubtful = search.problem.doubtful[slot.index]
        while self._rest:
            if meter.spent >= search.stop_at and not meter.is_fresh:
                raise PausedError
            bit = self._rest & -self._rest
            position = bit.bit_length() - 1
            if bit & doubtful and not self._is_candidate(search, position):
                self._rest ^= bit
                meter.spent += TRIAL_WORK
                continue
            meter.spent += search.trial_work
            meter.is_fresh = False
            if not self.take(search, position):
                continue
            if search.bounds is not None and self._is_dead_end(search, search.bounds, position):
                continue
            search.step()
            if self._need > 1:
                return OneDevice(self.node, self.request, slot, self._number + 1).open(search, position + 1)
            return enter(search, self.node + 1)
        return self.fail(search)

    def _is_dead_end(self, search: SearchState, bounds: Bounds, position: int) -> bool:
        """Whether what was just picked leaves too little for what follows; then it is taken back."""
        request, shortcuts = self.request, search.shortcuts
        if not search.free_from <= request.index < search.last or not shortcuts.forward_check:
            return False
        if not bounds.is_dead_end(self.slot, self._need - 1, position + 1, matching=shortcuts.matching):
            return False
        self.undo(search)
        self._rest &= ~search.twins(request, position)
        return True

    def retry(self, search: SearchState) -> Move:
        (position,) = self.positions
        self.undo(search)
        self._rest &= ~search.twins(self.request, position)
        return self.advance(search)

    def _is_candidate(self, search: SearchState, position: int) -> bool:
        """Decide a device behind a failure; its constraints have not been looked at yet."""
        meter = search.meter
        meter.stop_at = search.stop_at
        try:
            if not search.problem.is_candidate(self.slot, position):
                return False
        finally:
            meter.allow_all()
        bit = 1 << position
        if search.picked.allowed(self.slot, bit) == bit:
            return True
        name = search.picked.incomparable(self.slot, position)
        # Counters come before constraints.
        if name and search.picked.can_charge(self.slot, position):
            raise search.problem.attribute_failure(self.slot, position, name)
        return False


class SeveralDevices(Choice):
    """A slot's first devices together, where nothing but their number matters; one by one when that failed."""

    __slots__ = ()

    def open(self, search: SearchState) -> Move | None:
        """Pick them, and go on with the next request; None where some of them need a closer look."""
        slot, picked = self.slot, search.picked
        rest = search.problem.usable[slot.index] & ~picked.blocked(slot)
        positions = []
        devices = 0
        for _ in range(slot.count):
            bit = rest & -rest
            if not bit or bit & picked.special:
                return None
            rest ^= bit
            devices |= bit
            positions.append(bit.bit_length() - 1)
        self.before = picked.before(slot)
        picked.take_plain(slot, devices, slot.count)
        self.positions = tuple(positions)
        search.stack.append(self)
        search.step()
        return enter(search, self.node + 1)

    def retry(self, search: SearchState) -> Move:
        """Stand for as many single choices of the same devices; the last of them is tried again next."""
        positions = self.positions
        search.drop(self)
        start = 0
        for number, position in enumerate(positions):
            single = OneDevice(self.node, self.request, self.slot, number)
            move = single.open(search, start)
            if move is not Move.DOWN:
                return move
            single.take(search, position)
            start = position + 1
        return Move.FAILED


class AllDevices(Choice):
    """All devices of an All slot, in order; no other order or selection is tried."""

    __slots__ = ()

    def open(self, search: SearchState) -> Move:
        """Pick them, and go on with the next request."""
        slot, request, picked = self.slot, self.request, search.picked
        positions = search.problem.listed[slot.index]
        usable = search.problem.usable[slot.index]
        self.key = search.state_key(request, slot, 0, usable & ~picked.blocked(slot))
        if self.key in search.failed_states:
            return Move.FAILED
        self.before = picked.before(slot)
        for number, position in enumerate(positions):
            if not self._take(search, position, usable & ~picked.blocked(slot)):
                picked.restore(slot, self.before, number)
                search.remember_failure(self.key)
                return Move.FAILED
            search.step()
        self.positions = positions
        search.stack.append(self)
        return enter(search, self.node + 1)

    def retry(self, search: SearchState) -> Move:
        self.undo(search)
        return self.fail(search)

    def _take(self, search: SearchState, position: int, free: int) -> bool:
        slot, picked = self.slot, search.picked
        bit = 1 << position
        if not bit & free:
            picked.refused += 1
            return False
        if picked.allowed(slot, bit) == bit:
            return picked.take(slot, position)
        # Counters come before constraints: without them it is an ordinary failure.
        if bit & picked.special and picked.charge(slot, position) in (Stage.GROUPS, Stage.COUNTERS):
            return False
        name = picked.incomparable(slot, position)
        if name:
            raise search.problem.attribute_failure(slot, position, name)
        claim = search.problem.claims[slot.claim]
        device = search.problem.pools.device(position).id
        raise claim_error(
            claim,
            f", request {slot.name}: cannot add device {device} because a claim constraint would not be satisfied",
        )
