"""Which changes wake a pod that waits because of DynamicResources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allocator import decode_class, decode_slice
from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.model.claim import ResourceClaim
from scheduler.plugins.dynamic_resources import DynamicResources
from tests.plugins.cluster import (
    Cluster,
    allocation,
    claim,
    condition,
    consumer,
    exactly,
    first_available,
    gpu,
    node_slice,
    pod_with,
    templated_pod,
)
from tests.plugins.objects import node, node_info, pod

PLUGIN = DynamicResources()
MINE = claim("mine")
TAKEN = allocation("node", "gpu-0")
ADMIN = allocation("node", "gpu-0", adminAccess=True)
WAITING = pod_with("mine")
UNGENERATED = templated_pod(is_generated=False)


def update(old, new) -> ClusterEvent:
    action = Action.UPDATE if old is not None and new is not None else Action.ADD if old is None else Action.DELETE
    return ClusterEvent(Resource.CLAIM, action, old, new)


def view_of(change: ClusterEvent, *pods) -> Cluster:
    """The cluster after the change: the store is up to date when hints are asked."""
    view = Cluster(node_info(), claims=[MINE])
    if change.resource is Resource.CLAIM:
        if change.new is not None:
            view.put(change.new)
        elif isinstance(change.old, ResourceClaim) and change.old.key in view.claims:
            view.delete(change.old.key)
    view.put_pods(*pods)
    return view


@pytest.mark.parametrize(
    ("one", "change", "want", "concerned"),
    [
        pytest.param(
            WAITING,
            update(claim("x", allocation=TAKEN), claim("x")),
            Hint.QUEUE,
            None,
            id="any-claim-was-deallocated",
        ),
        pytest.param(
            WAITING, update(claim("x", allocation=TAKEN), None), Hint.QUEUE, None, id="any-allocated-claim-was-deleted"
        ),
        pytest.param(
            WAITING,
            update(claim("x", allocation=TAKEN), claim("x", allocation=TAKEN, reserved_for=[pod()])),
            Hint.SKIP,
            [],
            id="another-claim-was-reserved",
        ),
        pytest.param(
            WAITING, update(claim("x", allocation=ADMIN), claim("x")), Hint.SKIP, [], id="admin-access-frees-nothing"
        ),
        pytest.param(WAITING, update(claim("x"), None), Hint.SKIP, [], id="an-unallocated-claim-was-deleted"),
        pytest.param(WAITING, update(None, claim("x")), Hint.SKIP, [], id="another-claim-appeared"),
        pytest.param(WAITING, update(None, MINE), Hint.QUEUE, ["pod"], id="its-claim-appeared"),
        pytest.param(
            WAITING, update(MINE, claim("mine", finalizers=("f",))), Hint.SKIP, ["pod"], id="its-claim-got-a-finalizer"
        ),
        pytest.param(
            WAITING, update(MINE, claim("mine", allocation=TAKEN)), Hint.QUEUE, ["pod"], id="its-claim-was-allocated"
        ),
        pytest.param(
            WAITING,
            update(claim("mine", allocation=TAKEN, reserved_for=[pod("x")]), claim("mine", allocation=TAKEN)),
            Hint.QUEUE,
            ["pod"],
            id="its-claim-was-released-by-another",
        ),
        pytest.param(
            WAITING,
            update(
                claim("mine", allocation=TAKEN),
                claim("mine", allocation=TAKEN, device_conditions=(condition("attached"),)),
            ),
            Hint.QUEUE,
            ["pod"],
            id="its-device-reported",
        ),
        pytest.param(
            WAITING,
            update(MINE, claim("mine", deletion_timestamp="2026-07-01T00:00:00Z")),
            Hint.SKIP,
            ["pod"],
            id="its-claim-is-being-deleted",
        ),
        pytest.param(
            pod_with("mine", "gone"), update(None, MINE), Hint.SKIP, ["pod"], id="one-of-two-claims-is-still-missing"
        ),
        pytest.param(
            UNGENERATED,
            update(claim("x", allocation=TAKEN), claim("x")),
            Hint.SKIP,
            None,
            id="devices-do-not-help-a-pod-whose-claim-is-not-generated",
        ),
        pytest.param(
            pod_with("gone"),
            update(claim("x", allocation=TAKEN), claim("x")),
            Hint.QUEUE,
            None,
            id="an-answer-for-a-whole-shape-does-not-depend-on-one-pods-claims",
        ),
    ],
)
def test_claim_changes(one, change, want, concerned) -> None:
    view = view_of(change, one)
    assert PLUGIN.hint(one, change, view) is want
    found = PLUGIN.concerned(change, view)
    assert (None if found is None else [view.store.pods[uid].metadata.name for uid in found]) == concerned


@pytest.mark.parametrize(
    ("new", "claims", "want"),
    [
        pytest.param(templated_pod(), [claim(owner=templated_pod())], Hint.QUEUE, id="its-claim-was-generated"),
        pytest.param(templated_pod(), [], Hint.SKIP, id="the-generated-claim-is-not-seen-yet"),
        pytest.param(templated_pod(name="other"), [], Hint.SKIP, id="the-claim-of-another-pod"),
    ],
)
def test_pod_changes(new, claims, want) -> None:
    change = ClusterEvent(Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, UNGENERATED, new)
    assert PLUGIN.hint(UNGENERATED, change, Cluster(claims=claims)) is want


@pytest.mark.parametrize(
    ("one", "name", "want"),
    [
        pytest.param(WAITING, "gpu", Hint.QUEUE, id="its-class"),
        pytest.param(WAITING, "tpu", Hint.SKIP, id="another-class"),
        pytest.param(pod_with("choice"), "tpu", Hint.QUEUE, id="the-class-of-an-alternative"),
        pytest.param(pod_with("gone"), "tpu", Hint.QUEUE, id="claims-that-cannot-be-resolved"),
        pytest.param(UNGENERATED, "gpu", Hint.SKIP, id="claims-not-generated"),
    ],
)
def test_class_changes(one, name, want) -> None:
    choice = first_available("req", ("big", {}), ("small", {"deviceClassName": "tpu"}))
    view = Cluster(claims=[MINE, claim("choice", choice)])
    device_class = decode_class({"metadata": {"name": name}, "spec": {}})
    change = ClusterEvent(Resource.CLASS, Action.ADD, None, device_class)
    assert PLUGIN.concerned(change, view) is None
    assert PLUGIN.hint(one, change, view) is want


@pytest.mark.parametrize(("one", "want"), [(WAITING, Hint.QUEUE), (UNGENERATED, Hint.SKIP)])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            ClusterEvent(Resource.SLICE, Action.ADD, None, decode_slice(node_slice("node", gpu()))), id="slice-added"
        ),
        pytest.param(
            ClusterEvent(Resource.SLICE, Action.DELETE, decode_slice(node_slice("node", gpu())), None),
            id="slice-removed",
        ),
        pytest.param(ClusterEvent(Resource.NODE, Action.ADD, None, node()), id="node-added"),
    ],
)
def test_slices_and_nodes_wake_whoever_waits_for_devices(change, one, want) -> None:
    view = Cluster(claims=[MINE])
    assert any(resource is change.resource and action & change.action for resource, action in PLUGIN.wakes_on)
    assert PLUGIN.concerned(change, view) is None
    assert PLUGIN.hint(one, change, view) is want


TAINT = {"key": "broken", "effect": "NoSchedule"}
NOTE = {"key": "noted", "effect": "None"}
TOLERANT = claim("tolerant", exactly(tolerations=[{"key": "broken", "operator": "Exists"}]))


@pytest.mark.parametrize(
    ("before", "after", "one", "want"),
    [
        pytest.param([TAINT], [], WAITING, Hint.QUEUE, id="a-taint-was-taken-away"),
        pytest.param([], [TAINT], WAITING, Hint.SKIP, id="a-taint-was-added"),
        pytest.param([NOTE], [], WAITING, Hint.SKIP, id="a-taint-without-effect-was-taken-away"),
        pytest.param([TAINT], [], pod_with("tolerant"), Hint.SKIP, id="a-taint-that-the-pod-tolerates"),
        pytest.param(
            [TAINT], [], pod_with("tolerant", "mine"), Hint.QUEUE, id="one-of-its-claims-does-not-tolerate-it"
        ),
        pytest.param([TAINT], [], pod_with("gone"), Hint.QUEUE, id="claims-that-cannot-be-resolved"),
        pytest.param([TAINT], [], UNGENERATED, Hint.SKIP, id="claims-not-generated"),
        pytest.param(
            [TAINT],
            [],
            pod_with(
                containers=[{"name": "c", "image": "i", "resources": {"requests": {"example.com/gpu": "1"}}}],
            ),
            Hint.QUEUE,
            id="an-extended-resource-tolerates-nothing",
        ),
    ],
)
def test_changes_of_taints_wake_whoever_does_not_tolerate_what_went(before, after, one, want) -> None:
    old = decode_slice(node_slice("node", gpu(taints=before), gpu("gpu-1")))
    new = replace(old, devices=(replace(old.devices[0], taints=decode_taints(after)), old.devices[1]))
    change = ClusterEvent(Resource.SLICE, Action.UPDATE, old, new)
    assert PLUGIN.hint(one, change, Cluster(claims=[MINE, TOLERANT])) is want


def decode_taints(objects):
    return decode_slice(node_slice("node", gpu(taints=objects))).devices[0].taints


def test_a_slice_that_lost_more_than_taints_wakes_whoever_waits_for_devices() -> None:
    old = decode_slice(node_slice("node", gpu(taints=[TAINT])))
    for new in (node_slice("node", gpu(attributes={"a": {"int": 1}})), node_slice("node", gpu(), gpu("gpu-1"))):
        change = ClusterEvent(Resource.SLICE, Action.UPDATE, old, decode_slice(new))
        assert PLUGIN.hint(pod_with("tolerant"), change, Cluster(claims=[TOLERANT])) is Hint.QUEUE


def test_a_claim_replaced_by_another_of_the_same_name_frees_its_devices() -> None:
    old = claim("x", allocation=TAKEN)
    new = claim("x", exactly(count=2), allocation=TAKEN)
    assert PLUGIN.concerned(update(old, new), Cluster()) is not None
    assert PLUGIN.concerned(update(old, replace(new, uid="another")), Cluster()) is None
    assert consumer(WAITING).pod_uid == WAITING.uid
