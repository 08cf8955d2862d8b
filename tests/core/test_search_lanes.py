"""What takes long waits its turn: costly selectors and searches hold up nobody, and are asked less and less often."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from allocator import STEP
from cel import ANSWER_WORK_MAX
from scheduler.core.inputs import WriteRejected
from scheduler.core.queued_pod import Place
from scheduler.core.settings import CoreSettings
from scheduler.framework.decisions import BindPod
from scheduler.model.keys import PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.allocator.test_meter import NEARLY_ENDLESS
from tests.allocator.test_paused import hostile
from tests.core.plugins import Reject
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
        add(rig, f"ordinary-{number}", builders.request_object())
    rig.watch()
    spent = spent_by_input(rig, 8)
    assert all(rig.node_of(f"ordinary-{number}") for number in range(3)), "bound while the other is searched for"
    spent += spent_by_input(rig, 60)
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


def test_so_is_one_of_the_same_namespace_when_its_neighbours_had_their_first_look():
    rig = world(4)
    for number in range(3):
        add(rig, f"hostile-{number}", builders.request_object(count=3, selector=costly(str(number))))
    rig.watch()
    spent_by_input(rig, 8)
    add(rig, "ordinary", builders.request_object())
    rig.watch()
    spent_by_input(rig, 6)
    assert rig.node_of("ordinary")


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

    def shape(self, cycle, view):
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
