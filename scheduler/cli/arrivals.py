"""What `simulate` is told to change: arrivals in JSON lines, copies of manifests, objects that are taken away.

Not here: playing them (`scheduler.offline.simulation`).
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import click
import orjson

from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.manifests import Document, open_manifests, read_text
from scheduler.lint.documents import ManifestError
from scheduler.offline.cluster import Given, OfflineCluster, name_of
from scheduler.offline.simulation import Arrival

_COPIES: Final = re.compile(r"(\d+)x(.+)")
_COPIES_MAX: Final = 100_000
_COPIED: Final = ("Pod", "ResourceClaim", "PersistentVolumeClaim")
"""One for each copy; all else (templates, classes) is shared by them."""
_SECONDS_MAX: Final = 10**9


def read_arrivals(path: str) -> list[Arrival]:
    """One line an arrival: `{"at": seconds, "for": seconds or null, "objects": [Pod, its claims, …]}`.

    Raises:
        WrongInputError: The file cannot be read, or a line is none; names file, line and field.
    """
    try:
        name, text = read_text(path)
    except ManifestError as error:
        raise WrongInputError(str(error)) from error
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                found.append(_arrival(line, f"{name}:{number}"))
            except ValueError as error:
                raise WrongInputError(f"{name}:{number}: {error}") from error
    return found


def shuffled(arrivals: Sequence[Arrival], seed: int) -> list[Arrival]:
    """The same arrivals at the same times, in another order."""
    drawn = list(arrivals)
    random.Random(seed).shuffle(drawn)  # noqa: S311 no secret
    return [Arrival(at.at_s, one.for_s, one.objects) for at, one in zip(arrivals, drawn, strict=True)]


def _arrival(line: str, place: str) -> Arrival:
    try:
        given = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValueError('not an object; write {"at": 0, "for": null, "objects": [{"kind": "Pod", …}]}')
    unknown = sorted(given.keys() - {"at", "for", "objects"})
    if unknown:
        raise ValueError(f"unknown field {unknown[0]}; there are at, for and objects")
    objects = given.get("objects")
    if not isinstance(objects, list) or not objects:
        raise ValueError("objects: must be a list with at least a Pod")
    for index, obj in enumerate(objects):
        if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str):
            raise ValueError(f"objects[{index}]: must be an object with a kind")
        if not isinstance(obj.get("metadata"), dict) or not isinstance(obj["metadata"].get("name"), str):
            raise ValueError(f"objects[{index}].metadata.name: must be there")
    for_s = _seconds(given["for"], "for") if given.get("for") is not None else None
    return Arrival(_seconds(given.get("at", 0), "at"), for_s, tuple(Given(place, obj) for obj in objects))


def _seconds(given: Any, field: str) -> Fraction:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= _SECONDS_MAX:
        raise ValueError(f"{field}: must be a number of seconds from 0 to {_SECONDS_MAX}")
    return Fraction(str(given))


def read_copies(written: Sequence[str]) -> list[Given]:
    """The objects of `--add`: `FILE`, or `40xFILE` for that many copies of its pods and claims."""
    return [given for one in written for given in _copies(one)]


def _copies(written: str) -> Iterator[Given]:
    counted = _COPIES.fullmatch(written)
    count, path = (int(counted[1]), counted[2]) if counted else (1, written)
    if not 1 <= count <= _COPIES_MAX:
        raise click.UsageError(f"--add {written}: the number of copies must be from 1 to {_COPIES_MAX}")
    documents = open_manifests([path])
    cluster = OfflineCluster(0)
    for document in documents:
        if wrong := cluster.misshapen(document.obj):
            raise WrongInputError(f"--add {path}: {document.place()}: {wrong}")
    if counted is None:
        yield from (Given(str(document.place()), document.obj) for document in documents)
        return
    many: list[Document] = []
    once: list[Document] = []
    for one in documents:
        is_copied = one.obj.get("kind") in _COPIED and cluster.is_well_shaped(one.obj)
        (many if is_copied else once).append(one)
    copied = {(one.obj.get("kind"), name_of(one.obj)) for one in many}
    yield from (Given(str(document.place()), document.obj) for document in once)
    for number in range(1, count + 1):
        for document in many:
            yield Given(str(document.place()), _numbered(document.obj, number, copied))


def _numbered(obj: Mapping[str, Any], number: int, copied: set[tuple[Any, str]]) -> dict[str, Any]:
    """A copy with `-NUMBER` after its name, and after the names of claims that are copied with it."""
    new = copy.deepcopy(dict(obj))
    if name_of(obj):  # the API server names those with generateName
        new["metadata"] = {**new["metadata"], "name": f"{name_of(obj)}-{number}"}
    spec = new.get("spec") if new.get("kind") == "Pod" else None
    if isinstance(spec, dict):
        for entry in spec.get("resourceClaims") or ():
            if ("ResourceClaim", entry.get("resourceClaimName")) in copied:
                entry["resourceClaimName"] += f"-{number}"
        for volume in spec.get("volumes") or ():
            source = volume.get("persistentVolumeClaim") or {}
            if ("PersistentVolumeClaim", source.get("claimName")) in copied:
                source["claimName"] += f"-{number}"
    return new


def take_away(given: Sequence[Given], removed: Sequence[str]) -> list[Given]:
    """The objects without those of `--remove`: `KIND/NAME` or `KIND/NAMESPACE/NAME`.

    With a node go its slices and the pods on it; those that a controller would make again wait for another node. What
    is no object of a kind that plays a role is left for loading, which says what is wrong with it.
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
            raise click.UsageError(f"--remove {one}: there is no such object; write node/NAME or pod/NAMESPACE/NAME")
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


def _without_node(given: Sequence[Given], node: str) -> list[Given]:
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
                if not any(one.get("controller") for one in (obj.get("metadata") or {}).get("ownerReferences") or ()):
                    continue
                spec = {key: value for key, value in spec.items() if key != "nodeName"}
                statuses = (obj.get("status") or {}).get("resourceClaimStatuses")
                status = {"phase": "Pending", **({"resourceClaimStatuses": statuses} if statuses else {})}
                left.append(Given(item.place, {**obj, "spec": spec, "status": status}))
            case "ResourceClaim":
                left.append(Given(item.place, _released(obj, gone)))
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
