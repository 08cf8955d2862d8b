"""The other pods of a pod's owner that wait, too, and pods that workloads of files make.

Rules of this module
  1. Pods that workloads of files make become objects of their own, in their workloads' stead; of these the selectors
     stay, by which pods are spread.
  2. A pod of a group has no siblings here: it is placed with its group (`group_mates`).

Not here: what is asked then (`scheduler.explain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from scheduler.embedded.kinds.catalog import DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET
from scheduler.offline.group_mates import group_of
from scheduler.offline.offline_cluster import Obj, OfflineCluster, SourceObject, key_of, makes_pods, waits_for_a_node

SIBLINGS_MAX: Final = 1_000
"""Pods that are tried beside the one that is asked about; there may be more."""
_WORKLOADS: Final = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB)
_OF_THE_SERVER: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")

Key = tuple[str, str]


def with_made(given: Sequence[SourceObject], cluster: OfflineCluster) -> Sequence[SourceObject]:
    """The objects with the pods that workloads make in their stead; others stay, for what is wrong with them.

    Args:
        cluster: That has loaded them.
    """
    places = {(str(one.obj.get("kind")), *key_of(one.obj)): one.place for one in given if makes_pods(one.obj)}
    if not places:
        return given
    listed = ((kind, one.obj) for kind in _WORKLOADS for one in cluster.api.store.listed(kind.kind_id))
    stored = [{"apiVersion": kind.api_version, "kind": kind.kind, **obj} for kind, obj in listed]
    above = {(str(obj["kind"]), *key_of(obj)): controller_of(obj) for obj in stored}
    written = {key_of(one.obj) for one in given if one.obj.get("kind") == "Pod"}
    made: list[SourceObject] = []
    gone = set()
    for pod in cluster.pods():
        owner, namespace = controller_of(pod), pod["metadata"]["namespace"]
        while owner is not None and (owner[0], namespace, owner[1]) not in places:
            owner = above.get((owner[0], namespace, owner[1]))
        if owner is not None and key_of(pod) not in written:
            gone.add((owner[0], namespace, owner[1]))
            made.append(SourceObject(places[owner[0], namespace, owner[1]], _as_written(pod)))
    left = [one for one in given if (str(one.obj.get("kind")), *key_of(one.obj)) not in gone or not makes_pods(one.obj)]
    selecting = (SourceObject("made", obj) for obj in stored if obj["kind"] in ("ReplicaSet", "StatefulSet"))
    return [*left, *selecting, *made]


def siblings_of(key: Key, pods: Iterable[Obj]) -> list[Key]:
    """The pods of the same controller that wait, too, at most `SIBLINGS_MAX`."""
    there = {key_of(pod): pod for pod in pods}
    pod = there.get(key)
    if pod is None or group_of(pod) is not None or (owner := controller_of(pod)) is None or not waits_for_a_node(pod):
        return []
    beside = (other for other, one in there.items() if controller_of(one) == owner and waits_for_a_node(one))
    return [other for other in beside if other != key and other[0] == key[0]][:SIBLINGS_MAX]


def controller_of(obj: Obj) -> Key | None:
    """Kind and name of who makes an object; any field may be wrong."""
    metadata = obj.get("metadata")
    references = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    for one in references if isinstance(references, list) else ():
        if isinstance(one, Mapping) and one.get("controller") is True:
            return str(one.get("kind")), str(one.get("name"))
    return None


def _as_written(pod: Obj) -> dict[str, Any]:
    """Without what the server and controllers have set: its claims are made from templates as these are then."""
    metadata = {field: value for field, value in pod["metadata"].items() if field not in _OF_THE_SERVER}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}
