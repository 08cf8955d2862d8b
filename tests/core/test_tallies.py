"""What the queue counts: attempts by result, waits until a pod is bound, and what moved pods where."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.queue.queued_pod import Place
from scheduler.core.queue.tallies import Tallies
from scheduler.framework.api import Action, Resource
from scheduler.framework.distribution import Distribution, exponential
from scheduler.framework.status import Status
from tests import builders
from tests.core.plugins import Gate, Reject, Slots
from tests.core.rig import Rig


def results(rig: Rig) -> dict[str, int]:
    return {result: one.count for (result, _), one in rig.machine.queue.tallies.attempts_s.items()}


@given(st.lists(st.floats(0, 100)))
def test_a_value_is_in_the_first_bucket_whose_bound_it_does_not_exceed(values):
    one = Distribution((1, 2, 4))
    for value in values:
        one.add(value)
    assert one.counts == [
        sum(low < value <= high for value in values) for low, high in ((-1, 1), (1, 2), (2, 4), (4, 1e9))
    ]


def test_bounds_grow_by_their_factor():
    assert exponential(0.5, 2, 4) == (0.5, 1, 2, 4)


def test_a_pod_that_waits_for_room_and_gets_it_is_two_attempts():
    rig = Rig(Slots(0, wakes_on=((Resource.NODE, Action.ADD), (Resource.CLASS, Action.ADD))))
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    assert results(rig) == {"unschedulable": 1}
    rig.tick(3_000)
    rig.add_nodes("b")
    rig.settle()
    assert results(rig) == {"unschedulable": 2}
    tallies = rig.machine.queue.tallies
    assert dict(tallies.incoming) == {
        (Place.ACTIVE, "UnschedulablePodAdd"): 1,
        (Place.UNSCHEDULABLE, "ScheduleAttemptFailure"): 2,
        (Place.ACTIVE, "NodeAdd"): 1,
    }


def test_a_bound_pod_counts_its_attempts_and_its_wait():
    fits = []
    rig = Rig(Reject(is_rejected=lambda pod, info: not fits), is_paranoid=False)
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    fits.append(True)
    rig.now_ms += 2_500
    rig.add_nodes("b")
    rig.settle()
    tallies = rig.machine.queue.tallies
    assert results(rig) == {"unschedulable": 1, "scheduled": 1}
    assert {label: one.total for label, one in tallies.waits_s.items()} == {"2": 2.5}
    assert tallies.attempts_of_bound.total == 2
    assert tallies.bound_after_flush == 0


def test_an_error_is_an_error_and_its_end_is_what_moves_the_pod():
    class Broken(Reject):
        def filter(self, cycle, node, view):
            return Status.error("cannot decide")

    rig = Rig(Broken())
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    rig.wait(1_000)
    assert results(rig) == {"error": 2}
    incoming = rig.machine.queue.tallies.incoming
    assert incoming[Place.BACKOFF, "ScheduleAttemptFailure"] == 2
    assert incoming[Place.ACTIVE, "BackoffComplete"] == 1


def test_a_pod_bound_after_the_flush_is_a_hint_that_was_missed():
    fits = []
    rig = Rig(
        Reject(is_rejected=lambda pod, info: not fits, wakes_on=((Resource.CLASS, Action.ADD),)), is_paranoid=False
    )
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    fits.append(True)
    rig.server.put_node(builders.node("a", labels={"new": ""}))
    rig.wait(331_000)
    tallies = rig.machine.queue.tallies
    assert tallies.bound_after_flush == 1
    assert tallies.incoming[Place.ACTIVE, "UnschedulableTimeout"] == 1


def test_time_at_a_gate_is_no_wait():
    rig = Rig(Gate(), Slots(1))
    rig.add_nodes("a")
    rig.add_pod("p", labels={"hold": ""})
    rig.wait(60_000)
    rig.add_pod("p")
    rig.settle()
    tallies = rig.machine.queue.tallies
    assert {label: one.total for label, one in tallies.waits_s.items()} == {"1": 0}
    assert tallies.incoming[Place.ACTIVE, "UnschedulablePodUpdatePodLabel"] == 1


def test_many_attempts_are_counted_together():
    tallies = Tallies()
    for attempts in (1, 14, 15, 90):
        tallies.pod_bound(attempts, 0, is_flushed=False)
    assert {label: one.count for label, one in tallies.waits_s.items()} == {"1": 1, "14": 1, "15+": 2}
