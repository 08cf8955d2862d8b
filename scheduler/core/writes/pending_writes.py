"""Writes on their way to a known outcome: sent, sent again, looked after, settled.

    sent ──> accepted, or refused for good ──────────────────────────> settled
      │  └─> conflict, or not found ──> its object is looked at ──┐
      │                                                           ├──> overtaken ──> settled
      └────> no answer, or refused for now ──> sent again later ──┘

A request that is lost may still arrive later, after a read that did not show it. Its own condition fences it: a write
expects a revision, a name or a uid, so once its object is observed past that, or gone, it can never land any more.

Rules of this module
  1. A write without an answer is *doubtful*, and is sent again unchanged until its outcome is known.
  2. Its outcome is known when it is accepted; when it is *overtaken*, so that it has landed already or never will; or
     when it is refused and no earlier sending is doubtful. After a doubtful sending a conflict is no refusal: it may be
     the write's own doing. A conflict proves that some write landed, not which, so the object is looked at first.
  3. Whoever sent a write is notified once, when it is settled. Nobody gives up on a write before that.
  4. A write in flight is never settled by an observation: its answer is coming and says more.

Not here: what is written, and what follows from the outcome (the senders).

See docs/adr/0005-held-and-doubtful-writes.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteRejected
from scheduler.core.ground.outbox import GONE, WriteAnswer
from scheduler.core.ground.timers import TimerId
from scheduler.core.reports.troubles import Troubles
from scheduler.core.state.ground import Ground, Part
from scheduler.framework.decisions import UNSENT, Answered, WriteId
from scheduler.model.keys import PodUid

Write = TypeVar("Write", bound=Answered)


class Overtaken(Struct, frozen=True):
    """The object has moved past what the write expects, or is gone.

    Args:
        may_have_landed: A sending of the write, whose answer was lost, may be why; else somebody else came first.
    """

    may_have_landed: bool


WriteOutcome: TypeAlias = WriteAccepted | WriteRejected | Overtaken
"""Done; refused for good, never with 404; or overtaken: whoever sent it looks at the object again."""

Settled: TypeAlias = Callable[[WriteOutcome], None]


def may_have_landed(outcome: WriteOutcome) -> bool:
    """Whether the write was done, as far as anybody can know."""
    return isinstance(outcome, WriteAccepted) or (isinstance(outcome, Overtaken) and outcome.may_have_landed)


def _always() -> bool:
    return True


class PendingWrite(Struct, Generic[Write], eq=False):
    """One write under way.

    Args:
        senders: What is called once with its outcome; and the pod that is being bound with it, None for none.
        is_wanted: Asked before it is sent again: what nobody wants any more counts as overtaken.
        is_doubtful: An earlier sending may still land, or may have landed.
        sent_as: The number of the sending in flight; UNSENT while it waits to be sent again, or for a look.
        timer: Set while it waits for a time.
    """

    decision: Write
    senders: tuple[tuple[PodUid | None, Settled], ...]
    is_wanted: Callable[[], bool] = _always
    attempts: int = 0
    is_doubtful: bool = False
    sent_as: WriteId = UNSENT
    timer: TimerId | None = None
    is_settled: bool = False


class PendingWrites(Part, ABC, Generic[Write]):
    """All writes of one kind that are not settled yet."""

    def __init__(self, ground: Ground, troubles: Troubles) -> None:
        super().__init__(ground)
        self._troubles: Final = troubles
        self._by_object: Final[dict[Hashable, list[PendingWrite[Write]]]] = {}

    def send(self, decision: Write, settled: Settled, owner: PodUid | None = None) -> None:
        """Send a write for a pod that is being bound, or for none; `settled` is called when its outcome is known."""
        self._begin(PendingWrite(decision, ((owner, settled),)))

    def observed(self, changed: Hashable) -> None:
        """The object (`_object`) was observed anew, or is gone: settle what is overtaken."""
        for write in tuple(self._by_object.get(changed, ())):
            if write.sent_as == UNSENT and not write.is_settled:
                self._is_over(write)

    def pending(self) -> Iterator[PendingWrite[Write]]:
        """All of them, oldest first for each object."""
        for pending in self._by_object.values():
            yield from pending

    # What kinds of writes differ in

    @abstractmethod
    def _is_overtaken(self, decision: Write) -> bool:
        """Whether the write cannot land any more, by what is observed."""

    @abstractmethod
    def _look(self, write: PendingWrite[Write], answer: WriteAnswer) -> None:
        """By the answer, the object has moved or is gone, and that has not been observed yet."""

    def _accepted(self, write: PendingWrite[Write], answer: WriteAccepted) -> None:
        self._settle(write, answer)

    def _object(self, decision: Write) -> Hashable:
        """By what the object of a write is found when it is observed."""
        return decision.uid

    # The driver

    def _begin(self, write: PendingWrite[Write]) -> None:
        self._by_object.setdefault(self._object(write.decision), []).append(write)
        self._send(write)

    def _send(self, write: PendingWrite[Write]) -> None:
        write.attempts += 1
        write.sent_as = self._outbox.ask(write.decision, partial(self._answered, write))

    def _send_again(self, write: PendingWrite[Write]) -> None:
        if not self._is_over(write):
            self._send(write)

    def _answered(self, write: PendingWrite[Write], answer: WriteAnswer) -> None:
        write.sent_as = UNSENT
        match answer:
            case WriteAccepted():
                self._accepted(write, answer)
            case WriteRejected(code=code) if code != GONE:
                if write.is_doubtful or answer.is_retriable:
                    self._later(write, self._send_again, is_hopeless=not answer.is_retriable)
                else:
                    self._settle(write, answer)
            case WriteConflicted() | WriteRejected():
                if not self._is_over(write):
                    self._look(write, answer)
            case _:
                write.is_doubtful = True
                if not self._is_over(write):
                    self._later(write, self._send_again)

    def _read(self, write: PendingWrite[Write], request: Answered) -> None:
        """Look by reading the object."""
        self._outbox.ask(request, partial(self._read_answered, write, request))

    def _read_answered(self, write: PendingWrite[Write], request: Answered, answer: WriteAnswer) -> None:
        if write.is_settled:
            return
        is_read = isinstance(answer, WriteAccepted) or (isinstance(answer, WriteRejected) and answer.code == GONE)
        if is_read and (not write.is_doubtful or self._is_overtaken(write.decision)):
            self._overtaken(write)  # or refused for another reason than a moved revision
            return
        write.attempts += 1
        self._later(write, self._send_again if is_read else partial(self._read, request=request))

    def _later(
        self, write: PendingWrite[Write], action: Callable[[PendingWrite[Write]], None], *, is_hopeless: bool = False
    ) -> None:
        write.timer = self._retry(partial(action, write), write.attempts, is_hopeless=is_hopeless)

    def _is_over(self, write: PendingWrite[Write]) -> bool:
        """Settle the write when it is overtaken; whether it is."""
        is_over = self._is_overtaken(write.decision) or not write.is_wanted()
        if is_over:
            self._overtaken(write)
        return is_over

    def _overtaken(self, write: PendingWrite[Write]) -> None:
        self._troubles.over(write.decision)
        self._settle(write, Overtaken(write.is_doubtful))

    def _settle(self, write: PendingWrite[Write], outcome: WriteOutcome) -> None:
        self._timers.cancel(write.timer)
        write.is_settled = True
        key = self._object(write.decision)
        pending = self._by_object[key]
        pending.remove(write)
        if not pending:
            del self._by_object[key]
        for _, settled in write.senders:
            settled(outcome)
