"""What users read about a pod that is not bound: its condition PodScheduled=False, and a warning beside it.

Rules of this module
  1. A condition is written only when it differs from what the pod has, or from what we last asked the API server for.
  2. A condition that a broken server or webhook did not store is written again, with backoff, while it still holds.
  3. A wait is no failure: it changes the condition and makes no event.

Not here: the texts (`scheduling_cycle`, `troubles`, plugins); the fence that goes with a condition (`taking_back`).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import Struct

from scheduler.core.ground import Ground
from scheduler.core.inputs import WriteAccepted, WriteOutcomeUnknown, WriteRejected
from scheduler.core.outbox import Answer
from scheduler.framework.decisions import PatchPodStatus
from scheduler.framework.status import Status
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.objects import Pod

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
_BROKEN: Final = 500  # and above: the server or somebody's webhook failed, and may not fail again


class Reason(Struct, frozen=True):
    """What a condition says."""

    reason: str
    message: str


def reason_of(failure: Status) -> Reason:
    """What the condition says of a pod that is given up for `failure`."""
    return Reason(UNSCHEDULABLE if failure.is_rejection else SCHEDULER_ERROR, failure.message)


class PodConditions:
    """Reports on pods that are not bound."""

    def __init__(self, ground: Ground) -> None:
        self._store: Final = ground.store
        self._outbox: Final = ground.outbox
        self._timers: Final = ground.timers
        self._settings: Final = ground.settings
        # The condition we last asked the API server to store, while it may not be observed yet.
        self._asked: Final[dict[PodUid, Reason]] = {}

    def report(self, pod: Pod, why: Reason, nominated_node: NodeName | None = None) -> None:
        """The pod was not placed: an event and the condition."""
        self._outbox.report_on_pod(pod, "Warning", "FailedScheduling", "Scheduling", why.message)
        self._set(pod, why, nominated_node)

    def report_wait(self, uid: PodUid, why: Reason) -> None:
        """What a pod that is being bound waits for."""
        pod = self._store.pods.get(uid)
        if pod is not None and pod.node_name is None:
            self._set(pod, why, None)

    def report_trouble(self, uid: PodUid, text: str) -> None:
        """Which failing request keeps a pod from being bound; reported once."""
        pod, why = self._store.pods.get(uid), Reason(SCHEDULER_ERROR, text)
        if pod is not None and pod.node_name is None and self._asked.get(uid) != why:
            self.report(pod, why)

    def expect(self, uid: PodUid, why: Reason) -> None:
        """The condition goes with somebody else's write."""
        self._asked[uid] = why

    def forget(self, uid: PodUid) -> None:
        """The pod is bound or gone."""
        self._asked.pop(uid, None)

    def _set(self, pod: Pod, why: Reason, nominated_node: NodeName | None) -> None:
        is_nominated = nominated_node is None or nominated_node == pod.status.nominated_node_name
        if is_nominated and (self._asked.get(pod.uid) or condition_of(pod)) == why:
            return
        self._asked[pod.uid] = why
        self._patch(
            PatchPodStatus(
                pod.key, pod.uid, why.reason, why.message, nominated_node, generation=pod.metadata.generation
            ),
            1,
        )

    def _patch(self, patch: PatchPodStatus, attempt: int) -> None:
        self._outbox.ask(patch, partial(self._patched, patch, attempt))

    def _patched(self, patch: PatchPodStatus, attempt: int, answer: Answer) -> None:
        if isinstance(answer, WriteAccepted) or not self._still_holds(patch):
            return
        if isinstance(answer, WriteOutcomeUnknown) or (isinstance(answer, WriteRejected) and answer.code >= _BROKEN):
            wait_ms = self._settings.backoff_ms(attempt)
            self._timers.at(self._timers.now_ms + wait_ms, partial(self._patch_again, patch, attempt + 1))
        else:
            del self._asked[patch.uid]  # the next report writes it again

    def _patch_again(self, patch: PatchPodStatus, attempt: int) -> None:
        if patch.uid in self._store.pods and self._still_holds(patch):
            self._patch(patch, attempt)

    def _still_holds(self, patch: PatchPodStatus) -> bool:
        return self._asked.get(patch.uid) == Reason(patch.reason, patch.message)


def condition_of(pod: Pod) -> Reason | None:
    """What PodScheduled=False says, as observed."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return Reason(condition.reason, condition.message)
    return None
