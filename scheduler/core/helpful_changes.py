"""Which changes of a node or a pod can make a waiting pod schedulable.

Source: pkg/scheduler/framework/events.go v1.36.3.
"""

from __future__ import annotations

from scheduler.framework.api import Action
from scheduler.model.objects import Node, Pod


def node_changes(old: Node | None, node: Node) -> Action | None:
    """Which changes of a node can make a pod schedulable; None when there is none of them."""
    if old is None:
        return Action.ADD
    action = Action(0)
    if old.status.allocatable != node.status.allocatable:
        action |= Action.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != node.metadata.labels:
        action |= Action.UPDATE_NODE_LABEL
    if old.spec != node.spec:
        action |= Action.UPDATE_NODE_TAINT  # cordoning too: upstream turns it into a taint
    return action or None


def pod_changes(old: Pod, new: Pod) -> Action | None:
    """Which changes of a pod can make it schedulable; None when there is none of them."""
    action = Action(0)
    if old.metadata.labels != new.metadata.labels:
        action |= Action.UPDATE_POD_LABEL
    if old.spec != new.spec:
        if old.spec.scheduling_gates and not new.spec.scheduling_gates:
            action |= Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        if old.spec.tolerations != new.spec.tolerations:
            action |= Action.UPDATE_POD_TOLERATION
        if old.spec.containers != new.spec.containers or old.spec.resources != new.spec.resources:
            action |= Action.UPDATE_POD_SCALE_DOWN
    was, now = old.status, new.status
    if (
        was.resource_claim_statuses != now.resource_claim_statuses
        or was.extended_resource_claim_status != now.extended_resource_claim_status
    ):
        action |= Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    return action or None
