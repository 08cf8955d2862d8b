"""TaintToleration: keep pods off nodes whose taints they do not tolerate, and prefer nodes without soft taints.

Extension points: Filter, PreScore, Score, NormalizeScore, RequeueHints.
Reads: node.spec.taints, pod.spec.tolerations.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/tainttoleration (same verdicts, scores and reason text).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod, Taint
from scheduler.model.taints import FEW_TOLERATIONS, PREFER_NO_SCHEDULE, Tolerance, find_untolerated, is_tolerated
from scheduler.plugins.normalize import normalize
from scheduler.plugins.taint_reasons import diagnose_taints
from scheduler.why.reasons import Reason

NAME: Final = "TaintToleration"
REASON: Final = "node(s) had untolerated taint(s)"


@dataclass(frozen=True, slots=True)
class TaintToleration:
    """Reject nodes with an untolerated NoSchedule or NoExecute taint; score by untolerated PreferNoSchedule taints."""

    weight: int = 3
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
        (Resource.POD, Action.UPDATE_POD_TOLERATION),
    )

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return cycle.pod.spec.tolerations or ()

    def knows_likeness(self, cycle: Cycle, view: ClusterView) -> bool:
        return True

    def likeness(self, node: NodeInfo, view: ClusterView) -> Hashable | None:
        return node.node.spec.taints or ()

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        if not node.node.spec.taints:
            return SUCCESS
        untolerated = find_untolerated(node.node, cycle.pod, _tolerance(cycle))
        return SUCCESS if untolerated is None else Status.unresolvable(REASON)

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView) -> Status:
        return SUCCESS  # upstream's never skips: without soft taints every node has 100, which its totals contain

    def score(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> int:
        """The number of PreferNoSchedule taints the pod does not tolerate."""
        taints = node.node.spec.taints
        if not taints:
            return 0
        tolerance = _tolerance(cycle)
        if tolerance is not None:
            return sum(taint.effect == PREFER_NO_SCHEDULE and not tolerance.covers(taint) for taint in taints)
        tolerations = cycle.pod.spec.tolerations or ()
        return sum(taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations) for taint in taints)

    def normalize_score(self, cycle: Cycle, scores: dict[NodeName, int]) -> None:
        normalize(scores, reverse=True)

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        tolerance, own = _tolerance(cycle), cycle.pod.spec.tolerations or ()

        cycle.charge(2 * len(own))

        def tolerates(taint: Taint) -> bool:
            return tolerance.covers(taint) if tolerance is not None else is_tolerated(taint, own)

        return diagnose_taints(cycle, nodes, view, limits, tolerates=tolerates)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a node's taints became tolerable to it, or its own tolerations changed."""
        match change.new:
            case Node() as node:
                was_tolerated = isinstance(change.old, Node) and find_untolerated(change.old, pod) is None
                return Hint.QUEUE if not was_tolerated and find_untolerated(node, pod) is None else Hint.SKIP
            case Pod() as changed:
                return Hint.QUEUE if changed.uid == pod.uid else Hint.SKIP
            case _:
                return Hint.SKIP


def _tolerance(cycle: Cycle) -> Tolerance | None:
    """That of the pod, where it has many tolerations."""
    tolerations = cycle.pod.spec.tolerations
    if not tolerations or len(tolerations) <= FEW_TOLERATIONS:
        return None
    known = cycle.find(Tolerance)
    if known is None:
        known = Tolerance(tolerations)
        cycle.put(known)
    return known
