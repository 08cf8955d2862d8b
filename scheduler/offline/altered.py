"""A cluster's objects altered before the scheduler is asked about them: copies of pods, something taken away.

Not here: what is played then (`playing`), what is written in files and options (`scheduler.cli.arrivals`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from scheduler.offline.offline_cluster import OfflineCluster, SourceObject, name_of

COPIES_MAX: Final = 100_000
_COPIED: Final = ("Pod", "ResourceClaim", "PersistentVolumeClaim")
"""One for each copy; all else (templates, classes) is shared by them."""
_OF_ONE_NODE: Final = ("DaemonSet", "Node")
"""Who makes pods for that node only; of a node that is gone they are made nowhere else."""


class NoSuchObjectError(ValueError):
    """What is to be altered is not there."""


def copies(given: Sequence[SourceObject], count: int) -> Iterator[SourceObject]:
    """So many copies of the pods and claims, and all else once; names end in their number."""
    cluster = OfflineCluster(0)
    many: list[SourceObject] = []
    once: list[SourceObject] = []
    for one in given:
        is_copied = one.obj.get("kind") in _COPIED and cluster.is_well_shaped(one.obj)
        (many if is_copied else once).append(one)
    copied = {(one.obj.get("kind"), name_of(one.obj)) for one in many}
    yield from once
    for number in range(1, count + 1):
        rename = partial("{1}-{0}".format, number)
        for one in many:
            yield SourceObject(one.place, renamed(one.obj, rename, copied))


def renamed(
    obj: Mapping[str, Any], rename: Callable[[str], str], together: Collection[tuple[Any, str]]
) -> dict[str, Any]:
    """A copy with another name, which calls the claims that are renamed together with it by their new ones.

    Args:
        together: Kind and old name of each.
    """
    new = copy.deepcopy(dict(obj))
    if name_of(obj):  # the API server names those with generateName
        new["metadata"] = {**new["metadata"], "name": rename(name_of(obj))}
    spec = new.get("spec") if new.get("kind") == "Pod" else None
    if isinstance(spec, dict):
        for entry in spec.get("resourceClaims") or ():
            if ("ResourceClaim", entry.get("resourceClaimName")) in together:
                entry["resourceClaimName"] = rename(entry["resourceClaimName"])
        for volume in spec.get("volumes") or ():
            source = volume.get("persistentVolumeClaim") or {}
            if ("PersistentVolumeClaim", source.get("claimName")) in together:
                source["claimName"] = rename(source["claimName"])
    return new


def without(given: Sequence[SourceObject], removed: Sequence[str]) -> list[SourceObject]:
    """The objects without these, `KIND/NAME` or `KIND/NAMESPACE/NAME`.

    With a node go its slices and the pods on it; those that a controller would make again elsewhere wait for another
    node. What is no object of a kind that plays a role is left for loading, which says what is wrong with it.

    Raises:
        NoSuchObjectError: One is not there.
    """
    cluster = OfflineCluster(0)
    left = [one for one in given if cluster.is_well_shaped(one.obj)] if removed else []
    known = {id(one) for one in left}
    others = [one for one in given if id(one) not in known]
    for one in removed:
        kind, _, name = one.partition("/")
        namespace, _, name = name.rpartition("/")
        found = [item for item in left if _is_named(item.obj, kind, namespace, name)]
        if not kind or not name or not found:
            raise NoSuchObjectError(f"{one}: there is no such object; write node/NAME or pod/NAMESPACE/NAME")
        gone = {id(item) for item in found}
        left = [item for item in left if id(item) not in gone]
        for item in found:
            if item.obj["kind"] == "Node":
                left = _without_node(left, name)
    return [*left, *others]


def _is_named(obj: Mapping[str, Any], kind: str, namespace: str, name: str) -> bool:
    own = str((obj.get("metadata") or {}).get("namespace") or "default")
    kinds = (str(obj.get("kind", "")).lower(), f"{obj.get('kind', '')}s".lower())
    return kind.lower() in kinds and name_of(obj) == name and (not namespace or namespace == own)


def _without_node(given: Sequence[SourceObject], node: str) -> list[SourceObject]:
    gone = {
        str((item.obj.get("metadata") or {}).get("uid"))
        for item in given
        if item.obj.get("kind") == "Pod" and (item.obj.get("spec") or {}).get("nodeName") == node
    }
    left = []
    for item in given:
        obj = item.obj
        spec = obj.get("spec") or {}
        match obj.get("kind"):
            case "ResourceSlice" if spec.get("nodeName") == node:
                continue
            case "Pod" if spec.get("nodeName") == node:
                owners = (obj.get("metadata") or {}).get("ownerReferences") or ()
                if all(one.get("kind") in _OF_ONE_NODE for one in owners if one.get("controller")):
                    continue
                spec = {key: value for key, value in spec.items() if key != "nodeName"}
                statuses = (obj.get("status") or {}).get("resourceClaimStatuses")
                status = {"phase": "Pending", **({"resourceClaimStatuses": statuses} if statuses else {})}
                left.append(SourceObject(item.place, {**obj, "spec": spec, "status": status}))
            case "ResourceClaim":
                left.append(SourceObject(item.place, _released(obj, gone)))
            case _:
                left.append(item)
    return left


def _released(claim: Mapping[str, Any], gone: set[str]) -> Mapping[str, Any]:
    """Without what only pods had that are gone."""
    status = claim.get("status") or {}
    consumers = status.get("reservedFor") or []
    left = [one for one in consumers if one.get("uid") not in gone]
    if len(left) == len(consumers):
        return claim
    return {**claim, "status": {**status, "reservedFor": left} if left else {}}
