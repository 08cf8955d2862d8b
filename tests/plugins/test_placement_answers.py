"""`placement` through the core, with the workload learnt: equal answers however they are found, and no pod refused."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from allocator.placement import pieces
from allocator.placement.ranks import Strategy
from scheduler.core.trying.alike_nodes import AlikeNodes
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.plugins.dynamic_resources.placing import PlacementMemory, empty_some
from scheduler.plugins.dynamic_resources.plugin import DynamicResources
from tests import builders
from tests.core.rig import Rig
from tests.plugins.test_placement import RANKED, device, profile, rig_with

ROOT = Path(__file__).resolve().parents[2]
PODS = 70
"""More than the 50 that are best fit, before a workload is in use."""
AMOUNTS = (20, 50, 50, 80, 100)


def rig_that_remembers(strategy: Strategy, *, is_paranoid: bool = False) -> Rig:
    return rig_of(PlacementMemory(strategy), is_paranoid=is_paranoid)


def rig_of(memory: PlacementMemory, *, is_paranoid: bool = False) -> Rig:
    plugins = [one for one in profile(memory.strategy.value).plugins if one.name != "NodeResourcesBalancedAllocation"]
    return Rig(
        *[replace(one, memory=memory) if isinstance(one, DynamicResources) else one for one in plugins],
        is_paranoid=is_paranoid,
        checks_invariants=False,
    )


def fill(rig: Rig, seed: int, *, alike: int = 0, pods: int = PODS) -> list[tuple[Any, ...]]:
    """Five nodes whose GPUs are shared, and pods that ask for more than there is; each with its node and devices.

    Args:
        alike: So many nodes that are all the same instead.
    """
    draw = random.Random(seed)
    rig.server.put_class(builders.device_class())
    for number in range(alike or 5):
        name = f"n{number}"
        cpu, gpus = ("64", 8) if alike else (str(draw.choice([8, 16, 64])), draw.choice([4, 8]))
        rig.add_nodes(name, allocatable={"cpu": cpu, "memory": "64Gi", "pods": "110"})
        devices = tuple(device(f"gpu-{index}", is_shared=True) for index in range(gpus))
        rig.server.put_slice(builders.resource_slice(f"s-{name}", node=name, devices=devices))
    for number in range(pods):
        amount = draw.choice(AMOUNTS)
        exactly = {
            "deviceClassName": builders.CLASS,
            "allocationMode": "ExactCount",
            "count": draw.choice([1, 1, 2, 4]) if amount == 100 else 1,
            "capacity": {"requests": {"memory": str(amount)}},
        }
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        rig.server.put_claim(builders.claim(f"c{number}", spec=spec))
        rig.add_pod(f"p{number}", claims=(f"c{number}",), requests={"cpu": f"{draw.choice([100, 500, 900])}m"})
        rig.settle()
    return [placed(rig, number) for number in range(pods)]


def placed(rig: Rig, number: int) -> tuple[Any, ...]:
    allocation = rig.server.claims[ClaimKey("default", f"c{number}")].allocation
    devices = [str(one) for one in allocation.device_ids()] if allocation is not None else []
    return rig.server.pods[PodKey("default", f"p{number}")].node_name, devices


def digest(seed: int) -> str:
    answers = [fill(rig_with(strategy.value), seed) for strategy in RANKED]
    return hashlib.sha256(repr(answers).encode()).hexdigest()


@pytest.mark.parametrize("strategy", RANKED, ids=lambda one: one.value)
@pytest.mark.parametrize("seed", [1, 2])
def test_answers_are_the_same_with_no_rank_remembered(
    strategy: Strategy, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_memory = fill(rig_that_remembers(strategy), seed)
    monkeypatch.setattr(pieces, "PARTS_MAX", 0)  # each answer is forgotten with the next
    assert fill(rig_that_remembers(strategy), seed) == with_memory


@pytest.mark.slow
@pytest.mark.parametrize("strategy", RANKED, ids=lambda one: one.value)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_pod_waits_that_first_fit_finds_a_place_for(strategy: Strategy, seed: int) -> None:
    """First fit observes the cluster that the rank has led to, and tries all that waits."""
    ranked = rig_with(strategy.value)
    before = fill(ranked, seed)
    assert {node is None for node, _ in before} == {True, False}, "some are placed, some wait"
    again = rig_with("firstFit")
    again.server = ranked.server
    again.settle()
    assert [placed(again, number) for number in range(PODS)] == before


def test_answers_are_the_same_where_little_is_remembered_and_what_is_given_up_is_freed(monkeypatch) -> None:
    expected = fill(rig_that_remembers(Strategy.FRAGMENTATION), 1)
    monkeypatch.setattr(pieces, "PARTS_MAX", 64)
    memory = PlacementMemory(Strategy.FRAGMENTATION)
    rig = rig_of(memory)
    assert fill(rig, 1) == expected
    for number in range(4):
        rig.add_pod(f"late-{number}", requests={"cpu": "100m"})
        rig.settle()
    assert memory.workload.generation > 0
    assert memory._given_up == []


def test_what_is_full_is_freed_in_parts() -> None:
    full: list[dict[Any, Any]] = [dict.fromkeys(range(600)), dict.fromkeys(range(100))]
    sizes = []
    while full:
        empty_some(full)
        sizes.append([len(one) for one in full])
    assert sizes == [[188], []]


def test_states_of_nodes_with_many_devices_are_fewer_in_what_is_remembered() -> None:
    assert not pieces.is_full(range(20_000), 8)
    assert pieces.is_full(range(20_000), 128)


@pytest.mark.parametrize("strategy", [Strategy.BEST_FIT, Strategy.FRAGMENTATION], ids=lambda one: one.value)
def test_answers_are_the_same_where_each_of_the_alike_nodes_is_asked_about(strategy, monkeypatch) -> None:
    asked: list[str] = []
    filter_ = DynamicResources.filter

    def counted(self, cycle, node, view):
        asked.append(node.name)
        return filter_(self, cycle, node, view)

    monkeypatch.setattr(DynamicResources, "filter", counted)
    answers, counts = [fill(rig_that_remembers(strategy, is_paranoid=True), 4, alike=12, pods=56)], []
    asked.clear()
    for shares in (True, False):
        if not shares:
            monkeypatch.setattr(AlikeNodes, "plugins_of", lambda self, plan, cycle: ())
        answers.append(fill(rig_that_remembers(strategy), 4, alike=12, pods=56))
        counts.append(len(asked))
        asked.clear()
    assert answers[0] == answers[1] == answers[2]
    assert counts[0] + 50 < counts[1]


def test_a_restart_learns_the_workload_anew_from_the_pods_that_run() -> None:
    memory, anew = [PlacementMemory(Strategy.FRAGMENTATION) for _ in range(2)]
    before, again = rig_of(memory), rig_of(anew)
    assert None not in [node for node, _ in fill(before, 5, alike=12, pods=50)]
    again.server = before.server
    again.add_pod("new", requests={"cpu": "7"})
    again.settle()
    assert len(memory.workload.in_use) > 2
    assert {*anew.workload.in_use} == {*memory.workload.in_use}


@pytest.mark.slow
def test_ranks_that_look_ahead_use_what_they_learnt() -> None:
    """Else the tests above would compare best fit with itself."""
    answers = {repr(fill(rig_with(strategy.value), 1)) for strategy in RANKED}
    assert len(answers) > 1
