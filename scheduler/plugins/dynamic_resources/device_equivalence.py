"""What of a node's devices all answers about a pod's new claims depend on, beside the pod: equal where nodes are alike.

Rules of this module
  1. Only nodes whose devices are all their own are compared: published for the node by name, nothing invalid or
     incomplete. Others are like no other node.
  2. Devices are equal when they are published alike, names and order included; a pool by its driver.
  3. What is in use is compared as the ledger has it, device by device and counter by counter.

Cost: O(devices) once for the pools of a node; then O(devices in use) for each change.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from allocator import AllocationError, NodePools, NodeView
from allocator.values.model import Device
from scheduler.framework.cluster_view import ClusterView


class _Published:
    """Stands for what pools publish: one object for equal ones, as long as some pools publish it."""

    __slots__ = ("__weakref__",)


class DeviceLikeness:
    """What pools publish, and what is in use of them. Forgotten with the pools: a driver may publish ever new ones."""

    def __init__(self) -> None:
        self._of_pools: Final[WeakKeyDictionary[NodePools, _Published | None]] = WeakKeyDictionary()
        self._published: Final[WeakValueDictionary[Hashable, _Published]] = WeakValueDictionary()

    def of(self, node: NodeView, view: ClusterView) -> Hashable | None:
        """Equal for alike nodes; None when the node is like no other."""
        in_use = view.in_use
        if in_use.is_supposed:
            return None
        try:
            pools = view.inventory.node_pools(node, view.features)
        except AllocationError:
            return None
        if pools not in self._of_pools:
            found = _published(pools, node.name)
            self._of_pools[pools] = self._published.setdefault(found, _Published()) if found is not None else None
        published = self._of_pools[pools]
        if published is None:
            return None
        used = []
        for number, held in sorted(pools.use_of(in_use).used.items()):
            consumed = sorted((index, tuple(sorted(amounts.items()))) for index, amounts in held.consumed.items())
            left = pools.usable[number][0].counters_left(held.entry)
            used.append((number, held.dedicated, held.sharing, tuple(consumed), left))
        return published, tuple(used)


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
