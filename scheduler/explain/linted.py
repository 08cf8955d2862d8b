"""Pods of files, asked about as `explain` asks about pods: what does not fit is a finding at its place.

Rules of this module
  1. The pods of all files are tried together, one after another; what runs in the cluster is not asked about.
  2. Pods that are alike are explained once: those of one workload, and those with the same spec.
  3. A pod that would fit alone is explained beside those that took its place.
  4. Together they have one number of steps; what was left out for it is said.

Not here: findings about the files themselves (`scheduler.lint`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from allocator import Features
from scheduler.embedded.kinds.catalog import REPLICA_SET
from scheduler.embedded.loading import is_from_a_server
from scheduler.explain.explaining import explain_pod
from scheduler.explain.fix_search import BUDGET, STEPS_LEAST
from scheduler.explain.waiting import PODS_MAX
from scheduler.explain.world import BUDGET_STEPS, Ruling
from scheduler.framework.diagnosis import COMMAND, without_cause
from scheduler.lint.view import View, mapping, mappings, text
from scheduler.offline import OfflineCluster, PodResult, SourceObject, Verdict, decide, is_waiting, makes_pods
from scheduler.offline.offline_cluster import key_of
from scheduler.why.say import EVERYBODY

_GOOD: Final = (PodResult.FITS, PodResult.WAITS, PodResult.GATED)
_STEPS: Final = 4 * BUDGET
_LOOKS_OF_A_STEP: Final = 25
"""Steps of plugins that look for causes."""
_TURNS: Final = 20_000
_WRITTEN: Final = ("name", "namespace", "labels", "annotations", "ownerReferences")
_TOLD: Final = frozenset({"unknown-attribute", "unknown-driver", "unknown-class"})
"""What lint says of names that are written in a claim, a template or a class."""

_Key = tuple[str, str, str]
"""Kind, namespace and name."""


class _Alike:
    """Pods of one workload, or of one spec; `view` is the workload, or the first of the pods."""

    def __init__(self, view: View) -> None:
        self.view: Final = view
        self.fitting = 0
        self.others: Final[list[Verdict]] = []


class _Why(NamedTuple):
    """Why a pod does not fit, what to do, and which objects that is about."""

    kind: str
    cause: str
    fix: str = ""
    about: Sequence[str] = ()


def check_fit(views: Sequence[View], there: Sequence[SourceObject], *, now_ms: int, features: Features) -> list[str]:
    """Add a warning for all pods that do not fit beside what is there; what was not looked at."""
    if any(view.is_dra and _is_refused(view) for view in views):
        return ["which pods fit is not looked at: the API server refuses claims, classes or slices of these files"]
    running = set(_running(there))
    by_key = {_key(view.obj): view for view in views if not (view.is_left_out or _is_refused(view))}
    asked = {key: view for key, view in by_key.items() if makes_pods(view.obj) or _is_waiting(view.obj)}
    old = asked.keys() & running
    notes = [f"{len(old)} pods or workloads run in the cluster already, and are not asked about"] if old else []
    most = _autoscaled(views)
    objects = [one for one in there if (key := _key(one.obj)) not in asked or key in old]
    objects += [SourceObject("", view.obj) for key, view in by_key.items() if key not in asked]
    written = [_scaled(asked[key].obj, most.get(key, 0)) for key in asked if key not in old]
    cluster = OfflineCluster(now_ms)
    loaded = cluster.load([*objects, *(SourceObject("", obj) for obj in written)])
    groups: dict[str, _Alike] = {}
    pods: dict[tuple[str, str], Mapping[str, Any]] = {}
    alike: dict[tuple[str, str], _Alike] = {}
    for pod in cluster.pods():
        root = _root(pod, cluster)
        if root in asked and root not in old and is_waiting(pod):
            shape = json.dumps([root[1], pod["spec"]] if root[0] == "Pod" else root)
            alike[key_of(pod)] = groups.setdefault(shape, _Alike(asked[root]))
            pods[key_of(pod)] = pod
    tried = sorted(alike)[:PODS_MAX]
    if len(tried) < len(alike):
        notes.append(f"not all pods are looked at: {PODS_MAX} are, at most")
    answers = decide(cluster, features=features, budget_steps=BUDGET_STEPS, asked={*tried}, turns_max=_TURNS)
    for verdict in answers.verdicts:
        if verdict.outcome in _GOOD:
            alike[verdict.pod].fitting += 1
        elif verdict.outcome is not PodResult.UNKNOWN:
            alike[verdict.pod].others.append(verdict)
    if untried := sum(one.outcome is PodResult.UNKNOWN for one in answers.verdicts):
        notes.append(f"{untried} pods are not looked at: {_TURNS} turns of the scheduler went to others")
    explaining = _Explaining(objects, now_ms, features, _STEPS)
    for group in groups.values():
        if group.others:
            ruling = Ruling(answers, loaded, group.others[0])
            _tell(group, by_key, explaining.why(group, ruling, pods[group.others[0].pod]))
    return [*notes, *(["not all causes were looked for: the budget is used up"] if explaining.left <= 0 else ())]


@dataclass(slots=True)
class _Explaining:
    """Answers for the first of pods that are alike, while there are steps left, of 0.1 ms each.

    Attributes:
        objects: All but the pods that are asked about and what makes them.
    """

    objects: Sequence[SourceObject]
    now_ms: int
    features: Features
    left: int

    def why(self, group: _Alike, ruling: Ruling, pod: Mapping[str, Any]) -> _Why:
        """Alone, as `explain` says it; or beside the others, as for pods of a group."""
        assert ruling.verdict is not None
        budget = min(self.left, BUDGET)
        if budget > 0 and not group.fitting and "schedulingGroup" not in pod["spec"]:
            given = [*self.objects, SourceObject("", _as_written(pod))]
            answer = explain_pod(given, key_of(pod), now_ms=self.now_ms, features=self.features, budget=budget)
            self.left -= (1 + answer.questions) * max(STEPS_LEAST, len(given))
            if not answer.fits:
                fix = "; then ".join(one.change for one in answer.changes)
                return _Why(answer.kind, answer.cause, fix, answer.objects)
        found, steps = ruling.why(COMMAND.all_steps) if self.left > 0 else (None, 0)
        self.left -= steps // _LOOKS_OF_A_STEP
        fix = f"at most {group.fitting} of them, or room for the others" if group.fitting else ""
        if found is None:
            return _Why("unexplained", without_cause(ruling.verdict.reason), fix)
        return _Why(found.kind, found.cause(EVERYBODY), fix)


def _tell(group: _Alike, by_key: Mapping[_Key, View], why: _Why) -> None:
    """At the first object of the files that the answer is about, unless that says it already."""
    names = {"/".join((key[0].lower(), *key[1:])): view for key, view in by_key.items()}
    concerned = [names[one] for one in why.about if one in names]
    if any(finding.code in _TOLD for view in concerned for finding in view.findings):
        return
    many = group.fitting + len(group.others)
    message = f"[{why.kind}] {why.cause}" + (f"; {group.fitting} of {many} pods fit" if group.fitting else "")
    view = concerned[0] if concerned else group.view
    if not any(finding.message == message for finding in view.findings):
        view.warning("does-not-fit", ("metadata", "name"), message, why.fix)


def _key(obj: Mapping[str, Any]) -> _Key:
    return text(obj.get("kind")), *key_of(obj)


def _running(objects: Sequence[SourceObject]) -> Iterator[_Key]:
    """Pods that have a node, and workloads; a dump may have a ReplicaSet and not its Deployment."""
    for one in objects:
        if is_from_a_server(one.obj) and not _is_waiting(one.obj):
            yield _key(one.obj)
            yield from _controller(one.obj)


def _controller(obj: Mapping[str, Any]) -> Iterator[_Key]:
    for _, one in mappings(mapping(obj.get("metadata")).get("ownerReferences")):
        if one.get("controller"):
            yield text(one.get("kind")), key_of(obj)[0], text(one.get("name"))


def _root(pod: Mapping[str, Any], cluster: OfflineCluster) -> _Key:
    """The workload that makes a pod, or the pod."""
    key = next(_controller(pod), ("Pod", *key_of(pod)))
    between = cluster.api.find(REPLICA_SET.kind_id, *key[1:]) if key[0] == "ReplicaSet" else None
    return next(_controller(between), key) if between is not None else key


def _is_refused(view: View) -> bool:
    return any(finding.is_refusal for finding in view.findings)


def _autoscaled(views: Sequence[View]) -> dict[_Key, int]:
    """The most pods that an autoscaler makes of a workload."""
    most: dict[_Key, int] = {}
    for view in views:
        spec = mapping(view.obj.get("spec"))
        if view.kind == "HorizontalPodAutoscaler" and isinstance(spec.get("maxReplicas"), int):
            target = mapping(spec.get("scaleTargetRef"))
            most[text(target.get("kind")), view.namespace, text(target.get("name"))] = spec["maxReplicas"]
    return most


def _scaled(obj: dict[str, Any], most: int) -> dict[str, Any]:
    """With as many pods as an autoscaler makes, and no more than are looked at."""
    spec = mapping(obj.get("spec"))
    field = "parallelism" if obj.get("kind") == "Job" else "replicas"
    wanted = max(most, spec[field]) if isinstance(spec.get(field), int) else most
    return {**obj, "spec": {**spec, field: min(wanted, PODS_MAX + 1)}} if wanted > 1 else obj


def _is_waiting(obj: Mapping[str, Any]) -> bool:
    return obj.get("kind") == "Pod" and not mapping(obj.get("spec")).get("nodeName")


def _as_written(pod: Mapping[str, Any]) -> dict[str, Any]:
    """A pod that a workload made as a manifest, which knows its owner."""
    metadata = {name: one for name, one in pod["metadata"].items() if name in _WRITTEN}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}
