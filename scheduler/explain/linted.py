"""Pods of files, asked about as `explain` asks about pods: what does not fit is a finding at its place.

Rules of this module
  1. The pods of all files are tried together, one after another; what runs or waits in the cluster is not asked about.
  2. Of equal pods of one workload, or with one cause, one finding speaks.

Not here: what is so of the pods (`waiting`), findings about the files themselves (`scheduler.lint`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from allocator import Features
from scheduler.embedded.loading import is_from_a_server
from scheduler.explain.waiting import PODS_MAX, Waiting, alike, ask_all
from scheduler.lint.pod_rules import autoscaled
from scheduler.lint.view import View, mapping, text
from scheduler.offline import PodResult, SourceObject, makes_pods
from scheduler.offline.offline_cluster import key_of
from scheduler.offline.siblings import controller_of

_GOOD: Final = tuple(map(str, (PodResult.FITS, PodResult.WAITS, PodResult.GATED)))
_UNTRIED: Final = str(PodResult.UNKNOWN)
_TURNS: Final = 20_000
_TOLD: Final = frozenset({"unknown-attribute", "unknown-driver", "unknown-class"})
"""What lint says of names that are written in a claim, a template or a class."""

_Key = tuple[str, str, str]
"""Kind, namespace and name."""


def check_fit(views: Sequence[View], there: Sequence[SourceObject], *, now_ms: int, features: Features) -> list[str]:
    """Add a warning for all pods that do not fit beside what is there; what was not looked at."""
    if any(view.is_dra and _is_refused(view) for view in views):
        return ["which pods fit is not looked at: the API server refuses claims, classes or slices of these files"]
    running = set(_running(there))
    by_key = {_key(view.obj): view for view in views if not (view.is_left_out or _is_refused(view))}
    asked = {key: view for key, view in by_key.items() if makes_pods(view.obj) or _is_waiting(view.obj)}
    old = asked.keys() & running
    notes = [f"{len(old)} pods or workloads run in the cluster already, and are not asked about"] if old else []
    most = autoscaled(views)
    objects = [one for one in there if not _is_waiting(one.obj) and ((key := _key(one.obj)) not in asked or key in old)]
    objects += [SourceObject("", view.obj) for key, view in by_key.items() if key not in asked]
    objects += [SourceObject("", _scaled(asked[key].obj, most.get(key, 0))) for key in asked if key not in old]
    answers = ask_all(objects, now_ms=now_ms, features=features, turns_max=_TURNS)
    if len(answers.pods) < answers.count:
        notes.append(f"not all pods are looked at: {PODS_MAX} are, at most")
    if untried := sum(one.outcome == _UNTRIED for one in answers.pods):
        notes.append(f"{untried} pods are not looked at: {_TURNS} turns of the scheduler went to others")
    if any(one.is_first_look for one in answers.pods):
        notes.append("not all causes were looked for: the budget is used up")
    by_name = {"/".join((key[0].lower(), *key[1:])): view for key, view in by_key.items()}
    made = Counter(one.maker.edited for one in answers.pods)
    fitting = Counter(one.maker.edited for one in answers.pods if one.outcome in _GOOD)
    for group in alike(one for one in answers.pods if one.outcome not in (*_GOOD, _UNTRIED)):
        edited = group[0].maker.edited
        if (view := by_name.get(edited.replace(" ", "/"))) is not None:
            _tell(group[0], view, by_name, fitting[edited], made[edited])
    return notes


def _tell(pod: Waiting, view: View, by_name: Mapping[str, View], fitting: int, made: int) -> None:
    """At the first object of the files that the answer is about, unless that says it already."""
    concerned = [by_name[one] for one in pod.objects if one in by_name]
    if any(finding.code in _TOLD for one in concerned for finding in one.findings):
        return
    message = f"[{pod.kind or 'unexplained'}] {pod.cause}" + (f"; {fitting} of {made} pods fit" if fitting else "")
    fix = pod.change or (f"at most {fitting} of them, or room for the others" if fitting else "")
    at = concerned[0] if concerned else view
    if not any(finding.message == message for finding in at.findings):
        at.warning("does-not-fit", ("metadata", "name"), message, fix)


def _key(obj: Mapping[str, Any]) -> _Key:
    return text(obj.get("kind")), *key_of(obj)


def _running(objects: Sequence[SourceObject]) -> Iterator[_Key]:
    """Pods that have a node, and workloads; a dump may have a ReplicaSet and not its Deployment."""
    for one in objects:
        if is_from_a_server(one.obj) and not _is_waiting(one.obj):
            yield _key(one.obj)
            if (owner := controller_of(one.obj)) is not None:
                yield owner[0], key_of(one.obj)[0], owner[1]


def _is_refused(view: View) -> bool:
    return any(finding.is_refusal for finding in view.findings)


def _scaled(obj: dict[str, Any], most: int) -> dict[str, Any]:
    """With as many pods as an autoscaler makes, and no more than are looked at."""
    spec = mapping(obj.get("spec"))
    field = "parallelism" if obj.get("kind") == "Job" else "replicas"
    wanted = max(most, spec[field]) if isinstance(spec.get(field), int) else most
    return {**obj, "spec": {**spec, field: min(wanted, PODS_MAX + 1)}} if wanted > 1 else obj


def _is_waiting(obj: Mapping[str, Any]) -> bool:
    return obj.get("kind") == "Pod" and not mapping(obj.get("spec")).get("nodeName")
