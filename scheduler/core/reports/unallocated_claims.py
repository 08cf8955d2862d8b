"""Unallocated claims of pods that already have a node. No scheduler will allocate them.

A scheduler allocates claims while it looks for a node. A pod that has one (usually because its manifest sets
`spec.nodeName`, or because somebody bound it without looking at its claims) is left alone by all schedulers. So its
claim stays unallocated, and the kubelet waits for ever without a word that says why.

Rules of this module
  1. Reported after `_SILENT_MS`, and not before everything has been listed: until then the claim may still
     be generated, or be allocated for another pod.
  2. Reported once for each pod and claim, on both. A claim that a pending pod uses too can still be allocated for that
     pod: checked again later.
  3. A claim that has taken the place of another one, with which the pod was bound, is reported as that: its author did
     nothing wrong. kube-controller-manager up to 1.36 can do that when many pods come at once.
  4. A pod that was observed without a node before was put there by a scheduler, not by its manifest; the text says so.
  5. Only pods that name one of our profiles are ours to report on.

Not here: the reservation of such a pod for a claim that is allocated; the resource claim controller makes it.

Cost: O(claims of the pod) for each observation of a bound pod that has claims.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import Final

from scheduler.core.ground.timers import TimerId
from scheduler.core.state.ground import Ground, Part
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimUid, PodUid
from scheduler.model.objects import Pod

REASON: Final = "ClaimNotAllocated"
_SILENT_MS: Final = 5_000
_AGAIN_MS: Final = 60_000
# The claim controller makes a second claim for a pod when its watch of claims lags far behind that of pods.
_KNOWN: Final = "https://github.com/kubernetes/kubernetes/issues/140217"


class UnallocatedClaims(Part):
    """Finds them and reports them."""

    def __init__(self, ground: Ground, scheduler_names: Container[str]) -> None:
        super().__init__(ground)
        self._scheduler_names: Final = scheduler_names
        self._is_listed = False
        self._armed: Final[dict[PodUid, TimerId]] = {}
        self._reported: Final[dict[PodUid, dict[ClaimUid, None]]] = {}
        self._observed_waiting: Final[dict[PodUid, None]] = {}

    @property
    def count(self) -> int:
        """Pods on a node with a claim that was reported as not allocated and still is not."""
        return len(self._reported)

    def all_listed(self) -> None:
        """Everything that exists has been observed; before, nothing could be said about what is missing."""
        if not self._is_listed:
            self._is_listed = True
            for pod in self._store.pods.values():
                self.pod_observed(pod)

    def pod_observed(self, pod: Pod, *, was_waiting: bool = False) -> None:
        """A pod is there, or has changed.

        Args:
            was_waiting: It had no node when it was last observed.
        """
        if pod.spec.scheduler_name not in self._scheduler_names:
            return
        if was_waiting:
            self._observed_waiting[pod.uid] = None
        if not self._is_listed:
            return
        if pod.node_name is None or pod.is_terminal or pod.is_deleting:
            self.pod_gone(pod.uid)
            return
        unallocated = self._unallocated(pod)
        self._forget_reported(pod.uid, unallocated)
        if unallocated and any(claim.uid not in self._reported.get(pod.uid, ()) for claim in unallocated):
            self._arm(pod.uid, _SILENT_MS)

    def claim_changed(self, claim: ResourceClaim) -> None:
        """A claim is there, has changed, or is gone."""
        for pod in self._store.pods_using(claim.key):
            if pod.node_name is not None:
                self.pod_observed(pod)

    def pod_gone(self, uid: PodUid) -> None:
        """The pod needs nothing any more."""
        self._timers.cancel(self._armed.pop(uid, None))
        self._reported.pop(uid, None)
        self._observed_waiting.pop(uid, None)

    def _unallocated(self, pod: Pod) -> list[ResourceClaim]:
        claims = [self._store.claim(key) for key in self._store.claims_of(pod.uid)]
        return [claim for claim in claims if claim is not None and claim.allocation is None]

    def _forget_reported(self, uid: PodUid, unallocated: list[ResourceClaim]) -> None:
        reported = self._reported.get(uid)
        if reported is None:
            return
        still = {claim.uid for claim in unallocated}
        for claim in [claim for claim in reported if claim not in still]:
            del reported[claim]
        if not reported:
            del self._reported[uid]

    def _arm(self, uid: PodUid, wait_ms: int) -> None:
        if uid not in self._armed:
            self._armed[uid] = self._timers.at(self._timers.now_ms + wait_ms, partial(self._check, uid))

    def _check(self, uid: PodUid) -> None:
        del self._armed[uid]
        pod = self._store.pods.get(uid)
        if pod is None or pod.node_name is None:
            return
        for claim in self._unallocated(pod):
            if claim.uid in self._reported.get(uid, ()) or claim.is_deleting:
                continue
            if any(one.node_name is None and not one.is_terminal for one in self._store.pods_using(claim.key)):
                self._arm(uid, _AGAIN_MS)
                continue
            self._reported.setdefault(uid, {})[claim.uid] = None
            self._report(pod, claim)

    def _replaced_by(self, pod: Pod, claim: ResourceClaim) -> ResourceClaim | None:
        """The claim in whose place the pod's status names `claim`: it is the pod's too, and reserved for it."""
        if claim.controller is None or claim.controller.uid != pod.uid:
            return None
        named = self._store.claims_of(pod.uid)
        for other in self._store.claims.values():
            is_own = other.controller is not None and other.controller.uid == pod.uid
            if is_own and other.is_reserved_for(pod.uid) and other.key not in named:
                return other
        return None

    def _report(self, pod: Pod, claim: ResourceClaim) -> None:
        of_pod, of_claim = self._notes(pod, claim)
        self._outbox.report_on_pod(pod, "Warning", REASON, "Scheduling", of_pod)
        self._outbox.report_on_claim(claim, REASON, "Scheduling", of_claim)

    def _notes(self, pod: Pod, claim: ResourceClaim) -> tuple[str, str]:
        """The texts on the pod and on the claim."""
        name, node = claim.key.name, pod.node_name
        replaced = self._replaced_by(pod, claim)
        if replaced is not None:
            old = replaced.key.name
            return (
                f"the pod was bound with ResourceClaim {old}, and the resource claim controller has put {name} in its "
                f"place since then: the pod is on node {node} already, so no scheduler allocates {name} and the pod "
                f"cannot start. Delete the pod, so that its controller makes another one ({_KNOWN}).",
                f"nobody allocates this claim: its pod {pod.metadata.name} was bound with ResourceClaim {old} before "
                f"the resource claim controller put this one in its place ({_KNOWN}).",
            )
        if pod.uid in self._observed_waiting:
            cause = (
                f"a scheduler has bound the pod to node {node} without it, or somebody has taken the allocation away "
                "since then"
            )
            return (
                f"ResourceClaim {name} is not allocated: {cause}. No scheduler allocates it now, so the pod cannot "
                "start. Delete the pod, so that its controller makes another one; if it happens again, look for a "
                f"second process that schedules for {pod.spec.scheduler_name}.",
                f"nobody allocates this claim for its pod {pod.metadata.name}: {cause}.",
            )
        advice = (
            "Was spec.nodeName set in its manifest? Leave the node to the scheduler: use nodeSelector or nodeAffinity "
            "instead."
        )
        return (
            f"the pod is on node {node} already, so no scheduler allocates its ResourceClaim {name} and it cannot "
            f"start. {advice}",
            f"nobody allocates this claim: its pod {pod.metadata.name} is on node {node} already. {advice}",
        )
