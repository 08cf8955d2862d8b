"""Fields of a pod that restrict where it may run, and that this scheduler does not read yet.

kube-scheduler has plugins for them. A pod with such a field must not be bound as if it had none.

Rules of this module
  1. Only requirements. A preference (preferred pod affinity, ScheduleAnyway) that nobody reads harms nobody.
  2. A field is named where it first occurs, by its path in the manifest.
  3. A plugin that reads one of these fields takes over: its row of `FIELDS`, its lines below and its line in the guide
     go.

Not here: refusing the pod (`plugins.unsupported_fields`). docs/guide.md lists what else is not supported and is no
field of the pod (other pods' anti-affinity, preemption, …).

Source: what decides in pkg/scheduler/framework/plugins/{volumebinding,volumezone,
volumerestrictions,nodevolumelimits} v1.36.3, csi-translation-lib translate.go v0.36.3
(volumes that are attached by CSI drivers today).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec.structs import fields

from scheduler.model.objects import Pod, PodSpec, Volume

_ATTACHED: Final = "NodeVolumeLimits, VolumeRestrictions"
FIELDS: Final[Mapping[str, str]] = {
    "persistentVolumeClaim": "VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits",
    "ephemeral": "VolumeBinding, NodeVolumeLimits",
    "awsElasticBlockStore": _ATTACHED,
    "azureDisk": _ATTACHED,
    "azureFile": _ATTACHED,
    "cinder": _ATTACHED,
    "gcePersistentDisk": _ATTACHED,
    "iscsi": _ATTACHED,
    "portworxVolume": _ATTACHED,
    "rbd": _ATTACHED,
    "vsphereVolume": _ATTACHED,
}
"""By name: the plugins of kube-scheduler that look at it."""

_HARMLESS: Final = Volume()
_SOURCES: Final = tuple((field.name, field.encode_name) for field in fields(Volume))


class FieldUse(NamedTuple):
    """A field of `FIELDS` that a pod has, and where."""

    name: str
    path: str


def unsupported_fields(pod: Pod) -> tuple[FieldUse, ...]:
    """The fields of `FIELDS` that this pod has, each once, in the order of `FIELDS`; empty for nearly all pods."""
    spec = pod.spec
    if not spec.volumes:
        return ()  # nearly all pods, and each is asked for with every attempt
    uses = list(_uses(spec))
    if not uses:
        return ()
    first: dict[str, FieldUse] = {}
    for use in uses:
        first.setdefault(use.name, use)
    return tuple(first[name] for name in FIELDS if name in first)


def _uses(spec: PodSpec) -> Iterator[FieldUse]:
    for index, volume in enumerate(spec.volumes or ()):
        if volume != _HARMLESS:
            for attribute, name in _SOURCES:
                if getattr(volume, attribute) is not None:
                    yield FieldUse(name, f"spec.volumes[{index}].{name}")
