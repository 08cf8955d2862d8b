"""Which shape of node would let the pods that wait run, and how many of them: the answer that an autoscaler wants.

Rules of this module
  1. The scheduler places the pods: so many nodes are added, and what it does is counted.
  2. A pod that does not run with one more node for each pod that waits does not run for want of such nodes.
  3. Pods of DaemonSets are not counted: each node brings its own, and nobody adds a node for their sake.

Not here: output.

Cost: a simulation of the whole cluster for each number of nodes that is tried, some log2(pods that wait).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.offline.offline_cluster import OfflineCluster, SourceObject, name_of
from scheduler.offline.simulation import Played, Simulated

NODES_MAX: Final = 1_000
_HOSTNAME: Final = "kubernetes.io/hostname"
_COPIED_METADATA: Final = ("labels", "annotations")
"""Besides the name: the rest is the server's, who makes it anew."""


class WrongShapeError(ValueError):
    """It is not one Node with what belongs to it, or the API server refuses a part of it."""


@dataclass(frozen=True, slots=True)
class ShapeAnswer:
    """Of one shape.

    Attributes:
        nodes: The fewest nodes with which as many pods run as with any number of them; 0 where none helps.
        running: The pods that run then and do not without.
        placed: All that got a node then, of those that run then only, or on such a node.
        pending: Those that do not run, with the scheduler's reasons, such nodes among them.
        problems: What could not be used of the other objects.
    """

    name: str
    nodes: int
    running: tuple[Played, ...]
    placed: tuple[Played, ...]
    pending: tuple[Played, ...]
    problems: tuple[str, ...]


def try_shape(
    given: Sequence[SourceObject], shape: Sequence[SourceObject], play: Callable[[Sequence[SourceObject]], Simulated]
) -> ShapeAnswer:
    """How many nodes of a shape are needed.

    Args:
        shape: A Node and its ResourceSlices, and what else comes with them once (a DeviceClass).
        play: Plays objects to the end.

    Raises:
        WrongShapeError: The shape cannot be used.
    """
    name = _checked(shape)

    def played(count: int) -> Simulated:
        return play([*given, *_copies(shape, name, count)])

    without = played(0)
    had = {_key(pod) for pod in _counted(without) if pod.bound_s is not None}
    most, best = min(len(_pending(without)), NODES_MAX), without
    while most:
        tried, best = best, played(most)
        _refuse_broken(best, without)
        # Pods that come when others run (a StatefulSet's) want nodes too.
        known = {_key(pod) for pod in tried.pods}
        new = sum(_key(pod) not in known for pod in _pending(best))
        if not new or most == NODES_MAX:
            break
        most = min(most + new, NODES_MAX)
    if _placed(best) <= len(had):
        return ShapeAnswer(name, 0, (), (), _pending(best), tuple(without.problems))
    low, high, found = 1, most, best
    while low < high:
        middle = (low + high) // 2
        now = played(middle)
        if _placed(now) >= _placed(best):
            high, found = middle, now
        else:
            low = middle + 1
    running = tuple(pod for pod in _counted(found) if pod.bound_s is not None and _key(pod) not in had)
    added = {f"{name}-{number}" for number in range(1, high + 1)}
    placed = tuple(pod for pod in _counted(found) if pod in running or pod.node in added)
    return ShapeAnswer(name, high, running, placed, _pending(found), tuple(without.problems))


def _key(pod: Played) -> tuple[str, str]:
    return pod.namespace, pod.name


def _counted(played: Simulated) -> list[Played]:
    return [pod for pod in played.pods if not pod.is_of_daemon_set]


def _placed(played: Simulated) -> int:
    return sum(pod.bound_s is not None for pod in _counted(played))


def _pending(played: Simulated) -> tuple[Played, ...]:
    return tuple(pod for pod in _counted(played) if pod.bound_s is None)


# -- the shape ------------------------------------------------------------------------------------


def _checked(shape: Sequence[SourceObject]) -> str:
    """The name of its node."""
    cluster = OfflineCluster(0)
    for one in shape:
        if wrong := cluster.misshapen(one.obj):
            raise WrongShapeError(f"{one.place}: {wrong}")
        if not name_of(one.obj):
            raise WrongShapeError(f"{one.place}: {one.obj.get('kind')} without metadata.name")
    nodes = [one.obj for one in shape if one.obj.get("kind") == "Node"]
    if len(nodes) != 1:
        raise WrongShapeError(f"a shape is one Node with its ResourceSlices; there are {len(nodes)} Nodes")
    return name_of(nodes[0])


def _refuse_broken(played: Simulated, without: Simulated) -> None:
    """Nodes that the API server does not take help nobody, which says nothing about the shape."""
    known = set(without.problems)
    broken = next((problem for problem in played.problems if problem not in known), None)
    if broken is not None:
        raise WrongShapeError(f"it cannot be used: {broken}")


def _copies(shape: Sequence[SourceObject], node: str, count: int) -> list[SourceObject]:
    """So many nodes, `-1` to `-N` after their names; what is no node's own is there once."""
    own = [one for one in shape if one.obj.get("kind") in ("Node", "ResourceSlice")]
    once = [one for one in shape if one.obj.get("kind") not in ("Node", "ResourceSlice")]
    return [
        *once,
        *(SourceObject(one.place, _numbered(one.obj, node, number)) for number in range(1, count + 1) for one in own),
    ]


def _numbered(obj: Mapping[str, Any], node: str, number: int) -> dict[str, Any]:
    new = copy.deepcopy(dict(obj))
    kept = {key: new["metadata"][key] for key in _COPIED_METADATA if new["metadata"].get(key)}
    new["metadata"] = {**kept, "name": f"{new['metadata']['name']}-{number}"}
    named = f"{node}-{number}"
    if new["kind"] == "Node":
        new["metadata"]["labels"] = {**kept.get("labels", {}), _HOSTNAME: named}
        return new
    spec = new["spec"] = new.get("spec") or {}
    if spec.get("nodeName") == node:
        spec["nodeName"] = named
    pool = spec.get("pool") or {}
    spec["pool"] = {**pool, "name": f"{pool.get('name', '')}-{number}"}
    return new
