"""What one input may take in the simulated world, in steps: as they are charged, and as the allocator's meter says."""

from __future__ import annotations

from typing import Final

from allocator.values.meter import STEP
from scheduler.core import group_cycles
from scheduler.core.ground.inputs import Input, TimerFired
from scheduler.core.machine import Machine
from scheduler.core.trying import group_attempt

PIECE: Final = 80
"""What begins in the last step of a budget and is not divided. The largest here: to place a pod of a group (25
steps), and with it a look at one node whose claim has a selector that was not compiled before (up to 50)."""


class BudgetError(AssertionError):
    """One input took more than its budget."""


class StepBudget:
    """Of one input, which is about to be told."""

    def __init__(self, machine: Machine) -> None:
        self._machine: Final = machine
        self._before: Final = self._counted()
        self._places: Final = sum(len(one.places.by_pod) for one in machine._gangs._searches.values())

    def _counted(self) -> tuple[int, int]:
        return self._machine.feasibility.steps, self._machine.store.inventory.meter.spent // STEP

    def check(self, given: Input) -> int:
        """Raises BudgetError. Gives how much was left."""
        most = 0  # nothing is looked for then
        if isinstance(given, TimerFired):
            settings = self._machine.settings
            is_search_turn = self._machine._has_searched
            most += PIECE + (settings.search_steps_per_turn if is_search_turn else settings.steps_per_tick)
            if self._machine.store.gangs:
                # The last pod that is tried may be a group's, which has a turn whatever is left, and takes its places
                # again before; whoever changes places in a pause has all of them judged once more.
                each = group_attempt._STEPS_TO_TAKE_AGAIN + group_attempt._STEPS_OF_PLACEMENT
                most += group_cycles._TURN_STEPS + each * self._places
        taken = max(now - before for now, before in zip(self._counted(), self._before, strict=True))
        if taken > most:
            raise BudgetError(f"{type(given).__name__} took {taken} steps; {most} are its budget")
        return most - taken
