"""Several profiles in one machine: pods of each name are taken, by its plugins, weights and arguments."""

from __future__ import annotations

import itertools
from typing import Any

from allocator import Features
from scheduler.config.profile_config import ProfileConfig
from scheduler.core.ground.inputs import Input, RelistFinished, TimerFired
from scheduler.core.machine import Machine
from scheduler.core.observation import KINDS
from scheduler.framework.decisions import BindPod
from tests import builders
from tests.observed import observed

SMALL = {"cpu": "2", "memory": "4Gi", "pods": "110"}
BIG = {"cpu": "64", "memory": "128Gi", "pods": "110"}


def nodes_of(profiles: dict[str, dict[str, Any]], *nodes: Any, schedulers: tuple[str, ...] = ()) -> dict[str, str]:
    """By scheduler name the node to which its pod is bound; no name, no binding."""
    uids = itertools.count(1)
    machine = Machine(
        [
            ProfileConfig.model_validate({"schedulerName": name, **profile}).profile()
            for name, profile in profiles.items()
        ],
        features=Features(),
        new_uid=lambda: f"uid-{next(uids)}",
    )
    given: list[Input] = [observed(node) for node in nodes]
    requests = {"cpu": "1", "memory": "1Gi"}
    given += [observed(builders.pod(name, scheduler=name, requests=requests)) for name in schedulers or profiles]
    given += [*(RelistFinished(kind) for kind in sorted(KINDS)), *([TimerFired()] * 3)]
    decided = [one for number, observed in enumerate(given) for one in machine.handle(observed, now_ms=1_000 + number)]
    return {str(one.pod.name): str(one.node) for one in decided if isinstance(one, BindPod)}


def off(point: str, *names: str) -> dict[str, Any]:
    return {"plugins": {point: {"disabled": [{"name": name} for name in names]}}}


def test_pods_of_each_name_are_taken_and_of_no_other() -> None:
    found = nodes_of({"one": {}, "two": {}}, builders.node("n"), schedulers=("one", "two", "three"))

    assert found == {"one": "n", "two": "n"}


def test_what_a_profile_switches_off_rejects_nothing_there() -> None:
    cordoned = builders.node("n", unschedulable=True)
    profiles = {
        "all": {},
        "no-filter": off("filter", "NodeUnschedulable"),
        "not-at-all": off("multiPoint", "NodeUnschedulable"),
        "other": off("filter", "NodeName"),
    }

    assert nodes_of(profiles, cordoned) == {"no-filter": "n", "not-at-all": "n"}


def test_each_profile_has_its_arguments() -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu"}, {"name": "memory"}]}
    packing = {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}
    nodes = builders.node("small", allocatable=SMALL), builders.node("big", allocatable=BIG)

    assert nodes_of({"spreading": {}, "packing": packing}, *nodes) == {"spreading": "big", "packing": "small"}


def test_each_profile_has_its_weights() -> None:
    """The big node has a taint that is only to be avoided: what counts more decides."""
    avoided = ({"key": "k", "value": "", "effect": "PreferNoSchedule"},)
    nodes = builders.node("small", allocatable=SMALL), builders.node("big", allocatable=BIG, taints=avoided)
    room = {"plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 50}]}}}

    assert nodes_of({"taints": {}, "room": room}, *nodes) == {"taints": "small", "room": "big"}


def test_how_many_nodes_are_looked_at() -> None:
    def fitting(percentage: int | None) -> int:
        profile = ProfileConfig.model_validate({"percentageOfNodesToScore": percentage}).profile()
        return profile.enough_nodes(1_000, least=100)

    assert [fitting(one) for one in (None, 0, 1, 30, 100)] == [100, 100, 100, 300, 1_000]
