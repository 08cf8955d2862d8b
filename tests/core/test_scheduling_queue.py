"""The scheduling queue: order, backoff, what wakes whom, and that nobody is forgotten."""

from __future__ import annotations

import gc

import pytest

from scheduler.core.ground.inputs import Deleted
from scheduler.core.queue.queued_pod import Place, QueuedPod
from scheduler.framework.api import Action, Hint, Resource
from scheduler.framework.decisions import BindPod
from scheduler.framework.status import Status
from scheduler.model.keys import PodKey
from tests import builders
from tests.core.plugins import Gate, Reject, Slots, TinyDevices
from tests.core.rig import Rig
from tests.observed import observed


def attempts(rig: Rig) -> int:
    return sum(event.startswith("FailedScheduling") for event in rig.events)


def test_a_change_wakes_only_pods_that_its_plugin_rejected():
    watcher = Reject(name="Watcher", wakes_on=((Resource.NODE, Action.ADD),))
    rig = Rig(watcher, Slots(0))
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    rig.add_nodes("b")
    rig.settle()
    assert watcher.hinted == []
    assert attempts(rig) == 2  # Slots is woken by new nodes too


def test_a_hint_that_says_skip_wakes_nobody():
    rejecting = Reject(is_rejected=lambda pod, info: True, hint_=Hint.SKIP)
    rig = Rig(rejecting)
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    rig.add_nodes("b")
    rig.settle()
    assert [name for name, _ in rejecting.hinted] == ["p"]
    assert attempts(rig) == 1


def test_a_pod_woken_before_its_backoff_ended_is_tried_at_once_when_nothing_else_is_active():
    rig = Rig(Slots(0))
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    rig.add_nodes("b")
    rig.settle()
    assert attempts(rig) == 2


def test_a_filter_error_fails_the_cycle_and_backs_off_longer_each_time():
    class Broken(Reject):
        def filter(self, cycle, node, view):
            return Status.error("cannot decide")

    rig = Rig(Broken())
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    assert rig.condition_of("p") == ("SchedulerError", 'running "Reject" filter plugin: cannot decide')
    waits = []
    for _ in range(6):
        deadline = rig.machine.next_deadline_ms()
        waits.append(deadline - rig.now_ms)
        rig.wait(deadline - rig.now_ms)
    assert waits == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]


def test_verdicts_and_errors_are_counted_separately():
    """An error does not prolong the backoff after verdicts, and a verdict ends a run of errors."""
    fate = ["rejected"]

    class Moody(Reject):
        def filter(self, cycle, node, view):
            return Status.error("cannot decide") if fate[0] == "error" else Status.unschedulable("no")

        def signature(self, cycle, view):
            return None

    rig = Rig(Moody(), backoff_ms_max=60_000)
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    queued = rig.machine.queue.find(builders.pod("p").uid)
    waits = []
    for next_fate in ("rejected", "rejected", "error", "error", "error", "rejected", "error"):
        fate[0] = next_fate
        if queued.place is Place.UNSCHEDULABLE:  # a label wakes it, and it is not tried before its time
            queued.waits_out = True
            rig.add_pod("p", labels={"n": str(len(waits))})
            rig.watch()
        rig.wait(queued.ready_ms - rig.now_ms)
        waits.append((queued.unschedulable_count, queued.consecutive_errors, queued.ready_ms - rig.now_ms))
    assert waits == [
        (2, 0, 2_000),
        (3, 0, 4_000),
        (3, 1, 1_000),
        (3, 2, 2_000),
        (3, 3, 4_000),
        (4, 0, 8_000),
        (4, 1, 1_000),
    ]


def test_a_gated_pod_is_not_flushed():
    gate = Gate()
    rig = Rig(gate, Slots(1))
    rig.add_nodes("a")
    rig.add_pod("p", labels={"hold": ""})
    rig.wait(10_000)
    assert attempts(rig) == 1  # told why, once
    rig.wait(700_000)
    assert attempts(rig) == 1


def test_what_nothing_wakes_is_tried_again_after_five_minutes():
    rig = Rig(Slots(0, wakes_on=((Resource.CLASS, Action.ADD),)))
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.add_pod("q")
    rig.settle()
    assert attempts(rig) == 2
    rig.wait(299_000)
    assert attempts(rig) == 2
    rig.wait(32_000)
    assert attempts(rig) == 3  # the leader; it tells about both


def test_one_pod_of_a_shape_is_tried_for_all():
    slots = Slots(0)
    rig = Rig(slots, is_paranoid=False)
    rig.add_nodes("a")
    for index in range(50):
        rig.add_pod(f"p{index}")
    rig.settle()
    assert attempts(rig) == 50  # each is told once why it waits
    slots.calls.clear()
    rig.add_nodes("b")
    rig.settle()
    assert attempts(rig) == 51
    assert slots.calls == ["b"]


def test_when_the_leader_fits_the_next_one_follows():
    rig = Rig(Slots(1))
    rig.add_nodes("a")
    rig.add_pod("there", node="a")
    for index in range(6):
        rig.add_pod(f"p{index}")
    rig.settle()
    rig.add_nodes("b", "c", "d")
    rig.settle()
    assert len(rig.server.bindings) == 3
    assert rig.machine.queue.counts()["unschedulable"] == 3


def test_the_leader_is_the_one_of_highest_priority():
    rig = Rig(Slots(1))
    rig.add_nodes("a")
    rig.add_pod("there", node="a")
    rig.add_pod("low", priority=1)
    rig.add_pod("high", priority=5)
    rig.add_pod("middle", priority=3)
    rig.settle()
    rig.add_nodes("b")
    rig.settle()
    assert rig.node_of("high") == "b"


def test_a_leader_that_goes_hands_on():
    rig = Rig(Slots(1))
    rig.add_nodes("a")
    rig.add_pod("there", node="a")
    rig.add_pod("p", priority=5)
    rig.add_pod("q")
    rig.settle()
    rig.add_nodes("b")
    rig.watch()  # p leads, but before it is tried …
    rig.server.delete_pod(PodKey("default", "p"))
    rig.settle()
    assert rig.node_of("q") == "b"


def test_a_leader_that_is_gated_hands_on():
    rig = Rig(Gate(), Slots(1))
    rig.add_nodes("a")
    rig.add_pod("there", node="a")
    rig.add_pod("p", priority=5)
    rig.add_pod("q")
    rig.settle()
    rig.add_nodes("b")
    rig.watch()
    rig.tell(builders_observed(rig, "p", labels={"hold": "yes"}))
    rig.settle()
    assert {rig.node_of("p"), rig.node_of("q")} == {None, "b"}


def builders_observed(rig, name, **fields):
    rig.server.put_pod(builders.pod(name, **fields))
    return rig.server.log[-1]


def test_a_pod_whose_claim_changed_leaves_its_group():
    """Two pods of one shape; then the claim that one of them shares is allocated by somebody, on a node that fits."""
    rig = Rig(Slots(2), TinyDevices(count=1))
    rig.add_nodes("a")
    for name in ("taken", "mine", "shared"):
        rig.server.put_claim(builders.claim(name))
    rig.add_pod("there", claims=("taken",))
    rig.settle()
    rig.add_pod("p", claims=("mine",), priority=5)
    rig.add_pod("q", claims=("shared",))
    rig.settle()
    assert rig.machine.queue.counts()["unschedulable"] == 2
    rig.server.put_claim(builders.claim("shared", allocation=builders.allocation("extra", pool="a")))
    rig.settle()
    assert rig.node_of("q") == "a"
    assert rig.node_of("p") is None


def test_a_change_of_the_pod_itself_wakes_it_alone():
    rig = Rig(Slots(0))
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.add_pod("q")
    rig.settle()
    rig.server.put_pod(builders.pod("q", labels={"new": "label"}))
    rig.settle()
    assert attempts(rig) == 3


def test_our_own_status_patch_wakes_nobody():
    rig = Rig(Slots(0))
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.wait(20_000)
    assert attempts(rig) == 1


def test_counts_name_every_place():
    rig = Rig(Gate(), Slots(0))
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.add_pod("g", labels={"hold": "yes"})
    rig.settle()
    rig.add_pod("new")
    rig.watch()
    assert rig.machine.queue.counts() == {"active": 1, "backoff": 0, "unschedulable": 1, "gated": 1, "in flight": 0}


def test_a_pod_that_is_gated_for_long_is_told_why_once():
    rig = Rig(TinyDevices())
    rig.add_nodes("a")
    rig.add_pod("p", claims=("mistyped",))
    rig.wait(4_900)
    assert rig.events == []
    rig.wait(200)
    text = "0/1 nodes are available: claim not found."
    assert rig.events == [f"FailedScheduling: {text}"]
    assert rig.condition_of("p") == ("Unschedulable", text)
    rig.wait(60_000)
    assert len(rig.events) == 1


def test_a_pod_gated_for_a_moment_hears_nothing():
    rig = Rig(TinyDevices())
    rig.add_nodes("a")
    rig.add_pod("p", claims=("late",))
    rig.wait(1_000)
    rig.server.put_claim(builders.claim("late"))
    rig.wait(10_000)
    assert rig.node_of("p") == "a"
    assert rig.events == ["Scheduled: Successfully assigned default/p to a"]


def bound_in_order(rig: Rig) -> list[str]:
    """Pods in the order of their bindings' decisions, without an answer to any."""
    while any(isinstance(decision, BindPod) for decision in rig.tick()):
        pass
    return [decision.pod.name for decision in rig.pending if isinstance(decision, BindPod)]


def test_one_pod_beside_many_of_another_namespace_waits_for_one_of_them():
    """Three hundred pods that came out of their backoff at once stood before everybody else's for 200 ms."""
    rig = Rig(Slots(1_000))
    rig.add_nodes("a")
    for number in range(60):
        rig.add_pod(f"many-{number:02}", namespace="crowded")
    rig.watch()
    rig.tick()
    tried = len(rig.pending)
    assert 0 < tried < 40
    rig.add_pod("single", namespace="other")
    rig.add_pod("second", namespace="other")
    rig.watch()
    order = bound_in_order(rig)
    assert len(order) == 62
    assert [name for name in order if name.startswith("many")] == [f"many-{number:02}" for number in range(60)]
    assert order.index("single") - tried in (0, 1)
    assert order.index("second") - order.index("single") == 2


def test_each_turn_has_one_pod_of_each_namespace():
    rig = Rig(Slots(1_000))
    rig.add_nodes("a")
    for number in range(4):
        rig.add_pod(f"a{number}", namespace="a")
    for number in range(3):
        rig.add_pod(f"b{number}", namespace="b")
        rig.add_pod(f"c{number}", namespace="c")
    rig.watch()
    assert bound_in_order(rig) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2", "a3"]


def test_turns_of_one_priority_know_nothing_of_those_of_another():
    """A namespace's backlog of low priority must not put its pods of high priority behind everybody else's, nor the
    pods of high priority that were tried put newcomers behind a backlog of low priority."""
    rig = Rig(Slots(1_000))
    rig.add_nodes("a")
    for number in range(30):
        rig.add_pod(f"low-{number:02}", namespace="crowded")
    rig.add_pod("high", namespace="crowded", priority=7)
    for number in range(10):
        rig.add_pod(f"other-{number}", namespace="other", priority=7)
    rig.watch()
    rig.tick()
    rig.add_pod("newcomer", namespace="third")
    rig.watch()
    order = bound_in_order(rig)
    assert order.index("high") < 2
    assert order.index("newcomer") < 11 + 10


def test_priority_goes_before_turns():
    rig = Rig(Slots(1_000))
    rig.add_nodes("a")
    for number in range(30):
        rig.add_pod(f"many-{number:02}", namespace="crowded", priority=7)
    rig.add_pod("single", namespace="other")
    rig.watch()
    assert bound_in_order(rig)[-1] == "single"


@pytest.mark.slow
def test_who_only_observes_keeps_nothing_of_pods_that_are_gone():
    """A standby: pods come, are gated until they change, wait to be tried, and go, bound by another; no timer fires."""

    def kept() -> int:
        gc.collect()
        return sum(isinstance(one, QueuedPod) for one in gc.get_objects())

    rig = Rig(Gate(), checks_invariants=False, is_strict=False, is_paranoid=False)
    before = kept()
    for number in range(5_000):
        seen = [
            builders.pod("p", uid=f"uid-{number}", revision=3 * number + 1, labels={"hold": "yes"}),
            builders.pod("p", uid=f"uid-{number}", revision=3 * number + 2),
        ]
        for pod in seen:
            rig.tell(observed(pod))
        rig.tell(Deleted("Pod", seen[1].key, seen[1].uid))
    assert kept() - before <= 1_000
