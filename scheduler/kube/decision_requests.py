"""For each decision the request that carries it out, the right it needs, and the answer that its reply is.

Rules of this module
  1. One `match` over the decisions: a decision that is missing there is an error of mypy.
  2. Writes are narrow patches that carry what they suppose (revision or uid), so nothing is ever written over.
  3. Reading changes nothing, so a read whose answer was lost is rejected and may be read again: nothing is in doubt.

Not here: sending (`executor`), what an HTTP reply means for a write (`requests.classify`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec
import orjson

from allocator import encode_allocation
from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.framework.decisions import (
    AddClaimFinalizer,
    Answered,
    BindPersistentVolume,
    BindPod,
    CreateClaim,
    DeleteClaim,
    DeletePod,
    ObjectOf,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodDisruption,
    PatchPodGroupStatus,
    PatchPodStatus,
    PodNote,
    PodRemoval,
    ReadClaim,
    ReadPod,
    RemoveClaimFinalizer,
    SelectNode,
    VolumeWrite,
    WriteClaimStatus,
    object_of,
)
from scheduler.kube.codec import RESOURCE_API, RESOURCE_GROUP, Codec
from scheduler.kube.outcomes import (
    JSON,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Accepted,
    Conflicted,
    Rejected,
    UndecodableError,
    Unknown,
    WriteResult,
)
from scheduler.model import pod_group
from scheduler.model.api_rules import EXTENDED_RESOURCE_ANNOTATION, FINALIZER
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import PodGroupKey, PodKey, VolumeClaimKey
from scheduler.model.objects import DISRUPTION_TARGET, PREEMPTED_BY_SCHEDULER, Pod
from scheduler.model.special_claim import special_claim_spec
from scheduler.model.storage import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from scheduler.model.timestamps import format_rfc3339

RequestAnswer: TypeAlias = WriteAccepted | WriteConflicted | WriteRejected | WriteOutcomeUnknown


class Request(NamedTuple):
    """One HTTP request: `path` after the host.

    Attributes:
        right: The right it needs, as `permissions` names it.
        reply: What comes back and concerns the machine.
    """

    method: str
    path: str
    body: bytes | None
    content_type: str
    right: str
    reply: type[Pod] | type[ResourceClaim] | type[PersistentVolume] | type[PersistentVolumeClaim] | None


def encode_decision(decision: Answered, *, now_ms: int, is_transition: bool = True) -> Request:
    """The request for a decision. Pure.

    Args:
        is_transition: For PatchPodStatus: whether the condition's `lastTransitionTime` is written.
    """
    if isinstance(decision, PatchPodGroupStatus):
        return _group_patch(decision, now_ms)
    path = object_path(object_of(decision))
    match decision:
        case BindPod():
            namespace, name = decision.pod
            metadata = {"namespace": namespace, "name": name} | _expected(decision)
            target = {"kind": "Node", "name": decision.node}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
            return Request("POST", f"{path}/binding", orjson.dumps(body), JSON, "create pods/binding", None)
        case WriteClaimStatus():
            body = {"metadata": _expected(decision), "status": _claim_status(decision)}
            right = f"patch resourceclaims/status and resourceclaims/binding.{RESOURCE_GROUP}"
            return Request("PATCH", f"{path}/status", orjson.dumps(body), MERGE_PATCH, right, ResourceClaim)
        case AddClaimFinalizer() | RemoveClaimFinalizer():
            body = {"metadata": _expected(decision) | {"finalizers": list(decision.finalizers)}}
            return Request("PATCH", path, orjson.dumps(body), MERGE_PATCH, _on_claims("patch"), ResourceClaim)
        case CreateClaim():
            created = orjson.dumps(_special_claim(decision))
            return Request("POST", path.rpartition("/")[0], created, JSON, _on_claims("create"), ResourceClaim)
        case DeleteClaim():
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": _expected(decision)}
            return Request("DELETE", path, orjson.dumps(body), JSON, _on_claims("delete"), None)
        case ReadClaim() | ReadPod():
            right, kind = (_on_claims("get"), ResourceClaim) if isinstance(decision, ReadClaim) else ("get pods", Pod)
            return Request("GET", path, None, JSON, right, kind)
        case PatchPodStatus():
            status = _pod_status(decision, now_ms, is_transition)
            reply = Pod if decision.expect_revision is not None else None
            return _pod_patch(path, decision, status, STRATEGIC_MERGE_PATCH, reply)
        case PatchPodDisruption():
            disruption = _condition(DISRUPTION_TARGET, "True", PREEMPTED_BY_SCHEDULER, decision, now_ms)
            return _pod_patch(path, decision, {"conditions": [disruption]}, STRATEGIC_MERGE_PATCH, None)
        case DeletePod():
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": _expected(decision)}
            return Request("DELETE", path, orjson.dumps(body), JSON, "delete pods", None)
        case PatchExtendedResources():
            status = {"extendedResourceClaimStatus": msgspec.to_builtins(decision.status)}
            return _pod_patch(path, decision, status, STRATEGIC_MERGE_PATCH, Pod)
        case PatchNodeAllocatable():
            notes = msgspec.to_builtins(
                decision.claims
            )  # 1.37 keeps what was there unless the list is there, and empty
            status = {"nodeAllocatableResourceClaimStatuses": notes}
            return _pod_patch(path, decision, status, MERGE_PATCH, Pod)
        case BindPersistentVolume() | SelectNode():
            return _volume_patch(path, decision)


def answer_of(decision: Answered, request: Request, outcome: WriteResult, codec: Codec) -> RequestAnswer:
    """The machine's input for an outcome.

    Raises:
        UndecodableError: It was written for certain, and what the server answered cannot be read.
    """
    match outcome:
        case Accepted():
            try:
                if request.reply is Pod:
                    return WriteAccepted(decision.id, pod=codec.decode_pod(outcome.body))
                if request.reply is ResourceClaim:
                    return WriteAccepted(decision.id, claim=codec.decode_claim(outcome.body))
                if request.reply is PersistentVolume:
                    return WriteAccepted(decision.id, volume=codec.decode_volume(outcome.body, PersistentVolume))
                if request.reply is PersistentVolumeClaim:
                    return WriteAccepted(decision.id, volume=codec.decode_volume(outcome.body, PersistentVolumeClaim))
                return WriteAccepted(decision.id)
            except UndecodableError as error:
                if not isinstance(decision, ReadClaim | ReadPod):
                    raise
                return WriteRejected(decision.id, 0, "Undecodable", str(error), is_retriable=True)
        case Conflicted():
            return WriteConflicted(decision.id, outcome.message)
        case Rejected():
            return WriteRejected(
                decision.id,
                outcome.code,
                outcome.reason,
                outcome.message,
                is_configuration=outcome.is_configuration,
                is_retriable=outcome.is_retriable,
            )
        case Unknown():
            if isinstance(decision, ReadClaim | ReadPod):
                return WriteRejected(decision.id, 0, "ReadFailed", outcome.message, is_retriable=True)
            return WriteOutcomeUnknown(decision.id, outcome.message)


def object_path(key: ObjectOf) -> str:
    if isinstance(key, PodGroupKey):
        raise ValueError("the path of a PodGroup depends on the version of its API")
    if isinstance(key, PodKey):
        return f"/api/v1/namespaces/{key.namespace}/pods/{key.name}"
    if isinstance(key, VolumeClaimKey):
        return f"/api/v1/namespaces/{key.namespace}/persistentvolumeclaims/{key.name}"
    return f"{RESOURCE_API}/namespaces/{key.namespace}/resourceclaims/{key.name}"


def _group_patch(decision: PatchPodGroupStatus, now_ms: int) -> Request:
    namespace, name = decision.group
    version = "v1alpha2" if decision.is_136 else "v1beta1"
    path = f"/apis/{pod_group.API_GROUP}/{version}/namespaces/{namespace}/{pod_group.RESOURCE}/{name}/status"
    kind, changed_ms = pod_group.condition_type(is_136=decision.is_136), now_ms if decision.is_transition else None
    condition = _condition(kind, str(decision.is_true), decision.reason, decision, changed_ms)
    body = {"metadata": {"uid": decision.uid}, "status": {"conditions": [condition]}}
    right = f"patch {pod_group.RESOURCE}/status.{pod_group.API_GROUP}"
    return Request("PATCH", path, orjson.dumps(body), STRATEGIC_MERGE_PATCH, right, None)


def _on_claims(verb: str) -> str:
    return f"{verb} resourceclaims.{RESOURCE_GROUP}"


_Conditional: TypeAlias = (
    AddClaimFinalizer
    | RemoveClaimFinalizer
    | WriteClaimStatus
    | DeleteClaim
    | BindPod
    | PatchPodStatus
    | PodNote
    | PodRemoval
    | BindPersistentVolume
    | SelectNode
)


def _expected(decision: _Conditional) -> dict[str, Any]:
    """The metadata (of a deletion the preconditions) without which the server refuses the write."""
    revision = None if isinstance(decision, PodRemoval) else decision.expect_revision
    return {"uid": decision.uid} if revision is None else {"uid": decision.uid, "resourceVersion": str(revision)}


def _pod_patch(
    path: str, decision: _Conditional, status: dict[str, Any], content_type: str, reply: type[Pod] | None
) -> Request:
    body = orjson.dumps({"metadata": _expected(decision), "status": status})
    return Request("PATCH", f"{path}/status", body, content_type, "patch pods/status", reply)


def _special_claim(decision: CreateClaim) -> dict[str, Any]:
    """The ResourceClaim behind a pod's extended resources, with the finalizer that an allocation needs."""
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": decision.pod.name,
        "uid": decision.pod_uid,
        "controller": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": decision.claim.namespace,
            "name": decision.claim.name,
            "annotations": {EXTENDED_RESOURCE_ANNOTATION: "true"},
            "finalizers": [FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": special_claim_spec(decision.requests),
    }


def _volume_patch(path: str, decision: VolumeWrite) -> Request:
    expected = _expected(decision)
    if isinstance(decision, SelectNode):
        body = orjson.dumps({"metadata": expected | {"annotations": {SELECTED_NODE: decision.node}}})
        return Request("PATCH", path, body, MERGE_PATCH, "patch persistentvolumeclaims", PersistentVolumeClaim)
    namespace, name = decision.claim
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": name,
        "uid": decision.claim_uid,
        "resourceVersion": str(decision.claim_revision),
    }
    metadata = expected | {"annotations": dict(decision.annotations)}
    body = orjson.dumps({"metadata": metadata, "spec": {"claimRef": reference}})
    path = f"/api/v1/persistentvolumes/{decision.volume}"
    return Request("PATCH", path, body, MERGE_PATCH, "patch persistentvolumes", PersistentVolume)


def _claim_status(decision: WriteClaimStatus) -> dict[str, Any]:
    if decision.clear_allocation:
        # Null removes the field in a merge patch; device statuses of devices that are given up go with them.
        return {"allocation": None, "reservedFor": None, "devices": None}
    status: dict[str, Any] = {}
    if decision.allocation is not None:
        status["allocation"] = encode_allocation(decision.allocation)
        if decision.allocation_timestamp_ms is not None:
            status["allocation"]["allocationTimestamp"] = format_rfc3339(decision.allocation_timestamp_ms // 1000)
    if decision.reserved_for is not None:
        entries = map(msgspec.to_builtins, decision.reserved_for)
        status["reservedFor"] = [{name: text for name, text in one.items() if text} for one in entries] or None
    return status


def _pod_status(decision: PatchPodStatus, now_ms: int, is_transition: bool) -> dict[str, Any]:
    condition = _condition("PodScheduled", "False", decision.reason, decision, now_ms if is_transition else None)
    if decision.fence_ms is not None:
        condition["lastProbeTime"] = format_rfc3339(decision.fence_ms // 1000)
    status: dict[str, Any] = {"conditions": [condition]} if decision.reason else {}
    if decision.nominated_node is not None:
        status["nominatedNodeName"] = decision.nominated_node or None
    return status


def _condition(
    kind: str,
    status: str,
    reason: str,
    decision: PatchPodStatus | PatchPodGroupStatus | PatchPodDisruption,
    changed_ms: int | None,
) -> dict[str, str | int]:
    """A condition of a status; `changed_ms`: of its transition, None where it is none."""
    condition: dict[str, str | int] = {"type": kind, "status": status, "reason": reason, "message": decision.message}
    if changed_ms is not None:
        condition["lastTransitionTime"] = format_rfc3339(changed_ms // 1000)
    if decision.generation:
        condition["observedGeneration"] = decision.generation
    return condition
