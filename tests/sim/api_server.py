"""An API server in memory that executes the machine's decisions, for core tests and the simulation.

It keeps what the real one guarantees and the machine relies on: one growing revision, conditional writes that conflict
when the revision has moved, no new revision for a write that changes nothing, a binding only of the right uid and only
once, no binding of a pod that is being deleted. It logs every change as the observation a watch would deliver.

The resource claim controller's part is `collect_garbage`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import msgspec

from allocator import DeviceClass, ResourceSlice
from scheduler.core.ground.inputs import Deleted, Input, RelistFinished, WriteAccepted, WriteConflicted, WriteRejected
from scheduler.core.observation import KINDS
from scheduler.framework.decisions import (
    AddClaimFinalizer,
    Answered,
    BindPersistentVolume,
    BindPod,
    CreateClaim,
    DeleteClaim,
    DeletePod,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodDisruption,
    PatchPodGroupStatus,
    PatchPodStatus,
    ReadClaim,
    ReadPod,
    RemoveClaimFinalizer,
    SelectNode,
    WriteClaimStatus,
)
from scheduler.model.api_rules import EXTENDED_RESOURCE_ANNOTATION, FINALIZER
from scheduler.model.claim import ResourceClaim
from scheduler.model.device_taint_rules import DeviceTaintRule
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, ObjectKey, PodGroupKey, PodKey
from scheduler.model.objects import (
    DISRUPTION_TARGET,
    PREEMPTED_BY_SCHEDULER,
    Node,
    OwnerReference,
    Pod,
    PodCondition,
    PodResourceClaimStatus,
)
from scheduler.model.pod_group import GroupCondition, PodGroup
from scheduler.model.storage import SELECTED_NODE, AnyStorageObject, ClaimReference
from scheduler.model.timestamps import format_rfc3339
from scheduler.plugins.dynamic_resources.extended_resources import decoded_spec
from tests.observed import deleted, observed

Answer = WriteAccepted | WriteConflicted | WriteRejected


class FakeApiServer:
    """Objects by name, and a log of what happened to them."""

    def __init__(self) -> None:
        self.revision = 0
        self.pods: dict[PodKey, Pod] = {}
        self.claims: dict[ClaimKey, ResourceClaim] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.slices: dict[str, tuple[ResourceSlice, int]] = {}
        self.classes: dict[str, tuple[DeviceClass, int]] = {}
        self.taint_rules: dict[str, tuple[DeviceTaintRule, int]] = {}
        self.storage: dict[tuple[str, ObjectKey], AnyStorageObject] = {}
        self.budgets: dict[str, tuple[DisruptionBudget, int]] = {}
        self.pod_groups: dict[PodGroupKey, tuple[PodGroup, int]] = {}
        self.log: list[Input] = []
        self.keeps_node_allocatable = True  # the feature gate DRANodeAllocatableResources
        self.forgets_special_claim = False  # what a pod says of it can be taken back: up to 1.36
        self.bindings: list[tuple[str, NodeName]] = []  # pod uid and node, in order
        self.allocated_at: dict[ClaimKey, int] = {}  # the revision at which the present allocation was stored

    def copy(self) -> FakeApiServer:
        """An independent server in the same state, with an empty log but for one entry for each object."""
        twin = FakeApiServer()
        twin.revision = self.revision
        twin.pods, twin.claims, twin.nodes = dict(self.pods), dict(self.claims), dict(self.nodes)
        twin.slices, twin.classes, twin.taint_rules = dict(self.slices), dict(self.classes), dict(self.taint_rules)
        twin.allocated_at, twin.storage = dict(self.allocated_at), dict(self.storage)
        twin.budgets, twin.pod_groups = dict(self.budgets), dict(self.pod_groups)
        twin.log = [given for given in twin.list_all() if not isinstance(given, RelistFinished)]
        return twin

    # What users and other components do

    def put_pod(self, pod: Pod) -> Pod:
        stored = _with_revision(pod, self._next())
        self.pods[pod.key] = stored
        self.log.append(observed(stored))
        return stored

    def delete_pod(self, key: PodKey) -> None:
        pod = self.pods.pop(key, None)
        if pod is not None:
            self.log.append(Deleted("Pod", key, pod.uid, self._next()))

    def put_node(self, node: Node) -> None:
        stored = _with_revision(node, self._next())
        self.nodes[node.name] = stored
        self.log.append(observed(stored))

    def delete_node(self, name: NodeName) -> None:
        if self.nodes.pop(name, None) is not None:
            self.log.append(deleted("Node", name, self._next()))

    def put_claim(self, claim: ResourceClaim) -> ResourceClaim:
        stored = replace(claim, revision=self._next())
        known = self.claims.get(claim.key)
        if known is None or known.uid != claim.uid or known.allocation != claim.allocation:
            self.allocated_at[claim.key] = stored.revision
        self.claims[claim.key] = stored
        self.log.append(observed(stored))
        return stored

    def delete_claim(self, key: ClaimKey) -> None:
        """As the API server deletes: an object with finalizers stays until they are gone."""
        claim = self.claims.get(key)
        if claim is None:
            return
        if claim.finalizers and not claim.is_deleting:
            self.put_claim(replace(claim, deletion_timestamp="2026-01-01T00:01:00Z"))
        elif not claim.finalizers:
            del self.claims[key]
            self.log.append(Deleted("ResourceClaim", key, claim.uid, self._next()))

    def put_slice(self, slice_: ResourceSlice) -> None:
        self.slices[slice_.name] = (slice_, self._next())
        self.log.append(observed(*self.slices[slice_.name]))

    def delete_slice(self, name: str) -> None:
        if self.slices.pop(name, None) is not None:
            self.log.append(deleted("ResourceSlice", name, self._next()))

    def put_class(self, device_class: DeviceClass) -> None:
        self.classes[device_class.name] = (device_class, self._next())
        self.log.append(observed(*self.classes[device_class.name]))

    def put_taint_rule(self, rule: DeviceTaintRule) -> None:
        self.taint_rules[rule.name] = (rule, self._next())
        self.log.append(observed(*self.taint_rules[rule.name]))

    def delete_taint_rule(self, name: str) -> None:
        if self.taint_rules.pop(name, None) is not None:
            self.log.append(deleted("DeviceTaintRule", name, self._next()))

    def put_pod_group(self, group: PodGroup) -> None:
        self.pod_groups[group.key] = (group, self._next())
        self.log.append(observed(*self.pod_groups[group.key]))

    def delete_pod_group(self, key: PodGroupKey) -> None:
        if self.pod_groups.pop(key, None) is not None:
            self.log.append(deleted("PodGroup", key, self._next()))

    def put_budget(self, budget: DisruptionBudget) -> None:
        self.budgets[budget.key.name] = (budget, self._next())
        self.log.append(observed(*self.budgets[budget.key.name]))

    def delete_budget(self, name: str) -> None:
        stored = self.budgets.pop(name, None)
        if stored is not None:
            self.log.append(deleted("PodDisruptionBudget", stored[0].key, self._next()))

    def put_storage(self, stored: AnyStorageObject) -> AnyStorageObject:
        """Store a volume, a claim for one, a class or a CSI object, at a new revision."""
        meta = msgspec.structs.replace(stored.metadata, resource_version=str(self._next()))
        stored = msgspec.structs.replace(stored, metadata=meta)
        self.storage[type(stored).__name__, stored.key] = stored
        self.log.append(observed(stored))
        return stored

    def delete_storage(self, kind: str, key: ObjectKey) -> None:
        if self.storage.pop((kind, key), None) is not None:
            self.log.append(deleted(kind, key, self._next()))

    def collect_garbage(self) -> None:
        """The resource claim controller: drop reservations of pods that are gone or finished, free what nobody uses."""
        alive = {pod.uid for pod in self.pods.values() if not pod.is_terminal}
        for key, claim in list(self.claims.items()):
            reserved = tuple(one for one in claim.reserved_for if one.uid in alive)
            owner = claim.controller
            is_orphan = owner is not None and owner.kind == "Pod" and owner.uid not in alive
            changed = claim
            if reserved != claim.reserved_for:
                changed = replace(changed, reserved_for=reserved)
            if changed.allocation is not None and not reserved and (is_orphan or reserved != claim.reserved_for):
                changed = replace(changed, allocation=None, allocation_timestamp=None, device_conditions=())
            if changed.allocation is None and not reserved and changed.is_deleting:
                changed = replace(changed, finalizers=tuple(one for one in changed.finalizers if one != FINALIZER))
            if changed != claim:
                self.put_claim(changed)
            if is_orphan or changed.is_deleting:
                self.delete_claim(key)

    # What the machine asks for

    def list_all(self) -> list[Input]:
        """Everything there is, as a start or a relist delivers it."""
        return [
            *(observed(node) for node in self.nodes.values()),
            *(observed(*stored) for stored in self.classes.values()),
            *(observed(*stored) for stored in self.slices.values()),
            *(observed(*stored) for stored in self.taint_rules.values()),
            *(observed(*stored) for stored in self.budgets.values()),
            *(observed(*stored) for stored in self.pod_groups.values()),
            *(observed(claim) for claim in self.claims.values()),
            *(observed(stored) for stored in self.storage.values()),
            *(observed(pod) for pod in self.pods.values()),
            *(RelistFinished(kind) for kind in sorted(KINDS)),
        ]

    def _patch_group(self, decision: PatchPodGroupStatus) -> Answer:
        stored = self.pod_groups.get(decision.group)
        if stored is None or stored[0].uid != decision.uid:
            return WriteRejected(decision.id, 404, "NotFound", f"PodGroup {decision.group} is gone")
        condition = GroupCondition(decision.is_true, decision.reason, decision.message)
        self.put_pod_group(replace(stored[0], condition=condition))
        return WriteAccepted(decision.id)

    def execute(self, decision: Answered) -> Answer:
        """Do what `decision` asks for now, and answer."""
        match decision:
            case CreateClaim():
                return self._create_claim(decision)
            case PatchPodGroupStatus():
                return self._patch_group(decision)
            case RemoveClaimFinalizer():
                answer = self._write_claim(decision, finalizers=decision.finalizers)
                if isinstance(answer, WriteAccepted) and answer.claim is not None and answer.claim.is_deleting:
                    self.delete_claim(decision.claim)
                return answer
            case DeleteClaim():
                return self._delete_claim(decision)
            case PatchExtendedResources():
                return self._patch_extended_resources(decision)
            case PatchNodeAllocatable():
                return self._patch_node_allocatable(decision)
            case AddClaimFinalizer():
                return self._write_claim(decision, finalizers=decision.finalizers)
            case WriteClaimStatus(clear_allocation=True):
                return self._write_claim(
                    decision, allocation=None, allocation_timestamp=None, reserved_for=(), device_conditions=()
                )
            case WriteClaimStatus():
                changes: dict[str, object] = {}
                if decision.allocation is not None:
                    changes["allocation"] = decision.allocation
                if decision.reserved_for is not None:
                    changes["reserved_for"] = decision.reserved_for
                return self._write_claim(decision, **changes)
            case ReadClaim(key):
                claim = self.claims.get(key)
                return WriteAccepted(decision.id, claim=claim) if claim is not None else _gone(decision, key)
            case BindPersistentVolume() | SelectNode():
                return self._write_volume(decision)
            case BindPod():
                return self._bind(decision)
            case ReadPod(pod_key):
                pod = self.pods.get(pod_key)
                return WriteAccepted(decision.id, pod=pod) if pod is not None else _gone(decision, pod_key)
            case PatchPodStatus():
                return self._patch_status(decision)
            case PatchPodDisruption():
                return self._disrupt(decision)
            case DeletePod():
                return self._delete_pod(decision)

    def _create_claim(self, decision: CreateClaim) -> Answer:
        if decision.claim in self.claims:
            return WriteConflicted(decision.id, f'resourceclaims "{decision.claim.name}" already exists')
        created = ResourceClaim(
            key=decision.claim,
            uid=ClaimUid(f"uid-made-{self.revision}"),
            revision=0,
            spec=decoded_spec(decision.requests),
            finalizers=(FINALIZER,),
            annotations=((EXTENDED_RESOURCE_ANNOTATION, "true"),),
            owner_references=(OwnerReference("Pod", decision.pod.name, decision.pod_uid, "v1", True),),
        )
        return WriteAccepted(decision.id, claim=self.put_claim(created))

    def _delete_claim(self, decision: DeleteClaim) -> Answer:
        claim = self.claims.get(decision.claim)
        if claim is None:
            return _gone(decision, decision.claim)
        if claim.uid != decision.uid or claim.revision != decision.expect_revision:
            return WriteConflicted(decision.id, "the precondition does not match")
        self.delete_claim(decision.claim)
        return WriteAccepted(decision.id)

    def _write_volume(self, decision: BindPersistentVolume | SelectNode) -> Answer:
        is_volume = isinstance(decision, BindPersistentVolume)
        key = ObjectKey("", decision.volume) if is_volume else decision.claim
        stored = self.storage.get(("PersistentVolume" if is_volume else "PersistentVolumeClaim", key))
        if stored is None:
            return _gone(decision, key)
        if stored.metadata.uid != decision.uid or stored.revision != decision.expect_revision:
            return WriteConflicted(decision.id, "the object has been modified")
        added = dict(decision.annotations) if is_volume else {SELECTED_NODE: decision.node}
        meta = msgspec.structs.replace(stored.metadata, annotations={**stored.annotations, **added})
        changed = msgspec.structs.replace(stored, metadata=meta)
        if is_volume:
            reference = ClaimReference(*decision.claim, decision.claim_uid)
            changed = msgspec.structs.replace(changed, spec=msgspec.structs.replace(changed.spec, claim_ref=reference))
        return WriteAccepted(decision.id, volume=stored if changed == stored else self.put_storage(changed))

    def _patch_extended_resources(self, decision: PatchExtendedResources) -> Answer:
        pod = self.pods.get(decision.pod)
        if pod is None:
            return _gone(decision, decision.pod)
        if pod.uid != decision.uid or pod.metadata.revision != decision.expect_revision:
            return WriteConflicted(decision.id, "the object has been modified")
        named = decision.status
        if named is None and not self.forgets_special_claim:
            named = pod.status.extended_resource_claim_status
        status = msgspec.structs.replace(pod.status, extended_resource_claim_status=named)
        if status != pod.status:
            pod = self.put_pod(msgspec.structs.replace(pod, status=status))
        return WriteAccepted(decision.id, pod=pod)

    def _patch_node_allocatable(self, decision: PatchNodeAllocatable) -> Answer:
        pod = self.pods.get(decision.pod)
        if pod is None:
            return _gone(decision, decision.pod)
        if pod.uid != decision.uid or pod.metadata.revision != decision.expect_revision:
            return WriteConflicted(decision.id, "the object has been modified")
        claims = (decision.claims if self.keeps_node_allocatable else ()) or None
        status = msgspec.structs.replace(pod.status, node_allocatable_resource_claim_statuses=claims)
        if status != pod.status:
            pod = self.put_pod(msgspec.structs.replace(pod, status=status))
        return WriteAccepted(decision.id, pod=pod)

    def _write_claim(
        self, decision: AddClaimFinalizer | RemoveClaimFinalizer | WriteClaimStatus, **changes: object
    ) -> Answer:
        claim = self.claims.get(decision.claim)
        if claim is None:
            return _gone(decision, decision.claim)
        if claim.uid != decision.uid or claim.revision != decision.expect_revision:
            return WriteConflicted(decision.id, "the object has been modified")
        changed = dataclasses.replace(claim, **changes)
        if changed != claim:
            changed = self.put_claim(changed)
        return WriteAccepted(decision.id, claim=changed)

    def name_claim(self, pod: Pod, claim: str) -> None:
        """What the resource claim controller writes when it has made the claim of the pod's entry "gpu"."""
        named = (PodResourceClaimStatus("gpu", claim),)
        status = msgspec.structs.replace(pod.status, resource_claim_statuses=named)
        self.put_pod(msgspec.structs.replace(pod, status=status))

    def _bind(self, decision: BindPod) -> Answer:
        pod = self.pods.get(decision.pod)
        if pod is None:
            return _gone(decision, decision.pod)
        if pod.uid != decision.uid:
            return WriteConflicted(decision.id, "the UID in the precondition does not match")
        if decision.expect_revision not in (None, pod.metadata.revision):
            return WriteConflicted(decision.id, "the ResourceVersion in the precondition does not match")
        if pod.node_name is not None:
            return WriteConflicted(decision.id, f"pod {pod.key} is already assigned to node {pod.node_name}")
        if pod.is_deleting:
            return WriteConflicted(decision.id, f"pod {pod.key} is being deleted, cannot be assigned to a host")
        self.bindings.append((pod.uid, decision.node))
        self.put_pod(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=decision.node)))
        return WriteAccepted(decision.id)

    def _patch_status(self, decision: PatchPodStatus) -> Answer:
        pod = self.pods.get(decision.pod)
        if pod is None:
            return _gone(decision, decision.pod)
        if pod.uid != decision.uid:
            return WriteConflicted(decision.id, "the UID in the precondition does not match")
        if decision.expect_revision not in (None, pod.metadata.revision):
            return WriteConflicted(decision.id, "the object has been modified")
        conditions = pod.status.conditions
        if decision.reason:
            probed = next((one.last_probe_time for one in conditions or () if one.type == "PodScheduled"), None)
            if decision.fence_ms is not None:
                probed = format_rfc3339(decision.fence_ms // 1000)
            said = PodCondition("PodScheduled", "False", decision.reason, decision.message, probed)
            conditions = _with_condition(pod, said)
        nominated = pod.status.nominated_node_name if decision.nominated_node is None else decision.nominated_node
        status = msgspec.structs.replace(pod.status, conditions=conditions, nominated_node_name=nominated)
        if status != pod.status:
            pod = self.put_pod(msgspec.structs.replace(pod, status=status))
        return WriteAccepted(decision.id, pod=pod if decision.expect_revision is not None else None)

    def _disrupt(self, decision: PatchPodDisruption) -> Answer:
        pod = self.pods.get(decision.pod)
        if pod is None:
            return _gone(decision, decision.pod)
        if pod.uid != decision.uid:
            return WriteConflicted(decision.id, "the UID in the precondition does not match")
        said = PodCondition(DISRUPTION_TARGET, "True", PREEMPTED_BY_SCHEDULER, decision.message)
        status = msgspec.structs.replace(pod.status, conditions=_with_condition(pod, said))
        if status != pod.status:
            self.put_pod(msgspec.structs.replace(pod, status=status))
        return WriteAccepted(decision.id)

    def _delete_pod(self, decision: DeletePod) -> Answer:
        """A bound pod that runs stays until its kubelet has stopped it (`delete_pod`)."""
        pod = self.pods.get(decision.pod)
        if pod is None:
            return _gone(decision, decision.pod)
        if pod.uid != decision.uid:
            return WriteConflicted(decision.id, "the UID in the precondition does not match")
        if pod.node_name is None or pod.is_terminal:
            self.delete_pod(decision.pod)
        elif not pod.is_deleting:
            self.terminate_pod(pod)
        return WriteAccepted(decision.id)

    def terminate_pod(self, pod: Pod) -> None:
        """What a deletion with a grace period writes."""
        meta = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:01:00Z")
        self.put_pod(msgspec.structs.replace(pod, metadata=meta))

    def _next(self) -> int:
        self.revision += 1
        return self.revision


def _with_revision(obj, revision: int):
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, resource_version=str(revision)))


def _with_condition(pod: Pod, condition: PodCondition) -> tuple[PodCondition, ...]:
    known = pod.status.conditions or ()
    if all(one.type != condition.type for one in known):
        return (*known, condition)
    return tuple(condition if one.type == condition.type else one for one in known)


def _gone(decision: Answered, key: object) -> WriteRejected:
    return WriteRejected(decision.id, 404, "NotFound", f"{key} not found")
