"""Requests that keep failing: what, whose, since when, and what the API server says; told after a few seconds.

Retrying is right and says nothing. So whoever waits is told: the pods that a failing request keeps from being bound, in
their condition and an event; people who look after the cluster, by namespace and kind of request (`Machine.troubles`).

Rules of this module
  1. A trouble is a run of failures of one kind of request about one object. It ends with an answer that is none (done,
     conflict, gone), when its write is known to be overtaken, when the object is gone, or when nothing was heard of it
     for `trouble_ms_forgotten`.
  2. Nothing is told before it has lasted `trouble_ms_silent`: what is mended by the next attempt is nobody's business.
     A request that is not answered for so long fails, too.
  3. The scheduler is not ready when a kind of request fails, nothing of that kind has been done since that is told, and
     it is not admission in a single namespace that fails. Refusals of the request itself (4xx) do not count.

Cost: nothing while all goes well, but for one look a second at the requests that are unanswered for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, TypeAlias

from scheduler.core.inputs import WriteAccepted, WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.core.settings import CoreSettings
from scheduler.core.timers import Timers
from scheduler.framework.decisions import (
    AddClaimFinalizer,
    Answered,
    BindPod,
    CreateClaim,
    DeleteClaim,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodStatus,
    ReadClaim,
    ReadPod,
    RemoveClaimFinalizer,
    WriteClaimStatus,
)
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.model.timestamps import format_rfc3339

_GONE: Final = 404
_LOOK_MS: Final = 1_000
_SWEEP_MS: Final = 10_000
_TEXTS_MAX: Final = 32
_UNANSWERED: Final = "the API server has not answered yet"

_WHAT: Final[dict[type, str]] = {
    AddClaimFinalizer: "adding the finalizer to ResourceClaim",
    RemoveClaimFinalizer: "removing the finalizer from ResourceClaim",
    WriteClaimStatus: "writing the status of ResourceClaim",
    CreateClaim: "creating ResourceClaim",
    DeleteClaim: "deleting ResourceClaim",
    ReadClaim: "reading ResourceClaim",
    BindPod: "binding Pod",
    ReadPod: "reading Pod",
    PatchPodStatus: "writing the condition of Pod",
    PatchExtendedResources: "writing the extended resources of Pod",
    PatchNodeAllocatable: "writing the node allocatable resources of Pod",
}

_Object: TypeAlias = ClaimKey | PodKey
_Answer: TypeAlias = WriteAccepted | WriteConflicted | WriteRejected | WriteOutcomeUnknown


@dataclass(slots=True, eq=False)
class _Run:
    """Failures of one kind of request about one object. `told_ms`: when its pods were last told."""

    since_ms: int
    last_ms: int
    message: str = ""
    is_denial: bool = False
    told_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
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


class Troubles:
    """All runs of failures."""

    def __init__(self, timers: Timers, settings: CoreSettings) -> None:
        self.changes = 0  # grows when a namespace's trouble begins to be told, or ends
        self._timers: Final = timers
        self._settings: Final = settings
        self._runs: Final[dict[tuple[type, _Object], _Run]] = {}
        self._told: Final[dict[tuple[type, str], dict[_Object, _Run]]] = {}  # those that last, by namespace
        self._done_ms: Final[dict[type, int]] = {}
        self.due: Answered | None = None
        """The request that `tell_due` tells of."""
        self._look_ms = 0
        self._swept_ms = 0

    def connect(
        self,
        unanswered: Callable[[], Iterable[tuple[Answered, int]]],
        tell: Callable[[Answered, str], None],
    ) -> None:
        """Set whom to ask for unanswered requests, oldest first, and who tells the pods that wait for a request."""
        self._unanswered, self._tell = unanswered, tell

    @property
    def has_runs(self) -> bool:
        """Whether anything fails."""
        return bool(self._runs)

    def asked(self) -> None:
        """A request leaves while none was under way: look in a while whether it is answered."""
        self._look_ms = max(self._look_ms, self._timers.now_ms + _LOOK_MS)

    def next_deadline_ms(self) -> int | None:
        """When to look again, None while nothing is under way or fails."""
        return self._look_ms if self._runs or next(iter(self._unanswered()), None) is not None else None

    def tick(self) -> None:
        """Let time pass: find requests that are not answered, and forget runs that nobody goes on with."""
        now_ms = self._timers.now_ms
        if now_ms < self._look_ms:
            return
        self._look_ms = now_ms + _LOOK_MS
        latest_ms = now_ms - self._settings.trouble_ms_silent
        for decision, asked_ms in list(takewhile(lambda one: one[1] <= latest_ms, self._unanswered())):
            if type(decision) is not PatchPodStatus:  # of which many can wait for their turn to be sent
                self._fails(decision, asked_ms, _UNANSWERED, is_denial=False)
                self.tell_due()
        if now_ms - self._swept_ms >= _SWEEP_MS:
            self._swept_ms = now_ms
            oldest_ms = now_ms - self._settings.trouble_ms_forgotten
            for kind, name in [key for key, run in self._runs.items() if run.last_ms < oldest_ms]:
                self._end(kind, name)

    def answered(self, decision: Answered, answer: _Answer, asked_ms: int) -> None:
        """Take note of an answer, before whoever waits for it goes on; then `tell_due`."""
        kind = type(answer)
        if kind is WriteAccepted:
            self._done_ms[type(decision)] = self._timers.now_ms
        elif isinstance(answer, WriteOutcomeUnknown):
            self._fails(decision, asked_ms, answer.message, is_denial=False)
            return
        elif isinstance(answer, WriteRejected) and answer.code != _GONE:
            is_denial = not answer.is_retriable and 400 <= answer.code < 500
            message = f"{answer.code} {answer.reason}: {answer.message}" if answer.code else answer.message
            self._fails(decision, asked_ms, message, is_denial=is_denial)
            return
        if self._runs:
            self.over(decision)

    def tell_due(self) -> None:
        """Tell the pods, unless the run has ended with what the last answer led to."""
        decision, self.due = self.due, None
        if decision is None:
            return
        kind, name = key = type(decision), _object(decision)
        run = self._runs.get(key)
        if run is not None:
            run.told_ms = self._timers.now_ms
            text = (
                f"{_WHAT[kind]} {name} fails since {self._clock(run.since_ms)}: {run.message} (it is tried again, "
                "and what the pod was given stays held for it until the outcome is known)"
            )
            self._tell(decision, text)

    def forget(self, name: _Object) -> None:
        """The object is deleted, or needs nothing any more."""
        if self._runs:
            for kind in _WHAT:
                self._end(kind, name)

    def over(self, decision: Answered) -> None:
        """The request is done, or not needed any more."""
        if self._runs:
            self._end(type(decision), _object(decision))

    def all(self) -> Iterator[Trouble]:
        """What fails for a few seconds already, by kind of request and namespace."""
        everywhere = {kind for kind, _ in self._told if self._is_everywhere(kind)}
        for (kind, namespace), runs in self._told.items():
            name, first = min(runs.items(), key=lambda item: item[1].since_ms)
            count = "" if len(runs) == 1 else f" and {len(runs) - 1} more"
            text = f"{_WHAT[kind]} {name}{count} fails since {self._clock(first.since_ms)}: {first.message}"
            since_ms = self._timers.to_wall(first.since_ms)
            yield Trouble(kind.__name__, namespace, since_ms, text, kind in everywhere)

    def texts(self, *, is_everywhere: bool) -> tuple[str, ...]:
        """One line for each, at most a few dozen."""
        texts = [trouble.text for trouble in self.all() if trouble.is_everywhere is is_everywhere]
        more = len(texts) - _TEXTS_MAX
        return (*texts[:_TEXTS_MAX], *([f"and {more} more"] if more > 0 else ()))

    def _is_everywhere(self, kind: type) -> bool:
        # What was on its way when it began may still have been done.
        done_ms = self._done_ms.get(kind, 0) - self._settings.trouble_ms_silent
        namespaces = set()
        for (other, namespace), runs in self._told.items():
            failing = [run for run in runs.values() if other is kind and not run.is_denial and run.since_ms > done_ms]
            if any('webhook "' not in run.message for run in failing):
                return True
            if failing:
                namespaces.add(namespace)
        return len(namespaces) > 1

    def _fails(self, decision: Answered, asked_ms: int, message: str, *, is_denial: bool) -> None:
        key = (type(decision), _object(decision))
        now_ms = self._timers.now_ms
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _Run(asked_ms, now_ms)
        run.last_ms = now_ms
        if message is not _UNANSWERED or not run.message:
            run.message, run.is_denial = message, is_denial
        if now_ms - run.since_ms < self._settings.trouble_ms_silent:
            return
        kind, name = key
        group = self._told.setdefault((kind, name.namespace), {})
        if not group:
            self.changes += 1
        group[name] = run
        if run.told_ms is None or now_ms - run.told_ms >= self._settings.trouble_ms_again:
            self.due = decision

    def _end(self, kind: type, name: _Object) -> None:
        if self._runs.pop((kind, name), None) is None:
            return
        group = self._told.get((kind, name.namespace))
        if group is not None and group.pop(name, None) is not None and not group:
            del self._told[kind, name.namespace]
            self.changes += 1

    def _clock(self, ms: int) -> str:
        return format_rfc3339(self._timers.to_wall(ms) // 1000)


def _object(decision: Answered) -> _Object:
    match decision:
        case BindPod() | PatchPodStatus() | PatchExtendedResources() | PatchNodeAllocatable() | ReadPod():
            return decision.pod
        case _:
            return decision.claim
