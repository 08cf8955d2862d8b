"""GangScheduling: keep pods of a group out of the queue until the group is known and enough of its pods exist.

Extension points: PreEnqueue, TargetedHints.
Reads: pods, PodGroups.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/gangscheduling (same verdicts and hints; the texts name group and number).

Differs on purpose: a pod with 1.35's `spec.workloadRef` waits, as nobody here reads its Workload; groups by label are
gated, too; pods of a PodGroup that differ in what they must say alike wait here (upstream: they fail in each attempt);
a PodGroup that changes wakes its pods; a pod that failed, or is deleted before it had a node, does not
count. Upstream's Permit has no place here: `core.group_cycles` places the group in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.group import GANG_SCHEDULING, GroupKey, declared_count, disagreement, key_of_group, waiting_text
from scheduler.model.keys import PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.why.reasons import Reason

WORKLOAD_REF: Final = "spec.workloadRef"


@dataclass(frozen=True, slots=True)
class GangScheduling:
    """Reject a pod whose group is incomplete."""

    name: str = GANG_SCHEDULING
    wakes_on: tuple[tuple[Resource, Action], ...] = ((Resource.POD_GROUP, Action.ADD | Action.UPDATE),)

    def pre_enqueue(self, pod: Pod, view: ClusterView) -> Status:
        if pod.spec.workload_ref is not None:
            return Status.unresolvable(f"the pod has the unknown field {WORKLOAD_REF}")
        key = key_of_group(pod)
        return SUCCESS if key is None else _waits_for(key, view)

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """The pods that the group lacks, or the field that says more than is understood."""
        if cycle.pod.spec.workload_ref is not None:
            return (Reason("field-unread", {"pod": cycle.pod.key, "field": WORKLOAD_REF}, "pod"),)
        key = key_of_group(cycle.pod)
        if key is None or _waits_for(key, view).is_success:
            return ()
        group, size = view.pod_group(key.pod_group), view.group_size(key)
        if group is None and key.is_pod_group:
            return (Reason("group-missing", {"group": str(key), "pod": cycle.pod.key}),)
        if group is not None and group.unread:
            return (Reason("field-unread", {"group": str(key), "field": group.unread[0]}, "group"),)
        if group is not None and key.is_pod_group and (unlike := disagreement(size, group, view.features)):
            return (Reason("group-unlike", {"group": str(key), "unlike": unlike}),)
        needed = declared_count(key, size, group)
        return (Reason("group-incomplete", {"group": str(key), "living": size.living, "needed": needed}),)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` for its own group; `concerned` has found out that the group is complete."""
        return Hint.QUEUE if change.new == key_of_group(pod) else Hint.SKIP

    def concerned(self, change: ClusterEvent, view: ClusterView) -> Iterable[PodUid] | None:
        """The pods of the group, once it is complete."""
        key = change.new
        return view.gang_members(key) if isinstance(key, GroupKey) and _waits_for(key, view).is_success else ()


def _waits_for(key: GroupKey, view: ClusterView) -> Status:
    """What a group lacks before its pods can be tried."""
    size = view.group_size(key)
    group = view.pod_group(key.pod_group)
    if group is None and key.is_pod_group:
        return Status.unresolvable(f"waiting for PodGroup {key}, which does not exist yet")
    if group is not None and group.unread:
        return Status.unresolvable(f"PodGroup {key} has the unknown field {group.unread[0]}")
    if group is not None and key.is_pod_group and (unlike := disagreement(size, group, view.features)):
        return Status.unresolvable(unlike)
    needed = declared_count(key, size, group)
    if needed is None or size.living >= needed:
        return SUCCESS
    return Status.unresolvable(waiting_text(needed - size.living, key, needed))
