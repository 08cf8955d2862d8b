"""The last hour: bounded, and what changed is there."""

from __future__ import annotations

from allocator import Features
from scheduler.core.machine import Machine
from scheduler.offline import Given, OfflineCluster, observed_machine
from scheduler.ui.past import Past
from tests.offline.causes import Obj, allocated, claim, pod
from tests.ui.worlds import objects

CLASS = "gpu.example.com"


def seen(*more: Obj, without: str = "") -> Machine:
    cluster = OfflineCluster(0)
    there = [one for one in [*objects(), *more] if one["metadata"]["name"] != without]
    cluster.load([Given(f"object {number}", one) for number, one in enumerate(there)])
    machine, _ = observed_machine(cluster, Features())
    return machine


def test_what_is_given_out_and_given_back_between_two_moments() -> None:
    past = Past()
    past.observe(seen(), 1_000)
    past.observe(seen(allocated(claim(name="new"), "gpu-1")), 31_000)
    past.observe(seen(), 61_000)
    found = past.document()

    changes = [(one["at"], one["what"], one["claim"], one["devices"]) for one in found["changes"]]
    assert changes == [
        (61_000, "given back", "default/new", ["gpu.example.com/node-1/gpu-1"]),
        (31_000, "given out", "default/new", ["gpu.example.com/node-1/gpu-1"]),
    ]
    assert found["at"] == [1_000, 31_000, 61_000]
    assert found["classes"][CLASS]["share"] == [1 / 6, 2 / 6, 1 / 6]
    assert found["classes"][CLASS]["scattered"] == [2 / 6, 1 / 6, 2 / 6]


def test_who_waits_is_counted_and_since_when() -> None:
    past = Past()
    past.observe(seen(), 1_000)
    past.observe(seen(pod("three", name="later")), 2_000)
    assert past.document()["waiting"] == [1, 2]
    assert past.document()["longest"] == [
        {"pod": "default/waits", "since": 1_000},
        {"pod": "default/later", "since": 2_000},
    ]
    past.observe(seen(without="waits"), 3_000)
    assert past.document()["longest"] == []


def test_it_is_bounded() -> None:
    past = Past()
    many = seen(*(allocated(claim(name=f"claim-{number}"), f"gpu-{number}") for number in range(300)))
    for number in range(200):
        past.observe(many if number % 2 else seen(), number)
    found = past.document()

    assert (len(found["at"]), len(found["changes"])) == (120, 500)
    assert found["at"][-1] == 199
