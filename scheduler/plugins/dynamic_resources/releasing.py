"""What goes with pods when they go: claims that nobody would use any more, so that their devices are free.

A *holder* of a claim is a pod it is reserved for, or a pod on a node that uses it: bound pods whose reservation was not
observed yet, our own between Reserve and the stored reservation. A pod that is leaving, or gone, holds no longer.

Rules of this module
  1. A claim is released when all its holders go or are leaving. Only devices of the node's own are: devices that other
     nodes see could be what pods elsewhere need, and a claim for them may be used there.
  2. Never released: claims that the pod itself uses, claims of a PodGroup, claims whose devices are all for admin
     access (they take nothing, so they free nothing), claims that were waited for in vain and still have what they had.
  3. What a claim counts is what is released, in flight or observed: exactly that is taken back from the ledger.

Not here: who goes (the plugin DefaultPreemption), supposing it (`core.supposition`).

Cost: O(claims of the pods that go, and of their users).

Source: none upstream; see docs/adr/0026-preemption.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from allocator import AllocationError, AllocationRequest, could_serve
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import Status
from scheduler.framework.steps import within_steps
from scheduler.model.claim import ResourceClaim
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.special_claim import provisional_uid, special_claim_key
from scheduler.plugins.dynamic_resources.node_search import REASON_NO_SOLUTION, NodeSearch
from scheduler.plugins.dynamic_resources.resolved_claims import group_of_claim


def could_be_released(cycle: Cycle, node: NodeInfo, status: Status, view: ClusterView) -> bool:
    """Whether the devices that pods of lower priority hold on `node` could make the difference. A "no" is certain.

    Args:
        status: Why Filter refused the node.
    """
    search = cycle.find(NodeSearch)
    if search is None or not any(reason.startswith(REASON_NO_SOLUTION) for reason in status.reasons):
        return False
    claims = search.claims
    if any(claims.is_unavailable(index, node.host) for index in range(len(claims.claims))):
        return False
    priority = cycle.pod.spec.priority or 0
    lower = {uid for uid, one in node.pods.items() if (one.spec.priority or 0) < priority}
    released = released_claims(cycle.pod, node, lower, view) if lower else ()
    wanted = search.wanted_on(node)
    if not released or isinstance(wanted, Status):
        return False
    question = AllocationRequest(wanted, node.host, view.inventory, view.in_use, view.features, search.budget_steps)
    try:
        with within_steps(cycle, view):
            return could_serve(question, [one.allocation for one in released])
    except AllocationError:
        return False


def released_claims(pod: Pod, node: NodeInfo, removed: Collection[PodUid], view: ClusterView) -> tuple[Held, ...]:
    """The claims that nobody would use any more if `removed` were gone from `node`, in the order of its pods."""
    going = _Going(node, removed, view)
    released: dict[ClaimKey, list[Held]] = {}
    try:
        for uid in node.pods:
            if uid in removed:
                for key in view.claims_of(uid):
                    if key not in released:
                        released[key] = list(going.release(key, uid)) if pod.uid not in view.users_of(key) else []
    except AllocationError:
        return ()  # a slice's node selector cannot be read: Filter fails the pod with that
    return tuple(held for helds in released.values() for held in helds)


class _Going:
    """Pods that go from a node."""

    def __init__(self, node: NodeInfo, removed: Collection[PodUid], view: ClusterView) -> None:
        self._node: Final = node
        self._removed: Final = removed
        self._view: Final = view

    def release(self, key: ClaimKey, user: PodUid) -> Iterator[Held]:
        """What the claim of one of them counts, if that would be released."""
        view, claim = self._view, self._view.claim(key)
        if claim is not None:
            uid = claim.uid
        else:
            holder = view.pod(user)
            if holder is None or key != special_claim_key(holder):
                return
            uid = provisional_uid(user)
        counted = view.counted(uid)
        devices = [one.device_id for allocation in counted for one in allocation.results if not one.admin_access]
        if not devices or self._stays_in_use(key, claim):
            return
        pools = view.inventory.node_pools(self._node.host, view.features)
        if all(pools.is_own(device, self._node.name) for device in devices):
            for allocation in counted:
                yield Held(key, uid, allocation)

    def _stays_in_use(self, key: ClaimKey, claim: ResourceClaim | None) -> bool:
        """Whether somebody holds the claim who stays."""
        view, removed = self._view, self._removed
        if view.was_awaited_in_vain(key):
            return True
        for consumer in claim.reserved_for if claim is not None else ():
            uid = consumer.pod_uid
            if uid is None or not (uid in removed or self._is_leaving(uid)):
                return True
        for uid in view.users_of(key):
            if uid in removed:
                user = view.pod(uid)
                if user is not None and group_of_claim(user, key, view) is not None:
                    return True
            elif view.node_of(uid) is not None and not self._is_leaving(uid):
                return True
        return False

    def _is_leaving(self, uid: PodUid) -> bool:
        pod = self._view.pod(uid)
        return pod is None or pod.is_deleting or pod.is_terminal
