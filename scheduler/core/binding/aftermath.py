"""How attempts end: a pod is bound, or queued again, and what it leaves behind wakes other pods.

Rules of this module
  1. A hold that ends without an allocation is put to waiting pods as if the allocation had been removed, and an
     assumption that ends as if the pod had left the node: what they took is free again.

Not here: what is taken back from claims (`unreserving`, `withdrawals`); what observations lead to (`observation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import msgspec

from scheduler.core.binding.binding import BindingCycle
from scheduler.core.binding.withdrawals import Withdrawals
from scheduler.core.ground.outbox import Note
from scheduler.core.queue.queued_pod import QueuedPod
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.reports.causes import Causes
from scheduler.core.reports.group_causes import UnplacedGroup
from scheduler.core.reports.pod_conditions import PodConditions, Refusal, reason_of
from scheduler.core.reports.troubles import Troubles
from scheduler.core.state.claim_overlay import footprint
from scheduler.core.state.ground import Ground, Part
from scheduler.core.state.reservations import Released
from scheduler.core.state.store import claims_of
from scheduler.framework.api import Action, Resource
from scheduler.framework.status import Code, Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.objects import Pod


class Aftermath(Part):
    """Ends attempts."""

    def __init__(
        self,
        ground: Ground,
        *,
        queue: SchedulingQueue,
        conditions: PodConditions,
        causes: Causes,
        troubles: Troubles,
        withdrawals: Withdrawals,
        given_up: Callable[[PodUid], None],
        released: Callable[[ClaimKey], None],
    ) -> None:
        """`given_up` is called with each pod that is not being bound any more, `released` with each claim not held."""
        super().__init__(ground)
        self._queue: Final = queue
        self._conditions: Final = conditions
        self._causes: Final = causes
        self._troubles: Final = troubles
        self._withdrawals: Final = withdrawals
        self._given_up: Final = given_up
        self._released: Final = released

    def attempt_failed(
        self,
        queued: QueuedPod,
        status: Status,
        delay_ms: int | None = None,
        *,
        steps: int | None = None,
        group: UnplacedGroup | None = None,
        mates: Iterable[tuple[QueuedPod, Refusal]] = (),
    ) -> None:
        """Something went wrong: report it, and try again after a while.

        Args:
            steps: What the scheduling cycle took; None when the pod failed later, while it was being bound.
            group, mates: With which it was tried (`Causes.report_group`).
        """
        self._queue.failed(queued, self._timers.now_ms, delay_ms, steps=steps, is_rejection=status.is_rejection)
        if self._outbox.takes_notes:
            wait_ms = queued.ready_ms - self._timers.now_ms
            text = f"failed, again in {wait_ms} ms: {status.message}"
            self._outbox.notes.append(Note(queued.pod.key, queued.cycle, text))
        if group is not None:
            self._causes.report_group(queued, reason_of(status), group, mates)
        elif status.code is Code.ERROR and steps is not None:
            self._causes.report(queued, reason_of(status))  # perhaps a selector that cannot be answered
        else:
            self._conditions.report(queued.pod, reason_of(status))

    def leave(self, uid: PodUid) -> None:
        """The pod is bound, gone, or nobody wants it bound any more."""
        self._queue.remove(uid, self._timers.now_ms)
        self._conditions.forget(uid)
        self._causes.forget(uid)

    def pod_bound(self, binding: BindingCycle) -> None:
        """The binding cycle ended well."""
        queued = self._queue.find(binding.uid)
        if queued is not None:
            self._queue.bound(queued, self._timers.now_ms)
        self._troubles.pod_bound(binding.pod.key)
        self.leave(binding.uid)

    def pod_failed(self, binding: BindingCycle) -> None:
        """The binding cycle ended without a binding: queue the pod again, if it is still there and still ours."""
        uid = binding.uid
        pod = self._store.pods.get(uid)
        queued = self._queue.find(uid)
        if pod is None or pod.node_name is not None or pod.is_deleting or pod.is_terminal:
            self.leave(uid)
        elif queued is not None:
            self.attempt_failed(queued, binding.failure or Status.error("binding failed"), binding.retry_ms)
        self._withdrawals.given_up(claims_of(binding.pod))
        self._given_up(uid)

    def devices_released(self, held: Iterable[Held]) -> None:
        """These holds have ended."""
        for one in held:
            claim = self._store.claims.get(one.uid)
            if claim is None:
                claim = ResourceClaim(one.claim, one.uid, revision=0, spec=None)  # it was never created, or is gone
            stored = claim.allocation
            if stored is None or footprint(stored) != footprint(one.allocation):
                with_devices, without = replace(claim, allocation=one.allocation), replace(claim, allocation=None)
                self._queue.change(Resource.CLAIM, Action.UPDATE, with_devices, without, self._timers.now_ms)
            self._released(one.claim)

    def claim_may_be_shared(self, key: ClaimKey) -> None:
        """Nobody waits for the claim's release any more: pods that use it may share what it has, if it has anything."""
        claim = self._store.claim(key)
        if claim is not None and claim.allocation is not None:
            before = replace(claim, allocation=None)
            self._queue.change(Resource.CLAIM, Action.UPDATE, before, claim, self._timers.now_ms)

    def stake_released(self, released: Released) -> None:
        """What was set aside for a pod is free, as far as it is not stored."""
        self.devices_released(released.devices)
        for held, free in released.volumes:
            self._queue.change(Resource(type(free).__name__), Action.UPDATE, held, free, self._timers.now_ms)

    def pod_unassumed(self, pod: Pod, node: NodeName) -> None:
        """The pod does not count on `node` any more."""
        was = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        self._queue.change(Resource.ASSIGNED_POD, Action.DELETE, was, None, self._timers.now_ms)
