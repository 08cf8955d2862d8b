"""Which nodes have which image.

Rules of this module
  1. An image is there while a node has it. Its size is what the node said that had it first (upstream's rule).
  2. Names are kept once, however many nodes report them.

Not here: what an image is worth (`plugins.image_locality`).

Cost: an observation is linear in the images of its node; memory about 40 bytes for each image name of each node
(kubelets report at most 50 images), beside the names.

Source: addNodeImageStates and removeNodeImageStates of pkg/scheduler/backend/cache/cache.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.model.images import ImageState
from scheduler.model.keys import NodeName
from scheduler.model.objects import NodeImage


class NodeImages:
    """Images by name."""

    def __init__(self) -> None:
        self._states: Final[dict[str, ImageState]] = {}
        self._names_by_node: Final[dict[NodeName, tuple[str, ...]]] = {}

    def find(self, name: str) -> ImageState | None:
        """The image of that name, when some node has it."""
        return self._states.get(name)

    def observe(self, node: NodeName, images: Sequence[NodeImage]) -> bool:
        """Whether the node has other images now than before."""
        size_by_name: dict[str, int] = {}
        for image in images:
            for name in image.names or ():
                size_by_name.setdefault(name, image.size_bytes)
        before = self._names_by_node.get(node, ())
        if len(before) == len(size_by_name) and all(name in size_by_name for name in before):
            return False
        self.forget(node)
        names: list[str] = []
        for name, size_bytes in size_by_name.items():
            state = self._states.get(name)
            if state is None:
                state = self._states[name] = ImageState(name, size_bytes)
            state.nodes.add(node)
            names.append(state.name)
        if names:
            self._names_by_node[node] = tuple(names)
        return True

    def forget(self, node: NodeName) -> None:
        """The node is gone, or has no images any more."""
        for name in self._names_by_node.pop(node, ()):
            state = self._states[name]
            state.nodes.remove(node)
            if not state.nodes:
                del self._states[name]
