"""What a binding cycle sends, and the answers that it awaits before its next step.

Rules of this module
  1. `go_on` is called once, with the last awaited answer, whatever became of the cycle meanwhile.
  2. A reservation joins a write of another pod that has not left yet (`claim_writes`).

Not here: outcomes of writes (`pending_writes`), the binding itself (`binding_cycle`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from scheduler.core.binding.binding import BindingCycle
from scheduler.core.ground.inputs import WriteAccepted, WriteRejected
from scheduler.core.state.ground import Ground
from scheduler.core.writes.claim_writes import ClaimWrites
from scheduler.core.writes.pending_writes import WriteOutcome, may_have_landed
from scheduler.core.writes.pod_writes import PodWrites
from scheduler.core.writes.volume_writes import VolumeWrites
from scheduler.framework.decisions import (
    AddClaimFinalizer,
    BindPersistentVolume,
    CreateClaim,
    Decision,
    DeleteClaim,
    PatchExtendedResources,
    PatchNodeAllocatable,
    RecordEvent,
    RemoveClaimFinalizer,
    SelectNode,
    WriteClaimStatus,
)
from scheduler.model.keys import ClaimKey

GoOn: TypeAlias = Callable[[BindingCycle], None]


class BindingWrites:
    """Sends what plugins decide for pods that are being bound."""

    def __init__(self, ground: Ground, writes: ClaimWrites, pod_writes: PodWrites, volumes: VolumeWrites) -> None:
        self._outbox: Final = ground.outbox
        self._writes: Final = writes
        self._pod_writes: Final = pod_writes
        self._volumes: Final = volumes

    def send(self, binding: BindingCycle, decision: Decision, go_on: GoOn) -> None:
        """Send one decision; the cycle awaits its answer."""
        match decision:
            case CreateClaim() | AddClaimFinalizer() | WriteClaimStatus() | RemoveClaimFinalizer() | DeleteClaim():
                binding.awaited += 1
                settled = partial(self._settled, binding, decision.claim, go_on)
                if not self._writes.join(decision, settled, binding.uid):
                    self._writes.send(decision, settled, binding.uid)
            case PatchExtendedResources() | PatchNodeAllocatable():
                binding.awaited += 1
                self._pod_writes.send(decision, partial(self._settled, binding, None, go_on))
            case BindPersistentVolume() | SelectNode():
                binding.awaited += 1
                self._volumes.send(decision, partial(self._settled, binding, None, go_on))
            case RecordEvent():
                self._outbox.report(decision)
            case _:
                raise TypeError(f"plugins may not return {type(decision).__name__}: that is the core's to decide")

    def answered(self, binding: BindingCycle, go_on: GoOn) -> None:
        """One awaited answer has come; with the last one the cycle goes on."""
        binding.awaited -= 1
        if not binding.awaited:
            go_on(binding)

    def _settled(self, binding: BindingCycle, claim: ClaimKey | None, go_on: GoOn, outcome: WriteOutcome) -> None:
        if not isinstance(outcome, WriteAccepted):
            binding.is_last_write = False
        elif claim is not None and binding.fence_ms is not None:
            binding.written += (claim,)
        if not may_have_landed(outcome):
            binding.trouble += 1
        if isinstance(outcome, WriteRejected):
            binding.refusal = outcome
        self.answered(binding, go_on)
