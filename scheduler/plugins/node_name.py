"""NodeName: a pod that names its node goes there or nowhere.

Extension points: PreFilter, Filter, RequeueHints.
Reads: pod.spec.nodeName, node.metadata.name.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/nodename (same verdicts and reason text; the hint is ours, and up to 1.36
PreFilter). Since 1.37 PreFilter leaves the named node only: the others are refused there, in the runner's words.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

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
from scheduler.framework.diagnosis import Limits
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod
from scheduler.why.reasons import Reason

NAME: Final = "NodeName"
REASON: Final = "node(s) didn't match the requested node name"


@dataclass(frozen=True, slots=True)
class NodeNamePlugin:
    """Reject every node but the one the pod names."""

    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = ((Resource.NODE, Action.ADD),)

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        wanted = cycle.pod.spec.node_name
        if not wanted:
            return PRE_FILTER_SKIPPED
        if not view.features.has_137_semantics:
            return PRE_FILTERED
        return PreFilterResult(SUCCESS, frozenset({NodeName(wanted)}))

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return cycle.pod.spec.node_name

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        wanted = cycle.pod.spec.node_name
        return SUCCESS if not wanted or wanted == node.name else Status.unresolvable(REASON)

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """Nothing where the node exists: what keeps the pod from there is said by who refuses it there."""
        wanted = cycle.pod.spec.node_name
        if wanted in view.node_infos:
            return ()
        return (Reason("node-name-unmet", {"node": wanted, "pod": cycle.pod.key}),)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when its node appears."""
        node = change.new
        return Hint.QUEUE if isinstance(node, Node) and node.name == pod.spec.node_name else Hint.SKIP
