"""NodePorts: keep pods off nodes on which one of their host ports is in use.

Extension points: PreFilter, Filter, RequeueHints.
Reads: ports of the pod's containers and sidecars, those in use on the node.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/nodeports (same verdicts, same reason text).
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
from scheduler.framework.blame import Blame, Change, Limits, likeliest, pod_text
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.host_ports import HostPort, host_ports, is_any_used, used_ports
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod

NAME: Final = "NodePorts"
REASON: Final = "node(s) didn't have free ports for the requested pod ports"
_USERS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class NodePortsSlot:
    """The host ports the pod asks for, at least one."""

    wanted: tuple[HostPort, ...]


@dataclass(frozen=True, slots=True)
class NodePorts:
    """Reject nodes on which a host port of the pod is taken."""

    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.ASSIGNED_POD, Action.DELETE),
        (Resource.NODE, Action.ADD),
    )

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        wanted = host_ports(cycle.pod)
        if not wanted:
            return PRE_FILTER_SKIPPED
        cycle.put(NodePortsSlot(wanted))
        return PRE_FILTERED

    def shape(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return cycle.get(NodePortsSlot).wanted

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        taken = is_any_used(cycle.get(NodePortsSlot).wanted, node.used_ports)
        return Status.unschedulable(REASON) if taken else SUCCESS

    def blame(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Blame]:
        """Who has the ports, on the node with fewest such pods."""
        pod, wanted = cycle.pod, cycle.get(NodePortsSlot).wanted
        near = [(_users_of(wanted, node), node) for node in likeliest(nodes, view, limits)]
        if not near:
            return ()
        users, node = min(near, key=lambda one: (len(one[0]), one[1].name))
        who = ", ".join(pod_text(one, to=pod, limits=limits) for one in users[:_USERS_MAX])
        taken = [one for one in wanted if is_any_used([one], node.used_ports)]
        ports = ", ".join(f"{one.port}/{one.protocol}" for one in taken)
        cause = f"{who} {'has' if len(users) == 1 else 'have'} the host port {ports} of node {node.name}"
        end = Change(6, f"end {who} on node {node.name}", (node.name,), removed=tuple([one.uid for one in users]))
        return (Blame("port-taken", cause, self.name, (end,) if len(users) <= _USERS_MAX else ()),)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a node came, or a pod left that had one of its ports."""
        match change.old if change.new is None else change.new:
            case Node():
                return Hint.QUEUE
            case Pod() as left if is_any_used(host_ports(pod), used_ports(left)):
                return Hint.QUEUE
            case _:
                return Hint.SKIP


def _users_of(wanted: Sequence[HostPort], node: NodeInfo) -> list[Pod]:
    found = [one for one in node.pods.values() if is_any_used(wanted, used_ports(one))]
    return sorted(found, key=lambda one: (one.spec.priority or 0, str(one.key)))
