"""A PodGroup with schedulingConstraints.topology: its pods are on nodes with one value of the label, or nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import Features
from scheduler.core import group_cycles
from scheduler.model.keys import PodGroupKey
from scheduler.model.pod_group import PodGroup
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig

KEY = "rack"
SHORT = {"search_steps_first": 1, "search_steps_per_turn": 1}


def world(racks: dict[str, str | None], devices: dict[str, int], **turns: Any) -> Rig:
    """Nodes with the label's value, None for none, and so many devices each."""
    rig = Rig(*default_plugins(), **turns)
    rig.server.put_class(builders.device_class())
    for name, rack in racks.items():
        rig.add_nodes(name, labels={KEY: rack} if rack is not None else {})
        if devices.get(name):
            rig.server.put_slice(builders.resource_slice(f"slice-{name}", node=name, devices=devices[name]))
    return rig


def group(rig: Rig, min_count: int | None, name: str = "g", key: str | None = KEY) -> None:
    rig.server.put_pod_group(
        PodGroup(PodGroupKey("default", name), f"uid-{name}", min_count=min_count, topology_key=key)
    )


def member(rig: Rig, name: str, of: str = "g", **fields) -> None:
    spec = builders.claim_spec_object(builders.request_object(count=1))
    rig.server.put_claim(builders.claim(name, spec=spec))
    rig.add_pod(name, claims=(name,), schedulingGroup={"podGroupName": of}, **fields)


def running(rig: Rig, name: str, node: str) -> None:
    rig.add_pod(name, node=node, phase="Running", schedulingGroup={"podGroupName": "g"})


def placed(rig: Rig) -> dict[str, str]:
    return {key.name: pod.node_name for key, pod in sorted(rig.server.pods.items()) if pod.node_name}


def message(rig: Rig, name: str) -> str:
    condition = rig.condition_of(name)
    return condition[1] if condition is not None else ""


@pytest.fixture(autouse=True, params=["ample turns", "short turns"])
def turns(request, monkeypatch) -> dict[str, int]:
    if request.param == "ample turns":
        return {}
    monkeypatch.setattr(group_cycles, "_TURN_STEPS", 1)
    return SHORT


RACKS = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": None}


@pytest.mark.parametrize("min_count", [3, None])
def test_the_rack_that_all_pods_fit_into_is_chosen_and_not_the_first(min_count, turns):
    rig = world(RACKS, {"a1": 2, "b1": 2, "b2": 1, "c1": 9}, **turns)
    group(rig, min_count)
    for name in "xyz":
        member(rig, name)
    rig.wait(5_000)
    assert sorted(placed(rig)) == ["x", "y", "z"]
    assert set(placed(rig).values()) == {"b1", "b2"}


@pytest.mark.parametrize(("release", "nodes"), [("1.37", {"e1", "e2"}), ("1.38", {"b1", "b2"})])
def test_nodes_whose_label_is_empty_are_one_domain_up_to_1_37_and_in_none_since_1_38(release, nodes, turns):
    racks = {"e1": "", "e2": "", "b1": "b", "b2": "b"}
    rig = world(racks, dict.fromkeys(racks, 1), features=Features(kubernetes=release), **turns)
    group(rig, 2)
    for name in "xy":
        member(rig, name)
    rig.wait(5_000)
    assert set(placed(rig).values()) == nodes


def test_a_running_pod_on_a_node_whose_label_is_empty_keeps_its_group_waiting_since_1_38(turns):
    racks = {"e1": "", "e2": "", "b1": "b"}
    rig = world(racks, dict.fromkeys(racks, 1), features=Features(kubernetes="1.38"), **turns)
    group(rig, 2)
    running(rig, "r", "e1")
    member(rig, "x")
    rig.wait(5_000)
    assert placed(rig) == {"r": "e1"}
    assert "is on node e1, which has no value of label rack" in message(rig, "x")


def test_a_group_that_fits_into_no_rack_is_told_of_each_and_waits_for_a_device_or_a_label(turns):
    rig = world(RACKS, {"a1": 2, "b1": 1, "b2": 1, "c1": 9}, **turns)
    group(rig, 3)
    for name in "xyz":
        member(rig, name)
    rig.wait(5_000)
    assert placed(rig) == {}
    assert "All pods must be on nodes with one value of label rack: a: 2 of 3, pod z: " in message(rig, "z")
    assert "; b: 2 of 3, pod z: 2 cannot allocate all claims." in message(rig, "z")
    rig.server.put_node(builders.node("c1", labels={KEY: "b"}))
    rig.wait(20_000)
    assert sorted(placed(rig)) == ["x", "y", "z"]


def test_pods_that_run_fix_the_rack_for_those_that_come(turns):
    rig = world(RACKS, {"a1": 1, "a2": 1, "b1": 9}, **turns)
    group(rig, 1)
    running(rig, "x", "a1")
    for name in "yz":
        member(rig, name)
    rig.wait(5_000)
    assert set(placed(rig)) == {"x", "y", "z"}
    assert set(placed(rig).values()) == {"a1", "a2"}
    member(rig, "w")
    rig.wait(5_000)
    assert "w" not in placed(rig)
    assert "label rack: a: 0 of 1, pod w: 2 cannot allocate all claims." in message(rig, "w")


@pytest.mark.parametrize(
    ("runs_on", "said"),
    [
        (("c1",), "pod default/r0 of group default/g is on node c1, which has no value of label rack"),
        (("a1", "b1"), "pods of group default/g are on nodes with more than one value of label rack: a, b"),
    ],
)
def test_a_group_that_runs_where_it_must_not_is_told_so(runs_on, said, turns):
    rig = world(RACKS, dict.fromkeys(RACKS, 9), **turns)
    group(rig, 3)
    for index, node in enumerate(runs_on):
        running(rig, f"r{index}", node)
    for name in "xyz":
        member(rig, name)
    rig.wait(5_000)
    assert set(placed(rig)) == {f"r{index}" for index in range(len(runs_on))}
    assert said in message(rig, "x")


def test_a_label_that_no_node_has_is_named(turns):
    rig = world(RACKS, dict.fromkeys(RACKS, 9), **turns)
    group(rig, 1, key="row")
    member(rig, "x")
    rig.wait(5_000)
    assert "group default/g must be on nodes with one value of label row, which no node has" in message(rig, "x")


def test_a_node_that_changes_its_rack_in_a_pause_loses_its_pods(turns):
    if not turns:
        return
    rig = world({"a1": "a", "a2": "a", "b1": "b"}, {"a1": 1, "a2": 2, "b1": 3}, **SHORT)
    group(rig, 3)
    for name in "xyz":
        member(rig, name)
    rig.watch()
    (search,) = paused(rig, 1)
    (first,) = search.places.by_pod.values()
    rig.server.put_node(builders.node(first.node, labels={KEY: "z"}))
    rig.wait(20_000)
    assert set(placed(rig).values()) == {"b1"}


def paused(rig: Rig, pods: int) -> list:
    """The group's search, once so many of its pods have a place."""
    for _ in range(200):
        rig.tick()
        searches = list(rig.machine._gangs._searches.values())
        if searches and len(searches[0].places.by_pod) == pods:
            return searches
    raise AssertionError("it never paused")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 3)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=3),
    st.booleans(),
)
def test_never_half_a_group_and_never_in_two_racks(nodes, groups, is_short):
    before = group_cycles._TURN_STEPS
    try:
        group_cycles._TURN_STEPS = 1 if is_short else before
        racks = {f"n{index}": rack for index, (rack, _) in enumerate(nodes)}
        rig = world(
            racks, {f"n{index}": count for index, (_, count) in enumerate(nodes)}, **(SHORT if is_short else {})
        )
        for index, (needed, more) in enumerate(groups):
            group(rig, needed, f"g{index}")
            for at in range(needed + more):
                member(rig, f"p{index}-{at}", f"g{index}")
        rig.wait(20_000)
    finally:
        group_cycles._TURN_STEPS = before
    room: dict[str, int] = {}
    for rack, count in nodes:
        if rack is not None:
            room[rack] = room.get(rack, 0) + count
    places = placed(rig)
    for index, (needed, _) in enumerate(groups):
        here = {racks[node] for name, node in places.items() if name.startswith(f"p{index}-")}
        count = sum(name.startswith(f"p{index}-") for name in places)
        assert len(here) <= 1, places
        assert None not in here, places
        assert count == 0 or count >= needed, places
    if len(groups) == 1:
        assert bool(places) == (max(room.values(), default=0) >= groups[0][0]), "it fits where a rack has room"
