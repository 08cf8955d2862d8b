"""The backtracking search: which device for which request.

Order, the same as upstream's: claims, requests, alternatives of a request in order, combinations (not
permutations) of devices in the node's order. The first solution is the answer. Shortcuts cut branches that
hold no solution; they change how long it takes and nothing else.

Rules of the search
  1. Everything a pick changes is either in the choice (masks, restored by assignment) or in the journal.
  2. Some failures abort the pod (a selector error; a constraint that refuses a device of an All request). While one can
     still be reached, search exactly as upstream does, so that we find it too. Only states already known to end without
     such a failure are skipped.
  3. `steps` counts as upstream's allocateOne calls when no shortcut is on. The budget bounds steps plus
     refused picks.

The loop keeps its own stack: claims x 32 picks are deeper than Python's recursion limit allows.

Not here: the choices on the stack (`choices`), what they share (`search_state`), which devices a slot accepts
(`slot_masks`), what cutting needs to know (`bounds`).
Source: `allocateOne`, `allocateDevice` of structured/internal/incubating/allocator_incubating.go v0.36.3.
"""

from __future__ import annotations

from typing import Final

from allocator.census import Census
from allocator.choices import TRIAL_CONSTRAINT_WORK, TRIAL_SLOT_WORK, TRIAL_WORK, enter
from allocator.features import Shortcuts
from allocator.meter import NEVER, Meter, PausedError
from allocator.problem import Problem
from allocator.requests import Slot
from allocator.search_state import Choice, Move, SearchState

MOVE_WORK: Final = 60
MOVE_SLOT_WORK: Final = 3
"""A move of the search, and so much for each slot of the plan."""


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
        slots = len(problem.plan.slots)
        pairs = sum(len(slot.constraints) for slot in problem.plan.slots)
        self.problem: Final = problem
        self.state: Final = SearchState(
            problem,
            budget_steps=budget_steps,
            shortcuts=shortcuts,
            meter=meter if meter is not None else Meter(),
            trial_work=TRIAL_WORK + TRIAL_SLOT_WORK * slots + TRIAL_CONSTRAINT_WORK * pairs,
            census=census,
        )
        self._move_work: Final = MOVE_WORK + MOVE_SLOT_WORK * slots
        self._paused_at: Move | None = None

    def run(self, pause_at: int = NEVER) -> bool | None:
        """Whether a solution was found; None when the search paused, and goes on with the next call.

        It pauses where the meter says so, and

        Args:
            pause_at: with the first move after so many steps and refused picks, those of earlier calls included.

        Raises:
            AllocationError: something that aborts the pod was reached.
            ExhaustedError: the budget is used up.
        """
        state = self.state
        meter = state.meter
        # Only where nothing is half done may the search be left, so the meter allows all but there.
        state.stop_at = meter.stop_at
        meter.allow_all()
        try:
            return self._run(pause_at)
        except PausedError:
            self._paused_at = Move.DOWN  # always in `OneDevice.advance`, of the choice on top
            return None
        finally:
            meter.stop_at = state.stop_at

    def _run(self, pause_at: int) -> bool | None:
        state, meter, move_work = self.state, self.state.meter, self._move_work
        picked, stack = state.picked, state.stack
        move = self._paused_at
        if move is None:
            if state.is_hopeless():
                return False
            move = enter(state, 0)
        while move is not Move.DONE:
            if state.steps + picked.refused >= pause_at or (meter.spent >= state.stop_at and not meter.is_fresh):
                self._paused_at = move
                return None
            meter.spent += move_work
            if move is Move.DOWN:
                move = stack[-1].advance(state)
            elif stack:
                move = self._go_back(stack[-1], move)
            else:
                return False
            meter.is_fresh = False
        return True

    def _go_back(self, choice: Choice, move: Move) -> Move:
        """Something failed behind `choice`, the one on top of the stack: make its next choice, or drop it.

        Four requests, and the last finds no device of the NUMA node that `gpu` chose (`conflict` says so):

            stack      gpu: 0    nic: 0    disk: 0          numa: none left
            conflict   gpu                                  = {gpu}

        disk and nic are not in the conflict: whatever they choose, the last request would fail in the same way. They
        are dropped, one call for each, and none of their other devices is tried. gpu is in the conflict, so it tries
        its next device. When it has none left it fails itself; its conflict is then that of all that failed behind it,
        and the earlier requests that can take something from gpu, without gpu.

        At the first failure of a search the bounds are made, with which everything that follows is cut.
        """
        state = self.state
        request = choice.request
        if move is Move.EXCEEDED and request.claim == state.exceeded_claim:
            return choice.exceed(state)
        # Where a choice itself can abort the pod its others must be made all the same.
        can_jump = state.shortcuts.backjump and not state.dangerous >> request.index & 1
        if can_jump and not state.conflict >> request.index & 1:
            state.drop(choice)
            return Move.FAILED
        if not state.learn():
            state.stack.clear()
            return Move.FAILED
        choice.conflicts |= state.conflict
        return choice.retry(state)

    def picks(self) -> list[tuple[Slot, int]]:
        """(slot, position of the device) in the order of the results, after a successful run."""
        return [(choice.slot, position) for choice in self.state.stack for position in choice.positions]

    @property
    def steps(self) -> int:
        return self.state.steps

    @property
    def spent(self) -> int:
        """How much of the budget is used up."""
        return self.state.spent

    @property
    def size(self) -> int:
        """Failed states that are remembered."""
        return len(self.state.failed_states)

    def forget(self) -> None:
        """Drop the failed states."""
        self.state.failed_states.clear()
