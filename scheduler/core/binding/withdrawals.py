"""Allocations that are taken back because another claim was given the same, or because the pod names another claim.

Ours yields whenever it can: other schedulers do not. It can while no pod that uses the claim is bound or about to be.

Rules of this module
  1. An allocation is withdrawn only while nobody relies on it (`_Use`), provided the claim has not changed meanwhile.
  2. What is reserved for a pod that is not being bound here may be what another process of our name is binding it with:
     that is withdrawn behind a fence (`taking_back`), and no pod joins it.

Not here: finding, counting and reporting what was given twice (`device_conflicts`); the outcome of a write
(`claim_writes`; until it is known the devices stay held).

See docs/adr/0010-several-schedulers.md.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from enum import Enum
from functools import partial
from typing import Final

from scheduler.core.binding.binding import BindingCycle, Bindings, Stage
from scheduler.core.reports.pod_conditions import reason_of
from scheduler.core.state.ground import Ground, Part
from scheduler.core.state.store import claims_of
from scheduler.core.writes.pending_writes import Overtaken, WriteOutcome
from scheduler.core.writes.writers import Writers
from scheduler.framework.decisions import Decision, WriteClaimStatus
from scheduler.framework.status import Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, ClaimUid, PodUid
from scheduler.model.objects import Pod
from scheduler.why.say import Reader, told


class Use(Enum):
    """Who relies on a claim's allocation, from nobody to somebody for certain."""

    NONE = 0
    RESERVED = 1  # a pod of ours that is not being bound here: by another process of our name, perhaps
    SOON = 2  # a pod of ours that is being bound and can still be held back
    UNSEEN = 3  # a pod that is gone or not observed yet: not to be withdrawn, and no pod joins it
    CERTAIN = 4


class Withdrawals(Part):
    """Says what can be withdrawn, and withdraws it."""

    def __init__(
        self,
        ground: Ground,
        writers: Writers,
        *,
        bindings: Bindings,
        scheduler_names: Container[str],
    ) -> None:
        super().__init__(ground)
        self._writes: Final = writers.claims
        self._taking_back: Final = writers.taking_back
        self._bindings: Final = bindings
        self._scheduler_names: Final = scheduler_names
        self.unstored: Final[dict[ClaimUid, None]] = {}
        """Claims of ours that yield and whose allocation is not stored, or not yet."""

    def reason_to_wait(self, pod: Pod, claims: Iterable[ClaimKey]) -> Status | None:
        """Why `pod` must not be bound now although its claims are stored: it can still yield to another claim."""
        for key in claims:
            claim = self._store.claim(key)
            if claim is None or claim.allocation is None:
                continue
            rivals = self._overlay.double_allocations.rivals(claim.uid)
            if rivals and self.use_of(claim, except_pod=pod.uid) is not Use.CERTAIN:
                return Status.error(self.text(claim.key, rivals[0].claim, rivals[0].what))
        return None

    def of_pod(self, binding: BindingCycle) -> tuple[WriteClaimStatus, ...]:
        """The writes that withdraw what only this pod, which is given up, would use."""
        claims = claims_of(binding.pod)
        found = (self._withdrawal(key, except_pod=binding.uid) for key in claims)
        # One claim can be both given twice and replaced. The next round handles the replacement.
        return tuple(write for write in found if write is not None) or tuple(self._of_replaced(binding.uid, claims))

    def _of_replaced(self, uid: PodUid, claims: Iterable[ClaimKey]) -> Iterator[WriteClaimStatus]:
        """The writes that withdraw allocations of generated claims that the pod's status names no longer.

        Nobody else may use them, and the resource claim controller deletes them with the pod, not before.
        """
        pod = self._store.pods.get(uid)
        if pod is None or pod.node_name is not None:
            return
        for key in claims:
            claim = self._store.claim(key)
            if key in self._store.claims_of(uid) or claim is None or claim.allocation is None:
                continue
            is_own = claim.controller is not None and claim.controller.uid == uid
            if is_own and all(consumer.pod_uid == uid for consumer in claim.reserved_for):
                yield WriteClaimStatus(key, claim.uid, claim.revision, clear_allocation=True)

    def given_up(self, claims: Iterable[ClaimKey]) -> None:
        """A pod that uses `claims` is not being bound any more, and nothing that was sent for it can land."""
        for key in claims:
            claim = self._store.claim(key)
            if claim is not None:
                self.unstored.pop(claim.uid, None)
        self.withdraw_unused(claims)

    def withdraw_unused(self, claims: Iterable[ClaimKey]) -> bool:
        """Withdraw what was given twice from claims that no pod is bound or being bound with; whether there was any."""
        found = False
        for key in claims:
            write = self._withdrawal(key, except_pod=None)
            if write is not None:
                found = True
                rival = self._overlay.double_allocations.rivals(write.uid)[0]
                failure = Status.error(self.text(key, rival.claim, rival.what))
                derive = partial(self._of_unused, key)
                self._taking_back.prepare((key,), derive, reason_of(failure), partial(self._withdraw, key))
        return found

    def _of_unused(self, key: ClaimKey) -> tuple[WriteClaimStatus, ...]:
        write = self._withdrawal(key, except_pod=None)
        return (write,) if write is not None else ()

    def _withdraw(self, key: ClaimKey, decisions: tuple[Decision, ...] | None) -> None:
        for write in decisions or ():
            assert isinstance(write, WriteClaimStatus)
            self._writes.send(write, partial(self._withdrawn, key))

    def _withdrawn(self, key: ClaimKey, outcome: WriteOutcome) -> None:
        # Another change of the claim came first: look again. A refusal is left to the next attempt of the claim's pod.
        if isinstance(outcome, Overtaken):
            self.withdraw_unused((key,))

    def _withdrawal(self, key: ClaimKey, *, except_pod: PodUid | None) -> WriteClaimStatus | None:
        claim = self._store.claim(key)
        if claim is None or claim.allocation is None or not self._overlay.double_allocations.rivals(claim.uid):
            return None
        if self.use_of(claim, except_pod=except_pod) not in (Use.NONE, Use.RESERVED):
            return None
        if self._writes.is_unsettled(key, except_owner=PodUid("")) or (except_pod is None and not self.is_ours(claim)):
            return None
        return WriteClaimStatus(key, claim.uid, claim.revision, clear_allocation=True)

    def is_ours(self, claim: ResourceClaim) -> bool:
        """Whether a pod of ours uses the claim."""
        return self._overlay.is_held(claim.uid) or any(
            pod.spec.scheduler_name in self._scheduler_names for pod in self._store.pods_using(claim.key)
        )

    def use_of(self, claim: ResourceClaim, *, except_pod: PodUid | None) -> Use:
        """Who relies on the claim's allocation, `except_pod` left out."""
        found = 0
        users = {pod.uid: pod for pod in self._store.pods_using(claim.key)}
        for consumer in claim.reserved_for:
            if consumer.pod_uid is None:
                return Use.CERTAIN  # of another kind
            if consumer.pod_uid not in users and consumer.pod_uid != except_pod:
                found = Use.UNSEEN.value
        reserved = {consumer.pod_uid for consumer in claim.reserved_for}
        for uid, pod in users.items():
            if uid == except_pod:
                continue
            stage = self._bindings.stage_of(uid)
            # Its binding was accepted: it is bound, whether or not that was observed yet.
            node = pod.node_name or (self._store.assumed.get(uid) if uid not in self._bindings else None)
            if (pod.is_terminal or node is not None) and uid not in reserved:
                # The pod was bound without a reservation, or has lost it, so no kubelet prepares devices for it. If a
                # reservation appears we will see a new revision.
                continue
            if node is not None and not pod.is_terminal and not self._taking_back.is_usable_on(node, claim):
                continue  # bound to another node than the devices': no kubelet prepares them there either
            if node is not None or stage is Stage.BIND:
                return Use.CERTAIN
            if uid in reserved and pod.spec.scheduler_name not in self._scheduler_names:
                return Use.CERTAIN  # its scheduler is about to bind it
            if stage is not None:
                found = max(found, Use.SOON.value)
            elif uid in reserved:
                found = max(found, Use.RESERVED.value)
        return Use(found)

    def text(self, claim: ClaimKey, rival: ClaimUid, what: str) -> str:
        """Why the pod of `claim` is given up."""
        other = self._store.claims.get(rival)
        who = told(other.key, "ResourceClaim", Reader(claim.namespace)) if other else f"ResourceClaim {rival}"
        return f"claim {claim}: {what} was given to {who} by another scheduler at the same time"
