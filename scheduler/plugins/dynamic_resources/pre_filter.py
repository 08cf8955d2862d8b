"""PreFilter: the pod's claims, gathered once for the whole cycle, or why no node needs to be asked about them.

Not here: which claims a pod has (`resolved_claims`), what a special claim asks for (`special_claim_step`).
"""

from __future__ import annotations

from dataclasses import replace

from allocator import Claim, NodeSelectorError, check_node_selector
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.status import Status
from scheduler.model.api_rules import RESERVED_FOR_MAX
from scheduler.model.claim import ResourceClaim
from scheduler.model.objects import Pod
from scheduler.model.pod_group import is_reserved_for
from scheduler.plugins.dynamic_resources.binding_conditions import has_binding_conditions, is_given_up
from scheduler.plugins.dynamic_resources.node_allocatable import is_counted
from scheduler.plugins.dynamic_resources.resolved_claims import PodClaims, walk_claims
from scheduler.plugins.dynamic_resources.special_claim_step import find_special_claim
from scheduler.why.say import Reader, told


def gather_claims(pod: Pod, view: ClusterView, *, now_ms: int, binding_timeout_ms: int) -> PodClaims | Status | None:
    """The pod's claims; None when it needs no devices, a status when no node needs to be asked."""
    special = find_special_claim(pod, view)
    if not pod.spec.resource_claims and special is None:
        return None
    walk = walk_claims(pod, view)
    if walk.problem is not None:
        return Status.unresolvable(walk.problem)
    if isinstance(special, Status):
        return special
    if not walk.claims and special is None:
        return None
    is_timed = view.features.device_binding_and_status

    def is_lost(claim: ResourceClaim) -> bool:
        return is_timed and has_binding_conditions(claim) and is_given_up(claim, binding_timeout_ms, now_ms)

    if special is not None and special.stored is not None and special.stored.allocation is not None:
        refusal = _refuse_allocated(special.stored, pod)
        if refusal is not None:
            return refusal
        if is_lost(special.stored):
            special = replace(special, is_given_up=True)
    for claim in walk.claims:
        is_allocated = claim.allocation is not None
        refusal = _refuse_allocated(claim, pod) if is_allocated else _refuse_unallocated(claim, view)
        refusal = refusal or _refuse_awaited(claim, pod, view)
        if refusal is not None:
            return refusal
    unallocated = tuple([claim for claim in walk.claims if claim.allocation is None])
    return PodClaims(
        claims=walk.claims,
        unallocated=unallocated,
        wanted=tuple(
            [Claim(claim.key.namespace, claim.key.name, claim.spec) for claim in unallocated if claim.spec is not None]
        ),
        given_up=frozenset([index for index, claim in enumerate(walk.claims) if is_lost(claim)]),
        special=special,
        takes_of_nodes=is_counted(view),
    )


def _refuse_allocated(claim: ResourceClaim, pod: Pod) -> Status | None:
    """Why no node needs to be asked about an allocated claim, or None."""
    if len(claim.reserved_for) >= RESERVED_FOR_MAX and not is_reserved_for(claim, pod):
        return Status.unresolvable(f"resourceclaim in use: {claim.key} has {len(claim.reserved_for)} consumers already")
    selector = claim.allocation.node_selector if claim.allocation is not None else None
    if selector is not None:
        try:
            check_node_selector(selector)
        except NodeSelectorError as error:
            return Status.error(f"claim {claim.key}: {error}")
    return None


def _refuse_awaited(claim: ResourceClaim, pod: Pod, view: ClusterView) -> Status | None:
    """Why the pod must not share what the claim still has: others were removed so that somebody else gets that.

    Who shares it keeps it from being released, and the others were removed in vain.
    """
    other = view.awaiting_release(claim.key)
    if other is None or other.uid == pod.uid or other.priority < pod.priority:
        return None
    who = told(other.key, "pod", Reader(claim.key.namespace))
    return Status.unresolvable(f"resourceclaim {claim.key} is being released for {who} (priority {other.priority})")


def _refuse_unallocated(claim: ResourceClaim, view: ClusterView) -> Status | None:
    """Why no node needs to be asked about an unallocated claim, or None."""
    if view.is_held(claim.uid):
        return Status.unresolvable(f"resource claim {claim.key} is in the process of being allocated")
    if claim.spec is None:
        return Status.unresolvable(f"ResourceClaim {claim.key} cannot be read: it has no spec")
    for request in claim.spec.requests:
        if request.exactly is not None:
            refusal = _refuse_class(request.exactly.device_class_name, request.name, view)
            if refusal is not None:
                return refusal
        elif not request.first_available:
            return Status.unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
        elif not view.features.prioritized_list:
            return Status.unresolvable(
                f"resource claim {claim.key}, request {request.name}: has subrequests, but the DRAPrioritizedList "
                "feature is disabled"
            )
        for alternative in request.first_available if request.exactly is None else ():
            refusal = _refuse_class(alternative.device_class_name, f"{request.name}/{alternative.name}", view)
            if refusal is not None:
                return refusal
    return None


def _refuse_class(class_name: str, request: str, view: ClusterView) -> Status | None:
    if not class_name:
        return Status.error(f"request {request}: unsupported request type")
    if class_name not in view.inventory.classes:
        return Status.unresolvable(f"request {request}: device class {class_name} does not exist")
    if unread := view.inventory.classes[class_name].unread:
        return Status.unresolvable(f"request {request}: device class {class_name} has the unknown field {unread[0]}")
    return None
