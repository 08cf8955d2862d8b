"""The special claim in one cycle: what it asks for on each node, and the writes that make it or take it back.

Rules of this module
  1. On each node: a resource that the node's kubelet reports as allocatable is served by the device plugin; any other
     resource by devices of the class behind its name.
  2. A special claim may be left from an earlier attempt, or from a scheduler that was stopped. It is used on nodes that
     need exactly what it asks for; other nodes are refused. When no node is left, PostFilter deletes the claim.
  3. Before the pod is bound, the claim is created, allocated and reserved, and its name is in the pod's status. Where
     no device serves the pod, a name from an earlier attempt is removed.
  4. Nothing is remembered between calls of PreBind: the stored objects decide.

Not here: what the requests are called and who maps to them (`extended_resources`), the search (`node_search`).

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go 1.36.3. Differs on purpose: the
claim's name follows from the pod, so nobody waits for an informer; an earlier claim that fits is used, not deleted; the
finalizer is there from the start; a stale `extendedResourceClaimStatus` does not survive.

See docs/adr/0014-hold-before-uid.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from allocator import Allocation, Claim, ClaimSpec, NodeView
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.decisions import (
    CreateClaim,
    Decision,
    DeleteClaim,
    PatchExtendedResources,
    RemoveClaimFinalizer,
    WriteClaimStatus,
)
from scheduler.framework.status import Status
from scheduler.model.api_rules import FINALIZER
from scheduler.model.claim import ResourceClaim, is_usable_on
from scheduler.model.keys import ClaimKey, ClaimUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import ExtendedResourceClaimStatus, Pod
from scheduler.model.special_claim import (
    DeviceCount,
    asks_extended_resources,
    is_special_claim_of,
    provisional_uid,
    special_claim_key,
)
from scheduler.plugins.dynamic_resources.extended_resources import (
    SpecialRequests,
    class_by_resource,
    decoded_spec,
    requested_resources,
    special_requests,
)
from scheduler.plugins.dynamic_resources.pre_bind import (
    ClaimGoal,
    ClaimLost,
    ClaimStored,
    is_of_another_attempt,
    next_step,
)

REASON_STALE: Final = "cannot schedule extended resource claim"
REASON_NOWHERE: Final = "cannot fit resource"


class OnNode(Struct, frozen=True):
    """What one node needs of the special claim.

    Attributes:
        requests: None when device plugins serve everything there.
        wanted: What is left to allocate, None when nothing is.
    """

    requests: SpecialRequests | None
    wanted: Claim | None


_NOTHING: Final = OnNode(None, None)


class SpecialSteps(Struct, frozen=True):
    """What to write next; with nothing left to write, `stored` is the claim as it stands behind the pod."""

    writes: tuple[Decision, ...]
    stored: ResourceClaim | None


@dataclass(frozen=True, slots=True)
class SpecialClaimState:
    """The special claim of one pod as PreFilter found it.

    Attributes:
        requested: The extended resources the pod asks for, sorted.
        classes: Class names by resource, for the requested resources that have a class.
        stored: None when the claim does not exist.
        is_given_up: Its binding conditions failed or took too long.
        is_named: Whether the pod's status names a claim. The API server lets nobody take that back (from 1.37 on): a
            kubelet would wait for that claim, also where device plugins serve everything.
        on_nodes: What `on` has computed, by the resources that devices serve.
    """

    pod: Pod
    key: ClaimKey
    requested: tuple[str, ...]
    classes: Mapping[str, str]
    stored: ResourceClaim | None
    is_given_up: bool = False
    is_named: bool = False
    on_nodes: dict[tuple[str, ...], OnNode | None] = field(default_factory=dict)

    @property
    def uid(self) -> ClaimUid:
        """The uid under which its devices are held."""
        return self.stored.uid if self.stored is not None else provisional_uid(self.pod.uid)

    def signature(self) -> Hashable:
        """Everything that `on` reads of the pod and of the stored claim."""
        parts = tuple(
            (name, special_requests(self.pod, {name: self.classes[name]}).requests if name in self.classes else ())
            for name in self.requested
        )
        stored = self.stored
        if stored is None:
            return parts, self.is_named
        selector = stored.allocation.node_selector if stored.allocation is not None else None
        return (
            parts,
            stored.uid,
            stored.spec,
            stored.is_deleting,
            stored.allocation is not None,
            FINALIZER in stored.finalizers,
            selector,
            stored.allocation is not None and stored.allocation.skips_operations,
            self.is_given_up,
            self.is_named,
        )

    def on(self, node: NodeInfo) -> OnNode | Status:
        """What `node` needs, or why it is refused."""
        allocatable = node.allocatable
        for name in self.requested:
            if name not in self.classes and name not in allocatable:
                return Status.unresolvable(REASON_NOWHERE)
        served = tuple(name for name in self.requested if name in self.classes and not allocatable.get(name, 0))
        if served in self.on_nodes:
            found = self.on_nodes[served]
        else:
            found = self.on_nodes[served] = self._work_out(served)
        if found is None:
            return Status.unresolvable(REASON_STALE)
        allocation = self.stored.allocation if self.stored is not None else None
        if allocation is not None and not is_usable_on(allocation, node.host):
            return Status.unresolvable(REASON_STALE)
        return found

    def _work_out(self, served: tuple[str, ...]) -> OnNode | None:
        """None: the stored claim cannot be used where devices serve `served`."""
        stored = self.stored
        if not served:
            return _NOTHING if stored is None and not self.is_named else None
        requests = special_requests(self.pod, {name: self.classes[name] for name in served})
        if not requests.requests:
            return None
        if stored is not None:
            if stored.is_deleting or self.is_given_up or not asks_for(stored.spec, requests.requests):
                return None
            if stored.allocation is not None:
                # Without its finalizer the claim is about to be deleted, and nothing protects its allocation.
                return OnNode(requests, None) if FINALIZER in stored.finalizers else None
        return OnNode(requests, Claim(self.key.namespace, self.key.name, decoded_spec(requests.requests)))

    def goal_on(self, node: NodeInfo, planned: Allocation | None) -> SpecialGoal:
        needed = self.on(node)
        return SpecialGoal(self, needed.requests if not isinstance(needed, Status) else None, planned)


class SpecialGoal(Struct, frozen=True):
    """What the special claim must become for the node that Reserve took.

    Attributes:
        chosen: What that node needs; None when device plugins serve everything there.
        planned: The allocation that Reserve made, None when it was allocated before.
    """

    found: SpecialClaimState
    chosen: SpecialRequests | None
    planned: Allocation | None

    def next_steps(
        self, view: ClusterView, host: NodeView, allocation_timestamp_ms: int | None
    ) -> SpecialSteps | ClaimLost:
        """PreBind: compare what is stored with what must be."""
        pod = view.pod(self.found.pod.uid)
        if pod is None:
            return ClaimLost(f"pod {self.found.pod.key} was deleted")
        chosen, key = self.chosen, self.found.key
        if chosen is None:
            if is_named(pod, view):  # since Reserve
                return ClaimLost(f"pod {pod.key} names a claim, which the API server does not let be taken back")
            return SpecialSteps(_write_name(pod, None), None)
        stored = view.claim(key)
        if stored is None:
            if self.planned is None or not view.is_held(provisional_uid(pod.uid)):
                return ClaimLost(f"claim {key} got deleted in the meantime")
            return SpecialSteps((CreateClaim(key, self.found.uid, pod.key, pod.uid, chosen.requests),), None)
        if not is_special_claim_of(stored, pod):
            return ClaimLost(foreign_claim(stored, pod))
        if not asks_for(stored.spec, chosen.requests):
            return ClaimLost(f"claim {key} asks for something else than pod {pod.key} needs on node {host.name}")
        if stored.allocation is not None and FINALIZER not in stored.finalizers:
            return ClaimLost(f"claim {key} has lost its finalizer and is about to be deleted")
        uid = stored.uid if self.found.stored is None else self.found.stored.uid
        step = next_step(
            ClaimGoal(key, uid, self.planned),
            stored,
            pod,
            host,
            is_held=view.is_held(stored.uid),
            allocation_timestamp_ms=allocation_timestamp_ms,
        )
        named = _write_name(pod, ExtendedResourceClaimStatus(key.name, chosen.mappings))
        match step:
            case ClaimLost():
                return step
            case ClaimStored():
                return SpecialSteps(named, step.claim)
            case _:
                return SpecialSteps((step, *named), None)

    def undo(self, view: ClusterView) -> tuple[Decision, ...]:
        """Unreserve: the next step on the way to no claim at all."""
        stored = view.claim(self.found.key) if self.chosen is not None else None
        if stored is None or is_of_another_attempt(self.planned, stored):
            return ()
        return removal(stored, self.found.pod)


def find_special_claim(pod: Pod, view: ClusterView) -> SpecialClaimState | Status | None:
    """The special claim of a pod; None when it needs none, a status when the pod has to wait."""
    if not view.features.extended_resource or not asks_extended_resources(pod):
        return None
    requested = requested_resources(pod)
    known = class_by_resource(view.inventory)
    classes = {name: known[name] for name in requested if name in known}
    key = special_claim_key(pod)
    stored = view.claim(key)
    if stored is None:
        if not classes and pod.status.extended_resource_claim_status is None:
            return None
        return SpecialClaimState(pod, key, requested, classes, None, is_named=is_named(pod, view))
    if not is_special_claim_of(stored, pod):
        return Status.unresolvable(foreign_claim(stored, pod))
    if stored.problem is not None:
        return Status.unresolvable(f"ResourceClaim {key} cannot be read: {stored.problem}")
    return SpecialClaimState(pod, key, requested, classes, stored, is_named=is_named(pod, view))


def is_named(pod: Pod, view: ClusterView) -> bool:
    """Whether the pod's status names a special claim, and cannot be changed back."""
    return view.features.has_137_semantics and pod.status.extended_resource_claim_status is not None


def foreign_claim(claim: ResourceClaim, pod: Pod) -> str:
    return (
        f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner); "
        "the scheduler needs that name for the pod's extended resources"
    )


def removal(claim: ResourceClaim, pod: Pod) -> tuple[Decision, ...]:
    """The next write towards deleting the special claim of `pod`; nothing when others use it, or when it is done."""
    if not is_special_claim_of(claim, pod):
        return ()
    others = tuple(consumer for consumer in claim.reserved_for if consumer.pod_uid != pod.uid)
    if others:
        is_ours = len(others) < len(claim.reserved_for)
        return (WriteClaimStatus(claim.key, claim.uid, claim.revision, reserved_for=others),) if is_ours else ()
    if FINALIZER in claim.finalizers:
        rest = tuple(one for one in claim.finalizers if one != FINALIZER)
        return (RemoveClaimFinalizer(claim.key, claim.uid, claim.revision, rest),)
    return () if claim.is_deleting else (DeleteClaim(claim.key, claim.uid, claim.revision),)


def asks_for(spec: ClaimSpec | None, requests: tuple[DeviceCount, ...]) -> bool:
    """Whether a claim asks for exactly these requests."""
    if spec is None or spec.constraints or spec.config or len(spec.requests) != len(requests):
        return False
    return all(
        asked.exactly is not None
        and (asked.name, asked.exactly.device_class_name, asked.exactly.count)
        == (one.name, one.device_class, one.count)
        and asked.exactly.allocation_mode == "ExactCount"
        and not asked.exactly.selectors
        and not asked.exactly.admin_access
        for asked, one in zip(spec.requests, requests, strict=True)
    )


def _write_name(pod: Pod, status: ExtendedResourceClaimStatus | None) -> tuple[Decision, ...]:
    """The write of the claim's name into the pod's status; nothing when `status` is stored already."""
    if pod.status.extended_resource_claim_status == status:
        return ()
    return (PatchExtendedResources(pod.key, pod.uid, pod.metadata.revision, status),)
