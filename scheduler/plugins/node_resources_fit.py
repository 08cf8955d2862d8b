"""NodeResourcesFit: pods go where their requests fit, and rather where more (or less) is left.

Extension points: PreFilter, Filter, PreScore, Score, RequeueHints.
Reads: pod requests, node allocatable and the sums of its pods, devices behind extended resources.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/noderesources (fit.go, resource_allocation.go: same verdicts and scores).

Reasons come in a fixed order (pods, cpu, memory, ephemeral-storage, then others by name), where upstream's order of
scalar resources is random. If a DeviceClass stands behind a resource that a node has none of, DynamicResources decides,
and the score counts the node's devices of that class. A deleted pod
wakes only pods that now fit on its node; upstream wakes all. Hints pass over ignored resources as the Filter does.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from allocator import DeviceClass
from scheduler.framework.api import PRE_FILTERED, Action, ClusterEvent, Hint, PreFilterResult, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod
from scheduler.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    PodAmounts,
    is_extended_resource,
    is_scalar_resource,
    is_served_resource,
    node_allocatable,
    pod_amounts,
)
from scheduler.plugins.dynamic_resources.extended_resources import class_by_resource
from scheduler.plugins.dynamic_resources.hints import touches_resources
from scheduler.plugins.dynamic_resources.resource_reasons import diagnose_unknown
from scheduler.plugins.room_reasons import diagnose_room
from scheduler.plugins.scoring_strategies import (
    LEAST_ALLOCATED_CPU_AND_MEMORY,
    ScoringStrategy,
    Usage,
    strategy_errors,
    strategy_score,
)
from scheduler.plugins.served_devices import served_devices
from scheduler.validation.field_errors import FieldError, invalid
from scheduler.validation.name_rules import check_text, label_key
from scheduler.why.reasons import Reason

_FEW: Final = 16
_NODES_BLAMED: Final = 128
_OF_NODES: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
"""Resources that take no time worth counting."""
NAME: Final = "NodeResourcesFit"


@dataclass(frozen=True, slots=True)
class NodeResourcesFit:
    """Reject nodes without room for the pod; score by how much of them is used.

    Args:
        ignored_resources: Extended resources that reject no node, because somebody else looks after them.
        ignored_resource_groups: The same for all extended resources of a domain (the part before the slash).
        scoring_strategy: Of which resources scores are made, and how.
    """

    weight: int = 1
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = LEAST_ALLOCATED_CPU_AND_MEMORY
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
        (Resource.POD, Action.UPDATE_POD_SCALE_DOWN),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
        (Resource.CLASS, Action.ADD | Action.UPDATE),
    )

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        amounts = pod_amounts(cycle.pod)
        if amounts.problems:
            return PreFilterResult(Status.unresolvable(*amounts.problems))
        cycle.put(amounts)
        return PRE_FILTERED

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        amounts = cycle.get(PodAmounts)
        asked = _scored(cycle, view)
        return amounts.needed, tuple([asked.get(one.name, 0) for one in self.scoring_strategy.resources])

    def knows_likeness(self, cycle: Cycle, view: ClusterView) -> bool:
        """Unless it asks for what devices may serve."""
        return _OF_NODES.issuperset(name for name, _ in cycle.get(PodAmounts).needed)

    def likeness(self, node: NodeInfo, view: ClusterView) -> Hashable | None:
        amounts = (node.allocatable, node.requested, node.scoring_requested)
        return len(node.pods), tuple([tuple(sorted(one.items())) for one in amounts])

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        allocatable, requested = node.allocatable, node.requested
        reasons: list[str] = []
        is_unresolvable = False
        if len(node.pods) + 1 > allocatable.get(PODS, 0):
            reasons.append("Too many pods")
        amounts = cycle.get(PodAmounts)
        if len(amounts.needed) > _FEW:
            cycle.charge(2 * len(amounts.needed))
        for name, amount in self._looked_at(amounts):
            total = allocatable.get(name, 0)
            if amount > total - requested.get(name, 0):
                if not total and is_served_by_devices(name, view):
                    continue
                reasons.append(f"Insufficient {name}")
                # The pod would not fit if this node were empty, so preemption must not try.
                is_unresolvable = is_unresolvable or amount > total
        if not reasons:
            return SUCCESS
        return Status.unresolvable(*reasons) if is_unresolvable else Status.unschedulable(*reasons)

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView) -> Status:
        return SUCCESS

    def score(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> int:
        """How full the node is with the pod, by the strategy; 0..100."""
        asked, allocatable, requested = _scored(cycle, view), node.allocatable, node.scoring_requested
        usages: list[Usage] = []
        for resource in self.scoring_strategy.resources:
            name = resource.name
            amount, total, used = asked.get(name, 0), allocatable.get(name, 0), requested.get(name, 0)
            if amount and not total:
                total, used = served_devices(name, node, view)
            if total and (amount or not is_scalar_resource(name)) and name != PODS:
                usages.append((used + amount, total, resource.weight))
        return strategy_score(self.scoring_strategy, usages)

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """Of resources that devices serve somewhere nothing: there DynamicResources decides."""
        asked = self._looked_at(cycle.get(PodAmounts)) if nodes else ()
        looked_at = nodes[:: max(1, len(nodes) // _NODES_BLAMED)][:_NODES_BLAMED]
        cycle.charge(len(looked_at) * (4 + len(asked)))
        needed = {name: amount for name, amount in asked if not is_served_by_devices(name, view)}
        unknown = diagnose_unknown(cycle, [name for name in needed if is_served_resource(name)], view) if nodes else ()
        return unknown or diagnose_room(cycle.pod, looked_at, needed, limits)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when it fits on a node that is new, has grown, or that a pod has left or shrunk on.

        Also when a class now stands behind an extended resource that the pod asks for.
        """
        match change.new if change.new is not None else change.old:
            case DeviceClass():
                return Hint.QUEUE if touches_resources(pod, change) else Hint.SKIP
            case Node() as node:
                return Hint.QUEUE if self._is_helped_by_node(pod, node, change.old, view) else Hint.SKIP
            case Pod() as changed if changed.uid == pod.uid:
                return Hint.QUEUE
            case Pod() as changed:
                return Hint.QUEUE if self._has_room_after(change, changed, pod, view) else Hint.SKIP
            case _:
                return Hint.SKIP

    def _looked_at(self, amounts: PodAmounts) -> tuple[tuple[str, int], ...]:
        if not self.ignored_resources and not self.ignored_resource_groups:
            return amounts.needed
        return tuple(
            (name, amount)
            for name, amount in amounts.needed
            if not is_extended_resource(name)
            or (name not in self.ignored_resources and name.partition("/")[0] not in self.ignored_resource_groups)
        )

    def _is_helped_by_node(self, pod: Pod, node: Node, old: object | None, view: ClusterView) -> bool:
        now = node_allocatable(node)
        asked = self._looked_at(pod_amounts(pod))
        needed = [(name, amount) for name, amount in asked if now.get(name) or not is_served_by_devices(name, view)]
        before = node_allocatable(old) if isinstance(old, Node) else {}
        if now.get(PODS, 0) < 1 or any(amount > now.get(name, 0) for name, amount in needed):
            # Who waits there for pods to go can make room elsewhere now. Amounts of device plugins come and go.
            lost = any(before.get(name, 0) >= amount > now.get(name, 0) for name, amount in needed if name in _OF_NODES)
            return lost and pod.status.nominated_node_name == node.metadata.name
        if not isinstance(old, Node):
            return True
        if any(now.get(name, 0) > before.get(name, 0) for name in (PODS, *(name for name, _ in needed))):
            return True
        # What the node's device plugin had before, devices may serve now.
        return any(before.get(name) and not now.get(name) and is_served_by_devices(name, view) for name, _ in asked)

    def _has_room_after(self, change: ClusterEvent, changed: Pod, pod: Pod, view: ClusterView) -> bool:
        """Whether `pod` fits on the node that `changed` left or shrank on. Yes where that is not known."""
        if change.resource is not Resource.ASSIGNED_POD:
            return False
        node = view.node_infos.get(changed.node_name) if changed.node_name is not None else None
        if node is None or node.pods.get(changed.uid) is not change.new:
            return True
        return len(node.pods) < node.allocatable.get(PODS, 0) and all(
            amount <= node.allocatable.get(name, 0) - node.requested.get(name, 0)
            for name, amount in self._looked_at(pod_amounts(pod))
            if node.allocatable.get(name) or not is_served_by_devices(name, view)
        )


def _scored(cycle: Cycle, view: ClusterView) -> Mapping[str, int]:
    """What the pod counts as for scores: since 1.38 with its pod-level requests."""
    amounts = cycle.get(PodAmounts)
    return amounts.scoring_itself_138 if view.features.has_138_semantics else amounts.scoring_itself


def is_served_by_devices(resource: str, view: ClusterView) -> bool:
    """Whether devices of a class serve `resource` on nodes whose kubelets report none; it is not counted there."""
    return (
        view.features.extended_resource
        and is_served_resource(resource)
        and resource in class_by_resource(view.inventory)
    )


def argument_errors(plugin: NodeResourcesFit) -> list[FieldError]:
    """What is wrong with the plugin's arguments, by paths within them, in upstream's words."""
    errors: list[FieldError] = []
    for index, resource in enumerate(plugin.ignored_resources):
        errors += check_text(label_key, resource, f"ignoredResources[{index}]")
    for index, group in enumerate(plugin.ignored_resource_groups):
        path = f"ignoredResourceGroups[{index}]"
        if "/" in group:
            errors.append(invalid(path, group, "resource group name can't contain '/'"))
        errors += check_text(label_key, group, path)
    return errors + strategy_errors("scoringStrategy", plugin.scoring_strategy)
