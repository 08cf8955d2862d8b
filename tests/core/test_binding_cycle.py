"""Binding cycles: conflicts, refusals, unknown outcomes, and pods and claims that go in the middle."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from scheduler.core.ground.inputs import Deleted, WriteAccepted, WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.framework.api import PreBindDone, PreBindWait
from scheduler.framework.decisions import BindPod, PatchPodStatus, ReadClaim, ReadPod, WriteClaimStatus, WriteId
from scheduler.model.api_rules import FINALIZER
from scheduler.model.keys import ClaimKey, PodKey
from tests import builders
from tests.core.plugins import Slots, TinyDevices
from tests.core.rig import Rig
from tests.observed import observed

CLAIM = ClaimKey("default", "claim")
POD = PodKey("default", "p")


def writing(**settings) -> Rig:
    """A rig whose only pod has just sent the write of its claim's allocation."""
    rig = Rig(TinyDevices(count=1), **settings)
    rig.add_nodes("a")
    rig.server.put_claim(builders.claim("claim", finalizers=(FINALIZER,)))
    rig.add_pod("p", claims=("claim",))
    rig.watch()
    rig.tick()
    assert [type(decision) for decision in rig.pending] == [WriteClaimStatus]
    return rig


def binding(**settings) -> Rig:
    """A rig whose only pod has just sent its binding."""
    rig = writing(**settings)
    rig.execute()
    assert [type(decision) for decision in rig.pending] == [BindPod]
    return rig


def free_devices(rig: Rig) -> int:
    """How many of node a's devices nobody holds."""
    return 1 - len(list(rig.machine.overlay.in_use.devices()))


# Between the answer to our write and the watch


def awaiting_the_watch(monkeypatch: pytest.MonkeyPatch) -> tuple[Rig, list[str]]:
    """A rig whose pod's last write was answered and is not watched yet, and what PreBind has been asked since."""
    rig = writing()
    asked: list[str] = []
    pre_bind = TinyDevices.pre_bind

    def counted(plugin, cycle, node, view):
        asked.append(cycle.pod.metadata.name)
        return pre_bind(plugin, cycle, node, view)

    monkeypatch.setattr(TinyDevices, "pre_bind", counted)
    rig.execute(watch=False)
    assert rig.pending == []
    return rig, asked


def test_after_the_last_write_pre_bind_is_asked_when_the_watch_has_come_and_not_before(monkeypatch):
    rig, asked = awaiting_the_watch(monkeypatch)
    assert asked == []
    rig.watch()
    assert asked == ["p"]
    assert [type(decision) for decision in rig.pending] == [BindPod]


def test_a_claim_that_a_relist_lacks_ends_the_wait_for_the_watch(monkeypatch):
    rig, _ = awaiting_the_watch(monkeypatch)
    claim = rig.server.claims[CLAIM]
    rig.tell(Deleted("ResourceClaim", CLAIM, claim.uid, claim.revision + 1))
    assert not any(isinstance(decision, BindPod) for decision in rig.pending)
    assert claim.uid not in rig.machine.store.claims
    assert builders.pod("p").uid not in rig.machine.bindings


def test_what_was_stored_last_decides_and_not_what_the_pod_has_written(monkeypatch):
    rig, asked = awaiting_the_watch(monkeypatch)
    rig.skip_watch()
    rig.server.put_claim(replace(rig.server.claims[CLAIM], allocation=None, reserved_for=()))
    rig.watch()
    assert asked == ["p"]
    assert builders.pod("p").uid not in rig.machine.bindings


def test_a_last_write_that_was_refused_is_weighed_at_once():
    rig = writing()
    rig.server.put_claim(replace(rig.server.claims[CLAIM], allocation=None, reserved_for=(), annotations=(("a", "b"),)))
    rig.execute(watch=False)
    rig.execute(watch=False)  # the read after the conflict
    assert [type(decision) for decision in rig.pending] == [WriteClaimStatus]


# Claim writes


def test_devices_are_held_from_the_decision_on():
    rig = writing()
    assert free_devices(rig) == 0
    assert list(rig.machine.overlay.holds) == [rig.server.claims[CLAIM].uid]


def test_a_conflict_is_read_and_the_step_decided_anew():
    rig = writing()
    rig.server.put_claim(replace(rig.server.claims[CLAIM], annotations=(("edited", "yes"),)))
    rig.execute(watch=False)
    rig.execute(watch=False)  # the read
    write = rig.take(WriteClaimStatus)
    assert write.expect_revision == rig.server.claims[CLAIM].revision
    rig.pending.append(write)
    rig.settle()
    assert rig.node_of("p") == "a"


def test_a_conflict_with_a_claim_already_seen_needs_no_read():
    rig = writing()
    write = rig.take(WriteClaimStatus)
    rig.server.put_claim(replace(rig.server.claims[CLAIM], annotations=(("edited", "yes"),)))
    rig.watch()
    rig.tell(rig.server.execute(write))
    assert [type(decision) for decision in rig.pending] == [WriteClaimStatus]


def test_a_claim_allocated_elsewhere_meanwhile_fails_the_attempt_and_frees_the_devices():
    rig = writing()
    foreign = builders.allocation("foreign", pool="a")
    rig.server.put_claim(replace(rig.server.claims[CLAIM], allocation=foreign))
    rig.execute()
    rig.execute()
    assert "got allocated elsewhere in the meantime" in rig.events[-1]
    assert [str(device) for device in rig.machine.overlay.in_use.devices()] == ["gpu.example.com/a/foreign"]
    rig.wait(2_000)
    assert rig.node_of("p") == "a"  # with what somebody else gave it


def test_too_many_conflicts_end_the_attempt():
    rig = writing(conflicts_max=3)
    for _ in range(4):
        write = rig.take(WriteClaimStatus)
        rig.server.put_claim(replace(rig.server.claims[CLAIM], annotations=(("edit", str(rig.server.revision)),)))
        rig.watch()
        rig.tell(rig.server.execute(write))
    assert rig.events[-1] == "FailedScheduling: too many conflicts while writing claims"
    assert free_devices(rig) == 1
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


def test_an_unknown_write_is_repeated_unchanged():
    rig = writing()
    lost = rig.take(WriteClaimStatus)
    rig.tell(WriteOutcomeUnknown(lost.id))
    assert rig.pending == []
    assert free_devices(rig) == 0
    rig.tick(200)
    again = rig.take(WriteClaimStatus)
    assert msgspec.structs.replace(again, id=lost.id) == lost
    rig.tell(rig.server.execute(again))
    rig.settle()
    assert rig.node_of("p") == "a"


def test_an_unknown_write_that_had_landed_is_recognized_when_seen():
    rig = writing()
    lost = rig.take(WriteClaimStatus)
    rig.server.execute(lost)
    rig.tell(WriteOutcomeUnknown(lost.id))
    rig.watch()
    assert [type(decision) for decision in rig.pending] == [BindPod]


def test_an_unknown_write_whose_claim_was_seen_before_the_answer_goes_on():
    rig = writing()
    lost = rig.take(WriteClaimStatus)
    rig.server.execute(lost)
    rig.watch()
    rig.tell(WriteOutcomeUnknown(lost.id))
    assert [type(decision) for decision in rig.pending] == [BindPod]


def test_devices_of_an_unknown_write_stay_held_though_its_pod_is_gone():
    rig = writing()
    lost = rig.take(WriteClaimStatus)
    rig.tell(WriteOutcomeUnknown(lost.id))
    rig.server.delete_pod(POD)
    rig.watch()
    assert free_devices(rig) == 0
    rig.server.execute(lost)  # lands late
    rig.tick(200)
    again = rig.take(WriteClaimStatus)
    rig.tell(rig.server.execute(again))  # conflicts: something landed, but what?
    assert free_devices(rig) == 0
    read = rig.take(ReadClaim)
    rig.tell(WriteOutcomeUnknown(read.id))  # and the read is lost too
    assert free_devices(rig) == 0
    rig.wait(5_000)
    assert rig.server.claims[CLAIM].allocation is not None
    assert rig.server.claims[CLAIM].reserved_for == ()  # taken back, the pod is gone
    assert free_devices(rig) == 0  # stored, by now
    assert len(rig.machine.bindings) == 0


def test_devices_of_an_unknown_write_are_free_once_the_claim_is_gone():
    rig = writing()
    lost = rig.take(WriteClaimStatus)
    rig.tell(WriteOutcomeUnknown(lost.id))
    rig.tell(Deleted("ResourceClaim", CLAIM, lost.uid, rig.server.revision + 1))
    assert free_devices(rig) == 1
    assert rig.events[-1] == "FailedScheduling: claim default/claim got deleted in the meantime"


def test_a_refusal_of_a_repeated_write_does_not_free_the_devices():
    rig = writing()
    rig.tell(WriteOutcomeUnknown(rig.take(WriteClaimStatus).id))
    rig.tick(200)
    again = rig.take(WriteClaimStatus)
    rig.tell(WriteRejected(again.id, 403, "Forbidden", "no", is_configuration=True))
    rig.server.delete_pod(POD)
    rig.watch()
    assert free_devices(rig) == 0
    rig.wait(61_000)
    assert len(rig.machine.bindings) == 0


def test_a_refusal_for_lack_of_the_admin_label_says_how_to_set_it():
    rig = writing(reports_causes=True)
    text = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label"
    rig.tell(WriteRejected(rig.take(WriteClaimStatus).id, 422, "Invalid", text))
    label = "resource.kubernetes.io/admin-access"
    assert rig.events[-1] == (
        f"FailedScheduling: the API server refuses: Invalid: {text} Cause: [admin-access-unlabelled] Namespace default "
        f"has no label {label}, and a claim there asks for admin access; to make it fit: "
        f"kubectl label namespace default {label}=true"
    )


def test_a_refusal_fails_the_attempt_and_frees_the_devices():
    rig = writing()
    rig.tell(WriteRejected(rig.take(WriteClaimStatus).id, 422, "Invalid", "spec is immutable"))
    assert rig.events[-1] == "FailedScheduling: the API server refuses: Invalid: spec is immutable"
    assert free_devices(rig) == 1
    assert rig.machine.problems() == ()


def test_a_lack_of_permissions_is_a_problem_and_not_retried_in_a_loop():
    rig = writing()
    refusal = WriteRejected(rig.take(WriteClaimStatus).id, 422, "Invalid", "missing binding", is_configuration=True)
    rig.tell(refusal)
    assert rig.machine.problems() == ("the API server refuses a write (422 Invalid): missing binding",)
    rig.pending.clear()
    rig.wait(59_000)
    assert rig.node_of("p") is None
    rig.wait(2_000)
    assert rig.node_of("p") == "a"
    assert rig.machine.problems() == ()


def test_a_condition_that_we_may_not_write_is_a_problem_too():
    rig = Rig(Slots(0))
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.watch()
    rig.tick()
    rig.tell(WriteRejected(rig.take(PatchPodStatus).id, 403, "Forbidden", "no", is_configuration=True))
    assert rig.machine.problems() == ("the API server refuses a write (403 Forbidden): no",)


def test_an_answer_to_an_earlier_life_of_the_machine_is_ignored():
    rig = Rig(Slots(0))
    rig.tell(WriteAccepted(WriteId(99), claim=builders.claim("gone")))
    assert not rig.machine.store.claims


def test_a_throttled_write_is_sent_again():
    rig = writing()
    rig.tell(WriteRejected(rig.take(WriteClaimStatus).id, 429, "TooManyRequests", "later", is_retriable=True))
    assert rig.pending == []
    rig.wait(1_000)
    assert rig.node_of("p") == "a"


def test_a_missing_claim_is_made_sure_of():
    rig = writing()
    del rig.server.claims[CLAIM]  # and no watch tells
    rig.execute(watch=False)
    rig.execute(watch=False)
    assert rig.machine.store.claim(CLAIM) is None
    assert free_devices(rig) == 1


def test_a_missing_pod_is_made_sure_of():
    rig = binding()
    del rig.server.pods[POD]  # and no watch shows it
    rig.tell(WriteOutcomeUnknown(rig.take(BindPod).id))
    rig.tick(100)
    rig.tell(rig.server.execute(rig.take(ReadPod)))
    assert not rig.machine.store.pods
    rig.settle()
    assert len(rig.machine.queue) == len(rig.machine.bindings) == 0


def test_a_hold_that_ended_is_not_written_again():
    """The claim was seen allocated, then lost its allocation: the devices may be another pod's by now."""
    rig = writing()
    write = rig.take(WriteClaimStatus)
    rig.server.execute(write)
    rig.watch()
    assert not rig.machine.overlay.holds
    cleared = replace(rig.server.claims[CLAIM], allocation=None, reserved_for=())
    rig.server.put_claim(cleared)
    rig.watch()
    rig.tell(WriteOutcomeUnknown(write.id))
    assert rig.events[-1] == "FailedScheduling: claim default/claim got deallocated elsewhere in the meantime"


def test_a_pod_is_not_bound_while_another_write_on_its_claim_may_land():
    """PostFilter's de-allocation, sent for this very pod, must not land after the pod's reservation was relied on."""
    rig = Rig(TinyDevices(count=1), Slots(1))
    rig.add_nodes("a")
    rig.add_pod("there", node="a")
    reserved = builders.claim("claim", allocation=builders.allocation("gpu-0", pool="a"))
    rig.server.put_claim(reserved)
    rig.add_pod("p", claims=("claim",))
    pod = rig.server.pods[POD]
    claim = rig.server.put_claim(
        replace(rig.server.claims[CLAIM], reserved_for=builders.claim(reserved_for=(pod,)).reserved_for)
    )
    rig.settle()
    assert rig.node_of("p") is None
    settled = []
    free = WriteClaimStatus(CLAIM, claim.uid, claim.revision, clear_allocation=True)
    rig.machine.writes.send(free, settled.append)
    rig.tick()
    lost = rig.take(WriteClaimStatus)
    rig.tell(WriteOutcomeUnknown(lost.id))
    rig.server.delete_pod(PodKey("default", "there"))
    rig.watch()
    rig.tick(50)
    assert rig.machine.queue.counts()["in flight"] == 1  # fits again, its claim is reserved, and still it waits
    assert not [decision for decision in rig.pending if isinstance(decision, BindPod)]
    rig.server.execute(lost)
    rig.wait(5_000)
    (claim,) = rig.server.claims.values()
    assert rig.node_of("p") == "a"
    assert claim.is_reserved_for(pod.uid)
    assert claim.allocation is not None


# The binding


def test_a_binding_conflict_is_read_and_recognized_as_ours():
    rig = binding()
    bind = rig.take(BindPod)
    rig.server.execute(bind)
    rig.tell(WriteConflicted(bind.id))
    rig.execute(watch=False)
    assert rig.events == ["Scheduled: Successfully assigned default/p to a"]


def test_a_pod_bound_elsewhere_by_somebody_is_given_up_and_its_reservation_taken_back():
    rig = writing()
    write = rig.take(WriteClaimStatus)
    on_a = builders.allocation("d", pool="a").node_selector
    rig.tell(rig.server.execute(write))
    rig.server.put_claim(
        replace(
            rig.server.claims[CLAIM],
            allocation=msgspec.structs.replace(rig.server.claims[CLAIM].allocation, node_selector=on_a),
        )
    )
    rig.add_nodes("other")
    rig.watch()
    bind = rig.take(BindPod)
    pod = rig.server.pods[POD]
    rig.server.put_pod(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="other")))
    rig.tell(rig.server.execute(bind))
    rig.settle()
    assert rig.server.claims[CLAIM].reserved_for == ()
    assert len(rig.machine.queue) == 0
    assert rig.events == []


def test_an_unknown_binding_is_read_and_repeated_until_known():
    rig = binding()
    rig.tell(WriteOutcomeUnknown(rig.take(BindPod).id))
    assert rig.machine.store.assumed
    rig.tick(200)
    rig.tell(rig.server.execute(rig.take(ReadPod)))
    rig.tick(200)
    again = rig.take(BindPod)
    assert again.node == "a"
    rig.tell(WriteOutcomeUnknown(again.id))
    rig.tick(500)
    rig.tell(WriteOutcomeUnknown(rig.take(ReadPod).id))
    rig.server.execute(again)  # lands late
    rig.wait(10_000)
    assert rig.events == ["Scheduled: Successfully assigned default/p to a"]
    assert len(rig.server.bindings) == 1


def test_an_unknown_binding_seen_in_the_watch_is_done():
    rig = binding()
    bind = rig.take(BindPod)
    rig.server.execute(bind)
    rig.watch()
    assert rig.events == ["Scheduled: Successfully assigned default/p to a"]
    rig.tell(WriteOutcomeUnknown(bind.id))
    rig.settle()
    assert rig.pending == []


def test_an_unknown_binding_is_never_given_up_for_a_refusal():
    rig = binding()
    rig.tell(WriteOutcomeUnknown(rig.take(BindPod).id))
    rig.wait(0)
    rig.tick(200)
    rig.tell(rig.server.execute(rig.take(ReadPod)))
    rig.tick(200)
    rig.tell(WriteRejected(rig.take(BindPod).id, 403, "Forbidden", "no", is_configuration=True))
    assert rig.machine.store.assumed
    rig.wait(61_000)
    assert rig.node_of("p") == "a"


def test_a_binding_refused_for_good_is_given_up():
    rig = binding()
    rig.tell(WriteRejected(rig.take(BindPod).id, 403, "Forbidden", "no", is_configuration=True))
    assert not rig.machine.store.assumed
    assert rig.machine.problems()
    rig.settle()
    assert rig.server.claims[CLAIM].reserved_for == ()


def test_a_pod_that_is_being_deleted_is_not_bound():
    rig = binding()
    pod = rig.server.pods[POD]
    meta = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    rig.server.put_pod(msgspec.structs.replace(pod, metadata=meta))
    rig.execute(watch=False)  # 409, without having seen why
    rig.execute(watch=False)
    rig.settle()
    assert rig.node_of("p") is None
    assert rig.server.claims[CLAIM].reserved_for == ()
    assert len(rig.machine.queue) == 0


def test_a_pod_deleted_while_being_bound_leaves_nothing_behind():
    rig = binding()
    rig.server.delete_pod(POD)
    rig.settle()
    assert rig.server.claims[CLAIM].reserved_for == ()
    assert not rig.machine.store.assumed
    assert len(rig.machine.queue) == len(rig.machine.bindings) == 0


def test_a_late_report_of_the_unbound_pod_does_not_queue_it_again():
    rig = binding()
    before = rig.server.pods[POD]
    rig.execute(watch=False)
    touched = msgspec.structs.replace(
        before, metadata=msgspec.structs.replace(before.metadata, resource_version=str(before.metadata.revision + 1))
    )
    rig.skip_watch()
    rig.tell(observed(touched))  # from between the two, and late
    assert len(rig.machine.queue) == 0
    rig.tick()
    assert rig.pending == []


def test_devices_come_free_for_those_who_wait_when_a_binding_fails():
    rig = writing()
    rig.server.put_claim(builders.claim("second"))
    rig.add_pod("q", claims=("second",))
    rig.watch()
    rig.tick(10)
    assert "cannot allocate all claims" in rig.events[-1]
    write = rig.take(WriteClaimStatus)
    rig.server.delete_pod(POD)
    rig.watch()
    rig.tell(WriteConflicted(write.id))
    rig.settle()
    assert rig.node_of("q") == "a"


# Waiting


class Conditions(TinyDevices):
    """Waits until the claim has an annotation."""

    def pre_bind(self, cycle, node, view):
        step = super().pre_bind(cycle, node, view)
        if isinstance(step, PreBindDone) and not view.claim(CLAIM).annotations:
            return PreBindWait(cycle.now_ms + 60_000, (CLAIM,))
        return step


def test_pre_bind_waits_for_the_claim_it_names():
    rig = Rig(Conditions(count=1))
    rig.add_nodes("a")
    rig.server.put_claim(builders.claim("claim"))
    rig.add_pod("p", claims=("claim",))
    rig.settle()
    assert rig.node_of("p") is None
    assert rig.machine.next_deadline_ms() == rig.now_ms + 60_000
    rig.server.put_claim(replace(rig.server.claims[CLAIM], annotations=(("ready", "yes"),)))
    rig.settle()
    assert rig.node_of("p") == "a"


def test_a_claim_observed_twice_is_one_allocation():
    rig = writing()
    rig.execute()
    claim = rig.server.claims[CLAIM]
    rig.tell(observed(claim))
    rig.tell(observed(replace(claim, revision=claim.revision + 1)))
    rig.settle()
    assert free_devices(rig) == 0
    rig.tell(Deleted("Pod", POD, rig.server.pods[POD].uid))
    rig.tell(Deleted("ResourceClaim", CLAIM, claim.uid))
    assert free_devices(rig) == 1


@pytest.mark.parametrize("answer", [WriteAccepted, WriteConflicted, WriteOutcomeUnknown])
def test_an_answer_that_comes_twice_counts_once(answer):
    rig = binding()
    bind = rig.take(BindPod)
    rig.server.execute(bind)
    rig.tell(WriteAccepted(bind.id))
    rig.tell(answer(bind.id))
    rig.settle()
    assert rig.events == ["Scheduled: Successfully assigned default/p to a"]
