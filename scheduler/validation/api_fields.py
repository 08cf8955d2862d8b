"""The fields of Kubernetes' kinds, and the kinds there are: the tables `api_types.txt` and `api_kinds.txt`.

Lint and the embedded server ask it, each with words of its own. `tests/lint/test_api_fields.py` compares it with
the Kubernetes client's models, which take 0.15 s and 40 MiB to load.

Not here: what a value of the right type must be (`claims`, `slices`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

# Where a type is not called as its kind, it follows the kind.
_KINDS_WITH_FIELDS: Final[Mapping[str, str]] = {
    "v1": "ConfigMap Event Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController "
    "Secret Service ServiceAccount",
    "apps/v1": "DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling/v1": "HorizontalPodAutoscaler=V1HorizontalPodAutoscaler",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "batch/v1": "CronJob Job",
    "coordination.k8s.io/v1": "Lease",
    "events.k8s.io/v1": "Event=EventsEvent",
    "policy/v1": "PodDisruptionBudget",
    "resource.k8s.io/v1": "DeviceClass DeviceTaintRule ResourceClaim=DRAResourceClaim ResourceClaimTemplate "
    "ResourceSlice",
    "resource.k8s.io/v1beta2": "DeviceTaintRule",
    "scheduling.k8s.io/v1": "PriorityClass",
    "storage.k8s.io/v1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment",
}
_TYPE_OF_KIND: Final[Mapping[tuple[str, str], str]] = {
    (version, kind): name or kind
    for version, kinds in _KINDS_WITH_FIELDS.items()
    for kind, _, name in (one.partition("=") for one in kinds.split())
}
_TYPES_OF_KINDS: Final = frozenset(_TYPE_OF_KIND.values())


def type_of(api_version: str, kind: str) -> str | None:
    """The type of a kind's objects; None where its fields are not in the table."""
    return _TYPE_OF_KIND.get((api_version, kind))


@cache
def fields_of(name: str) -> Mapping[str, str]:
    """The fields of a type, with their types as the table writes them: `containers` is a `[Container]`."""
    fields = {"apiVersion": "s", "kind": "s"} if name in _TYPES_OF_KINDS else {}
    for entry in _types()[name].split():
        field, _, of = entry.partition(":")
        fields[field.removesuffix("!")] = of
    return fields


@cache
def required_of(name: str) -> tuple[str, ...]:
    """The fields that objects of a type must have."""
    entries = (entry.partition(":")[0] for entry in _types()[name].split())
    return tuple(field.removesuffix("!") for field in entries if field.endswith("!"))


def kinds_in(api_version: str) -> frozenset[str]:
    """The kinds of an API version; empty when it is none of Kubernetes' own."""
    return _kinds().get(api_version, frozenset())


def versions_of(kind: str) -> tuple[str, ...]:
    """The API versions that have a kind, the newest of each group first."""
    return tuple(
        sorted((version for version, kinds in _kinds().items() if kind in kinds), key=lambda each: "v1" in each)
    )


@cache
def _kinds() -> Mapping[str, frozenset[str]]:
    return {name: frozenset(rest.split()) for name, rest in _table("api_kinds.txt").items()}


@cache
def _types() -> Mapping[str, str]:
    return _table("api_types.txt")


def _table(file: str) -> dict[str, str]:
    text = Path(__file__).with_name(file).read_text(encoding="utf-8").replace("\n  ", " ")
    lines = (line.partition(" = ") for line in text.splitlines() if not line.startswith("#"))
    return {name: rest for name, _, rest in lines}
