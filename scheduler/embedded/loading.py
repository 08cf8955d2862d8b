"""Objects of files brought into an embedded cluster: manifests are applied, dumps are restored.

A manifest is what a user wrote: it gets its uid, defaults and validation here. An object of a dump (`kubectl get -o
yaml`) had all that where it came from: it is stored as it is, its uid and times too, because claims and pods know each
other by uid. Defaults that it lacks are filled in, as a server does that reads what an older one has stored; and what
controllers rely on is checked, as somebody may have written it by hand.

Not here: reading files; field validation (`field_validation`).
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping
from typing import Final, NamedTuple

import orjson

from scheduler.embedded.kinds.catalog import NODE, POD
from scheduler.embedded.kinds.pod_kinds import misnamed_claims
from scheduler.embedded.kinds.slice_kinds import missing_defaults
from scheduler.embedded.server.apply import apply_configuration
from scheduler.embedded.server.field_validation import check_fields
from scheduler.embedded.server.incoming import drop_nulls
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.statuses import bad_request, invalid_object
from scheduler.embedded.server.strategy import Object
from scheduler.validation.field_errors import Json
from scheduler.validation.name_rules import validate_owners

_RESTORED_KINDS: Final = frozenset(
    {
        *("Namespace", "Node", "Pod", "PriorityClass", "ResourceQuota"),
        *("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "DeviceTaintRule"),
        *("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity"),
        *("VolumeAttachment", "Service", "PodDisruptionBudget"),
    }
)
# The same shape in all versions that were ever served.
_WITHOUT_SPEC: Final = frozenset({"PriorityClass", "StorageClass", "CSIStorageCapacity"})
_SLICE: Final = "ResourceSlice"
_TAINT_RULE: Final = "DeviceTaintRule"
_TAINT_RULE_VERSION: Final = "resource.k8s.io/v1"
_RESOURCE_GROUP: Final = "resource.k8s.io/"


def is_from_a_server(obj: Mapping[str, Json]) -> bool:
    """Whether an object was printed by an API server, and not written by hand."""
    metadata = obj.get("metadata")
    return isinstance(metadata, Mapping) and bool(metadata.get("uid") or metadata.get("deletionTimestamp"))


def is_restored(obj: Mapping[str, Json]) -> bool:
    """Whether an object of a dump is of use: workloads are not, as their pods are in the dump themselves."""
    return obj.get("kind") in _RESTORED_KINDS


def kind_of(api: Api, obj: Mapping[str, Json]) -> ServedKind:
    """The kind that an object names. Raises ApiError: 400, it is not served here."""
    version, name = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    if name == _TAINT_RULE and version.startswith(_RESOURCE_GROUP):
        version = _TAINT_RULE_VERSION
    kind = api.registry.by_kind(version, name)
    if kind is None:
        hint = ""
        if version.startswith(_RESOURCE_GROUP) and api.registry.by_kind(f"{_RESOURCE_GROUP}v1", name):
            hint = "; `dra-scheduler convert` writes resource.k8s.io/v1"
        raise bad_request(f"the embedded cluster serves no kind {name!r} of version {version!r}{hint}")
    return kind


def apply_object(api: Api, given: Mapping[str, Json]) -> tuple[ServedKind, Stored]:
    """Create or merge like `kubectl apply --server-side`; a status is applied too.

    Raises:
        ApiError: it is refused.
    """
    kind = kind_of(api, given)
    obj: Object = copy.deepcopy(dict(given))
    drop_nulls(obj)
    obj["apiVersion"] = kind.api_version
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request(f"{kind.kind}: metadata must be an object, not {type(metadata).__name__}")
    namespace = (metadata.get("namespace") or "default") if kind.is_namespaced else ""
    status = obj.get("status")
    if "name" not in metadata:
        stored = api.create(kind, namespace, copy.deepcopy(obj))
    else:
        stored, _ = apply_configuration(api, kind, namespace, metadata["name"], copy.deepcopy(obj), sub_resource="")
    if kind.has_status and status:
        sub = {"metadata": {"name": stored.name}, "status": status}
        stored, _ = apply_configuration(api, kind, namespace, stored.name, sub, sub_resource="status")
    return kind, stored


class Restorable(NamedTuple):
    """An object of a dump, checked, in the form in which it is stored.

    Attributes:
        obj: Only its metadata may be changed: several servers store it, and parts of it may be the given object's.
    """

    kind: ServedKind
    namespace: str
    name: str
    obj: Object


def restore_object(api: Api, given: Mapping[str, Json]) -> tuple[ServedKind, Stored]:
    """Store an object of a dump as it is; it takes the place of one of its name.

    Raises:
        ApiError: 400, its kind is not served, it has no name, or values of a wrong type.
    """
    return restore(api, restorable(api, given))


def restore(api: Api, one: Restorable) -> tuple[ServedKind, Stored]:
    """Store it; several API servers may store the same."""
    obj = {**one.obj, "metadata": dict(one.obj["metadata"])}
    return one.kind, api.store.put(one.kind.kind_id, one.namespace, one.name, obj)


def restorable(api: Api, given: Mapping[str, Json]) -> Restorable:
    """Raises ApiError as `restore_object`."""
    kind = kind_of(api, given)
    check_fields(kind, given, allows_unknown=True)
    rest = {key: value for key, value in given.items() if key not in ("apiVersion", "kind", "metadata")}
    metadata = {key: value for key, value in given["metadata"].items() if key not in ("managedFields", "selfLink")}
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise bad_request(f"{kind.kind} without metadata.name")
    if "uid" not in metadata:
        metadata["uid"] = str(uuid.uuid4())
    if "creationTimestamp" not in metadata:
        metadata["creationTimestamp"] = api.now()
    if kind.is_namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    namespace = metadata["namespace"] if kind.is_namespaced else ""
    if kind.has_status:
        rest.setdefault("status", {})
    if kind.kind not in _WITHOUT_SPEC:
        rest["spec"] = rest.get("spec") or {}
    is_complete = kind is NODE or (kind.kind == _SLICE and not any(missing_defaults(rest["spec"])))
    obj = _private_copy({"metadata": metadata, **rest}, is_complete)  # metadata first: see ServedKind.prefix
    kind.strategy.default(obj, api)
    errors = validate_owners(obj["metadata"].get("ownerReferences") or ())
    if kind is POD:
        errors += misnamed_claims(obj)
    if errors:
        raise invalid_object(kind.group, kind.kind, name, errors)
    return Restorable(kind, namespace, name, obj)


def _private_copy(obj: Object, is_complete: bool) -> Object:
    """Without null members; through JSON, which takes a fifth of `deepcopy`'s time, where JSON can say it.

    Args:
        is_complete: No default changes anything in it, so without null members it needs no copy.
    """
    try:
        text = orjson.dumps(obj)
        copied: Object = obj if is_complete and b"null" not in text else orjson.loads(text)
    except (orjson.JSONEncodeError, orjson.JSONDecodeError):
        text, copied = b"null", copy.deepcopy(obj)
    if b"null" in text:
        drop_nulls(copied)
    return copied
