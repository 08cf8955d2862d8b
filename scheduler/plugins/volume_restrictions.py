"""VolumeRestrictions: keep apart pods that cannot share a disk, and users of ReadWriteOncePod claims.

Extension points: PreFilter, Filter, RequeueHints.
Reads: the pod's inline disks and claims, the disks of the pods on a node, users of claims.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/volumerestrictions/

Source: volume_restrictions.go v1.36.3. Differs on purpose: claims that are used by a generated volume of another pod
count as in use, too; and a pod that is supposed to be gone frees claims of its own namespace only, where upstream
compares names alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

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
from scheduler.model.keys import ObjectKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim, named_claims, volume_claims
from scheduler.model.volume_sources import GcePersistentDisk, IscsiVolume, RbdVolume, Volume
from scheduler.plugins.ended_reasons import ending
from scheduler.plugins.volume_reasons import diagnose_claims
from scheduler.why.reasons import Reason
from scheduler.why.say import Pods

_USERS_MAX: Final = 4
NAME: Final = "VolumeRestrictions"
REASON_DISK: Final = "node(s) had no available disk"
REASON_ONE_POD: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


class VolumeRestrictionsSlot(Struct, frozen=True):
    """The pod's inline disks, and its ReadWriteOncePod claims that other pods use.

    Attributes:
        has_rival: Whether that counts. In a supposed cluster a claim is one use, whoever has it, and each pod that is
            supposed to be gone takes one away (upstream: conflictingPVCRefCount).
    """

    disks: tuple[Volume, ...]
    in_use: tuple[ObjectKey, ...]
    has_rival: bool


@dataclass(frozen=True, slots=True)
class VolumeRestrictions:
    """Reject nodes where a pod has the disk, and all nodes while another pod has the claim for itself."""

    name: str = NAME
    reads: frozenset[str] = frozenset({"PersistentVolumeClaim"})
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.ASSIGNED_POD, Action.DELETE),
        (Resource.NODE, Action.ADD),
        (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD),
    )

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        volumes = cycle.pod.spec.volumes
        if not volumes:
            return PRE_FILTER_SKIPPED
        storage, in_use, uses = view.storage, dict[ObjectKey, None](), 0
        for key in dict.fromkeys(named_claims(cycle.pod)):
            claim = storage.persistent_volume_claim(*key)
            if claim is None:
                return PreFilterResult(Status.unresolvable(f'persistentvolumeclaim "{key.name}" not found'))
            if READ_WRITE_ONCE_POD in (claim.spec.access_modes or ()):
                uses += storage.supposed_uses(key)
                if storage.is_used_on_a_node(key):
                    in_use[key] = None
                    uses += 1
        disks = tuple(volume for volume in volumes if _is_disk(volume))
        if not disks and not in_use:
            return PRE_FILTER_SKIPPED
        cycle.put(VolumeRestrictionsSlot(disks, tuple(in_use), uses > 0))
        return PRE_FILTERED

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        slot = cycle.get(VolumeRestrictionsSlot)
        return _sources(slot.disks), slot.in_use

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        slot = cycle.get(VolumeRestrictionsSlot)
        if slot.disks and any(_conflicts(slot.disks, pod) for pod in node.pods.values()):
            return Status.unschedulable(REASON_DISK)
        return Status.unschedulable(REASON_ONE_POD) if slot.has_rival else SUCCESS

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """Who has the claim, or the disk."""
        slot, pod, near = cycle.find(VolumeRestrictionsSlot), cycle.pod, likeliest(nodes, view, limits)
        if slot is None or not near:
            return diagnose_claims(cycle, view, limits)
        if slot.has_rival and slot.in_use:
            claim = slot.in_use[0]
            users = [one for uid in view.storage.users_of(claim)[:_USERS_MAX] if (one := view.pod(uid)) is not None]
            users = [one for one in users if one.uid != pod.uid and view.node_of(one.uid) is not None]
            where = list(dict.fromkeys([on for one in users if (on := view.node_of(one.uid)) is not None]))
            fields = {"claim": str(claim), "pods": Pods.of(users), "nodes": tuple(where)}
            if not users:
                return (Reason("volume-in-use", fields, "somebody"),)
            end = ending(pod, users, where, tuple([node.name for node in near]))
            return (Reason("volume-in-use", fields, fixes=(end,)),)
        found = [(node, users) for node in near if (users := self._rivals(cycle, slot, node))]
        if not found:
            return ()
        node, users = min(found, key=lambda one: (len(one[1]), one[0].name))
        fields = {"pods": Pods.of(users), "node": node.name, "pod": pod.key, "disk": _disk(slot.disks, users[0])}
        ends = [ending(pod, users, [node.name]) for node, users in found if len(users) <= _USERS_MAX]
        return (Reason("volume-in-use", fields, "disk", tuple(ends)),)

    @staticmethod
    def _rivals(cycle: Cycle, slot: VolumeRestrictionsSlot, node: NodeInfo) -> list[Pod]:
        """Pods on a node with a disk of the pod."""
        cycle.charge(8 * len(node.pods))
        return [one for one in node.pods.values() if _conflicts(slot.disks, one)]

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a node or one of its claims appears, or a pod leaves that had its disk or claim."""
        match change.new or change.old:
            case PersistentVolumeClaim() as claim:
                return Hint.QUEUE if claim.key in named_claims(pod) else Hint.SKIP
            case Pod() as left:
                disks = tuple(volume for volume in pod.spec.volumes or () if _is_disk(volume))
                if left.metadata.namespace != pod.metadata.namespace:
                    return Hint.SKIP
                shared = set(named_claims(pod)).intersection(named_claims(left))
                return Hint.QUEUE if shared or _conflicts(disks, left) else Hint.SKIP
            case _:
                return Hint.QUEUE

    def concerned(self, change: ClusterEvent, view: ClusterView) -> Iterable[PodUid] | None:
        """A claim concerns its users; so do the claims of a pod that leaves, if it has no disk."""
        match change.new or change.old:
            case PersistentVolumeClaim() as claim:
                return view.storage.users_of(claim.key)
            case Pod() as left if not any(map(_is_disk, left.spec.volumes or ())):
                return [uid for key in volume_claims(left) for uid in view.storage.users_of(key)]
            case _:
                return None


def _is_disk(volume: Volume) -> bool:
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.rbd is not None
        or volume.iscsi is not None
    )


def _sources(disks: Iterable[Volume]) -> Hashable:
    return tuple((one.gce_persistent_disk, one.aws_elastic_block_store, one.rbd, one.iscsi) for one in disks)


def _conflicts(disks: tuple[Volume, ...], pod: Pod) -> bool:
    return any(_is_conflict(disk, other) for other in pod.spec.volumes or () if _is_disk(other) for disk in disks)


def _disk(disks: tuple[Volume, ...], pod: Pod) -> str:
    """The first of the disks that the pod has, too: its kind and name."""
    disk = next(one for one in disks if _conflicts((one,), pod))
    if disk.gce_persistent_disk is not None:
        return f"gcePersistentDisk {disk.gce_persistent_disk.pd_name}"
    if disk.aws_elastic_block_store is not None:
        return f"awsElasticBlockStore {disk.aws_elastic_block_store.volume_id}"
    return f"iscsi {disk.iscsi.iqn}" if disk.iscsi is not None else f"rbd {disk.rbd.image if disk.rbd else ''}"


def _is_conflict(ours: Volume, theirs: Volume) -> bool:
    """Whether both are one disk, and not both only read it (which helps no EBS volume)."""
    ebs, other_ebs = ours.aws_elastic_block_store, theirs.aws_elastic_block_store
    if ebs is not None and other_ebs is not None and ebs.volume_id == other_ebs.volume_id:
        return True
    gce, other_gce = ours.gce_persistent_disk, theirs.gce_persistent_disk
    if gce is not None and other_gce is not None and gce.pd_name == other_gce.pd_name and _writes(gce, other_gce):
        return True
    iscsi, other_iscsi = ours.iscsi, theirs.iscsi
    if iscsi is not None and other_iscsi is not None and iscsi.iqn == other_iscsi.iqn and _writes(iscsi, other_iscsi):
        return True
    rbd, other_rbd = ours.rbd, theirs.rbd
    if rbd is None or other_rbd is None or not _writes(rbd, other_rbd):
        return False
    is_same = rbd.pool == other_rbd.pool and rbd.image == other_rbd.image
    return is_same and not set(rbd.monitors or ()).isdisjoint(other_rbd.monitors or ())


def _writes(*disks: GcePersistentDisk | IscsiVolume | RbdVolume) -> bool:
    return not all(disk.read_only for disk in disks)
