"""The backtracking search: which device for which request.

Order, the same as upstream's: claims, requests, alternatives of a request in order, combinations (not
permutations) of devices in the node's order. The first solution is the answer. Shortcuts cut branches that
hold no solution; they change how long it takes and nothing else.

Rules of this module
  1. Everything a pick changes is either in the frame (masks, restored by assignment) or in the journal.
  2. A branch in which a selector failure, or an All slot that a constraint refuses, could still be reached is
     searched as upstream would: such a failure aborts the pod, so it must be found. Only what is known to end
     as before, without such a failure, is skipped there (remembered states, choices that cannot matter).
  3. `steps` counts as upstream's allocateOne calls when no shortcut is on. The budget bounds steps plus
     refused picks.

The loop keeps its own stack: claims x 32 picks are deeper than Python's recursion limit allows.

Not here: which devices a slot accepts (`slot_masks`), what cutting needs to know (`bounds`).
Source: `allocateOne`, `allocateDevice` of structured/internal/incubating/allocator_incubating.go v0.36.3.
"""

from __future__ import annotations

from typing import Final

from allocator.bounds import Bounds
from allocator.census import Census, Stage
from allocator.constraints import ConstraintState, constraint_state, in_reach
from allocator.counter_bounds import CounterBounds
from allocator.counters import CounterLedger
from allocator.features import Shortcuts
from allocator.frames import Frame, Kind, Went
from allocator.journal import Journal
from allocator.meter import NEVER, Meter, PausedError
from allocator.model import RESULTS_MAX
from allocator.problem import Problem
from allocator.requests import RequestPlan, Slot, claim_error
from allocator.share_bounds import shares_suffice
from allocator.shares import ShareLedger

_MEMO_MAX: Final = 200_000
MOVE_WORK: Final = 60
MOVE_SLOT_WORK: Final = 3
"""A move of the search, and so much for each slot of the plan."""
TRIAL_WORK: Final = 60
TRIAL_SLOT_WORK: Final = 12
TRIAL_CONSTRAINT_WORK: Final = 30
"""Trying a device, and so much for each slot, and for each constraint of each."""


class ExhaustedError(Exception):
    """The budget is used up."""


class Search:
    """One search. Make it, `run` it (again while it pauses), read `picks`."""

    def __init__(
        self,
        problem: Problem,
        *,
        budget_steps: int,
        shortcuts: Shortcuts,
        meter: Meter | None = None,
        census: Census | None = None,
    ) -> None:
        self._problem: Final = problem
        self._meter: Final = meter if meter is not None else Meter()
        self._stop_at = NEVER
        # A trial looks ahead at all later requests (`Bounds.dead_end`), so it takes longer where there are many.
        slots = len(problem.plan.slots)
        pairs = sum(len(slot.constraints) for slot in problem.plan.slots)
        self._move_work: Final = MOVE_WORK + MOVE_SLOT_WORK * slots
        self._trial_work: Final = TRIAL_WORK + TRIAL_SLOT_WORK * slots + TRIAL_CONSTRAINT_WORK * pairs
        self._budget: Final = budget_steps
        self._census: Final = census
        self._shortcuts: Final = shortcuts
        self._journal: Final = Journal()
        self._stack: Final[list[Frame]] = []
        self._nodes: Final[list[RequestPlan | None]] = []
        for claim in problem.plan.claims:
            self._nodes.extend(claim.requests)
            self._nodes.append(None)
        self._picked = 0
        self._picked_of_claim: Final = [0] * len(problem.plan.claims)
        self._results: Final = [0] * len(problem.plan.claims)
        self._shares: Final = ShareLedger()
        self._counters: Final = CounterLedger(problem.pools, problem.in_use)
        self._states: Final[list[list[ConstraintState]]] = [
            [
                constraint_state(
                    constraint,
                    problem.pools,
                    lists=problem.features.list_type_attributes,
                    is_137=problem.features.is_137,
                )
                for constraint in claim.constraints
            ]
            if claim.requests
            else []
            for claim in problem.plan.claims
        ]
        self._may_learn: Final = shortcuts != Shortcuts.none()
        self._special: Final = problem.pools.counting | problem.pools.shareable | problem.sharing
        self._dangerous: Final = self._gather_dangerous()
        # From this request on nothing can abort the pod, so cutting is safe.
        self._free_from: Final = self._dangerous.bit_length()
        self._failed_states: Final[dict[object, int]] = {}
        self._last: Final = len(problem.plan.requests) - 1
        self._bounds: Bounds | None = None
        self._counter_bounds: CounterBounds | None = None
        self._conflict = 0
        self._exceeded_claim = -1
        self._refused = 0
        self._went: Went | None = None
        self.steps = 0

    def _gather_dangerous(self) -> int:
        """Requests (bits) whose devices can abort the pod when they are looked at."""
        problem = self._problem
        dangerous = 0
        for request in problem.plan.requests:
            for slot in request.slots:
                if problem.doubtful[slot.index] or (slot.is_all and self._can_be_refused(slot)):
                    dangerous |= 1 << request.index
        return dangerous

    def _can_be_refused(self, slot: Slot) -> bool:
        """Whether a constraint could refuse a device of an All slot before an ordinary failure does."""
        if not slot.constraints:
            return False
        problem = self._problem
        mask = 0
        for position in problem.listed[slot.index]:
            if not problem.usable[slot.index] >> position & 1:
                break
            mask |= 1 << position
        others = {
            index
            for other in problem.plan.slots
            if other.claim == slot.claim and other is not slot
            for index in other.constraints
        }
        return bool(mask) and (
            not others.isdisjoint(slot.constraints)
            or any(not self._states[slot.claim][index].accepts_all(mask) for index in slot.constraints)
        )

    @property
    def problem(self) -> Problem:
        return self._problem

    def run(self, pause_at: int = NEVER) -> bool | None:
        """Whether a solution was found; None when the search paused, and goes on with the next call.

        It pauses where the meter says so, and

        Args:
            pause_at: with the first move after so many steps and refused picks, those of earlier calls included.

        Raises:
            AllocationError: something that aborts the pod was reached.
            ExhaustedError: the budget is used up.
        """
        meter = self._meter
        # Only where nothing is half done may the search be left, so the meter allows all but there.
        self._stop_at = meter.stop_at
        meter.allow_all()
        try:
            return self._run(pause_at)
        except PausedError:
            self._went = Went.DOWN  # always in `_pick_next`, of the frame on top
            return None
        finally:
            meter.stop_at = self._stop_at

    def _run(self, pause_at: int) -> bool | None:
        went = self._went
        if went is None:
            if self._is_hopeless():
                return False
            went = self._enter(0)
        meter, stop_at, move_work = self._meter, self._stop_at, self._move_work
        while went is not Went.DONE:
            if self.steps + self._refused >= pause_at or (meter.spent >= stop_at and not meter.is_fresh):
                self._went = went
                return None
            meter.spent += move_work
            if went is Went.DOWN:
                went = self._advance(self._stack[-1])
            elif self._stack:
                went = self._retry(self._stack[-1], went)
            else:
                return False
            meter.is_fresh = False
        return True

    def picks(self) -> list[tuple[Slot, int]]:
        """(slot, position of the device) in the order of the results, after a successful run."""
        return [
            (frame.slot, position) for frame in self._stack if frame.slot is not None for position in frame.positions
        ]

    @property
    def size(self) -> int:
        """Failed states that are remembered."""
        return len(self._failed_states)

    def forget(self) -> None:
        """Drop the failed states."""
        self._failed_states.clear()

    @property
    def spent(self) -> int:
        """How much of the budget is used up."""
        return self.steps + self._refused

    def _is_hopeless(self) -> bool:
        """Whether some request cannot be served even alone."""
        if not self._shortcuts.forward_check or self._free_from > 0:
            return False
        problem = self._problem
        for request in problem.plan.requests:
            if not any(
                problem.usable[slot.index].bit_count() >= problem.count(slot)
                and (not slot.is_all or problem.listed[slot.index])
                for slot in request.slots
            ):
                return True
        return False

    def _step(self) -> None:
        self.steps += 1
        if self.steps + self._refused > self._budget:  # `spent`, without a call on the hottest path
            raise ExhaustedError

    # --- moves ------------------------------------------------------------------------------------------

    def _enter(self, node: int) -> Went:
        """Go on with a request, or with the next claim."""
        self._step()
        while node < len(self._nodes):
            request = self._nodes[node]
            if request is not None:
                if request.is_list:
                    self._stack.append(Frame(Kind.LIST, node, request, None))
                    return Went.DOWN
                return self._open(node, request, request.slots[0])
            node += 1
            self._step()
        return Went.DONE

    def _open(self, node: int, request: RequestPlan, slot: Slot) -> Went:
        """Start to pick devices for a slot."""
        problem = self._problem
        need = problem.count(slot)
        self._conflict = 1 << request.index
        if slot.is_all and not need:
            return Went.FAILED
        if need <= 0:
            return self._enter(node + 1)
        if self._results[slot.claim] + need > RESULTS_MAX:
            self._exceeded_claim = slot.claim
            self._conflict = (2 << request.index) - 1
            return Went.EXCEEDED
        if slot.is_all:
            return self._pick_all(node, request, slot)
        if self._can_bulk(request, slot, need):
            went = self._pick_bulk(node, request, slot, need)
            if went is not None:
                return went
        return self._push_pick(node, request, slot, 0, 0)

    def _advance(self, frame: Frame) -> Went:
        """Try the next choice of a frame whose choice is taken back."""
        if frame.kind is Kind.PICK:
            return self._pick_next(frame)
        assert frame.kind is Kind.LIST
        request = frame.request
        frame.alternative += 1
        if frame.alternative < len(request.slots):
            self._step()
            return self._open(frame.node, request, request.slots[frame.alternative])
        self._stack.pop()
        self._conflict = self._exhausted_conflict(frame)
        if frame.all_exceeded:
            self._exceeded_claim = request.claim
            return Went.EXCEEDED
        return Went.FAILED

    def _retry(self, frame: Frame, went: Went) -> Went:
        """Take the choice of a frame back, because what follows it failed, and try the next."""
        request = frame.request
        if went is Went.EXCEEDED and request.claim != self._exceeded_claim:
            went = Went.FAILED
        if frame.kind is Kind.LIST:
            if went is Went.EXCEEDED:
                frame.conflicts |= self._conflict
                return self._advance(frame)
            frame.all_exceeded = False
        elif went is Went.EXCEEDED:
            self._drop(frame)
            return went
        # Other choices here would lead to the same failures further down. Where a choice itself can abort the
        # pod they must be made all the same.
        can_jump = self._shortcuts.backjump and not self._dangerous >> request.index & 1
        if can_jump and not self._conflict >> request.index & 1:
            self._drop(frame)
            return Went.FAILED
        if self._bounds is None and self._may_learn:
            self._bounds = Bounds(self._problem, self._states, self._shares)
            if self._shortcuts.matching and not self._free_from and not shares_suffice(self._problem):
                self._stack.clear()
                return Went.FAILED
        frame.conflicts |= self._conflict
        if frame.kind is Kind.LIST:
            return self._advance(frame)
        if frame.kind is Kind.ALL:
            self._drop(frame)
            self._conflict = self._exhausted_conflict(frame)
            self._remember_failure(frame)
            return Went.FAILED
        if frame.kind is Kind.BULK:
            return self._unfold(frame)
        position = frame.positions[0]
        self._take_back(frame)
        if self._bounds is not None and self._shortcuts.symmetry and self._can_cut(request):
            frame.rest &= ~self._bounds.twins(position)
        return self._pick_next(frame)

    def _can_cut(self, request: RequestPlan) -> bool:
        """Whether branches from this request on may be cut (rule 2)."""
        return request.index >= self._free_from

    def _exhausted_conflict(self, frame: Frame) -> int:
        """Requests whose picks may be the reason why nothing is left to try in a frame."""
        bit = 1 << frame.request.index
        conflicts = frame.conflicts | self._neighbours(frame.request)
        is_first = frame.kind is Kind.LIST or (frame.number == 0 and not frame.request.is_list)
        return conflicts & ~bit if is_first else conflicts | bit

    def _neighbours(self, request: RequestPlan) -> int:
        """Earlier requests whose picks can take something away from this one."""
        if self._bounds is not None:
            return self._bounds.neighbours(request.index)
        return (1 << request.index) - 1

    # --- single devices ---------------------------------------------------------------------------------

    def _push_pick(self, node: int, request: RequestPlan, slot: Slot, number: int, start: int) -> Went:
        """Put a frame for the slot's device number `number` on the stack; devices before `start` are done."""
        problem = self._problem
        blocked = self._picked_of_claim[slot.claim] if slot.is_admin else self._picked
        rest = problem.reachable[slot.index] & ~blocked & (-1 << start)
        doubtful = rest & problem.doubtful[slot.index]
        allowed = rest & ~doubtful
        for index in slot.constraints:
            allowed = self._states[slot.claim][index].allowed(allowed)
        if self._census is not None:
            self._census.refuse(slot, rest & ~doubtful & ~allowed, Stage.CONSTRAINT)
        need = slot.count - number
        bit = 1 << request.index
        self._conflict = bit
        frame = Frame(Kind.PICK, node, request, slot)
        bounds = self._bounds
        if self._can_cut(request):
            if self._shortcuts.forward_check:
                if slot.constraints and (need > 1 or bounds is not None):
                    for index in slot.constraints:
                        allowed = in_reach(self._states[slot.claim][index], allowed, need)
                if allowed.bit_count() < need:
                    self._conflict = self._first_conflict(request, number)
                    return Went.FAILED
            if allowed & problem.pools.counting and not self._counters_suffice(slot, need, allowed):
                # The bound counts what later requests need, so any earlier pick may be in the way.
                self._conflict = (2 << request.index) - 1
                return Went.FAILED
        if bounds is not None and self._shortcuts.memo and (need > 1 or request.index < self._last):
            frame.key = self._state_key(bounds, request, slot, number, rest=allowed | doubtful)
            known = self._failed_states.get(frame.key)
            if known is not None:
                self._conflict = known if number == 0 else known | bit
                return Went.FAILED
        frame.rest = allowed | doubtful
        frame.need = need
        frame.number = number
        self._stack.append(frame)
        return Went.DOWN

    def _counters_suffice(self, slot: Slot, need: int, allowed: int) -> bool:
        if not self._shortcuts.counter_bounds or (need == 1 and slot.request == self._last):
            return True
        if self._counter_bounds is None:
            self._counter_bounds = CounterBounds(self._problem, self._counters)
        return self._counter_bounds.suffice(slot, need, allowed, self._picked)

    def _first_conflict(self, request: RequestPlan, number: int) -> int:
        bit = 1 << request.index
        conflicts = self._neighbours(request)
        return conflicts | bit if number or request.is_list else conflicts

    def _pick_next(self, frame: Frame) -> Went:
        slot = frame.slot
        assert slot is not None
        problem = self._problem
        doubtful = problem.doubtful[slot.index]
        meter = self._meter
        while frame.rest:
            if meter.spent >= self._stop_at and not meter.is_fresh:
                raise PausedError
            bit = frame.rest & -frame.rest
            position = bit.bit_length() - 1
            if bit & doubtful and not self._is_candidate(slot, position):
                frame.rest ^= bit
                meter.spent += TRIAL_WORK
                continue
            frame.rest ^= bit
            meter.spent += self._trial_work
            meter.is_fresh = False
            if not self._take(frame, slot, position, bit):
                continue
            if self._bounds is not None and self._can_cut(frame.request) and self._is_dead_end(frame, slot):
                self._take_back(frame)
                if self._shortcuts.symmetry:
                    frame.rest &= ~self._bounds.twins(position)
                continue
            self._step()
            if frame.need > 1:
                return self._push_pick(frame.node, frame.request, slot, frame.number + 1, position + 1)
            return self._enter(frame.node + 1)
        self._stack.pop()
        self._conflict = self._exhausted_conflict(frame)
        self._remember_failure(frame)
        return Went.FAILED

    def _remember_failure(self, frame: Frame) -> None:
        """From the state in which the frame was made there is no solution, and nothing aborts the pod."""
        if frame.key is not None and len(self._failed_states) < _MEMO_MAX:
            self._failed_states[frame.key] = self._conflict

    def _is_candidate(self, slot: Slot, position: int) -> bool:
        """Decide a device behind a failure; its constraints have not been looked at yet."""
        meter = self._meter
        meter.stop_at = self._stop_at
        try:
            if not self._problem.is_candidate(slot, position):
                return False
        finally:
            meter.allow_all()
        return all(self._states[slot.claim][index].allowed(1 << position) for index in slot.constraints)

    def _is_dead_end(self, frame: Frame, slot: Slot) -> bool:
        """Whether what was just picked leaves too little for the requests that follow."""
        bounds = self._bounds
        assert bounds is not None
        if not self._shortcuts.forward_check or frame.request.index == self._last:
            return False
        conflict = bounds.dead_end(
            slot,
            frame.need - 1,
            frame.positions[0] + 1,
            self._picked,
            self._picked_of_claim,
            matching=self._shortcuts.matching,
        )
        if conflict is None:
            return False
        frame.conflicts |= conflict
        return True

    def _take(self, frame: Frame, slot: Slot, position: int, bit: int) -> bool:
        """Pick a device if counters and capacity allow."""
        claim = slot.claim
        frame.mark = self._journal.mark()
        frame.picked = self._picked
        frame.picked_of_claim = self._picked_of_claim[claim]
        if bit & self._special:
            refusal = self._take_special(slot, position, bit)
            if refusal is not None:
                self._journal.undo_to(frame.mark)
                self._refused += 1
                if self._census is not None:
                    self._census.refuse(slot, bit, refusal)
                return False
        if not bit & self._problem.pools.shareable:
            self._picked |= bit
            self._picked_of_claim[claim] |= bit
        for index in slot.constraints:
            self._states[claim][index].add(position, self._journal)
        self._results[claim] += 1
        frame.positions = (position,)
        return True

    def _take_special(self, slot: Slot, position: int, bit: int) -> Stage | None:
        """Charge counters and capacity; what refuses the device, if anything."""
        problem = self._problem
        is_shareable = bit & problem.pools.shareable
        if bit & problem.pools.counting and not (is_shareable and bit & (problem.sharing | self._shares.shared)):
            pool, view, index = problem.pools.locate(position)
            amounts = view.consumption[index]
            if not self._counters.fits(pool, amounts):
                return Stage.COUNTERS
            self._counters.take(pool, amounts, self._journal)
        if is_shareable:
            consumption = problem.consumption(slot, position)
            if not consumption.fits(problem.consumed(position), self._shares.used_of(position)):
                return Stage.CAPACITY
            self._shares.take(position, consumption, self._journal)
        elif bit & problem.sharing and not problem.has_room(slot, position):
            return Stage.CAPACITY
        return None

    def _take_back(self, frame: Frame) -> None:
        """Restore the state before the frame's picks."""
        slot = frame.slot
        if slot is None or not frame.positions:
            return
        self._journal.undo_to(frame.mark)
        self._picked = frame.picked
        self._picked_of_claim[slot.claim] = frame.picked_of_claim
        self._results[slot.claim] -= len(frame.positions)
        frame.positions = ()

    def _drop(self, frame: Frame) -> None:
        """Take the frame on top of the stack back for good."""
        self._take_back(frame)
        self._stack.pop()

    def _state_key(self, bounds: Bounds, request: RequestPlan, slot: Slot, number: int, *, rest: int) -> object:
        """Everything the outcome of picking from here on depends on."""
        return (
            slot.index,
            number,
            rest,
            bounds.picks_that_matter(request, self._picked, self._picked_of_claim[slot.claim]),
            self._results[slot.claim] if bounds.is_limited(slot.claim) else 0,
            tuple([state.state() for state in self._states[slot.claim]]),
            self._counters.state(bounds.counters_that_matter(slot.request)),
            self._shares.state(bounds.shares_that_matter(slot.request)),
        )

    # --- several devices at once ------------------------------------------------------------------------

    def _can_bulk(self, request: RequestPlan, slot: Slot, need: int) -> bool:
        return need > 1 and self._shortcuts.bulk and not slot.constraints and self._can_cut(request)

    def _pick_bulk(self, node: int, request: RequestPlan, slot: Slot, need: int) -> Went | None:
        """Pick the slot's first devices together; None when some of them need a closer look."""
        blocked = self._picked_of_claim[slot.claim] if slot.is_admin else self._picked
        rest = self._problem.usable[slot.index] & ~blocked
        positions = []
        mask = 0
        for _ in range(need):
            bit = rest & -rest
            if not bit or bit & self._special:
                return None
            rest ^= bit
            mask |= bit
            positions.append(bit.bit_length() - 1)
        frame = Frame(Kind.BULK, node, request, slot)
        frame.mark = self._journal.mark()
        frame.picked = self._picked
        frame.picked_of_claim = self._picked_of_claim[slot.claim]
        frame.need = need
        frame.positions = tuple(positions)
        self._picked |= mask
        self._picked_of_claim[slot.claim] |= mask
        self._results[slot.claim] += need
        self._stack.append(frame)
        self._step()
        return self._enter(node + 1)

    def _unfold(self, frame: Frame) -> Went:
        """Replace devices that were picked together by single picks, and try others."""
        slot = frame.slot
        assert slot is not None
        positions = frame.positions
        conflict = self._conflict
        self._drop(frame)
        start = 0
        for number, position in enumerate(positions):
            went = self._push_pick(frame.node, frame.request, slot, number, start)
            if went is not Went.DOWN:
                return went
            single = self._stack[-1]
            bit = 1 << position
            single.rest &= -1 << (position + 1)
            self._take(single, slot, position, bit)
            start = position + 1
        self._conflict = conflict
        return self._retry(self._stack[-1], Went.FAILED)

    def _pick_all(self, node: int, request: RequestPlan, slot: Slot) -> Went:
        """Pick all devices of an All slot, in order; no other order or selection is tried."""
        problem = self._problem
        positions = problem.listed[slot.index]
        frame = Frame(Kind.ALL, node, request, slot)
        mark, picked, picked_of_claim = self._journal.mark(), self._picked, self._picked_of_claim[slot.claim]
        usable = problem.usable[slot.index]
        if self._bounds is not None and self._shortcuts.memo:
            free = usable & ~(picked_of_claim if slot.is_admin else picked)
            frame.key = self._state_key(self._bounds, request, slot, 0, rest=free)
            known = self._failed_states.get(frame.key)
            if known is not None:
                self._conflict = known
                return Went.FAILED
        for number, position in enumerate(positions):
            bit = 1 << position
            blocked = self._picked_of_claim[slot.claim] if slot.is_admin else self._picked
            if not self._take_one_of_all(frame, slot, position, bit, usable & ~blocked):
                self._journal.undo_to(mark)
                self._picked = picked
                self._picked_of_claim[slot.claim] = picked_of_claim
                self._results[slot.claim] -= number
                self._conflict = self._first_conflict(request, 0)
                self._remember_failure(frame)
                return Went.FAILED
            self._step()
        frame.mark, frame.picked, frame.picked_of_claim = mark, picked, picked_of_claim
        frame.positions = positions
        self._stack.append(frame)
        return self._enter(node + 1)

    def _take_one_of_all(self, frame: Frame, slot: Slot, position: int, bit: int, free: int) -> bool:
        if not bit & free:
            self._refused += 1
            if self._census is not None:
                self._census.refuse(slot, bit, Stage.IN_USE)
            return False
        states = self._states[slot.claim]
        if not all(states[index].allowed(bit) for index in slot.constraints):
            # Counters come before constraints: without them it is an ordinary failure.
            if bit & self._special and self._take_special(slot, position, bit) is Stage.COUNTERS:
                return False
            claim = self._problem.claims[slot.claim]
            device = self._problem.pools.device(position).id
            raise claim_error(
                claim,
                f", request {slot.name}: cannot add device {device} because a claim constraint would not be satisfied",
            )
        return self._take(frame, slot, position, bit)
