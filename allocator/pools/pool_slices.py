"""The slices that are published of one pool, of any generation, and its views."""

from __future__ import annotations

from typing import Final

from allocator.pools.pools import PoolView
from allocator.values.model import ResourceSlice


class PoolSlices:
    """The slices of one pool, and its views by the names of the relevant slices."""

    __slots__ = ("by_node", "elsewhere", "slices", "views")

    def __init__(self) -> None:
        self.slices: Final[dict[str, ResourceSlice]] = {}
        self.by_node: Final[dict[str, dict[str, ResourceSlice]]] = {}
        self.elsewhere: Final[dict[str, ResourceSlice]] = {}
        self.views: Final[dict[object, PoolView | None]] = {}

    def put(self, slice_: ResourceSlice) -> None:
        self.slices[slice_.name] = slice_
        if slice_.node_name:
            self.by_node.setdefault(slice_.node_name, {})[slice_.name] = slice_
        else:
            self.elsewhere[slice_.name] = slice_
        self.views.clear()

    def remove(self, slice_: ResourceSlice) -> None:
        del self.slices[slice_.name]
        if slice_.node_name:
            local = self.by_node[slice_.node_name]
            del local[slice_.name]
            if not local:
                del self.by_node[slice_.node_name]
        else:
            del self.elsewhere[slice_.name]
        self.views.clear()
