"""ImageLocality: rather nodes that have the pod's images already, the larger the better.

Extension points: Score, NormalizeScore.
Reads: images of the pod's containers and image volumes, which nodes have them, the number of nodes.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/imagelocality (same scores).

An image counts with its size times the share of nodes that have it, so that a rare image does not draw all pods to the
few nodes that have it. The share follows all nodes, so a score is said of the fact which images a node has.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.model.images import asked_images
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.plugins.normalize import NODE_SCORE_MAX

NAME: Final = "ImageLocality"
_MIB: Final = 2**20
_THRESHOLD_MIN: Final = 23 * _MIB
"""Images that are smaller together are worth nothing: they are pulled in a moment."""
_CONTAINER_THRESHOLD_MAX: Final = 1000 * _MIB


class ImagesSlot(Struct, frozen=True):
    """The images the pod asks for, one for each use, and the size from which more is not better."""

    names: tuple[str, ...]
    threshold_max: int


@dataclass(frozen=True, slots=True)
class ImageLocality:
    """Score 0..100 by the images a node has."""

    weight: int = 1
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = ()

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return _asked(cycle, view)

    def fact(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Hashable:
        """The pod's images that are here, in its order."""
        names = _asked(cycle, view).names
        if not names:
            return ()
        here: list[str] = []
        for name in names:
            image = view.image(name)
            if image is not None and node.name in image.nodes:
                here.append(name)
        return tuple(here)

    def lookups(self, cycle: Cycle) -> int:
        slot = cycle.find(ImagesSlot)
        return len(slot.names if slot is not None else asked_images(cycle.pod))

    def score_facts(self, cycle: Cycle, facts: Mapping[Hashable, int], view: ClusterView) -> Mapping[Hashable, int]:
        asked = _asked(cycle, view)
        scores: dict[Hashable, int] = {}
        if not asked.names:
            return scores
        largest, nodes_count = asked.threshold_max, len(view.node_infos)
        for fact in facts:
            assert isinstance(fact, tuple)
            total = 0
            for name in fact:
                image = view.image(name)
                assert image is not None  # the node still has it: else its fact were another
                total += int(image.size_bytes * (len(image.nodes) / nodes_count))
            counted = min(max(total, _THRESHOLD_MIN), largest)
            if counted > _THRESHOLD_MIN:
                scores[fact] = NODE_SCORE_MAX * (counted - _THRESHOLD_MIN) // (largest - _THRESHOLD_MIN)
        return scores

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        return Hint.SKIP  # it rejects no pod


def _asked(cycle: Cycle, view: ClusterView) -> ImagesSlot:
    slot = cycle.find(ImagesSlot)
    if slot is None:
        spec, names = cycle.pod.spec, asked_images(cycle.pod)
        # Before 1.37 images of volumes add to the score and not to what counts as full.
        count = len(names)
        if not view.features.has_137_semantics:
            count = len(spec.init_containers or ()) + len(spec.containers or ())
        slot = ImagesSlot(names, _CONTAINER_THRESHOLD_MAX * count)
        cycle.put(slot)
    return slot
