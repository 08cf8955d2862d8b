"""OwnNodes: keep pods on the nodes that this scheduler was given with `--nodes`.

Extension points: Filter, RequeueHints.
Reads: node labels.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/ has none such; there one taints nodes, or sets node affinity in every pod.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.label_selectors import TextSelector
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod

NAME: Final = "OwnNodes"


@dataclass(frozen=True, slots=True)
class OwnNodes:
    """Reject nodes that `selector` does not match."""

    selector: TextSelector
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = ((Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),)

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return ()

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        if self.selector.matches(node.node.labels):
            return SUCCESS
        return Status.unresolvable(f"node(s) outside --nodes '{self.selector.text}' of this scheduler")

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a node came to be ours."""
        old, new = change.old, change.new
        is_ours = isinstance(new, Node) and self.selector.matches(new.labels)
        was_ours = isinstance(old, Node) and self.selector.matches(old.labels)
        return Hint.QUEUE if is_ours and not was_ours else Hint.SKIP
