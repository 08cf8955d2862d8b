"""Decisions on their way out, numbered, and the waiter for each answer.

Rules of this module
  1. A decision that will be answered gets a number of its own; the same write sent again gets a new number.
  2. An answer reaches its waiter at most once; unknown numbers (answers to an earlier life of the machine) are ignored.
  3. A request holds a place of its namespace from here to its answer. Conditions hold none: they stop no pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

import msgspec

from scheduler.core.ground.fair_places import FairPlaces
from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.core.ground.timers import Timers
from scheduler.framework.decisions import (
    Answered,
    BindPod,
    Decision,
    DeletePod,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodDisruption,
    PatchPodGroupStatus,
    PatchPodStatus,
    ReadPod,
    RecordEvent,
    WriteId,
)
from scheduler.model.api_rules import cut_note
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import PodKey
from scheduler.model.objects import Pod
from scheduler.why.say import Reader

WriteAnswer: TypeAlias = WriteAccepted | WriteConflicted | WriteRejected | WriteOutcomeUnknown
Waiter: TypeAlias = Callable[[WriteAnswer], None]

GONE: Final = 404

PendingRequest: TypeAlias = tuple[Answered, Waiter, str | None, int]
"""A request that is not answered yet: who waits, whose place it holds (None: none), and when it was sent. Not a class:
one is made for each request."""


class Note(NamedTuple):
    """What became of an attempt, for a log; `cycle` is the number of the scheduling cycle in which it began."""

    pod: PodKey
    cycle: int
    text: str


class Outbox:
    """Collects the decisions of one `handle` and remembers the waiters of all unanswered ones."""

    def __init__(self, places: FairPlaces, timers: Timers, *, takes_notes: bool) -> None:
        self._places: Final = places
        self._timers: Final = timers
        self.takes_notes: Final = takes_notes
        self.notes: Final[list[Note]] = []  # what became of attempts, when `takes_notes`
        self._decisions: list[Decision] = []
        self._asked: Final[dict[WriteId, PendingRequest]] = {}
        self._next_id = 1
        self._first_id = 1  # of those that have not left

    def ask(self, decision: Answered, waiter: Waiter) -> WriteId:
        """Send `decision`; `waiter` is called with its answer."""
        write_id = WriteId(self._next_id)
        self._next_id += 1
        namespace = _namespace(decision)
        if namespace is not None:
            self._places.take(namespace)
        self._asked[write_id] = (decision, waiter, namespace, self._timers.now_ms)
        self._decisions.append(msgspec.structs.replace(decision, id=write_id))
        return write_id

    def has_left(self, write_id: WriteId) -> bool:
        """Whether the decision is with the shell already, so that it cannot be amended."""
        return write_id < self._first_id

    def amend(self, write_id: WriteId, decision: Answered) -> None:
        """Replace a decision that the shell has not taken yet; its waiter stays."""
        for place, known in enumerate(self._decisions):
            if not isinstance(known, RecordEvent) and known.id == write_id:
                self._decisions[place] = msgspec.structs.replace(decision, id=write_id)
                return
        raise AssertionError(f"decision {write_id} has left")

    def report(self, event: RecordEvent) -> None:
        """Send an event, which is never answered."""
        self._decisions.append(event)

    def report_on_pod(
        self, pod: Pod, kind: str, reason: str, action: str, note: str, *, related: Pod | None = None
    ) -> None:
        """An event about `pod`; `kind` is "Normal" or "Warning". Long notes are cut as upstream cuts them.

        Args:
            related: Another pod that it is about; its scheduler reports it. The event has its name (`Reader`).
        """
        meta = pod.metadata
        note, reporter = cut_note(note), (related or pod).spec.scheduler_name
        event = RecordEvent("Pod", meta.namespace, meta.name, meta.uid, kind, reason, action, note, reporter=reporter)
        if related is not None and Reader(meta.namespace).may_name(related.key):
            event = msgspec.structs.replace(event, related=(*related.key, related.uid))
        self.report(event)

    def report_on_claim(self, claim: ResourceClaim, reason: str, action: str, note: str) -> None:
        """A warning about `claim`, cut likewise."""
        namespace, name = claim.key
        self.report(RecordEvent("ResourceClaim", namespace, name, claim.uid, "Warning", reason, action, cut_note(note)))

    def answered(self, write_id: WriteId) -> PendingRequest | None:
        """The request that this answer is to, which is not under way any more; None for an unknown number."""
        asked = self._asked.pop(write_id, None)
        if asked is not None and asked[2] is not None:
            self._places.give_back(asked[2])
        return asked

    def drain(self) -> tuple[Decision, ...]:
        """The decisions since the last call, in order."""
        if not self._decisions:
            return ()
        decisions = tuple(self._decisions)
        self._decisions.clear()
        self._first_id = self._next_id
        return decisions

    def unanswered(self) -> Iterable[PendingRequest]:
        """Requests that are not answered, oldest first."""
        return self._asked.values()

    def places_held(self) -> Counter[str]:
        """Requests under way by namespace, counted anew (for `invariants`)."""
        return Counter(namespace for _, _, namespace, _ in self._asked.values() if namespace is not None)


def _namespace(decision: Answered) -> str | None:
    """Whose place a request takes."""
    kind = type(decision)
    if kind in (PatchPodStatus, PatchPodGroupStatus):
        return None
    about = decision.pod if kind in _ABOUT_PODS else decision.claim  # type: ignore[union-attr]
    return about.namespace


_ABOUT_PODS: Final = frozenset(
    {BindPod, ReadPod, PatchExtendedResources, PatchNodeAllocatable, PatchPodDisruption, DeletePod}
)
