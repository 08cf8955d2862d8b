"""Writes on volumes and on claims for them, each driven to a known outcome.

Rules of this module
  1. A write without a known outcome is sent again unchanged until its outcome is known: accepted, or the object has
     another revision, or is gone. Each names the revision that it changes, so it lands at most once, and a late one
     changes nothing that was decided since. Nobody gives up on it before that; what it would promise stays held.
  2. The sender is notified once, after the newest state of the object has been observed: who looks at it again decides
     on what is. So after a conflict the observation is awaited. Where none comes, the write is sent again, which is
     safe by rule 1. A server that answers "conflict" for another reason than a moved revision goes on doing so: after
     `_UNSEEN_MAX` of them the refusal counts, unless an earlier sending may still land.

Not here: what is written (VolumeBinding), what the sender does then (`binding_cycle`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteRejected
from scheduler.core.ground.outbox import GONE, Answer
from scheduler.core.ground.timers import TimerId
from scheduler.core.reports.troubles import Troubles
from scheduler.core.state.ground import Ground
from scheduler.core.writes.pod_writes import Refusal
from scheduler.framework.decisions import BindPersistentVolume, VolumeWrite
from scheduler.model.keys import ObjectKey
from scheduler.model.storage import AnyStorageObject, PersistentVolume, PersistentVolumeClaim

_UNSEEN_MAX: Final = 5
"""With the pauses between them these are three seconds: a watch is that late when it has just begun anew."""


@dataclass(slots=True, eq=False)
class _Write:
    decision: VolumeWrite
    settled: Callable[[Refusal | None], None]
    is_doubtful: bool = False
    refusal: Refusal | None = None
    attempts: int = 0
    timer: TimerId | None = None  # set while the observation is awaited


class VolumeWrites:
    """Sends the writes; keeps nothing but what waits for an answer, an observation or a timer."""

    def __init__(self, ground: Ground, troubles: Troubles) -> None:
        self._outbox: Final = ground.outbox
        self._retry: Final = ground.retry
        self._timers: Final = ground.timers
        self._storage: Final = ground.store.storage
        self._troubles: Final = troubles
        self._awaiting: Final[dict[tuple[type, ObjectKey], list[_Write]]] = {}

    def send(self, decision: VolumeWrite, settled: Callable[[Refusal | None], None]) -> None:
        """Send a write; `settled` is called when its outcome is known, with None or the refusal."""
        self._dispatch(_Write(decision, settled))

    def observed(self, changed: AnyStorageObject) -> None:
        """The object was observed anew, or is gone."""
        for write in self._awaiting.pop((type(changed), changed.key), ()):
            self._timers.cancel(write.timer)
            self._settle(write)

    def _dispatch(self, write: _Write) -> None:
        if write.is_doubtful and self._is_overtaken(write.decision):
            self._troubles.over(write.decision)
            write.settled(None)  # it landed before, or never will: whoever asks looks at the object again
            return
        write.attempts += 1
        self._outbox.ask(write.decision, partial(self._answered, write))

    def _answered(self, write: _Write, answer: Answer) -> None:
        match answer:
            case WriteAccepted():
                write.is_doubtful, write.refusal = False, None
                self._settle(write)
            case WriteConflicted():
                write.refusal = None if write.is_doubtful else answer  # an earlier one may have landed
                self._settle(write)
            case WriteRejected():
                if answer.code == GONE:
                    write.refusal = answer
                    self._settle(write)
                elif write.is_doubtful or answer.is_retriable:
                    self._retry(partial(self._dispatch, write), write.attempts, is_hopeless=not answer.is_retriable)
                else:
                    write.settled(answer)
            case _:
                write.is_doubtful = True
                self._retry(partial(self._dispatch, write), write.attempts)

    def _settle(self, write: _Write) -> None:
        if self._is_overtaken(write.decision):
            write.settled(write.refusal)
        else:
            self._awaiting.setdefault(_object(write.decision), []).append(write)
            write.timer = self._retry(partial(self._not_observed, write), write.attempts)

    def _not_observed(self, write: _Write) -> None:
        """The object has not been seen to move, or to be gone, since the answer."""
        key = _object(write.decision)
        awaiting = self._awaiting[key]
        awaiting.remove(write)
        if not awaiting:
            del self._awaiting[key]
        if write.is_doubtful or (write.refusal is not None and write.attempts < _UNSEEN_MAX):
            self._dispatch(write)
        else:
            write.settled(write.refusal)

    def _is_overtaken(self, decision: VolumeWrite) -> bool:
        revision = self._storage.newest_revision(*_object(decision))
        return revision is None or revision > decision.expect_revision


def _object(decision: VolumeWrite) -> tuple[type, ObjectKey]:
    if isinstance(decision, BindPersistentVolume):
        return PersistentVolume, ObjectKey("", decision.volume)
    return PersistentVolumeClaim, decision.claim
