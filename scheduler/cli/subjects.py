"""Pods and claims by the names that people give them: `web`, `pod/web`, `team/web`, `deploy/web`, `claim/gpu`.

A workload's name means its pods: by their owner references, and where the ReplicaSet or Job between is not among the
objects by its name, which a Deployment makes of its own and a hash, and a CronJob of its own and a number.

Not here: in which namespace a name is looked for (`cluster_question`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.cluster_question import CommandInput, Key, keys_of
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.known_names import KINDS, LISTS

if TYPE_CHECKING:
    from scheduler.offline import SourceObject

_NEVER: Final = frozenset(
    {"node", "nodes", "no", "service", "services", "svc", "deviceclass", "deviceclasses", "resourceslice"}
    | {"resourceslices", "resourceclaimtemplate", "resourceclaimtemplates", "namespace", "namespaces", "ns"}
)
"""Kinds whose names are taken for namespaces else."""
_HASH_LABEL: Final = "pod-template-hash"
_FORMS: Final = "give NAME or pod/NAME, claim/NAME, or deploy/, rs/, sts/, ds/, job/ or cronjob/NAME"


@dataclass(frozen=True, slots=True)
class Subject:
    """What was written: the kind, and NAME or NAMESPACE/NAME."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Meant:
    """What it means among the objects.

    Attributes:
        key: Of the claim or pod.
        workload: KIND NAMESPACE/NAME where a workload was named, else "".
        pods, waiting: All pods of the workload, and those that wait, by name; `key` is the first of these.
    """

    kind: str
    key: Key
    workload: str = ""
    pods: tuple[Key, ...] = ()
    waiting: tuple[Key, ...] = ()


def read_subject(words: Sequence[str]) -> Subject:
    """NAME, KIND/NAME, NAMESPACE/NAME, KIND/NAMESPACE/NAME, or KIND and one of these as two words.

    Raises:
        UsageError: It has no such form.
    """
    parts = "/".join(words).split("/")
    word = parts[0].partition(".")[0].lower()
    kind = KINDS.get(word)
    name = parts if kind is None else parts[1:]
    is_wrong = len(words) > 2 or (len(words) == 2 and kind is None) or (len(parts) > 1 and word in _NEVER)
    if is_wrong or len(name) not in (1, 2) or not all(name):
        raise click.UsageError(f"{_shown(' '.join(words))}: {_FORMS}, or pod/NAMESPACE/NAME")
    return Subject(kind or "pod", "/".join(name))


def _shown(written: str) -> str:
    """As it can be printed, whatever characters it has."""
    return repr(written) if written.isprintable() else ascii(written)


def meant(asked: CommandInput, subject: Subject, now_ms: int) -> Meant:
    """The pod, claim or workload that is meant.

    Raises:
        WrongInputError: There is none, several, or a workload without pods.
    """
    if subject.kind == "claim":
        return Meant("claim", asked.find("claim", subject.name, keys_of(asked.given, "ResourceClaim")))
    if subject.kind == "pod":
        known = keys_of(asked.given, "Pod")
        if not any(key[1] == subject.name.rpartition("/")[2] for key in known):
            known |= {_key(pod) for pod in _pods(asked, now_ms)}
        return Meant("pod", asked.find("pod", subject.name, known))
    return _of_workload(asked, subject, now_ms)


def is_a_name(written: str) -> bool:
    """Whether what may be a file or a name is a name: no such file is there, and it does not look like one."""
    return written != "-" and not written.endswith((".yaml", ".yml", ".json")) and not Path(written).exists()


def pod_named(asked: CommandInput, written: str, now_ms: int) -> SourceObject:
    """The pod that NAME, or the first that waits of a workload's, is among the objects.

    Raises:
        WrongInputError: There is none.
    """
    subject = read_subject([written])
    if subject.kind == "claim":
        raise click.UsageError(f"{_shown(written)} is not a pod")
    key = meant(asked, subject, now_ms).key
    for one in asked.given:
        if one.obj.get("kind") == "Pod" and _key(one.obj) == key:
            return one
    from scheduler.offline import SourceObject

    (made,) = [pod for pod in _pods(asked, now_ms) if _key(pod) == key]
    return SourceObject(f"pod {'/'.join(key)}", made)


def pods_meant(asked: CommandInput, written: str, known: Iterable[Key], now_ms: int) -> set[Key]:
    """The pods among the known ones that an option --pod means: one, or a workload's that wait."""
    subject = read_subject([written])
    if subject.kind == "claim":
        raise click.UsageError(f"{_shown(written)} is not a pod; ask about a claim with --claim")
    if subject.kind == "pod":
        return {asked.find("pod", subject.name, known)}
    return {*_of_workload(asked, subject, now_ms).waiting}


def _of_workload(asked: CommandInput, subject: Subject, now_ms: int) -> Meant:
    from scheduler.offline import OfflineCluster, is_waiting
    from scheduler.offline.siblings import controller_of

    kind = LISTS[subject.kind][0]
    between = {
        (str(one.obj.get("kind")), *_key(one.obj)): found
        for one in asked.given
        if one.obj.get("kind") in ("ReplicaSet", "Job") and (found := controller_of(one.obj))
    }
    pods: dict[Key, dict[Key, bool]] = {key: {} for key in keys_of(asked.given, kind)}
    for pod in _pods(asked, now_ms):
        for of_kind, owner in _owners(pod, between):
            if of_kind == kind:
                pods.setdefault(owner, {})[_key(pod)] = isinstance(pod.get("spec"), Mapping) and is_waiting(pod)
    key = asked.find(subject.kind, subject.name, pods)
    workload = f"{subject.kind} {'/'.join(key)}"
    if not pods[key]:
        problems = OfflineCluster(now_ms).load(asked.given).problems
        why = [f"; {one}" for one in problems if one.name == f"{kind} {key[1]}"]
        raise WrongInputError(f"{workload} has no pods among these objects{''.join(why)}")
    everyone = sorted(pods[key])
    waiting = tuple(one for one in everyone if pods[key][one])
    return Meant("pod", (*waiting, *everyone)[0], workload, tuple(everyone), waiting)


def _pods(asked: CommandInput, now_ms: int) -> list[Mapping[str, Any]]:
    """All pods, those that workloads of files make among them."""
    from scheduler.offline import OfflineCluster, makes_pods

    pods = {_key(one.obj): one.obj for one in asked.given if one.obj.get("kind") == "Pod"}
    if any(makes_pods(one.obj) for one in asked.given):
        cluster = OfflineCluster(now_ms)
        cluster.load(asked.given)
        pods |= {_key(pod): pod for pod in cluster.pods()}
    return list(pods.values())


def _owners(
    pod: Mapping[str, Any], between: Mapping[tuple[str, str, str], tuple[str, str]]
) -> Iterator[tuple[str, Key]]:
    """Kind, namespace and name of who makes the pod, and of who makes that."""
    from scheduler.offline.siblings import controller_of

    found = controller_of(pod)
    if found is None:
        return
    (kind, name), namespace = found, _key(pod)[0]
    yield kind, (namespace, name)
    if above := between.get((kind, namespace, name)):
        yield above[0], (namespace, above[1])
        return
    labels = _mapping(_mapping(pod.get("metadata")).get("labels"))
    suffix = f"-{labels.get(_HASH_LABEL)}"
    if kind == "ReplicaSet" and name.endswith(suffix):
        yield "Deployment", (namespace, name.removesuffix(suffix))
    elif kind == "Job" and (made := re.fullmatch(r"(.+)-\d+", name)):
        yield "CronJob", (namespace, made[1])


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _key(obj: Mapping[str, Any]) -> Key:
    metadata = _mapping(obj.get("metadata"))
    return str(metadata.get("namespace") or "default"), str(metadata.get("name"))
