"""Queueing hints of DynamicResources: which changes wake which waiting pods.

Rules of this module
  1. A change that frees or publishes devices wakes every pod that waits because of this plugin. One pod is asked for
     all of its signature, so the answer may not depend on the present state of that pod's own claims.
  2. Any other change of a claim concerns the pods that use it, and only when its status or existence changed.
  3. A class concerns the pods that name it, or an extended resource that it stands (or stood) behind.
  4. A pod whose claims cannot be resolved is not helped by a change of its own claims or of itself (SKIP). Any other
     change is answered for its whole signature: QUEUE, unless the pod only waits for a claim to be generated.
  5. When only taints of a slice changed, as when a DeviceTaintRule came or went, it wakes the pods with a request that
     does not tolerate a taint that was removed. An added taint helps nobody.
  6. A pod that leaves a node wakes the pods that its cpu and memory could help, where devices are made of these, and
     those that its device plugin's devices could (`framework.two_stacks`).

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (EventsToRegister, isSchedulableAfter...)
1.36.3, with the claim deletions of 1.37. Differs on purpose: rule 6; results with admin access free nothing; classes
wake only pods that name them; a removed slice wakes too, because it can complete a pool that had one too many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import lru_cache
from typing import Final

from allocator import Device, DeviceClass, DeviceTaint, ResourceSlice, prevent_allocation
from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.two_stacks import asks_of_both, stands_for_resource
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import PodUid
from scheduler.model.objects import Pod
from scheduler.model.resources import IMPLICIT_PREFIX
from scheduler.model.special_claim import asks_extended_resources, special_claim_key
from scheduler.plugins.dynamic_resources.extended_resources import requested_resources
from scheduler.plugins.dynamic_resources.node_allocatable import is_counted
from scheduler.plugins.dynamic_resources.resolved_claims import walk_claims

WAKES_ON: Final[tuple[tuple[Resource, Action], ...]] = (
    (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE),
    (Resource.NODE, Action.UPDATE_NODE_DECLARED_FEATURE),  # not upstream: devices wait for a kubelet that skips calls
    (Resource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
    (Resource.CLAIM, Action.ADD | Action.UPDATE | Action.DELETE),
    (Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
    (Resource.CLASS, Action.ADD | Action.UPDATE | Action.DELETE),
    (Resource.SLICE, Action.ADD | Action.UPDATE | Action.DELETE),
)
_OF_SLICES: Final = tuple(field.name for field in fields(ResourceSlice) if field.name != "devices")
_OF_DEVICES: Final = tuple(field.name for field in fields(Device) if field.name != "taints")


def concerned_pods(change: ClusterEvent, view: ClusterView) -> Iterable[PodUid] | None:
    """The pods that use the changed claim; None (any pod) when devices became free, or for other kinds of change."""
    if change.resource is Resource.ASSIGNED_POD:
        return None if is_counted(view) or asks_of_both(change.old, view) else ()
    claim, old = change.new, change.old
    if claim is None:
        claim, was_allocated = old, True
    else:
        was_allocated = isinstance(old, ResourceClaim) and old.allocation is not None
    if not isinstance(claim, ResourceClaim) or (was_allocated and frees_devices(change)):
        return None
    return view.users_of(claim.key)


def hint_for(pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
    """Whether `change` could make `pod` schedulable, by the rules of this module."""
    match change.resource:
        case Resource.CLAIM:
            return _hint_for_claim(pod, change, view)
        case Resource.POD:
            is_own = isinstance(change.new, Pod) and change.new.uid == pod.uid
            return _queue_if(is_own and isinstance(change.new, Pod) and walk_claims(change.new, view).problem is None)
        case Resource.CLASS:
            named = isinstance(change.new, DeviceClass) and _names_class(pod, change.new, view)
            if isinstance(change.old, DeviceClass) and stands_for_resource(change.old, view):
                return Hint.QUEUE  # also for pods of other classes: a plugin's devices were left alone
            return _queue_if(named or touches_resources(pod, change))
        case Resource.SLICE:
            return _hint_for_slice(pod, change, view)
        case Resource.ASSIGNED_POD:
            may_help = is_counted(view) or asks_of_both(change.old, view)
            return _queue_if(may_help and walk_claims(pod, view).problem is None)
        case _:
            return _queue_if(not walk_claims(pod, view).is_generation_pending)


def frees_devices(change: ClusterEvent) -> bool:
    """Whether a claim's change gives devices back: its allocation was removed, or the claim with it."""
    old, new = change.old, change.new
    if not isinstance(old, ResourceClaim) or old.allocation is None:
        return False
    if isinstance(new, ResourceClaim) and new.uid == old.uid and new.allocation is not None:
        return False
    return any(not result.admin_access for result in old.allocation.results)


def touches_resources(pod: Pod, change: ClusterEvent) -> bool:
    """Whether a class that changed stands, or stood, behind an extended resource that `pod` asks for."""
    if not asks_extended_resources(pod):
        return False
    asked = requested_resources(pod)
    return any(
        one.extended_resource_name in asked or IMPLICIT_PREFIX + one.name in asked
        for one in (change.old, change.new)
        if isinstance(one, DeviceClass)
    )


def _hint_for_claim(pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
    walk = walk_claims(pod, view)
    if frees_devices(change):
        return _queue_if(not walk.is_generation_pending)
    if walk.problem is not None:
        return Hint.SKIP
    claim = change.new
    seen = claim if claim is not None else change.old
    if isinstance(seen, ResourceClaim) and asks_extended_resources(pod) and seen.key == special_claim_key(pod):
        # The claim with the name that this pod's special claim must have: it is gone, or it has changed.
        return _queue_if(claim is None or change.old is None or claim != change.old)
    if not isinstance(claim, ResourceClaim) or all(used.uid != claim.uid for used in walk.claims):
        return Hint.SKIP
    old = change.old
    return _queue_if(not isinstance(old, ResourceClaim) or _status(old) != _status(claim))


def _hint_for_slice(pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
    removed = removed_taints(change)
    if removed is not None and not removed:
        return Hint.SKIP
    walk = walk_claims(pod, view)
    if walk.is_generation_pending:
        return Hint.SKIP
    # A special claim (extended resources) is not among the pod's claims, and tolerates nothing.
    if removed is None or walk.problem is not None or requested_resources(pod):
        return Hint.QUEUE
    return _queue_if(
        any(
            prevent_allocation(removed, alternative.tolerations)
            for claim in walk.claims
            if claim.spec is not None
            for request in claim.spec.requests
            for alternative in request.alternatives
        )
    )


@lru_cache(maxsize=1)  # one change is put to every waiting signature
def removed_taints(change: ClusterEvent) -> frozenset[DeviceTaint] | None:
    """Taints that devices of a slice lost, where nothing but taints changed; None for any other change."""
    old, new = change.old, change.new
    if not isinstance(old, ResourceSlice) or not isinstance(new, ResourceSlice):
        return None
    if len(old.devices) != len(new.devices) or not _are_equal(old, new, _OF_SLICES):
        return None
    removed: set[DeviceTaint] = set()
    for before, after in zip(old.devices, new.devices, strict=True):
        if before is after:
            continue
        if not _are_equal(before, after, _OF_DEVICES):
            return None
        removed.update(taint for taint in before.taints if taint not in after.taints)
    return frozenset(removed)


def _are_equal(one: object, other: object, names: Iterable[str]) -> bool:
    # Slices and devices are compared by identity otherwise.
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _status(claim: ResourceClaim) -> tuple[object, ...]:
    return claim.uid, claim.allocation, claim.reserved_for, claim.device_conditions, claim.problem


def _names_class(pod: Pod, device_class: DeviceClass, view: ClusterView) -> bool:
    walk = walk_claims(pod, view)
    if walk.problem is not None:
        return not walk.is_generation_pending
    return any(
        alternative.device_class_name == device_class.name
        for claim in walk.claims
        if claim.spec is not None
        for request in claim.spec.requests
        for alternative in request.alternatives
    )


def _queue_if(is_helped: bool) -> Hint:
    return Hint.QUEUE if is_helped else Hint.SKIP
