"""Which ResourceClaims a pod uses, or why that cannot be said yet.

Rules of this module
  1. Claims come in the order of `spec.resourceClaims`, each once. An entry may need no claim: its status says so.
  2. A claim named by the pod needs no owner. A claim generated from a template must be controlled by this pod.
  3. The first problem ends the walk; its text is upstream's.

Not here: what the claims ask for, and the special claim of extended resources (`special_claim_step`).

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (foreachPodResourceClaim) 1.36.3,
k8s.io/dynamic-resource-allocation resourceclaim/resourceclaim.go (Name, IsForPod) v0.36.3.
Differs on purpose: a claim that cannot be read (`problem`) ends the walk too, instead of looking unallocated; a claim
named by two entries counts once (upstream allocates it twice and fails when it stores the second).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from allocator import Claim, NodeView
from allocator.pools.node_match import named_nodes
from scheduler.framework.cluster_view import ClusterView
from scheduler.model.claim import ResourceClaim, is_usable_on
from scheduler.model.keys import ClaimKey, NodeName
from scheduler.model.objects import Pod, PodResourceClaim, PodResourceClaimStatus
from scheduler.model.pod_group import PodGroup, group_key, is_group_owner
from scheduler.plugins.dynamic_resources.special_claim_step import SpecialClaimState


class ClaimWalk(Struct, frozen=True):
    """The pod's claims, up to the first `problem` for which the pod has to wait.

    `is_generation_pending`: the problem is a claim not generated yet, so this pod has never passed PreEnqueue.
    """

    claims: tuple[ResourceClaim, ...]
    problem: str | None = None
    is_generation_pending: bool = False


class PodClaims(Struct, frozen=True):
    """One pod's claims as PreFilter found them. A cycle without this slot has nothing to do with devices.

    Attributes:
        claims: All, in pod order, each once.
        unallocated: The claims that this cycle has to allocate; `wanted` holds the same for the allocator.
        given_up: Indices into `claims` of those whose binding conditions failed or took too long.
        special: The claim behind the pod's extended resources; None when it asks for none that devices could serve.
        takes_of_nodes: Some devices take of their nodes' own resources, so what is found has to be weighed.
    """

    claims: tuple[ResourceClaim, ...]
    unallocated: tuple[ResourceClaim, ...]
    wanted: tuple[Claim, ...]
    given_up: frozenset[int]
    special: SpecialClaimState | None
    takes_of_nodes: bool

    def is_unavailable(self, index: int, host: NodeView) -> bool:
        """Whether an allocated claim cannot be used on this node (or, given up, on any)."""
        allocation = self.claims[index].allocation
        if allocation is None:
            return False
        # Of the node only now: a pod that runs keeps its devices when the kubelet declares less.
        is_refused = allocation.skips_operations and not host.can_skip_operations
        return is_refused or index in self.given_up or not is_usable_on(allocation, host)


def walk_claims(pod: Pod, view: ClusterView) -> ClaimWalk:
    """Resolve `spec.resourceClaims` of `pod` against the claims that exist now."""
    claims: list[ResourceClaim] = []
    for entry in pod.spec.resource_claims or ():
        found = _resolve(pod, entry, view)
        if isinstance(found, str):
            return ClaimWalk(tuple(claims), found, _is_generation_pending(pod, entry))
        if found is not None and found not in claims:
            claims.append(found)
    return ClaimWalk(tuple(claims))


def claim_names(pod: Pod) -> dict[str, str]:
    """For each entry of `spec.resourceClaims` that has a claim by now, the claim's name."""
    names: dict[str, str] = {}
    for entry in pod.spec.resource_claims or ():
        status = _status_entry(pod, entry)
        name = entry.resource_claim_name or (status.resource_claim_name if status is not None else None)
        if name:
            names[entry.name] = name
    return names


def nodes_named_by(claims: Iterable[ResourceClaim]) -> frozenset[NodeName] | None:
    """The only nodes on which all allocated claims can be used; None when their allocations name no nodes."""
    common: frozenset[str] | None = None
    for claim in claims:
        selector = claim.allocation.node_selector if claim.allocation is not None else None
        names = named_nodes(selector) if selector is not None else None
        if names is not None:
            common = names if common is None else common & names
    return frozenset(map(NodeName, common)) if common is not None else None


def group_of_claim(pod: Pod, key: ClaimKey, view: ClusterView) -> PodGroup | None:
    """The pod's group, when all pods of the group share the claim."""
    name = group_key(pod)
    group = view.pod_group(name) if name is not None else None
    if group is None:
        return None
    names = claim_names(pod)
    is_shared = any(names.get(one.name) == key.name and one in group.claims for one in pod.spec.resource_claims or ())
    return group if is_shared else None


def _resolve(pod: Pod, entry: PodResourceClaim, view: ClusterView) -> ResourceClaim | str | None:
    """The claim of one entry, None when none is needed, or the problem."""
    is_generated = entry.resource_claim_name is None
    if not is_generated:
        name = entry.resource_claim_name
    elif entry.resource_claim_template_name is not None:
        status = _status_entry(pod, entry)
        if status is None:
            return f'pod "{pod.key}": ResourceClaim not created yet'
        name = status.resource_claim_name
    else:
        return f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are set'
    if name is None:
        return None
    key = ClaimKey(pod.metadata.namespace, name)
    claim = view.claim(key)
    if claim is None:
        return f'could not find ResourceClaim "{key}"'
    if claim.deletion_timestamp is not None:
        return f'resourceclaim "{name}" is being deleted'
    owner = claim.controller
    if is_generated and (owner is None or owner.uid != pod.uid) and not is_group_owner(owner, pod):
        return f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)"
    if claim.problem is not None:
        return f"ResourceClaim {key} cannot be read: {claim.problem}"
    return claim


def _status_entry(pod: Pod, entry: PodResourceClaim) -> PodResourceClaimStatus | None:
    for status in pod.status.resource_claim_statuses or ():
        if status.name == entry.name:
            return status
    return None


def _is_generation_pending(pod: Pod, entry: PodResourceClaim) -> bool:
    return entry.resource_claim_name is None and _status_entry(pod, entry) is None
