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
from scheduler.framework.diagnosis import Limits, likeliest, named
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod, Taint
from scheduler.model.taints import is_tolerated
from scheduler.why.reasons import Reason, plain_fix, plain_reason

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

    def blame(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        changes = [
            plain_fix(
                2,
                command := shlex.join(("kubectl", "uncordon", one.name)),
                (one.name,),
                command=command,
                node=_uncordoned(one.node),
            )
            for one in likeliest(nodes, view, limits)
        ]
        cause = f"{named(nodes, 'is', 'are')} cordoned"
        return (plain_reason("node-cordoned", cause, self.name, tuple(changes)),) if nodes else ()

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


def _uncordoned(node: Node) -> Node:
    """Without the node controller's own taint, which goes with it."""
    taints = tuple([taint for taint in node.spec.taints or () if taint.key != _CORDON.key])
    return structs.replace(node, spec=structs.replace(node.spec, unschedulable=False, taints=taints))


def _tolerates_cordon(pod: Pod) -> bool:
    return is_tolerated(_CORDON, pod.spec.tolerations or ())
