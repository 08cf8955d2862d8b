"""Small questions about what the simulated world records: events, decisions, claims."""

from __future__ import annotations

from scheduler.core.ground.inputs import Deleted, Input, Observed
from scheduler.framework.decisions import (
    BindPod,
    Decision,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodGroupStatus,
    PatchPodStatus,
    PodRemoval,
    ReadPod,
)
from scheduler.model.keys import ClaimKey, NodeName
from scheduler.model.storage import StorageObject

FOREIGN = "default-scheduler"


def kind_of(event: Input) -> str:
    """The kind of the object that was observed; "" for events that are about none."""
    return event.kind if isinstance(event, Observed | Deleted) else ""


def is_foreign(pod) -> bool:
    return pod.spec.scheduler_name == FOREIGN


def is_foreign_claim(key: ClaimKey) -> bool:
    return key.name.startswith("foreign-")


def object_of(decision: Decision) -> object:
    if isinstance(decision, PatchPodGroupStatus):
        return "PodGroup", decision.group
    return (
        ("Pod", decision.pod)
        if isinstance(
            decision, BindPod | ReadPod | PatchPodStatus | PatchExtendedResources | PatchNodeAllocatable | PodRemoval
        )
        else ("Claim", decision.claim)
    )


def place_of(claim) -> NodeName:
    return claim.allocation.node_selector.terms[0].match_fields[0].values[0]


def fold(state: dict[object, Observed], event: Observed | Deleted) -> None:
    """Apply an event to what a watch knows of one kind: key to the last observation."""
    if isinstance(event, Observed):
        state[event.key] = event
    else:
        state.pop(event.key, None)


def fold_newer(state: dict[object, Observed], event: Observed | Deleted) -> None:
    """The same of a watch that tells again what it had told: nothing older replaces or ends what is newer."""
    before = dict(state)
    fold(state, event)
    state.update({name: known for name, known in before.items() if known.revision > event.revision})


def deletion_of(event: Observed, revision: int) -> Deleted:
    return Deleted(event.kind, event.key, event.uid, revision)


def brief(record) -> str:
    match record:
        case Observed("Pod", object=pod):
            return f"Pod {pod.key} r{pod.metadata.resource_version} node={pod.spec.node_name} {pod.status.phase}"
        case Observed("ResourceClaim", object=claim):
            return f"Claim {describe_claim(claim)}"
        case Observed("ResourceSlice", revision=revision, object=slice_):
            return f"Slice {slice_.name} g{slice_.generation} r{revision}"
        case Observed("Node", object=node):
            return f"Node {node.name} r{node.metadata.resource_version} unschedulable={node.spec.unschedulable}"
        case Observed(kind, object=StorageObject() as stored):
            return f"{kind} {describe_storage(stored)}"
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
