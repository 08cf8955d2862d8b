"""A cluster's objects altered before the scheduler is asked about them: copies of pods, something taken away.

Not here: what is played then (`playing`), what is written in files and options (`scheduler.cli.arrivals`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from scheduler.model.nearest import some
from scheduler.offline.alike import COPY_LABEL
from scheduler.offline.offline_cluster import OfflineCluster, SourceObject, key_of, name_of

COPIES_MAX: Final = 100_000
_LABEL_MAX: Final = 63
_NAMED_MAX: Final = 3
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
            yield SourceObject(one.place, _with_label(renamed(one.obj, rename, copied), name_of(one.obj)))


def _with_label(copy_: dict[str, Any], original: str) -> dict[str, Any]:
    """So that lists know equal pods; no selector asks for the label."""
    if copy_.get("kind") == "Pod" and original:
        labels = {**(copy_["metadata"].get("labels") or {}), COPY_LABEL: original[:_LABEL_MAX].rstrip("-.")}
        copy_["metadata"] = {**copy_["metadata"], "labels": labels}
    return copy_


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


def not_made_again(given: Sequence[SourceObject], left: Sequence[SourceObject]) -> str:
    """Which pods ran on nodes that are taken away and are gone with them, as nothing makes them; "" where none did."""
    there, kept = ({(str(one.obj.get("kind")), key_of(one.obj)) for one in objects} for objects in (given, left))
    nodes = {name for kind, (_, name) in there - kept if kind == "Node"}
    gone = [
        "/".join(key_of(one.obj))
        for one in given
        if ("Pod", key_of(one.obj)) not in kept and node_of(one.obj) in nodes and is_running(one.obj)
    ]
    pods, them = ("1 pod", "it") if len(gone) == 1 else (f"{len(gone)} pods", "them")
    return f"{pods} ({some(gone, _NAMED_MAX)}) would not be made again, as no controller makes {them}" if gone else ""


def node_of(obj: Mapping[str, Any]) -> str:
    """Where a pod runs; "" for what is no pod."""
    spec = obj.get("spec")
    return str(spec.get("nodeName") or "") if obj.get("kind") == "Pod" and isinstance(spec, Mapping) else ""


def is_running(pod: Mapping[str, Any]) -> bool:
    """Whether it has a node, has not ended, and is not being deleted."""
    has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return bool(node_of(pod)) and not has_ended and not pod["metadata"].get("deletionTimestamp")


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
