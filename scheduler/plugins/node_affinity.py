"""NodeAffinity: nodeSelector, required node affinity, and preference for nodes of preferred affinity.

Extension points: PreFilter, Filter, PreScore, Score, NormalizeScore, RequeueHints.
Reads: pod.spec.nodeSelector, pod.spec.affinity.nodeAffinity, node labels and name.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/nodeaffinity (same verdicts, scores and reason texts; no added affinity yet).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.framework.api import (
    PRE_FILTER_SKIPPED,
    Action,
    ClusterEvent,
    ClusterView,
    Hint,
    PreFilterResult,
    Resource,
)
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import SKIP, SUCCESS, Status
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.node_selectors import (
    PreferredTerms,
    RequiredNodeAffinity,
    compile_preferred_terms,
    required_node_affinity,
    required_node_names,
)
from scheduler.model.objects import Node, NodeAffinityTerms, Pod
from scheduler.plugins.normalize import normalize

NAME: Final = "NodeAffinity"
REASON: Final = "node(s) didn't match Pod's node affinity/selector"
REASON_CONFLICT: Final = "pod affinity terms conflict"


@dataclass(frozen=True, slots=True)
class NodeAffinitySlot:
    """The pod's compiled affinity."""

    required: RequiredNodeAffinity
    preferred: PreferredTerms


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """Reject nodes that the pod's selector or required affinity does not match; score by preferred terms."""

    weight: int = 2
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = ((Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),)

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        terms = _terms(cycle.pod)
        required = terms.required if terms is not None else None
        preferred = terms.preferred if terms is not None else None
        if required is None and not preferred and not cycle.pod.spec.node_selector:
            return PRE_FILTER_SKIPPED
        cycle.put(NodeAffinitySlot(required_node_affinity(cycle.pod), compile_preferred_terms(preferred or ())))
        node_names = required_node_names(required) if required is not None else None
        if node_names is not None and not node_names:
            return PreFilterResult(Status.unresolvable(REASON_CONFLICT))
        return PreFilterResult(SUCCESS, node_names)

    def shape(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        terms = _terms(cycle.pod)
        return (
            tuple(sorted((cycle.pod.spec.node_selector or {}).items())),
            terms.required if terms is not None else None,
            terms.preferred if terms is not None else None,
        )

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        # A term that cannot be read matches nothing and is no error here: upstream ignores it too, for old objects.
        return SUCCESS if cycle.get(NodeAffinitySlot).required.matches(node.node) else Status.unresolvable(REASON)

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView) -> Status:
        slot = cycle.find(NodeAffinitySlot)
        if slot is None or not slot.preferred.weighted:
            return SKIP
        if slot.preferred.problems:
            return Status.error(*slot.preferred.problems)
        return SUCCESS

    def score(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> int:
        """The sum of the weights (1..100 each) of the preferred terms that match."""
        return cycle.get(NodeAffinitySlot).preferred.score(node.node)

    def normalize_score(self, cycle: Cycle, scores: dict[NodeName, int]) -> None:
        normalize(scores)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a node appeared that matches, or a node's labels came to match."""
        if not isinstance(change.new, Node):
            return Hint.SKIP
        required = required_node_affinity(pod)
        was_matched = isinstance(change.old, Node) and required.matches(change.old)
        return Hint.QUEUE if not was_matched and required.matches(change.new) else Hint.SKIP


def _terms(pod: Pod) -> NodeAffinityTerms | None:
    return pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
