"""Writes on a pod's status on which something else depends, each driven to a known outcome.

The kubelet reads `extendedResourceClaimStatus` and `nodeAllocatableResourceClaimStatuses` there: they belong to one
node, and must be there before the pod is bound. A fence (`taking_back`) must be there before something is taken from
the pod. A write that is lost may still arrive later, when the pod has been given up on that node and placed on another;
its own condition stops it, the pod's revision.

Rules of this module
  1. A write without a known outcome is sent again unchanged until its outcome is known: accepted, or the pod has
     another revision, or is gone. Nobody gives up on it before that.
  2. The sender is notified once, after the pod in the answer has been observed.
  3. A server that accepts the write and drops the field is refused: asking again would not help.

See docs/adr/0014-hold-before-uid.md and docs/adr/0018-node-allocatable-resources.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteRejected
from scheduler.core.ground.outbox import GONE, Answer
from scheduler.core.reports.troubles import Troubles
from scheduler.core.state.ground import Ground
from scheduler.framework.decisions import PatchExtendedResources, PatchPodStatus, PodNote, ReadPod
from scheduler.model.objects import Pod
from scheduler.model.resources import take_the_same

Refusal: TypeAlias = WriteConflicted | WriteRejected
DROPPED: Final = (
    "the API server dropped status.extendedResourceClaimStatus: its feature gate DRAExtendedResource is off "
    "(on by default since Kubernetes 1.36)"
)
DROPPED_NODE_ALLOCATABLE: Final = (
    "the API server dropped status.nodeAllocatableResourceClaimStatuses: its feature gate "
    "DRANodeAllocatableResources is off, but ResourceSlices say what devices take of their nodes; turn it on, have "
    "them published again, or set featureGates: {DRANodeAllocatableResources: false} for this scheduler"
)


@dataclass(slots=True, eq=False)
class _Write:
    decision: PodNote | PatchPodStatus  # the latter with an expected revision
    settled: Callable[[Refusal | None], None]
    is_doubtful: bool = False
    refusal: Refusal | None = None
    attempts: int = 0


class PodWrites:
    """Sends the writes; keeps nothing but what waits for an answer or a timer."""

    def __init__(self, ground: Ground, troubles: Troubles) -> None:
        self._outbox: Final = ground.outbox
        self._retry: Final = ground.retry
        self._store: Final = ground.store
        self._troubles: Final = troubles

    def send(self, decision: PodNote | PatchPodStatus, settled: Callable[[Refusal | None], None]) -> None:
        """Send a write; `settled` is called when its outcome is known, with None or the refusal."""
        self._dispatch(_Write(decision, settled))

    def _dispatch(self, write: _Write) -> None:
        if write.is_doubtful and self._is_overtaken(write):
            self._troubles.over(write.decision)
            write.settled(None)  # it landed before, or never will: whoever asks looks at the pod again
            return
        write.attempts += 1
        self._outbox.ask(write.decision, partial(self._answered, write))

    def _is_overtaken(self, write: _Write) -> bool:
        pod = self._store.pods.get(write.decision.uid)
        assert write.decision.expect_revision is not None
        return pod is None or pod.metadata.revision > write.decision.expect_revision

    def _answered(self, write: _Write, answer: Answer) -> None:
        match answer:
            case WriteAccepted(pod=pod):
                lost = _dropped(write.decision, pod) if pod is not None else None
                write.settled(
                    WriteRejected(answer.id, 0, "Dropped", lost, is_configuration=True) if lost is not None else None
                )
            case WriteConflicted():
                write.refusal = answer
                self._read(write)
            case WriteRejected(code=code) if code == GONE:
                write.refusal = answer
                self._read(write)
            case WriteRejected():
                if write.is_doubtful or answer.is_retriable:
                    self._retry(partial(self._dispatch, write), write.attempts, is_hopeless=not answer.is_retriable)
                else:
                    write.settled(answer)
            case _:
                write.is_doubtful = True
                self._retry(partial(self._dispatch, write), write.attempts)

    def _read(self, write: _Write) -> None:
        """The pod has moved, or is gone: a read shows which."""
        self._outbox.ask(ReadPod(write.decision.pod, write.decision.uid), partial(self._pod_read, write))

    def _pod_read(self, write: _Write, answer: Answer) -> None:
        if isinstance(answer, WriteAccepted) or (isinstance(answer, WriteRejected) and answer.code == GONE):
            write.settled(write.refusal)
        else:
            write.attempts += 1
            self._retry(partial(self._read, write), write.attempts)


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
