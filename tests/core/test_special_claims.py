"""Extended resources served by devices, from the pod to its binding: the special claim is made, held and taken back."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from allocator import Features
from scheduler.core.binding.device_conflicts import Fate
from scheduler.core.ground.inputs import WriteOutcomeUnknown, WriteRejected
from scheduler.core.writes.pod_writes import DROPPED
from scheduler.framework.decisions import (
    BindPod,
    CreateClaim,
    DeleteClaim,
    PatchExtendedResources,
    PatchPodStatus,
    RemoveClaimFinalizer,
    WriteClaimStatus,
)
from scheduler.model.api_rules import FINALIZER
from scheduler.model.special_claim import is_provisional, special_claim_key
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig

GPU = "example.com/gpu"
IMPLICIT = f"deviceclass.resource.kubernetes.io/{builders.CLASS}"
PLUGIN_NODE = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: "1"}


def rig_with(*names, devices=1, resource=GPU, **settings) -> Rig:
    """Nodes with devices behind `resource`."""
    rig = Rig(*default_plugins(), **settings)
    rig.add_nodes(*names)
    for name in names:
        rig.server.put_slice(builders.resource_slice(f"slice-{name}", node=name, devices=devices))
    rig.server.put_class(builders.device_class(extended_resource=resource))
    return rig


def wants(rig: Rig, name="p", amount="1", resource=GPU, **fields):
    rig.add_pod(name, requests={"cpu": "1", resource: amount}, **fields)
    return special_claim_key(pod_of(rig, name))


def pod_of(rig: Rig, name="p"):
    return next(pod for key, pod in rig.server.pods.items() if key.name == name)


def until(rig: Rig, kind):
    """Go on until a decision of this kind is pending, and take it."""
    for _ in range(40):
        if any(isinstance(decision, kind) for decision in rig.pending):
            return rig.take(kind)
        if rig.pending:
            rig.execute()
        else:
            rig.watch()
            rig.tick()
    raise AssertionError(f"no {kind.__name__} among {rig.decided}")


def in_use(rig: Rig) -> list[str]:
    return [device.device for device in rig.machine.overlay.in_use.devices()]


@pytest.mark.parametrize("resource", [GPU, IMPLICIT], ids=["explicit", "implicit"])
def test_the_claim_is_made_allocated_reserved_and_told_before_the_pod_is_bound(resource):
    rig = rig_with("a")
    key = wants(rig, resource=resource)
    rig.settle()
    writes = [type(one) for one in rig.decided if hasattr(one, "id") and not isinstance(one, PatchPodStatus)]
    assert writes == [CreateClaim, WriteClaimStatus, PatchExtendedResources, BindPod]
    claim, pod = rig.server.claims[key], pod_of(rig)
    assert pod.node_name == "a"
    assert claim.finalizers == (FINALIZER,)
    assert claim.is_reserved_for(pod.uid)
    (result,) = claim.allocation.results
    told = pod.status.extended_resource_claim_status
    assert told.resource_claim_name == key.name
    (mapping,) = told.request_mappings
    assert (mapping.container_name, mapping.resource_name, mapping.request_name) == ("main", resource, result.request)


def test_devices_are_held_before_the_claim_has_a_uid():
    rig = rig_with("a")
    wants(rig)
    until(rig, CreateClaim)
    (uid,) = rig.machine.overlay.holds
    assert is_provisional(uid)
    assert in_use(rig) == ["gpu-0"]
    wants(rig, "q")
    rig.watch()
    rig.tick()
    assert rig.condition_of("q") is None
    said = (
        "0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are "
        "available: 1 Preemption is not helpful for scheduling."
    )
    assert rig.take(PatchPodStatus).message == said


def test_a_create_whose_reply_is_lost_is_repeated_and_made_once():
    rig = rig_with("a")
    key = wants(rig)
    lost = until(rig, CreateClaim)
    rig.server.execute(lost)  # it lands, and nobody says so
    rig.tell(WriteOutcomeUnknown(lost.id))
    assert in_use(rig) == ["gpu-0"]
    rig.tick(200)
    again = rig.take(CreateClaim)
    assert msgspec.structs.replace(again, id=lost.id) == lost
    rig.tell(rig.server.execute(again))  # 409: the name is taken
    rig.settle()
    assert rig.node_of("p") == "a"
    assert list(rig.server.claims) == [key]


def test_a_create_that_is_seen_on_the_watch_needs_no_answer():
    rig = rig_with("a")
    wants(rig)
    lost = until(rig, CreateClaim)
    rig.server.execute(lost)
    rig.tell(WriteOutcomeUnknown(lost.id))
    rig.settle()
    assert rig.node_of("p") == "a"
    assert sum(isinstance(one, CreateClaim) for one in rig.decided) == 1


def test_devices_of_an_unknown_create_stay_held_though_its_pod_is_gone():
    rig = rig_with("a")
    key = wants(rig)
    lost = until(rig, CreateClaim)
    rig.tell(WriteOutcomeUnknown(lost.id))
    rig.server.delete_pod(builders.pod("p").key)
    rig.watch()
    assert in_use(rig) == ["gpu-0"]
    rig.wait(1_000)  # repeated until it is known, and then taken back
    assert in_use(rig) == []
    assert key not in rig.server.claims
    assert not rig.machine.overlay.holds


def test_a_refused_create_frees_the_devices_for_those_who_wait():
    rig = rig_with("a")
    wants(rig)
    refused = until(rig, CreateClaim)
    wants(rig, "q")
    rig.settle()
    assert rig.node_of("q") is None
    rig.tell(WriteRejected(refused.id, 403, "Forbidden", "exceeded quota: resourceclaims"))
    assert rig.events[-1] == "FailedScheduling: the API server refuses: Forbidden: exceeded quota: resourceclaims"
    rig.wait(1_500)
    assert {rig.node_of("p"), rig.node_of("q")} == {"a", None}


def test_a_failed_binding_takes_the_claim_back_and_tries_again():
    rig = rig_with("a")
    key = wants(rig)
    binding = until(rig, BindPod)
    first = rig.server.claims[key].uid
    rig.tell(WriteRejected(binding.id, 422, "Invalid", "no"))
    rig.execute()  # nobody else can bind the pod any more
    assert isinstance(rig.pending[-1], RemoveClaimFinalizer)
    rig.settle()
    assert key not in rig.server.claims
    assert in_use(rig) == []
    rig.wait(2_000)
    assert rig.node_of("p") == "a"
    assert rig.server.claims[key].uid != first


def test_a_claim_deleted_before_its_allocation_fails_the_attempt():
    rig = rig_with("a")
    key = wants(rig)
    rig.tell(rig.server.execute(until(rig, CreateClaim)))
    rig.server.put_claim(replace(rig.server.claims[key], finalizers=()))
    rig.server.delete_claim(key)
    rig.watch()
    rig.settle()
    assert any("got deleted in the meantime" in event for event in rig.events)
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


@pytest.mark.parametrize("landed", range(5))
def test_a_restart_after_any_write_loses_nothing(landed):
    """The next scheduler uses what it finds: no second claim, no device lost."""
    rig = rig_with("a")
    key = wants(rig)
    for _ in range(60):
        rig.watch()
        if sum(1 for one in rig.decided if hasattr(one, "id")) and landed == 0:
            break
        if rig.pending:
            rig.tell(rig.server.execute(rig.pending.pop(0)))
            landed -= 1
        else:
            rig.tick()
    after = Rig(*default_plugins())
    after.server = rig.server.copy()
    after.settle()
    after.wait(20_000)
    assert after.node_of("p") == "a"
    assert list(after.server.claims) == [key]
    assert not any(isinstance(one, DeleteClaim) for one in after.decided)
    after.server.delete_pod(builders.pod("p").key)
    for _ in range(3):
        after.server.collect_garbage()
        after.settle()
    assert not after.server.claims
    assert in_use(after) == []


def test_a_left_claim_that_pins_the_pod_to_another_node_is_deleted():
    rig = rig_with("a", "b")
    key = wants(rig)
    until(rig, BindPod)
    rig.pending.clear()
    place = rig.server.claims[key].allocation.node_selector.terms[0].match_fields[0].values[0]
    node = rig.server.nodes[place]
    rig.server.put_node(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True)))
    after = Rig(*default_plugins())
    after.server = rig.server.copy()
    after.settle()
    assert any("1 cannot schedule extended resource claim" in event for event in after.events)
    after.wait(10_000)
    assert after.node_of("p") == ({"a", "b"} - {place}).pop()
    assert len(after.server.claims) == 1


def test_a_claim_whose_deletion_was_interrupted_is_deleted_and_made_anew():
    """It is allocated for the right node and asks for the right thing, but nothing protects it any more."""
    rig = rig_with("a")
    key = wants(rig)
    binding = until(rig, BindPod)
    rig.tell(WriteRejected(binding.id, 422, "Invalid", "no"))
    rig.execute()
    rig.tell(rig.server.execute(rig.take(RemoveClaimFinalizer)))  # and then the scheduler is killed
    first = rig.server.claims[key]
    assert first.allocation is not None
    after = Rig(*default_plugins())
    after.server = rig.server.copy()
    after.wait(10_000)
    assert after.node_of("p") == "a"
    assert after.server.claims[key].uid != first.uid
    assert after.server.claims[key].finalizers == (FINALIZER,)


def test_a_claim_that_loses_its_finalizer_on_the_way_is_not_bound_to():
    rig = rig_with("a")
    key = wants(rig)
    rig.tell(rig.server.execute(until(rig, WriteClaimStatus)))
    rig.server.put_claim(replace(rig.server.claims[key], finalizers=()))
    rig.settle()
    assert any("has lost its finalizer and is about to be deleted" in event for event in rig.events)
    rig.wait(5_000)
    assert rig.node_of("p") == "a"
    assert rig.server.claims[key].finalizers == (FINALIZER,)


def test_the_device_plugin_of_a_node_wins_there():
    """The node that has the resource is used without a claim; the next pod gets devices elsewhere."""
    rig = rig_with("b")
    rig.add_nodes("a", allocatable=PLUGIN_NODE)
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=4))
    for name in ("p", "q"):
        wants(rig, name)
    rig.settle()
    by_node = {rig.node_of(name): name for name in ("p", "q")}
    assert by_node.keys() == {"a", "b"}
    assert list(rig.server.claims) == [special_claim_key(pod_of(rig, by_node["b"]))]
    assert pod_of(rig, by_node["a"]).status.extended_resource_claim_status is None
    wants(rig, "r")
    rig.settle()
    assert rig.condition_of("r")[1] == (
        f"0/2 nodes are available: 1 Insufficient {GPU}, 1 cannot allocate all claims. "
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not "
        "helpful for scheduling."
    )


def test_what_an_earlier_attempt_told_is_taken_back_on_a_node_with_a_device_plugin():
    what_an_earlier_attempt_told_is_taken_back_on_a_node_with_a_device_plugin("1.36")


def test_what_an_earlier_attempt_told_is_taken_back_on_a_node_with_a_device_plugin_or_from_1_37_it_waits():
    what_an_earlier_attempt_told_is_taken_back_on_a_node_with_a_device_plugin("1.37")


def what_an_earlier_attempt_told_is_taken_back_on_a_node_with_a_device_plugin(release: str) -> None:
    """From 1.37 on the API server does not let it be taken back, and a kubelet would wait for the claim."""
    rig = rig_with("b", features=Features(kubernetes=release))
    rig.server.forgets_special_claim = release == "1.36"
    wants(rig)
    binding = until(rig, BindPod)
    rig.add_nodes("a", allocatable=PLUGIN_NODE)
    node = rig.server.nodes["b"]
    rig.server.put_node(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True)))
    rig.watch()
    rig.tell(WriteRejected(binding.id, 422, "Invalid", "no"))
    rig.wait(5_000)
    assert not rig.server.claims
    if release == "1.36":
        assert rig.node_of("p") == "a"
        assert pod_of(rig).status.extended_resource_claim_status is None
        return
    assert rig.node_of("p") is None
    assert "1 cannot schedule extended resource claim" in rig.condition_of("p")[1]
    rig.server.put_node(msgspec.structs.replace(node, metadata=rig.server.nodes["b"].metadata))
    rig.wait(10_000)
    assert rig.node_of("p") == "b"


def test_a_lost_note_to_the_pod_is_repeated_until_it_cannot_land_any_more():
    """Its condition is the pod's revision, so what lands late does so only once."""
    rig = rig_with("a")
    wants(rig)
    lost = until(rig, PatchExtendedResources)
    rig.execute()
    rig.tell(WriteOutcomeUnknown(lost.id))
    assert rig.node_of("p") is None
    rig.tick(200)
    again = rig.take(PatchExtendedResources)
    assert msgspec.structs.replace(again, id=lost.id) == lost
    rig.tell(rig.server.execute(again))
    assert type(rig.server.execute(lost)).__name__ == "WriteConflicted"
    rig.settle()
    assert rig.node_of("p") == "a"


def test_a_pod_is_not_placed_anew_while_an_earlier_note_to_it_may_land():
    a_pod_is_not_placed_anew_while_an_earlier_note_to_it_may_land("1.36")


def test_a_pod_is_not_placed_anew_while_an_earlier_note_to_it_may_land_or_from_1_37_it_waits():
    a_pod_is_not_placed_anew_while_an_earlier_note_to_it_may_land("1.37")


def a_pod_is_not_placed_anew_while_an_earlier_note_to_it_may_land(release: str) -> None:
    """Else it could be bound where a device plugin serves it, and be told of a claim that is gone."""
    rig = rig_with("b", features=Features(kubernetes=release))
    rig.server.forgets_special_claim = release == "1.36"
    key = wants(rig)
    lost = until(rig, PatchExtendedResources)
    rig.execute()
    rig.server.put_claim(replace(rig.server.claims[key], finalizers=()))
    rig.server.delete_claim(key)
    rig.add_nodes("a", allocatable=PLUGIN_NODE)
    node = rig.server.nodes["b"]
    rig.server.put_node(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True)))
    rig.watch()
    rig.tell(WriteOutcomeUnknown(lost.id))
    assert pod_of(rig).uid in rig.machine.bindings
    rig.server.execute(lost)  # it lands now
    rig.wait(5_000)
    assert rig.node_of("p") == ("a" if release == "1.36" else None)


def test_a_server_that_drops_the_pods_field_is_named():
    rig = rig_with("a")
    rig.server.forgets_special_claim = True
    key = wants(rig)
    patch = until(rig, PatchExtendedResources)
    rig.execute()
    dropped = rig.server.execute(msgspec.structs.replace(patch, status=None))
    rig.tell(msgspec.structs.replace(dropped, id=patch.id))
    rig.settle()
    assert f"FailedScheduling: the API server refuses: Dropped: {DROPPED}" in rig.events
    assert rig.node_of("p") is None
    assert key not in rig.server.claims


def test_a_foreign_claim_of_that_name_is_left_alone_and_named():
    rig = rig_with("a")
    key = wants(rig)
    rig.server.put_claim(builders.claim(key.name))
    rig.settle()
    assert "was not created for Pod default/p (Pod is not owner)" in rig.condition_of("p")[1]
    rig.server.delete_claim(key)
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


def test_a_class_that_takes_the_name_wakes_the_pods_that_wait():
    rig = rig_with("a", resource="example.com/other")
    wants(rig)
    rig.settle()
    assert rig.condition_of("p")[1].startswith(f"0/1 nodes are available: 1 Insufficient {GPU}. preemption: ")
    rig.server.put_class(builders.device_class(extended_resource=GPU))
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


def test_a_new_node_with_devices_wakes_the_pods_that_wait():
    rig = rig_with("a", devices=0)
    wants(rig)
    rig.settle()
    assert rig.node_of("p") is None
    rig.server.put_slice(builders.resource_slice("slice-b", node="b", devices=1))
    rig.add_nodes("b")
    rig.wait(2_000)
    assert rig.node_of("p") == "b"


def test_two_names_one_from_the_device_plugin_and_one_from_devices():
    rig = rig_with("a")
    rig.server.put_node(builders.node("a", allocatable={**PLUGIN_NODE, "example.com/nic": "2"} | {GPU: "0"}))
    rig.add_pod("p", requests={GPU: "1", "example.com/nic": "1"})
    rig.settle()
    assert rig.node_of("p") == "a"
    (claim,) = rig.server.claims.values()
    assert [request.name for request in claim.spec.requests] == ["container-0-request-0"]


def test_a_resource_that_is_nowhere_to_be_had_beside_one_that_devices_serve():
    rig = rig_with("a")
    rig.add_pod("p", requests={GPU: "1", "example.com/nic": "1"})
    rig.settle()
    assert "1 Insufficient example.com/nic" in rig.condition_of("p")[1]
    assert not rig.server.claims


def test_with_the_feature_off_devices_serve_no_extended_resource():
    rig = rig_with("a", features=Features(extended_resource=False))
    wants(rig)
    rig.settle()
    assert f"1 Insufficient {GPU}" in rig.condition_of("p")[1]


def test_a_note_to_the_pod_that_is_refused_takes_the_claim_back():
    rig = rig_with("a")
    rig.server.forgets_special_claim = True
    key = wants(rig)
    patch = until(rig, PatchExtendedResources)
    rig.execute()
    rig.tell(WriteRejected(patch.id, 422, "Invalid", "status.extendedResourceClaimStatus: no"))
    rig.settle()
    assert rig.events[-1] == "FailedScheduling: the API server refuses: Invalid: status.extendedResourceClaimStatus: no"
    assert key not in rig.server.claims
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


def test_a_device_that_somebody_else_takes_before_the_claim_is_made_is_given_up():
    """The create has been sent; nothing is allocated with it, and what it made is taken back."""
    rig = rig_with("a", devices=2)
    key = wants(rig)
    create = until(rig, CreateClaim)
    (held,) = in_use(rig)
    theirs = builders.claim("theirs", allocation=builders.allocation(held, pool="a"), finalizers=(FINALIZER,))
    rig.server.put_claim(theirs)
    rig.watch()
    assert rig.machine.conflicts.counts == {("device", Fate.WITHDRAWN): 1}
    assert not any(event.startswith("DeviceConflict") for event in rig.events), "nothing of ours was ever stored"
    rig.tell(rig.server.execute(create))
    rig.settle()
    assert key not in rig.server.claims
    assert not any(isinstance(one, WriteClaimStatus) for one in rig.decided)
    rig.wait(2_000)
    assert rig.node_of("p") == "a"
    assert sorted(str(one) for claim in rig.server.claims.values() for one in claim.allocation.device_ids()) == [
        "gpu.example.com/a/gpu-0",
        "gpu.example.com/a/gpu-1",
    ]


def test_pods_of_one_shape_share_verdicts_and_each_gets_a_claim_of_its_own():
    rig = rig_with("a", "b", devices=2)
    for number in range(5):
        wants(rig, f"p{number}")
    rig.settle()
    bound = [number for number in range(5) if rig.node_of(f"p{number}")]
    assert len(bound) == 4
    given = [str(device) for claim in rig.server.claims.values() for device in claim.allocation.device_ids()]
    assert len(given) == len(set(given)) == 4
