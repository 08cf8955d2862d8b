"""NodeAffinity: nodeSelector, required node affinity, and preference for nodes of preferred affinity.

Extension points: PreFilter, Filter, PreScore, Score, NormalizeScore, RequeueHints.
Reads: pod.spec.nodeSelector, pod.spec.affinity.nodeAffinity, node labels and name.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/nodeaffinity (same verdicts, scores and reason texts). A node that comes to
match only the added affinity wakes pods too, where upstream leaves them waiting.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from scheduler.framework.api import PRE_FILTER_SKIPPED, Action, ClusterEvent, Hint, PreFilterResult, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, Pin
from scheduler.framework.status import SKIP, SUCCESS, Status
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.node_selectors import (
    PreferredTerms,
    RequiredNodeAffinity,
    compile_preferred_terms,
    node_affinity_of,
    required_node_affinity,
    required_node_names,
    required_terms,
)
from scheduler.model.objects import Node, NodeAffinityTerms, Pod
from scheduler.plugins.label_reasons import diagnose_labels
from scheduler.plugins.normalize import normalize
from scheduler.validation.field_errors import FieldError
from scheduler.why.reasons import Reason

NAME: Final = "NodeAffinity"
REASON: Final = "node(s) didn't match Pod's node affinity/selector"
REASON_ADDED: Final = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT: Final = "pod affinity terms conflict"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_TERMS: Final = NodeAffinityTerms()


class NodeAffinitySlot(Struct, frozen=True):
    """What all pods require and what this one does, compiled; and its preferences with those of all."""

    added: RequiredNodeAffinity
    required: RequiredNodeAffinity
    preferred: PreferredTerms


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """Reject nodes that the pod's selector or required affinity does not match; score by preferred terms.

    Args:
        added_affinity: What all pods require and prefer besides their own; without `argument_errors`.
    """

    weight: int = 2
    added_affinity: NodeAffinityTerms | None = None
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = ((Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),)

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        own, added = node_affinity_of(cycle.pod), self.added_affinity or _NO_TERMS
        if (
            own.required is None
            and not own.preferred
            and not cycle.pod.spec.node_selector
            and self.added_affinity is None
        ):
            return PRE_FILTER_SKIPPED
        preferred = compile_preferred_terms(own.preferred or ())
        if added.preferred:
            preferred = preferred.after(compile_preferred_terms(added.preferred))
        cycle.put(NodeAffinitySlot(required_terms(added.required), required_node_affinity(cycle.pod), preferred))
        node_names = required_node_names(own.required) if own.required is not None else None
        if node_names is not None and not node_names:
            return PreFilterResult(Status.unresolvable(REASON_CONFLICT))
        return PreFilterResult(SUCCESS, node_names)

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        selector, packed = tuple(sorted((cycle.pod.spec.node_selector or {}).items())), cycle.pod.packed_affinity
        if packed is not None:
            return selector, packed.nodes  # a signature is kept while pods of it wait, and so is their text
        terms = node_affinity_of(cycle.pod)
        return selector, terms.required, terms.preferred

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        slot = cycle.get(NodeAffinitySlot)
        cycle.charge(slot.required.size + slot.preferred.size)  # nodes that pass are scored in the same turn
        if not slot.added.matches(node.node):
            return Status.unresolvable(REASON_ADDED)
        # A term that cannot be read matches nothing and is no error here: upstream ignores it too, for old objects.
        return SUCCESS if slot.required.matches(node.node) else Status.unresolvable(REASON)

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """Which of the labels that the pod asks for is on no node, or not on the nearest."""
        slot = cycle.find(NodeAffinitySlot)
        refused = nodes[0].node if nodes else None
        if slot is not None and refused is not None and not slot.added.matches(refused):
            return (Reason("node-affinity-unmet", {"node": refused.name}, "added"),)
        return diagnose_labels(cycle, nodes, view, limits)

    def pin(self, cycle: Cycle) -> Pin | None:
        """The pod's own choice of nodes by name."""
        slot = cycle.find(NodeAffinitySlot)
        hosts = slot.required.hosts if slot is not None else None
        return Pin("node-affinity-unmet", None, hosts) if hosts else None

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView) -> Status:
        slot = cycle.find(NodeAffinitySlot)
        if slot is None or not slot.preferred.weighted:
            return SKIP
        if slot.preferred.problems:
            problems = slot.preferred.problems
            return Status.error(problems[0] if len(problems) == 1 else f"[{', '.join(dict.fromkeys(problems))}]")
        return SUCCESS

    def score(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> int:
        """The sum of the weights (1..100 each) of the preferred terms that match."""
        return cycle.get(NodeAffinitySlot).preferred.score(node.node)

    def normalize_score(self, cycle: Cycle, scores: dict[NodeName, int]) -> None:
        normalize(scores)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a node appeared that matches, or a node's labels came to match."""
        added = required_terms((self.added_affinity or _NO_TERMS).required)
        required = required_node_affinity(pod)

        def matches(node: object) -> bool:
            return isinstance(node, Node) and added.matches(node) and required.matches(node)

        return Hint.QUEUE if matches(change.new) and not matches(change.old) else Hint.SKIP


def argument_errors(plugin: NodeAffinity) -> list[FieldError]:
    """What is wrong with the plugin's arguments, by paths within them, in upstream's words."""
    added = plugin.added_affinity
    if added is None:
        return []
    required = [(f"{_REQUIRED}.nodeSelectorTerms", one) for one in required_terms(added.required).problems]
    preferred = [(_PREFERRED, one) for one in compile_preferred_terms(added.preferred or ()).problems]
    return [_field_error(f"addedAffinity.{path}{problem}") for path, problem in required + preferred]


def _field_error(problem: str) -> FieldError:
    path, _, body = problem.partition(": ")
    return FieldError("FieldValueNotSupported" if body.startswith("Unsupported") else "FieldValueInvalid", path, body)
