"""Removing a pod that makes room for another one: the condition that says so, then the deletion, to a known outcome.

Rules of this module
  1. The condition DisruptionTarget is stored before the deletion is sent: whoever sees the pod terminate knows why,
     also this scheduler after a restart.
  2. A write without a known outcome is sent again until it is known, or nobody wants it any more. Both can be repeated:
     they are for one uid.
  3. A pod that is gone, or was replaced by its namesake, is removed. So is one that is being deleted already.

Not here: who is removed and what follows (`preemptions`).

Source: PreemptPod of pkg/scheduler/framework/preemption/executor.go v1.36.3. Differs on purpose: the deletion has the
pod's uid as precondition, and is not sent before the condition is known to be stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteRejected
from scheduler.core.ground.outbox import GONE, Answer
from scheduler.core.reports.troubles import Troubles
from scheduler.core.state.ground import Ground
from scheduler.framework.decisions import DeletePod, PatchPodDisruption, PodRemoval
from scheduler.model.objects import Pod


class Settled(Struct, frozen=True):
    """What became of a removal.

    Args:
        is_ours: Our deletion was executed, as far as anybody can know: the pod is not gone by itself.
        refusal: Why it was not.
    """

    is_ours: bool = False
    refusal: WriteRejected | None = None


class _Removal(Struct, eq=False):
    """One pod. `settled` is called once."""

    decision: PodRemoval
    is_wanted: Callable[[], bool]
    settled: Callable[[Settled], None]
    is_doubtful: bool = False
    attempts: int = 0


class PodRemovals:
    """Sends the writes; keeps nothing but what waits for an answer or a timer."""

    def __init__(self, ground: Ground, troubles: Troubles) -> None:
        self._store: Final = ground.store
        self._outbox: Final = ground.outbox
        self._retry: Final = ground.retry
        self._troubles: Final = troubles

    def remove(self, pod: Pod, why: str, is_wanted: Callable[[], bool], settled: Callable[[Settled], None]) -> None:
        """Announce the pod's disruption and delete it.

        Args:
            is_wanted: Asked before each request: what is not wanted any more ends without a refusal.
            settled: Called when the pod's deletion is stored, not wanted, or refused.
        """
        disruption = PatchPodDisruption(pod.key, pod.uid, why, pod.metadata.generation)
        self._dispatch(_Removal(disruption, is_wanted, settled))

    def _dispatch(self, removal: _Removal) -> None:
        pod = self._store.pods.get(removal.decision.uid)
        if pod is None or pod.is_deleting or not removal.is_wanted():
            self._troubles.over(removal.decision)
            removal.settled(Settled(_may_be_ours(removal)))
            return
        removal.attempts += 1
        self._outbox.ask(removal.decision, partial(self._answered, removal))

    def _answered(self, removal: _Removal, answer: Answer) -> None:
        match answer:
            case WriteAccepted() if isinstance(removal.decision, PatchPodDisruption):
                removal.decision = DeletePod(removal.decision.pod, removal.decision.uid)
                removal.is_doubtful, removal.attempts = False, 0
                self._dispatch(removal)
            case WriteAccepted():
                removal.settled(Settled(is_ours=True))
            case WriteConflicted():  # another pod of that name
                removal.settled(Settled(_may_be_ours(removal)))
            case WriteRejected(code=code) if code == GONE:
                removal.settled(Settled(_may_be_ours(removal)))
            case WriteRejected():
                if removal.is_doubtful or answer.is_retriable:
                    self._retry(partial(self._dispatch, removal), removal.attempts, is_hopeless=not answer.is_retriable)
                else:
                    removal.settled(Settled(refusal=answer))
            case _:
                removal.is_doubtful = True
                self._retry(partial(self._dispatch, removal), removal.attempts)


def _may_be_ours(removal: _Removal) -> bool:
    """Whether a deletion of ours, whose outcome is unknown, may be why the pod is gone."""
    return removal.is_doubtful and isinstance(removal.decision, DeletePod)
