"""Volumes, claims for them, classes and CSI objects for tests, as API dicts and decoded."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tests.builders import metadata

GI = 2**30 * 10**9  # a GiB, in the units in which sizes are compared
WAITING = "local"  # a class


def volume_object(
    name: str,
    *,
    class_name: str = WAITING,
    capacity: str = "1Gi",
    claim: str = "",
    claim_uid: str = "",
    phase: str = "",
    zone: str = "",
    revision: int | None = None,
    spec: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A PersistentVolume; `claim` is `namespace/name` of its claimRef, `zone` the only one that reaches it."""
    made: dict[str, Any] = {
        "capacity": {"storage": capacity},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class_name,
        "csi": {"driver": "csi.example.com", "volumeHandle": f"handle-{name}"},
    }
    if claim:
        namespace, _, claim_name = claim.partition("/")
        made["claimRef"] = {"namespace": namespace, "name": claim_name} | ({"uid": claim_uid} if claim_uid else {})
    if zone:
        term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}
        made["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata(name, revision=revision, **more),
        "spec": made | (spec or {}),
        "status": {"phase": phase or ("Bound" if claim else "Available")},
    }


def volume(name: str, **more: Any) -> PersistentVolume:
    return msgspec.convert(volume_object(name, **more), PersistentVolume)


def volume_claim_object(
    name: str,
    *,
    namespace: str = "default",
    class_name: str | None = WAITING,
    request: str = "1Gi",
    volume_name: str = "",
    phase: str = "",
    revision: int | None = None,
    annotations: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A PersistentVolumeClaim; one with a volume is bound."""
    noted = ({"pv.kubernetes.io/bind-completed": "yes"} if volume_name else {}) | (annotations or {})
    made: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": request}}}
    if class_name is not None:
        made["storageClassName"] = class_name
    if volume_name:
        made["volumeName"] = volume_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(name, namespace=namespace, revision=revision, annotations=noted, **more),
        "spec": made | (spec or {}),
        "status": {"phase": phase or ("Bound" if volume_name else "Pending")},
    }


def volume_claim(name: str, **more: Any) -> PersistentVolumeClaim:
    return msgspec.convert(volume_claim_object(name, **more), PersistentVolumeClaim)


def storage_class_object(
    name: str = WAITING,
    *,
    provisioner: str = "csi.example.com",
    mode: str | None = "WaitForFirstConsumer",
    revision: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    made = {"volumeBindingMode": mode} if mode is not None else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata(name, revision=revision),
        "provisioner": provisioner,
        **made,
        **more,
    }


def storage_class(name: str = WAITING, **more: Any) -> StorageClass:
    return msgspec.convert(storage_class_object(name, **more), StorageClass)


def _storage_object(kind: str, name: str, namespace: str, revision: int | None, **fields: Any) -> dict[str, Any]:
    meta = metadata(name, namespace=namespace, revision=revision)
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": meta, **fields}


def csi_node_object(name: str, limits: dict[str, int | None], *, revision: int | None = None) -> dict[str, Any]:
    """A CSINode with its drivers and how many volumes each attaches; None for no limit."""
    drivers = [
        {"name": driver, "nodeID": name} | ({"allocatable": {"count": count}} if count is not None else {})
        for driver, count in limits.items()
    ]
    return _storage_object("CSINode", name, "", revision, spec={"drivers": drivers})


def csi_node(name: str, limits: dict[str, int | None], **more: Any) -> CSINode:
    return msgspec.convert(csi_node_object(name, limits, **more), CSINode)


def csi_driver(name: str, *, storage_capacity: bool = True, revision: int | None = None) -> CSIDriver:
    fields = _storage_object("CSIDriver", name, "", revision, spec={"storageCapacity": storage_capacity})
    return msgspec.convert(fields, CSIDriver)


def capacity(
    name: str, capacity: str | None, *, class_name: str = WAITING, revision: int | None = None, **more: Any
) -> CSIStorageCapacity:
    fields = _storage_object(
        "CSIStorageCapacity", name, "kube-system", revision, storageClassName=class_name, capacity=capacity, **more
    )
    return msgspec.convert(fields, CSIStorageCapacity)


def attachment(name: str, node: str, volume_name: str, *, revision: int | None = None) -> VolumeAttachment:
    spec = {"attacher": "csi.example.com", "nodeName": node, "source": {"persistentVolumeName": volume_name}}
    return msgspec.convert(_storage_object("VolumeAttachment", name, "", revision, spec=spec), VolumeAttachment)
