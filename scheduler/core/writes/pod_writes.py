"""Writes on a pod's status on which something else depends, each driven to a known outcome (`pending_writes`).

The kubelet reads `extendedResourceClaimStatus` and `nodeAllocatableResourceClaimStatuses` there: they belong to one
node, and must be there before the pod is bound. A fence (`taking_back`) must be there before something is taken from
the pod. A write that is lost may still arrive later, when the pod has been given up on that node and placed on another;
its own condition stops it, the pod's revision.

A server that accepts a write and drops the field has refused it: asking again would not help. Whoever sent a write is
notified after the pod in the answer has been observed.

See docs/adr/0014-hold-before-uid.md and docs/adr/0018-node-allocatable-resources.md.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from scheduler.core.ground.inputs import WriteAccepted, WriteRejected
from scheduler.core.ground.outbox import WriteAnswer
from scheduler.core.writes.pending_writes import PendingWrite, PendingWrites
from scheduler.framework.decisions import PatchExtendedResources, PatchPodStatus, PodNote, ReadPod
from scheduler.model.objects import Pod
from scheduler.model.resources import take_the_same

PodWrite: TypeAlias = PodNote | PatchPodStatus  # the latter with an expected revision
DROPPED: Final = (
    "the API server dropped status.extendedResourceClaimStatus: its feature gate DRAExtendedResource is off "
    "(on by default since Kubernetes 1.36)"
)
DROPPED_NODE_ALLOCATABLE: Final = (
    "the API server dropped status.nodeAllocatableResourceClaimStatuses: its feature gate "
    "DRANodeAllocatableResources is off, but ResourceSlices say what devices take of their nodes; turn it on, have "
    "them published again, or set featureGates: {DRANodeAllocatableResources: false} for this scheduler"
)


class PodWrites(PendingWrites[PodWrite]):
    """All such writes that are not settled yet."""

    def _is_overtaken(self, decision: PodWrite) -> bool:
        pod = self._store.pods.get(decision.uid)
        assert decision.expect_revision is not None
        return pod is None or pod.metadata.revision > decision.expect_revision

    def _look(self, pursuit: PendingWrite[PodWrite], answer: WriteAnswer) -> None:
        self._read(pursuit, ReadPod(pursuit.decision.pod, pursuit.decision.uid))

    def _accepted(self, pursuit: PendingWrite[PodWrite], answer: WriteAccepted) -> None:
        lost = _dropped(pursuit.decision, answer.pod) if answer.pod is not None else None
        refusal = WriteRejected(answer.id, 0, "Dropped", lost, is_configuration=True) if lost is not None else None
        self._settle(pursuit, refusal or answer)


def notes_of(pod: Pod) -> tuple[object, ...]:
    """What PreBind writes into a pod's status, for one node."""
    return pod.status.extended_resource_claim_status, pod.status.node_allocatable_resource_claim_statuses


def _dropped(write: PodNote | PatchPodStatus, pod: Pod) -> str | None:
    """Why an accepted write is not what the server answered, None when it is."""
    if isinstance(write, PatchPodStatus):
        return None
    if isinstance(write, PatchExtendedResources):
        return DROPPED if pod.status.extended_resource_claim_status != write.status else None
    stored = pod.status.node_allocatable_resource_claim_statuses or ()
    return None if take_the_same(stored, write.claims) else DROPPED_NODE_ALLOCATABLE
