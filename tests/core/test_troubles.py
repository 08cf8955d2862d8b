"""Requests that keep failing are told: to the pods that wait for them, and to people, by namespace."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from scheduler.core.ground.inputs import Deleted, WriteOutcomeUnknown, WriteRejected
from scheduler.framework.decisions import Answered, BindPod, PatchPodStatus, ReadPod, WriteClaimStatus
from scheduler.model.api_rules import FINALIZER
from scheduler.model.keys import ClaimKey, PodKey, PodUid
from tests import builders
from tests.core.plugins import Slots, TinyDevices
from tests.core.rig import Rig

WEBHOOK = 'Internal error occurred: failed calling webhook "claims.example.com": connection refused'
SINCE = re.compile(r"since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def world(*namespaces: str, pods: int = 1) -> Rig:
    rig = Rig(TinyDevices(count=20))
    rig.add_nodes("a")
    for namespace in namespaces or ("default",):
        for index in range(pods):
            name = f"p{index}"
            rig.server.put_claim(builders.claim(name, namespace=namespace, finalizers=(FINALIZER,)))
            rig.add_pod(name, namespace=namespace, claims=(name,))
    rig.watch()
    return rig


def broken(rig: Rig, ms: int, kind: Any, answer: Any = None, *, namespaces: tuple[str, ...] = ("default",)) -> None:
    """Let time pass while requests of one kind fail in some namespaces; `answer` None lets them hang."""
    until_ms = rig.now_ms + ms
    while rig.now_ms < until_ms:
        rig.tick(200)
        pending, rig.pending = rig.pending, []
        for decision in pending:
            about = decision.pod if isinstance(decision, BindPod | ReadPod | PatchPodStatus) else decision.claim
            if not isinstance(decision, kind) or about.namespace not in namespaces:
                rig.tell(rig.server.execute(decision))
            elif answer is not None:
                rig.tell(answer(decision.id))
            else:
                rig.pending.append(decision)
        rig.watch()


def lost(write_id):
    return WriteOutcomeUnknown(write_id, "HTTP 500: etcdserver: no leader")


def unread(write_id):
    return WriteRejected(write_id, 0, "ReadFailed", "HTTP 500: etcdserver: no leader", is_retriable=True)


def unhooked(write_id):
    return WriteRejected(write_id, 500, "InternalError", WEBHOOK)


def texts(rig: Rig) -> list[str]:
    return [SINCE.sub("since T", trouble.text) for trouble in rig.machine.troubles.all()]


def told(rig: Rig, name: str = "p0", namespace: str = "default") -> str:
    reason, message = rig.condition_of(name, namespace) or ("", "")
    return f"{reason}: {SINCE.sub('since T', message)}"


def test_nothing_is_told_of_what_the_next_attempts_mend():
    rig = world()
    broken(rig, 3_000, WriteClaimStatus, lost)
    rig.wait(60_000)
    assert rig.node_of("p0") == "a"
    assert rig.machine.problems() == ()
    assert rig.machine.troubles.changes == 0
    assert rig.condition_of("p0") is None
    assert [event for event in rig.events if "Failed" in event] == []


@pytest.mark.parametrize(
    ("kind", "answer", "what"),
    [
        (WriteClaimStatus, lost, "writing the status of ResourceClaim default/p0"),
        (BindPod, lost, "binding Pod default/p0"),
        ((BindPod, ReadPod), lost, "reading Pod default/p0"),
    ],
    ids=["claim-status", "binding", "binding-and-reading"],
)
def test_the_pod_is_told_what_fails_since_when_and_why_with_its_devices_held(kind, answer, what):
    rig = world()
    begun = rig.now_ms
    broken(rig, 12_000, kind, answer)
    want = (
        f"SchedulerError: {what} fails since T: HTTP 500: etcdserver: no leader "
        "(it is tried again, and what the pod was given stays held for it until the outcome is known)"
    )
    assert told(rig) == want
    assert rig.now_ms - begun < 13_000
    assert any(event.startswith(f"FailedScheduling: {what}") for event in rig.events)
    assert texts(rig)[0] == f"{what} fails since T: HTTP 500: etcdserver: no leader"
    assert len(list(rig.machine.overlay.in_use.devices())) == 1
    assert rig.machine.problems(), "nothing of this kind is done anywhere"
    rig.wait(60_000)
    assert rig.node_of("p0") == "a"
    assert rig.machine.problems() == ()
    assert texts(rig) == []
    assert rig.machine.troubles.changes >= 2


def test_every_pod_of_a_shared_claim_is_told():
    rig = Rig(TinyDevices(count=20))
    rig.add_nodes("a")
    rig.server.put_claim(
        builders.claim("shared", finalizers=(FINALIZER,), allocation=builders.allocation("gpu-0", pool="a"))
    )
    for index in range(3):
        rig.add_pod(f"p{index}", claims=("shared",))
    rig.watch()
    broken(rig, 12_000, WriteClaimStatus, lost)
    for index in range(3):
        assert told(rig, f"p{index}").startswith("SchedulerError: writing the status of ResourceClaim default/shared")


def test_what_is_not_answered_is_told_before_it_is():
    rig = world()
    broken(rig, 7_000, WriteClaimStatus)
    assert told(rig).startswith(
        "SchedulerError: writing the status of ResourceClaim default/p0 fails since T: "
        "the API server has not answered yet"
    )
    rig.wait(60_000)
    assert texts(rig) == []


def test_a_condition_that_is_not_stored_is_written_again():
    rig = Rig(Slots(0))
    rig.add_nodes("a")
    rig.add_pod("p0")
    rig.watch()
    broken(rig, 20_000, PatchPodStatus, lost)
    assert texts(rig) == ["writing the condition of Pod default/p0 fails since T: HTTP 500: etcdserver: no leader"]
    assert rig.condition_of("p0") is None
    rig.wait(10_000)
    assert told(rig) == "Unschedulable: 0/1 nodes are available: 1 Too many pods."
    assert texts(rig) == []


def test_a_condition_that_is_refused_for_good_is_not():
    rig = Rig(Slots(0))
    rig.add_nodes("a")
    rig.add_pod("p0")
    rig.watch()
    broken(rig, 20_000, PatchPodStatus, lambda write_id: WriteRejected(write_id, 422, "Invalid", "no"))
    assert sum(isinstance(one, PatchPodStatus) for one in rig.decided) == 1


def test_refusals_that_come_again_with_each_attempt_are_one_trouble():
    """The pod is given up and tried again; its condition says the refusal at once."""
    rig = world()
    broken(rig, 1_000, WriteClaimStatus, unhooked)
    assert told(rig) == f"SchedulerError: the API server refuses: InternalError: {WEBHOOK}"
    broken(rig, 30_000, WriteClaimStatus, unhooked)
    assert texts(rig) == [f"writing the status of ResourceClaim default/p0 fails since T: 500 InternalError: {WEBHOOK}"]
    assert told(rig) == f"SchedulerError: the API server refuses: InternalError: {WEBHOOK}", "and nothing else"


# Readiness


def test_one_namespaces_webhook_makes_nobody_unready():
    rig = world("broken", "default")
    broken(rig, 30_000, WriteClaimStatus, unhooked, namespaces=("broken",))
    assert rig.node_of("p0") == "a"
    assert rig.machine.problems() == ()
    assert len(texts(rig)) == 1


def test_not_even_when_no_other_namespace_asks_for_anything():
    rig = world("broken")
    broken(rig, 30_000, WriteClaimStatus, unhooked, namespaces=("broken",))
    assert rig.machine.problems() == ()
    assert len(texts(rig)) == 1


def test_a_webhook_that_fails_for_everybody_does():
    rig = world("one", "other")
    broken(rig, 30_000, WriteClaimStatus, unhooked, namespaces=("one", "other"))
    assert len(rig.machine.problems()) == 2
    rig.wait(60_000)
    assert rig.machine.problems() == ()


def test_what_fails_in_several_namespaces_and_not_in_others_does_not():
    rig = world("one", "other", "default", pods=2)
    rig.server.delete_pod(builders.pod("p1", namespace="default").key)
    rig.watch()
    broken(rig, 30_000, WriteClaimStatus, lost, namespaces=("one", "other"))
    assert rig.machine.problems() != (), "nothing since it began"
    rig.server.put_claim(builders.claim("late", finalizers=(FINALIZER,)))
    rig.add_pod("late", claims=("late",))
    rig.watch()
    broken(rig, 2_000, WriteClaimStatus, lost, namespaces=("one", "other"))
    assert rig.machine.problems() == ()
    assert len(texts(rig)) == 2


def test_what_policies_refuse_does_not():
    rig = world("one", "other")
    answer = lambda write_id: WriteRejected(write_id, 422, "Invalid", "quota")  # noqa: E731
    broken(rig, 30_000, WriteClaimStatus, answer, namespaces=("one", "other"))
    assert rig.machine.problems() == ()
    assert len(texts(rig)) == 2


def test_texts_are_bounded_and_count_objects():
    names = tuple(f"n{index:02}" for index in range(40))
    rig = world(*names[:1], pods=3)
    broken(rig, 30_000, WriteClaimStatus, lost, namespaces=names)
    assert texts(rig) == [
        "writing the status of ResourceClaim n00/p0 and 2 more fails since T: HTTP 500: etcdserver: no leader"
    ]
    rig = world(*names)
    rig.machine.troubles._done_ms.clear()
    broken(rig, 60_000, WriteClaimStatus, unhooked, namespaces=names)
    lines = rig.machine.troubles.texts(is_everywhere=True)
    assert (len(lines), lines[-1]) == (33, "and 8 more")


# The end


@pytest.mark.parametrize("what", ["pod", "claim"])
def test_the_trouble_of_what_is_deleted_is_over(what):
    rig = world()
    broken(rig, 12_000, BindPod if what == "pod" else WriteClaimStatus, lost)
    assert texts(rig)
    if what == "pod":
        rig.server.delete_pod(PodKey("default", "p0"))
    else:
        rig.server.delete_claim(ClaimKey("default", "p0"))
    rig.watch()
    assert texts(rig) == []


def test_a_trouble_of_which_nothing_is_heard_is_forgotten():
    rig = world()
    broken(rig, 30_000, WriteClaimStatus, unhooked)
    assert texts(rig)
    rig.tell(Deleted("Pod", PodKey("default", "p0"), PodUid(rig.server.pods[PodKey("default", "p0")].uid), 10**6))
    rig.wait(200_000)
    assert texts(rig) == []
    assert rig.machine.next_deadline_ms() is None, "and nobody looks any more"


def test_every_kind_of_request_has_words():
    words = [kind.doing for kind in get_args(Answered)]
    assert all(words)
    assert len(set(words)) == len(words), "no two kinds can be confused in a report"
