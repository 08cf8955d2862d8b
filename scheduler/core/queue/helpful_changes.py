"""Which changes of a node or a pod can make a waiting pod schedulable.

Not here: upstream's UpdateNodeCondition and UpdateNodeAnnotation. No plugin of the default profile waits for them, and
conditions come with every heartbeat.

Source: pkg/scheduler/framework/events.go v1.36.3; differs on purpose: several changes in one update are one event, and
a pod of which nothing but the status changed, unless it takes less of its node, raises none.
"""

from __future__ import annotations

from scheduler.framework.api import Action
from scheduler.model.objects import Node, Pod
from scheduler.model.resources import counted_amounts


def node_changes(old: Node | None, node: Node) -> Action | None:
    """Which changes of a node can make a pod schedulable; None when there is none of them."""
    if old is None:
        return Action.ADD
    action = Action(0)
    if old.status.allocatable != node.status.allocatable:
        action |= Action.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != node.metadata.labels:
        action |= Action.UPDATE_NODE_LABEL
    if old.spec.taints != node.spec.taints or (old.spec.unschedulable and not node.spec.unschedulable):
        action |= Action.UPDATE_NODE_TAINT  # a cordon counts as a taint upstream
    if old.status.declared_features != node.status.declared_features:
        action |= Action.UPDATE_NODE_DECLARED_FEATURE
    return action or None


def pod_changes(old: Pod, new: Pod) -> Action | None:
    """Which changes of a pod can make it, or another, schedulable; None when there is none of them."""
    action = Action(0)
    was, now = old.status, new.status
    if old.metadata.labels != new.metadata.labels:
        action |= Action.UPDATE_POD_LABEL
    if old.spec != new.spec:
        action |= Action.UPDATE
        if old.spec.scheduling_gates and not new.spec.scheduling_gates:
            action |= Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        if old.spec.tolerations != new.spec.tolerations:
            action |= Action.UPDATE_POD_TOLERATION
    if (action or (new.spec.node_name and was != now)) and _asks_for_less(old, new):
        action |= Action.UPDATE_POD_SCALE_DOWN
    if (
        was.resource_claim_statuses != now.resource_claim_statuses
        or was.extended_resource_claim_status != now.extended_resource_claim_status
    ):
        action |= Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    return action or None


def label_of(resource: str, action: Action | None) -> str:
    """The change in upstream's words, `NodeUpdateNodeTaint`; of several actions at once the first."""
    first = next(iter(action), Action.UPDATE) if action is not None else Action.UPDATE
    return resource + "".join(word.capitalize() for word in str(first.name).split("_"))


def _asks_for_less(old: Pod, new: Pod) -> bool:
    """Whether some request has shrunk or gone."""
    before, after = counted_amounts(old).requests, counted_amounts(new).requests
    return before is not after and any(amount > after.get(name, -1) for name, amount in before.items())
