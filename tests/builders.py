"""Objects for tests, as API dicts and decoded: pods, nodes, claims, slices, classes.

Functions ending in `_object` give what the API server would print; the others give what the machine is told.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from allocator import (
    Allocation,
    DeviceClass,
    DeviceResult,
    ResourceSlice,
    decode_allocation,
    decode_claim_spec,
    decode_class,
    decode_slice,
)
from scheduler.model.claim import Consumer, DeviceCondition, ResourceClaim
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.keys import ClaimKey, ClaimUid, ObjectKey
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.objects import LabelSelector, Namespace, Node, OwnerReference, Pod

DRIVER = "gpu.example.com"
CLASS = "gpu.example.com"
SCHEDULER = "dra-scheduler"

_revisions = itertools.count(1)


def next_revision() -> int:
    """Grows over all objects of a test run, as etcd's does."""
    return next(_revisions)


def metadata(
    name: str, *, namespace: str = "", uid: str = "", revision: int | None = None, **more: Any
) -> dict[str, Any]:
    """Object metadata with a uid that follows from the name unless given."""
    meta = {
        "name": name,
        "uid": uid or f"uid-{namespace + '-' if namespace else ''}{name}",
        "resourceVersion": str(next_revision() if revision is None else revision),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **more,
    }
    return {**meta, "namespace": namespace} if namespace else meta


def pod_object(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    revision: int | None = None,
    scheduler: str = SCHEDULER,
    node: str = "",
    requests: dict[str, Any] | None = None,
    claims: tuple[str, ...] = (),
    templates: dict[str, str | None] | None = None,
    priority: int | None = None,
    gates: tuple[str, ...] = (),
    phase: str = "Pending",
    labels: dict[str, str] | None = None,
    deleting: bool = False,
    nominated: str = "",
    conditions: tuple[dict[str, str], ...] = (),
    **spec: Any,
) -> dict[str, Any]:
    """A pod.

    Args:
        requests: Of its only container.
        claims: Names of ResourceClaims it uses directly.
        templates: Entry name to the name of the generated claim, None while there is none.
    """
    entries: list[dict[str, Any]] = [
        {"name": f"claim-{i}", "resourceClaimName": claim} for i, claim in enumerate(claims)
    ]
    entries += [{"name": entry, "resourceClaimTemplateName": f"template-{entry}"} for entry in templates or {}]
    statuses = [
        {"name": entry, "resourceClaimName": generated}
        for entry, generated in (templates or {}).items()
        if generated is not None
    ]
    meta = metadata(name, namespace=namespace, uid=uid, revision=revision, labels=labels or {})
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    return {
        "metadata": meta,
        "spec": {
            "schedulerName": scheduler,
            "nodeName": node,
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": requests or {}}}],
            **({"priority": priority} if priority is not None else {}),
            **({"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}),
            **({"resourceClaims": entries} if entries else {}),
            **spec,
        },
        "status": {
            "phase": phase,
            "nominatedNodeName": nominated,
            **({"resourceClaimStatuses": statuses} if statuses else {}),
            **({"conditions": list(conditions)} if conditions else {}),
        },
    }


def pod(name: str = "pod", **fields: Any) -> Pod:
    """A pod as the machine is told it; fields as of `pod_object`."""
    return msgspec.convert(pod_object(name, **fields), Pod)


def node_object(
    name: str = "node",
    *,
    uid: str = "",
    revision: int | None = None,
    labels: dict[str, str] | None = None,
    taints: tuple[dict[str, str], ...] = (),
    unschedulable: bool = False,
    allocatable: dict[str, str] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """A node with 8 cpu, 32Gi and 110 pods unless `allocatable` says otherwise; `status` holds more API fields."""
    return {
        "metadata": metadata(
            name, uid=uid, revision=revision, labels={"kubernetes.io/hostname": name, **(labels or {})}
        ),
        "spec": {"unschedulable": unschedulable, "taints": list(taints)},
        "status": {"allocatable": allocatable or {"cpu": "8", "memory": "32Gi", "pods": "110"}, **status},
    }


def node(name: str = "node", **fields: Any) -> Node:
    """A node as the machine is told it; fields as of `node_object`."""
    return msgspec.convert(node_object(name, **fields), Node)


def namespace(name: str, **fields: Any) -> Namespace:
    """A namespace."""
    return msgspec.convert({"metadata": metadata(name, **fields)}, Namespace)


def request_object(
    name: str = "gpu", *, count: int | None = 1, selector: str = "", device_class: str = CLASS
) -> dict[str, Any]:
    """A request for an exact count of devices, or, without one, for all."""
    selectors = [{"cel": {"expression": selector}}] if selector else []
    amount = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    exactly = {"deviceClassName": device_class, **amount, "selectors": selectors}
    return {"name": name, "exactly": exactly}


def claim_spec_object(*requests: dict[str, Any], constraints: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """A claim's spec; one request for one device when none is given."""
    return {"devices": {"requests": list(requests) or [request_object()], "constraints": list(constraints)}}


def claim_object(
    name: str = "claim",
    *,
    namespace: str = "default",
    spec: dict[str, Any] | None = None,
    owner_pod: Pod | None = None,
    **meta: Any,
) -> dict[str, Any]:
    """An unallocated claim; with `owner_pod` as if generated from a template for that pod."""
    if owner_pod is not None:
        meta["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": owner_pod.metadata.name,
                "uid": owner_pod.metadata.uid,
                "controller": True,
            }
        ]
    return {
        "metadata": metadata(name, namespace=namespace, **meta),
        "spec": spec or claim_spec_object(),
        "status": {},
    }


def claim(
    name: str = "claim",
    *,
    namespace: str = "default",
    uid: str = "",
    revision: int | None = None,
    spec: dict[str, Any] | None = None,
    owner_pod: Pod | None = None,
    allocation: Allocation | None = None,
    reserved_for: tuple[Pod, ...] = (),
    finalizers: tuple[str, ...] = (),
    conditions: tuple[DeviceCondition, ...] = (),
    deleting: bool = False,
) -> ResourceClaim:
    """A claim as the machine is told it."""
    owners = ()
    if owner_pod is not None:
        owners = (OwnerReference("Pod", owner_pod.metadata.name, owner_pod.metadata.uid, "v1", True),)
    return ResourceClaim(
        key=ClaimKey(namespace, name),
        uid=ClaimUid(uid or f"uid-{namespace}-{name}"),
        revision=next_revision() if revision is None else revision,
        spec=decode_claim_spec(spec or claim_spec_object()),
        allocation=allocation,
        reserved_for=tuple(Consumer("pods", one.metadata.name, one.metadata.uid) for one in reserved_for),
        device_conditions=conditions,
        finalizers=finalizers,
        owner_references=owners,
        deletion_timestamp="2026-01-01T00:01:00Z" if deleting else None,
    )


def allocation(
    *devices: str, pool: str, driver: str = DRIVER, request: str = "gpu", node: str | None = None
) -> Allocation:
    """An allocation of `devices` of one pool, usable on `node` (the pool's name unless given)."""
    results = tuple(DeviceResult(request, driver, pool, device) for device in devices)
    selector = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node or pool]}]}]
    }
    return Allocation(results, (), decode_allocation({"nodeSelector": selector}).node_selector)


def device_object(name: str, **attributes: Any) -> dict[str, Any]:
    """A device; attribute values become bool, int or string attributes."""
    kinds = {bool: "bool", int: "int", str: "string"}
    return {"name": name, "attributes": {key: {kinds[type(value)]: value} for key, value in attributes.items()}}


def slice_object(
    name: str = "slice",
    *,
    node: str | None = "node",
    pool: str | None = None,
    driver: str = DRIVER,
    devices: tuple[dict[str, Any], ...] | int = 2,
    generation: int = 1,
    slices: int = 1,
    revision: int | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A ResourceSlice of `node`; `devices` as a number gives gpu-0, gpu-1, …"""
    if isinstance(devices, int):
        devices = tuple(device_object(f"gpu-{index}", index=index) for index in range(devices))
    return {
        "metadata": metadata(name, revision=revision),
        "spec": {
            "driver": driver,
            "pool": {"name": pool or node or name, "generation": generation, "resourceSliceCount": slices},
            **({"nodeName": node} if node is not None else {}),
            "devices": list(devices),
            **spec,
        },
    }


def resource_slice(name: str = "slice", **fields: Any) -> ResourceSlice:
    """A slice as the machine is told it; fields as of `slice_object`."""
    return decode_slice(slice_object(name, **fields))


def class_object(name: str = CLASS, *, driver: str = DRIVER, extended_resource: str = "") -> dict[str, Any]:
    """A device class for all devices of a driver."""
    return {
        "metadata": metadata(name),
        "spec": {
            "selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}],
            **({"extendedResourceName": extended_resource} if extended_resource else {}),
        },
    }


def device_class(name: str = CLASS, **fields: Any) -> DeviceClass:
    """A class as the machine is told it."""
    return decode_class(class_object(name, **fields))


def budget(
    name: str = "budget",
    *,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    allowed: int = 0,
    disrupted: tuple[str, ...] = (),
) -> DisruptionBudget:
    """A PodDisruptionBudget as it stays in memory; by default for pods with app=web."""
    selector = compile_label_selector(LabelSelector({"app": "web"} if labels is None else labels))
    return DisruptionBudget(ObjectKey(namespace, name), selector, allowed, frozenset(disrupted))
