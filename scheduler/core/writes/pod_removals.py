"""Removing a pod that makes room for another one: the condition that says so, then the deletion, to a known outcome.

Rules of this module
  1. The condition DisruptionTarget is stored before the deletion is sent: whoever sees the pod terminate knows why,
     also this scheduler after a restart.
  2. A write without a known outcome is sent again until it is known, or nobody wants it any more (`pending_writes`).
     Both can be repeated: they are for one uid.
  3. A pod that is gone, or was replaced by its namesake, is removed. So is one that is being deleted already.

Not here: who is removed and what follows (`preemptions`).

Source: PreemptPod of pkg/scheduler/framework/preemption/executor.go v1.36.3. Differs on purpose: the deletion has the
pod's uid as precondition, and is not sent before the condition is known to be stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scheduler.core.ground.inputs import WriteAccepted, WriteRejected
from scheduler.core.ground.outbox import WriteAnswer
from scheduler.core.writes.pending_writes import Overtaken, PendingWrite, PendingWrites, Settled, WriteOutcome
from scheduler.framework.decisions import DeletePod, PatchPodDisruption, PodRemoval
from scheduler.model.objects import Pod


class PodRemovals(PendingWrites[PodRemoval]):
    """All removals that are not settled yet: of each the condition first, then the deletion."""

    def remove(self, pod: Pod, why: str, is_wanted: Callable[[], bool], settled: Settled) -> None:
        """Announce the pod's disruption and delete it.

        Args:
            is_wanted: Asked before each request but the first.
            settled: Called with the outcome of the deletion; a refusal may be that of the condition.
        """
        disruption = PatchPodDisruption(pod.key, pod.uid, why, pod.metadata.generation)
        deletion: PendingWrite[PodRemoval] = PendingWrite(DeletePod(pod.key, pod.uid), ((None, settled),), is_wanted)
        self._begin(PendingWrite(disruption, ((None, partial(self._announced, deletion, settled)),), is_wanted))

    def _announced(self, deletion: PendingWrite[PodRemoval], settled: Settled, outcome: WriteOutcome) -> None:
        is_stored = isinstance(outcome, WriteAccepted)
        if is_stored and not self._is_overtaken(deletion.decision) and deletion.is_wanted():
            self._begin(deletion)
        else:
            settled(outcome if isinstance(outcome, WriteRejected) else Overtaken(may_have_landed=False))

    def _is_overtaken(self, decision: PodRemoval) -> bool:
        pod = self._store.pods.get(decision.uid)
        return pod is None or pod.is_deleting

    def _look(self, pursuit: PendingWrite[PodRemoval], answer: WriteAnswer) -> None:
        self._overtaken(pursuit)  # a uid that is gone does not come back
