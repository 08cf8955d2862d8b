"""Small questions about what the simulated world records: events, decisions, claims."""

from __future__ import annotations

from scheduler.core.ground.inputs import (
    ClaimDeleted,
    ClaimObserved,
    ClassDeleted,
    ClassObserved,
    DisruptionBudgetDeleted,
    DisruptionBudgetObserved,
    Input,
    NodeDeleted,
    NodeObserved,
    PodDeleted,
    PodGroupDeleted,
    PodGroupObserved,
    PodObserved,
    SliceDeleted,
    SliceObserved,
    StorageDeleted,
    StorageObserved,
    TaintRuleDeleted,
    TaintRuleObserved,
)
from scheduler.framework.decisions import (
    BindPod,
    Decision,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodStatus,
    PodRemoval,
    ReadPod,
)
from scheduler.model.disruption_budget import DISRUPTION_BUDGET
from scheduler.model.keys import ClaimKey, NodeName

FOREIGN = "default-scheduler"
_KIND_OF = {
    PodObserved: "Pod",
    PodDeleted: "Pod",
    PodGroupObserved: "PodGroup",
    PodGroupDeleted: "PodGroup",
    NodeObserved: "Node",
    NodeDeleted: "Node",
    ClaimObserved: "ResourceClaim",
    ClaimDeleted: "ResourceClaim",
    SliceObserved: "ResourceSlice",
    SliceDeleted: "ResourceSlice",
    ClassObserved: "DeviceClass",
    TaintRuleObserved: "DeviceTaintRule",
    TaintRuleDeleted: "DeviceTaintRule",
    DisruptionBudgetObserved: DISRUPTION_BUDGET,
    DisruptionBudgetDeleted: DISRUPTION_BUDGET,
}


def kind_of(event: Input) -> str:
    """The kind of the object that was observed; "" for events that are about none."""
    match event:
        case StorageObserved(stored):
            return type(stored).__name__
        case StorageDeleted(kind):
            return kind
    return _KIND_OF.get(type(event), "")


def is_foreign(pod) -> bool:
    return pod.spec.scheduler_name == FOREIGN


def is_foreign_claim(key: ClaimKey) -> bool:
    return key.name.startswith("foreign-")


def object_of(decision: Decision) -> object:
    return (
        ("Pod", decision.pod)
        if isinstance(
            decision, BindPod | ReadPod | PatchPodStatus | PatchExtendedResources | PatchNodeAllocatable | PodRemoval
        )
        else ("Claim", decision.claim)
    )


def place_of(claim) -> NodeName:
    return claim.allocation.node_selector.terms[0].match_fields[0].values[0]


def fold(state: dict[object, Input], event: Input) -> None:
    """Apply an event to what a watch knows: name to the last observation."""
    match event:
        case PodObserved(pod):
            state[pod.key] = event
        case NodeObserved(node):
            state[node.name] = event
        case ClaimObserved(claim):
            state[claim.key] = event
        case SliceObserved(slice_):
            state[slice_.name] = event
        case ClassObserved(device_class):
            state[device_class.name] = event
        case TaintRuleObserved(rule):
            state[rule.name] = event
        case DisruptionBudgetObserved(budget):
            state[budget.key] = event
        case PodGroupObserved(group):
            state[group.key] = event
        case StorageObserved(stored):
            state[stored.key] = event
        case StorageDeleted(_, key) | DisruptionBudgetDeleted(key) | PodGroupDeleted(key):
            state.pop(key, None)
        case PodDeleted(key) | ClaimDeleted(key) | NodeDeleted(key) | SliceDeleted(key) | TaintRuleDeleted(key):
            state.pop(key, None)


def fold_newer(state: dict[object, Input], event: Input) -> None:
    """The same of a watch that tells again what it had told: nothing older replaces or ends what is newer."""
    before = dict(state)
    fold(state, event)
    state.update({name: known for name, known in before.items() if revision_of(known) > revision_of(event)})


def revision_of(event: Input) -> int:
    match event:
        case PodObserved(pod):
            return pod.metadata.revision
        case NodeObserved(node):
            return node.metadata.revision
        case ClaimObserved(claim):
            return claim.revision
        case StorageObserved(stored):
            return stored.revision
    return event.revision


def deletion_of(event: Input, revision: int) -> Input:
    match event:
        case PodObserved(pod):
            return PodDeleted(pod.key, pod.uid, revision)
        case NodeObserved(node):
            return NodeDeleted(node.name, revision)
        case ClaimObserved(claim):
            return ClaimDeleted(claim.key, claim.uid, revision)
        case SliceObserved(slice_):
            return SliceDeleted(slice_.name, revision)
        case ClassObserved(device_class):
            return ClassDeleted(device_class.name, revision)
        case TaintRuleObserved(rule):
            return TaintRuleDeleted(rule.name, revision)
        case PodGroupObserved(group):
            return PodGroupDeleted(group.key, revision)
        case DisruptionBudgetObserved(budget):
            return DisruptionBudgetDeleted(budget.key, revision)
        case StorageObserved(stored):
            return StorageDeleted(type(stored).__name__, stored.key, revision)
    raise TypeError(event)


def brief(record) -> str:
    match record:
        case PodObserved(pod):
            return f"Pod {pod.key} r{pod.metadata.resource_version} node={pod.spec.node_name} {pod.status.phase}"
        case ClaimObserved(claim):
            return f"Claim {describe_claim(claim)}"
        case SliceObserved(slice_, revision):
            return f"Slice {slice_.name} g{slice_.generation} r{revision}"
        case NodeObserved(node):
            return f"Node {node.name} r{node.metadata.resource_version} unschedulable={node.spec.unschedulable}"
        case StorageObserved(stored):
            return f"{type(stored).__name__} {describe_storage(stored)}"
        case _ if getattr(record, "claim", None) is not None and hasattr(record.claim, "spec"):
            return f"{type(record).__name__} {record.id} {describe_claim(record.claim)}"
        case _ if getattr(record, "allocation", None) is not None:
            devices = [str(device) for device in record.allocation.device_ids()]
            return f"WriteClaimStatus {record.id} {record.claim} expect={record.expect_revision} {devices}"
        case _:
            return repr(record)


def describe_storage(stored) -> str:
    spec = getattr(stored, "spec", None)
    said = [getattr(spec, "claim_ref", None), getattr(spec, "volume_name", None), stored.annotations]
    return f"{stored.key} {stored.metadata.uid} r{stored.revision} {[one for one in said if one]}"


def describe_claim(claim) -> str:
    devices = [str(device) for device in claim.allocation.device_ids()] if claim.allocation is not None else None
    reserved = [one.name for one in claim.reserved_for]
    return f"{claim.key} {claim.uid} r{claim.revision} {devices} reserved={reserved} deleting={claim.is_deleting}"
