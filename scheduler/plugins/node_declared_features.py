"""NodeDeclaredFeatures: pods that need a feature of the kubelet go where it is declared.

Extension points: PreFilter, Filter, RequeueHints.
Reads: restart rules, mounts and host settings of the pod, node.status.declaredFeatures.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/nodedeclaredfeatures (same verdicts, same reason text). A node wakes a pod
when it has come to have all that the pod needs; upstream wakes for any change of its features. These fields of a pod
cannot be changed, so no event of the pod is waited for.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
from scheduler.model.declared_features import required_features
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod
from scheduler.why.reasons import Reason

NAME: Final = "NodeDeclaredFeatures"
REASON: Final = "node(s) didn't match Pod's required features"


class NodeDeclaredFeaturesSlot(Struct, frozen=True):
    """The features the pod needs, at least one."""

    required: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeDeclaredFeatures:
    """Reject nodes that do not declare each feature the pod needs."""

    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = ((Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE),)

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        required = required_features(cycle.pod)
        if not required:
            return PRE_FILTER_SKIPPED
        cycle.put(NodeDeclaredFeaturesSlot(required))
        return PRE_FILTERED

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return cycle.get(NodeDeclaredFeaturesSlot).required

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        required = cycle.get(NodeDeclaredFeaturesSlot).required
        return SUCCESS if _has(node.node, required) else Status.unresolvable(REASON)

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """What the node lacks that lacks fewest."""
        slot, near = cycle.find(NodeDeclaredFeaturesSlot), likeliest(nodes, view, limits)
        if slot is None or not near:
            return ()
        lacking = {one.name: [each for each in slot.required if not _has(one.node, (each,))] for one in near}
        name = min(lacking, key=lambda one: len(lacking[one]))
        fields = {"node": name, "features": tuple(lacking[name]), "pod": cycle.pod.key}
        return (Reason("node-feature-missing", fields),)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a node came that has what it needs, or came to have it."""
        required = required_features(pod)
        had = isinstance(change.old, Node) and _has(change.old, required)
        has = isinstance(change.new, Node) and _has(change.new, required)
        return Hint.QUEUE if has and not had else Hint.SKIP


def _has(node: Node, required: tuple[str, ...]) -> bool:
    declared = node.status.declared_features or ()
    return all(feature in declared for feature in required)
