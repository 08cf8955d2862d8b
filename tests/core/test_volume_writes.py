"""Writes on volumes and claims for them: conflicts, what is gone, unknown outcomes; what is assumed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from scheduler.core.ground.inputs import WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.framework.api import PreBindDone, PreBindFailed, PreBindWait, PreBindWrite, ReserveResult
from scheduler.framework.decisions import BindPersistentVolume, BindPod, SelectNode
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.keys import ObjectKey, PodKey, VolumeClaimKey
from scheduler.model.storage import BIND_COMPLETED, SELECTED_NODE, ClaimReference
from tests import builders
from tests import storage_builders as made
from tests.core.plugins import ALL_CHANGES
from tests.core.rig import Rig

CLAIM = VolumeClaimKey("default", "data")
VOLUME = ObjectKey("", "pv")


@dataclass(frozen=True)
class TinyVolumes:
    """For a pod with the claim "data": promise the volume "pv", select the node, wait until the claim is bound."""

    name: str = "TinyVolumes"
    wakes_on: tuple = ALL_CHANGES
    reads: frozenset[str] = frozenset({"PersistentVolume", "PersistentVolumeClaim"})

    def hint(self, pod, change, view):
        return "Queue"

    def reserve(self, cycle, node, view):
        volume = view.storage.persistent_volume("pv")
        claim = view.storage.persistent_volume_claim(*CLAIM)
        if volume is None or claim is None or volume.spec.claim_ref is not None:
            return ReserveResult(Status.unschedulable("nothing to promise"))
        reference = ClaimReference(*CLAIM, claim.metadata.uid)
        promised = msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=reference))
        return ReserveResult(SUCCESS, volumes=(promised,))

    def unreserve(self, cycle, node, view):
        return ()

    def pre_bind(self, cycle, node, view):
        volume = view.storage.persistent_volume("pv")
        claim = view.storage.persistent_volume_claim(*CLAIM)
        if volume is None or claim is None:
            return PreBindFailed(Status.error("gone"))
        reference = volume.spec.claim_ref
        if reference is not None and reference.name != "data":
            return PreBindFailed(Status.error("taken"))
        writes = []
        if reference is None or "promised" not in volume.annotations:
            writes.append(
                BindPersistentVolume(
                    *("pv", volume.metadata.uid, volume.revision, CLAIM, claim.metadata.uid, claim.revision),
                    annotations=(("promised", "yes"),),
                )
            )
        if SELECTED_NODE not in claim.annotations:
            writes.append(SelectNode(CLAIM, claim.metadata.uid, claim.revision, node))
        if writes:
            return PreBindWrite(tuple(writes))
        return PreBindDone() if claim.is_bound else PreBindWait(cycle.now_ms + 60_000, reason="Waits", message="for pv")


@pytest.fixture
def rig() -> Rig:
    return rig_that_promises()


def rig_that_promises() -> Rig:
    rig = Rig(TinyVolumes())
    rig.add_nodes("a")
    rig.server.put_storage(made.volume("pv"))
    rig.server.put_storage(made.volume_claim("data"))
    rig.server.put_pod(builders.pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]))
    rig.watch()
    rig.tick()
    return rig


def stored(rig: Rig):
    return rig.server.storage["PersistentVolume", VOLUME]


def bind_claim(rig: Rig) -> None:
    claim = rig.server.storage["PersistentVolumeClaim", CLAIM]
    spec = msgspec.structs.replace(claim.spec, volume_name="pv")
    meta = msgspec.structs.replace(claim.metadata, annotations={**claim.annotations, BIND_COMPLETED: "yes"})
    rig.server.put_storage(msgspec.structs.replace(claim, spec=spec, metadata=meta))


def is_bound(rig: Rig) -> bool:
    return rig.server.pods[PodKey("default", "p")].node_name == "a"


def test_volume_and_claim_are_written_and_the_pod_is_bound_when_its_claim_is(rig):
    assert rig.machine.store.storage.persistent_volumes_of_class(made.WAITING).volumes == ()
    rig.settle()
    assert stored(rig).spec.claim_ref == ClaimReference(*CLAIM, "uid-default-data")
    assert rig.server.storage["PersistentVolumeClaim", CLAIM].annotations[SELECTED_NODE] == "a"
    assert not is_bound(rig)
    rig.wait(5_000)
    assert "Waits" in str(rig.server.pods[PodKey("default", "p")].status.conditions)
    bind_claim(rig)
    rig.settle()
    assert is_bound(rig)
    assert not rig.machine.ground.volumes.holds


def test_after_a_conflict_the_newer_state_is_awaited(rig):
    write = rig.take(BindPersistentVolume)
    rig.server.put_storage(made.volume("pv", capacity="2Gi"))
    rig.tell(rig.server.execute(write))
    rig.execute(watch=False)
    assert not any(isinstance(one, BindPersistentVolume) for one in rig.pending), "before the change was observed"
    rig.watch()
    again = rig.take(BindPersistentVolume)
    assert again.expect_revision == stored(rig).revision
    rig.tell(rig.server.execute(again))
    bind_claim(rig)
    rig.settle()
    assert is_bound(rig)


def test_a_volume_that_is_gone_ends_the_attempt_once_that_is_observed(rig):
    write = rig.take(BindPersistentVolume)
    rig.server.delete_storage("PersistentVolume", VOLUME)
    rig.tell(rig.server.execute(write))
    rig.settle()
    assert not is_bound(rig)
    assert rig.machine.bindings == {}
    assert rig.machine.store.storage.persistent_volume("pv") is None


@pytest.mark.parametrize("has_landed", [True, False])
def test_a_lost_write_is_sent_again_until_its_outcome_is_known(rig, has_landed):
    lost = rig.take(BindPersistentVolume)
    rig.execute()
    if has_landed:
        rig.server.execute(lost)
    rig.tell(WriteOutcomeUnknown(lost.id))
    promised = rig.machine.store.storage.persistent_volume("pv")
    assert promised is not None
    assert promised.spec.claim_ref is not None
    rig.skip_watch()
    rig.wait(10_000)
    rig.tell(rig.server.log[-1])
    assert stored(rig).spec.claim_ref is not None
    for given in rig.server.list_all():
        rig.tell(given)
    bind_claim(rig)
    rig.settle()
    assert is_bound(rig)


def test_a_lost_write_that_is_refused_for_good_is_sent_again_once_a_minute(rig):
    rig.tell(WriteOutcomeUnknown(rig.take(BindPersistentVolume).id))
    rig.tick(200)
    again = rig.take(BindPersistentVolume)
    rig.tell(WriteRejected(again.id, 403, "Forbidden", "no", is_configuration=True))
    rig.tick(59_000)
    assert not any(isinstance(one, BindPersistentVolume) for one in rig.pending)
    rig.tick(2_000)
    assert any(isinstance(one, BindPersistentVolume) for one in rig.pending)


def test_what_is_doubtful_stays_promised_when_the_pod_is_gone(rig):
    lost = rig.take(BindPersistentVolume)
    rig.execute()
    rig.tell(WriteOutcomeUnknown(lost.id))
    rig.server.delete_pod(PodKey("default", "p"))
    rig.watch()
    storage = rig.machine.store.storage
    assert storage.persistent_volumes_of_class(made.WAITING).volumes == ()
    again = None
    while again is None:
        rig.tick(1_000)
        again = next((one for one in rig.pending if isinstance(one, BindPersistentVolume)), None)
    rig.pending.remove(again)
    rig.server.put_storage(made.volume("pv", capacity="2Gi"))
    rig.tell(rig.server.execute(again))
    rig.settle()
    assert [one.name for one in storage.persistent_volumes_of_class(made.WAITING).volumes] == ["pv"]
    assert rig.machine.bindings == {}


def test_a_refusal_ends_the_attempt_and_the_promise(rig):
    write = rig.take(BindPersistentVolume)
    rig.take(SelectNode)
    rig.tell(WriteRejected(write.id, 422, "Invalid", "spec.claimRef: Forbidden"))
    select = next(one for one in rig.decided if isinstance(one, SelectNode))
    rig.tell(WriteConflicted(select.id, "modified"))
    rig.server.put_storage(made.volume_claim("data"))
    rig.watch()
    assert rig.machine.bindings == {}
    assert [one.name for one in rig.machine.store.storage.persistent_volumes_of_class(made.WAITING).volumes] == ["pv"]
    assert not any(isinstance(one, BindPod) for one in rig.decided)


def test_a_request_that_keeps_failing_is_reported(rig):
    for _ in range(30):
        rig.tick(1_000)
        for write in [one for one in rig.pending if isinstance(one, BindPersistentVolume | SelectNode)]:
            rig.pending.remove(write)
            rig.tell(WriteOutcomeUnknown(write.id, "the connection was reset"))
        rig.execute()
    texts = rig.machine.troubles.texts(is_everywhere=True)
    assert any("promising a PersistentVolume to PersistentVolumeClaim default/data fails" in one for one in texts)
    assert any("selecting the node of PersistentVolumeClaim default/data fails" in one for one in texts)
