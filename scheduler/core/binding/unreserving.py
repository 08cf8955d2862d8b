"""Taking back what is stored for a pod that is given up, and ending its binding cycle.

Rules of this module
  1. It begins when none of the pod's writes can land any more; its holds end then, not before.
  2. What somebody else was given too is withdrawn whole; what plugins give back follows in the next round.
  3. Rounds are bounded: what is left then is left to the pod's next attempt, or to the resource claim controller.

Not here: whether anything may be taken from a pod (`taking_back`); what becomes of the pod (`aftermath`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from scheduler.core.binding.aftermath import Aftermath
from scheduler.core.binding.binding import BindingCycle, Bindings, Stage
from scheduler.core.binding.binding_waits import BindingWaits
from scheduler.core.binding.binding_writes import BindingWrites
from scheduler.core.binding.withdrawals import Withdrawals
from scheduler.core.reports.pod_conditions import reason_of
from scheduler.core.state.ground import Ground, Part
from scheduler.core.state.store import claims_of
from scheduler.core.writes.taking_back import TakingBack
from scheduler.framework.decisions import Decision
from scheduler.framework.status import Status

_ROUNDS_MAX: Final = 6  # taking back a special claim takes two, and each conflict one more


class Unreserving(Part):
    """The last stage of binding cycles that are given up."""

    def __init__(
        self,
        ground: Ground,
        *,
        bindings: Bindings,
        waits: BindingWaits,
        writes: BindingWrites,
        taking_back: TakingBack,
        withdrawals: Withdrawals,
        aftermath: Aftermath,
    ) -> None:
        super().__init__(ground)
        self._bindings: Final = bindings
        self._waits: Final = waits
        self._writes: Final = writes
        self._taking_back: Final = taking_back
        self._withdrawals: Final = withdrawals
        self._aftermath: Final = aftermath

    def begin(self, binding: BindingCycle) -> None:
        """Nothing of this pod can land any more: free what it held, and take back what is stored for nothing."""
        binding.stage = Stage.UNRESERVE
        released = self._stakes.release(binding.uid)
        self._take_back(binding)
        self._aftermath.stake_released(released)
        self._aftermath.pod_unassumed(binding.pod, binding.node)

    def _take_back(self, binding: BindingCycle) -> None:
        binding.cycle.now_ms = self._timers.wall_ms
        binding.unreserve_rounds += 1
        if binding.unreserve_rounds <= _ROUNDS_MAX and not binding.leaves_claims:
            derive = partial(self._stored_for_nothing, binding)
            if self._taking_back.permitted(derive()):
                binding.awaited += 1
                why = reason_of(binding.failure or Status.error("binding failed"))
                self._taking_back.prepare(claims_of(binding.pod), derive, why, partial(self._send, binding))
                return
        self._waits.stop_waiting(binding)
        del self._bindings[binding.uid]
        self._aftermath.pod_failed(binding)

    def _stored_for_nothing(self, binding: BindingCycle) -> Sequence[Decision]:
        return self._withdrawals.of_pod(binding) or binding.runner.unreserve(binding.cycle, binding.node, self._view)

    def _send(self, binding: BindingCycle, decisions: tuple[Decision, ...] | None) -> None:
        if decisions is None:
            binding.leaves_claims = True  # the pod's next attempt uses them, or tries again
        for decision in decisions or ():
            self._writes.send(binding, decision, self._take_back)
        self._writes.answered(binding, self._take_back)
