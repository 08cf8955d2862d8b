"""A group has others removed: room for all of its pods that are needed, or nobody goes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core import group_cycles
from scheduler.core.ground.inputs import WriteRejected
from scheduler.framework.decisions import DeletePod, PatchPodStatus
from scheduler.model.group import GROUP_LABEL, MIN_COUNT_LABEL
from scheduler.model.keys import PodGroupKey, PodKey
from scheduler.model.pod_group import PodGroup
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig
from tests.core.test_preemptions import restarted

RACK = "rack"


@pytest.fixture(autouse=True, params=["ample turns", "short turns"])
def turns(request, monkeypatch) -> dict[str, int]:
    """Short: each turn is over after one piece of work, so a search pauses wherever it can."""
    if request.param == "ample turns":
        return {}
    monkeypatch.setattr(group_cycles, "_TURN_STEPS", 1)
    return {"search_steps_first": 1, "search_steps_per_turn": 1}


def world(turns: dict[str, int], devices: dict[str, int], racks: dict[str, str] | None = None) -> Rig:
    """Nodes of 8 CPUs with so many devices each."""
    rig = Rig(*default_plugins(), **turns)
    rig.server.put_class(builders.device_class())
    for name, count in devices.items():
        labels = {RACK: racks[name]} if racks else {}
        rig.add_nodes(name, labels=labels, allocatable={"cpu": "8", "memory": "8Gi", "pods": "20"})
        if count:
            rig.server.put_slice(builders.resource_slice(f"slice-{name}", node=name, devices=count))
    return rig


def put(rig: Rig, name: str, *, devices: int = 1, cpu: int = 0, **fields) -> None:
    """A pod that wants devices."""
    if devices:
        spec = builders.claim_spec_object(builders.request_object(count=devices))
        rig.server.put_claim(builders.claim(f"of-{name}", spec=spec))
        fields["claims"] = (f"of-{name}",)
    rig.add_pod(name, requests={"cpu": str(cpu)}, **fields)


def low(rig: Rig, name: str, node: str, **fields) -> None:
    """A pod of priority 0 that runs there."""
    put(rig, name, nodeSelector={"kubernetes.io/hostname": node}, **fields)
    rig.wait(2_000)
    assert rig.node_of(name) == node


def member(rig: Rig, name: str, needed: int, *, priority: int = 10, **fields) -> None:
    labels = {GROUP_LABEL: "g", MIN_COUNT_LABEL: str(needed)}
    put(rig, name, labels=labels, priority=priority, **fields)


def removed(rig: Rig) -> list[str]:
    return sorted({one.pod.name for one in rig.decided if isinstance(one, DeletePod)})


def end(rig: Rig, *names: str) -> None:
    """Kubelets have stopped the pods, and the claim controller has released what only they used."""
    for name in names:
        rig.server.delete_pod(PodKey("default", name))
    rig.server.collect_garbage()
    rig.wait(2_000)


def nodes_of(rig: Rig, *names: str) -> list[str | None]:
    return [rig.node_of(name) for name in names]


def message(rig: Rig, name: str) -> str:
    condition = rig.condition_of(name)
    return condition[1] if condition is not None else ""


def nominated(rig: Rig, *names: str) -> list[str]:
    return [rig.server.pods[PodKey("default", name)].status.nominated_node_name for name in names]


def test_room_is_made_for_all_of_them_and_then_all_are_bound(turns):
    rig = world(turns, {"a": 1, "b": 1})
    low(rig, "v", "a")
    low(rig, "w", "b")
    for name in "xy":
        member(rig, name, 2)
    rig.wait(5_000)
    assert removed(rig) == ["v", "w"]
    assert sorted(nominated(rig, "x", "y")) == ["a", "b"]
    assert (
        "0 of the 2 pods of group default/g that are needed fit together. pod group preemption: found a placement for "
        "podgroup, preempting 2 victims: default/v, default/w; devices"
    ) in message(rig, "x")
    assert message(rig, "x") == message(rig, "y")

    end(rig, "v")
    assert nodes_of(rig, "x", "y") == [None, None]
    end(rig, "w")
    assert sorted(nodes_of(rig, "x", "y")) == ["a", "b"]
    assert not rig.machine.store.nominations.preempting


def test_a_pod_with_a_free_place_keeps_it_until_the_others_have_theirs(turns):
    rig = world(turns, {"a": 1, "b": 1})
    low(rig, "v", "a")
    for name in "xy":
        member(rig, name, 2)
    rig.wait(5_000)
    assert removed(rig) == ["v"]
    put(rig, "thief", priority=10)
    rig.wait(5_000)
    assert rig.node_of("thief") is None
    assert removed(rig) == ["v"]
    end(rig, "v")
    assert sorted(nodes_of(rig, "x", "y")) == ["a", "b"]


def test_one_victim_makes_room_for_several_of_them(turns):
    """Nobody else goes where the pods fit into the place of one that goes anyway; cpu and devices."""
    rig = world(turns, dict.fromkeys("abcd", 4))
    for name in "abcd":
        low(rig, f"v-{name}", name, devices=4, cpu=8)
    for name in "wxyz":
        member(rig, name, 4, cpu=2)
    rig.wait(5_000)
    (victim,) = removed(rig)
    end(rig, victim)
    assert nodes_of(rig, *"wxyz") == [victim.removeprefix("v-")] * 4


def test_who_goes_anyway_costs_nothing_more(turns):
    """A less important pod elsewhere stays where the place of one that goes suffices."""
    rig = world(turns, {"a": 4, "b": 1})
    low(rig, "v-a", "a", devices=4)
    low(rig, "v-b", "b", priority=-5)
    member(rig, "x", 2, devices=3)
    member(rig, "y", 2)
    rig.wait(5_000)
    assert removed(rig) == ["v-a"]
    end(rig, "v-a")
    assert nodes_of(rig, "x", "y") == ["a", "a"]


def test_nobody_goes_where_not_all_of_them_would_have_a_place(turns):
    rig = world(turns, {"a": 1, "b": 1, "c": 1})
    low(rig, "v", "a")
    low(rig, "w", "b")
    low(rig, "high", "c", priority=10)
    for name in "xyz":
        member(rig, name, 3)
    rig.wait(60_000)
    assert removed(rig) == []
    assert nodes_of(rig, *"xyz") == [None] * 3
    assert not rig.machine.store.nominations.preempting
    assert "0 of the 3 pods of group default/g that are needed fit together." in message(rig, "x")
    rig.server.delete_pod(PodKey("default", "high"))
    rig.server.collect_garbage()
    rig.wait(60_000)
    assert removed(rig) == ["v", "w"]
    end(rig, "v", "w")
    assert sorted(nodes_of(rig, *"xyz")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("of_group", "of_pod", "victims"),
    [
        (None, None, ["v"]),
        (None, "Never", []),
        ("Never", "Never", []),
        ("PreemptLowerPriority", None, ["v"]),
    ],
)
def test_who_never_preempts_waits(turns, of_group, of_pod, victims):
    rig = world(turns, {"a": 1, "b": 1})
    low(rig, "v", "a")
    key = PodGroupKey("default", "g")
    rig.server.put_pod_group(PodGroup(key, "uid-g", min_count=2, priority=10, preemption_policy=of_group))
    for name in "xy":
        policy = {"preemptionPolicy": of_pod} if of_pod else {}
        put(rig, name, priority=10, schedulingGroup={"podGroupName": "g"}, **policy)
    rig.wait(60_000)
    assert removed(rig) == victims


def test_the_group_makes_room_within_one_value_of_its_label(turns):
    racks = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
    rig = world(turns, dict.fromkeys(racks, 1), racks)
    for node, priority in (("a1", 0), ("a2", 10), ("b1", 0), ("b2", 0)):
        low(rig, f"v-{node}", node, priority=priority)
    key = PodGroupKey("default", "g")
    rig.server.put_pod_group(PodGroup(key, "uid-g", min_count=2, priority=10, topology_key=RACK))
    for name in "xy":
        put(rig, name, priority=10, schedulingGroup={"podGroupName": "g"})
    rig.wait(60_000)
    assert removed(rig) == ["v-b1", "v-b2"]
    end(rig, "v-b1", "v-b2")
    assert sorted(nodes_of(rig, "x", "y")) == ["b1", "b2"]


def test_only_as_many_go_as_are_needed(turns):
    """A pod beyond the group's number is no reason to remove anybody, but for itself."""
    rig = world(turns, {"a": 1, "b": 1, "c": 1})
    for name in "abc":
        low(rig, f"v-{name}", name)
    for name in "xy":
        member(rig, name, 1)
    rig.wait(2_000)
    assert len(removed(rig)) == 1


@pytest.mark.parametrize("answer", ["refused", "second refused", "deleted"])
def test_nobody_goes_when_one_of_them_cannot_be_nominated(turns, answer):
    rig = world(turns, {"a": 1, "b": 1})
    low(rig, "v", "a")
    low(rig, "w", "b")
    for name in "xy":
        member(rig, name, 2)
    rig.watch()
    while not [one for one in rig.pending if isinstance(one, PatchPodStatus) and one.nominated_node]:
        rig.tick()
    first, second = [one for one in rig.pending if isinstance(one, PatchPodStatus)]
    if answer == "second refused":
        rig.pending.remove(first)
        rig.tell(rig.server.execute(first))
        rig.watch()
        assert not [one for one in rig.pending if not isinstance(one, PatchPodStatus)], "nobody is touched yet"
        first = second
    if answer != "deleted":
        rig.pending.remove(first)
        rig.tell(WriteRejected(first.id, 403, "Forbidden", "no"))
    else:
        rig.server.delete_pod(PodKey("default", "y"))
    rig.settle()
    assert removed(rig) == []
    assert not rig.machine.store.nominations.preempting
    assert set(nominated(rig, "x")) == {""}


def test_room_that_somebody_takes_is_made_again_after_a_backoff(turns):
    rig = world(turns, {"a": 1, "b": 1})
    low(rig, "v", "a")
    low(rig, "w", "b")
    for name in "xy":
        member(rig, name, 2)
    rig.wait(5_000)
    put(rig, "higher", priority=20)
    end(rig, "v")
    assert rig.node_of("higher") is not None
    end(rig, "w")
    assert nodes_of(rig, "x", "y") == [None, None]
    assert removed(rig) == ["v", "w"]
    rig.wait(60_000)
    assert removed(rig) == ["v", "w"]
    assert not rig.machine.store.nominations.preempting
    rig.server.delete_pod(PodKey("default", "higher"))
    rig.server.collect_garbage()
    rig.wait(60_000)
    assert sorted(nodes_of(rig, "x", "y")) == ["a", "b"]


def test_while_room_is_being_made_nobody_else_goes(turns):
    rig = world(turns, {"a": 1, "b": 1, "c": 1})
    for name in "abc":
        low(rig, f"v-{name}", name)
    for name in "xy":
        member(rig, name, 2)
    rig.wait(5_000)
    assert removed(rig) == ["v-a", "v-b"]
    told = message(rig, "x")
    rig.add_nodes("d")  # something changes: they are tried again
    rig.wait(600_000)
    assert removed(rig) == ["v-a", "v-b"]
    assert message(rig, "x") == told
    end(rig, "v-a", "v-b")
    assert sorted(nodes_of(rig, "x", "y")) == ["a", "b"]


def test_a_process_that_comes_after_goes_on(turns):
    rig = world(turns, {"a": 1, "b": 1, "c": 1})
    for name in "ab":
        low(rig, f"v-{name}", name)
    low(rig, "v-c", "c", priority=10)
    for name in "xy":
        member(rig, name, 2)
    rig.wait(5_000)
    after = restarted(rig, *default_plugins(), **turns)
    after.wait(60_000)
    assert removed(after) == []
    end(after, "v-a", "v-b")
    assert sorted(nodes_of(after, "x", "y")) == ["a", "b"]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    free=st.lists(st.integers(0, 2), min_size=1, max_size=4),
    running=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from((0, 5, 10))), max_size=6),
    wanted=st.lists(st.integers(1, 3), min_size=1, max_size=4),
)
def test_room_is_found_where_there_is_any_and_nobody_goes_in_vain(free, running, wanted):
    """Devices of a node are alike here, so it is known whether the pods fit when all that may go are gone."""
    rooms = dict(enumerate(free))
    stays = dict.fromkeys(rooms, 0)
    for node, count, priority in running:
        if node in rooms:
            rooms[node] += count
            stays[node] += count if priority == 10 else 0
    rig = world({}, {f"n{node}": count for node, count in rooms.items()})
    priorities = {}
    for index, (node, count, priority) in enumerate(running):
        if node in rooms:
            low(rig, f"v{index}", f"n{node}", devices=count, priority=priority)
            priorities[f"v{index}"] = priority
    names = [f"x{index}" for index in range(len(wanted))]
    for name, count in zip(names, wanted, strict=True):
        member(rig, name, len(wanted), devices=count)
    rig.wait(30_000)

    gone = removed(rig)
    assert all(priorities[name] < 10 for name in gone)
    end(rig, *gone)
    are_bound = all(rig.node_of(name) for name in names)
    assert removed(rig) == gone, "one set"
    assert are_bound or not gone, "in vain"
    if not are_bound:
        largest_first = sorted(wanted, reverse=True)
        assert not fits(largest_first, [rooms[node] - stays[node] for node in rooms])


def fits(wanted: list[int], rooms: list[int]) -> bool:
    """Whether pods that want so many devices can all be placed."""
    if not wanted:
        return True
    first, *rest = wanted
    return any(
        room >= first and fits(rest, [*rooms[:place], room - first, *rooms[place + 1 :]])
        for place, room in enumerate(rooms)
    )
