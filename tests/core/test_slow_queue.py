"""What takes long waits its turn: costly selectors and searches hold up nobody, and are asked less and less often."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import STEP
from cel import ANSWER_WORK_MAX
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.inputs import WriteRejected
from scheduler.core.queue.queued_pod import Place, QueuedPod
from scheduler.core.queue.slow_queue import SlowQueue
from scheduler.framework.decisions import BindPod
from scheduler.framework.plan import PodSignature
from scheduler.framework.status import Status
from scheduler.model.keys import PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.allocator.test_meter import NEARLY_ENDLESS
from tests.allocator.test_paused import hostile
from tests.core.plugins import Reject, Slots
from tests.core.rig import Rig

A = "device.attributes['gpu.example.com']"
STEPS = 2_000


def costly(text: str) -> str:
    return f"{NEARLY_ENDLESS} && {A}.uuid != '{text}'"


def world(nodes: int, devices: int = 2, **settings: Any) -> Rig:
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False, steps_per_tick=STEPS, **settings)
    rig.server.put_class(builders.device_class())
    for index in range(nodes):
        rig.add_nodes(f"n{index}")
        gpus = tuple(builders.device_object(f"gpu-{gpu}", uuid=f"u-{index}-{gpu}") for gpu in range(devices))
        rig.server.put_slice(builders.resource_slice(f"s{index}", node=f"n{index}", devices=gpus))
    return rig


def add(rig: Rig, name: str, *requests: dict[str, Any], namespace: str = "default") -> None:
    """A pod with a claim of its own."""
    rig.server.put_claim(
        builders.claim(f"{name}-claim", namespace=namespace, spec=builders.claim_spec_object(*requests))
    )
    rig.add_pod(name, claims=(f"{name}-claim",), namespace=namespace)


def spent_by_input(rig: Rig, ticks: int, *, ms: int = 1) -> list[int]:
    """Work of each input, over so many ticks."""
    meter = rig.machine.store.inventory.meter
    spent = []
    for _ in range(ticks):
        before = meter.spent
        rig.tick(ms)
        spent.append(meter.spent - before)
        before = meter.spent
        rig.execute()
        rig.watch()
        assert meter.spent == before, "only ticks look for devices"
    return spent


LONGEST = STEPS * STEP + ANSWER_WORK_MAX
"""A tick's steps, and one evaluation that began within them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "requests",
    [
        [builders.request_object(count=3, selector=costly("x"))],
        [
            {
                "name": f"r{number}",
                "firstAvailable": [
                    {
                        "name": f"way-{way}",
                        "deviceClassName": builders.CLASS,
                        "allocationMode": "ExactCount",
                        "count": 1,
                        "selectors": [{"cel": {"expression": costly(f"{number}-{way}-{part}")}} for part in range(3)],
                    }
                    for way in range(3)
                ],
            }
            for number in range(4)
        ],
    ],
    ids=["one-selector", "many-selectors"],
)
def test_no_input_takes_more_than_a_ticks_steps_and_one_evaluation(requests):
    rig = world(6)
    add(rig, "hostile", *requests)
    rig.watch()
    for number in range(3):
        add(rig, f"ordinary-{number}", builders.request_object(), namespace="good")
    rig.watch()
    spent = spent_by_input(rig, 8)
    assert all(rig.node_of(f"ordinary-{number}", namespace="good") for number in range(3)), (
        "bound while the other is searched for"
    )
    spent += spent_by_input(rig, 60, ms=10)
    assert max(spent) <= LONGEST
    assert sum(spent) > 10 * ANSWER_WORK_MAX // 4


def test_the_verdict_comes_in_the_end_and_names_what_was_asked():
    rig = world(3)
    add(rig, "hostile", builders.request_object(count=3, selector=costly("x")))
    rig.watch()
    spent_by_input(rig, 40)
    assert rig.condition_of("hostile")[1].startswith("0/3 nodes are available: 3 cannot allocate all claims.")
    assert rig.machine.queue.find(rig.server.pods[PodKey("default", "hostile")].uid).attempts == 1


def test_a_pod_of_another_namespace_is_tried_at_once_however_many_search():
    rig = world(4)
    for number in range(30):
        add(rig, f"hostile-{number}", builders.request_object(count=3, selector=costly(str(number))), namespace="bad")
    rig.watch()
    spent_by_input(rig, 5)
    add(rig, "ordinary", builders.request_object(), namespace="good")
    rig.watch()
    spent_by_input(rig, 4)
    assert rig.node_of("ordinary", namespace="good")


def test_a_pod_whose_last_attempt_took_long_lets_those_pass_that_are_not_like_it():
    """Hopeless ones that wake again and again would take all of their namespace's time."""
    lanes, signature = SlowQueue(lambda _: True), PodSignature("s", 1)
    hopeless, alike, other = (
        QueuedPod(name, builders.pod(name), None, active_ticket=n) for n, name in enumerate("hao")
    )
    hopeless.cost, hopeless.search_signature = 30_000, signature
    lanes.push(hopeless, 0)
    lanes.push(other, 0)
    assert lanes.first(0) is other
    assert lanes.stands_behind(alike, signature), "what the first finds out holds for it"
    assert not lanes.stands_behind(other, PodSignature("t", 1))


@pytest.mark.slow
def test_namespaces_share_what_searches_may_spend_whatever_the_number_of_their_pods():
    rig = world(40)
    for number in range(12):
        add(rig, f"many-{number}", builders.request_object(count=3, selector=costly(f"m{number}")), namespace="many")
    add(rig, "single", builders.request_object(count=3, selector=costly("s")), namespace="single")
    rig.watch()
    spent_by_input(rig, 60)
    steps = {"many": 0, "single": 0}
    for queued in rig.machine.queue.all():
        steps[queued.pod.key.namespace] += queued.steps or queued.cost
    assert steps["single"] > steps["many"] // 2


def test_what_keeps_costing_rests_longer_and_longer_and_says_so():
    rig = world(400, search_steps_before_rest=10_000)
    add(rig, "hostile", builders.request_object(count=3, selector=costly("x")))
    rig.watch()
    told: list[tuple[int, str]] = []
    for _ in range(4_000):
        rig.tick(5)
        rig.execute()
        rig.watch()
        condition = rig.condition_of("hostile")
        if condition is not None and (not told or told[-1][1] != condition[1]):
            told.append((rig.now_ms, condition[1]))
        if len(told) == 4:
            break
    assert "takes long" in told[0][1]
    assert "goes on in 1s" in told[0][1]
    times = [ms for ms, _ in told]
    assert times[3] - times[2] > 1.5 * (times[2] - times[1]), told
    queued = rig.machine.queue.find(rig.server.pods[PodKey("default", "hostile")].uid)
    assert (queued.place, queued.attempts) == (Place.BACKOFF, 0)
    assert not rig.machine.queue.has_active(), "it is not tried early because nothing else is there"


@pytest.mark.slow
def test_a_rejection_that_took_long_is_not_tried_again_soon():
    rig = world(60, search_steps_before_rest=20_000, backoff_ms_max=1_000)
    add(rig, "hostile", builders.request_object(count=3, selector=costly("x")))
    rig.watch()
    for _ in range(3_000):
        rig.tick(50)
        rig.execute()
        rig.watch()
        condition = rig.condition_of("hostile")
        if condition is not None and "60 cannot allocate" in condition[1]:
            break
    assert "tried again after" in condition[1]
    queued = rig.machine.queue.find(rig.server.pods[PodKey("default", "hostile")].uid)
    assert queued.ready_ms - rig.now_ms > 1_000


EASY = builders.claim_spec_object(builders.request_object(device_class="class-a"))


def packed(rig: Rig, nodes: int) -> dict[str, Any]:
    """Nodes on which a search for the claim it returns takes very long."""
    case = hostile()
    rig.server.put_class(builders.device_class("class-a", driver="driver-a"))
    devices = tuple(case["slices"][0]["spec"]["devices"])
    for index in range(nodes):
        rig.add_nodes(f"p{index}")
        rig.server.put_slice(builders.resource_slice(f"p{index}", node=f"p{index}", driver="driver-a", devices=devices))
    return case["claims"][0]["spec"]


def add_hostile(rig: Rig, spec: dict[str, Any], count: int) -> None:
    """Pods of namespace bad, each with such a claim."""
    for number in range(count):
        rig.server.put_claim(builders.claim(f"hostile-{number}", namespace="bad", spec=spec))
        rig.add_pod(f"hostile-{number}", claims=(f"hostile-{number}",), namespace="bad")


def test_twenty_searches_leave_every_other_tick_to_others():
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False)
    rig.server.put_class(builders.device_class())
    spec = packed(rig, 20)
    add_hostile(rig, spec, 20)
    rig.watch()
    spent_by_input(rig, 3)
    for number in range(5):
        rig.server.put_claim(builders.claim(f"easy-{number}", namespace="good", spec=EASY))
        rig.add_pod(f"easy-{number}", claims=(f"easy-{number}",), namespace="good")
        rig.watch()
        spent_by_input(rig, 4)
        assert rig.node_of(f"easy-{number}", namespace="good")


def test_searches_pause_after_each_turn_while_pods_of_others_come():
    """A pod is bound in half a dozen steps, each of which waited for a turn to end: it took five times as long."""
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False)
    rig.server.put_class(builders.device_class())
    add_hostile(rig, packed(rig, 1), 1)
    rig.watch()
    meter = rig.machine.store.inventory.meter

    def turns(ms: int) -> list[int]:
        """When the search went on, in so many milliseconds of ticks, without an answer to anything."""
        went_on = []
        for passed in range(ms):
            before = meter.spent
            rig.tick(1)
            if meter.spent > before:
                went_on.append(passed)
        return went_on

    turns(3)
    assert turns(20) == list(range(20)), "alone it goes on at once"
    rig.add_pod("plain", namespace="good")
    rig.watch()
    turns(2)
    assert rig.pending, "the other pod's binding is under way"
    went_on = turns(200)
    assert went_on, "it goes on all the same"
    pauses = [later - earlier for earlier, later in itertools.pairwise(went_on)]
    assert min(pauses) >= CoreSettings().search_steps_per_turn // 60
    rig.execute()
    assert rig.node_of("plain", namespace="good")
    turns(60)
    assert turns(10) == list(range(10))


def test_a_turn_of_the_searches_is_shorter_than_one_of_the_active_pods():
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False)
    rig.server.put_class(builders.device_class())
    spec = packed(rig, 4)
    add_hostile(rig, spec, 4)
    rig.watch()
    spent_by_input(rig, 6)
    longest = max(spent_by_input(rig, 40))
    assert longest <= (CoreSettings().search_steps_per_turn + 20) * STEP


class Dear(Reject):
    """Looking at a node for the pod "dear" takes long."""

    def signature(self, cycle, view):
        return cycle.pod.metadata.name

    def filter(self, cycle, node, view):
        cycle.steps_left -= 600 if cycle.pod.metadata.name == "dear" else 0
        return super().filter(cycle, node, view)


def test_a_pod_that_fails_while_it_is_bound_is_charged_for_its_own_search_only():
    rig = Rig(Dear(), search_steps_first=2_000)
    rig.add_nodes("a")
    pods = {}
    for name in ("cheap", "dear"):
        rig.add_pod(name)
        rig.watch()
        rig.tick()
        pods[name] = rig.machine.queue.find(rig.server.pods[PodKey("default", name)].uid)
    costs = {name: queued.cost for name, queued in pods.items()}
    assert costs["cheap"] < 600 <= costs["dear"]
    assert [type(decision) for decision in rig.pending] == [BindPod, BindPod]
    for binding in rig.pending:
        rig.tell(WriteRejected(binding.id, 422, "Invalid", "no"))
    assert {name: queued.cost for name, queued in pods.items()} == costs


class Far(Slots):
    """All the slots there are are on the node that is looked at last."""

    def filter(self, cycle, node, view):
        return super().filter(cycle, node, view) if node.name == "n0900" else Status.unresolvable("elsewhere")


def far(slots: int, plugin: type[Far] = Far) -> Rig:
    rig = Rig(plugin(slots), is_paranoid=False, checks_invariants=False)
    rig.add_nodes(*(f"n{number:04}" for number in range(1000)))
    return rig


def bound(rig: Rig) -> list[str]:
    return sorted(name.removeprefix("uid-default-") for name, _ in rig.server.bindings)


def test_of_pods_that_share_a_search_the_one_of_most_priority_ends_it():
    """The others find what it remembers, so they must not end it before it does."""
    rig = far(3)
    for number in range(12):
        rig.add_pod(f"p{number}", priority=number % 4)
    rig.settle()
    assert bound(rig) == ["p11", "p3", "p7"]


@pytest.mark.parametrize("ticks", [1, 2, 3])
def test_a_pod_of_more_priority_that_comes_while_others_search_ends_their_search(ticks):
    rig = far(1)
    for number in range(4):
        rig.add_pod(f"early-{number}")
    rig.watch()
    for _ in range(ticks):
        rig.tick()
        rig.execute()
    assert bound(rig) == []
    rig.add_pod("late", priority=1)
    rig.settle()
    assert bound(rig) == ["late"]


class FarEach(Far):
    """No pod has the shape of another one."""

    def signature(self, cycle, view):
        return cycle.pod.metadata.name


@pytest.mark.parametrize("plugin", [Far, FarEach])
def test_first_come_first_served_though_the_search_of_the_first_pauses(plugin):
    rig = far(4, plugin)
    for number in range(6):
        rig.add_pod(f"p{number}")
    rig.settle()
    assert bound(rig) == ["p0", "p1", "p2", "p3"]


@pytest.mark.parametrize("plugin", [Far, FarEach])
@pytest.mark.parametrize("ticks", [1, 2, 3])
def test_a_younger_pod_that_comes_while_an_older_one_searches_does_not_pass_it(plugin, ticks):
    rig = far(2, plugin)
    rig.add_pod("z-old")
    rig.watch()
    for _ in range(ticks):
        rig.tick()
    assert bound(rig) == []
    for number in range(3):
        rig.add_pod(f"p{number}")
    rig.settle()
    assert bound(rig) == ["p0", "z-old"]


def test_first_come_first_served_where_only_the_first_has_to_have_the_selector_compiled():
    """The younger ones find what the first has left behind, and would be done before it."""
    rig = world(2, search_steps_first=50)
    selector = " && ".join(f"{A}.uuid != 'x{number}'" for number in range(200))
    for number in range(6):
        add(rig, f"p{number}", builders.request_object(selector=selector))
    rig.settle()
    assert bound(rig) == ["p0", "p1", "p2", "p3"]


def test_the_others_pass_a_pod_that_rests_and_one_that_has_rested():
    """A search without an end must not hold its namespace's other pods up for ever."""
    rig = world(4, search_steps_before_rest=10_000)
    for number in range(3):
        add(rig, f"hostile-{number}", builders.request_object(count=3, selector=costly(str(number))))
    rig.watch()
    spent_by_input(rig, 3)
    for number in range(2):
        add(rig, f"ordinary-{number}", builders.request_object())
        rig.watch()
        ticks = 0
        while not rig.node_of(f"ordinary-{number}"):
            spent_by_input(rig, 1)
            ticks += 1
            assert ticks < 60
    assert all(rig.condition_of(f"hostile-{number}") for number in range(3))


def test_those_behind_are_tried_when_the_first_of_their_shape_is_gone():
    rig = far(1)
    rig.add_pod("first", priority=1)
    for number in range(3):
        rig.add_pod(f"p{number}")
    rig.watch()
    for _ in range(2):
        rig.tick()
        rig.execute()
    assert bound(rig) == []
    rig.server.delete_pod(PodKey("default", "first"))
    rig.settle()
    assert len(bound(rig)) == 1


def test_a_new_attempt_stands_behind_nobody_for_the_shape_that_the_pod_had_in_the_last():
    rig = far(0)
    rig.add_pod("p")
    rig.settle()
    queued = rig.machine.queue.find(rig.server.pods[PodKey("default", "p")].uid)
    assert queued.place is Place.UNSCHEDULABLE
    assert queued.search_signature is None


def order(queued: QueuedPod) -> tuple[int, bool, int]:
    return -queued.priority, queued.rests > 0, queued.active_ticket


MOVES = st.lists(
    st.tuples(st.sampled_from("ptg"), st.integers(0, 2), st.integers(0, 3), st.integers(0, 5)), max_size=40
)


@given(MOVES)
def test_a_lane_loses_no_pod_and_gives_out_none_before_one_of_its_shape_that_is_first(moves):
    """`p`: a pod comes; `t`: the first is tried and comes back, or comes back later; `g`: some pod goes elsewhere."""
    lanes, inside, tickets = SlowQueue(lambda _: True), {}, itertools.count(1)
    signatures = [None, PodSignature("s", 1), PodSignature("s", 2)]

    def push(queued):
        queued.ticket = next(tickets)
        lanes.push(queued, 0)
        inside[queued.uid] = queued

    def leave(queued):
        queued.ticket = next(tickets)
        return inside.pop(queued.uid)

    for number, (move, signature, priority, steps) in enumerate(moves):
        if move == "p":
            queued = QueuedPod(f"uid-{number}", builders.pod(f"p{number}", priority=priority), None)
            queued.search_signature = signatures[signature]
            queued.active_ticket = next(tickets)
            queued.cost = 20_000 * (steps > 3)
            push(queued)
        elif move == "g" and inside:
            leave(inside[sorted(inside)[steps % len(inside)]])
        elif move == "t" and (queued := lanes.first(0)) is not None:
            unrested = [one for one in inside.values() if not one.rests and one.cost < 20_000]
            older = [one for one in unrested if one.search_signature is None and order(one) < order(queued)]
            assert not older, "nobody stands before them"
            leave(queued)
            is_behind = lanes.stands_behind(queued, signatures[signature])
            alike = [other for other in inside.values() if other.search_signature == signatures[signature] is not None]
            assert is_behind == any(order(other) < order(queued) for other in alike)
            queued.steps += steps
            queued.rests += steps == 5
            push(queued)
        first = lanes.first(0)
        assert (first is not None) == bool(inside) == lanes.has("default")
        if first is not None:
            assert inside[first.uid] is first
            alike = [other for other in inside.values() if other.search_signature == first.search_signature is not None]
            assert all(order(first) <= order(other) for other in alike)
