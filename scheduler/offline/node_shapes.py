"""Which shape of node would let the pods that wait run, and how many of them: the answer that an autoscaler wants.

Rules of this module
  1. The scheduler places the pods: so many nodes are added, and what it does is counted.
  2. A pod that does not run with one more node for each pod that waits does not run for want of such nodes.

Not here: output.

Cost: a simulation of the whole cluster for each number of nodes that is tried, some log2(pods that wait).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.offline.cluster import Given, name_of
from scheduler.offline.simulation import Played, Simulated

NODES_MAX: Final = 1_000
_HOSTNAME: Final = "kubernetes.io/hostname"


class NoNodeError(ValueError):
    """A shape without exactly one Node."""


@dataclass(frozen=True, slots=True)
class ShapeAnswer:
    """Of one shape.

    Attributes:
        nodes: The fewest nodes with which as many pods run as with any number of them; 0 where none helps.
        running: The pods that run then and do not without.
        pending: Those that do not, with the scheduler's reasons, such nodes among them.
    """

    name: str
    nodes: int
    running: tuple[Played, ...]
    pending: tuple[Played, ...]


def try_shape(
    given: Sequence[Given], shape: Sequence[Given], play: Callable[[Sequence[Given]], Simulated]
) -> ShapeAnswer:
    """How many nodes of a shape are needed.

    Args:
        shape: A Node and its ResourceSlices, and what else comes with them once (a DeviceClass).
        play: Plays objects to the end.

    Raises:
        NoNodeError: The shape has no Node, or several.
    """
    nodes = [one.obj for one in shape if one.obj.get("kind") == "Node"]
    if len(nodes) != 1:
        raise NoNodeError(f"a shape is one Node with its ResourceSlices; there are {len(nodes)} Nodes")
    name = name_of(nodes[0])

    def played(count: int) -> Simulated:
        return play([*given, *_copies(shape, name, count)])

    without = played(0)
    had = {_key(pod) for pod in without.pods if pod.bound_s is not None}
    most = min(sum(pod.bound_s is None for pod in without.pods), NODES_MAX)
    best = played(most) if most else without
    if best.placed <= without.placed:
        return ShapeAnswer(name, 0, (), tuple(pod for pod in best.pods if pod.bound_s is None))
    low, high, found = 1, most, best
    while low < high:
        middle = (low + high) // 2
        now = played(middle)
        if now.placed >= best.placed:
            high, found = middle, now
        else:
            low = middle + 1
    running = tuple(pod for pod in found.pods if pod.bound_s is not None and _key(pod) not in had)
    return ShapeAnswer(name, high, running, tuple(pod for pod in found.pods if pod.bound_s is None))


def _key(pod: Played) -> tuple[str, str]:
    return pod.namespace, pod.name


def _copies(shape: Sequence[Given], node: str, count: int) -> list[Given]:
    """So many nodes, `-1` to `-N` after their names; what is no node's own is there once."""
    own = [one for one in shape if one.obj.get("kind") in ("Node", "ResourceSlice")]
    once = [one for one in shape if one.obj.get("kind") not in ("Node", "ResourceSlice")]
    return [
        *once,
        *(Given(one.place, _numbered(one.obj, node, number)) for number in range(1, count + 1) for one in own),
    ]


def _numbered(obj: Mapping[str, Any], node: str, number: int) -> dict[str, Any]:
    new = copy.deepcopy(dict(obj))
    metadata = {key: value for key, value in new["metadata"].items() if key not in ("uid", "resourceVersion")}
    new["metadata"] = {**metadata, "name": f"{metadata['name']}-{number}"}
    named = f"{node}-{number}"
    if new["kind"] == "Node":
        new["metadata"]["labels"] = {**(metadata.get("labels") or {}), _HOSTNAME: named}
        return new
    spec = new["spec"]
    if spec.get("nodeName") == node:
        spec["nodeName"] = named
    pool = spec.get("pool") or {}
    spec["pool"] = {**pool, "name": f"{pool.get('name', '')}-{number}"}
    return new
