"""Preemption, carried out: nomination, victims, what is kept, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
import pytest

from scheduler.core.ground.inputs import WriteOutcomeUnknown, WriteRejected
from scheduler.core.preempting.preemption_texts import making_room, making_room_for_group, refused
from scheduler.framework.api import Action, Hint, PostFilterResult, Resource
from scheduler.framework.decisions import (
    BindPod,
    DeletePod,
    PatchPodDisruption,
    PatchPodStatus,
    RecordEvent,
    WriteClaimStatus,
)
from scheduler.framework.preemption import Preemption
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, PodKey
from tests import builders
from tests.core.plugins import Patience, Slots, TinyDevices
from tests.core.rig import Rig


@dataclass(frozen=True)
class Preempt:
    """PostFilter: removes all less important pods from the first node that has any, with their claims."""

    name: str = "DefaultPreemption"
    wakes_on: tuple = ((Resource.ASSIGNED_POD, Action.DELETE),)
    asked: list = field(default_factory=list)

    def post_filter(self, cycle, verdicts, view, dry_run):
        pod = cycle.pod
        self.asked.append(pod.metadata.name)
        record = view.preemption_of(pod.uid)
        if record is not None and (record.victims or record.released):
            return PostFilterResult(Status.unschedulable("not eligible"))
        for name in sorted(verdicts):
            victims = [
                one
                for one in view.node_infos[name].pods.values()
                if (one.spec.priority or 0) < (pod.spec.priority or 0)
            ]
            # Claims of TinyDevices are no part of a dry run.
            uids = [one.uid for one in victims]
            if victims and (pod.spec.resource_claims or dry_run.without(name, uids).status.is_success):
                released = [held for one in victims for held in _held_by(one, view)]
                given = [
                    Held(claim.key, claim.uid, held.allocation)
                    for entry, held in zip(pod.spec.resource_claims or (), released, strict=False)
                    if (claim := view.claim(ClaimKey("default", entry.resource_claim_name))) is not None
                ]
                preemption = Preemption(name, tuple(victims), 0, tuple(released), tuple(given))
                return PostFilterResult(SUCCESS, name, preemption=preemption)
        return PostFilterResult(Status.unschedulable("no victims"), "")

    def hint(self, pod, change, view):
        return Hint.SKIP


def _held_by(pod, view):
    for entry in pod.spec.resource_claims or ():
        claim = view.claim(ClaimKey("default", entry.resource_claim_name))
        if claim is not None and claim.allocation is not None:
            yield Held(claim.key, claim.uid, claim.allocation)


def rig_with(*nodes: str, plugins=(), **fields) -> Rig:
    rig = Rig(*(plugins or (Slots(),)), Preempt(), **fields)
    rig.add_nodes(*(nodes or ("a",)))
    rig.settle()
    return rig


def uid_of(rig: Rig, name: str):
    return rig.server.pods[PodKey("default", name)].uid


def record_of(rig: Rig, name: str = "high"):
    return rig.machine.store.nominations.preempting.get(uid_of(rig, name))


def decided(rig: Rig, kind: type) -> list:
    return [one for one in rig.decided if type(one) is kind]


def nominated(rig: Rig, name: str) -> str:
    return rig.server.pods[PodKey("default", name)].status.nominated_node_name


def end(rig: Rig, name: str) -> None:
    """The kubelet has stopped the pod."""
    rig.server.delete_pod(PodKey("default", name))
    rig.server.collect_garbage()
    rig.settle()


def full(*, priority: int = 10, **fields) -> Rig:
    """Node a has room for one pod, which is `low`; then `high` comes."""
    rig = rig_with(**fields)
    rig.add_pod("low", node="a", scheduler="another")
    rig.add_pod("high", priority=priority)
    rig.watch()
    rig.tick()
    return rig


# The order of things


def test_the_pod_is_nominated_in_memory_before_anything_is_written():
    rig = full()
    assert rig.machine.store.nominations.node_of(uid_of(rig, "high")) == "a"
    assert nominated(rig, "high") == ""
    assert [type(one) for one in rig.pending] == [PatchPodStatus]


def test_victims_are_removed_once_the_nomination_is_stored_and_the_condition_before_the_deletion():
    rig = full()
    nomination = rig.take(PatchPodStatus)
    assert nomination.nominated_node == "a"
    assert nomination.expect_revision == rig.server.pods[PodKey("default", "high")].metadata.revision
    rig.tell(rig.server.execute(nomination))
    assert [type(one) for one in rig.pending] == [PatchPodDisruption]
    rig.execute()
    (deletion,) = rig.pending
    assert deletion == DeletePod(PodKey("default", "low"), uid_of(rig, "low"), deletion.id)
    condition = rig.server.pods[PodKey("default", "low")].status.conditions[-1]
    assert (condition.type, condition.status, condition.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
    assert condition.message == "dra-scheduler: preempting to accommodate a higher priority pod"


def test_all_of_it():
    rig = full()
    rig.settle()
    assert rig.server.pods[PodKey("default", "low")].is_deleting
    assert nominated(rig, "high") == "a"
    assert "Preempting 1 pod on node a: default/low." in rig.condition_of("high")[1]
    (event,) = [one for one in rig.events if one.startswith("Preempted")]
    assert event == f"Preempted: Preempted by pod {uid_of(rig, 'high')} on node a: default/high"
    assert record_of(rig).victims
    end(rig, "low")
    assert rig.node_of("high") == "a"
    assert record_of(rig) is None
    tallies = rig.machine.queue.tallies.preemptions
    assert (tallies.victims.count, tallies.victims.total, dict(tallies.removed)) == (1, 1, {"deleted": 1})
    assert tallies.in_vain == 0


def test_the_event_on_the_victim_names_the_pod_that_takes_its_place():
    rig = full()
    rig.settle()
    (event,) = [one for one in rig.decided if getattr(one, "reason", "") == "Preempted"]
    assert (event.type, event.action, event.name) == ("Normal", "Preempting", "low")
    assert event.related == ("default", "high", uid_of(rig, "high"))
    assert event.reporter == builders.SCHEDULER


@pytest.mark.parametrize("outcome", ["answered", "unknown"])
def test_the_event_is_recorded_even_if_the_victim_is_seen_to_be_gone_before_the_answer(outcome):
    """Of a pod without a grace period the API server tells watchers before it answers; the room may be taken then."""
    rig = full()
    rig.execute()
    rig.execute()
    deletion = rig.take(DeletePod)
    answer = rig.server.execute(deletion)
    rig.server.delete_pod(PodKey("default", "low"))
    rig.settle()
    assert rig.node_of("high") == "a"
    assert record_of(rig) is None
    assert not any(one.startswith("Preempted") for one in rig.events)
    rig.tell(answer if outcome == "answered" else WriteOutcomeUnknown(deletion.id, "timeout"))
    rig.wait(60_000)
    (event,) = [one for one in rig.events if one.startswith("Preempted")]
    assert event.endswith("on node a: default/high")
    assert rig.machine.queue.tallies.preemptions.removed == {"deleted": 1}


def test_a_victim_that_somebody_else_removed_has_no_event():
    rig = full()
    rig.execute()
    rig.server.delete_pod(PodKey("default", "low"))  # between the nomination and the condition
    rig.settle()
    assert rig.node_of("high") == "a"
    assert not any(one.startswith("Preempted") for one in rig.events)


# Never a second set


def test_while_a_victim_terminates_nobody_else_is_removed():
    rig = rig_with(plugins=(Slots(2),))
    for name in ("one", "two"):
        rig.add_pod(name, node="a", scheduler="another")
    rig.add_pod("high", priority=10)
    rig.settle()
    rig.server.delete_pod(PodKey("default", "one"))
    rig.settle()  # wakes the pod: it fits, now, without waiting for the other victim
    assert rig.node_of("high") == "a"

    rig = rig_with(plugins=(Slots(2),))
    for name in ("one", "two"):
        rig.add_pod(name, node="a", scheduler="another", priority=0)
    rig.add_pod("high", priority=10)
    rig.settle()
    rig.server.delete_pod(PodKey("default", "one"))
    rig.add_pod("thief", node="a", scheduler="another", priority=0)
    rig.settle()
    rig.wait(60_000)
    assert rig.node_of("high") is None
    assert {one.pod.name for one in decided(rig, DeletePod)} == {"one", "two"}
    assert [one.metadata.name for one in record_of(rig).victims] == ["two"]


def test_that_the_pod_still_waits_is_not_written_again():
    rig = rig_with(plugins=(Slots(2),))
    for name in ("one", "two"):
        rig.add_pod(name, node="a", scheduler="another", priority=0)
    rig.add_pod("high", priority=10)
    rig.settle()
    written = len(decided(rig, PatchPodStatus))
    rig.server.delete_pod(PodKey("default", "one"))
    rig.add_pod("thief", node="a", scheduler="another", priority=0)  # so that it does not fit yet
    rig.settle()
    rig.wait(20_000)
    assert len(decided(rig, PatchPodStatus)) == written
    assert "Preempting 2 pods on node a" in rig.condition_of("high")[1]


def test_room_that_somebody_takes_is_made_again_after_a_backoff_and_counted():
    rig = full()
    rig.settle()
    rig.server.delete_pod(PodKey("default", "low"))
    rig.add_pod("thief", node="a", scheduler="another", priority=0)
    rig.settle()
    assert record_of(rig) is None
    assert len(decided(rig, DeletePod)) == 1
    assert rig.machine.queue.tallies.preemptions.in_vain == 1
    assert rig.condition_of("high")[1].endswith("The room that was made for it has been taken.")
    assert nominated(rig, "high") == ""
    rig.wait(10_000)
    assert [one.pod.name for one in decided(rig, DeletePod)] == ["low", "thief"]
    end(rig, "thief")
    assert rig.node_of("high") == "a"


def test_a_plugin_that_asks_for_a_second_set_is_not_heard():
    rig = full()
    rig.settle()
    before = record_of(rig)
    pod = rig.server.pods[PodKey("default", "high")]
    other = builders.pod("other", node="a")
    rig.machine.preemptions.begin([(pod, Preemption("a", (other,)))], None)
    assert record_of(rig) is before


# Writes whose outcome is unknown, or that are refused


@pytest.mark.parametrize("kind", [PatchPodStatus, PatchPodDisruption, DeletePod])
@pytest.mark.parametrize("has_landed", [False, True])
def test_a_write_without_a_known_outcome_is_repeated(kind, has_landed):
    rig = full()
    while not any(type(one) is kind for one in rig.pending):
        rig.execute()
    write = rig.take(kind)
    if has_landed:
        rig.server.execute(write)
    rig.tell(WriteOutcomeUnknown(write.id, "timeout"))
    rig.settle()
    rig.wait(1_000)
    assert rig.server.pods[PodKey("default", "low")].is_deleting
    assert nominated(rig, "high") == "a"
    end(rig, "low")
    assert rig.node_of("high") == "a"


@pytest.mark.parametrize("kind", [PatchPodStatus, PatchPodDisruption, DeletePod])
def test_a_refused_write_ends_it_and_the_pod_backs_off(kind):
    rig = full()
    while not any(type(one) is kind for one in rig.pending):
        rig.execute()
    rig.tell(WriteRejected(rig.take(kind).id, 403, "Forbidden", "no permission"))
    rig.settle()
    assert record_of(rig) is None
    assert nominated(rig, "high") == ""
    assert rig.condition_of("high")[0] == "SchedulerError"
    assert "Forbidden: no permission" in rig.condition_of("high")[1]
    assert not rig.server.pods[PodKey("default", "low")].is_deleting
    rig.wait(9_000)
    assert record_of(rig) is None
    rig.wait(11_000)
    end(rig, "low")
    assert rig.node_of("high") == "a"


def test_what_was_not_sent_when_a_write_is_refused_is_not_sent():
    rig = rig_with(plugins=(Slots(2),))
    for name in ("one", "two"):
        rig.add_pod(name, node="a", scheduler="another", priority=0)
    rig.add_pod("high", priority=10)
    rig.watch()
    rig.tick()
    rig.execute()
    first, second = [one for one in rig.pending if type(one) is PatchPodDisruption]
    rig.pending.clear()
    rig.tell(WriteRejected(first.id, 422, "Invalid", "no"))
    assert record_of(rig) is not None, "the other write may still land"
    rig.tell(rig.server.execute(second))
    rig.settle()
    assert decided(rig, DeletePod) == []
    assert record_of(rig) is None


@pytest.mark.parametrize("when", ["gone", "replaced"])
def test_a_victim_that_is_gone_already_is_no_failure(when):
    rig = full()
    rig.execute()
    rig.execute()
    (deletion,) = rig.pending
    rig.server.delete_pod(PodKey("default", "low"))
    if when == "replaced":
        rig.add_pod("low", uid="another", node="a", scheduler="another", priority=0)
    rig.tell(rig.server.execute(rig.take(DeletePod)))
    assert deletion.uid != "another"
    rig.settle()
    if when == "gone":
        assert rig.node_of("high") == "a"
    else:
        assert not rig.server.pods[PodKey("default", "low")].is_deleting
        assert record_of(rig) is None


# Two processes, and others who nominate


def test_a_pod_that_changed_before_its_nomination_was_stored_is_nominated_again():
    rig = full()
    pod = rig.server.pods[PodKey("default", "high")]
    rig.server.put_pod(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels={"x": "y"})))
    rig.settle()
    assert rig.server.pods[PodKey("default", "low")].is_deleting


@pytest.mark.parametrize("node", ["a", "b"])
def test_of_two_processes_only_one_removes_victims(node):
    """The other one's nomination is for a pod that has changed: it finds the pod nominated, and steps back.

    Also where both have chosen the same node: the victims may be others.
    """
    rig = full()
    pod = rig.server.pods[PodKey("default", "high")]
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    rig.server.put_pod(msgspec.structs.replace(pod, status=status))
    rig.execute(watch=False)
    rig.execute(watch=False)  # the read after the conflict
    assert decided(rig, PatchPodDisruption) == []
    assert record_of(rig) is None


def test_a_nomination_whose_answer_was_lost_is_ours_and_not_written_again():
    rig = full()
    lost = rig.take(PatchPodStatus)
    rig.server.execute(lost)
    rig.tell(WriteOutcomeUnknown(lost.id))
    rig.tick(200)
    rig.execute(watch=False)  # the same again is a conflict
    rig.execute(watch=False)  # the read after it
    assert [one.expect_revision for one in decided(rig, PatchPodStatus)] == [lost.expect_revision] * 2
    assert len(decided(rig, PatchPodDisruption)) == 1


def test_of_two_processes_that_go_on_with_an_earlier_nomination_only_one_removes_victims():
    """The pod was nominated for the node before, so of what both have written only the text differs."""
    rig = rig_with()
    rig.add_pod("low", node="a", scheduler="another")
    pod = builders.pod("high", priority=10)
    rig.server.put_pod(
        msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name="a"))
    )
    rig.watch()
    rig.tick()
    nomination = rig.pending[0]
    assert nomination.nominated_node == "a"
    rig.server.execute(msgspec.structs.replace(nomination, message="Preempting 1 pod on node a: default/other."))
    rig.execute(watch=False)
    rig.execute(watch=False)  # the read after the conflict
    assert decided(rig, PatchPodDisruption) == []
    assert record_of(rig) is None


@pytest.mark.parametrize("node", ["", "b"])
def test_a_nomination_that_somebody_moves_ends_it(node):
    rig = full()
    rig.settle()
    pod = rig.server.pods[PodKey("default", "high")]
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    rig.server.put_pod(msgspec.structs.replace(pod, status=status))
    rig.watch()
    assert record_of(rig) is None


# How it ends


@pytest.mark.parametrize("how", ["deleted", "finished", "bound"])
def test_no_record_outlives_its_pod(how):
    rig = full()
    rig.settle()
    pod = rig.server.pods[PodKey("default", "high")]
    if how == "deleted":
        rig.server.delete_pod(pod.key)
    elif how == "finished":
        rig.server.put_pod(msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Failed")))
    else:
        rig.server.put_pod(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="a")))
    rig.settle()
    assert not rig.machine.store.nominations.preempting
    assert not rig.machine.store.nominations.at("a")


def test_a_pod_that_fits_elsewhere_takes_that():
    rig = full()
    rig.settle()
    rig.add_nodes("b")
    rig.settle()
    rig.wait(5_000)
    assert rig.node_of("high") == "b"
    assert not rig.machine.store.nominations.preempting


def placed_elsewhere() -> tuple[Rig, BindPod]:
    """`low` is terminating on a for `high`, which has been placed on b; its binding has not been sent."""
    rig = full()
    rig.settle()
    binding = place_on_b(rig)
    assert rig.server.pods[PodKey("default", "low")].is_deleting
    return rig, binding


def place_on_b(rig: Rig) -> BindPod:
    """There is room for `high` on b; returned is its binding, which has not been sent."""
    rig.add_nodes("b")
    rig.watch()
    while not any(type(one) is BindPod for one in rig.pending):
        rig.tick(100)
        rig.watch()
    return rig.take(BindPod)


def test_a_placement_elsewhere_that_is_undone_leads_to_no_second_set():
    rig, binding = placed_elsewhere()
    assert record_of(rig) is not None
    rig.add_pod("other", node="b", scheduler="another")
    rig.watch()
    rig.tell(WriteRejected(binding.id, 403, "Forbidden", "no permission"))
    rig.wait(60_000)
    assert len(decided(rig, DeletePod)) == 1
    end(rig, "low")
    assert rig.node_of("high") == "a"
    assert record_of(rig) is None


def test_while_a_pod_is_being_bound_elsewhere_nobody_is_removed_for_it():
    """Of two victims one has been asked to go: the other one stays, unless the pod is not bound after all."""
    rig = rig_with(plugins=(Slots(2),))
    for name in ("one", "two"):
        rig.add_pod(name, node="a", scheduler="another")
    rig.add_pod("high", priority=10)
    rig.watch()
    rig.tick()
    rig.execute()
    disruptions = [one for one in rig.pending if isinstance(one, PatchPodDisruption)]
    assert len(disruptions) == 2
    rig.pending.remove(disruptions[1])
    rig.settle()
    binding = place_on_b(rig)
    rig.tell(rig.server.execute(disruptions[1]))
    assert [one.pod.name for one in decided(rig, DeletePod)] == ["one"]
    rig.add_pod("third", node="b", scheduler="another")
    rig.add_pod("other", node="b", scheduler="another")
    rig.watch()
    rig.tell(WriteRejected(binding.id, 403, "Forbidden", "no permission"))
    rig.wait(120_000)
    assert [one.pod.name for one in decided(rig, DeletePod)] == ["one", "two"]
    assert len(record_of(rig).victims) == 2
    end(rig, "one")
    end(rig, "two")
    rig.wait(10_000)
    assert rig.node_of("high") == "a"


@pytest.mark.parametrize("node", ["", "b"])
def test_a_nomination_that_somebody_moves_while_the_pod_is_placed_ends_it(node):
    rig, binding = placed_elsewhere()
    pod = rig.server.pods[PodKey("default", "high")]
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    rig.server.put_pod(msgspec.structs.replace(pod, status=status))
    rig.add_pod("other", node="b", scheduler="another")
    rig.watch()
    rig.tell(WriteRejected(binding.id, 403, "Forbidden", "no permission"))
    assert record_of(rig) is None


def test_a_refused_removal_is_not_told_to_a_pod_that_is_placed_elsewhere():
    rig = full()
    while not any(type(one) is DeletePod for one in rig.pending):
        rig.execute()
    deletion = rig.take(DeletePod)
    binding = place_on_b(rig)
    rig.tell(WriteRejected(deletion.id, 403, "Forbidden", "no permission"))
    rig.tell(rig.server.execute(binding))
    rig.settle()
    assert (rig.node_of("high"), record_of(rig)) == ("b", None)
    assert rig.condition_of("high")[0] == "Unschedulable", "as it was when the pod preempted"


def test_room_that_others_take_while_the_pod_is_placed_elsewhere_is_not_counted_as_in_vain():
    rig, binding = placed_elsewhere()
    rig.add_pod("other", node="b", scheduler="another")
    rig.add_pod("quick", node="a", scheduler="another")
    rig.watch()
    rig.tell(WriteRejected(binding.id, 403, "Forbidden", "no permission"))
    end(rig, "low")
    rig.wait(120_000)
    assert rig.machine.queue.tallies.preemptions.in_vain == 0
    assert [one.pod.name for one in decided(rig, DeletePod)] == ["low", "quick"]


@pytest.mark.parametrize("is_first", ["victim", "pod"])
def test_a_placement_elsewhere_that_holds_ends_the_record(is_first):
    rig, binding = placed_elsewhere()
    if is_first == "victim":
        end(rig, "low")
        assert record_of(rig) is None
        assert nominated(rig, "high") == "a", "not cleared for a pod that is being bound"
    rig.tell(rig.server.execute(binding))
    rig.settle()
    assert record_of(rig) is None


def test_less_important_nominations_on_the_node_are_cleared_and_their_pods_look_again():
    rig = full(priority=5)
    rig.settle()
    rig.add_pod("higher", priority=20)
    rig.settle()
    assert nominated(rig, "higher") == "a"
    assert nominated(rig, "high") == ""
    assert record_of(rig, "higher") is not None
    end(rig, "low")
    assert rig.node_of("higher") == "a"
    assert rig.node_of("high") is None


def test_others_keep_the_place_free_and_are_woken_when_it_is_not_wanted_any_more():
    rig = full()
    rig.settle()
    rig.add_pod("equal", priority=10)
    rig.settle()
    rig.server.delete_pod(PodKey("default", "low"))
    rig.server.delete_pod(PodKey("default", "high"))
    rig.settle()
    rig.wait(10_000)
    assert rig.node_of("equal") == "a"


def test_pods_of_one_shape_preempt_one_after_the_other():
    rig = rig_with("a", "b")
    for name in ("a", "b"):
        rig.add_pod(f"low-{name}", node=name, scheduler="another")
    for name in ("first", "second"):
        rig.add_pod(name, priority=10)
    rig.settle()
    rig.wait(15_000)
    assert {one.pod.name for one in decided(rig, DeletePod)} >= {"low-a"}


# Victims of ours in flight


def test_a_victim_that_waits_in_pre_bind_gives_up_in_memory():
    rig = rig_with(plugins=(Slots(), Patience()))
    rig.add_pod("low", priority=0, labels={"wait": "1"})
    rig.settle()
    assert uid_of(rig, "low") in rig.machine.bindings
    rig.add_pod("high", priority=10, labels={"wait": "1"})
    rig.settle()
    assert decided(rig, DeletePod) == []
    assert decided(rig, PatchPodDisruption) == []
    assert uid_of(rig, "low") not in rig.machine.bindings
    assert uid_of(rig, "high") in rig.machine.bindings
    (event,) = [one for one in rig.events if one.startswith("Preempted")]
    assert event.endswith(" (in kube-scheduler memory).")
    assert rig.machine.queue.tallies.preemptions.removed == {"given up": 1}
    assert "preempted by pod default/high on node a before it was bound" in rig.condition_of("low")[1]


def test_a_victim_whose_binding_may_have_landed_is_deleted():
    rig = rig_with()
    rig.add_pod("low", priority=0)
    rig.watch()
    rig.tick()
    binding = rig.take(BindPod)
    rig.tell(WriteOutcomeUnknown(binding.id, "timeout"))
    rig.add_pod("high", priority=10)
    rig.settle()
    assert [one.pod.name for one in decided(rig, DeletePod)] == ["low"]
    rig.wait(30_000)
    assert PodKey("default", "low") not in rig.server.pods, "it was not bound, so it is gone at once"
    assert rig.node_of("high") == "a"


def claimed(rig: Rig, name: str, **fields) -> None:
    rig.server.put_claim(builders.claim(name))
    rig.add_pod(name, claims=(name,), **fields)


def test_a_victim_that_is_being_bound_gives_its_stored_allocation_back():
    rig = rig_with(plugins=(TinyDevices(1),))
    claimed(rig, "low", priority=0)
    rig.watch()
    rig.tick()
    allocating = rig.take(WriteClaimStatus) if any(type(one) is WriteClaimStatus for one in rig.pending) else None
    while allocating is None:
        rig.execute()
        found = [one for one in rig.pending if type(one) is WriteClaimStatus and one.allocation is not None]
        allocating = found[0] if found else None
    if allocating in rig.pending:
        rig.pending.remove(allocating)
    answer = rig.server.execute(allocating)
    rig.watch()  # the allocation is observed, its answer is still to come
    claimed(rig, "high", priority=10)
    rig.watch()
    rig.tick()
    while rig.pending:
        rig.execute()
    assert rig.server.claims[ClaimKey("default", "low")].allocation is not None
    assert record_of(rig).released, "the claim is not released while a write of the victim may land"
    rig.tell(answer)
    rig.settle()
    low = rig.server.claims[ClaimKey("default", "low")]
    assert (low.allocation, low.reserved_for) == (None, ())
    assert rig.node_of("high") == "a"
    assert decided(rig, DeletePod) == []
    rig.wait(30_000)
    assert rig.node_of("low") is None


# Devices


def test_the_pod_waits_until_the_last_claim_is_released():
    rig = rig_with(plugins=(TinyDevices(1),))
    claimed(rig, "low", priority=0)
    rig.settle()
    assert rig.node_of("low") == "a"
    claimed(rig, "high", priority=10)
    rig.settle()
    assert [one.claim.name for one in record_of(rig).released] == ["low"]
    (event,) = [one for one in rig.events if one.startswith("Preempted")]
    assert "which needs its devices" in event
    assert "are released." in rig.condition_of("high")[1]
    rig.server.delete_pod(PodKey("default", "low"))  # and the claim controller has not noticed yet
    rig.settle()
    rig.wait(60_000)
    record = record_of(rig)
    assert (record.victims, [one.claim.name for one in record.released]) == ((), ["low"])
    assert rig.node_of("high") is None
    assert len(decided(rig, DeletePod)) == 1
    rig.server.collect_garbage()
    rig.settle()
    assert rig.node_of("high") == "a"
    assert rig.machine.queue.tallies.preemptions.decided == {"devices": 1}


def test_a_claim_that_somebody_allocates_anew_is_not_waited_for():
    rig = rig_with(plugins=(TinyDevices(1),))
    claimed(rig, "low", priority=0)
    rig.settle()
    claimed(rig, "high", priority=10)
    rig.settle()
    rig.server.delete_pod(PodKey("default", "low"))
    claim = rig.server.claims[ClaimKey("default", "low")]
    rig.server.put_claim(with_allocation(claim, builders.allocation("gpu-9", pool="b", node="b")))
    rig.settle()
    assert record_of(rig) is None or record_of(rig).released == ()


def with_allocation(claim, allocation):
    return replace(claim, allocation=allocation, reserved_for=())


def keeping(rig: Rig) -> Rig:
    """Room is being made on node a for `high` (10), which is given the victim's device; b has no room."""
    claimed(rig, "low", priority=0)
    rig.settle()
    claimed(rig, "high", priority=10)
    rig.settle()
    assert [one.claim.name for one in record_of(rig).given] == ["high"]
    return rig


@pytest.mark.parametrize(("priority", "is_dropped"), [(20, True), (5, False)])
def test_who_is_more_important_may_take_what_is_kept(priority, is_dropped):
    rig = keeping(rig_with(plugins=(TinyDevices(1),)))
    device = record_of(rig).given[0].allocation
    thief = builders.pod("thief", priority=priority)
    taken = Held(ClaimKey("default", "x"), "uid-x", device)
    rig.machine.overlay.hold(thief.uid, (taken,))
    rig.machine.preemptions.placed(thief, "a", (taken,))
    assert (record_of(rig) is None) is is_dropped


@pytest.mark.parametrize("seen_first", ["pod", "claim"])
def test_a_claim_that_another_pod_uses_by_now_is_not_waited_for(seen_first):
    """It would not be released, and the pod would wait for ever. Pods and claims are watched apart."""
    rig = keeping(rig_with(plugins=(TinyDevices(1),)))
    another = builders.pod("another", node="a", scheduler="another", claims=("low",), priority=20)
    if seen_first == "pod":
        rig.server.put_pod(another)
    claim = rig.server.claims[ClaimKey("default", "low")]
    users = builders.claim("x", reserved_for=(another,)).reserved_for
    rig.server.put_claim(replace(claim, reserved_for=(*claim.reserved_for, *users)))
    rig.settle()
    if seen_first == "claim":
        rig.server.put_pod(another)
        rig.settle()
    assert (len(record_of(rig).victims), record_of(rig).released) == (1, ())
    end(rig, "low")
    assert record_of(rig) is None
    assert rig.machine.queue.tallies.preemptions.in_vain == 1


def test_a_victim_that_gave_up_and_is_back_uses_its_claim_again():
    """It is no victim any more, so its claim is not waited for."""
    rig = rig_with(plugins=(TinyDevices(1),))
    claimed(rig, "low", priority=0)
    rig.settle()
    claimed(rig, "high", priority=10)
    rig.watch()
    rig.tick()
    records = rig.machine.preemptions.records
    record = records.get(uid_of(rig, "high"))
    (held,) = record.claims.values()
    assert not records.is_released(record, held)
    records.victim_over(record, uid_of(rig, "low"))
    assert records.is_released(record, held)


def test_what_is_left_without_reservations_is_taken_back():
    """The resource claim controller frees what it takes the last reservation from, and nothing else."""
    rig = keeping(rig_with(plugins=(TinyDevices(1),)))
    rig.server.put_claim(replace(rig.server.claims[ClaimKey("default", "low")], reserved_for=()))
    rig.server.delete_pod(PodKey("default", "low"))
    rig.settle()
    assert rig.server.claims[ClaimKey("default", "low")].allocation is None
    assert rig.node_of("high") == "a"


def test_a_pod_that_cannot_be_placed_for_another_reason_keeps_no_room():
    rig = keeping(rig_with(plugins=(TinyDevices(1),)))
    rig.server.delete_claim(ClaimKey("default", "high"))
    end(rig, "low")
    assert record_of(rig) is None
    assert rig.machine.queue.tallies.preemptions.in_vain == 0


# Restarts


def restarted(rig: Rig, *plugins, **fields) -> Rig:
    """Another process, which knows nothing but what the server stores."""
    twin = Rig(*(plugins or (Slots(), Preempt())), is_listed=False, **fields)
    twin.server, twin.now_ms = rig.server, rig.now_ms
    twin.skip_watch()
    for given in rig.server.list_all():
        twin.tell(given)
    return twin


def test_after_a_restart_the_pod_waits_for_those_removed_for_it():
    rig = full()
    rig.settle()
    twin = restarted(rig)
    twin.tick()
    assert [one.metadata.name for one in record_of(twin).victims] == ["low"]
    twin.settle()
    twin.wait(60_000)
    assert decided(twin, DeletePod) == []
    end(twin, "low")
    assert twin.node_of("high") == "a"
    assert not twin.machine.store.nominations.preempting


def test_after_a_restart_nobody_is_tried_before_nominations_are_known():
    rig = full()
    rig.settle()
    rig.add_pod("equal", priority=10)
    twin = restarted(rig)
    rig.server.delete_pod(PodKey("default", "low"))
    twin.watch()
    twin.settle()
    assert twin.node_of("high") == "a"
    assert twin.node_of("equal") is None


def test_after_a_restart_the_pod_waits_for_claims_that_are_left():
    rig = keeping(rig_with(plugins=(TinyDevices(1),)))
    rig.server.delete_pod(PodKey("default", "low"))  # and the claim is still allocated, for a pod that is gone
    twin = restarted(rig, TinyDevices(1), Preempt())
    twin.tick()
    record = record_of(twin)
    assert record is not None
    assert (record.victims, [one.claim.name for one in record.released]) == ((), ["low"])
    twin.settle()
    twin.wait(60_000)
    assert decided(twin, DeletePod) == []
    rig.server.collect_garbage()
    twin.settle()
    assert twin.node_of("high") == "a"
    assert twin.machine.queue.tallies.preemptions.in_vain == 0


@pytest.mark.parametrize("kill_after", range(1, 8))
def test_killed_after_any_write_one_set_is_removed_for_the_pod(kill_after):
    rig = rig_with(plugins=(Slots(2),))
    for name in ("one", "two"):
        rig.add_pod(name, node="a", scheduler="another", priority=0)
    rig.add_pod("high", priority=10)
    rig.watch()
    rig.tick()
    landed = 0
    while rig.pending and landed < kill_after:
        decision = rig.pending.pop(0)
        rig.tell(rig.server.execute(decision))
        landed += 1
    twin = restarted(rig, Slots(2), Preempt())
    twin.settle()
    twin.wait(30_000)
    for name in ("one", "two"):
        if rig.server.pods[PodKey("default", name)].is_deleting:
            end(twin, name)
            twin.wait(30_000)
    assert twin.node_of("high") == "a"
    assert not twin.machine.store.nominations.preempting


# What is told to whom


@pytest.mark.parametrize("plugins", [(Slots(),), (Slots(), Patience())], ids=["deleted", "given-up"])
def test_no_pod_of_another_namespace_is_named(plugins):
    """Who may read a pod's events may not read what other namespaces run; kube-scheduler's note has the uid alone."""
    rig = rig_with(plugins=plugins)
    waits = {"labels": {"wait": "1"}} if len(plugins) > 1 else {}
    rig.add_pod("low", namespace="secret", **waits)
    rig.settle()
    rig.add_pod("high", priority=10, **waits)
    rig.settle()
    _, said = rig.condition_of("high")
    assert "Preempting 1 pod on node a: 1 of other namespaces." in said
    (event,) = [one for one in rig.decided if isinstance(one, RecordEvent) and one.reason == "Preempted"]
    assert event.note.startswith(f"Preempted by pod {uid_of(rig, 'high')} on node a")
    assert event.related is None, "it would have the name"
    (reason, message) = rig.condition_of("low", "secret") or ("", "")
    told = [f"{one.note} {one.related}" for one in rig.decided if isinstance(one, RecordEvent) and one.name == "low"]
    assert "default" not in f"{reason} {message} {told}".replace(uid_of(rig, "high"), "UID")
    assert "secret" not in f"{said} {[one.note for one in rig.decided if getattr(one, 'name', '') == 'high']}"


def test_pods_of_the_own_namespace_are_named_beside_those_of_others():
    pods = [builders.pod(name, namespace=ns, node="a") for name, ns in (("x", "default"), ("y", "b"), ("z", "c"))]
    preemption = Preemption("a", tuple(pods))
    assert making_room(preemption, "", to="default").endswith("a: default/x and 2 more of other namespaces.")
    assert making_room_for_group([preemption], to="d", is_137=False).endswith("on a: 3 of other namespaces.")


def test_a_refused_deletion_tells_no_name_of_another_namespace():
    refusal = WriteRejected(1, 403, "Forbidden", 'pods "low" is forbidden in "secret"')
    pod = builders.pod("low", namespace="secret")
    assert refused(pod, "deleted", refusal, to="default") == (
        "preemption: a pod of another namespace could not be deleted: Forbidden"
    )
