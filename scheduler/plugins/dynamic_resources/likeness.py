"""What of a node's devices all answers about a pod's new claims depend on, beside the pod: equal where nodes are alike.

Rules of this module
  1. Only nodes whose devices are all their own are compared: published for the node by name, nothing invalid or
     incomplete. Others are like no other node.
  2. Devices are equal when they are published alike, names and order included; a pool by its driver.
  3. What is in use is compared as the ledger has it, device by device and counter by counter.

Cost: O(devices) once for the pools of a node; then O(devices in use) for each change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from itertools import count
from typing import Final

from allocator import AllocationError, NodePools, NodeView
from allocator.values.model import Device
from scheduler.framework.cluster_view import ClusterView

_NODES_MAX: Final = 65_536


class DeviceLikeness:
    """Numbers for what pools publish, and what is in use of them."""

    def __init__(self) -> None:
        self._of_node: Final[dict[str, tuple[NodePools, int | None]]] = {}
        self._numbers: Final = defaultdict[Hashable, int](count().__next__)

    def of(self, node: NodeView, view: ClusterView) -> Hashable | None:
        """Equal for alike nodes; None when the node is like no other."""
        in_use = view.in_use
        if in_use.is_supposed:
            return None
        try:
            pools = view.inventory.node_pools(node, view.features)
        except AllocationError:
            return None
        known = self._of_node.get(node.name)
        if known is None or known[0] is not pools:
            if len(self._of_node) >= _NODES_MAX:
                self._of_node.clear()
            known = self._of_node[node.name] = pools, self._number(_published(pools, node.name))
        if known[1] is None:
            return None
        used = []
        for number, held in sorted(pools.use_of(in_use).used.items()):
            consumed = sorted((index, tuple(sorted(amounts.items()))) for index, amounts in held.consumed.items())
            left = pools.usable[number][0].counters_left(held.entry)
            used.append((number, held.dedicated, held.sharing, tuple(consumed), left))
        return known[1], tuple(used)

    def _number(self, published: Hashable | None) -> int | None:
        if published is None:
            return None
        if len(self._numbers) >= _NODES_MAX:
            self._numbers.clear()
        return self._numbers[published]


def _published(pools: NodePools, node: str) -> Hashable | None:
    views: list[Hashable] = []
    for pool in pools.pools:
        if not pool.is_usable or pool.elsewhere or pool.has_per_device_selection:
            return None
        if any(slice_.node_name != node for slice_ in pool.slices):
            return None
        devices = [_device(device) for device in pool.devices]
        if None in devices:
            return None
        views.append((pool.id.driver, pool.has_binding_conditions, pool.counters, tuple(devices)))
    views.append(pools.inoperable)
    return tuple(views)


def _device(device: Device) -> Hashable | None:
    if device.node_allocatable_resources or device.node_allocatable_resource_mappings:
        return None
    return (
        device.name,
        tuple(sorted(device.attributes.items(), key=lambda one: one[0])),
        tuple(sorted(device.capacity.items(), key=lambda one: one[0])),
        device.allow_multiple_allocations,
        device.consumes_counters,
        device.taints,
        device.binds_to_node,
        device.binding_conditions,
        device.binding_failure_conditions,
    )
