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

from allocator.requests.requests import Slot
from allocator.search.choices import enter
from allocator.search.search_state import Choice, Move, SearchState
from allocator.values.meter import NEVER, PausedError


class Search(SearchState):
    """One search. Make it, `run` it (again while it pauses), read `picks`."""

    _paused_at: Move | None = None

    def run(self, pause_at: int = NEVER) -> bool | None:
        """Whether a solution was found; None when the search paused, and goes on with the next call.

        It pauses where the meter says so, and

        Args:
            pause_at: with the first move after so many steps and refused picks, those of earlier calls included.

        Raises:
            AllocationError: something that aborts the pod was reached.
            ExhaustedError: the budget is used up.
        """
        meter = self.meter
        # Only where nothing is half done may the search be left, so the meter allows all but there.
        self.stop_at = meter.stop_at
        meter.allow_all()
        try:
            return self._run(pause_at)
        except PausedError:
            self._paused_at = Move.DOWN  # always in `OneDevice.advance`, of the choice on top
            return None
        finally:
            meter.stop_at = self.stop_at

    def _run(self, pause_at: int) -> bool | None:
        picked, stack, meter, stop_at, move_work = self.picked, self.stack, self.meter, self.stop_at, self.move_work
        move = self._paused_at
        if move is None:
            if self.is_hopeless():
                return False
            move = enter(self, 0)
        while move is not Move.DONE:
            if self.steps + picked.refused >= pause_at or (meter.spent >= stop_at and not meter.is_fresh):
                self._paused_at = move
                return None
            meter.spent += move_work
            if move is Move.DOWN:
                move = stack[-1].advance(self)
            elif stack:
                move = self._go_back(stack[-1], move)
            else:
                return False
            meter.is_fresh = False
        return True

    def _go_back(self, choice: Choice, move: Move) -> Move:
        """Something failed behind `choice`, the one on top of the stack: make its next choice.

        At the first failure of a search the bounds are made, with which everything that follows is cut.
        """
        if move is Move.EXCEEDED and choice.request.claim == self.exceeded_claim:
            return choice.exceed(self)
        if not self.learn():
            self.stack.clear()
            return Move.FAILED
        return choice.retry(self)

    def picks(self) -> list[tuple[Slot, int]]:
        """(slot, position of the device) in the order of the results, after a successful run."""
        return [(choice.slot, position) for choice in self.stack for position in choice.positions]

    @property
    def size(self) -> int:
        """Failed states that are remembered."""
        return len(self.failed_states)

    def forget(self) -> None:
        """Drop the failed states."""
        self.failed_states.clear()
