"""How many devices of a node serve an extended resource, and how many of them are in use: for scores.

Not here: whether a pod gets any (`dynamic_resources`), what is counted (`allocator.answers.class_usage`).

Source: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go (calculateDRAResourceTotals) v1.36.3.
Differs on purpose: devices of pools that are not complete, or of slices that newer ones replace, are not counted.
"""

from __future__ import annotations

from allocator import AllocationError, PausedError, class_usage
from scheduler.framework.cluster_view import ClusterView
from scheduler.model.node_info import NodeInfo
from scheduler.model.resources import is_served_resource
from scheduler.plugins.dynamic_resources.extended_resources import class_by_resource


def served_devices(resource: str, node: NodeInfo, view: ClusterView) -> tuple[int, int]:
    """How many there are and how many are in use; (0, 0) where no class stands behind `resource`.

    Also where they cannot be counted, as upstream. The Filter of DynamicResources has asked the class about all devices
    of the node, so that nothing has to be evaluated here.
    """
    if not view.features.extended_resource or not is_served_resource(resource):
        return 0, 0
    device_class = class_by_resource(view.inventory).get(resource)
    if device_class is None:
        return 0, 0
    try:
        usage = class_usage(
            device_class, node.host, inventory=view.inventory, in_use=view.in_use, features=view.features, taken={}
        )
    except (AllocationError, PausedError):
        return 0, 0
    return usage.total, usage.used
