"""The pools of a node as one row of devices: positions, masks over all pools, devices that name their node.

Devices are numbered through all usable pools in the order upstream tries them: pools without binding
conditions before pools with, each group by driver and pool name. A mask over a node is the masks of its
pools side by side.

Source: end of `GatherPools`, structured/internal/incubating/pools_incubating.go v0.36.3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Final

from allocator.model import Device, NodeView, PoolId
from allocator.node_match import NodeSelectorError, match_node
from allocator.pools import PoolView


class NodePools:
    """Pools in order. Immutable but for `derived`, where readers keep what they computed.

    Attributes:
        pools: All of them, also those that nothing may be taken from.
        usable: (view, position of its first device) of the others, in order.
        size: Number of devices; positions are 0..size-1.
        has_invalid: Whether a pool is left out because its slices contradict each other.
        elsewhere: Mask of devices that selected other nodes themselves.
        undecided: Position -> why a device's node selector cannot be parsed.
    """

    __slots__ = ("_numbers", "_starts", "derived", "elsewhere", "has_invalid", "pools", "size", "undecided", "usable")

    def __init__(self, views: Iterable[PoolView], node: NodeView) -> None:
        self.pools: Final = tuple(sorted(views, key=lambda view: (view.has_binding_conditions, view.id)))
        usable: list[tuple[PoolView, int]] = []
        size = 0
        for view in self.pools:
            if view.is_usable and view.devices:
                usable.append((view, size))
                size += len(view.devices)
        self.usable: Final = tuple(usable)
        self.size: Final = size
        self.has_invalid: Final = any(view.invalid_reason for view in self.pools)
        self.undecided: Final[dict[int, str]] = {}
        self.elsewhere: Final = self._gather_elsewhere(node)
        self.derived: Final[dict[Any, Any]] = {}
        self._starts: Final = [start for _, start in usable]
        self._numbers: dict[PoolId, int] | None = None

    def _gather_elsewhere(self, node: NodeView) -> int:
        mask = 0
        for view, start in self.usable:
            if not view.has_per_device_selection:
                continue
            for index, (device, slice_) in enumerate(zip(view.devices, view.slices, strict=True)):
                if not slice_.per_device_node_selection:
                    continue
                try:
                    if not match_node(node, device.node_name, device.all_nodes, device.node_selector):
                        mask |= 1 << (start + index)
                except NodeSelectorError as error:
                    self.undecided[start + index] = str(error)
        return mask

    def number_of(self, pool: PoolId) -> int | None:
        """Index into `usable` of a pool, None when nothing may be taken from it here."""
        if self._numbers is None:
            self._numbers = {view.id: number for number, (view, _) in enumerate(self.usable)}
        return self._numbers.get(pool)

    def locate(self, position: int) -> tuple[int, PoolView, int]:
        """Index into `usable`, the view, and the device's index in it."""
        index = bisect_right(self._starts, position) - 1
        view, start = self.usable[index]
        return index, view, position - start

    def among(self, mask: int, number: int) -> int:
        """The part of a mask over the node that is devices of one pool, as a mask over the pool."""
        view, start = self.usable[number]
        return mask >> start & ((1 << len(view.devices)) - 1)

    def numbers_among(self, mask: int) -> Iterator[int]:
        """Indices into `usable` of the pools that have devices in the mask, in order."""
        while mask:
            number = bisect_right(self._starts, (mask & -mask).bit_length() - 1) - 1
            yield number
            view, start = self.usable[number]
            end = start + len(view.devices)
            mask = mask >> end << end

    def device(self, position: int) -> Device:
        """The device at a position."""
        _, view, index = self.locate(position)
        return view.devices[index]
