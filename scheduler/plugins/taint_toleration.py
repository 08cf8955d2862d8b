"""TaintToleration: keep pods off nodes whose taints they do not tolerate, and prefer nodes without soft taints.

Extension points: Filter, PreScore, Score, NormalizeScore, RequeueHints.
Reads: node.spec.taints, pod.spec.tolerations.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/tainttoleration (same verdicts, scores and reason text).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.blame import Blame, Change, Limits, likeliest, named, taint_text, toleration_text
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod, Taint, Toleration
from scheduler.model.taints import FEW_TOLERATIONS, PREFER_NO_SCHEDULE, Tolerance, find_untolerated, is_tolerated
from scheduler.plugins.normalize import normalize

NAME: Final = "TaintToleration"
REASON: Final = "node(s) had untolerated taint(s)"
_NODES_BLAMED: Final = 64


@dataclass(frozen=True, slots=True)
class TaintToleration:
    """Reject nodes with an untolerated NoSchedule or NoExecute taint; score by untolerated PreferNoSchedule taints."""

    weight: int = 3
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
        (Resource.POD, Action.UPDATE_POD_TOLERATION),
    )

    def shape(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
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

    def blame(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Blame]:
        """The taints of the first nodes; a toleration for each is asked about on nodes that have it."""
        pod, by_taint = cycle.pod, dict[Taint, list[NodeInfo]]()
        for one in nodes[:_NODES_BLAMED]:
            if taint := find_untolerated(one.node, pod, _tolerance(cycle)):
                by_taint.setdefault(taint, []).append(one)
        causes = {taint: _has_taint(taint, having) for taint, having in by_taint.items()}
        changes = [
            Change(
                2,
                f"add the toleration {toleration_text(taint)} to pod {pod.key}, or remove the taint",
                tuple([one.name for one in likeliest(having, view, limits)]),
                cause=f"{causes[taint]}, which pod {pod.key} does not tolerate",
                pod=_tolerating(pod, taint),
            )
            for taint, having in by_taint.items()
        ]
        cause = f"{'; '.join(causes.values())}, which pod {pod.key} does not tolerate"
        return (Blame("node-tainted", cause, self.name, tuple(changes)),) if causes else ()

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


def _has_taint(taint: Taint, nodes: Sequence[NodeInfo]) -> str:
    return f"{named(nodes, 'has', 'have')} the taint {taint_text(taint)}"


def _tolerating(pod: Pod, taint: Taint) -> Pod:
    toleration = Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect)
    tolerations = (*(pod.spec.tolerations or ()), toleration)
    return structs.replace(pod, spec=structs.replace(pod.spec, tolerations=tolerations))


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
