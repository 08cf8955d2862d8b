"""VolumeZone: keep pods in the zones and regions that their bound volumes' labels name.

Extension points: PreFilter, Filter, RequeueHints.
Reads: the pod's claims, their classes and volumes; topology labels of nodes.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/volumezone/

Source: volume_zone.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec import Struct

from scheduler.framework.api import (
    PRE_FILTER_SKIPPED,
    PRE_FILTERED,
    Action,
    ClusterEvent,
    Hint,
    PreFilterResult,
    Resource,
)
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, likeliest
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.csi_translation import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONES_DELIMITER
from scheduler.model.keys import ObjectKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    named_claims,
)
from scheduler.plugins.volume_reasons import diagnose_claims
from scheduler.why.reasons import Reason

NAME: Final = "VolumeZone"
REASON: Final = "node(s) had no available volume zone"
_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_NOW_CALLED: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}

Topology: TypeAlias = tuple[str, frozenset[str]]
"""A label and the values it may have."""


class VolumeZoneSlot(Struct, frozen=True):
    topologies: tuple[Topology, ...]


@dataclass(frozen=True, slots=True)
class VolumeZone:
    """Reject nodes outside the zones of the pod's volumes; a node without any of the labels takes all."""

    name: str = NAME
    reads: frozenset[str] = frozenset({"PersistentVolume", "PersistentVolumeClaim", "StorageClass"})
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.STORAGE_CLASS, Action.ADD),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE),
        (Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE),
    )

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        topologies: dict[Topology, None] = {}
        for volume in cycle.pod.spec.volumes or ():
            if volume.persistent_volume_claim is not None:
                found = _volume_of(cycle.pod, volume.persistent_volume_claim.claim_name, view)
                if isinstance(found, str):
                    return PreFilterResult(Status.unresolvable(found))
                if found is not None:
                    topologies.update(dict.fromkeys(_topologies(found)))
        if not topologies:
            return PRE_FILTER_SKIPPED
        cycle.put(VolumeZoneSlot(tuple(topologies)))
        return PRE_FILTERED

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return cycle.get(VolumeZoneSlot).topologies

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        labels = node.node.labels
        if not any(key in labels for key in _LABELS):
            return SUCCESS
        for key, values in cycle.get(VolumeZoneSlot).topologies:
            value = labels.get(key)
            if value is None:
                value = labels.get(_NOW_CALLED.get(key, key))
            if value is None or value not in values:
                return Status.unresolvable(REASON)
        return SUCCESS

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """Where the volume is, and where the node."""
        near = likeliest(nodes, view, limits)
        if not near:
            return diagnose_claims(cycle, view, limits)
        node = near[0].node
        for volume in cycle.pod.spec.volumes or ():
            claim = volume.persistent_volume_claim
            found = _volume_of(cycle.pod, claim.claim_name, view) if claim is not None else None
            if claim is None or not isinstance(found, PersistentVolume):
                continue
            for key, values in _topologies(found):
                has = node.labels.get(key, node.labels.get(_NOW_CALLED.get(key, key)))
                if has not in values:
                    fields = {
                        "volume": found.name,
                        "claim": str(ObjectKey(cycle.pod.metadata.namespace, claim.claim_name)),
                        "key": _NOW_CALLED.get(key, key),
                        "values": tuple(sorted(values)),
                        "node": node.name,
                        "has": has or "none",
                    }
                    return (Reason("volume-unreachable", fields, "zone"),)
        return ()

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` for nodes, its claims, volumes with other labels, and classes that wait for their pod."""
        match change.new:
            case StorageClass(volume_binding_mode=mode):
                return Hint.QUEUE if mode == WAIT_FOR_FIRST_CONSUMER else Hint.SKIP
            case PersistentVolumeClaim() as claim:
                return Hint.QUEUE if claim.key in named_claims(pod) else Hint.SKIP
            case PersistentVolume() as volume:
                old = change.old
                is_same = isinstance(old, PersistentVolume) and _topologies(old) == _topologies(volume)
                return Hint.SKIP if is_same else Hint.QUEUE
            case _:
                return Hint.QUEUE

    def concerned(self, change: ClusterEvent, view: ClusterView) -> Iterable[PodUid] | None:
        """A claim concerns its users alone."""
        return view.storage.users_of(change.new.key) if isinstance(change.new, PersistentVolumeClaim) else None


def _volume_of(pod: Pod, claim_name: str, view: ClusterView) -> PersistentVolume | str | None:
    """The volume of a claim; None where it is still to be chosen; why the pod cannot have one."""
    if not claim_name:
        return "PersistentVolumeClaim had no name"
    claim = view.storage.persistent_volume_claim(pod.metadata.namespace, claim_name)
    if claim is None:
        return f'persistentvolumeclaim "{claim_name}" not found'
    if claim.spec.volume_name:
        volume = view.storage.persistent_volume(claim.spec.volume_name)
        return volume if volume is not None else f'persistentvolume "{claim.spec.volume_name}" not found'
    class_name = claim.class_name
    if not class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = view.storage.storage_class(class_name)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{class_name}" not found'
    mode = storage_class.volume_binding_mode
    if mode is None:
        return f'VolumeBindingMode not set for StorageClass "{class_name}"'
    return None if mode == WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"


def _topologies(volume: PersistentVolume) -> tuple[Topology, ...]:
    """The labels of the volume that name zones and regions. One with an empty value among several counts as absent."""
    found = []
    for key in _LABELS:
        if key in volume.labels:
            values = frozenset(value.strip() for value in volume.labels[key].split(ZONES_DELIMITER))
            if "" not in values:
                found.append((key, values))
    return tuple(found)
