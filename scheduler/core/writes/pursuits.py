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
from scheduler.core.ground.outbox import GONE, Answer
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


Outcome: TypeAlias = WriteAccepted | WriteRejected | Overtaken
"""Done; refused for good, never with 404; or overtaken: whoever sent it looks at the object again."""

Settled: TypeAlias = Callable[[Outcome], None]


def may_have_landed(outcome: Outcome) -> bool:
    """Whether the write was done, as far as anybody can know."""
    return isinstance(outcome, WriteAccepted) or (isinstance(outcome, Overtaken) and outcome.may_have_landed)


def _always() -> bool:
    return True


class Pursuit(Struct, Generic[Write], eq=False):
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


class Pursuits(Part, ABC, Generic[Write]):
    """All writes of one kind that are not settled yet."""

    def __init__(self, ground: Ground, troubles: Troubles) -> None:
        super().__init__(ground)
        self._troubles: Final = troubles
        self._by_object: Final[dict[Hashable, list[Pursuit[Write]]]] = {}

    def send(self, decision: Write, settled: Settled, owner: PodUid | None = None) -> None:
        """Send a write for a pod that is being bound, or for none; `settled` is called when its outcome is known."""
        self._begin(Pursuit(decision, ((owner, settled),)))

    def observed(self, changed: Hashable) -> None:
        """The object (`_object`) was observed anew, or is gone: settle what is overtaken."""
        for pursuit in tuple(self._by_object.get(changed, ())):
            if pursuit.sent_as == UNSENT and not pursuit.is_settled:
                self._is_over(pursuit)

    def pending(self) -> Iterator[Pursuit[Write]]:
        """All of them, oldest first for each object."""
        for pursuits in self._by_object.values():
            yield from pursuits

    # What kinds of writes differ in

    @abstractmethod
    def _is_overtaken(self, decision: Write) -> bool:
        """Whether the write cannot land any more, by what is observed."""

    @abstractmethod
    def _look(self, pursuit: Pursuit[Write], answer: Answer) -> None:
        """By the answer, the object has moved or is gone, and that has not been observed yet."""

    def _accepted(self, pursuit: Pursuit[Write], answer: WriteAccepted) -> None:
        self._settle(pursuit, answer)

    def _object(self, decision: Write) -> Hashable:
        """By what the object of a write is found when it is observed."""
        return decision.uid

    # The driver

    def _begin(self, pursuit: Pursuit[Write]) -> None:
        self._by_object.setdefault(self._object(pursuit.decision), []).append(pursuit)
        self._send(pursuit)

    def _send(self, pursuit: Pursuit[Write]) -> None:
        pursuit.attempts += 1
        pursuit.sent_as = self._outbox.ask(pursuit.decision, partial(self._answered, pursuit))

    def _send_again(self, pursuit: Pursuit[Write]) -> None:
        if not self._is_over(pursuit):
            self._send(pursuit)

    def _answered(self, pursuit: Pursuit[Write], answer: Answer) -> None:
        pursuit.sent_as = UNSENT
        match answer:
            case WriteAccepted():
                self._accepted(pursuit, answer)
            case WriteRejected(code=code) if code != GONE:
                if pursuit.is_doubtful or answer.is_retriable:
                    self._later(pursuit, self._send_again, is_hopeless=not answer.is_retriable)
                else:
                    self._settle(pursuit, answer)
            case WriteConflicted() | WriteRejected():
                if not self._is_over(pursuit):
                    self._look(pursuit, answer)
            case _:
                pursuit.is_doubtful = True
                if not self._is_over(pursuit):
                    self._later(pursuit, self._send_again)

    def _read(self, pursuit: Pursuit[Write], request: Answered) -> None:
        """Look by reading the object."""
        self._outbox.ask(request, partial(self._read_answered, pursuit, request))

    def _read_answered(self, pursuit: Pursuit[Write], request: Answered, answer: Answer) -> None:
        if pursuit.is_settled:
            return
        is_read = isinstance(answer, WriteAccepted) or (isinstance(answer, WriteRejected) and answer.code == GONE)
        if is_read and (not pursuit.is_doubtful or self._is_overtaken(pursuit.decision)):
            self._overtaken(pursuit)  # or refused for another reason than a moved revision
            return
        pursuit.attempts += 1
        self._later(pursuit, self._send_again if is_read else partial(self._read, request=request))

    def _later(
        self, pursuit: Pursuit[Write], action: Callable[[Pursuit[Write]], None], *, is_hopeless: bool = False
    ) -> None:
        pursuit.timer = self._retry(partial(action, pursuit), pursuit.attempts, is_hopeless=is_hopeless)

    def _is_over(self, pursuit: Pursuit[Write]) -> bool:
        """Settle the write when it is overtaken; whether it is."""
        is_over = self._is_overtaken(pursuit.decision) or not pursuit.is_wanted()
        if is_over:
            self._overtaken(pursuit)
        return is_over

    def _overtaken(self, pursuit: Pursuit[Write]) -> None:
        self._troubles.over(pursuit.decision)
        self._settle(pursuit, Overtaken(pursuit.is_doubtful))

    def _settle(self, pursuit: Pursuit[Write], outcome: Outcome) -> None:
        self._timers.cancel(pursuit.timer)
        pursuit.is_settled = True
        key = self._object(pursuit.decision)
        pursuits = self._by_object[key]
        pursuits.remove(pursuit)
        if not pursuits:
            del self._by_object[key]
        for _, settled in pursuit.senders:
            settled(outcome)
