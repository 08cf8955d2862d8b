"""NodeVolumeLimits: keep the number of volumes that a CSI driver attaches to a node within what the node says.

Extension points: PreFilter, Filter, RequeueHints.
Reads: claims and volumes of the pod and of those on a node, classes, CSINodes, VolumeAttachments.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go

Rules of this module
  1. A volume counts once on a node, however many pods use it. A claim without a volume counts as one that is like no
     other: the same claim is the same volume.
  2. A volume that is attached and used by no pod counts as attached; when the pod brings it, as new, too (upstream).

Cost: Filter O(volumes of the pods on the node), and only on nodes that limit one of the pod's drivers.

Source: csi.go, utils.go v1.36.3 (VolumeLimitScaling off).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

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
from scheduler.model.csi_translation import (
    CsiVolume,
    TranslationError,
    driver_of_provisioner,
    is_migratable_inline,
    translate_inline,
    translate_volume,
)
from scheduler.model.keys import ObjectKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.storage import (
    CSINode,
    PersistentVolumeClaim,
    VolumeAttachment,
    claim_of_volume,
    volume_claims,
    why_not_owned,
)
from scheduler.model.volume_sources import Volume
from scheduler.plugins.ended_reasons import ending, importance
from scheduler.plugins.volume_reasons import diagnose_claims
from scheduler.why.reasons import Fix, Reason

NAME: Final = "NodeVolumeLimits"
REASON: Final = "node(s) exceed max volume count"
_UNBOUND: Final = "unbound:"
"""Before the name of a claim that has no volume yet, in the place of a handle: no driver names a volume so."""


class NodeVolumeLimitsSlot(Struct, frozen=True):
    """What the pod brings.

    Attributes:
        volumes: Each once.
        refusal: Why it cannot be said; None when it can.
        refusal_without_csi_node: The same for a node without CSINode, where in-tree volumes are not translated.
    """

    volumes: tuple[CsiVolume, ...]
    refusal: Status | None
    refusal_without_csi_node: Status | None


class _Excess(NamedTuple):
    """Volumes of a driver on a node: attached, those that the pod brings, and how many there may be."""

    driver: str
    attached: int
    new: int
    limit: int


class _RefusedError(Exception):
    """A volume of a pod cannot be counted; carries the status."""

    def __init__(self, status: Status) -> None:
        self.status: Final = status


@dataclass(frozen=True, slots=True)
class NodeVolumeLimits:
    """Reject nodes on which a driver would have more volumes than its limit there."""

    name: str = NAME
    reads: frozenset[str] = frozenset(
        {"PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "VolumeAttachment"}
    )
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.CSI_NODE, Action.ADD | Action.UPDATE),
        (Resource.ASSIGNED_POD, Action.DELETE),
        (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD),
        (Resource.VOLUME_ATTACHMENT, Action.DELETE),
    )

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        if not _may_attach(cycle.pod):
            return PRE_FILTER_SKIPPED
        refusals: list[Status | None] = []
        volumes: dict[CsiVolume, None] = {}
        for has_csi_node in (True, False):
            try:
                found = _volumes_of(cycle.pod, view, is_new=True, has_csi_node=has_csi_node)
                volumes = found if has_csi_node else volumes
                refusals.append(None)
            except _RefusedError as refused:
                refusals.append(refused.status)
        cycle.put(NodeVolumeLimitsSlot(tuple(volumes), *refusals))
        return PRE_FILTERED

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        slot = cycle.get(NodeVolumeLimitsSlot)
        # Claims without a volume that no other pod uses are new on every node, whatever their names are.
        pod = cycle.pod
        own = {_handle_of_unbound(key) for key in volume_claims(pod) if len(view.storage.users_of(key)) <= 1}
        volumes = sorted((one.driver, "" if one.handle in own else one.handle) for one in slot.volumes)
        has_claim = any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes or ())
        return tuple(volumes), slot.refusal, slot.refusal_without_csi_node, has_claim

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        slot = cycle.get(NodeVolumeLimitsSlot)
        csi_node = view.storage.csi_node(node.name)
        if csi_node is None:
            return slot.refusal_without_csi_node or SUCCESS
        if slot.refusal is not None:
            return slot.refusal
        try:
            return SUCCESS if _excess(slot, csi_node, node, view) is None else Status.unschedulable(REASON)
        except _RefusedError as refused:
            return refused.status

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """How many volumes the driver has on the node where it has fewest more than it may."""
        slot, pod = cycle.find(NodeVolumeLimitsSlot), cycle.pod
        if slot is None or not nodes or slot.refusal is not None:
            return diagnose_claims(cycle, view, limits)
        found: list[tuple[_Excess, NodeInfo]] = []
        for node in likeliest(nodes, view, limits):
            cycle.charge(32 * len(node.pods))
            try:
                excess = _excess(slot, view.storage.csi_node(node.name), node, view)
            except _RefusedError:
                continue
            if excess is not None:
                found.append((excess, node))
        if not found:
            return ()
        (driver, attached, new, limit), node = min(found, key=lambda one: one[0].attached + one[0].new - one[0].limit)
        fields = {"node": node.name, "attached": attached, "limit": limit, "driver": driver, "pod": pod.key, "new": new}
        fixes = [fix for excess, one in found for fix in _ending(pod, excess, one, view, limits)]
        return (Reason("volume-limit", fields, fixes=tuple(fixes)),)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a limit rises, volumes leave a node, or one of its claims appears."""
        match change.new or change.old:
            case CSINode() as csi_node:
                return Hint.QUEUE if _has_risen(change.old, csi_node) else Hint.SKIP
            case PersistentVolumeClaim() as claim:
                return Hint.QUEUE if claim.key in volume_claims(pod) else Hint.SKIP
            case VolumeAttachment() as attachment:
                return Hint.QUEUE if _may_need(pod, attachment) else Hint.SKIP
            case Pod() as left:
                return Hint.QUEUE if _may_attach(left) else Hint.SKIP
            case _:
                return Hint.SKIP

    def concerned(self, change: ClusterEvent, view: ClusterView) -> Iterable[PodUid] | None:
        """A claim concerns its users alone."""
        return view.storage.users_of(change.new.key) if isinstance(change.new, PersistentVolumeClaim) else None


def _excess(slot: NodeVolumeLimitsSlot, csi_node: CSINode | None, node: NodeInfo, view: ClusterView) -> _Excess | None:
    """The first driver that would have more volumes than it may. Raises _RefusedError."""
    limits = _limits(csi_node) if csi_node is not None else {}
    if not any(volume.driver in limits for volume in slot.volumes):
        return None
    attached = _attached(node, view)
    new: dict[str, int] = {}
    for volume in slot.volumes:
        if volume not in attached:
            new[volume.driver] = new.get(volume.driver, 0) + 1
    for attachment in view.storage.volume_attachments(node.name):
        found = _attached_volume(attachment, view)
        if found is not None:
            attached[found] = None
    for driver, count in new.items():
        limit = limits.get(driver)
        if limit is not None:
            there = sum(one.driver == driver for one in attached)
            if count + there > limit:
                return _Excess(driver, there, count, limit)
    return None


def _ending(pod: Pod, excess: _Excess, node: NodeInfo, view: ClusterView, limits: Limits) -> list[Fix]:
    """Without one of the pods that have volumes of the driver, the least important first."""
    found: list[Pod] = []
    for one in node.pods.values():
        try:
            volumes = _volumes_of(one, view, is_new=False, has_csi_node=True) if one.spec.volumes else {}
        except _RefusedError:
            continue
        if any(volume.driver == excess.driver for volume in volumes):
            found.append(one)
    return [ending(pod, [one], [node.name]) for one in sorted(found, key=importance)[: limits.holders]]


def _may_attach(pod: Pod) -> bool:
    return any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or is_migratable_inline(volume)
        for volume in pod.spec.volumes or ()
    )


def _limits(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _has_risen(old: object | None, new: CSINode) -> bool:
    if not isinstance(old, CSINode):
        return True
    before = _limits(old)
    return any(limit > before.get(driver, 0) for driver, limit in _limits(new).items())


def _may_need(pod: Pod, attachment: VolumeAttachment) -> bool:
    """Whether the place of a volume that is detached could be one for a volume of `pod`."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            return True
        try:
            inline = translate_inline(volume)
        except TranslationError:
            return True
        if inline is not None and inline.driver == attachment.spec.attacher:
            return True
    return False


def _attached(node: NodeInfo, view: ClusterView) -> dict[CsiVolume, None]:
    attached: dict[CsiVolume, None] = {}
    for pod in node.pods.values():
        if pod.spec.volumes:
            attached.update(_volumes_of(pod, view, is_new=False, has_csi_node=True))
    return attached


def _attached_volume(attachment: VolumeAttachment, view: ClusterView) -> CsiVolume | None:
    name = attachment.spec.source.persistent_volume_name
    volume = view.storage.persistent_volume(name) if name is not None else None
    if not attachment.spec.attacher or volume is None or volume.spec.csi is None:
        return None
    return CsiVolume(attachment.spec.attacher, volume.spec.csi.volume_handle)


def _volumes_of(pod: Pod, view: ClusterView, *, is_new: bool, has_csi_node: bool) -> dict[CsiVolume, None]:
    """The volumes of `pod` that a driver attaches, each once. Raises _RefusedError."""
    found: dict[CsiVolume, None] = {}
    for volume in pod.spec.volumes or ():
        name = claim_of_volume(pod, volume)
        if name is None:
            one = _inline(volume) if has_csi_node else None
        else:
            one = _claimed(pod, volume, name, view, is_new=is_new, has_csi_node=has_csi_node)
        if one is not None:
            found[one] = None
    return found


def _inline(volume: Volume) -> CsiVolume | None:
    try:
        return translate_inline(volume)
    except TranslationError as error:
        raise _RefusedError(Status.error(f"converting volume({volume.name}) from inline to csi: {error}")) from error


def _claimed(
    pod: Pod, volume: Volume, name: str, view: ClusterView, *, is_new: bool, has_csi_node: bool
) -> CsiVolume | None:
    namespace = pod.metadata.namespace
    if not name:
        raise _RefusedError(Status.error("PersistentVolumeClaim had no name"))
    claim = view.storage.persistent_volume_claim(namespace, name)
    if claim is None:
        if not is_new:
            return None
        text = f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found'
        raise _RefusedError(Status.unresolvable(text))
    foreign = why_not_owned(pod, claim) if volume.ephemeral is not None else None
    if foreign is not None:
        raise _RefusedError(Status.error(foreign))
    bound = view.storage.persistent_volume(claim.spec.volume_name) if claim.spec.volume_name else None
    if bound is None:
        return _of_class(claim, view, has_csi_node=has_csi_node)
    if bound.spec.csi is None and not has_csi_node:
        return None
    try:
        one = translate_volume(bound)
    except TranslationError:
        return None
    return one if one is not None and one.driver and one.handle else None


def _of_class(claim: PersistentVolumeClaim, view: ClusterView, *, has_csi_node: bool) -> CsiVolume | None:
    """The volume that the claim's class will provide; None where nothing is known of it."""
    storage_class = view.storage.storage_class(claim.class_name) if claim.class_name else None
    if storage_class is None:
        return None
    driver = driver_of_provisioner(storage_class.provisioner)
    if driver is None or (driver != storage_class.provisioner and not has_csi_node):
        return None
    return CsiVolume(driver, _handle_of_unbound(claim.key))


def _handle_of_unbound(claim: ObjectKey) -> str:
    return f"{_UNBOUND}{claim}"
