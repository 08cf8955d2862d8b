"""A PodGroup says whether its pods were placed for the first time, and why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allocator import Features
from scheduler.core.ground.inputs import WriteOutcomeUnknown, WriteRejected
from scheduler.framework.decisions import BindPod, PatchPodGroupStatus
from scheduler.model.keys import PodGroupKey, PodKey
from scheduler.model.pod_group import GroupCondition, PodGroup
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig

KEY = PodGroupKey("default", "g")
PLACED = GroupCondition(True, "Scheduled", "")


def world(devices: int, group: PodGroup | None = None, **fields) -> Rig:
    rig = Rig(*default_plugins(), **fields)
    rig.server.put_class(builders.device_class())
    rig.add_nodes("a")
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=devices))
    rig.server.put_pod_group(group or PodGroup(KEY, "uid-g", min_count=2))
    return rig


def member(rig: Rig, name: str, **fields) -> None:
    rig.server.put_claim(builders.claim(name, spec=builders.claim_spec_object(builders.request_object())))
    rig.add_pod(name, claims=(name,), schedulingGroup={"podGroupName": "g"}, **fields)


def said(rig: Rig) -> GroupCondition | None:
    return rig.server.pod_groups[KEY][0].condition


def writes(rig: Rig) -> list[PatchPodGroupStatus]:
    return [one for one in rig.decided if isinstance(one, PatchPodGroupStatus)]


def test_why_not_and_then_that_it_was_placed_and_never_more():
    rig = world(1)
    member(rig, "x")
    rig.wait(10_000)
    assert said(rig) is None, "it waits for its pods"
    member(rig, "y")
    rig.wait(10_000)
    condition = said(rig)
    assert condition is not None
    assert condition[:2] == (False, "Unschedulable")
    assert "1 of the 2 pods of group default/g that are needed fit together." in condition.message
    rig.wait(60_000)
    assert len(writes(rig)) == 1, "nothing new is said"

    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=2))
    rig.wait(5_000)
    assert said(rig) == PLACED
    assert [(one.is_true, one.is_transition) for one in writes(rig)] == [(False, True), (True, True)]
    member(rig, "z")
    rig.wait(60_000)
    assert rig.node_of("z") is None
    assert said(rig) == PLACED
    assert len(writes(rig)) == 2


def test_a_group_whose_pods_are_placed_one_by_one():
    rig = world(1, PodGroup(KEY, "uid-g"))
    member(rig, "x")
    rig.wait(5_000)
    assert said(rig) == PLACED
    assert rig.node_of("x") == "a"


@pytest.mark.parametrize(
    ("release", "fields", "group", "message"),
    [
        ("1.37", {"priority": 5}, {}, "priority as the pod group's priority, got 5 and 0"),
        ("1.36", {"priority": 5}, {}, None),
        ("1.37", {"scheduler": "another"}, {}, '.spec.schedulerName set, got: "dra-scheduler" and "another"'),
        ("1.36", {"scheduler": "another"}, {}, '.spec.schedulerName set, got: "dra-scheduler" and "another"'),
        ("1.37", {"preemptionPolicy": "Never"}, {}, "preemption policy, got PreemptLowerPriority and Never"),
        (
            "1.37",
            {},
            {"preemption_policy": "Never"},
            "preemption policy as the pod group's preemption policy, got PreemptLowerPriority and Never",
        ),
        ("1.36", {"preemptionPolicy": "Never"}, {}, None),
        ("1.38", {"priority": 5}, {}, "priority as the root pod group's priority, got 5 and 0"),
        ("1.38", {"scheduler": "another"}, {}, '.spec.schedulerName set, got: "dra-scheduler" and "another"'),
        ("1.38", {"preemptionPolicy": "Never"}, {}, "preemption policy, got PreemptLowerPriority and Never"),
        ("1.38", {}, {"preemption_policy": "Never"}, "preemption policy, got PreemptLowerPriority and Never"),
    ],
)
def test_pods_that_do_not_agree_wait_and_their_group_says_so(release, fields, group, message):
    rig = world(3, PodGroup(KEY, "uid-g", min_count=2, **group), features=Features(kubernetes=release))
    member(rig, "x")
    member(rig, "y", **fields)
    rig.wait(10_000)
    if message is None:
        assert said(rig) == PLACED
        return
    is_138 = release == "1.38"
    text = f"all pods in a {'pod group hierarchy' if is_138 else 'single pod group'} should have the same {message}"
    assert said(rig) == GroupCondition(False, "PodGroupError" if is_138 else "SchedulerError", text)
    assert not [one for one in rig.decided if isinstance(one, BindPod)]
    condition = rig.condition_of("x")
    assert condition is not None
    assert text in condition[1]
    if fields:
        rig.server.delete_pod(PodKey("default", "y"))
        member(rig, "z")
        rig.wait(10_000)
        assert said(rig) == PLACED


def test_what_it_says_wakes_nobody():
    rig = world(1)
    member(rig, "x")
    member(rig, "y")
    rig.wait(10_000)
    group = rig.server.pod_groups[KEY][0]
    rig.server.put_pod_group(replace(group, condition=GroupCondition(False, "Unschedulable", "somebody says it")))
    before = len(rig.decided)
    rig.settle()
    assert len(rig.decided) == before


@pytest.mark.parametrize(("code", "is_repeated"), [(403, False), (503, True)])
def test_a_write_that_fails_stops_nothing(code, is_repeated):
    rig = world(2)
    member(rig, "x")
    member(rig, "y")
    rig.watch()
    while not any(isinstance(one, PatchPodGroupStatus) for one in rig.pending):
        rig.tick()
    patch = rig.take(PatchPodGroupStatus)
    rig.tell(WriteRejected(patch.id, code, "No", "no"))
    rig.wait(20_000)
    assert (rig.node_of("x"), rig.node_of("y")) == ("a", "a")
    assert said(rig) == (PLACED if is_repeated else None)


def test_a_lost_answer_is_asked_for_again():
    rig = world(2)
    member(rig, "x")
    member(rig, "y")
    rig.watch()
    while not any(isinstance(one, PatchPodGroupStatus) for one in rig.pending):
        rig.tick()
    patch = rig.take(PatchPodGroupStatus)
    rig.tell(WriteOutcomeUnknown(patch.id))
    rig.wait(20_000)
    assert said(rig) == PLACED


def test_of_a_namespace_one_is_under_way():
    rig = world(0)
    for number in range(5):
        name = f"g{number}"
        rig.server.put_pod_group(PodGroup(PodGroupKey("default", name), f"uid-{name}", min_count=1))
        rig.server.put_claim(builders.claim(name, spec=builders.claim_spec_object(builders.request_object())))
        rig.add_pod(name, claims=(name,), schedulingGroup={"podGroupName": name})
    rig.watch()
    for _ in range(20):
        rig.tick(100)
    assert sum(isinstance(one, PatchPodGroupStatus) for one in rig.pending) == 1
    rig.wait(10_000)
    assert all(group.condition is not None for key, (group, _) in rig.server.pod_groups.items() if key != KEY)


def test_a_server_that_is_broken_is_asked_with_backoff():
    rig = world(2)
    member(rig, "x")
    member(rig, "y")
    rig.watch()
    for _ in range(200):
        if any(isinstance(one, PatchPodGroupStatus) for one in rig.pending):
            patch = rig.take(PatchPodGroupStatus)
            rig.tell(WriteRejected(patch.id, 503, "No", "no"))
        rig.tick()
    assert len(writes(rig)) < 10
