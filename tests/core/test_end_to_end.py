"""Pods from creation to binding, on a server without faults."""

from __future__ import annotations

from scheduler.core.ground.inputs import Deleted, RelistFinished, TimerFired
from scheduler.core.observation import KINDS
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.plugins import Gate, Slots, TinyDevices
from tests.core.rig import Rig
from tests.observed import deleted


def test_pods_without_claims_fill_the_nodes_and_the_rest_waits():
    rig = Rig(Slots(1))
    rig.add_nodes("a", "b")
    for name in ("p1", "p2", "p3"):
        rig.add_pod(name)
    rig.settle()
    assert sorted([rig.node_of("p1"), rig.node_of("p2")]) == ["a", "b"]
    assert rig.node_of("p3") is None
    assert rig.condition_of("p3") == ("Unschedulable", "0/2 nodes are available: 2 Too many pods.")
    assert "FailedScheduling: 0/2 nodes are available: 2 Too many pods." in rig.events


def test_a_waiting_pod_is_bound_when_another_is_deleted():
    rig = Rig(Slots(1))
    rig.add_nodes("a")
    rig.add_pod("p1")
    rig.add_pod("p2")
    rig.settle()
    rig.server.delete_pod(builders.pod("p1").key)
    rig.settle()
    assert rig.node_of("p2") == "a"
    assert rig.events[-1] == "Scheduled: Successfully assigned default/p2 to a"


def test_each_device_is_given_once_and_stored_with_its_reservation():
    rig = Rig(TinyDevices(count=2))
    rig.add_nodes("a")
    for name in ("c1", "c2", "c3"):
        rig.server.put_claim(builders.claim(name))
        rig.add_pod("p" + name, claims=(name,))
    rig.settle()
    claims = {claim.key.name: claim for claim in rig.server.claims.values()}
    given = [claims[name].allocation.results[0].device for name in ("c1", "c2")]
    assert sorted(given) == ["gpu-0", "gpu-1"]
    assert [one.name for one in claims["c1"].reserved_for] == ["pc1"]
    assert rig.condition_of("pc3") == ("Unschedulable", "0/1 nodes are available: 1 cannot allocate all claims.")
    assert not rig.machine.overlay.holds


def test_two_pods_that_share_a_claim_land_on_its_node():
    rig = Rig(TinyDevices(count=1))
    rig.add_nodes("a", "b", "c")
    rig.server.put_claim(builders.claim("shared"))
    rig.add_pod("p1", claims=("shared",))
    rig.add_pod("p2", claims=("shared",))
    rig.settle()
    assert rig.node_of("p1") == rig.node_of("p2") is not None
    (claim,) = rig.server.claims.values()
    assert {one.name for one in claim.reserved_for} == {"p1", "p2"}


def test_a_pod_waits_for_its_generated_claim():
    rig = Rig(TinyDevices())
    rig.add_nodes("a")
    rig.add_pod("p", templates={"gpu": None})
    rig.settle()
    assert rig.machine.queue.counts()["gated"] == 1
    rig.server.put_claim(builders.claim("p-gpu"))
    rig.server.put_pod(builders.pod("p", templates={"gpu": "p-gpu"}))
    rig.settle()
    assert rig.node_of("p") == "a"


def test_a_gate_keeps_a_pod_out_until_it_is_lifted():
    rig = Rig(Gate(), Slots(1))
    rig.add_nodes("a")
    rig.add_pod("p", labels={"hold": "yes"})
    rig.settle()
    assert rig.node_of("p") is None
    assert rig.events == []
    rig.server.put_pod(builders.pod("p"))
    rig.settle()
    assert rig.node_of("p") == "a"


def test_nothing_is_tried_before_every_kind_was_listed():
    rig = Rig(Slots(1), is_listed=False)
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.watch()
    for kind in KINDS.keys() - {"Pod"}:
        rig.tell(RelistFinished(kind))
    assert rig.tick() == ()
    assert rig.machine.next_deadline_ms() is None
    rig.tell(RelistFinished("Pod"))
    assert rig.machine.next_deadline_ms() == rig.now_ms
    assert len(rig.tick()) == 1


def test_pods_of_other_schedulers_are_counted_and_left_alone():
    rig = Rig(Slots(1))
    rig.add_nodes("a")
    rig.add_pod("theirs", scheduler="default-scheduler", node="a")
    rig.add_pod("waiting", scheduler="default-scheduler")
    rig.add_pod("ours")
    rig.settle()
    assert rig.node_of("waiting") is None
    assert rig.condition_of("ours") == ("Unschedulable", "0/1 nodes are available: 1 Too many pods.")
    assert rig.condition_of("waiting") is None


def test_a_finished_pod_gives_its_place_back():
    rig = Rig(Slots(1))
    rig.add_nodes("a")
    rig.add_pod("done", node="a")
    rig.add_pod("next")
    rig.settle()
    rig.server.put_pod(builders.pod("done", node="a", phase="Succeeded"))
    rig.settle()
    assert rig.node_of("next") == "a"


def test_higher_priority_goes_first():
    rig = Rig(Slots(1))
    rig.add_nodes("a")
    rig.add_pod("low", priority=1)
    rig.add_pod("high", priority=10)
    rig.settle()
    assert rig.node_of("high") == "a"
    assert rig.node_of("low") is None


def test_without_nodes_nothing_else_is_said():
    rig = Rig(*default_plugins())
    rig.add_pod("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}])
    rig.settle()
    assert rig.condition_of("p") == ("Unschedulable", "no nodes available to schedule pods")
    rig.add_nodes("a")
    rig.settle()
    assert "missing" in rig.condition_of("p")[1]


def test_without_nodes_a_pod_waits_for_one():
    rig = Rig(Slots(1))
    rig.add_pod("p")
    rig.settle()
    assert rig.condition_of("p") == ("Unschedulable", "no nodes available to schedule pods")
    rig.add_nodes("a")
    rig.settle()
    assert rig.node_of("p") == "a"


def test_the_condition_is_written_only_when_it_changed():
    rig = Rig(Slots(1))
    rig.add_nodes("a")
    rig.add_pod("there", node="a")
    rig.add_pod("p")
    rig.settle()
    rig.server.put_pod(builders.pod("p", labels={"touched": "1"}))  # wakes it, and drops the condition
    rig.settle()
    patches = [decision for decision in rig.decided if type(decision).__name__ == "PatchPodStatus"]
    assert len(patches) == 1
    assert [event for event in rig.events if event.startswith("FailedScheduling")] == [rig.events[0]] * 2


def test_a_pod_deleted_while_it_waits_is_forgotten():
    rig = Rig(Slots(0))
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    rig.server.delete_pod(builders.pod("p").key)
    rig.settle()
    assert len(rig.machine.queue) == 0


def test_a_pod_made_again_under_the_same_name_is_another_pod():
    rig = Rig(Slots(1))
    rig.add_nodes("a", "b")
    rig.add_pod("p", uid="first")
    rig.settle()
    rig.server.delete_pod(builders.pod("p").key)
    rig.add_pod("p", uid="second")
    rig.settle()
    assert [uid for uid, _ in rig.server.bindings] == ["first", "second"]


def test_no_more_pods_are_tried_than_may_be_bound_at_once():
    rig = Rig(Slots(1), places=2)
    rig.add_nodes("a", "b", "c")
    for index in range(3):
        rig.add_pod(f"p{index}")
    rig.watch()
    rig.tick()
    assert len(rig.pending) == 2
    assert rig.machine.next_deadline_ms() is None or rig.machine.next_deadline_ms() > rig.now_ms
    rig.settle()
    assert len(rig.server.bindings) == 3


def test_one_tick_runs_a_bounded_number_of_cycles():
    rig = Rig(Slots(1), cycles_per_tick=2)
    rig.add_nodes(*(f"n{index}" for index in range(5)))
    for index in range(5):
        rig.add_pod(f"p{index}")
    rig.watch()
    assert len(rig.tick()) == 2
    assert rig.machine.next_deadline_ms() == rig.now_ms


def test_unknown_answers_and_unknown_deletions_are_harmless():
    rig = Rig(Slots(1))
    rig.tell(deleted("Node", builders.node("nobody").name))
    rig.tell(Deleted("Pod", builders.pod("nobody").key, builders.pod("nobody").uid))
    assert rig.tell(TimerFired()) == ()
