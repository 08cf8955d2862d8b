"""Only requests under way hold a place: what waits or is in doubt keeps nobody from being tried."""

from __future__ import annotations

from scheduler.core.ground.inputs import WriteOutcomeUnknown, WriteRejected
from scheduler.framework.decisions import BindPod, WriteClaimStatus
from scheduler.model.api_rules import FINALIZER
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.plugins import Patience, Slots, TinyDevices
from tests.core.rig import Rig

PLACES = 4
BINDING = {"bindsToNode": True, "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def is_spinning(rig: Rig) -> bool:
    """Whether the machine wants its timer at once, though it would do nothing."""
    deadline = rig.machine.next_deadline_ms()
    return deadline is not None and deadline <= rig.now_ms


def devices(*plugins, count: int = 20, **settings) -> Rig:
    rig = Rig(TinyDevices(count=count), *plugins, places=PLACES, **settings)
    rig.add_nodes("a")
    return rig


def add_pods(rig: Rig, count: int, *, namespace: str = "default", prefix: str = "p", **fields) -> None:
    """Pods that have a claim each."""
    for index in range(count):
        name = f"{prefix}{index}"
        rig.server.put_claim(builders.claim(name, namespace=namespace, finalizers=(FINALIZER,)))
        rig.add_pod(name, namespace=namespace, claims=(name,), **fields)


def bound(rig: Rig, namespace: str = "default") -> list[str]:
    return sorted(key.name for key, pod in rig.server.pods.items() if pod.node_name and key.namespace == namespace)


# Waiting


def test_pods_that_wait_for_their_drivers_hold_no_place():
    rig = Rig(*default_plugins(), places=PLACES, is_paranoid=False)
    rig.server.put_class(builders.device_class())
    gpus = tuple(builders.device_object(f"gpu-{index}") | BINDING for index in range(12))
    rig.add_nodes("a", "b")
    rig.server.put_slice(builders.resource_slice("s", node="a", devices=gpus))
    add_pods(rig, 12)
    rig.settle()
    assert len(rig.machine.bindings) == 12, "more than there are places, and nothing is under way"
    for index in range(3):
        rig.add_pod(f"plain{index}")
    rig.settle()
    assert bound(rig) == ["plain0", "plain1", "plain2"]


def test_pods_that_wait_in_pre_bind_hold_no_place():
    rig = devices(Patience())
    add_pods(rig, 12, labels={"wait": "1"})
    rig.settle()
    assert len(rig.machine.bindings) == 12
    add_pods(rig, 2, prefix="other")
    rig.settle()
    assert bound(rig) == ["other0", "other1"]


def test_pods_that_wait_for_the_watch_hold_no_place():
    rig = devices()
    add_pods(rig, 12)
    rig.watch()
    for _ in range(40):
        rig.tick()
        rig.execute(watch=False)
    assert len(rig.machine.bindings) == 12
    assert bound(rig) == []
    rig.settle()
    assert len(bound(rig)) == 12


def test_writes_in_doubt_hold_no_place():
    rig = devices()
    add_pods(rig, 12, namespace="broken")
    rig.watch()
    for _ in range(40):
        rig.tick(200)
        fail(rig, "broken")
    assert len(rig.machine.bindings) == 12
    add_pods(rig, 3)
    rig.watch()
    for _ in range(5):
        rig.tick(200)
        fail(rig, "broken")
        rig.execute()
    assert bound(rig) == ["p0", "p1", "p2"]


def fail(rig: Rig, namespace: str) -> None:
    """Answer what is sent to a namespace with a 500; the rest stays pending."""
    rest, pending = [], rig.pending
    rig.pending = []
    for decision in pending:
        if isinstance(decision, WriteClaimStatus) and decision.claim.namespace == namespace:
            rig.tell(WriteOutcomeUnknown(decision.id, "HTTP 500"))
        else:
            rest.append(decision)
    rig.pending = rest + rig.pending


# Requests under way


def hanging(count: int = 12) -> Rig:
    """A namespace with many pods, whose requests are not answered."""
    rig = devices()
    add_pods(rig, count, namespace="hangs")
    rig.watch()
    for _ in range(5):
        rig.tick()
    return rig


def test_a_namespace_whose_requests_hang_leaves_places_to_others():
    rig = hanging()
    assert len(rig.pending) == 3, "three quarters of the places"
    assert not is_spinning(rig)
    hung, rig.pending = rig.pending, []
    add_pods(rig, 5)
    add_pods(rig, 1, namespace="third")
    rig.settle()
    assert (len(bound(rig)), len(bound(rig, "third"))) == (5, 1)
    assert rig.machine.queue.counts()["active"] == 9
    rig.pending = hung
    rig.settle()
    assert len(bound(rig, "hangs")) == 12, "and go on when their namespace has places again"


def test_many_namespaces_whose_requests_hang_leave_one_place_to_whoever_has_none():
    rig = devices(count=100)
    for number in range(9):
        add_pods(rig, 3, namespace=f"hangs{number}")
        rig.watch()
        for _ in range(3):
            rig.tick()
    rig.pending = []
    add_pods(rig, 5)
    rig.settle()
    assert len(bound(rig)) == 5


def test_pods_that_wait_for_a_place_keep_their_order():
    rig = hanging(4)
    hung, rig.pending = rig.pending, []
    for name, priority in (("low", -1), ("high", 7), ("middle", 3)):
        rig.add_pod(name, namespace="hangs", priority=priority)
        rig.watch()
        rig.tick()
    assert rig.pending == []
    order = []
    for decision in hung:
        rig.tell(rig.server.execute(decision))
    for _ in range(20):
        rig.tick()
        order += [one.pod.name for one in rig.pending if isinstance(one, BindPod)]
        rig.execute()
    assert [name for name in order if not name.startswith("p")] == ["high", "middle", "low"]
    assert order.index("high") < order.index("p3")


def test_pods_that_wait_for_a_place_may_go():
    rig = hanging(5)
    rig.pending = []
    rig.server.delete_pod(builders.pod("p3", namespace="hangs").key)
    rig.server.delete_pod(builders.pod("p4", namespace="hangs").key)
    rig.watch()
    rig.tick()
    assert len(rig.machine.queue) == 3
    assert not is_spinning(rig)


def test_a_pod_that_waits_for_a_place_leads_nobody():
    """Pods of one shape in two namespaces wait for a node; the first leads, but its namespace has no place."""
    rig = Rig(Slots(1), places=PLACES)
    rig.add_nodes("full")
    rig.add_pod("foreign", node="full", scheduler="another")
    rig.add_pod("first", namespace="hangs")
    rig.add_pod("second")
    rig.settle()
    assert rig.machine.queue.counts()["unschedulable"] == 2
    rig.now_ms += 20_000
    for index in range(3):
        rig.add_pod(f"hung{index}", namespace="hangs", priority=1)
    rig.add_nodes("a", "b", "c")
    rig.watch()
    rig.tick()
    assert sorted(one.pod.name for one in rig.pending if isinstance(one, BindPod)) == ["hung0", "hung1", "hung2"]
    rig.pending = []  # their bindings hang
    rig.add_nodes("d")
    rig.wait(20_000)
    assert bound(rig) == ["foreign", "second"]


def test_another_leads_as_soon_as_its_namespace_has_a_place():
    rig = Rig(Slots(1), places=PLACES)
    rig.add_nodes("full")
    rig.add_pod("foreign", node="full", scheduler="another")
    rig.add_pod("first", namespace="hangs")
    rig.add_pod("second")
    rig.settle()
    rig.now_ms += 20_000
    for index in range(3):
        rig.add_pod(f"hung{index}", namespace="hangs", priority=1)
    rig.add_pod("busy", priority=1)
    rig.add_nodes("a", "b", "c", "d")
    rig.watch()
    rig.tick()
    (busy,) = [one for one in rig.pending if isinstance(one, BindPod) and one.pod.name == "busy"]
    assert rig.machine.places.free == 0
    rig.pending = []
    rig.add_nodes("e")
    rig.wait(3_000)
    assert bound(rig) == ["foreign"]
    rig.tell(rig.server.execute(busy))
    rig.settle()
    assert bound(rig) == ["busy", "foreign", "second"]


def test_many_pods_without_a_place_are_passed_by_in_parts():
    rig = Rig(Slots(1), places=PLACES, checks_invariants=False, is_paranoid=False)
    rig.add_nodes("a", "b", "c", "d")
    for index in range(1_200):
        rig.add_pod(f"p{index}", namespace="hangs")
    rig.watch()
    rig.tick()
    assert len(rig.pending) == 3
    ticks = 0
    while is_spinning(rig):
        rig.tick()
        ticks += 1
    assert 1 <= ticks <= 3
    assert len(rig.pending) == 3
    rig.pending = []
    rig.add_pod("other")
    rig.settle()
    assert "other" in bound(rig)


def test_an_early_try_out_of_backoff_is_for_those_whose_namespace_has_a_place():
    rig = Rig(Slots(1), places=PLACES)
    rig.add_nodes("full")
    rig.add_pod("foreign", node="full", scheduler="another")
    rig.add_pod("woken", namespace="hangs")
    rig.settle()
    for index in range(3):
        rig.add_pod(f"hung{index}", namespace="hangs", priority=1)
    rig.add_nodes("a", "b", "c", "d")
    rig.watch()
    rig.tick()
    assert len(rig.pending) == 3
    assert rig.machine.queue.counts()["backoff"] == 1
    assert not is_spinning(rig)


def test_a_pod_that_has_a_place_again_is_before_those_of_lower_priority():
    rig = hanging(3)
    (first, *_), rig.pending = rig.pending, []
    rig.add_pod("high", namespace="hangs", priority=7)
    rig.watch()
    rig.tick()
    assert rig.pending == []
    rig.add_pod("low")
    rig.watch()
    rig.tell(WriteRejected(first.id, 422, "Invalid", "no"))
    rig.tick()
    assert [one.pod.name for one in rig.pending if isinstance(one, BindPod)] == ["high", "low"]
