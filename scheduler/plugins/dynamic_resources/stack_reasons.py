"""Nodes where a device plugin and a DRA driver serve the same devices: what each leaves the other (`two_stacks`).

Not here: the verdicts (`node_search`, `node_resources_fit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from allocator import AllocationError, Funnel, PausedError, Stage
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.steps import within_steps
from scheduler.framework.two_stacks import TwoStacks, resources_on, stacks_on
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node
from scheduler.model.resources import counted_amounts
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of, listed
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import Pods


def diagnose_left_alone(found: NearNode, funnel: Funnel) -> Reason | None:
    """Devices that the node's device plugin may have given."""
    taken = funnel.step(Stage.IN_USE).removed
    for one in _stacks(found.node, found.view, found.cycle):
        if left := one.left_alone & taken & ~one.used:
            fields = {
                **found.facts(funnel, Stage.IN_USE),
                "resource": one.resource,
                "total": one.total,
                "held": one.held,
                "devices": listed(ids_of(funnel.devices(left))),
            }
            fixes = (_without_plugin(found, one), *found.fewer(funnel.slot, funnel.left))
            return Reason("two-stacks", fields, "leave" if one.mode == "leave" else "", fixes)
    return None


def diagnose_taken(
    cycle: Cycle, nodes: Sequence[NodeInfo], needed: Mapping[str, int], view: ClusterView
) -> Sequence[Reason]:
    """What a plugin serves on the first node that has enough, but for what claims have of it."""
    for node in nodes:
        for one in _stacks(node, view, cycle):
            asked, free = needed.get(one.resource, 0), one.total - node.requested.get(one.resource, 0)
            if one.room < asked <= free:
                fields = {"node": node.name, "resource": one.resource, "total": one.total, "pod": cycle.pod.key}
                fields |= {"used": one.used.bit_count(), "room": max(0, one.room) or "none", "asked": asked}
                return (Reason("two-stacks", fields, "pods"),)
    return ()


def _stacks(node: NodeInfo, view: ClusterView, cycle: Cycle) -> Iterator[TwoStacks]:
    """None where that cannot be said within the cycle's steps."""
    if resources_on(node, view):
        cycle.charge(len(node.pods))
        try:
            with within_steps(cycle, view):
                yield from stacks_on(node, view)
        except (AllocationError, PausedError):
            return


def _without_plugin(found: NearNode, one: TwoStacks) -> Fix:
    node = found.node
    served = {name: amount for name, amount in (node.node.status.allocatable or {}).items() if name != one.resource}
    plain: Node = structs.replace(node.node, status=structs.replace(node.node.status, allocatable=served))
    pods = [pod for pod in node.pods.values() if counted_amounts(pod).requests.get(one.resource) and one.held]
    fields = {"resource": one.resource, "node": node.name, "pods": Pods.of(pods) if pods else ""}
    return Fix("plugin-removed", fields, found.on, node=plain, removed=tuple([pod.uid for pod in pods]))
