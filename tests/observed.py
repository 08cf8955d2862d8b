"""Inputs that show objects: `observed(pod)`, `deleted("Node", "a")`."""

from __future__ import annotations

from typing import Any

from allocator import DeviceClass, ResourceSlice
from scheduler.core.ground.inputs import Deleted, Input, Observed
from scheduler.model.claim import ResourceClaim
from scheduler.model.device_taint_rules import DeviceTaintRule
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.keys import ObjectKey
from scheduler.model.pod_group import PodGroup

_KINDS: dict[type, str] = {
    ResourceClaim: "ResourceClaim",
    ResourceSlice: "ResourceSlice",
    DeviceClass: "DeviceClass",
    DeviceTaintRule: "DeviceTaintRule",
    DisruptionBudget: "PodDisruptionBudget",
    PodGroup: "PodGroup",
}


def observed(obj: Any, revision: int | None = None) -> Observed:
    """What a watch says of `obj`; `revision` for objects that do not know theirs."""
    kind = _KINDS.get(type(obj)) or getattr(obj, "kind", type(obj).__name__)
    meta = getattr(obj, "metadata", obj)
    if revision is None:
        revision = meta.revision
    key = getattr(obj, "key", None) or ObjectKey("", meta.name)
    return Observed(kind, key, getattr(meta, "uid", ""), revision, obj)


def deleted(kind: str, name: str | ObjectKey, revision: int = 0) -> Deleted:
    """The end of an object whose uid does not matter."""
    return Deleted(kind, name if isinstance(name, ObjectKey) else ObjectKey("", name), "", revision)


def is_of(given: Input, kind: str) -> bool:
    """Whether the input shows an object of this kind that exists."""
    return isinstance(given, Observed) and given.kind == kind
