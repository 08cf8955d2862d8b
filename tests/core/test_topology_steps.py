"""What groups with a topology take is counted in steps; pods of other namespaces wait for turns of theirs at most."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scheduler.core.ground.inputs import TimerFired
from scheduler.core.queue import slow_queue
from scheduler.core.trying.group_topology import LabelValues
from scheduler.framework.decisions import BindPod
from scheduler.framework.plans import Plans
from scheduler.model.keys import ClaimKey, PodGroupKey, PodKey
from scheduler.model.pod_group import PodGroup
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig
from tests.core.test_group_topology import group, member, placed, running, world

HOST = "kubernetes.io/hostname"


def hosts(nodes: int, groups: int = 1, members: int = 6, *, with_devices: int = 20, **settings: Any) -> Rig:
    """Groups whose pods want five devices each of one host; some hosts have eight devices, the others none."""
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False, **settings)
    rig.server.put_class(builders.device_class())
    for number in range(nodes):
        rig.add_nodes(f"n{number}")
        if number < with_devices:
            rig.server.put_slice(builders.resource_slice(f"s{number}", node=f"n{number}", devices=8))
    for number in range(groups):
        rig.server.put_pod_group(
            PodGroup(PodGroupKey("default", f"g{number}"), f"uid-{number}", min_count=members, topology_key=HOST)
        )
        for at in range(members):
            name = f"p{number}-{at}"
            spec = builders.claim_spec_object(builders.request_object(count=5))
            rig.server.put_claim(builders.claim(name, spec=spec))
            rig.add_pod(name, claims=(name,), schedulingGroup={"podGroupName": f"g{number}"})
    rig.watch()
    return rig


def searched(rig: Rig) -> tuple[int, int]:
    """How many steps the machine counts until no group is being tried, and how many calls Python makes for that."""
    calls, feasibility = 0, rig.machine.feasibility
    begun = feasibility.steps

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        while not rig.machine.queue.counts()["unschedulable"]:
            rig.machine.handle(TimerFired(), now_ms=rig.now_ms)
            rig.now_ms += 20
    finally:
        sys.setprofile(None)
    return feasibility.steps - begun, calls


def test_a_step_of_a_group_is_as_much_work_however_many_values_there_are():
    work = {}
    for nodes in (50, 400):
        steps, calls = searched(hosts(nodes))
        assert steps > 40 * nodes, "each value costs steps"
        work[nodes] = calls / steps
    assert work[400] < 1.15 * work[50], work


def test_plugins_are_sorted_once_however_many_values_there_are(monkeypatch):
    sort, sorted_ = Plans._sort, []
    monkeypatch.setattr(
        Plans, "_sort", lambda self, skipped, *more: sorted_.append(skipped) or sort(self, skipped, *more)
    )
    searched(hosts(40))
    assert len(sorted_) == len(set(sorted_))


def waits(groups: int) -> tuple[int, int]:
    """How many times the timer fires at most until a pod of another namespace is bound, and how many steps that is."""
    rig, found = hosts(150, groups), []
    for number in range(40):
        name = f"ordinary-{number}"
        rig.server.put_claim(builders.claim(name, namespace="other"))
        rig.add_pod(name, namespace="other", claims=(name,))
        ticks, begun = 0, rig.machine.feasibility.steps
        while rig.server.pods[PodKey("other", name)].node_name is None:
            let_pass(rig)
            ticks += 1
        found.append((ticks, rig.machine.feasibility.steps - begun))
        rig.server.delete_pod(PodKey("other", name))
        rig.server.delete_claim(ClaimKey("other", name))
        for _ in range(10):
            let_pass(rig)
    assert not [one for one in rig.decided if isinstance(one, BindPod) and one.pod.namespace == "default"]
    later = found[1:]  # the first pod looks at all nodes
    return max(ticks for ticks, _ in later), max(steps for _, steps in later)


def let_pass(rig: Rig) -> None:
    rig.watch()
    rig.tick(5)
    rig.execute()


@pytest.mark.parametrize("groups", [1, 20])
def test_a_pod_of_another_namespace_waits_for_two_turns_of_groups_at_most(groups):
    alone, beside = waits(0), waits(groups)
    assert beside[0] <= alone[0] + 1, (alone, beside)
    assert beside[1] <= alone[1] + 2 * 1_100, (alone, beside)  # every other time it is a turn of theirs


def spent_with_time(rig: Rig, seconds: int) -> int:
    """Steps within so much time, where a step takes 4 us and the timer fires whenever it is due."""
    feasibility, begun, until_ms = rig.machine.feasibility, rig.machine.feasibility.steps, rig.now_ms + seconds * 1_000
    while (deadline := rig.machine.next_deadline_ms()) is not None and deadline <= until_ms:
        before = feasibility.steps
        rig.now_ms = max(rig.now_ms, deadline)
        rig.tick()
        rig.execute()
        rig.now_ms += -(-(feasibility.steps - before) // 250)
    rig.now_ms = max(rig.now_ms, until_ms)
    return feasibility.steps - begun


def test_groups_that_fit_nowhere_have_a_quarter_of_the_thread_however_little_each_of_their_pods_takes(monkeypatch):
    monkeypatch.setattr(slow_queue, "_CREDIT_MAX_STEPS", 50_000)
    rig = hosts(150, groups=10, members=16, with_devices=150)
    assert spent_with_time(rig, 1) > 50_000
    in_a_second = spent_with_time(rig, 3) / 3
    assert 50_000 < in_a_second < 70_000


def test_a_group_that_took_long_and_fits_nowhere_rests_four_times_as_long_and_then_a_change_wakes_it():
    rig = hosts(150, members=16, with_devices=150, search_steps_before_rest=50_000)
    steps = spent_with_time(rig, 1)
    assert rig.machine.queue.counts()["unschedulable"] == 16
    assert 50_000 < steps < 150_000
    rig.add_nodes("large")
    rig.server.put_slice(builders.resource_slice("large", node="large", devices=80))
    rig.watch()
    assert spent_with_time(rig, 1) == 0
    spent_with_time(rig, 3)
    assert set(placed(rig).values()) == {"large"}


RACKS = st.sampled_from(["a", "b", "c", None])


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(RACKS, st.integers(0, 3)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 5), RACKS), max_size=4),
)
def test_values_that_are_kept_change_no_answer(nodes, groups, changes):
    answers = []
    holds = LabelValues._holds
    try:
        for is_kept in (True, False):
            LabelValues._holds = holds if is_kept else lambda *_: False
            rig = world(
                {f"n{index}": rack for index, (rack, _) in enumerate(nodes)},
                {f"n{index}": count for index, (_, count) in enumerate(nodes)},
                search_steps_first=1,
                search_steps_per_turn=1,
            )
            for index, (needed, more) in enumerate(groups):
                group(rig, needed, f"g{index}")
                for at in range(needed + more):
                    member(rig, f"p{index}-{at}", f"g{index}")
            rig.watch()
            for index, rack in changes:  # while the groups are being placed
                for _ in range(3):
                    rig.tick()
                if rack is None and index % 2:
                    rig.server.delete_node(f"n{index}")
                else:
                    rig.server.put_node(builders.node(f"n{index}", labels={"rack": rack} if rack is not None else {}))
                rig.watch()
            rig.wait(20_000)
            answers.append((placed(rig), rig.events))
    finally:
        LabelValues._holds = holds
    assert answers[0] == answers[1]


def test_labels_are_read_again_where_nodes_have_changed_and_all_of_them_where_a_value_has():
    rig = world({"a1": "a", "a2": "a", "b1": "b", "c1": None}, {})
    group(rig, 1)
    member(rig, "x")
    rig.watch()
    values = rig.machine._gangs._label_values

    def looked_at() -> int:
        before = values.looked_at
        values._of("rack")
        return values.looked_at - before

    looked_at()
    assert looked_at() == 0
    running(rig, "y", "a1")
    rig.watch()
    assert looked_at() == 1
    rig.server.put_node(builders.node("c1", labels={"rack": "b"}))
    rig.watch()
    assert looked_at() == 1 + 4
    assert values._of("rack") == {"a": {"a1", "a2"}, "b": {"b1", "c1"}}
    rig.server.delete_node("a2")
    rig.watch()
    assert values._of("rack") == {"a": {"a1"}, "b": {"b1", "c1"}}
