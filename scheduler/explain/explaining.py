"""A pod or claim explained: the scheduler's verdict, the change that is found to help, the nodes with their reasons.

Rules of this module
  1. The cause that is said is that of a change which made the pod fit; where none did, what the plugins say, or the
     scheduler's sentence.
  2. A question about a claim is one about a pod that waits for it; where none does, about a pod with that claim alone.
  3. The pod is asked about with its group, or beside the pods of its owner that wait and fit: other pods that wait are
     counted in a note.

Not here: changes (the plugins, `object_edits`) and their `fix_search`, the words of a pod that does not fit
(`wording`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from allocator import DeviceId, Features
from scheduler.config.kube_scheduler import KubeProfile
from scheduler.config.profile_config import ProfileConfig
from scheduler.config.settings import Config
from scheduler.explain.asked_objects import Objects
from scheduler.explain.fix_search import Search
from scheduler.explain.object_edits import given_up, object_edits
from scheduler.explain.placed import scores_and_groups
from scheduler.explain.pod_explanation import Device, Explanation
from scheduler.explain.selector_failures import selector_failures
from scheduler.explain.wording import ANEW, cut, explanation_of, unserved
from scheduler.explain.world import Ruling, World
from scheduler.framework.diagnosis import COMMAND
from scheduler.model.keys import PodUid
from scheduler.model.nearest import near, some
from scheduler.model.pod_group import group_key
from scheduler.offline import (
    OfflineCluster,
    PodResult,
    Reasons,
    SourceObject,
    devices_of,
    is_waiting,
    makes_pods,
)
from scheduler.offline.after_binding import given_out_twice
from scheduler.offline.group_mates import nominated
from scheduler.offline.offline_cluster import key_of
from scheduler.offline.reasons import NodeGroup, RequestFunnel
from scheduler.offline.siblings import with_made
from scheduler.offline.verdicts import BUDGET_STEPS, answering
from scheduler.validation.claim_refusals import results_of
from scheduler.why.reasons import Diagnosis
from scheduler.why.say import Reader

_OWN: Final = ("dra-scheduler", "default-scheduler")
_PREEMPTED: Final = "Preempted"  # the reason of a victim's event
_VICTIMS_SAID: Final = 3


class NotThereError(ValueError):
    """No such pod or claim; the text names those there are."""


def explain_pod(
    given: Sequence[SourceObject],
    key: tuple[str, str],
    *,
    now_ms: int,
    features: Features,
    config: Config | None = None,
    steps_max: int = COMMAND.all_steps,
) -> Explanation:
    """Explain one pod; `key` is namespace and name.

    Args:
        steps_max: For looking at all nodes, about 4 us each, and as many for what would help, but not more than by
            default; what was not looked at is said. Fewer than by default where others wait for the answer.

    Raises:
        NotThereError: No pod has this name.
    """
    return _explained(World(given, key, now_ms, features, config), steps_max)


def _explained(world: World, steps_max: int = COMMAND.all_steps) -> Explanation:
    world, ruling = _asked(world)
    if ruling.verdict is None:
        pods = sorted("/".join(key_of(pod)) for pod in ruling.answers.cluster.pods())
        raise NotThereError(f"no pod is named {'/'.join(world.pod)}; there are: {', '.join(pods[:10]) or 'none'}")
    objects = Objects(world)
    notes, problems = _notes(ruling, objects), ruling.loaded.problems
    # What could change the answer; a refusal of the asked pod is the answer.
    left_out = (*(str(one) for one in problems if one.concerns_others), *ruling.answers.left_out.texts)
    # Before changes are asked about: these end the use of the machine.
    verdict, reasons = ruling.verdict, Reasons(ruling.answers, budget_steps=BUDGET_STEPS, steps_max=steps_max)
    groups, funnels = tuple[NodeGroup, ...](), tuple[RequestFunnel, ...]()
    if verdict.outcome in (PodResult.UNSCHEDULABLE, PodResult.ERROR) and not verdict.node:
        groups = tuple([one.cut() for one in reasons.of(verdict)])
        funnels = reasons.funnels(verdict) if verdict.outcome is PodResult.UNSCHEDULABLE else ()
    search = Search(world, min(steps_max, COMMAND.all_steps))
    answer, _ = _answer(ruling, objects, search)
    answer = structs.replace(answer, left_out=left_out, notes=(*notes, *answer.notes))
    answer = structs.replace(answer, siblings=ruling.siblings, siblings_fit=ruling.fit)
    if answer.outcome in ("bound", "fits"):
        why, scores, groups = scores_and_groups(world, ruling, str(answer.node), steps_max)
        return structs.replace(answer, advice=f"{answer.advice}; {why}", scores=scores, nodes=groups)
    return structs.replace(answer, nodes=groups, funnels=funnels)


def explain_briefly(world: World, steps_max: int) -> tuple[Explanation, str, int]:
    """The same without nodes and notes; its cause for readers of the pod's namespace; what is left of the steps."""
    world, ruling = _asked(world)
    search = Search(world, steps_max)
    answer, why = _answer(ruling, Objects(world), search)
    return answer, why.cause(Reader(world.pod[0])) if why is not None else answer.cause, search.steps


def _asked(world: World) -> tuple[World, Ruling]:
    """The world in which the pod is asked about, and what is said there."""
    if any(makes_pods(one.obj) for one in world.objects):
        cluster = OfflineCluster(world.now_ms, world.checked, world.decoded)
        cluster.load(world.objects)
        world = replace(world, objects=with_made(world.objects, cluster))
    ruling = world.ask()
    if ruling.loaded.problems:  # their fields may be anything
        world = replace(world, objects=_well_formed(world.objects, ruling.answers.cluster)[0])
    return world, ruling


def _answer(ruling: Ruling, objects: Objects, search: Search) -> tuple[Explanation, Diagnosis | None]:
    """All but the nodes, and notes on the question; and why it does not fit, where that was looked for."""
    assert ruling.verdict is not None
    key, spec = objects.world.pod, objects.pod.get("spec") or {}
    subject, name = f"pod/{'/'.join(key)}", f"pod {'/'.join(key)}"
    if ruling.fits:
        answer = _fitting(subject, name, ruling, bool(spec.get("nodeName")))
        if not spec.get("nodeName") and (known := nearest_served(objects.pod, _served(objects))):
            return _unserved(answer, name, str(spec.get("schedulerName")), known), None
        return answer, None
    if ruling.verdict.node and spec.get("nodeName"):
        return _stuck(subject, name, ruling.verdict.reason), None
    failures = tuple(selector_failures(ruling, objects)) if ruling.verdict.outcome is PodResult.ERROR else ()
    waits = ruling.verdict.outcome is PodResult.WAITS
    found = (given_up(objects) if waits else None) or search.smallest(ruling, object_edits(objects))
    return explanation_of(found, ruling, objects, failures)


def explain_claim(
    given: Sequence[SourceObject],
    key: tuple[str, str],
    *,
    now_ms: int,
    features: Features,
    config: Config | None = None,
) -> Explanation:
    """Explain one claim: by a pod that waits for it, or by one that has nothing else.

    Raises:
        NotThereError: No claim has this name.
    """
    namespace, name = key
    given, broken = _well_formed(given, OfflineCluster(now_ms))
    world = World(given, key, now_ms, features, config)
    objects = Objects(world)
    if not (claim := objects.find("ResourceClaim", name, namespace)):
        there = ", ".join(sorted(objects.names("ResourceClaim", namespace))[:10])
        raise NotThereError(f"no ResourceClaim is named {namespace}/{name}; there are: {there or 'none'}")
    subject = f"claim/{namespace}/{name}"
    if devices := _allocated(claim[1]):
        shown = ", ".join(f"{one.driver}/{one.pool}/{one.device}" for one in devices)
        users = ", ".join(str(one.get("name")) for one in claim[1]["status"].get("reservedFor") or ()) or "no pod"
        return Explanation(
            subject=subject,
            fits=True,
            outcome="bound",
            verdict=f"claim {namespace}/{name} is allocated: {shown}",
            advice=f"reserved for {users}",
            devices=devices,
        )
    for _, pod in objects.of("Pod"):
        asked = replace(world, pod=key_of(pod))
        if asked.pod[0] == namespace and is_waiting(pod) and any(one is claim[1] for _, one in Objects(asked).claims()):
            answer = _explained(asked)
            return structs.replace(answer, subject=subject, notes=(*answer.notes, *broken))
    probe = _only_pod(namespace, name)
    given = [*given, SourceObject("claim", probe)]
    answer = _explained(replace(world, objects=given, pod=key_of(probe)))
    note = f"no pod waits for the claim: asked for a pod that has nothing but it, {probe['metadata']['name']}"
    return structs.replace(answer, subject=subject, notes=(note, *answer.notes, *broken))


def _well_formed(given: Sequence[SourceObject], cluster: OfflineCluster) -> tuple[list[SourceObject], tuple[str, ...]]:
    """The objects whose fields have the types that the API says; and what is wrong with the others."""
    kept: list[SourceObject] = []
    broken: list[str] = []
    for one in given:
        problem = cluster.misshapen(one.obj)
        if problem:
            broken.append(f"{one.place}: {problem}")
        else:
            kept.append(one)
    return kept, tuple(broken)


def _only_pod(namespace: str, claim: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"only-{claim}"[:63].rstrip("-."), "namespace": namespace},
        "spec": {
            "schedulerName": _OWN[0],
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "claim"}]}}],
            "resourceClaims": [{"name": "claim", "resourceClaimName": claim}],
        },
    }


def _allocated(claim: Mapping[str, Any]) -> tuple[Device, ...]:
    name = str(claim["metadata"]["name"])
    return tuple(
        Device(claim=name, **{key: str(one.get(key)) for key in ("request", "driver", "pool", "device")})
        for one in results_of(claim.get("status") or {})
    )


def _stuck(subject: str, name: str, message: str) -> Explanation:
    """It has a node, and nobody allocates its claim."""
    cause, _, advice = message.partition(". ")
    return Explanation(
        subject=subject,
        fits=False,
        outcome="unschedulable",
        message=message,
        kind="unexplained",
        cause=cause,
        verdict=f"{name} cannot start: {cause}",
        advice=advice,
    )


def _unserved(answer: Explanation, name: str, scheduler: str, known: str) -> Explanation:
    """It would fit, but nobody seems to look at it."""
    step = unserved(scheduler, known)
    return structs.replace(
        answer,
        fits=False,
        outcome="unserved",
        verdict=f"{name} waits though it fits on node {answer.node} [{step.kind}]: {cut(step.cause)}",
        advice=f"to make it start: {step.change}{ANEW['pod']}",
        changes=(step,),
        kind=step.kind,
        cause=step.cause,
        node=None,
        devices=(),
    )


def _served(objects: Objects) -> set[str]:
    return served_in(one for _, one in objects.of("Pod"))


def served_in(pods: Iterable[Mapping[str, Any]]) -> set[str]:
    """The schedulers that have placed pods, and those that are always known."""
    specs = [one.get("spec") or {} for one in pods]
    return {*_OWN, *(str(spec.get("schedulerName") or _OWN[1]) for spec in specs if spec.get("nodeName"))}


def nearest_served(pod: Mapping[str, Any], served: Collection[str]) -> str:
    """Which scheduler's name the pod's is likely misspelt from; "" where it is served, or like none."""
    name = str((pod.get("spec") or {}).get("schedulerName") or _OWN[1])
    return near(name, sorted(served), 0.75) if name not in served else ""


def _fitting(subject: str, name: str, ruling: Ruling, is_bound: bool) -> Explanation:
    assert ruling.verdict is not None
    rows = devices_of(ruling.answers, ruling.verdict)
    fields = ("claim", "request", "driver", "pool", "device")
    devices = tuple(Device(**{key: str(row[key]) for key in fields}) for row in rows)
    ids = [DeviceId(one.driver, one.pool, one.device) for one in devices]
    shown = ", ".join(map(str, ids))
    verb = "is bound to" if is_bound else "fits: it would run on"
    return Explanation(
        subject=subject,
        fits=True,
        outcome="bound" if is_bound else "fits",
        node=ruling.verdict.node,
        verdict=f"{name} {verb} node {ruling.verdict.node}",
        advice=f"devices: {shown}" if shown else "it has no devices",
        devices=devices,
        notes=tuple(filter(None, (given_out_twice(ruling.answers.machine, one) for one in ids if is_bound))),
    )


def _done_here(ruling: Ruling, world: World, name: str) -> str:
    """What this scheduler would do for a pod that kube-scheduler lets wait: its group's places, room; else ""."""
    verdict, pods = ruling.verdict, ruling.answers.machine.store.pods
    asked = pods.get(PodUid(verdict.uid)) if verdict is not None else None
    if verdict is None or asked is None or verdict.outcome is not PodResult.UNSCHEDULABLE or verdict.node:
        return ""
    group = group_key(asked)
    holds = (one.node_name and one.spec.resource_claims and one.priority < asked.priority for one in pods.values())
    if group is None and not any(holds):
        return ""
    config = (world.config or Config()).model_copy(update={"profiles": (ProfileConfig(scheduler_name=name),)})
    ours = replace(world, config=config).ask()
    said = ours.answers.notes
    gone = [str(pods[PodUid(uid)].key) for uid, notes in said.items() if _PREEMPTED in {reason for reason, _ in notes}]
    if gone:
        return f"{_OWN[0]} would preempt for it: {some(sorted(gone), _VICTIMS_SAID)}"
    return f"{_OWN[0]} would place group {group} together" if group is not None and ours.fits else ""


def _notes(ruling: Ruling, objects: Objects) -> tuple[str, ...]:
    loaded, siblings = ruling.loaded, ruling.siblings
    notes = [*map(str, loaded.problems), *ruling.answers.left_out.texts, *loaded.notes, *loaded.foreign_groups]
    name = str((objects.pod.get("spec") or {}).get("schedulerName") or _OWN[1])
    config = objects.world.config
    profiles = [one.scheduler_name for one in config.profiles] if config is not None else []
    if isinstance(answering(config, name), KubeProfile):
        whose = "its default plugins" if name not in profiles else "the plugins of its configuration"
        release = objects.world.features.kubernetes
        notes.append(f"the pod's scheduler is {name}: answered as kube-scheduler {release} would, with {whose}")
        notes += filter(None, [_done_here(ruling, objects.world, name)])
    elif len(profiles) > 1 and name not in profiles:
        known = ", ".join(profiles)
        notes.append(f"the pod's schedulerName is {name}; the file's profiles are {known}: answered with the first")
    elif name not in _served(objects):
        notes.append(
            f"no pod that has a node names the scheduler {name}: does it run? Answered as if it were {_OWN[0]}"
        )
    elif name != _OWN[0]:
        notes.append(f"the pod's scheduler is {name}: answered with the default plugins, as this scheduler has them")
    if ruling.fit:
        waits = "1 other pod of its owner waits" if siblings == 1 else f"{siblings} other pods of its owner wait"
        notes.append(f"{waits}, too: asked about as if the {ruling.fit} of them that fit had their places")
    tried = ruling.answers.tried
    tried_first = {key_of(one) for one in ruling.answers.cluster.pods() if one["metadata"]["uid"] in tried}
    for _, one in objects.of("Pod"):
        if key_of(one) in tried_first - {objects.world.pod} and (node := nominated(one)):
            notes.append(f"pod {'/'.join(key_of(one))} was tried, too: node {node} is kept for it (nominatedNodeName)")
    waiting = sum(is_waiting(one) and one["metadata"]["uid"] not in tried for one in ruling.answers.cluster.pods())
    if waiting > 0 and not (objects.pod.get("spec") or {}).get("nodeName"):
        notes.append(f"{waiting} other pods wait, too, and are left out here: they may be tried first")
    return tuple(notes)
