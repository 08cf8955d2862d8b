"""Requests that keep failing: which, since when, and what the API server says; reported after a few seconds.

Retrying is right and shows nothing to anybody. So a failing request is reported: on the pods that it keeps from being
bound, in their condition and an event; to people who look after the cluster, by namespace and kind of request
(`Machine.troubles`).

Rules of this module
  1. A trouble is a run of failures of one kind of request about one object. It ends with an answer that is no failure
     (done, conflict, gone), when its write is known to be overtaken, when the object is gone, or when no further
     failure came for `_FORGOTTEN_MS`.
  2. Nothing is reported before it has lasted `_SILENT_MS`: what the next attempt mends is nobody's business. A
     request that is not answered for so long fails, too.
  3. The scheduler is not ready when a kind of request fails, nothing of that kind has been done since that is reported,
     and the failure is not admission in a single namespace. Refusals of the request itself (4xx) do not count.

Cost: nothing while all goes well, but for one look a second at the requests that are unanswered for long.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, get_args

from msgspec import Struct

from scheduler.core.ground.inputs import WriteAccepted, WriteOutcomeUnknown, WriteRejected
from scheduler.core.ground.outbox import GONE, WriteAnswer
from scheduler.core.reports.pod_conditions import PodConditions
from scheduler.core.state.ground import Ground, Part
from scheduler.framework.decisions import (
    Answered,
    ObjectOf,
    PatchPodGroupStatus,
    PatchPodStatus,
    object_of,
)
from scheduler.model.keys import ClaimKey, PodKey, PodUid, VolumeClaimKey
from scheduler.model.timestamps import format_rfc3339

_SILENT_MS: Final = 5_000
_AGAIN_MS: Final = 30_000  # on the same pods
_FORGOTTEN_MS: Final = 150_000
_LOOK_MS: Final = 1_000
_SWEEP_MS: Final = 10_000
_TEXTS_MAX: Final = 32
_UNANSWERED: Final = "the API server has not answered yet"

_KINDS: Final[tuple[type[Answered], ...]] = get_args(Answered)


@dataclass(slots=True, eq=False)
class _Run:
    """Failures of one kind of request about one object. `reported_ms`: when it was last reported on its pods."""

    since_ms: int
    last_ms: int
    message: str = ""
    is_denial: bool = False
    reported_ms: int | None = None


class Trouble(Struct, frozen=True):
    """Requests of one kind that fail in one namespace.

    Args:
        request: The decision's name, for metrics.
        since_ms: Unix time of the first request that failed.
        is_everywhere: Nothing of its kind is done anywhere (rule 3).
    """

    request: str
    namespace: str
    since_ms: int
    text: str
    is_everywhere: bool


class Troubles(Part):
    """All runs of failures."""

    def __init__(self, ground: Ground, in_binding: Container[PodUid], conditions: PodConditions) -> None:
        self.changes = 0  # grows when a namespace's trouble begins to be reported, or ends
        super().__init__(ground)
        self._in_binding: Final = in_binding  # the pods that are being bound
        self._conditions: Final = conditions
        self._runs: Final[dict[tuple[type[Answered], ObjectOf], _Run]] = {}
        self._lasting: Final[dict[tuple[type[Answered], str], dict[ObjectOf, _Run]]] = {}  # by namespace
        self._done_ms: Final[dict[type, int]] = {}
        self._refusals: Final[dict[str, None]] = {}  # about our configuration, until a pod has been bound again
        self.due: Answered | None = None
        """The request that `report_due` reports."""
        self._look_ms = 0
        self._swept_ms = 0

    def next_deadline_ms(self) -> int | None:
        """When to look again, None while nothing is under way or fails."""
        oldest = next(iter(self._outbox.unanswered()), None)
        if oldest is None:
            return self._look_ms if self._runs else None
        return max(self._look_ms, oldest[3] + _LOOK_MS)

    def tick(self) -> None:
        """Let time pass: find requests that are not answered, and forget runs that nobody goes on with."""
        now_ms = self._timers.now_ms
        if now_ms < self._look_ms:
            return
        self._look_ms = now_ms + _LOOK_MS
        latest_ms = now_ms - _SILENT_MS
        overdue = tuple(takewhile(lambda asked: asked[3] <= latest_ms, self._outbox.unanswered()))
        for decision, _, _, asked_ms in overdue:
            if type(decision) not in (
                PatchPodStatus,
                PatchPodGroupStatus,
            ):  # of which many can wait for their turn to be sent
                self._fails(decision, asked_ms, _UNANSWERED, is_denial=False)
                self.report_due()
        if now_ms - self._swept_ms >= _SWEEP_MS:
            self._swept_ms = now_ms
            oldest_ms = now_ms - _FORGOTTEN_MS
            for kind, name in [key for key, run in self._runs.items() if run.last_ms < oldest_ms]:
                self._end(kind, name)

    def answered(self, decision: Answered, answer: WriteAnswer, asked_ms: int) -> None:
        """Take note of an answer, before whoever waits for it goes on; then `report_due`."""
        kind = type(answer)
        if kind is WriteAccepted:
            self._done_ms[type(decision)] = self._timers.now_ms
        elif isinstance(answer, WriteOutcomeUnknown):
            self._fails(decision, asked_ms, answer.message, is_denial=False)
            return
        elif isinstance(answer, WriteRejected) and answer.code != GONE:
            is_denial = not answer.is_retriable and 400 <= answer.code < 500
            message = f"{answer.code} {answer.reason}: {answer.message}" if answer.code else answer.message
            if answer.is_configuration and len(self._refusals) < _TEXTS_MAX:
                text = f"the API server refuses a write ({answer.code} {answer.reason}): {answer.message}"
                self._refusals[text] = None
            self._fails(decision, asked_ms, message, is_denial=is_denial)
            return
        if self._runs:
            self.over(decision)

    def report_due(self) -> None:
        """Report it to the pods that wait, unless the run has ended with what the last answer led to."""
        decision, self.due = self.due, None
        if decision is None:
            return
        kind, name = key = type(decision), object_of(decision)
        run = self._runs.get(key)
        if run is not None:
            run.reported_ms = self._timers.now_ms
            text = (
                f"{kind.doing} {name} fails since {self._clock(run.since_ms)}: {run.message} (it is tried again, "
                "and what the pod was given stays held for it until the outcome is known)"
            )
            for uid in self._waiting(decision):
                if uid in self._in_binding:
                    self._conditions.report_trouble(uid, text)

    def _waiting(self, decision: Answered) -> Iterable[PodUid]:
        """Whom a request concerns."""
        if isinstance(decision, PatchPodStatus):
            return ()  # it is what would report
        name = object_of(decision)
        if isinstance(name, ClaimKey):
            return self._store.users_of(name)
        if isinstance(name, VolumeClaimKey):
            return self._store.storage.users_of(name)
        pod = self._store.pods.by_key(name)
        return () if pod is None else (pod.uid,)

    def forget(self, name: ObjectOf) -> None:
        """The object is deleted, or needs nothing any more."""
        if self._runs:
            for kind in _KINDS:
                self._end(kind, name)

    def pod_bound(self, pod: PodKey) -> None:
        """The pod went all the way: permissions are complete now."""
        self._refusals.clear()
        self.forget(pod)

    def over(self, decision: Answered) -> None:
        """The request is done, or not needed any more."""
        if self._runs:
            self._end(type(decision), object_of(decision))

    def all(self) -> Iterator[Trouble]:
        """What fails for a few seconds already, by kind of request and namespace."""
        everywhere = {kind for kind, _ in self._lasting if self._is_everywhere(kind)}
        for (kind, namespace), runs in self._lasting.items():
            name, first = min(runs.items(), key=lambda item: item[1].since_ms)
            count = "" if len(runs) == 1 else f" and {len(runs) - 1} more"
            text = f"{kind.doing} {name}{count} fails since {self._clock(first.since_ms)}: {first.message}"
            since_ms = self._timers.to_wall(first.since_ms)
            yield Trouble(kind.__name__, namespace, since_ms, text, kind in everywhere)

    def problems(self) -> tuple[str, ...]:
        """Faults that keep all pods from being bound, or that retrying does not mend: for readiness and logs."""
        return (*self._refusals, *self.texts(is_everywhere=True))

    def texts(self, *, is_everywhere: bool) -> tuple[str, ...]:
        """One line for each, at most a few dozen."""
        texts = [trouble.text for trouble in self.all() if trouble.is_everywhere is is_everywhere]
        more = len(texts) - _TEXTS_MAX
        return (*texts[:_TEXTS_MAX], *([f"and {more} more"] if more > 0 else ()))

    def _is_everywhere(self, kind: type[Answered]) -> bool:
        # What was on its way when it began may still have been done.
        done_ms = self._done_ms.get(kind, 0) - _SILENT_MS
        namespaces = set()
        for (other, namespace), runs in self._lasting.items():
            failing = [run for run in runs.values() if other is kind and not run.is_denial and run.since_ms > done_ms]
            if any('webhook "' not in run.message for run in failing):
                return True
            if failing:
                namespaces.add(namespace)
        return len(namespaces) > 1

    def _fails(self, decision: Answered, asked_ms: int, message: str, *, is_denial: bool) -> None:
        key = (type(decision), object_of(decision))
        now_ms = self._timers.now_ms
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _Run(asked_ms, now_ms)
        run.last_ms = now_ms
        if message is not _UNANSWERED or not run.message:
            run.message, run.is_denial = message, is_denial
        if now_ms - run.since_ms < _SILENT_MS:
            return
        kind, name = key
        group = self._lasting.setdefault((kind, name.namespace), {})
        if not group:
            self.changes += 1
        group[name] = run
        if run.reported_ms is None or now_ms - run.reported_ms >= _AGAIN_MS:
            self.due = decision

    def _end(self, kind: type[Answered], name: ObjectOf) -> None:
        if self._runs.pop((kind, name), None) is None:
            return
        group = self._lasting.get((kind, name.namespace))
        if group is not None and group.pop(name, None) is not None and not group:
            del self._lasting[kind, name.namespace]
            self.changes += 1

    def _clock(self, ms: int) -> str:
        return format_rfc3339(self._timers.to_wall(ms) // 1000)
