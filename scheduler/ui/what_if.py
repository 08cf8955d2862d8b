"""What if: the cluster's objects altered and played beside what is. Nothing is written.

One question at a time is played; so many wait for it, and whoever comes beyond them is refused.

Answers are those of the commands `simulate`, `make-room` and `drain-device` (`scheduler.offline`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from scheduler.config.settings import Config
from scheduler.explain.waiting import Key
from scheduler.lint.documents import ManifestError, parse_documents
from scheduler.offline import OfflineCluster, SourceObject, name_of
from scheduler.offline.altered import NoSuchObjectError, copies, is_running, node_of, not_made_again, renamed, without
from scheduler.offline.drain_plan import document_of as drain_document
from scheduler.offline.draining import drain_device
from scheduler.offline.making_room import make_room
from scheduler.offline.offline_cluster import key_of
from scheduler.offline.playing import document_of, find_refusals, play, profiles_with
from scheduler.offline.room_plan import document_of as room_document
from scheduler.offline.simulation import Simulated
from scheduler.offline.verdicts import PodResult
from scheduler.ui.data_source import STEPS_MAX, TURNS_MAX, Objects, Source
from scheduler.ui.pod_timeline import pod_in
from scheduler.ui.responses import Document, first_notes

MANIFEST_MAX: Final = 256 * 1024
COPIES_MAX: Final = 500
_PODS_MAX: Final = 500
_ROWS_MAX: Final = 200
_QUESTIONS_MAX: Final = 2_000
_WAITING_MAX: Final = 4
_WRITTEN: Final = ("name", "namespace", "labels", "annotations")


class WrongQuestionError(ValueError):
    """It asks for nothing, for what is not there, or for too much."""


class BusyError(Exception):
    """Others are being answered."""


@dataclass(frozen=True, slots=True)
class WhatIfRequest:
    """One of: objects more, copies of a pod that is there, a node less, room for a pod, a device to drain."""

    manifest: str = ""
    pod: Key | None = None
    copies: int = 1
    without: str = ""
    room: Key | None = None
    drain: str = ""


class WhatIf:
    """Answers questions, one after the other. A question that nobody waits for has its turn until it has ended."""

    def __init__(self, source: Source) -> None:
        self._source: Final = source
        self._turn: Final = asyncio.Lock()
        self._waiting = 0

    async def answer(self, question: WhatIfRequest) -> Document:
        """Raises WrongQuestionError, and BusyError where too many wait."""
        if self._waiting >= _WAITING_MAX:
            raise BusyError(f"{_WAITING_MAX} questions wait already; ask again in a moment")
        self._waiting += 1
        try:
            async with self._turn, self._source.playing:
                return (await self._source.play(lambda read: answer(read, question, self._source.config)))[1]
        finally:
            self._waiting -= 1


def answer(objects: Objects, question: WhatIfRequest, config: Config | None = None) -> Document:
    """What would become of the pods that the question is about.

    Raises:
        WrongQuestionError: It names what is not there, is too large, or cannot be read.
    """
    try:
        if question.room is not None:
            return _room(objects, question.room, config)
        if question.drain:
            return _drain(objects, question.drain, config)
        given, asked = _altered(objects.given, question)
    except (ManifestError, NoSuchObjectError) as error:
        raise WrongQuestionError(str(error)) from error
    lost = not_made_again(objects.given, given, [f"node/{question.without}"]) if question.without else ""
    profile = profiles_with(config, objects.features, {}, preempts=True)
    only = partial(_asked, asked)
    played = play(given, (), features=objects.features, profile=profile, only=only, turns_max=TURNS_MAX)
    problems = [*objects.unlisted, *played.problems]
    if played.is_whole:
        find_refusals(played, steps_max=STEPS_MAX)
    else:
        problems.append(
            f"not played to the end: {TURNS_MAX} turns of the scheduler were used up; simulate has no bound"
        )
    found: Document = document_of(played)
    return {
        **found,
        "text": " ".join(filter(None, (_text(played, question), lost and f"{lost}."))),
        "pods": found["pods"][:_ROWS_MAX],
        "more": max(0, len(found["pods"]) - _ROWS_MAX),
        "evicted": [*_evicted(given, played)],
        "notes": played.notes,
        "problems": problems,
    }


def _altered(given: Sequence[SourceObject], question: WhatIfRequest) -> tuple[Sequence[SourceObject], Collection[Key]]:
    """The objects, and namespace and name of the pods that are not asked about, or are asked about alone."""
    there = {key_of(one.obj) for one in given if one.obj.get("kind") == "Pod"}
    if question.without:
        moved = {key_of(one.obj) for one in given if node_of(one.obj) == question.without}
        left = without(given, [f"node/{question.without}"])
        gone = there - {key_of(one.obj) for one in left if one.obj.get("kind") == "Pod"}
        return left, there - moved | gone
    if question.pod is not None:
        if not 1 <= question.copies <= COPIES_MAX:
            raise WrongQuestionError(f"the number of copies must be from 1 to {COPIES_MAX}")
        return [*given, *copies([*_with_claims(given, question.pod)], question.copies)], there
    if not question.manifest.strip():
        raise WrongQuestionError("there is nothing in the manifest")
    if len(question.manifest.encode()) > MANIFEST_MAX:
        raise WrongQuestionError(f"the manifest is larger than {MANIFEST_MAX // 1024} KiB: use dra-scheduler simulate")
    written = [SourceObject(str(one.place()), one.obj) for one in parse_documents(question.manifest, "manifest")]
    _check(written)
    replaced = {(one.obj.get("kind"), key_of(one.obj)) for one in written}
    kept = [one for one in given if (one.obj.get("kind"), key_of(one.obj)) not in replaced]
    return [*kept, *written], {key_of(one.obj) for one in kept if one.obj.get("kind") == "Pod"}


def _asked(others: Collection[Key], cluster: OfflineCluster) -> set[Key]:
    pods = [(str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])) for pod in cluster.pods()]
    refused = [problem.pod for problem in cluster.loaded.problems if problem.pod is not None]
    asked = {key for key in (*pods, *refused) if key not in others}
    if len(asked) > _PODS_MAX:
        raise WrongQuestionError(f"{len(asked)} pods are asked about, and the page plays {_PODS_MAX} at most")
    return asked


def _with_claims(given: Sequence[SourceObject], key: Key) -> Iterator[SourceObject]:
    """A pod as somebody would have written it, under a name that is not taken, and the claims that it names."""
    found = pod_in(given, key)
    if found is None:
        raise WrongQuestionError(f"no pod is named {'/'.join(key)}")
    _check([found])
    spec = found.obj.get("spec") or {}
    volumes = (one.get("persistentVolumeClaim") or {} for one in spec.get("volumes") or ())
    named = {("ResourceClaim", str(one.get("resourceClaimName"))) for one in spec.get("resourceClaims") or ()}
    named |= {("PersistentVolumeClaim", str(one.get("claimName"))) for one in volumes}
    claims = [one for one in given if key_of(one.obj)[0] == key[0] and (one.obj.get("kind"), name_of(one.obj)) in named]
    there = {(one.obj["kind"], name_of(one.obj)) for one in claims}
    for one in (*claims, found):
        yield SourceObject(one.place, renamed(_as_written(one.obj), _new_name, there))


def _check(given: Iterable[SourceObject]) -> None:
    cluster = OfflineCluster(0, pods_max=_PODS_MAX)
    for one in given:
        if wrong := cluster.misshapen(one.obj):
            raise WrongQuestionError(f"{one.place}: {wrong}")
        if wrong := cluster.too_many_pods(one.obj):
            raise WrongQuestionError(f"{one.place}: {one.obj['kind']} {name_of(one.obj)}: {wrong}")


def _new_name(name: str) -> str:
    return f"what-if-{name}"[:240].rstrip("-.")


def _as_written(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Without what servers and controllers have set."""
    metadata = {field: obj["metadata"][field] for field in _WRITTEN if obj["metadata"].get(field)}
    spec = {field: value for field, value in (obj.get("spec") or {}).items() if field not in ("nodeName", "volumeName")}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "spec": spec}


def _room(objects: Objects, key: Key, config: Config | None) -> Document:
    waits = pod_in(objects.given, key)
    if waits is None or node_of(waits.obj):
        raise WrongQuestionError(f"no pod that waits is named {'/'.join(key)}")
    room = make_room(
        objects.given, [waits], config, objects.features, questions_max=_QUESTIONS_MAX, steps_max=STEPS_MAX
    )
    return {**room_document(room, None), "problems": [*objects.unlisted, *room.problems]}


def _drain(objects: Objects, device: str, config: Config | None) -> Document:
    drain = drain_device(
        objects.given, device, config, objects.features, questions_max=_QUESTIONS_MAX, steps_max=STEPS_MAX
    )
    found = drain_document(drain)
    return {
        **found,
        "holders": found["holders"][:_ROWS_MAX],
        "more": max(0, len(found["holders"]) - _ROWS_MAX),
        "notes": [*first_notes(found["notes"], _ROWS_MAX)],
        "problems": [*objects.unlisted, *drain.problems],
    }


def _text(played: Simulated, question: WhatIfRequest) -> str:
    if question.without:
        if not played.pods:
            return f"No pod would need another node without {question.without}."
        return f"Without {question.without}, {played.placed} of its {len(played.pods)} pods would run elsewhere."
    if not played.pods:
        return "There is no pod in it that waits for a scheduler."
    untried = sum(pod.outcome is PodResult.UNKNOWN for pod in played.pods)
    waits = f"{played.placed} of {len(played.pods)} would run, {played.refused - untried} would wait"
    return f"{waits}, {untried} were not tried to the end." if untried else f"{waits}."


def _evicted(given: Sequence[SourceObject], played: Simulated) -> Iterator[str]:
    """Pods that run now and would have to go for others."""
    left = {
        (pod.namespace, pod.name)
        for pod in played.answers.cluster.stored_pods()
        if not pod.obj["metadata"].get("deletionTimestamp")
    }
    for one in given:
        if is_running(one.obj) and key_of(one.obj) not in left:
            yield "/".join(key_of(one.obj))
