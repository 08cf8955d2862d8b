"""What `simulate` has to change: arrivals in JSON lines, copies of manifests, objects that are taken away.

Not here: playing them (`scheduler.offline.simulation`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

import click
import orjson

from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.manifests import open_manifests, read_text
from scheduler.lint.documents import ManifestError
from scheduler.offline.altered import COPIES_MAX, NoSuchObjectError, copies, without
from scheduler.offline.offline_cluster import OfflineCluster, SourceObject
from scheduler.offline.simulation import Arrival

_COPIES: Final = re.compile(r"(\d+)x(.+)")
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
    return Arrival(_seconds(given.get("at", 0), "at"), for_s, tuple(SourceObject(place, obj) for obj in objects))


def _seconds(given: Any, field: str) -> Fraction:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= _SECONDS_MAX:
        raise ValueError(f"{field}: must be a number of seconds from 0 to {_SECONDS_MAX}")
    return Fraction(str(given))


def read_copies(written: Sequence[str]) -> list[SourceObject]:
    """The objects of `--add`: `FILE`, or `40xFILE` for that many copies of its pods and claims."""
    return [given for one in written for given in _copies(one)]


def _copies(written: str) -> Iterator[SourceObject]:
    counted = _COPIES.fullmatch(written)
    count, path = (int(counted[1]), counted[2]) if counted else (1, written)
    if not 1 <= count <= COPIES_MAX:
        raise click.UsageError(f"--add {written}: the number of copies must be from 1 to {COPIES_MAX}")
    documents = open_manifests([path])
    cluster = OfflineCluster(0)
    for document in documents:
        if wrong := cluster.misshapen(document.obj):
            raise WrongInputError(f"--add {path}: {document.place()}: {wrong}")
    given = [SourceObject(str(document.place()), document.obj) for document in documents]
    yield from given if counted is None else copies(given, count)


def take_away(given: Sequence[SourceObject], removed: Sequence[str]) -> list[SourceObject]:
    """The objects without those of `--remove`."""
    try:
        return without(given, removed)
    except NoSuchObjectError as error:
        raise click.UsageError(f"--remove {error}") from error
