"""What users read about a pod that is not bound: its condition PodScheduled=False, and a warning beside it.

Rules of this module
  1. A condition is written only when it differs from what the pod has, or from what we last asked the API server for.
  2. A condition that a broken server or webhook did not store is written again, with backoff, while it still holds.
  3. A wait is no failure: it changes the condition and makes no event.
  4. Of one namespace `_under_way_max` conditions are under way; the others wait, and what is written is what holds by
     then. They are for people, who lose nothing by it: thousands of them at once took the API server from everybody's
     bindings (p99 884 ms of another namespace's pods; benchmarks/README.md, table 4). Who nominates a node does not
     wait.
  5. A condition that would change in its numbers only ("437 cannot allocate" to "436") is written at once for the
     `_REWRITES_AT_ONCE` first of a namespace, then one each `_REWRITE_EVERY_MS`: they change whenever any pod comes or
     goes, for every pod that waits.

Not here: the texts (`scheduling_cycle`, `troubles`, plugins); the fence that goes with a condition (`taking_back`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

from msgspec import Struct

from scheduler.core.ground.inputs import WriteAccepted, WriteOutcomeUnknown, WriteRejected
from scheduler.core.ground.outbox import WriteAnswer
from scheduler.core.reports.allowances import Allowances
from scheduler.core.state.ground import Ground, Part
from scheduler.framework.decisions import PatchPodGroupStatus, PatchPodStatus
from scheduler.framework.status import Status
from scheduler.model.keys import NodeName, PodGroupKey, PodUid
from scheduler.model.objects import Pod

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
_REWRITES_AT_ONCE: Final = 50
_REWRITE_EVERY_MS: Final = 200
_NUMBER: Final = re.compile(r"\d+")
_BROKEN: Final = 500  # and above: the server or somebody's webhook failed, and may not fail again

Key = TypeVar("Key", PodUid, PodGroupKey)
Patch = TypeVar("Patch", PatchPodStatus, PatchPodGroupStatus)


class Refusal(Struct, frozen=True):
    """What a condition says."""

    reason: str
    message: str


def reason_of(failure: Status) -> Refusal:
    """What the condition says of a pod that is given up for `failure`."""
    return Refusal(UNSCHEDULABLE if failure.is_rejection else SCHEDULER_ERROR, failure.message)


class Reporter(Part, ABC, Generic[Key, Patch]):
    """Writes the conditions of objects of one kind (rules 2 and 4); one that is refused for good is forgotten."""

    _under_way_max = 1

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._asked: Final[dict[Key, Refusal]] = {}  # what each object is to say, while it may not be observed yet
        self._under_way: Final[dict[str, int]] = {}  # by namespace
        # Whose condition waits for its turn, by namespace, and which attempt it is.
        self._waiting: Final[dict[str, dict[Key, int]]] = {}

    @abstractmethod
    def _due(self, key: Key, attempt: int) -> Patch | None:
        """What is to be written now; None: nothing any more."""

    def forget(self, key: Key) -> None:
        """Nothing is to be said of it."""
        self._asked.pop(key, None)

    def _wait(self, namespace: str, key: Key, attempt: int) -> None:
        self._waiting.setdefault(namespace, {}).setdefault(key, attempt)
        self._send_next(namespace)

    def _send_next(self, namespace: str) -> None:
        """Write the conditions that wait, as many as may be under way."""
        while self._under_way.get(namespace, 0) < self._under_way_max and (taken := self._take(namespace)):
            if (patch := self._due(*taken)) is not None:
                self._under_way[namespace] = self._under_way.get(namespace, 0) + 1
                self._outbox.ask(patch, partial(self._given_back, namespace, *taken, patch))

    def _take(self, namespace: str) -> tuple[Key, int] | None:
        """Whose condition is written next, and for which time; None when nobody's is, or not yet."""
        return self._first(self._waiting, namespace)

    @staticmethod
    def _first(waiting: dict[str, dict[Key, int]], namespace: str) -> tuple[Key, int] | None:
        """Whoever waits longest, and does no longer."""
        if (keys := waiting.get(namespace)) is None:
            return None
        key = next(iter(keys))
        attempt = keys.pop(key)
        if not keys:
            del waiting[namespace]
        return key, attempt

    def _given_back(self, namespace: str, key: Key, attempt: int, patch: Patch, answer: WriteAnswer) -> None:
        self._under_way[namespace] -= 1
        if not self._under_way[namespace]:
            del self._under_way[namespace]
        self._patched(key, attempt, patch, partial(self._wait, namespace, key, attempt + 1), answer)
        self._send_next(namespace)

    def _patched(self, key: Key, attempt: int, patch: Patch, again: Callable[[], None], answer: WriteAnswer) -> None:
        if isinstance(answer, WriteAccepted):
            self._accepted(key, patch)
        elif not self._still_holds(key, patch):
            return
        elif isinstance(answer, WriteOutcomeUnknown) or (isinstance(answer, WriteRejected) and answer.code >= _BROKEN):
            at_ms = self._timers.now_ms + self._settings.backoff_ms(attempt)
            self._timers.at(at_ms, partial(self._patch_again, key, patch, again))
        else:
            self.forget(key)  # the next report writes it again

    def _accepted(self, key: Key, patch: Patch) -> None:
        """It is stored."""

    def _patch_again(self, key: Key, patch: Patch, again: Callable[[], None]) -> None:
        if self._still_holds(key, patch):
            again()

    def _still_holds(self, key: Key, patch: Patch) -> bool:
        return self._asked.get(key) == Refusal(patch.reason, patch.message)


class PodConditions(Reporter[PodUid, PatchPodStatus]):
    """Reports on pods that are not bound."""

    _under_way_max = 2

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._sent: Final[dict[PodUid, Refusal]] = {}  # the condition that was sent last
        self._owed: Final[dict[PodUid, str]] = {}  # pods of which an event is to be recorded, and what it says
        self._rewrites: Final[dict[str, dict[PodUid, int]]] = {}  # of rule 5, as those that wait
        self._timed: Final[set[str]] = set()  # namespaces whose next one has its time
        self._may_rewrite: Final = Allowances(_REWRITES_AT_ONCE, _REWRITE_EVERY_MS)

    def report(self, pod: Pod, why: Refusal, nominated_node: NodeName | None = None, note: str = "") -> None:
        """The pod was not placed: an event and the condition. The event waits with a condition that waits (rule 4).

        Args:
            note: What the event says, where it is not what the condition says.
        """
        self._owed[pod.uid] = note or why.message
        self._set(pod, why, nominated_node)
        if not self._is_waiting(pod):
            self._record_event(pod)

    def amend(self, pod: Pod, why: Refusal) -> None:
        """The condition says something else by now, and no event does."""
        self._set(pod, why, None)

    def _record_event(self, pod: Pod) -> None:
        if (note := self._owed.pop(pod.uid, None)) is not None:
            self._outbox.report_on_pod(pod, "Warning", "FailedScheduling", "Scheduling", note)

    def report_wait(self, uid: PodUid, why: Refusal) -> None:
        """What a pod that is being bound waits for."""
        pod = self._store.pods.get(uid)
        if pod is not None and pod.node_name is None:
            self._set(pod, why, None)

    def report_trouble(self, uid: PodUid, text: str) -> None:
        """Which failing request keeps a pod from being bound; reported once."""
        pod, why = self._store.pods.get(uid), Refusal(SCHEDULER_ERROR, text)
        if pod is not None and pod.node_name is None and self._asked.get(uid) != why:
            self.report(pod, why)

    def expect(self, uid: PodUid, why: Refusal) -> None:
        """The condition goes with somebody else's write."""
        self._asked[uid] = self._sent[uid] = why

    def forget(self, key: PodUid) -> None:
        """The pod is bound or gone."""
        super().forget(key)
        self._sent.pop(key, None)
        self._owed.pop(key, None)

    def _set(self, pod: Pod, why: Refusal, nominated_node: NodeName | None) -> None:
        is_nominated = nominated_node is None or nominated_node == pod.status.nominated_node_name
        if is_nominated and (self._asked.get(pod.uid) or condition_of(pod)) == why:
            return
        self._asked[pod.uid] = why
        namespace, before = pod.key.namespace, self._sent.get(pod.uid) or condition_of(pod)
        if nominated_node is not None:
            self._nominate(_patch_of(pod, why, nominated_node), 1)
        elif before is not None and _is_same_but_for_numbers(before, why):
            self._rewrites.setdefault(namespace, {})[pod.uid] = 1
            self._send_next(namespace)
        else:
            self._wait(namespace, pod.uid, 1)

    def _is_waiting(self, pod: Pod) -> bool:
        return any(pod.uid in waiting.get(pod.key.namespace, ()) for waiting in (self._waiting, self._rewrites))

    def _due(self, key: PodUid, attempt: int) -> PatchPodStatus | None:
        pod, why = self._store.pods.get(key), self._asked.get(key)
        if pod is None or why is None or pod.node_name is not None:
            self._owed.pop(key, None)
            return None
        self._record_event(pod)
        if attempt == 1 and (self._sent.get(key) or condition_of(pod)) == why:
            return None
        self._sent[key] = why
        return _patch_of(pod, why, None)

    def _take(self, namespace: str) -> tuple[PodUid, int] | None:
        """What is new comes first."""
        if (taken := super()._take(namespace)) is not None:
            return taken
        if namespace in self._rewrites and self._may_rewrite.take(namespace, self._timers.now_ms):
            return self._first(self._rewrites, namespace)
        if namespace in self._rewrites and namespace not in self._timed:
            self._timed.add(namespace)
            self._timers.at(self._may_rewrite.next_ms(namespace), partial(self._rewrite, namespace))
        return None

    def _rewrite(self, namespace: str) -> None:
        self._timed.discard(namespace)
        self._send_next(namespace)

    def _nominate(self, patch: PatchPodStatus, attempt: int) -> None:
        self._sent[patch.uid] = Refusal(patch.reason, patch.message)
        again = partial(self._nominate, patch, attempt + 1)
        self._outbox.ask(patch, partial(self._patched, patch.uid, attempt, patch, again))


def without_numbers(message: str) -> str:
    """The reasons that a sentence gives, without how many nodes each is of."""
    return _NUMBER.sub("", message)


def _is_same_but_for_numbers(one: Refusal, other: Refusal) -> bool:
    return one.reason == other.reason and without_numbers(one.message) == without_numbers(other.message)


def _patch_of(pod: Pod, why: Refusal, nominated_node: NodeName | None) -> PatchPodStatus:
    return PatchPodStatus(pod.key, pod.uid, why.reason, why.message, nominated_node, generation=pod.metadata.generation)


def condition_of(pod: Pod) -> Refusal | None:
    """What PodScheduled=False says, as observed."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return Refusal(condition.reason, condition.message)
    return None
