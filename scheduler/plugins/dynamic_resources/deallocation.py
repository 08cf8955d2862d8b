"""PostFilter: the one claim to free, or to delete, so that the pod's next attempt can do better.

Rules of this module
  1. A claim that another pod uses, or is about to use, stays as it is.
  2. One claim for each attempt, the first in pod order: the next attempt sees the effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.framework.api import PostFilterResult
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.decisions import WriteClaimStatus
from scheduler.framework.status import Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import NodeName
from scheduler.model.objects import Pod
from scheduler.model.pod_group import group_key, is_for_group
from scheduler.plugins.dynamic_resources.resolved_claims import PodClaims
from scheduler.plugins.dynamic_resources.special_claim_step import REASON_STALE, removal

REASON_UNAVAILABLE: Final = "resourceclaim not available on the node"


def free_a_claim(
    claims: PodClaims, pod: Pod, verdicts: Mapping[NodeName, Status], view: ClusterView
) -> PostFilterResult:
    """The write that frees or deletes a claim that keeps the pod from a node."""
    for index, claim in enumerate(claims.claims):
        if (
            claim.allocation is not None
            and _is_ours_to_free(claim, pod, view)
            and _stands_in_the_way(claims, index, verdicts, view)
        ):
            free = WriteClaimStatus(claim.key, claim.uid, claim.revision, clear_allocation=True)
            return PostFilterResult(Status.unschedulable("deallocation of ResourceClaim completed"), decisions=(free,))
    for index, claim in enumerate(claims.claims):
        if _is_idle_groups(claim, pod, view) and _stands_in_the_way(claims, index, verdicts, view):
            others = tuple(consumer for consumer in claim.reserved_for if not is_for_group(consumer, pod))
            unreserve = WriteClaimStatus(claim.key, claim.uid, claim.revision, reserved_for=others)
            return PostFilterResult(
                Status.unresolvable("ResourceClaim unreserved for PodGroup"), decisions=(unreserve,)
            )
    special = claims.special.stored if claims.special is not None else None
    if special is not None and any(REASON_STALE in status.reasons for status in verdicts.values()):
        removed = removal(special, pod)
        if removed:
            return PostFilterResult(Status.unschedulable("deletion of ResourceClaim completed"), decisions=removed)
    return nothing_to_free(view, Status.unschedulable("still not schedulable"))


def nothing_to_free(view: ClusterView, said: Status) -> PostFilterResult:
    """No claim is in the way; since 1.37 that is not said to people."""
    return PostFilterResult(Status.unschedulable() if view.features.has_137_semantics else said)


def _is_ours_to_free(claim: ResourceClaim, pod: Pod, view: ClusterView) -> bool:
    """Whether no other pod uses the claim, or is about to: it has a node, and its reservation is under way."""
    if any(consumer.pod_uid != pod.uid for consumer in claim.reserved_for):
        return False
    others = [uid for uid in view.users_of(claim.key) if uid != pod.uid]
    return not any(uid in info.pods for uid in others for info in view.node_infos.values())


def _is_idle_groups(claim: ResourceClaim, pod: Pod, view: ClusterView) -> bool:
    """Whether an allocated claim is reserved for the pod's group, no pod of which is on a node."""
    key = group_key(pod)
    if key is None or claim.allocation is None or not any(is_for_group(one, pod) for one in claim.reserved_for):
        return False
    return not any(group_key(one) == key for info in view.node_infos.values() for one in info.pods.values())


def _stands_in_the_way(claims: PodClaims, index: int, verdicts: Mapping[NodeName, Status], view: ClusterView) -> bool:
    """Whether the claim is the reason why some node was refused."""
    return any(
        REASON_UNAVAILABLE in status.reasons
        and (info := view.node_infos.get(name)) is not None
        and claims.is_unavailable(index, info.host)
        for name, status in verdicts.items()
    )
