"""NodePorts: keep pods off nodes on which one of their host ports is in use.

Extension points: PreFilter, Filter, RequeueHints.
Reads: ports of the pod's containers and sidecars, those in use on the node.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/nodeports (same verdicts, same reason text).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from msgspec import Struct, structs

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
from scheduler.framework.diagnosis import Limits, likeliest, with_spec
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.host_ports import HostPort, host_ports, is_any_used, used_ports
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import ContainerPort, Node, Pod
from scheduler.model.owners import edited_object, is_replica
from scheduler.plugins.ended_reasons import ending, importance
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import Pods

NAME: Final = "NodePorts"
REASON: Final = "node(s) didn't have free ports for the requested pod ports"
_USERS_MAX: Final = 4
_PORTS_MAX: Final = 16
_LOOKUPS_A_PORT: Final = 2
_LOOKUPS_A_POD: Final = 8
_PORTS_TRIED: Final = 64
_PORT_MAX: Final = 65_535


class NodePortsSlot(Struct, frozen=True):
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

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return cycle.get(NodePortsSlot).wanted

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        taken = is_any_used(cycle.get(NodePortsSlot).wanted, node.used_ports)
        return Status.unschedulable(REASON) if taken else SUCCESS

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """Who has the ports, on the node with fewest such pods; another port, or that these pods end."""
        pod, wanted = cycle.pod, cycle.get(NodePortsSlot).wanted
        found = [
            (node, taken := _taken(cycle, wanted, node), _users_of(cycle, taken, node))
            for node in likeliest(nodes, view, limits)
        ]
        cycle.charge(_LOOKUPS_A_POD * sum(len(one[2]) for one in found))
        near = sorted([one for one in found if one[2]], key=lambda one: (_is_replicas(pod, one[2]), len(one[2])))
        if not near:
            return ()
        node, taken, users = near[0]
        fields = {
            "pods": Pods.of(users),
            "ports": tuple([f"{one.port}/{one.protocol}" for one in taken]),
            "node": node.name,
            "pod": pod.key,
            "edited": edited_object(pod),
        }
        fixes = tuple([fix for one in near for fix in _fixes(pod, *one)])
        return (Reason("port-taken", fields, "replicas" if _is_replicas(pod, users) else "", fixes),)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a node came, or a pod left that had one of its ports."""
        match change.old if change.new is None else change.new:
            case Node():
                return Hint.QUEUE
            case Pod() as left if is_any_used(host_ports(pod), used_ports(left)):
                return Hint.QUEUE
            case _:
                return Hint.SKIP


def _taken(cycle: Cycle, wanted: Sequence[HostPort], node: NodeInfo) -> list[HostPort]:
    """The first of the wanted ports that are taken."""
    cycle.charge(_LOOKUPS_A_PORT * len(wanted))
    return list(islice((one for one in wanted if is_any_used([one], node.used_ports)), _PORTS_MAX))


def _users_of(cycle: Cycle, taken: Sequence[HostPort], node: NodeInfo) -> list[Pod]:
    cycle.charge(_LOOKUPS_A_POD * len(node.pods))
    return sorted([one for one in node.pods.values() if is_any_used(taken, used_ports(one))], key=importance)


def _fixes(pod: Pod, node: NodeInfo, taken: Sequence[HostPort], users: Sequence[Pod]) -> Iterator[Fix]:
    if _is_replicas(pod, users):  # they would have the other port, too
        without = pod
        for one in taken:
            without = _with_port(without, one, 0)
        ports = tuple([one.port for one in taken])
        yield Fix("ports-dropped", {"ports": ports}, (node.name,), pod=without)
    elif len(taken) == 1:
        (old,) = taken
        numbers = range(old.port + 1, min(old.port + _PORTS_TRIED, _PORT_MAX) + 1)
        free = next((one for one in numbers if not is_any_used([old._replace(port=one)], node.used_ports)), None)
        if free is not None:
            fields = {"free": free, "port": old.port}
            yield Fix("port-changed", fields, (node.name,), pod=_with_port(pod, old, free))
    if len(users) <= _USERS_MAX:
        yield ending(pod, users, [node.name])


def _is_replicas(pod: Pod, users: Sequence[Pod]) -> bool:
    """Whether a pod that is made as this one has the ports."""
    return any(is_replica(pod, one) for one in users)


def _with_port(pod: Pod, old: HostPort, port: int) -> Pod:
    """The pod with another host port, or with 0 none, where it asked for `old`."""
    lists = {}
    for field in ("containers", "init_containers"):
        containers = getattr(pod.spec, field) or ()
        lists[field] = tuple([structs.replace(one, ports=_ports(one.ports, old, port)) for one in containers])
    return with_spec(pod, **lists)


def _ports(ports: tuple[ContainerPort, ...] | None, old: HostPort, port: int) -> tuple[ContainerPort, ...]:
    return tuple(
        [
            structs.replace(one, host_port=port)
            if (one.host_port, one.protocol or "TCP") == (old.port, old.protocol)
            else one
            for one in ports or ()
        ]
    )
