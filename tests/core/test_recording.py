"""Recordings: written as JSON lines, read back, told again."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from allocator import Allocation, AllocationConfig, Features, decode_claim_spec
from scheduler.core.ground.inputs import Deleted, TimerFired
from scheduler.core.machine import Machine
from scheduler.core.recording import (
    Entry,
    Handle,
    Recording,
    RecordingError,
    Replay,
    decode_entry,
    described,
    encode_entry,
)
from scheduler.framework.api import Profile
from scheduler.framework.decisions import WriteClaimStatus
from scheduler.model.keys import ClaimKey, ClaimUid, PodKey, PodUid
from tests import builders
from tests.core.plugins import TinyDevices
from tests.core.rig import Rig
from tests.observed import observed
from tests.sim.world import Conditions, World


def tiny_machine(new_uid: Callable[[], str]) -> Handle:
    return Machine([Profile(builders.SCHEDULER, (TinyDevices(),))], features=Features(), new_uid=new_uid).handle


def recorded(**settings) -> list[bytes]:
    lines: list[bytes] = []
    rig = Rig(TinyDevices(), record=lines.append, **settings)
    rig.add_nodes("a", "b")
    for name in ("c1", "c2", "c3"):
        rig.server.put_claim(builders.claim(name))
        rig.add_pod("p" + name, claims=(name,))
    rig.settle()
    rig.wait(5_000)
    return lines


def differences(lines: list[bytes], start: Callable[[Callable[[], str]], Handle]) -> list[int]:
    """Indices of the lines that a new machine answers differently."""
    replay = Replay(start)
    entries = [decode_entry(line) for line in lines]
    return [index for index, entry in enumerate(entries) if replay.repeat(entry) != entry]


def test_a_recording_replays_exactly():
    lines = recorded()
    assert len(lines) > 20
    assert differences(lines, tiny_machine) == []


def test_a_replay_that_goes_another_way_is_noticed():
    lines = recorded()
    changed = next(index for index, line in enumerate(lines) if b'"decided":[{"$":"decisions.BindPod"' in line)
    lines[changed] = lines[changed].replace(b'"node":"a"', b'"node":"z"').replace(b'"node":"b"', b'"node":"z"')
    assert differences(lines, tiny_machine) == [changed]


def test_lines_are_json_and_name_types():
    first = json.loads(recorded()[0])
    assert first["given"]["$"] == "inputs.RelistFinished"
    assert set(first) == {"at", "given", "decided"}


@pytest.mark.parametrize(
    "given",
    [
        observed(
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
        observed(builders.device_class(), 3),
        TimerFired(),
    ],
    ids=lambda given: type(given).__name__,
)
def test_objects_come_back_as_they_were(given):
    entry = Entry(5, given, (), ("uid-1",), "ValueError: broken")
    assert encode_entry(decode_entry(encode_entry(entry))) == encode_entry(entry)


def test_lists_and_tuples_are_told_apart():
    """A driver's configuration has lists as JSON has them; all else is tuples."""
    config = AllocationConfig("FromClaim", (), {"sharing": [{"slots": [1, 2]}, []]})
    allocation = Allocation((), (config,))
    written = WriteClaimStatus(ClaimKey("a", "b"), ClaimUid("c"), 1, allocation, ())
    assert decode_entry(encode_entry(Entry(1, TimerFired(), (written,)))).decided == (written,)


def test_equal_claim_specs_are_the_object_that_they_were():
    """The allocator and the plugins compare specs by identity, also with those the machine makes itself."""
    specs = [decode_entry(line).given.object.spec for line in recorded() if b'Observed","kind":"ResourceClaim"' in line]
    assert len(specs) > 3
    assert {id(spec) for spec in specs} == {id(decode_claim_spec(builders.claim_spec_object()))}


def test_an_exception_is_part_of_the_recording():
    def break_down(given, *, now_ms):
        raise RuntimeError("out of order")

    lines: list[bytes] = []
    handle = Recording(lines.append, lambda: "uid").of(break_down)
    with pytest.raises(RuntimeError, match="out of order"):
        handle(TimerFired(), now_ms=7)

    (line,) = lines
    entry = decode_entry(line)
    assert entry == Entry(7, TimerFired(), (), (), described(RuntimeError("out of order")))
    assert Replay(lambda new_uid: break_down).repeat(entry) == entry
    assert Replay(tiny_machine).repeat(entry).raised == ""


def test_uids_are_given_out_again_for_the_input_they_were_drawn_for():
    def draw_twice(new_uid):
        def handle(given, *, now_ms):
            drawn.append((new_uid(), new_uid()))
            return ()

        return handle

    drawn: list[tuple[str, str]] = []
    numbers = iter("abcd")
    lines: list[bytes] = []
    recording = Recording(lines.append, lambda: next(numbers))
    handle = recording.of(draw_twice(recording.new_uid))
    handle(TimerFired(), now_ms=1)
    handle(TimerFired(), now_ms=2)
    assert [decode_entry(line).uids for line in lines] == drawn == [("a", "b"), ("c", "d")]

    drawn.clear()
    replay = Replay(draw_twice)
    for line in (lines[1], lines[0]):
        replay.repeat(decode_entry(line))
    assert drawn == [("c", "d"), ("a", "b")]


def test_uids_that_are_not_drawn_any_more_are_not_given_out_for_the_next_input():
    def draw_once(new_uid):
        return lambda given, *, now_ms: drawn.append(new_uid()) or ()

    drawn: list[str] = []
    replay = Replay(draw_once)
    for uids in (("a", "b"), ("c",), ()):
        replay.repeat(Entry(1, TimerFired(), (), uids))
    assert drawn == ["a", "c", "00000000-0000-0000-0000-000000000000"]


def test_what_only_equals_a_default_is_written():
    """False equals 0, and is another value."""
    entry = decode_entry(encode_entry(Entry(1, Deleted("Pod", PodKey("a", "b"), PodUid("c"), False), ())))
    assert entry.given.revision is False


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"{}", b"[]", b"nonsense", b'{"at": 1, "given": {"$": "os.system"}, "decided": []}'),
        b'{"at": 1, "given": {"$": "inputs.Deleted", "no-such-field": 1}, "decided": []}',
    ],
)
def test_what_is_no_entry_is_refused(line):
    with pytest.raises(RecordingError, match=r"no JSON|no entry of a recording"):
        decode_entry(line)


@pytest.mark.parametrize("seed", range(3))
def test_a_simulated_life_replays_exactly(seed):
    """With the real plugins, faults and all, but for restarts: they begin another life."""
    lines: list[bytes] = []
    world = World(seed, Conditions(steps=250, is_paranoid=False, checks_invariants=False, record=lines.append))
    world.fault_rates["machine-restart"] = 0.0
    for _ in range(250):
        world.step()

    def start(new_uid):
        return Machine([world.profile], features=Features(), new_uid=new_uid, settings=world.machine.settings).handle

    assert lines
    assert differences(lines, start) == []
