"""Pods that are nominated for a node keep their place there from those that are not more important."""

from __future__ import annotations

import pytest

from scheduler.core.state.nominations import Nominations
from scheduler.framework.preemption import Preemption
from scheduler.model.keys import PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig

NODE = {"cpu": "2", "memory": "8Gi", "pods": "10"}


def rig_with(*nodes: str) -> Rig:
    rig = Rig(*default_plugins())
    for name in nodes:
        rig.server.put_node(builders.node(name, allocatable=NODE))
    rig.settle()
    return rig


def nominated(rig: Rig, node: str, priority: int, scheduler: str = "another") -> None:
    """A pod of 2 CPUs, of another scheduler unless said, that waits for room on `node`."""
    rig.add_pod("first", nominated=node, priority=priority, scheduler=scheduler, requests={"cpu": "2"})


@pytest.mark.parametrize(("priority", "is_bound"), [(0, False), (10, False), (11, True)])
def test_a_pod_leaves_room_for_those_nominated_that_are_no_less_important(priority, is_bound):
    rig = rig_with("a")
    nominated(rig, "a", 10)
    rig.add_pod("second", priority=priority, requests={"cpu": "1"})
    rig.settle()
    assert (rig.node_of("second") == "a") is is_bound
    if not is_bound:
        assert "1 Insufficient cpu" in rig.condition_of("second")[1]


def test_another_node_is_taken():
    rig = rig_with("a", "b")
    nominated(rig, "a", 10)
    rig.add_pod("second", requests={"cpu": "1"})
    rig.settle()
    assert rig.node_of("second") == "b"


def test_pods_of_one_shape_and_other_priorities_get_other_verdicts():
    rig = rig_with("a")
    nominated(rig, "a", 10)
    for name, priority in (("low", 0), ("high", 20), ("low-2", 5)):
        rig.add_pod(name, priority=priority, requests={"cpu": "1"})
        rig.settle()
    assert [rig.node_of(name) for name in ("low", "high", "low-2")] == [None, "a", None]


@pytest.mark.parametrize("how", ["deleted", "nominated elsewhere", "not nominated any more"])
def test_a_pod_is_woken_when_the_nomination_ends(how):
    rig = rig_with("a")
    nominated(rig, "a", 10)
    rig.add_pod("second", requests={"cpu": "1"})
    rig.settle()
    assert rig.node_of("second") is None
    if how == "deleted":
        rig.server.delete_pod(PodKey("default", "first"))
    else:
        nominated(rig, "b" if how == "nominated elsewhere" else "", 10)
    rig.settle()
    rig.wait(20_000)
    assert rig.node_of("second") == "a"


def test_a_nominated_pod_takes_its_place_and_counts_once():
    rig = rig_with("a")
    nominated(rig, "a", 10, builders.SCHEDULER)
    rig.settle()
    assert rig.node_of("first") == "a"
    assert not rig.machine.store.nominations.at("a")


def test_a_node_that_comes_later_keeps_its_nominations():
    rig = rig_with()
    nominated(rig, "a", 10)
    rig.add_pod("second", requests={"cpu": "1"})
    rig.server.put_node(builders.node("a", allocatable=NODE))
    rig.settle()
    assert rig.node_of("second") is None


SPREAD = {
    "topologySpreadConstraints": [
        {
            "topologyKey": "zone",
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}


@pytest.mark.parametrize(("label", "node"), [("web", "b"), ("other", "a")])
def test_a_nominated_pod_counts_in_its_zone(label, node):
    rig = Rig(*default_plugins())
    rig.add_nodes("a", labels={"zone": "x"})
    rig.add_nodes("b", labels={"zone": "y"}, taints=({"key": "slow", "effect": "PreferNoSchedule"},))
    rig.add_pod("there", node="b", labels={"app": "web"})
    rig.add_pod("here", node="a", labels={"app": "web"})
    rig.add_pod("first", nominated="a", priority=10, scheduler="another", labels={"app": label})
    rig.add_pod("second", labels={"app": "web"}, **SPREAD)  # beside a nominated one x would have three, y has one
    rig.settle()
    assert rig.node_of("second") == node


def test_only_changes_are_passed_on():
    nominations = Nominations()
    pod = builders.pod("p", nominated="a")
    assert list(nominations.set(pod.uid, pod, "a")) == ["a"]
    assert list(nominations.set(pod.uid, pod, "a")) == []
    assert list(nominations.set(pod.uid, pod, "b")) == ["a", "b"]
    assert list(nominations.set(pod.uid, None, "")) == ["b"]
    assert not nominations.at("a")
    assert not nominations.at("b")


def test_a_pod_that_looks_at_many_nominated_nodes_in_several_turns_comes_to_an_end():
    """What was found out about them held for one turn only, so the pod looked at the first of them again and again."""
    rig = Rig(*default_plugins(), filter_calls_per_tick=1)
    for number in range(4):
        rig.server.put_node(builders.node(f"n{number}", allocatable=NODE))
        rig.add_pod(f"first-{number}", nominated=f"n{number}", priority=10, scheduler="another", requests={"cpu": "2"})
    rig.add_pod("second", requests={"cpu": "1"})
    rig.settle()
    assert "4 Insufficient cpu" in rig.condition_of("second")[1]
    assert rig.machine.queue.counts()["unschedulable"] == 1


def test_what_is_kept_for_a_pod_that_was_nominated_before_is_passed_on():
    """Or others would go on with what they found of the node, and be given the same devices."""
    rig = Rig(*default_plugins())
    rig.add_nodes("a", "b")
    rig.add_pod("p", nominated="a", scheduler="another")
    rig.settle()
    store, uid = rig.machine.store, builders.pod("p").uid
    for kept in (Preemption("a", (builders.pod("victim"),)), None):
        before = {name: info.generation for name, info in store.node_infos.items()}
        if kept is None:
            del store.nominations.preempting[uid]
        else:
            store.nominations.preempting[uid] = kept
        store.renominate(uid)
        assert [name for name, info in store.node_infos.items() if info.generation != before[name]] == ["a"]
