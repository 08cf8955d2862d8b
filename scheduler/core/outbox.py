"""Decisions on their way out, numbered, and who waits for each answer.

Rules of this module
  1. A decision that is answered gets a number of its own; the same write sent again gets a new one.
  2. An answer reaches its waiter at most once; unknown numbers (answers to an earlier life of the machine) are ignored.
  3. A request holds a place of its namespace from here to its answer. Conditions hold none: they stop no pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from scheduler.core.fair_places import FairPlaces
from scheduler.core.inputs import WriteAccepted, WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.core.timers import Timers
from scheduler.core.troubles import Troubles
from scheduler.framework.decisions import (
    Answered,
    BindPod,
    Decision,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodStatus,
    ReadPod,
    RecordEvent,
    WriteId,
)
from scheduler.model.api_rules import cut_note
from scheduler.model.claim import ResourceClaim
from scheduler.model.objects import Pod

Answer: TypeAlias = WriteAccepted | WriteConflicted | WriteRejected | WriteOutcomeUnknown
Waiter: TypeAlias = Callable[[Answer], None]

# A decision that is not answered yet: who waits, whose place it holds (None: none), and when it was sent. Not a class:
# one is made for each request.
_Asked: TypeAlias = tuple[Answered, Waiter, str | None, int]


class Outbox:
    """Collects the decisions of one `handle` and remembers the waiters of all unanswered ones."""

    def __init__(self, places: FairPlaces, troubles: Troubles, timers: Timers, *, takes_notes: bool) -> None:
        self._places: Final = places
        self._troubles: Final = troubles
        self._timers: Final = timers
        self.takes_notes: Final = takes_notes
        self.notes: Final[list[str]] = []  # what became of attempts, when `takes_notes`
        self._decisions: list[Decision] = []
        self._asked: Final[dict[WriteId, _Asked]] = {}
        self._next_id = 1
        self._first_id = 1  # of those that have not left

    def ask(self, decision: Answered, waiter: Waiter) -> WriteId:
        """Send `decision`; `waiter` is called with its answer."""
        write_id = WriteId(self._next_id)
        self._next_id += 1
        namespace = _namespace(decision)
        if namespace is not None:
            self._places.take(namespace)
        if not self._asked:
            self._troubles.asked()
        self._asked[write_id] = (decision, waiter, namespace, self._timers.now_ms)
        self._decisions.append(msgspec.structs.replace(decision, id=write_id))
        return write_id

    def has_left(self, write_id: WriteId) -> bool:
        """Whether the decision is with the shell already, so that it cannot be amended."""
        return write_id < self._first_id

    def amend(self, write_id: WriteId, decision: Answered) -> None:
        """Send `decision` instead of one that has not left; who waits for the answer stays the same."""
        for place, known in enumerate(self._decisions):
            if not isinstance(known, RecordEvent) and known.id == write_id:
                self._decisions[place] = msgspec.structs.replace(decision, id=write_id)
                return
        raise AssertionError(f"decision {write_id} has left")

    def tell(self, decision: RecordEvent) -> None:
        """Send what is never answered."""
        self._decisions.append(decision)

    def tell_about_pod(self, pod: Pod, kind: str, reason: str, action: str, note: str) -> None:
        """An event about `pod`; `kind` is "Normal" or "Warning". Long notes are cut as upstream cuts them."""
        meta = pod.metadata
        self.tell(RecordEvent("Pod", meta.namespace, meta.name, meta.uid, kind, reason, action, cut_note(note)))

    def tell_about_claim(self, claim: ResourceClaim, reason: str, action: str, note: str) -> None:
        """A warning about `claim`, cut likewise."""
        namespace, name = claim.key
        self.tell(RecordEvent("ResourceClaim", namespace, name, claim.uid, "Warning", reason, action, cut_note(note)))

    def over(self, decision: Answered) -> None:
        """It is known what became of a request that had failed, or it is not needed any more."""
        self._troubles.over(decision)

    def forget_troubles(self, gone: ResourceClaim | Pod) -> None:
        """The object is deleted, or a pod bound: what failed about it does not matter any more."""
        if self._troubles.has_runs:
            self._troubles.forget(gone.key)

    def deliver(self, answer: Answer) -> None:
        """Hand `answer` to whoever waits for it."""
        asked = self._asked.pop(answer.id, None)
        if asked is None:
            return
        decision, waiter, namespace, asked_ms = asked
        if namespace is not None:
            self._places.give_back(namespace)
        self._troubles.answered(decision, answer, asked_ms)
        waiter(answer)
        if self._troubles.due is not None:
            self._troubles.tell_due()

    def drain(self) -> tuple[Decision, ...]:
        """The decisions since the last call, in order."""
        if not self._decisions:
            return ()
        decisions = tuple(self._decisions)
        self._decisions.clear()
        self._first_id = self._next_id
        return decisions

    def oldest_unanswered(self) -> Iterator[tuple[Answered, int]]:
        """Requests that are not answered, and when they were sent, oldest first."""
        return ((decision, asked_ms) for decision, _, _, asked_ms in self._asked.values())

    def places_held(self) -> Counter[str]:
        """Requests under way by namespace, counted anew (for `invariants`)."""
        return Counter(namespace for _, _, namespace, _ in self._asked.values() if namespace is not None)


def _namespace(decision: Answered) -> str | None:
    """Whose place a request takes."""
    kind = type(decision)
    if kind is PatchPodStatus:
        return None
    if kind is BindPod or kind is ReadPod or kind is PatchExtendedResources or kind is PatchNodeAllocatable:
        return decision.pod.namespace  # type: ignore[union-attr]
    return decision.claim.namespace  # type: ignore[union-attr]
