"""Stories: written as JSON lines, read back, replayed."""

from __future__ import annotations

import json

import pytest

from allocator import Features
from scheduler.core.inputs import ClassObserved, SliceObserved, TimerFired
from scheduler.core.machine import Machine
from scheduler.core.story import Entry, StoryError, decode_entry, encode_entry, replay
from scheduler.framework.api import Profile
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.plugins import TinyDevices
from tests.core.rig import Rig
from tests.sim.world import Conditions, World


def tiny_machine(new_uid) -> Machine:
    return Machine([Profile(builders.SCHEDULER, (TinyDevices(),))], features=Features(), new_uid=new_uid)


def story_of(**settings) -> list[str]:
    rig = Rig(TinyDevices(), story_entries_max=10_000, **settings)
    rig.add_nodes("a", "b")
    for name in ("c1", "c2", "c3"):
        rig.server.put_claim(builders.claim(name))
        rig.add_pod("p" + name, claims=(name,))
    rig.settle()
    rig.wait(5_000)
    assert rig.machine.story.is_complete
    return list(rig.machine.story.lines())


def test_a_story_replays_exactly():
    lines = story_of()
    assert replay(lines, tiny_machine) == len(lines) > 20


def test_a_replay_that_goes_another_way_is_noticed():
    lines = story_of()
    changed = next(index for index, line in enumerate(lines) if '"decided":[{"$":"decisions.BindPod"' in line)
    lines[changed] = lines[changed].replace('"node":"a"', '"node":"z"').replace('"node":"b"', '"node":"z"')
    with pytest.raises(StoryError, match=f"line {changed + 1}:"):
        replay(lines, tiny_machine)


def test_lines_are_json_and_name_types():
    first = json.loads(story_of()[0])
    assert first["given"]["$"] == "inputs.RelistFinished"
    assert set(first) == {"at", "given", "decided"}


@pytest.mark.parametrize(
    "given",
    [
        SliceObserved(
            builders.resource_slice(
                devices=(
                    {
                        "name": "d",
                        "attributes": {"a": {"version": "1.2.3"}, "b": {"bool": True}},
                        "capacity": {"memory": {"value": "80Gi"}},
                        "taints": [{"key": "k", "effect": "NoSchedule"}],
                    },
                ),
            ),
            7,
        ),
        ClassObserved(builders.device_class(), 3),
        TimerFired(),
    ],
    ids=lambda given: type(given).__name__,
)
def test_objects_come_back_as_they_were(given):
    entry = Entry(5, given, (), ("uid-1",))
    assert encode_entry(decode_entry(encode_entry(entry))) == encode_entry(entry)


def test_equal_claim_specs_are_one_object_again():
    """The allocator and the plugins compare specs by identity."""
    lines = [line for line in story_of() if "inputs.ClaimObserved" in line]
    specs = {id(decode_entry(line).given.claim.spec) for line in lines}
    assert len(specs) == 1


def test_what_is_dropped_is_admitted():
    rig = Rig(TinyDevices(), story_entries_max=5)
    rig.add_nodes("a")
    rig.settle()
    assert not rig.machine.story.is_complete
    assert len(rig.machine.story) == 5


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"at": 1, "given": {"$": "os.system"}, "decided": []}', "nonsense"])
def test_what_is_no_story_is_refused(line):
    with pytest.raises(StoryError, match="not a line of a story"):
        decode_entry(line)


@pytest.mark.parametrize("seed", range(3))
def test_a_simulated_life_replays_exactly(seed):
    """With the real plugins, faults and all, but for restarts: they begin another story."""
    world = World(seed, Conditions(steps=250, is_paranoid=False, checks_invariants=False, story_entries_max=100_000))
    world.fault_rates["machine-restart"] = 0.0
    for _ in range(250):
        world.step()

    def start(new_uid):
        return Machine(
            [Profile(builders.SCHEDULER, default_plugins())], features=Features(), new_uid=new_uid, settings=settings
        )

    settings = world.machine.settings
    assert replay(world.machine.story.lines(), start) == len(world.machine.story) > 0
