"""PodTopologySpread: spread pods evenly over zones, hosts or other domains, strictly or as well as possible.

Extension points: PreFilter, Filter, Score, NormalizeScore, RequeueHints.
Reads: pod.spec.topologySpreadConstraints, Services and owners of pods, node labels, labels of pods.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/podtopologyspread (same verdicts, scores, reasons; the smallest count of all
domains is known, where upstream tracks two).

A node's fact is, for each constraint, the value of its label, of which the core counts the pods, or where no two nodes
share a value, the number of pods on the node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log, trunc
from typing import Final, NamedTuple, TypeAlias

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
from scheduler.framework.diagnosis import Limits
from scheduler.framework.pod_counts_view import PodCount
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod, TopologySpreadConstraint
from scheduler.plugins.normalize import NODE_SCORE_MAX
from scheduler.plugins.pod_questions import ask_ahead
from scheduler.plugins.pod_topology_spread.spread_causes import diagnose_spread
from scheduler.plugins.pod_topology_spread.spread_constraints import (
    HOSTNAME,
    SYSTEM_DEFAULTS,
    Constraint,
    Constraints,
    constraints_of,
)
from scheduler.why.reasons import Reason

NAME: Final = "PodTopologySpread"
REASON: Final = "node(s) didn't match pod topology spread constraints"
REASON_LABEL: Final = f"{REASON} (missing required label)"
SYSTEM: Final = "System"
CONSTRAINTS: Final = "topology spread constraints"
LIST: Final = "List"
_NO_DOMAIN: Final = 2**31 - 1  # upstream's smallest count where there is no domain

Place: TypeAlias = str | int | None
"""Where a node is for one constraint: the value of its label, the pods on it if values are unique, None without it."""


class Fact(NamedTuple):
    """Of a node: its places for the hard constraints, and for the soft ones; None: those ignore it."""

    hard: tuple[Place, ...]
    soft: tuple[Place, ...] | None


class SpreadSlot(Struct, frozen=True):
    """The pod's constraints.

    Attributes:
        is_self_matching: For each hard constraint whether the pod itself counts.
        are_unique: For each constraint, hard ones first, whether no two nodes share a value of its label.
    """

    constraints: Constraints
    is_self_matching: tuple[bool, ...]
    are_unique: tuple[bool, ...]


class MostPods(Struct, frozen=True):
    """For each hard constraint the counts, and the most pods a domain may have: as they are in this cycle."""

    hard: tuple[tuple[PodCount, int], ...]


@dataclass(frozen=True, slots=True)
class PodTopologySpread:
    """Reject nodes that would make the skew of a hard constraint too large; score by the counts of soft ones.

    Args:
        default_constraints: Those of pods without any, for `defaulting_type` List.
        defaulting_type: System: hosts and zones, soft.
    """

    weight: int = 2
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = SYSTEM
    name: str = NAME
    reads: frozenset[str] = frozenset({"Service", "ReplicationController", "ReplicaSet", "StatefulSet"})
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        (Resource.POD, Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION),
        (Resource.NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT),
    )

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        found = self._constraints(cycle.pod, view)
        if not found.hard and not found.soft:
            return PRE_FILTER_SKIPPED
        labels, counts = cycle.pod.metadata.labels or {}, view.pod_counts
        every = (*found.hard, *found.soft)
        unanswered = ask_ahead(cycle, counts, [one.question for one in every], what=CONSTRAINTS)
        if unanswered is not None:
            return unanswered
        are_unique = tuple(counts.is_unique(one.key) for one in every)
        slot = SpreadSlot(found, tuple(one.selector.matches(labels) for one in found.hard), are_unique)
        cycle.put(slot)
        cycle.put(_limits(slot, view))
        return PRE_FILTERED

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return cycle.get(SpreadSlot)

    def fact(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Hashable:
        slot = cycle.get(SpreadSlot)
        cycle.charge(len(slot.are_unique))
        hard, soft, labels = slot.constraints.hard, slot.constraints.soft, node.node.labels
        unique_hard, unique_soft = slot.are_unique[: len(hard)], slot.are_unique[len(hard) :]
        is_ignored = slot.constraints.requires_all and any(one.key not in labels for one in soft)
        return Fact(
            tuple(_place(one, node, view, is_unique=unique) for one, unique in zip(hard, unique_hard, strict=True)),
            None if is_ignored else tuple(_soft_places(soft, unique_soft, node, view)),
        )

    def filter_fact(self, cycle: Cycle, fact: Hashable, view: ClusterView) -> Status:
        assert isinstance(fact, Fact)
        for (count, most), place in zip(cycle.get(MostPods).hard, fact.hard, strict=True):
            if place is None:
                return Status.unresolvable(REASON_LABEL)
            if (place if isinstance(place, int) else count.of_value(place)) > most:
                return Status.unschedulable(REASON)
        return SUCCESS

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        slot, most = cycle.find(SpreadSlot), cycle.find(MostPods)
        if slot is None or most is None:
            return ()
        hard = [(one, *limit) for one, limit in zip(slot.constraints.hard, most.hard, strict=True)]
        return diagnose_spread(cycle.pod, nodes, hard, view, limits)

    def lookups(self, cycle: Cycle) -> int:
        constraints = cycle.get(SpreadSlot).constraints
        return max(len(constraints.hard), 2 * len(constraints.soft))  # a score is a little arithmetic, too

    def moment(self, cycle: Cycle, view: ClusterView) -> Hashable:
        return max((count.version for count, _ in cycle.get(MostPods).hard), default=0)

    def score_facts(self, cycle: Cycle, facts: Mapping[Hashable, int], view: ClusterView) -> Mapping[Hashable, int]:
        """The fewer pods of the soft constraints' domains, the better; rare domains weigh less than frequent ones."""
        soft = cycle.get(SpreadSlot).constraints.soft
        if not soft:
            return {}
        nodes = {fact: number for fact, number in facts.items() if isinstance(fact, Fact) and fact.soft is not None}
        weights = [_domain_weight(one, column, nodes) for column, one in enumerate(soft)]
        counts = [view.pod_counts.count(one.question) for one in soft]
        raw: dict[Fact, int] = {}
        for fact in nodes:
            score = 0.0
            for one, weight, count, place in zip(soft, weights, counts, fact.soft or (), strict=True):
                if place is not None:
                    pods = place if isinstance(place, int) else count.of_value(place)
                    score += pods * weight + (one.max_skew - 1)
            raw[fact] = _rounded(score)
        largest, smallest = max(raw.values(), default=0), min(raw.values(), default=0)
        if not largest:
            return dict.fromkeys(raw, NODE_SCORE_MAX)
        return {fact: NODE_SCORE_MAX * (largest + smallest - score) // largest for fact, score in raw.items()}

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when counts, domains or which nodes count may have changed in its favour."""
        hard = self._constraints(pod, view).hard
        is_helped = _node_helps if isinstance(change.old or change.new, Node) else _pod_helps
        return Hint.QUEUE if is_helped(pod, hard, change) else Hint.SKIP

    def _constraints(self, pod: Pod, view: ClusterView) -> Constraints:
        is_system = self.defaulting_type == SYSTEM
        defaults = SYSTEM_DEFAULTS if is_system else self.default_constraints
        return constraints_of(pod, defaults, are_system_defaults=is_system, view=view)


def _place(one: Constraint, node: NodeInfo, view: ClusterView, *, is_unique: bool) -> Place:
    value = node.node.labels.get(one.key)
    if value is None or not is_unique:
        return value
    if one.question.value_on(node.node) is None:
        return 0
    return view.pod_counts.count(one.question).on_node(node)


def _soft_places(
    soft: tuple[Constraint, ...], are_unique: tuple[bool, ...], node: NodeInfo, view: ClusterView
) -> Iterator[Place]:
    for one, is_unique in zip(soft, are_unique, strict=True):
        value = node.node.labels.get(one.key)
        if one.key == HOSTNAME:
            # Pods on the node itself, whether it counts or not.
            yield None if value is None else view.pod_counts.count(one.question).on_node(node)
        elif value == "":
            yield value  # counts together with nodes that lack the label
        else:
            yield _place(one, node, view, is_unique=is_unique)


def _limits(slot: SpreadSlot, view: ClusterView) -> MostPods:
    limits = []
    for one, self_matches in zip(slot.constraints.hard, slot.is_self_matching, strict=True):
        count = view.pod_counts.count(one.question)
        limits.append((count, one.max_skew + _smallest(one, count) - self_matches))
    return MostPods(tuple(limits))


def _smallest(one: Constraint, count: PodCount) -> int:
    """The global minimum, 0 where there are fewer domains than wanted."""
    if count.domains < one.min_domains:
        return 0
    smallest = count.minimum
    return _NO_DOMAIN if smallest is None else smallest


def _domain_weight(one: Constraint, column: int, nodes: Mapping[Fact, int]) -> float:
    """Grows with the number of domains that the nodes are in, so that pods of small domains weigh as much."""
    values: set[str] = set()
    number = 0
    for fact, of_fact in nodes.items():
        place = (fact.soft or ())[column]
        if one.key == HOSTNAME or isinstance(place, int):
            number += of_fact
        else:
            values.add(place or "")
    return log(number + len(values) + 2)


def _rounded(score: float) -> int:
    """Half away from zero, as Go rounds; `score` >= 0."""
    whole = trunc(score)
    return whole + 1 if score - whole >= 0.5 else whole


def _pod_helps(pod: Pod, hard: tuple[Constraint, ...], change: ClusterEvent) -> bool:
    old, new = change.old, change.new
    changed = [one for one in (old, new) if isinstance(one, Pod)]
    if any(one.uid != pod.uid and one.metadata.namespace != pod.metadata.namespace for one in changed):
        return False
    matched = [[one.selector.matches(state.metadata.labels or {}) for one in hard] for state in changed]
    if isinstance(old, Pod) and isinstance(new, Pod):
        has_new_tolerations = pod.uid == new.uid and old.spec.tolerations != new.spec.tolerations
        if has_new_tolerations and any(one.honors_taints for one in hard):
            return True
        return matched[0] != matched[1]
    return any(matched[0])


def _node_helps(pod: Pod, hard: tuple[Constraint, ...], change: ClusterEvent) -> bool:
    old, new = change.old, change.new
    had = isinstance(old, Node) and all(one.key in old.labels for one in hard)
    has = isinstance(new, Node) and all(one.key in new.labels for one in hard)
    if not isinstance(old, Node) or not isinstance(new, Node):
        return had or has
    if had != has:
        return True
    return has and (
        old.spec.taints != new.spec.taints or any(old.labels[one.key] != new.labels[one.key] for one in hard)
    )
