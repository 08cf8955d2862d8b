"""Whatever a server answers, and in whatever order: each write is settled, or something is due that goes on with it.

The objects never move here. So a server that answers "conflict" does so for another reason than a newer revision, and
no observation comes that would wake who waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.ground.inputs import (
    Deleted,
    Input,
    RelistFinished,
    TimerFired,
    WriteAccepted,
    WriteConflicted,
    WriteOutcomeUnknown,
    WriteRejected,
)
from scheduler.core.ground.outbox import WriteAnswer
from scheduler.core.observation import KINDS
from scheduler.core.writes.pending_writes import Overtaken
from scheduler.framework.decisions import (
    BindPersistentVolume,
    BindPod,
    CreateClaim,
    Decision,
    DeleteClaim,
    PatchExtendedResources,
    PatchPodStatus,
    ReadClaim,
    ReadPod,
    RecordEvent,
    SelectNode,
    WriteClaimStatus,
    WriteId,
)
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, PodKey, PodUid, VolumeClaimKey
from tests import builders
from tests import storage_builders as made
from tests.core.rig import START_MS, Rig
from tests.observed import observed

CLAIM, CLAIM_UID = ClaimKey("default", "c"), ClaimUid("uid-default-c")
POD, POD_UID = PodKey("default", "p"), PodUid("uid-default-p")
VOLUME_CLAIM = VolumeClaimKey("default", "data")

ANSWERS: dict[str, Callable[[WriteId], WriteAnswer]] = {
    "accepted": WriteAccepted,
    "conflict": lambda number: WriteConflicted(number, "for a reason of its own"),
    "not found": lambda number: WriteRejected(number, 404, "NotFound", "gone"),
    "forbidden": lambda number: WriteRejected(number, 403, "Forbidden", "no", is_configuration=True),
    "invalid": lambda number: WriteRejected(number, 422, "Invalid", "no"),
    "busy": lambda number: WriteRejected(number, 503, "ServiceUnavailable", "later", is_retriable=True),
    "lost": lambda number: WriteOutcomeUnknown(number, "the connection was reset"),
}


class Driver:
    """A machine that has seen a pod, its claims and a volume, and one write that was put to one of its drivers."""

    def __init__(self, write: str) -> None:
        self.rig = Rig(is_listed=False)
        self.settled: list[object] = []
        pod = builders.pod("p", revision=1, scheduler="another")
        claim = builders.claim("c", revision=1)
        volume, volume_claim = made.volume("pv", revision=1), made.volume_claim("data", revision=1)
        seen: list[Input] = [observed(pod), observed(claim)]
        seen += [observed(volume), observed(volume_claim)]
        for one in (*seen, *(RelistFinished(kind) for kind in sorted(KINDS))):
            self.rig.tell(one)
        writers = self.rig.machine._writers
        match write:
            case "volume":
                decision = BindPersistentVolume("pv", volume.metadata.uid, 1, VOLUME_CLAIM, "uid", 1)
                writers.volumes.send(decision, self.settled.append)
            case "node of a volume":
                select = SelectNode(VOLUME_CLAIM, volume_claim.metadata.uid, 1, NodeName("a"))
                writers.volumes.send(select, self.settled.append)
            case "claim":
                writers.claims.send(WriteClaimStatus(CLAIM, CLAIM_UID, 1), self.settled.append)
            case "new claim":
                create = CreateClaim(ClaimKey("default", "new"), ClaimUid("uid-new"), POD, POD_UID, ())
                writers.claims.send(create, self.settled.append)
            case "deleted claim":
                writers.claims.send(DeleteClaim(CLAIM, CLAIM_UID, 1), self.settled.append)
            case "note on a pod":
                writers.pods.send(PatchExtendedResources(POD, POD_UID, 1, None), self.settled.append)
            case "fence of a pod":
                fence = PatchPodStatus(POD, POD_UID, "", "", expect_revision=1, fence_ms=START_MS)
                writers.pods.send(fence, self.settled.append)
            case "removed pod":
                writers.removals.remove(pod, "for another one", lambda: True, self.settled.append)
        self.rig.tick()

    def show_newer(self) -> None:
        """The objects are observed at another revision."""
        for name in ("c", "new"):
            self.rig.tell(observed(builders.claim(name, revision=2)))
        self.rig.tell(observed(builders.pod("p", revision=2, scheduler="another")))

    def asked(self) -> list[Decision]:
        return [one for one in self.rig.pending if not isinstance(one, RecordEvent)]

    def answer(self, name: str) -> None:
        """Answer what is asked; where nothing is, let the time come at which something will be."""
        rig = self.rig
        if not self.asked():
            due_ms = rig.machine.timers.next_deadline_ms()
            assert due_ms is not None, "nothing is asked and nothing is due: it waits for ever"
            rig.now_ms = max(rig.now_ms, due_ms)
            rig.tell(TimerFired())
            return
        decision: Any = rig.pending.pop(0)
        if name == "conflict" and isinstance(decision, ReadClaim | ReadPod):
            name = "accepted"  # no read is answered so
        rig.tell(ANSWERS[name](decision.id))


WRITES = (
    *("volume", "node of a volume", "claim", "new claim", "deleted claim"),
    *("note on a pod", "fence of a pod", "removed pod"),
)


@pytest.mark.parametrize("write", WRITES)
@settings(max_examples=60, deadline=None)
@given(answers=st.lists(st.sampled_from(sorted(ANSWERS)), min_size=1, max_size=25))
def test_a_write_never_waits_silently(write, answers):
    driver = Driver(write)
    for name in answers:
        if driver.settled:
            break
        driver.answer(name)
    assert len(driver.settled) <= 1
    if not driver.settled:
        assert driver.asked() or driver.rig.machine.timers.next_deadline_ms() is not None


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("answer", ["accepted", "conflict", "not found", "invalid"])
def test_a_server_that_always_says_the_same_settles_it(write, answer):
    """None of these leaves a doubt whether the write may still land."""
    driver = Driver(write)
    for _ in range(30):
        if driver.settled:
            break
        driver.answer(answer)
    assert len(driver.settled) == 1
    assert not driver.asked()


@settings(max_examples=60, deadline=None)
@given(answers=st.lists(st.sampled_from(sorted(ANSWERS)), min_size=1, max_size=25))
def test_a_binding_never_waits_silently(answers):
    rig = Rig()
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.watch()
    rig.tick()
    assert rig.machine.bindings
    for name in answers:
        asked = [one for one in rig.pending if not isinstance(one, RecordEvent)]
        if not asked:
            due_ms = rig.machine.next_deadline_ms()
            assert due_ms is not None or not rig.machine.bindings, "it waits for ever"
            if due_ms is None:
                break
            rig.now_ms = max(rig.now_ms, due_ms)
            rig.tell(TimerFired())
            continue
        rig.pending.remove(asked[0])
        rig.tell(ANSWERS[name](asked[0].id))
    assert any(isinstance(one, BindPod) for one in rig.decided)


def test_a_volume_write_that_is_refused_as_a_conflict_without_one_is_given_up():
    driver = Driver("node of a volume")
    sent = 0
    while not driver.settled:
        sent += bool(driver.asked())
        driver.answer("conflict")
    assert driver.settled == [Overtaken(may_have_landed=False)]
    assert sent == 5
    assert driver.rig.now_ms - START_MS < 4_000


def test_a_volume_write_that_may_have_landed_is_asked_about_until_that_is_seen():
    driver = Driver("volume")
    driver.answer("lost")
    for _ in range(50):
        driver.answer("conflict")
    assert not driver.settled
    driver.rig.tell(observed(made.volume("pv", revision=2)))
    while not driver.settled:
        driver.answer("conflict")
    assert driver.settled == [Overtaken(may_have_landed=True)]


@pytest.mark.parametrize("write", [one for one in WRITES if "volume" not in one and one != "removed pod"])
def test_after_a_lost_answer_a_conflict_is_no_refusal(write):
    """It may be the write's own doing; without a lost answer somebody else came first."""
    for answers, is_ours in ((["lost", "conflict"], True), (["conflict"], False)):
        driver = Driver(write)
        for name in answers:
            while not driver.asked():
                driver.answer(name)
            driver.answer(name)
        (read,) = driver.asked()
        assert isinstance(read, ReadClaim | ReadPod)
        driver.show_newer()
        while not driver.settled:
            driver.answer("accepted")
        assert driver.settled == [Overtaken(may_have_landed=is_ours)]


@pytest.mark.parametrize("write", WRITES)
def test_what_is_not_found_after_a_lost_answer_never_lands(write):
    driver = Driver(write)
    driver.answer("lost")
    for _ in range(30):
        if driver.settled:
            break
        driver.answer("not found")
    if "volume" in write:  # nothing reads it: its watch has the last word
        assert not driver.settled
    else:
        assert driver.settled == [Overtaken(may_have_landed=write != "removed pod")]


def test_a_deletion_is_settled_once_when_its_claim_is_seen_gone_before_the_answer():
    driver = Driver("deleted claim")
    driver.rig.tell(Deleted("ResourceClaim", CLAIM, CLAIM_UID, 2))
    driver.answer("accepted")
    assert driver.settled == [Overtaken(may_have_landed=False)]
    assert not driver.asked()
