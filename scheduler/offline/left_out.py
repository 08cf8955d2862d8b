"""What of an object others may be shown: all that decides about devices and nodes, and nothing else that is private.

Rules of this module
  1. Only kinds are kept that a scheduler reads; a Secret or a ConfigMap never is.
  2. What is left answers each question as the whole object does: of containers stay resources, ports, images and the
     like, not what they run with; of owners of pods only the selector.
  3. The object that was given is not changed.

Not here: reading a cluster, writing files (`scheduler.cli`). See docs/dump.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler.model.api_rules import EXTENDED_RESOURCE_ANNOTATION, POD_CLAIM_NAME_ANNOTATION
from scheduler.model.storage import BIND_COMPLETED, BOUND_BY_CONTROLLER, MIGRATED_PLUGINS, SELECTED_NODE
from scheduler.offline.moving import ANNOTATIONS_READ

Obj = Mapping[str, Any]

_ANNOTATIONS: Final = frozenset(
    {
        *(POD_CLAIM_NAME_ANNOTATION, EXTENDED_RESOURCE_ANNOTATION),
        *(BIND_COMPLETED, BOUND_BY_CONTROLLER, MIGRATED_PLUGINS, SELECTED_NODE),
        *ANNOTATIONS_READ,
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/storage-provisioner",
        "pv.kubernetes.io/provisioned-by",
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    }
)
"""Those that some plugin, controller or command reads."""
_METADATA: Final = (
    *("name", "namespace", "generateName", "uid", "resourceVersion", "generation", "labels", "ownerReferences"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"),
)
_CONTAINER: Final = ("name", "image", "imagePullPolicy", "resources", "resizePolicy", "restartPolicy", "ports")
_CONTAINER_STATUS: Final = ("name", "resources", "allocatedResources", "restartCount", "ready", "image", "imageID")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_PRIVATE_OF_POD: Final = ("imagePullSecrets", "hostAliases", "dnsConfig", "securityContext")
_PRIVATE_VOLUMES: Final = ("secret", "configMap", "projected", "downwardAPI", "hostPath", "nfs", "flexVolume")
_CSI_OF_VOLUME: Final = ("driver", "volumeHandle", "readOnly", "fsType")


def shown(obj: Obj) -> dict[str, Any] | None:
    """What of an object may be shown; None where its kind is left out whole.

    Raises:
        AttributeError, TypeError, ValueError: A field has a value of a wrong type.
    """
    kind = str(obj.get("kind", ""))
    part = _PARTS.get(kind)
    if part is None:
        return None
    metadata = obj.get("metadata")
    kept = {"apiVersion": obj.get("apiVersion"), "kind": kind, "metadata": _metadata(metadata or {})}
    return kept | part({key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")})


def _metadata(metadata: Obj) -> dict[str, Any]:
    kept = {key: metadata[key] for key in _METADATA if key in metadata}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key in _ANNOTATIONS}
    return kept | ({"annotations": annotations} if annotations else {})


def _whole(rest: Obj) -> dict[str, Any]:
    return dict(rest)


def _pod(rest: Obj) -> dict[str, Any]:
    spec = _without(rest.get("spec") or {}, *_PRIVATE_OF_POD)
    for key in _CONTAINERS:
        if spec.get(key):
            spec[key] = [_only(one, *_CONTAINER) for one in spec[key]]
    if spec.get("volumes"):
        spec["volumes"] = [_volume(one) for one in spec["volumes"]]
    status = _without(rest.get("status") or {}, "message")
    for key in _STATUSES:
        if status.get(key):
            status[key] = [_only(one, *_CONTAINER_STATUS) for one in status[key]]
    return {"spec": spec, "status": status}


def _volume(volume: Obj) -> dict[str, Any]:
    """A volume that no plugin looks at is one without content; of an inline CSI volume the driver is looked at."""
    if any(key in volume for key in _PRIVATE_VOLUMES):
        return {"name": volume.get("name"), "emptyDir": {}}
    if "csi" in volume:
        return {**volume, "csi": _only(volume["csi"] or {}, *_CSI_OF_VOLUME)}
    if isinstance(volume.get("ephemeral"), Mapping):
        template = dict(volume["ephemeral"].get("volumeClaimTemplate") or {})
        if "metadata" in template:
            template["metadata"] = _metadata(template["metadata"] or {})
        return {**volume, "ephemeral": {"volumeClaimTemplate": template}}
    return dict(volume)


def _claim_template(rest: Obj) -> dict[str, Any]:
    spec = dict(rest.get("spec") or {})
    if spec.get("metadata"):
        spec["metadata"] = _metadata(spec["metadata"])
    return {"spec": spec}


def _persistent_volume(rest: Obj) -> dict[str, Any]:
    spec = dict(rest.get("spec") or {})
    if spec.get("csi"):
        spec["csi"] = _only(spec["csi"], *_CSI_OF_VOLUME)
    return {**rest, "spec": spec}


def _storage_class(rest: Obj) -> dict[str, Any]:
    return _without(rest, "parameters", "mountOptions")


def _selector(rest: Obj) -> dict[str, Any]:
    return {"spec": _only(rest.get("spec") or {}, "selector", "replicas")}


def _node(rest: Obj) -> dict[str, Any]:
    return {**rest, "status": _without(rest.get("status") or {}, "addresses", "daemonEndpoints", "nodeInfo")}


def _attachment(rest: Obj) -> dict[str, Any]:
    """What an attached volume says of itself, and errors of its driver, are left out."""
    return {"spec": dict(rest.get("spec") or {}), "status": _only(rest.get("status") or {}, "attached")}


def _only(obj: Obj, *keys: str) -> dict[str, Any]:
    return {key: obj[key] for key in keys if key in obj}


def _without(obj: Obj, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in keys}


_PARTS: Final[Mapping[str, Callable[[Obj], dict[str, Any]]]] = {
    "Namespace": _whole,
    "Node": _node,
    "Pod": _pod,
    **dict.fromkeys(("PriorityClass", "ResourceQuota"), _whole),
    **dict.fromkeys(("ResourceSlice", "DeviceClass", "ResourceClaim", "DeviceTaintRule", "PodGroup"), _whole),
    "ResourceClaimTemplate": _claim_template,
    "PersistentVolume": _persistent_volume,
    "PersistentVolumeClaim": _whole,
    "StorageClass": _storage_class,
    **dict.fromkeys(("CSINode", "CSIDriver", "CSIStorageCapacity"), _whole),
    "VolumeAttachment": _attachment,
    **dict.fromkeys(("Service", "ReplicationController", "ReplicaSet", "StatefulSet"), _selector),
    "PodDisruptionBudget": _whole,
}
