"""`simulate` for whoever asks, in a terminal or on the page: objects played by the scheduler of a configuration.

Not here: playing itself (`simulation`), altering objects beforehand (`altered`), room and shapes (`making_room`,
`node_shapes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

from msgspec import to_builtins

from allocator import Features
from scheduler.config import Config
from scheduler.config.profile_config import ProfileConfig
from scheduler.framework.api import Profile
from scheduler.framework.cycle import UNLIMITED_STEPS
from scheduler.model.nearest import nearest
from scheduler.offline.offline_cluster import OfflineCluster, SourceObject
from scheduler.offline.reasons import Reasons
from scheduler.offline.simulation import Arrival, Played, Sample, Simulated, Simulation
from scheduler.offline.verdicts import (
    BUDGET_STEPS,
    TURNS_MAX,
    Answers,
    Run,
    answering,
    new_machine,
    scheduler_name_of,
    stacks_of,
)

BEGIN_MS: Final = 1_800_000_000_000
"""What the clock shows at the beginning: the same each time, so that equal input gives equal output."""
_OWN: Final = ("dra-scheduler", "default-scheduler")
_REFUSALS_MAX: Final = 100
"""Pods of which is said node by node why they wait: of each owner and reason the first, then others."""

Progress = Callable[[int], AbstractContextManager[Callable[[], None]]]
"""Of so many arrivals; what it gives is called after each."""


def _unseen(length: int) -> AbstractContextManager[Callable[[], None]]:
    return nullcontext(lambda: None)


def profiles_with(
    config: Config | None, features: Features, given: Mapping[str, Any], *, preempts: bool
) -> Callable[[str], Profile]:
    """What answers for a scheduler's name, with these arguments in its profile."""
    config = config or Config()

    def of_name(name: str) -> Profile:
        found = answering(config, name)
        base = found.model_dump(by_alias=True, exclude_unset=True)
        entries = {entry["name"]: entry for entry in base.get("pluginConfig", ())}
        args = (entries.get("DynamicResources") or {}).get("args") or {}
        args |= {field: value for field, value in given.items() if value is not None}
        entries["DynamicResources"] = {"name": "DynamicResources", "args": args}
        profile = ProfileConfig.model_validate({**base, "pluginConfig": [*entries.values()]})
        made = profile.profile(nodes=config.node_selector, slices=config.slice_selector, features=features)
        plugins = tuple(one for one in made.plugins if preempts or one.name != "DefaultPreemption")
        # Pods may name any scheduler, one whose name no configuration could have among them.
        return replace(made, scheduler_name=name, plugins=plugins, stacks=stacks_of(config, found))

    return of_name


def play(
    given: Sequence[SourceObject],
    arrivals: Sequence[Arrival],
    *,
    features: Features,
    profile: Callable[[str], Profile],
    is_offered_once: bool = False,
    samples: int = 0,
    only: Callable[[OfflineCluster], set[tuple[str, str]] | None] = lambda cluster: None,
    progress: Progress = _unseen,
    turns_max: int = TURNS_MAX,
) -> Simulated:
    """Play objects to the end.

    Args:
        samples: About how many moments to keep.
        only: The pods that are asked about, where not all are: the others that wait are not there.
        turns_max: As of `Run`; who was not tried then has no outcome (UNKNOWN).
    """
    cluster = OfflineCluster(BEGIN_MS)
    cluster.load(given)
    chosen = only(cluster)
    waiting = [
        pod
        for pod in cluster.stored_pods()
        if not pod.obj["spec"].get("nodeName") and (chosen is None or (pod.namespace, pod.name) in chosen)
    ]
    names = {scheduler_name_of(pod.obj) for pod in waiting}
    names |= {
        scheduler_name_of(one.obj)
        for arrival in arrivals
        for one in arrival.objects
        if one.obj.get("kind") == "Pod" and isinstance(one.obj.get("spec"), dict)
    }
    served = {*_OWN, *(scheduler_name_of(pod) for pod in cluster.pods() if pod["spec"].get("nodeName"))}
    machine = new_machine(names, profile, features)
    run = Run(cluster, Answers(machine, cluster, {pod.uid for pod in waiting}), turns_max)
    simulation = Simulation(cluster, run, only=chosen, is_offered_once=is_offered_once)
    with progress(len(arrivals)) as on_arrival:
        played = simulation.play(arrivals, samples=samples, on_arrival=on_arrival)
    played.notes += [*cluster.loaded.foreign_groups, *(_unserved(name, served) for name in sorted(names - served))]
    return played


def _unserved(name: str, served: set[str]) -> str:
    """Of pods whose scheduler has placed nobody."""
    hint = f"; {meant}" if (meant := nearest(name, served)) else ""
    return f"no pod that has a node names the scheduler {name}: answered as if it ran, and were {_OWN[0]}{hint}"


def find_refusals(played: Simulated, budget_steps: int = BUDGET_STEPS, steps_max: int = UNLIMITED_STEPS) -> None:
    """Why nodes refuse pods that wait, node by node; the arguments are those of `Reasons`."""
    reasons = Reasons(played.answers, budget_steps=budget_steps, steps_max=steps_max)
    alike = [pods for _, pods in played.alike()]
    waiting = [*(pods[0] for pods in alike), *(pod for pods in alike for pod in pods[1:])]
    for pod in [one for one in waiting if not one.has_place and one.ended_s is None][:_REFUSALS_MAX]:
        pod.refusals = reasons.of(pod)


def document_of(played: Simulated) -> dict[str, Any]:
    """The answer for programs."""
    return {
        "placed": played.placed,
        "refused": played.refused,
        "end": float(played.end_s),
        "allocated": {
            name: {"share": round(float(one.share), 6), "devices": one.devices, "used": round(float(one.used), 6)}
            for name, one in played.allocated.items()
        },
        "pods": [row_of(pod) for pod in played.pods],
        **({"overTime": [_moment(one) for one in played.over_time]} if played.over_time else {}),
    }


def _moment(sample: Sample) -> dict[str, Any]:
    return {
        "at": float(sample.at_s),
        "waiting": sample.waiting,
        "allocated": {
            name: {"share": round(float(one.share), 6), "fragmentation": round(float(one.fragmentation), 6)}
            for name, one in sample.allocated.items()
        },
    }


def row_of(pod: Played) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "outcome": str(pod.outcome),
        "at": float(pod.at_s),
        "bound": None if pod.bound_s is None else float(pod.bound_s),
        "ended": None if pod.ended_s is None else float(pod.ended_s),
        "node": pod.node or None,
        "devices": pod.devices,
        **({"reason": pod.reason} if pod.reason else {}),
        **({"refusals": [to_builtins(one.cut()) for one in pod.refusals]} if pod.refusals else {}),
    }
