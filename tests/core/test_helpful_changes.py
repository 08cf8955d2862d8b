"""Which changes reach which plugins: the actions of a change, and whose waiting pods hear of it."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.core.queue.helpful_changes import node_changes, pod_changes
from scheduler.framework.api import Action, Hint, Resource
from scheduler.model.objects import Node, Pod
from scheduler.plugins.scheduling_gates import SchedulingGates
from tests import builders
from tests.core.plugins import Reject, Slots
from tests.core.rig import Rig

NODE = {
    "metadata": {"name": "n", "labels": {"zone": "a"}},
    "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4"}, "declaredFeatures": ["A"]},
}
CONTAINER = {"name": "main", "resources": {"requests": {"cpu": "2", "example.com/gpu": "1"}}}
POD = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u", "labels": {"app": "a"}},
    "spec": {"nodeName": "n", "containers": [CONTAINER], "schedulingGates": [{"name": "g"}, {"name": "h"}]},
    "status": {"phase": "Running"},
}


def container(**requests: str) -> dict:
    return {"containers": [{"name": "main", "resources": {"requests": requests}}]}


@pytest.mark.parametrize(
    ("part", "new", "want"),
    [
        ("metadata", {"name": "n", "labels": {"zone": "a"}, "annotations": {"a": "b"}}, None),
        ("metadata", {"name": "n", "labels": {"zone": "b"}}, Action.UPDATE_NODE_LABEL),
        ("spec", {}, Action.UPDATE_NODE_TAINT),
        ("spec", {**NODE["spec"], "unschedulable": True}, None),
        ("status", {**NODE["status"], "allocatable": {"cpu": "5"}}, Action.UPDATE_NODE_ALLOCATABLE),
        ("status", {**NODE["status"], "declaredFeatures": ["A", "B"]}, Action.UPDATE_NODE_DECLARED_FEATURE),
        ("status", {**NODE["status"], "conditions": [{"type": "Ready", "status": "False"}]}, None),
        ("status", {}, Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_DECLARED_FEATURE),
    ],
)
def test_node_changes(part, new, want):
    assert node_changes(msgspec.convert(NODE, Node), msgspec.convert({**NODE, part: new}, Node)) == want


def test_a_node_that_is_uncordoned_counts_as_one_that_lost_a_taint_and_a_cordoned_one_helps_nobody():
    cordoned, open_ = builders.node(unschedulable=True), builders.node()
    assert node_changes(cordoned, open_) == Action.UPDATE_NODE_TAINT
    assert node_changes(open_, cordoned) is None
    assert node_changes(None, cordoned) == Action.ADD


@pytest.mark.parametrize(
    ("part", "new", "want"),
    [
        ("metadata", {**POD["metadata"], "labels": {}}, Action.UPDATE_POD_LABEL),
        ("spec", {"tolerations": [{"operator": "Exists"}]}, Action.UPDATE | Action.UPDATE_POD_TOLERATION),
        ("spec", {"schedulingGates": [{"name": "g"}]}, Action.UPDATE),
        ("spec", {"schedulingGates": None}, Action.UPDATE | Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        ("spec", container(**{"cpu": "1", "example.com/gpu": "1"}), Action.UPDATE | Action.UPDATE_POD_SCALE_DOWN),
        ("spec", container(cpu="2"), Action.UPDATE | Action.UPDATE_POD_SCALE_DOWN),
        ("spec", container(**{"cpu": "3", "example.com/gpu": "1"}), Action.UPDATE),
        ("spec", container(**{"cpu": "2000m", "example.com/gpu": "1"}), Action.UPDATE),
        ("status", {"phase": "Running", "conditions": [{"type": "Ready"}]}, None),
        (
            "status",
            {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "d"}]},
            Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        ),
    ],
)
def test_pod_changes(part, new, want):
    if part == "spec":
        new = {**POD["spec"], **new}
    assert pod_changes(msgspec.convert(POD, Pod), msgspec.convert({**POD, part: new}, Pod)) == want


def test_claims_that_take_less_of_the_node_are_a_scale_down():
    status = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c", "resources": {"cpu": "1"}}]}
    assert (
        pod_changes(msgspec.convert({**POD, "status": status}, Pod), msgspec.convert(POD, Pod))
        == Action.UPDATE_POD_SCALE_DOWN
    )


class ByName(Reject):
    """Pods differ by their names."""

    def signature(self, cycle, view):
        return cycle.pod.metadata.name


class Watched:
    """A rig with one pod that a plugin rejects, and the changes of other pods that the plugin has heard of."""

    def __init__(self):
        self.plugin = ByName(is_rejected=lambda pod, info: pod.metadata.name == "waiting", hint_=Hint.SKIP)
        self.rig = Rig(SchedulingGates(), self.plugin, Slots(3))
        self.rig.add_nodes("n")
        self.rig.add_pod("waiting")
        self.rig.settle()

    def heard(self) -> list:
        self.rig.settle()
        changes = [(name, change.resource, change.action) for name, change in self.plugin.hinted]
        self.plugin.hinted.clear()
        assert all(name == "waiting" for name, _, _ in changes)
        return [(resource, action) for _, resource, action in changes]


def test_what_happens_to_other_pods_reaches_the_plugin_that_rejected_a_pod():
    watched = Watched()
    server = watched.rig.server
    server.put_pod(builders.pod("other", scheduler="somebody", node="n", requests={"cpu": "2"}))
    assert watched.heard() == [(Resource.ASSIGNED_POD, Action.ADD)]
    server.put_pod(builders.pod("other", scheduler="somebody", node="n", requests={"cpu": "2"}, labels={"a": "b"}))
    assert watched.heard() == [(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)]
    server.put_pod(builders.pod("other", scheduler="somebody", node="n", requests={"cpu": "1"}, labels={"a": "b"}))
    assert watched.heard() == [(Resource.ASSIGNED_POD, Action.UPDATE | Action.UPDATE_POD_SCALE_DOWN)]
    ended = builders.pod(
        "other", scheduler="somebody", node="n", requests={"cpu": "1"}, labels={"a": "b"}, phase="Failed"
    )
    server.put_pod(ended)
    assert watched.heard() == [(Resource.ASSIGNED_POD, Action.DELETE)]
    server.delete_pod(ended.key)
    assert watched.heard() == []


def test_a_pod_of_ours_that_gets_bound_is_added():
    watched = Watched()
    watched.rig.add_pod("other")
    assert (Resource.ASSIGNED_POD, Action.ADD) in watched.heard()


def test_a_pod_that_is_first_seen_ended_gives_its_place_back():
    watched = Watched()
    watched.rig.add_pod("other")
    watched.rig.settle()
    pod = watched.rig.server.pods[builders.pod("other").key]
    watched.rig.server.put_pod(msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Failed")))
    assert (Resource.ASSIGNED_POD, Action.DELETE) in watched.heard()


def test_a_pod_deleted_before_its_binding_is_observed_gives_its_place_back():
    watched = Watched()
    rig = watched.rig
    rig.add_pod("other")
    rig.watch()
    rig.tick()
    rig.execute(watch=False)
    assert rig.node_of("other") == "n"
    rig.skip_watch()  # the answer came, the observation did not
    rig.server.delete_pod(builders.pod("other").key)
    assert watched.heard() == [(Resource.ASSIGNED_POD, Action.DELETE)]


def test_a_nomination_that_changes_frees_the_place_it_was_for():
    watched = Watched()
    rig = watched.rig
    rig.add_pod("gated", gates=("g",), nominated="n")
    assert watched.heard() == []
    rig.add_pod("gated", gates=("g",), nominated="m")
    assert watched.heard() == [(Resource.ASSIGNED_POD, Action.DELETE)]
    rig.server.delete_pod(builders.pod("gated").key)
    assert watched.heard() == [(Resource.ASSIGNED_POD, Action.DELETE)]
    rig.add_pod("gated", gates=("g",))
    rig.server.delete_pod(builders.pod("gated").key)
    assert watched.heard() == []


def test_a_change_for_which_no_rejected_pod_waits_costs_no_look_at_the_pods(monkeypatch):
    """Slots waits for pods that go, but it has rejected nobody; the plugin that has does not wait for them."""
    rejecting = ByName(
        is_rejected=lambda pod, info: pod.metadata.name == "waiting", wakes_on=((Resource.CLASS, Action.ADD),)
    )
    rig = Rig(rejecting, Slots(3))
    rig.add_nodes("n")
    rig.add_pod("waiting")
    rig.add_pod("other", scheduler="somebody", node="n")
    rig.settle()
    monkeypatch.setattr("scheduler.core.queue.scheduling_queue.ClusterEvent", None)  # making one would fail
    rig.server.delete_pod(builders.pod("other").key)
    rig.settle()
