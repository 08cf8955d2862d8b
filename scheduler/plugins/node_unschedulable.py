"""NodeUnschedulable: keep pods off cordoned nodes.

Extension points: Filter, RequeueHints.
Reads: node.spec.unschedulable, pod.spec.tolerations.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/nodeunschedulable (same verdicts, same reason text).
"""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, likeliest
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod, Taint
from scheduler.model.taints import is_tolerated
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import names

NAME: Final = "NodeUnschedulable"
REASON: Final = "node(s) were unschedulable"
_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class NodeUnschedulable:
    """Reject a cordoned node unless the pod tolerates the cordon taint."""

    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
        (Resource.POD, Action.UPDATE_POD_TOLERATION),
    )

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return _tolerates_cordon(cycle.pod)

    def knows_likeness(self, cycle: Cycle, view: ClusterView) -> bool:
        return True

    def likeness(self, node: NodeInfo, view: ClusterView) -> Hashable | None:
        return bool(node.node.spec.unschedulable)

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        if not node.node.spec.unschedulable or _tolerates_cordon(cycle.pod):
            return SUCCESS
        # Evicting pods never uncordons a node, so preemption must not try.
        return Status.unresolvable(REASON)

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        fixes = [_uncordon(one.node) for one in likeliest(nodes, view, limits)]
        cordoned = {"nodes": names(one.name for one in nodes)}
        return (Reason("node-cordoned", cordoned, fixes=tuple(fixes)),) if nodes else ()

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a node came or was uncordoned, or when the pod itself now tolerates the cordon."""
        match change.new:
            case Node() as node:
                was_usable = isinstance(change.old, Node) and not change.old.spec.unschedulable
                return Hint.QUEUE if not node.spec.unschedulable and not was_usable else Hint.SKIP
            case Pod() as changed:
                return Hint.QUEUE if changed.uid == pod.uid and _tolerates_cordon(changed) else Hint.SKIP
            case _:
                return Hint.SKIP


def _uncordon(node: Node) -> Fix:
    """The node controller's own taint goes with it."""
    command = shlex.join(("kubectl", "uncordon", node.name))
    taints = tuple([taint for taint in node.spec.taints or () if taint.key != _CORDON.key])
    spec = structs.replace(node.spec, unschedulable=False, taints=taints)
    return Fix("node-uncordoned", {}, (node.name,), command, node=structs.replace(node, spec=spec))


def _tolerates_cordon(pod: Pod) -> bool:
    return is_tolerated(_CORDON, pod.spec.tolerations or ())
