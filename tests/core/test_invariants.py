"""The invariants notice when the state is damaged; one planted damage for each rule."""

from __future__ import annotations

import pytest

from scheduler.core.invariants import InvariantError
from scheduler.core.preempting.preemption_records import Record
from scheduler.core.queue.queued_pod import Place
from scheduler.framework.decisions import BindPod, WriteClaimStatus
from scheduler.framework.preemption import Preemption
from scheduler.model.api_rules import FINALIZER
from scheduler.model.held import Held
from scheduler.model.keys import NodeName, PodUid
from tests import builders
from tests.core.plugins import Slots, TinyDevices
from tests.core.rig import Rig


def busy() -> Rig:
    """One pod bound, one being bound, one unschedulable."""
    rig = Rig(Slots(2), TinyDevices(count=2), checks_invariants=False)
    rig.add_nodes("a")
    for name in ("one", "two", "three"):
        rig.server.put_claim(builders.claim(name, finalizers=(FINALIZER,)))
    rig.add_pod("p", claims=("one",))
    rig.settle()
    rig.add_pod("q", claims=("two",))
    rig.add_pod("r", claims=("three",))
    rig.watch()
    rig.tick()
    rig.machine.check_invariants()
    return rig


def _lose_a_pod(rig):
    rig.machine.queue._pods.pop(builders.pod("r").uid)


def _forget_who_waits(rig):
    rig.machine.queue.waiting._groups_by_plugin.clear()


def _empty_an_index(rig):
    rig.machine.store._pods_by_claim.clear()


def _count_wrong(rig):
    rig.machine.store.node_infos["a"].requested["cpu"] = 1


def _hold_for_nobody(rig):
    held = Held(builders.claim().key, builders.claim().uid, builders.allocation("gpu-9", pool="a"))
    rig.machine.overlay.hold("uid-of-nobody", (held,))


def _take_from_in_use(rig):
    allocation = next(iter(rig.machine.overlay.counted.values()))[0]
    rig.machine.overlay.in_use.remove(allocation)


def _release_early(rig):
    rig.machine.overlay._hold_by_claim.clear()


def _assume_without_binding(rig):
    rig.machine.bindings.clear()


def _misfile_a_verdict(rig):
    (_, record) = next(iter(rig.machine.feasibility.records()))
    record.rejected.reasons["nonsense"] = 3


def _misfile_a_fit(rig):
    for _, record in rig.machine.feasibility.records():
        record.accept(NodeName("z"), (), (1, 2, 3), 0)
        del record.fits["z"]


def _wait_for_nothing(rig):
    (binding,) = rig.machine.bindings.values()
    binding.awaited = 0


def _two_places(rig):
    queued = rig.machine.queue.find(builders.pod("q").uid)
    queued.place = Place.ACTIVE


def _lead_from_afar(rig):
    (group,) = rig.machine.queue.waiting.groups()
    group.leader = rig.machine.queue.find(builders.pod("q").uid)


def _unsort_nodes(rig):
    rig.machine.store._node_order.append("b")
    rig.machine.store._node_order_now = None


def _nominate_for_nobody(rig):
    rig.machine.store.nominations.preempting[PodUid("x")] = Preemption("a", ())


def _make_room_for_a_bound_pod(rig):
    (binding,) = rig.machine.bindings.values()
    rig.machine.preemptions.recover(Record(binding.pod, NodeName("a"), {}, {}, ()))


def _wait_for_who_is_elsewhere(rig):
    waiting = rig.machine.queue.find(builders.pod("r").uid).pod
    victim = builders.pod("s")
    record = Record(waiting, NodeName("a"), {victim.uid: victim}, {}, (), is_stored=True)
    rig.machine.preemptions.recover(record)


def _leave_the_room_unused(rig):
    waiting = rig.machine.queue.find(builders.pod("r").uid).pod
    rig.machine.preemptions.recover(Record(waiting, NodeName("a"), {}, {}, (), is_stored=True))


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (_lose_a_pod, "pod default/r is lost"),
        (_forget_who_waits, "pod default/r waits and nothing can wake it"),
        (_empty_an_index, "the index of pods by claim differs"),
        (_count_wrong, "node a: requested"),
        (_hold_for_nobody, "is held for pod uid-of-nobody"),
        (_take_from_in_use, "in_use differs from a rebuild"),
        (_release_early, "should be"),
        (_assume_without_binding, "is assumed and queued, but not being bound"),
        (_misfile_a_verdict, "remembered: reasons"),
        (_misfile_a_fit, "buckets differ"),
        (_wait_for_nothing, "waits for nothing"),
        (_two_places, "pod default/q is active, being bound: True"),
        (_lead_from_afar, "is led by default/q"),
        (_nominate_for_nobody, "what is reported of it is not what is recorded"),
        (_make_room_for_a_bound_pod, "which does not wait"),
        (_wait_for_who_is_elsewhere, "is on None, not a"),
        (_leave_the_room_unused, "is there, and it is not tried"),
        (_unsort_nodes, "node_order is not the sorted node names"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_damage_is_noticed(damage, text):
    rig = busy()
    damage(rig)
    with pytest.raises(InvariantError, match=text):
        rig.machine.check_invariants()


def test_the_state_used_here_has_something_of_everything():
    rig = busy()
    assert {type(decision) for decision in rig.pending} >= {WriteClaimStatus}
    assert not any(isinstance(decision, BindPod) for decision in rig.pending)
    assert rig.machine.queue.counts()["unschedulable"] == 1
    assert len(rig.machine.bindings) == 1
