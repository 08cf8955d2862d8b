"""What the choices of one search share: picks, budget, what was learned from failures, and the stack.

Not here: the choices (`choices`), the loop (`search`), which bounds there are (`bounds`).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from allocator.requests.requests import RequestPlan, Slot
from allocator.search.bounds import Bounds
from allocator.search.constraints import in_reach
from allocator.search.counter_bounds import CounterBounds
from allocator.search.picked import Before, Picked
from allocator.search.problem import Problem
from allocator.search.share_bounds import shares_suffice
from allocator.values.features import Shortcuts
from allocator.values.meter import NEVER, Meter

_FAILED_STATES_MAX: Final = 200_000
_PLAIN: Final = Shortcuts.none()
MOVE_WORK: Final = 60
MOVE_SLOT_WORK: Final = 3
"""A move of the search, and so much for each slot of the plan."""
TRIAL_WORK: Final = 60
TRIAL_SLOT_WORK: Final = 12
TRIAL_CONSTRAINT_WORK: Final = 30
"""Trying a device, and so much for each slot, and for each constraint of each: it looks ahead at all later requests."""


class ExhaustedError(Exception):
    """The budget is used up."""


class Move(Enum):
    """What came of a move."""

    DOWN = 1
    """A choice was put on the stack; go on with it."""
    DONE = 2
    FAILED = 3
    EXCEEDED = 4
    """More than 32 devices for one claim, whichever devices are picked: fewer are needed further up."""


class Choice:
    """A choice that was made and can be taken back.

    Attributes:
        node: Where in the order of requests and claims it stands.
        positions: Devices that are picked now for the slot; `before` is the state before them.
        key: Names the state in which it was made, None where failures are not remembered.
    """

    __slots__ = ("before", "key", "node", "positions", "request", "slot")

    def __init__(self, node: int, request: RequestPlan, slot: Slot) -> None:
        self.node: Final = node
        self.request: Final = request
        self.slot = slot
        self.positions: tuple[int, ...] = ()
        self.before: Before = (0, 0, 0)
        self.key: object = None

    def advance(self, search: SearchState) -> Move:
        """Make the next choice; nothing is picked. With none left it goes from the stack, and has failed."""
        raise NotImplementedError

    def retry(self, search: SearchState) -> Move:
        """Take the choice back, because what follows it failed, and make the next."""
        raise NotImplementedError

    def exceed(self, search: SearchState) -> Move:
        """Whatever follows needs too many devices: that holds for the next choice, too."""
        search.drop(self)
        return Move.EXCEEDED

    def undo(self, search: SearchState) -> None:
        """Restore the state before the picks."""
        if self.positions:
            search.picked.restore(self.slot, self.before, len(self.positions))
            self.positions = ()

    def fail(self, search: SearchState) -> Move:
        """Nothing is left to try: from the state in which the choice was made there is no solution."""
        search.stack.pop()
        search.remember_failure(self.key)
        return Move.FAILED


class SearchState:
    """See the module's text.

    Attributes:
        steps: As upstream's allocateOne calls when no shortcut is on.
        stop_at: Where the meter pauses the search.
        free_from: From this request on nothing can abort the pod, so branches may be cut (rule 2 of `search`).
        bounds: Made at the first failure.
        exceeded_claim: The claim of the last EXCEEDED.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        budget_steps: int,
        shortcuts: Shortcuts,
        meter: Meter | None = None,
    ) -> None:
        slots = len(problem.plan.slots)
        pairs = sum(len(slot.constraints) for slot in problem.plan.slots)
        self.move_work: Final = MOVE_WORK + MOVE_SLOT_WORK * slots
        self.trial_work: Final = TRIAL_WORK + TRIAL_SLOT_WORK * slots + TRIAL_CONSTRAINT_WORK * pairs
        self.problem: Final = problem
        self.shortcuts: Final = shortcuts
        self.meter: Final = meter if meter is not None else Meter()
        self.stop_at = NEVER
        self.picked: Final = Picked(problem)
        self.stack: Final[list[Choice]] = []
        self.nodes: Final[list[RequestPlan | None]] = []
        for claim in problem.plan.claims:
            self.nodes.extend(claim.requests)
            self.nodes.append(None)
        self.last: Final = len(problem.plan.requests) - 1
        self.free_from: Final = self._free_from()
        self._budget: Final = budget_steps
        self._may_learn: Final = shortcuts != _PLAIN
        self.failed_states: Final[set[object]] = set()
        self.bounds: Bounds | None = None
        self._counter_bounds: CounterBounds | None = None
        self.exceeded_claim = -1
        self.steps = 0

    def _free_from(self) -> int:
        return max(
            (
                slot.request + 1
                for slot in self.problem.plan.slots
                if self.problem.doubtful[slot.index] or (slot.is_all and self._can_be_refused(slot))
            ),
            default=0,
        )

    def _can_be_refused(self, slot: Slot) -> bool:
        """Whether a constraint could refuse a device of an All slot before an ordinary failure does."""
        if not slot.constraints:
            return False
        problem = self.problem
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
            or any(not self.picked.states[slot.claim][index].accepts_all(slot, mask) for index in slot.constraints)
        )

    @property
    def spent(self) -> int:
        """How much of the budget is used up."""
        return self.steps + self.picked.refused

    def step(self) -> None:
        self.steps += 1
        if self.steps + self.picked.refused > self._budget:  # `spent`, without a call on the hottest path
            raise ExhaustedError

    def drop(self, choice: Choice) -> None:
        """Take the choice on top of the stack back for good."""
        choice.undo(self)
        self.stack.pop()

    def is_hopeless(self) -> bool:
        """Whether some request cannot be served even alone."""
        if not self.shortcuts.forward_check or self.free_from > 0:
            return False
        problem = self.problem
        for request in problem.plan.requests:
            if not any(
                problem.usable[slot.index].bit_count() >= problem.count(slot)
                and (not slot.is_all or problem.listed[slot.index])
                for slot in request.slots
            ):
                return True
        return False

    # --- what is learned from failures ------------------------------------------------------------------

    def learn(self) -> bool:
        """Make the bounds, at the first failure; False when they show that there is no solution at all."""
        if self.bounds is None and self._may_learn:
            self.bounds = Bounds(self.problem, self.picked)
            return not self.shortcuts.matching or bool(self.free_from) or shares_suffice(self.problem)
        return True

    def state_key(self, request: RequestPlan, slot: Slot, number: int, rest: int) -> object:
        """Everything the outcome of picking from here on depends on; None where failures are not remembered."""
        bounds, picked = self.bounds, self.picked
        if bounds is None or not self.shortcuts.memo:
            return None
        return (
            slot.index,
            number,
            rest,
            bounds.picks_that_matter(request),
            picked.results[slot.claim] if bounds.is_limited(slot.claim) else 0,
            tuple([state.state() for state in picked.states[slot.claim]]),
            picked.counters.state(bounds.counters_that_matter(slot.request)),
            picked.shares.state(bounds.shares_that_matter(slot.request)),
        )

    def remember_failure(self, key: object) -> None:
        """There is no solution in this state, and nothing aborts the pod."""
        if key is not None and len(self.failed_states) < _FAILED_STATES_MAX:
            self.failed_states.add(key)

    # --- cutting ----------------------------------------------------------------------------------------

    def in_reach(self, slot: Slot, need: int, allowed: int) -> int:
        """The devices without those that cannot be among as many as the slot needs under its constraints."""
        if need > 1 or self.bounds is not None:
            for index in slot.constraints:
                allowed = in_reach(self.picked.states[slot.claim][index], slot, allowed, need)
        return allowed

    def counters_suffice(self, slot: Slot, need: int, allowed: int) -> bool:
        if not self.shortcuts.counter_bounds or (need == 1 and slot.request == self.last):
            return True
        if self._counter_bounds is None:
            self._counter_bounds = CounterBounds(self.problem, self.picked.counters)
        return self._counter_bounds.suffice(slot, need, allowed, self.picked.devices)

    def twins(self, request: RequestPlan, position: int) -> int:
        """Devices that would fail as this one did; none where that is not known."""
        if self.bounds is None or not self.shortcuts.symmetry or request.index < self.free_from:
            return 0
        return self.bounds.twins(position)
