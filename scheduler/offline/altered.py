"""A cluster's objects altered before the scheduler is asked about them: copies of pods, something taken away.

Not here: what is played then (`playing`), what is written in files and options (`scheduler.cli.arrivals`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from allocator import DeviceId
from scheduler.model.nearest import listed, nearest, some
from scheduler.offline.alike import COPY_LABEL
from scheduler.offline.offline_cluster import OfflineCluster, SourceObject, key_of, name_of
from scheduler.validation.claim_refusals import results_of

COPIES_MAX: Final = 100_000
_LABEL_MAX: Final = 63
_NAMED_MAX: Final = 3
_COPIED: Final = ("Pod", "ResourceClaim", "PersistentVolumeClaim")
"""One for each copy; all else (templates, classes) is shared by them."""
_OF_ONE_NODE: Final = ("DaemonSet", "Node")
"""Who makes pods for that node only; of a node that is gone they are made nowhere else."""
_DEVICE: Final = "device/"


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
    """The objects without these, `KIND/NAME`, `KIND/NAMESPACE/NAME` or `device/POOL/DEVICE`.

    With a node go its slices and the pods on it; those that a controller would make again elsewhere wait for another
    node. So do the pods that hold a device that goes, and may come back to its node. What is no object of a kind that
    plays a role is left for loading, which says what is wrong with it.

    Raises:
        NoSuchObjectError: One is not there.
    """
    cluster = OfflineCluster(0)
    left = [one for one in given if cluster.is_well_shaped(one.obj)] if removed else []
    known = {id(one) for one in left}
    others = [one for one in given if id(one) not in known]
    for one in removed:
        if one.startswith(_DEVICE):
            left = _without_device(left, one.removeprefix(_DEVICE))
            continue
        kind, namespace, name = _parts(one)
        found = [item for item in left if _is_named(item.obj, kind, namespace, name)]
        if not kind or not name or not found:
            raise NoSuchObjectError(f"{one}: there is no such object; write node/NAME or pod/NAMESPACE/NAME")
        gone = {id(item) for item in found}
        left = [item for item in left if id(item) not in gone]
        for item in found:
            if item.obj["kind"] == "Node":
                left = _without_node(left, name)
    return [*left, *others]


def device_named(written: str, known: Iterable[DeviceId]) -> DeviceId:
    """The device that POOL/DEVICE or DRIVER/POOL/DEVICE means.

    Raises:
        NoSuchObjectError: None of the known ones is meant, or those of several drivers are.
    """
    there = sorted(set(known))
    found = [one for one in there if written in (f"{one.pool}/{one.device}", str(one))]
    if len(found) == 1:
        return found[0]
    if found:
        raise NoSuchObjectError(f"{written}: several drivers have such a device; write {' or '.join(map(str, found))}")
    is_whole = any(written.startswith(f"{one.driver}/") for one in there)
    names = {str(one) if is_whole else f"{one.pool}/{one.device}" for one in there}
    of_pool = {name for name in names if name.rpartition("/")[0] == written.rpartition("/")[0]} or names
    raise NoSuchObjectError(f"{written}: there is no such device; {nearest(written, of_pool) or listed(of_pool)}")


def not_made_again(given: Sequence[SourceObject], left: Sequence[SourceObject], removed: Sequence[str]) -> str:
    """Which pods ran and are gone with what was taken away, as nothing makes them again; "" where none is."""
    kept = {key_of(one.obj) for one in left if one.obj.get("kind") == "Pod"}
    gone = [
        "/".join(key_of(one.obj))
        for one in given
        if node_of(one.obj)
        and key_of(one.obj) not in kept
        and is_running(one.obj)
        and not any(_is_named(one.obj, *_parts(name)) for name in removed)
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


def _parts(written: str) -> tuple[str, str, str]:
    """Kind, namespace ("" where none is written) and name."""
    kind, _, name = written.partition("/")
    namespace, _, name = name.rpartition("/")
    return kind, namespace, name


def _is_named(obj: Mapping[str, Any], kind: str, namespace: str, name: str) -> bool:
    own = str((obj.get("metadata") or {}).get("namespace") or "default")
    kinds = (str(obj.get("kind", "")).lower(), f"{obj.get('kind', '')}s".lower())
    return kind.lower() in kinds and name_of(obj) == name and (not namespace or namespace == own)


def _without_node(given: Sequence[SourceObject], node: str) -> list[SourceObject]:
    gone = {_uid(item.obj) for item in given if node_of(item.obj) == node}
    kinds = ("ResourceSlice", node)
    left = [one for one in given if (one.obj.get("kind"), (one.obj.get("spec") or {}).get("nodeName")) != kinds]
    return _made_again(left, gone, _OF_ONE_NODE)


def _without_device(given: Sequence[SourceObject], written: str) -> list[SourceObject]:
    slices = (one.obj for one in given if one.obj.get("kind") == "ResourceSlice")
    try:
        device = device_named(written, (name for obj in slices for name in _devices(obj)))
    except NoSuchObjectError as error:
        raise NoSuchObjectError(f"{_DEVICE}{error}") from error
    gone: set[str] = set()
    left = []
    for item in given:
        obj = item.obj
        if obj.get("kind") == "ResourceSlice" and device in _devices(obj):
            devices = [one for one in obj["spec"]["devices"] if one.get("name") != device.device]
            left.append(item._replace(obj={**obj, "spec": {**obj["spec"], "devices": devices}}))
            continue
        if obj.get("kind") == "ResourceClaim" and device in _devices(obj):
            gone.update(str(user.get("uid")) for user in obj["status"].get("reservedFor") or ())
        left.append(item)
    return _made_again(left, gone, _OF_ONE_NODE[1:])


def _devices(obj: Mapping[str, Any]) -> set[DeviceId]:
    """Those that a slice publishes, or that a claim holds and others lack meanwhile."""
    spec = obj.get("spec") or {}
    own = {"driver": spec.get("driver"), "pool": (spec.get("pool") or {}).get("name")}
    found = (
        [{**own, "device": one.get("name")} for one in spec.get("devices") or ()]
        if obj.get("kind") == "ResourceSlice"
        else [one for one in results_of(obj.get("status") or {}) if not one.get("adminAccess")]
    )
    return {DeviceId(*(str(one.get(field)) for field in DeviceId._fields)) for one in found}


def _uid(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("uid"))


def _made_again(given: Sequence[SourceObject], gone: Collection[str], ends: Collection[str]) -> list[SourceObject]:
    """Pods of these uids wait, without what they had.

    Args:
        ends: Kinds of controllers whose pods end, as those without a controller do.
    """
    left = []
    for item in given:
        obj = item.obj
        if node_of(obj) and _uid(obj) in gone:
            owners = (obj.get("metadata") or {}).get("ownerReferences") or ()
            if all(one.get("kind") in ends for one in owners if one.get("controller")):
                continue
            spec = {key: value for key, value in obj["spec"].items() if key != "nodeName"}
            statuses = (obj.get("status") or {}).get("resourceClaimStatuses")
            status = {"phase": "Pending", **({"resourceClaimStatuses": statuses} if statuses else {})}
            left.append(SourceObject(item.place, {**obj, "spec": spec, "status": status}))
        elif obj.get("kind") == "ResourceClaim":
            left.append(SourceObject(item.place, _released(obj, gone)))
        else:
            left.append(item)
    return left


def _released(claim: Mapping[str, Any], gone: Collection[str]) -> Mapping[str, Any]:
    """Without what only pods had that are gone."""
    status = claim.get("status") or {}
    consumers = status.get("reservedFor") or []
    left = [one for one in consumers if one.get("uid") not in gone]
    if len(left) == len(consumers):
        return claim
    return {**claim, "status": {**status, "reservedFor": left} if left else {}}
