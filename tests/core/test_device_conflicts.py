"""A scheduler beside ours gives away what ours gives away: ours yields while it can, and both claims tell."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from allocator import Allocation, DeviceResult, decode_slice
from cel.quantity import Quantity
from scheduler.core.binding import device_conflicts
from scheduler.core.binding.device_conflicts import Fate
from scheduler.core.ground.inputs import WriteOutcomeUnknown
from scheduler.framework.decisions import AddClaimFinalizer, BindPod, RecordEvent, WriteClaimStatus
from scheduler.model.api_rules import FINALIZER
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig
from tests.observed import observed

OURS = ClaimKey("default", "ours")
THEIRS = ClaimKey("default", "theirs")


def world(**slice_fields) -> Rig:
    """One node with one device, a pod of ours that wants it, and a claim that somebody else will allocate."""
    rig = Rig(*default_plugins())
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("s", node="a", **({"devices": 1} | slice_fields)))
    rig.server.put_claim(builders.claim("ours", finalizers=(FINALIZER,)))
    rig.server.put_claim(builders.claim("theirs"))
    rig.server.put_pod(builders.pod("their-pod", claims=("theirs",), scheduler="default-scheduler"))
    rig.add_pod("p", claims=("ours",))
    rig.watch()
    return rig


def writing(**slice_fields) -> Rig:
    """The same, when the write of our allocation has been sent."""
    rig = world(**slice_fields)
    rig.tick()
    assert [type(decision) for decision in rig.pending] == [WriteClaimStatus]
    return rig


def they_allocate(rig: Rig, *devices: str, **changes) -> None:
    """The other scheduler's write: allocation and reservation."""
    allocation = changes.pop("allocation", None) or builders.allocation(*(devices or ("gpu-0",)), pool="a")
    reserved = builders.claim("x", reserved_for=(rig.server.pods[PodKey("default", "their-pod")],)).reserved_for
    rig.server.put_claim(
        replace(rig.server.claims[THEIRS], allocation=allocation, reserved_for=reserved, finalizers=(FINALIZER,))
    )


def conflict_events(rig: Rig) -> dict[str, str]:
    """Claim name to note."""
    return {
        one.name: one.note for one in rig.decided if isinstance(one, RecordEvent) and one.reason == "DeviceConflict"
    }


def counts(rig: Rig) -> dict[tuple[str, str], int]:
    return {(kind, fate.value): count for (kind, fate), count in rig.machine.conflicts.counts.items()}


def test_ours_yields_before_its_write_is_sent():
    rig = world()
    rig.server.put_claim(replace(rig.server.claims[OURS], finalizers=()))
    rig.watch()
    rig.tick()
    finalizer = rig.take(AddClaimFinalizer)
    they_allocate(rig)
    rig.watch()
    rig.tell(rig.server.execute(finalizer))
    rig.settle()
    assert rig.server.claims[OURS].allocation is None
    assert not any(isinstance(one, WriteClaimStatus | BindPod) for one in rig.decided)
    assert counts(rig) == {("device", "withdrawn"): 1}
    assert conflict_events(rig) == {}, "nothing of ours was ever stored, so nobody has anything to look at"


def test_what_is_stored_after_the_pod_was_given_up_is_told_then():
    """Our write is lost, theirs is seen, ours lands: for a moment two claims have the device."""
    rig = writing()
    write = rig.take(WriteClaimStatus)
    they_allocate(rig)
    rig.watch()
    assert conflict_events(rig) == {}
    rig.tell(rig.server.execute(write))
    assert set(conflict_events(rig)) == {"ours", "theirs"}
    rig.settle()
    assert rig.server.claims[OURS].allocation is None
    assert len([one for one in rig.events if one.startswith("DeviceConflict")]) == 2


def test_ours_is_undone_when_its_write_lands_and_the_pod_is_not_bound():
    rig = writing()
    they_allocate(rig)
    rig.watch()  # theirs is seen while our write is under way
    assert rig.machine.overlay.holds, "the devices stay held until the write's outcome is known"
    rig.settle()
    ours = rig.server.claims[OURS]
    assert (ours.allocation, ours.reserved_for, rig.node_of("p")) == (None, (), None)
    assert rig.server.claims[THEIRS].allocation is not None
    assert not any(isinstance(one, BindPod) for one in rig.decided)
    events = conflict_events(rig)
    assert "device gpu.example.com/a/gpu-0 is given to ResourceClaim default/theirs too" in events["ours"]
    assert "withdrawn" in events["ours"]
    assert events["theirs"] == "device gpu.example.com/a/gpu-0 is given to ResourceClaim default/ours too"
    assert counts(rig) == {("device", "withdrawn"): 1}
    reason, message = rig.condition_of("p")
    assert reason == "SchedulerError"
    assert "was given to ResourceClaim default/theirs by another scheduler" in message


def test_no_claim_of_another_namespace_is_named():
    """Who may read a claim's events may not read what other namespaces run."""
    rig = writing()
    elsewhere = builders.claim("theirs", namespace="secret", allocation=builders.allocation("gpu-0", pool="a"))
    rig.server.put_claim(elsewhere)
    rig.server.put_pod(builders.pod("s", namespace="secret", claims=("theirs",), scheduler="default-scheduler"))
    rig.watch()
    rig.settle()
    events = conflict_events(rig)
    assert "gpu-0 is given to a ResourceClaim of another namespace too" in events["ours"]
    assert events["theirs"].endswith("gpu-0 is given to a ResourceClaim of another namespace too")
    assert "was given to a ResourceClaim of another namespace by another scheduler" in rig.condition_of("p")[1]


def test_the_undone_pod_gets_the_next_device():
    rig = writing(devices=2)
    they_allocate(rig)
    rig.wait(5_000)
    assert rig.node_of("p") == "a"
    assert [one.device for one in rig.server.claims[OURS].allocation.device_ids()] == ["gpu-1"]


def test_devices_stay_held_while_the_outcome_of_our_write_is_unknown():
    """Theirs is freed again; ours, lost, may still land: no other pod may get the device."""
    rig = writing()
    lost = rig.take(WriteClaimStatus)
    they_allocate(rig)
    rig.watch()
    rig.tell(WriteOutcomeUnknown(lost.id))
    rig.server.put_claim(replace(rig.server.claims[THEIRS], allocation=None, reserved_for=()))
    rig.server.put_claim(builders.claim("third"))
    rig.add_pod("q", claims=("third",))
    rig.settle()
    assert list(rig.machine.overlay.holds) == [rig.server.claims[OURS].uid]
    assert rig.server.claims[ClaimKey("default", "third")].allocation is None
    rig.tell(rig.server.execute(lost))  # it lands late, its answer unheard
    rig.wait(60_000)
    holders = [key.name for key, claim in rig.server.claims.items() if claim.allocation is not None]
    assert len(holders) == 1


def test_the_removal_expects_the_claim_as_it_was():
    """Somebody changes our claim between: the removal conflicts, is derived anew, and lands."""
    rig = writing()
    they_allocate(rig)
    rig.execute(watch=False)
    rig.watch()
    rig.execute(watch=False)  # the pod cannot be bound by anybody any more
    removal = rig.take(WriteClaimStatus)
    assert removal.clear_allocation
    assert removal.expect_revision == rig.server.claims[OURS].revision
    rig.server.put_claim(replace(rig.server.claims[OURS], annotations=(("edited", "yes"),)))
    rig.tell(rig.server.execute(removal))
    assert rig.server.claims[OURS].allocation is not None
    rig.settle()
    assert rig.server.claims[OURS].allocation is None


def test_a_binding_under_way_is_not_taken_back_but_reported():
    rig = writing()
    rig.execute()
    assert [type(one) for one in rig.pending] == [BindPod]
    they_allocate(rig)
    rig.watch()
    rig.settle()
    assert rig.node_of("p") == "a"
    assert rig.server.claims[OURS].allocation is not None
    assert "its pod is bound already" in conflict_events(rig)["ours"]
    assert counts(rig) == {("device", "bound"): 1}


def test_a_binding_that_fails_after_all_is_undone():
    rig = writing()
    rig.execute()
    bind = rig.take(BindPod)
    they_allocate(rig)
    rig.watch()
    pod = rig.server.pods.pop(PodKey("default", "p"))
    answer = rig.server.execute(bind)
    rig.server.pods[pod.key] = pod
    rig.server.delete_pod(pod.key)
    rig.tell(answer)
    rig.settle()
    assert rig.server.claims[OURS].allocation is None


def test_a_bound_pod_keeps_its_devices_and_both_claims_tell():
    rig = writing()
    rig.settle()
    assert rig.node_of("p") == "a"
    they_allocate(rig)
    rig.settle()
    assert rig.server.claims[OURS].allocation is not None
    assert set(conflict_events(rig)) == {"ours", "theirs"}
    assert counts(rig) == {("device", "bound"): 1}


def test_a_restart_undoes_what_was_stored_and_not_bound():
    before = writing()
    before.execute(watch=False)
    they_allocate(before)
    after = Rig(*default_plugins(), is_listed=False)
    after.server = before.server
    for given in after.server.list_all():
        after.tell(given)
    after.settle()
    assert after.server.claims[OURS].allocation is None
    assert after.node_of("p") is None
    assert counts(after) == {("device", "withdrawn"): 1}


@pytest.mark.parametrize("claims_a_tick", [1, 2, 1_000])
def test_what_was_listed_is_reviewed_in_parts_before_any_pod_is_tried(claims_a_tick, monkeypatch):
    monkeypatch.setattr(device_conflicts, "_REVIEWED_MAX", claims_a_tick)
    rig = Rig(*default_plugins(), is_listed=False)
    rig.server.put_node(builders.node("a"))
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("s", node="a", devices=4))
    for name, device in (("x", 0), ("ours", 0), ("y", 1), ("third", 1), ("z", 1)):
        taken = builders.allocation(f"gpu-{device}", pool="a")
        rig.server.put_claim(builders.claim(name, allocation=taken, finalizers=(FINALIZER,)))
    rig.server.put_claim(builders.claim("free", finalizers=(FINALIZER,)))
    rig.add_pod("p", claims=("ours",))
    rig.add_pod("q", claims=("free",))
    for given in rig.server.list_all():
        rig.tell(given)
    while rig.machine.conflicts.is_under_way:
        assert rig.machine.next_deadline_ms() == rig.now_ms
        assert not any(one.claim.name == "free" for one in rig.decided if isinstance(one, WriteClaimStatus))
        rig.tick()
    rig.settle()
    assert counts(rig) == {("device", "withdrawn"): 1, ("device", "foreign"): 3}
    assert set(conflict_events(rig)) == {"ours", "x"}
    assert rig.node_of("q") == "a"


def test_nothing_is_told_twice():
    rig = writing()
    rig.settle()
    they_allocate(rig)
    rig.settle()
    rig.server.put_claim(replace(rig.server.claims[THEIRS], annotations=(("edited", "yes"),)))
    rig.server.put_claim(replace(rig.server.claims[OURS], annotations=(("edited", "yes"),)))
    rig.settle()
    assert len([one for one in rig.events if one.startswith("DeviceConflict")]) == 2


def test_admin_access_is_no_conflict():
    rig = writing()
    watched = Allocation((DeviceResult("gpu", builders.DRIVER, "a", "gpu-0", admin_access=True),))
    they_allocate(rig, allocation=watched)
    rig.settle()
    assert rig.node_of("p") == "a"
    assert counts(rig) == {}


def test_another_device_is_no_conflict():
    rig = writing(devices=2)
    they_allocate(rig, "gpu-1")
    rig.settle()
    assert rig.node_of("p") == "a"
    assert counts(rig) == {}


def test_a_conflict_between_two_others_is_only_counted():
    rig = world()
    rig.server.put_pod(builders.pod("third-pod", claims=("third",), scheduler="default-scheduler"))
    third = builders.claim("third", allocation=builders.allocation("gpu-0", pool="a"), finalizers=(FINALIZER,))
    they_allocate(rig)
    rig.server.put_claim(third)
    rig.settle()
    assert conflict_events(rig) == {}
    assert counts(rig) == {("device", "foreign"): 1}


def test_a_claim_that_another_pod_uses_already_is_left_alone():
    """Ours is shared with a bound pod: a second pod's reservation is not the moment to take it away."""
    rig = writing()
    rig.settle()
    they_allocate(rig)
    rig.add_pod("q", claims=("ours",))
    rig.settle()
    assert rig.node_of("q") == "a"
    assert len(rig.server.claims[OURS].reserved_for) == 2


def test_a_conflict_between_two_others_is_told_once_a_pod_of_ours_uses_one():
    """The first was nobody's when the second was seen; found by the simulation (seed 6000673)."""
    rig = world()
    idle = builders.claim("idle", allocation=builders.allocation("gpu-0", pool="a"), finalizers=(FINALIZER,))
    rig.server.put_claim(idle)
    they_allocate(rig)
    rig.settle()
    assert counts(rig) == {("device", "foreign"): 1}
    rig.add_pod("late", claims=("idle",))
    rig.watch()
    rig.settle()
    assert set(conflict_events(rig)) == {"idle", "theirs"}
    assert rig.server.claims[idle.key].allocation is None
    assert rig.node_of("late") is None
    rig.add_pod("later", claims=("idle",))
    rig.watch()
    rig.settle()
    assert len([one for one in rig.events if one.startswith("DeviceConflict")]) == 2
    assert counts(rig) == {("device", "foreign"): 1, ("device", "withdrawn"): 1}


def test_a_conflict_between_two_others_is_forgotten_with_one_of_them():
    rig = world()
    third = builders.claim("third", allocation=builders.allocation("gpu-0", pool="a"))
    rig.server.put_claim(third)
    they_allocate(rig)
    rig.settle()
    rig.server.delete_claim(third.key)
    rig.settle()
    rig.add_pod("late", claims=("theirs",))
    rig.settle()
    assert conflict_events(rig) == {}
    assert not rig.machine.conflicts._unreported  # what is kept is no more than what there is


def test_a_conflict_between_two_others_that_is_over_is_not_told_later():
    rig = world()
    idle = builders.claim("idle", allocation=builders.allocation("gpu-0", pool="a"), finalizers=(FINALIZER,))
    rig.server.put_claim(idle)
    they_allocate(rig)
    rig.settle()
    rig.server.delete_pod(PodKey("default", "their-pod"))
    rig.server.collect_garbage()
    rig.settle()
    rig.add_pod("late", claims=("idle",))
    rig.settle()
    assert conflict_events(rig) == {}
    assert rig.node_of("late") == "a"


def test_a_reservation_of_a_gone_pod_is_no_reason_to_join_what_is_contested():
    """The claim controller will free it; found by the simulation (seed 3043 with extended resources)."""
    rig = writing()
    rig.settle()
    they_allocate(rig)
    rig.settle()
    rig.server.delete_pod(PodKey("default", "p"))
    rig.add_pod("q", claims=("ours",))
    rig.settle()
    assert rig.node_of("q") is None
    assert rig.server.claims[OURS].allocation is not None  # who is reserved may only be unseen yet
    rig.server.collect_garbage()
    rig.server.put_slice(builders.resource_slice("s", node="a", devices=2))
    rig.settle()
    rig.wait(10_000)
    rig.settle()
    assert rig.node_of("q") == "a"
    assert [result.device for result in rig.server.claims[OURS].allocation.results] == ["gpu-1"]


def test_a_pod_bound_past_us_without_a_reservation_is_no_reason_to_keep_what_is_contested():
    """A kubelet gives it nothing until it is reserved; found by the simulation (seed 2000013)."""
    rig = writing()
    rig.server.put_pod(builders.pod("preset", claims=("ours",), node="a"))
    rig.watch()
    they_allocate(rig)
    rig.watch()
    rig.settle()
    assert rig.server.claims[OURS].allocation is None
    assert rig.node_of("p") is None
    assert counts(rig) == {("device", "withdrawn"): 1}


def test_two_pods_that_share_a_contested_claim_both_yield():
    rig = world()
    rig.add_pod("q", claims=("ours",))
    rig.watch()
    rig.tick()
    they_allocate(rig)
    rig.settle()
    rig.wait(3_000)
    assert rig.server.claims[OURS].allocation is None
    assert rig.node_of("p") is rig.node_of("q") is None


# Shared counters and consumable capacity


def partitions() -> tuple[dict, ...]:
    consumed = {"counterSet": "memory", "counters": {"memory": {"value": "40Gi"}}}
    return tuple({**builders.device_object(name), "consumesCounters": [consumed]} for name in ("part-0", "part-1"))


def partitioned(total: str) -> Rig:
    rig = world(devices=partitions(), slices=2)
    counters = {"name": "memory", "counters": {"memory": {"value": total}}}
    published = builders.slice_object("counters", node="a", devices=0, slices=2)
    del published["spec"]["devices"]
    published["spec"]["sharedCounters"] = [counters]
    rig.server.put_slice(decode_slice(published))
    rig.watch()
    rig.tick()
    assert [type(decision) for decision in rig.pending] == [WriteClaimStatus]
    return rig


def test_partitions_that_overdraw_a_counter_conflict():
    rig = partitioned("40Gi")
    they_allocate(rig, "part-1")
    rig.settle()
    assert rig.server.claims[OURS].allocation is None
    assert counts(rig) == {("counter", "withdrawn"): 1}
    assert "counter memory of memory in pool gpu.example.com/a" in conflict_events(rig)["ours"]


def test_partitions_that_fit_do_not():
    rig = partitioned("80Gi")
    they_allocate(rig, "part-1")
    rig.settle()
    assert rig.node_of("p") == "a"
    assert counts(rig) == {}


def shared(rig: Rig, amount: str) -> Allocation:
    return Allocation(
        (
            DeviceResult(
                "gpu",
                builders.DRIVER,
                "a",
                "nic",
                share_id="their-share",
                consumed_capacity=(("bandwidth", Quantity.parse(amount)),),
            ),
        )
    )


def shareable() -> Rig:
    device = {
        **builders.device_object("nic"),
        "allowMultipleAllocations": True,
        "capacity": {"bandwidth": {"value": "10", "requestPolicy": {"default": "6"}}},
    }
    return writing(devices=(device,))


@pytest.mark.parametrize(("amount", "is_conflict"), [("4", False), ("5", True)])
def test_capacity_that_is_given_out_beyond_what_there_is_conflicts(amount, is_conflict):
    rig = shareable()
    they_allocate(rig, allocation=shared(rig, amount))
    rig.settle()
    assert (rig.server.claims[OURS].allocation is None) == is_conflict
    assert counts(rig) == ({("capacity", "withdrawn"): 1} if is_conflict else {})


def test_a_whole_device_conflicts_with_a_share_of_it():
    rig = shareable()
    they_allocate(rig, "nic")
    rig.settle()
    assert rig.server.claims[OURS].allocation is None
    assert counts(rig) == {("device", "withdrawn"): 1}


# Two of ours


@pytest.mark.parametrize("seen_first", [0, 1])
def test_two_schedulers_of_ours_end_with_one_holder(seen_first):
    """Both hand out the only device at the same moment: none is bound on it twice, and one of them gets it at last."""
    first = world()
    first.server.put_pod(builders.pod("their-pod", claims=("theirs",), scheduler="other"))
    second = Rig(*default_plugins(), scheduler_name="other", is_listed=False)
    second.server = first.server
    for given in second.server.list_all():
        second.tell(given)
    second.skip_watch()
    first.watch()
    for rig in (first, second):
        rig.tick()
        while any(isinstance(one, AddClaimFinalizer) for one in rig.pending):
            rig.execute(watch=False)
    for rig in (first, second):
        rig.execute(watch=False)  # both allocations are stored
    assert all(first.server.claims[key].allocation is not None for key in (OURS, THEIRS))
    order = (first, second) if seen_first == 0 else (second, first)
    for _ in range(40):
        for number, rig in enumerate(order):
            rig.settle()
            rig.wait(400 + 100 * number)
    holders = [key.name for key in (OURS, THEIRS) if first.server.claims[key].allocation is not None]
    assert len(holders) == 1
    assert sum(first.node_of(name) is not None for name in ("p", "their-pod")) == 1


def test_every_fate_has_a_word():
    assert {fate.value for fate in Fate} == {"withdrawn", "bound", "foreign"}


def test_a_contest_is_looked_at_again_when_a_reservation_of_a_gone_pod_has_ended():
    """After a restart: two pods shared the claim, one is gone, the other waits and cannot be placed."""
    before = writing()
    before.execute(watch=False)
    they_allocate(before)
    ours = before.server.claims[OURS]
    gone = builders.claim("x", reserved_for=(builders.pod("gone"),)).reserved_for
    before.server.put_claim(replace(ours, reserved_for=(*ours.reserved_for, *gone)))
    node = before.server.nodes["a"]
    before.server.put_node(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True)))
    after = Rig(*default_plugins(), is_listed=False)
    after.server = before.server
    for given in after.server.list_all():
        after.tell(given)
    after.settle()
    assert after.server.claims[OURS].allocation is not None
    after.server.collect_garbage()
    after.settle()
    assert after.server.claims[OURS].allocation is None


def test_a_pod_bound_to_another_node_is_no_reason_to_join_what_is_contested():
    """It has a reservation and no use for it: the devices are on node a."""
    rig = writing()
    rig.add_nodes("b")
    rig.server.put_pod(builders.pod("elsewhere", claims=("ours",), node="b"))
    they_allocate(rig)
    rig.execute(watch=False)
    claim = rig.server.claims[OURS]
    more = builders.claim("x", reserved_for=(rig.server.pods[PodKey("default", "elsewhere")],)).reserved_for
    rig.server.put_claim(replace(claim, reserved_for=(*claim.reserved_for, *more)))
    rig.settle()
    assert rig.node_of("p") is None
    assert rig.server.claims[OURS].allocation is None


def test_a_pod_that_was_bound_and_lost_its_reservation_is_no_reason_to_join_what_is_contested():
    """Whether or not its binding was observed yet; found by the simulation (seed 707)."""
    rig = writing()
    rig.execute(watch=False)
    rig.tell(observed(rig.server.claims[OURS]))
    assert isinstance(rig.pending[0], BindPod)
    rig.execute(watch=False)
    assert rig.node_of("p") == "a", "and nobody has observed it"

    rig.server.put_claim(replace(rig.server.claims[OURS], allocation=None, reserved_for=()))  # somebody takes it back
    rig.tell(observed(rig.server.claims[OURS]))
    rig.add_pod("q", claims=("ours",))
    rig.tell(observed(rig.server.pods[PodKey("default", "q")]))
    rig.tick()
    write = rig.take(WriteClaimStatus)
    they_allocate(rig)
    rig.tell(observed(rig.server.claims[THEIRS]))
    rig.tell(rig.server.execute(write))
    rig.tell(observed(rig.server.claims[OURS]))
    rig.settle()
    assert rig.node_of("q") is None
    assert rig.server.claims[OURS].allocation is None
