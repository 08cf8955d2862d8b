"""Binding volumes: holds, writes, the wait for the volume controller, and how it ends."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from scheduler.core.ground.inputs import WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.framework.decisions import BindPersistentVolume, BindPod, SelectNode
from scheduler.model.keys import ObjectKey
from scheduler.model.storage import SELECTED_NODE
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.volume_binding import VolumeBinding
from tests import builders, storage_builders
from tests.core.rig import Rig
from tests.sim.volumes import CLASSES, VolumeController, local_volume, without

PREFIX = 'running PreBind plugin "VolumeBinding": binding volumes: '


@pytest.fixture
def rig():
    return rig_with(VolumeBinding())


class VolumeRig(Rig):
    controller: VolumeController


def rig_with(*plugins, nodes=("a", "b")):
    rig = VolumeRig(*plugins)
    rig.add_nodes(*nodes)
    for name, provisioner in CLASSES.items():
        rig.server.put_storage(storage_builders.storage_class(name, provisioner=provisioner))
    rig.controller = VolumeController(rig.server)
    return rig


def add_pod(rig, name="pod", *, claim="c", class_name="made", **fields):
    if ("PersistentVolumeClaim", ObjectKey("default", claim)) not in rig.server.storage:
        rig.server.put_storage(storage_builders.volume_claim(claim, class_name=class_name))
    rig.add_pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}], **fields)


def claim_of(rig, name="c"):
    return rig.server.storage["PersistentVolumeClaim", ObjectKey("default", name)]


def put_volume(rig, name="v", node="a"):
    rig.server.put_storage(local_volume(name, node))


def test_a_claim_without_a_volume_gets_its_node_then_its_volume_then_the_pod_is_bound(rig) -> None:
    add_pod(rig)
    rig.settle()
    node = claim_of(rig).annotations[SELECTED_NODE]
    assert rig.node_of("pod") is None
    rig.controller.run()
    rig.settle()
    assert rig.node_of("pod") == node


def test_a_volume_that_exists_is_promised_and_noted_as_ours(rig) -> None:
    put_volume(rig, node="b")
    add_pod(rig, class_name="local")
    rig.settle()
    volume = rig.controller.volume("v")
    assert (volume.spec.claim_ref.name, volume.spec.claim_ref.uid) == ("c", claim_of(rig).metadata.uid)
    assert volume.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    rig.controller.run()
    rig.settle()
    assert rig.node_of("pod") == "b"


def test_a_volume_promised_by_name_is_completed_and_not_noted_as_ours(rig) -> None:
    rig.server.put_storage(local_volume("v", "b", claim="default/c", phase="Available"))
    add_pod(rig, class_name="local")
    rig.settle()
    volume = rig.controller.volume("v")
    assert (volume.spec.claim_ref.uid, volume.annotations) == (claim_of(rig).metadata.uid, {})


def test_no_volume_for_two_claims(rig) -> None:
    """One volume, two pods that are decided before anything is stored."""
    put_volume(rig)
    add_pod(rig, "first", claim="c1", class_name="local")
    add_pod(rig, "second", claim="c2", class_name="local")
    rig.watch()
    rig.tick()
    assert [one.claim.name for one in rig.pending if isinstance(one, BindPersistentVolume)] == ["c1"]
    rig.settle()
    assert rig.condition_of("second")[1].startswith("0/2 nodes are available: 2 node(s) didn't find available")
    put_volume(rig, "more", "b")
    rig.settle()
    rig.controller.run()
    rig.settle()
    assert (rig.node_of("first"), rig.node_of("second")) == ("a", "b")


def test_a_held_volume_stays_held_when_something_else_of_it_changes(rig) -> None:
    put_volume(rig)
    add_pod(rig, "first", claim="c1", class_name="local")
    rig.watch()
    rig.tick()
    write = rig.take(BindPersistentVolume)
    volume = rig.controller.volume("v")
    rig.server.put_storage(replace(volume, metadata=replace(volume.metadata, labels={"a": "b"})))
    add_pod(rig, "second", claim="c2", class_name="local")
    rig.watch()
    rig.tick()
    assert not [one for one in rig.pending if isinstance(one, BindPersistentVolume)]
    rig.tell(rig.server.execute(write))  # a conflict: the next one is derived from what is observed
    assert rig.take(BindPersistentVolume).claim.name == "c1"


@pytest.mark.parametrize("lands", [False, True])
def test_a_write_of_unknown_outcome_keeps_the_volume_held_until_it_is_known(rig, lands) -> None:
    put_volume(rig)
    add_pod(rig, "first", claim="c1", class_name="local")
    rig.watch()
    rig.tick()
    write = rig.take(BindPersistentVolume)
    if lands:
        rig.server.execute(write)
        rig.skip_watch()
    rig.tell(WriteOutcomeUnknown(write.id, "timeout"))
    rig.server.delete_pod(builders.pod("first").key)
    add_pod(rig, "second", claim="c2", class_name="local")
    rig.watch()
    rig.tick()
    assert not [one for one in rig.pending if isinstance(one, BindPersistentVolume) and one.claim.name == "c2"]
    rig.wait(60_000)
    assert rig.controller.volume("v").spec.claim_ref.name == "c1"  # what is stored is not taken back


def test_a_refused_write_ends_the_attempt_and_frees_the_volume(rig) -> None:
    put_volume(rig)
    add_pod(rig, class_name="local")
    rig.watch()
    rig.tick()
    write = rig.take(BindPersistentVolume)
    rig.tell(WriteRejected(write.id, 422, "Invalid", "no"))
    assert not rig.machine.store.storage.persistent_volume("v").spec.claim_ref
    assert "the API server refuses: Invalid: no" in rig.events[-1]


def test_a_provisioner_that_gives_up_sends_the_pod_elsewhere(rig) -> None:
    add_pod(rig)
    rig.settle()
    first = claim_of(rig).annotations[SELECTED_NODE]
    rig.server.put_storage(without(claim_of(rig), SELECTED_NODE))
    rig.server.put_node(builders.node(first, unschedulable=True))
    rig.settle()
    assert rig.events[-1:] == [f'FailedScheduling: {PREFIX}selectedNode annotation reset for PVC "c"']
    rig.wait(2_000)
    assert claim_of(rig).annotations[SELECTED_NODE] in ("a", "b")
    rig.controller.run()
    rig.wait(2_000)
    assert rig.node_of("pod") == claim_of(rig).annotations[SELECTED_NODE]


def test_the_wait_is_reported_and_times_out() -> None:
    rig = rig_with(VolumeBinding(bind_timeout_seconds=30))
    add_pod(rig)
    rig.settle()
    node = claim_of(rig).annotations[SELECTED_NODE]
    rig.wait(20_000)
    waits = f"waiting for volumes on node {node}: claim c waits for its volume to be made"
    assert rig.condition_of("pod") == ("VolumeBindingPending", waits)
    rig.wait(11_000)
    assert f"FailedScheduling: {PREFIX}context deadline exceeded" in rig.events
    assert claim_of(rig).annotations[SELECTED_NODE] == node
    rig.controller.run()
    rig.wait(60_000)
    assert rig.node_of("pod") == node


def test_the_wait_for_the_volume_controller_is_reported(rig) -> None:
    put_volume(rig)
    add_pod(rig, class_name="local")
    rig.settle()
    rig.wait(20_000)
    reason, message = rig.condition_of("pod")
    assert reason == "VolumeBindingPending"
    assert message.endswith(": claim c waits for the volume controller to bind it to volume v")


def test_a_clock_set_back_lets_nobody_wait_for_hours() -> None:
    rig = rig_with(VolumeBinding(bind_timeout_seconds=30))
    add_pod(rig)
    rig.settle()
    rig.wait(20_000)
    rig.tick(-3_600_000)
    rig.wait(61_000)
    assert f"FailedScheduling: {PREFIX}context deadline exceeded" in rig.events


def test_a_timeout_of_zero_gives_up_at_once() -> None:
    rig = rig_with(VolumeBinding(bind_timeout_seconds=0))
    add_pod(rig)
    rig.settle()
    assert f"FailedScheduling: {PREFIX}context deadline exceeded" in rig.events


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("claim", 'failed to check provisioning pvc: persistentvolumeclaims "default/c" not found'),
        ("node", "failed to get node"),
        ("elsewhere", 'provisioning failed for PVC "c"'),
        ("unreachable", 'pv "made" node affinity doesn\'t match node'),
    ],
)
def test_what_ends_the_wait_early(rig, what, text) -> None:
    add_pod(rig)
    rig.settle()
    claim = claim_of(rig)
    node = claim.annotations[SELECTED_NODE]
    other = "b" if node == "a" else "a"
    if what == "claim":
        rig.server.delete_storage("PersistentVolumeClaim", claim.key)
    elif what == "node":
        rig.server.delete_node(node)
        rig.server.put_storage(claim)
    elif what == "elsewhere":
        meta = replace(claim.metadata, annotations={SELECTED_NODE: other})
        rig.server.put_storage(replace(claim, metadata=meta))
    else:
        rig.server.put_storage(local_volume("made", other, claim="default/c", claim_uid=claim.metadata.uid))
        rig.server.put_storage(replace(claim, spec=replace(claim.spec, volume_name="made")))
    rig.settle()
    assert any(event.startswith(f"FailedScheduling: {PREFIX}{text}") for event in rig.events), rig.events
    assert not rig.machine.bindings


def test_a_claim_that_gets_another_volume_ends_the_attempt(rig) -> None:
    """Another process of our name has promised it one, too, and the volume controller took that."""
    put_volume(rig)
    add_pod(rig, class_name="local")
    rig.settle()
    rig.server.put_storage(replace(claim_of(rig), spec=replace(claim_of(rig).spec, volume_name="other")))
    rig.settle()
    assert f'FailedScheduling: {PREFIX}PVC "c" was bound to volume "other" in the meantime' in rig.events


def test_a_pod_that_goes_frees_what_is_not_stored(rig) -> None:
    put_volume(rig)
    add_pod(rig, "first", claim="c1", class_name="local")
    rig.watch()
    rig.tick()
    write = rig.take(BindPersistentVolume)
    rig.server.delete_pod(builders.pod("first").key)
    add_pod(rig, "second", claim="c2", class_name="local")
    rig.watch()
    rig.tick()
    rig.tell(WriteConflicted(write.id))
    rig.server.put_storage(replace(rig.controller.volume("v")))  # somebody has changed it, so the write cannot land
    rig.settle()
    rig.wait(2_000)
    assert rig.controller.volume("v").spec.claim_ref.name == "c2"


def test_pods_that_share_a_claim_go_to_one_node(rig) -> None:
    add_pod(rig, "first")
    add_pod(rig, "second")
    rig.settle()
    rig.controller.run()
    rig.wait(5_000)
    assert rig.node_of("first") == rig.node_of("second") == claim_of(rig).annotations[SELECTED_NODE]


def test_another_process_finishes_what_one_has_begun(rig) -> None:
    """kill -9 after the write, before the controller has done anything."""
    put_volume(rig, node="b")
    add_pod(rig, class_name="local")
    rig.settle()
    again = rig_with(VolumeBinding())
    again.server, again._told = rig.server, 0
    again.controller = VolumeController(again.server)
    again.settle()
    again.controller.run()
    again.settle()
    assert again.node_of("pod") == "b"


def test_a_pod_with_a_volume_and_a_device_gets_both_on_one_node() -> None:
    """The device is stored before anything is done for the volume: that cannot be taken back."""
    rig = rig_with(VolumeBinding(), DynamicResources())
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("s", node="b"))
    rig.server.put_claim(builders.claim("gpu"))
    add_pod(rig, claims=("gpu",))
    rig.settle()
    kinds = [type(one).__name__ for one in rig.decided]
    assert kinds.index("WriteClaimStatus") < kinds.index("SelectNode")
    assert claim_of(rig).annotations[SELECTED_NODE] == "b"
    assert not [one for one in rig.decided if isinstance(one, BindPod)]
    rig.controller.run()
    rig.settle()
    assert rig.node_of("pod") == "b"
    assert len([one for one in rig.decided if isinstance(one, SelectNode)]) == 1
