"""The real machine, plugins and allocator in worlds of faults: safe at every step, and progress at last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler.core.writes.claim_writes import ClaimWrites
from scheduler.framework.diagnosis import SEPARATOR
from tests.sim.groups import GroupWorld
from tests.sim.hostile_groups import HostileGroupWorld
from tests.sim.mutants import MUTANTS, Mutant, notice
from tests.sim.placement import PlacementWorld
from tests.sim.two_stacks import TwoStacksWorld
from tests.sim.world import Conditions, World

ROOT = Path(__file__).resolve().parents[2]


def run(seed: int, conditions: Conditions | None = None) -> World:
    world = World(seed, conditions or Conditions())
    try:
        return world.run()
    except BaseException as error:
        error.add_note(f"seed {seed}; the last steps:\n" + "\n".join(world.trace[-120:]))
        raise


def test_no_device_twice_no_pod_lost(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("number", range(int(os.environ.get("SIM_PLACEMENTS", "20"))))
def test_pods_that_stand_in_each_others_way(number: int) -> None:
    """Ports, labels, spread, affinity and requests: after each change, nothing that could run stays pending."""
    PlacementWorld(number).run()


@pytest.mark.parametrize(
    "number", range(int(os.environ.get("SIM_STACKS", "1000" if os.environ.get("NIGHTLY") else "40")))
)
def test_a_device_plugin_and_a_driver_on_one_node(number: int) -> None:
    """Whatever is lost, refused or restarted: never more pods than devices, and nobody waits who could run."""
    TwoStacksWorld(number).run()


def test_two_processes_of_one_name(seed: int) -> None:
    """Whatever a lease says: a process that slept, or was cut off, takes nothing away from what the other has bound."""
    run(seed, Conditions(focus={"twins": 1}))


@pytest.mark.parametrize("number", range(int(os.environ.get("SIM_SEEDS", "100"))))
def test_groups_are_placed_whole_or_not_at_all(number: int) -> None:
    """Whatever is lost, refused, restarted or deleted; and every group that can be whole is bound at last."""
    GroupWorld(number).run()


@pytest.mark.parametrize("number", range(int(os.environ.get("SIM_GROUPS", "30"))))
def test_searches_of_groups_pause_while_everything_changes(number: int) -> None:
    """No pod of a PodGroup that was not seen, no constraint broken, nothing held for a part of a group."""
    HostileGroupWorld(number).run()


def test_pods_make_room_for_others(seed: int) -> None:
    """Whatever is lost, refused or restarted: only less important pods, one set at a time, and nothing kept at last."""
    run(seed, Conditions(focus={"preempts": 1, "devices": 1 + seed % 2, "pods_max": 16, "twins": seed % 7 == 3}))


def test_causes_are_said_in_worlds_of_faults() -> None:
    """What is supposed for them stays nowhere, and every pod that fits runs at last."""
    worlds = [run(number, Conditions(reports_causes=True)) for number in (5, 7)]
    assert any(SEPARATOR in line for world in worlds for line in world.trace)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutants_are_noticed(mutant: Mutant) -> None:
    """The core broken on purpose: some world shows it, or the simulation is worth little."""
    assert any(notice(mutant, seed) for seed in mutant.seeds())


def test_the_worlds_are_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods are bound, writes are lost and land late: else the checks would check nothing."""
    joined = []
    join = ClaimWrites.join
    monkeypatch.setattr(ClaimWrites, "join", lambda *given: joined.append(join(*given)) or joined[-1])
    worlds = [World(seed).run() for seed in range(60)]
    assert sum(joined) > 5  # reservations that another pod's write carried
    assert sum(len(world.server.bindings) for world in worlds) > 120
    told = [line for world in worlds for line in world.trace if "reason='DeviceConflict'" in line]
    assert any("allocation is withdrawn" in line for line in told)
    assert any("bound already" in line for line in told)
    traces = "\n".join(line for world in worlds for line in world.trace)
    for seen in (
        "WriteOutcomeUnknown",
        "~ delayed",
        "WriteConflicted",
        "replace default/",
        "restart",
        "relist",
        "FailedScheduling",
        "DeviceConflict",
    ):
        assert seen in traces


@pytest.mark.parametrize(
    "focus",
    [
        {"devices": 2, "extended": 0, "has_volumes": 0},
        {"devices": 6, "extended": 1e9, "has_volumes": 0},
    ],
    ids=["claims", "extended-resources"],
)
def test_a_restart_after_any_write_loses_nothing(focus: dict[str, float]) -> None:
    """The machine is killed after the first, the second, … write that lands; the next one finishes or cleans up."""
    kills = 0
    for kill_after in range(1, 13):
        world = World(7, Conditions(has_faults=False, steps=0, focus={**focus, "cruelty": 0.0}))
        for _ in range(3):
            world.create_pod()
        while world.owed_claims:
            world.generate_claim()
        landed, is_killed = 0, False
        for _ in range(400):
            if not world.process.unlisted:
                world.fire()
            world.watch_one()
            before = world.server.revision
            world.send_one()
            landed += world.server.revision > before
            if landed == kill_after and not is_killed:
                world.start_machine()  # what was decided or on its way is lost
                is_killed = True
            world.answer_one()
        world.settle()
        kills += is_killed
        assert all(pod.node_name for pod in world.server.pods.values())
        world.clean_up()
    assert kills >= 9
