"""VolumeBinding: pods go where their volumes are or can be made, and are bound when they are.

Extension points: PreFilter, Filter, Score, Reserve, PreBind, RequeueHints.
Reads: the pod's claims, volumes and capacities of their classes, node labels.  Writes: claimRef, selected-node.
Upstream: pkg/scheduler/framework/plugins/volumebinding/

Not here: which claims a pod has (`pod_volumes`), which volumes they get on a node (`volume_matching`), what that is
worth (`scoring`), the writes and the wait (`pre_bind`).

Source: volume_binding.go v1.36.3, v1.37.2 (StorageCapacityScoring). Differs on purpose: a CSIDriver that
stops saying its capacity wakes all pods; upstream wakes those that have an inline volume of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.framework.api import (
    PRE_BIND_DONE,
    PRE_FILTER_SKIPPED,
    PRE_FILTERED,
    Action,
    ClusterEvent,
    Hint,
    PreBindStep,
    PreFilterResult,
    ReserveResult,
    Resource,
)
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import Decision
from scheduler.framework.diagnosis import Limits, likeliest
from scheduler.framework.status import SKIP, SUCCESS, Status
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.storage import (
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    volume_claims,
)
from scheduler.plugins.scoring_strategies import ShapePoint, shape_errors
from scheduler.plugins.volume_binding.binding_causes import diagnose_volumes
from scheduler.plugins.volume_binding.pod_volumes import PodVolumes, volumes_of_pod
from scheduler.plugins.volume_binding.pre_bind import VolumeGoals, assumed_for, goals_of, next_step
from scheduler.plugins.volume_binding.scoring import EMPTIEST_FIRST, score_volumes
from scheduler.plugins.volume_binding.volume_matching import NodeVolumes, find_volumes
from scheduler.plugins.volume_reasons import diagnose_claims
from scheduler.validation.field_errors import FieldError, invalid
from scheduler.why.reasons import Reason

NAME: Final = "VolumeBinding"


@dataclass(frozen=True, slots=True)
class VolumeBinding:
    """Reject nodes that a bound volume cannot reach, or where a claim finds no volume and none can be made.

    Args:
        bind_timeout_seconds: How long a pod waits for its volumes once all is written, >= 0.
        scoring_shape: What a storage class is worth, by the percentage of it that would be used; from 1.37 on.
        weight: Of its scores, which releases before 1.37 do not have.
    """

    bind_timeout_seconds: int = 600
    scoring_shape: tuple[ShapePoint, ...] = EMPTIEST_FIRST
    weight: int = 1
    name: str = NAME
    reads: frozenset[str] = frozenset(
        {"PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity"}
    )
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.STORAGE_CLASS, Action.ADD | Action.UPDATE),
        (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE),
        (Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        (Resource.CSI_NODE, Action.ADD | Action.UPDATE),
        (Resource.CSI_DRIVER, Action.UPDATE),
        (Resource.CSI_STORAGE_CAPACITY, Action.ADD | Action.UPDATE),
    )

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        if not cycle.pod.spec.volumes:
            return PRE_FILTER_SKIPPED
        found = volumes_of_pod(cycle.pod, view)
        if found is None:
            return PRE_FILTER_SKIPPED
        if isinstance(found, Status):
            return PreFilterResult(found)
        cycle.put(found)
        return PRE_FILTERED

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return cycle.get(PodVolumes).signature()

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        found = find_volumes(cycle.get(PodVolumes), node.node, view.storage.csi_node(node.name))
        return found if isinstance(found, Status) else SUCCESS

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView) -> Status:
        if not view.features.has_137_semantics:
            return SKIP
        wanted = cycle.find(PodVolumes)
        return SUCCESS if wanted is not None and wanted.delayed else SKIP

    def score(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> int:
        found = find_volumes(cycle.get(PodVolumes), node.node, view.storage.csi_node(node.name))
        return score_volumes(found, self.scoring_shape) if isinstance(found, NodeVolumes) else 0

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        wanted, near = cycle.find(PodVolumes), likeliest(nodes, view, limits)
        if wanted is None or not near:
            return diagnose_claims(cycle, view, limits)
        return diagnose_volumes(cycle, wanted, near[0], view)

    def reserve(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> ReserveResult:
        wanted = cycle.find(PodVolumes)
        if wanted is None or not wanted.delayed:
            return ReserveResult(SUCCESS)
        found = find_volumes(wanted, node.node, view.storage.csi_node(node.name))
        if isinstance(found, Status):
            return ReserveResult(found)
        cycle.put(goals_of(found))
        return ReserveResult(SUCCESS, volumes=assumed_for(found, node.name))

    def unreserve(self, cycle: Cycle, node: NodeName, view: ClusterView) -> tuple[Decision, ...]:
        """Nothing: a volume that is promised or made is there for the pod's next attempt."""
        return ()

    def pre_bind(self, cycle: Cycle, node: NodeName, view: ClusterView) -> PreBindStep:
        goals = cycle.find(VolumeGoals)
        if goals is None:
            return PRE_BIND_DONE
        return next_step(goals, cycle, node, view, timeout_ms=self.bind_timeout_seconds * 1000)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when volumes, capacity or nodes appear or change in what decides where volumes can be."""
        old, new = change.old, change.new
        match new:
            case PersistentVolumeClaim():
                is_helped = new.key in volume_claims(pod)
            case StorageClass():
                is_helped = not isinstance(old, StorageClass) or old.allowed_topologies != new.allowed_topologies
            case CSINode():
                is_helped = not isinstance(old, CSINode) or _migrated(old) != _migrated(new)
            case CSIDriver():
                is_helped = isinstance(old, CSIDriver) and bool(old.spec.storage_capacity)
                is_helped = is_helped and not new.spec.storage_capacity
            case CSIStorageCapacity():
                is_helped = not isinstance(old, CSIStorageCapacity) or _has_risen(old, new)
            case _:
                is_helped = True
        return Hint.QUEUE if is_helped else Hint.SKIP

    def concerned(self, change: ClusterEvent, view: ClusterView) -> Iterable[PodUid] | None:
        """A claim concerns its users alone."""
        return view.storage.users_of(change.new.key) if isinstance(change.new, PersistentVolumeClaim) else None


def _migrated(csi_node: CSINode) -> str:
    return csi_node.annotations.get(MIGRATED_PLUGINS, "")


def _has_risen(old: CSIStorageCapacity, new: CSIStorageCapacity) -> bool:
    before, after = old.largest_nano, new.largest_nano
    return after is not None and (before is None or after > before)


def argument_errors(plugin: VolumeBinding) -> list[FieldError]:
    """What is wrong with the plugin's arguments, by paths within them, in upstream's words."""
    errors = shape_errors("shape", plugin.scoring_shape)
    if plugin.bind_timeout_seconds < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.insert(0, invalid("bindTimeoutSeconds", plugin.bind_timeout_seconds, text))
    return errors
