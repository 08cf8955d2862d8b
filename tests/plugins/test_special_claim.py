"""The special claim in the plugins: what a node counts, what wakes a pod, which step takes a claim back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allocator import Features, decode_class
from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.decisions import DeleteClaim, RemoveClaimFinalizer, WriteClaimStatus
from scheduler.model.api_rules import EXTENDED_RESOURCE_ANNOTATION, FINALIZER
from scheduler.model.node_info import NodeInfo
from scheduler.model.special_claim import provisional_uid, special_claim_key, stands_for
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.dynamic_resources.extended_resources import decoded_spec
from scheduler.plugins.dynamic_resources.special_claim_step import asks_for, find_special_claim, removal
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from tests import builders
from tests.plugins.cluster import Cluster, allocation, claim, consumer, cycle_of, exactly

GPU = "example.com/gpu"
CLASS = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}}
OTHER = {"metadata": {"name": "nics"}, "spec": {"extendedResourceName": "example.com/nic"}}
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def asking(name="p", amount="1", resource=GPU):
    return builders.pod(name, requests={resource: amount, "cpu": "1"})


def special(pod, **fields):
    key = special_claim_key(pod)
    annotated = ((EXTENDED_RESOURCE_ANNOTATION, "true"),)
    return claim(
        key.name,
        exactly("container-0-request-1", "gpus"),
        owner=pod,
        **{"annotations": annotated, "finalizers": (FINALIZER,)} | fields,
    )


def info(gpu=None):
    """A node whose kubelet reports that many GPUs, or none at all."""
    return NodeInfo(builders.node("a", allocatable=ROOM if gpu is None else ROOM | {GPU: gpu}))


@pytest.mark.parametrize(
    ("node", "classes", "features", "reasons"),
    [
        pytest.param(info(), [CLASS], Features(), (), id="devices-serve-it"),
        pytest.param(info(gpu="0"), [CLASS], Features(), (), id="the-kubelet-has-none-left"),
        pytest.param(info(gpu="2"), [CLASS], Features(), (), id="the-device-plugin-has-enough"),
        pytest.param(info(gpu="1"), [CLASS], Features(), (f"Insufficient {GPU}",), id="the-device-plugin-has-too-few"),
        pytest.param(info(), [OTHER], Features(), (f"Insufficient {GPU}",), id="no-class"),
        pytest.param(info(), [CLASS], Features(extended_resource=False), (f"Insufficient {GPU}",), id="feature-off"),
    ],
)
def test_a_node_counts_what_no_devices_serve(node, classes, features, reasons):
    cluster, cycle, fit = Cluster(classes=classes, features=features), cycle_of(asking(amount="2")), NodeResourcesFit()
    assert fit.pre_filter(cycle, cluster).status.is_success
    assert fit.filter(cycle, node, cluster).reasons == reasons


def node_event(now, old=None):
    action = Action.ADD if old is None else Action.UPDATE_NODE_ALLOCATABLE
    return ClusterEvent(Resource.NODE, action, old.node if old else None, now.node)


def class_event(new, old=None):
    decoded = [decode_class(one) if one else None for one in (old, new)]
    action = Action.ADD if old is None else Action.UPDATE if new else Action.DELETE
    return ClusterEvent(Resource.CLASS, action, *decoded)


@pytest.mark.parametrize(
    ("change", "classes", "hint"),
    [
        pytest.param(node_event(info()), [CLASS], Hint.QUEUE, id="a-node-for-devices"),
        pytest.param(node_event(info()), [], Hint.SKIP, id="a-node-without-the-resource"),
        pytest.param(node_event(info(gpu="1")), [], Hint.QUEUE, id="a-node-with-a-device-plugin"),
        pytest.param(node_event(info(), info(gpu="1")), [CLASS], Hint.QUEUE, id="the-device-plugin-went"),
        pytest.param(node_event(info(), info(gpu="1")), [], Hint.SKIP, id="the-device-plugin-went-and-no-class"),
        pytest.param(class_event(CLASS), [CLASS], Hint.QUEUE, id="a-class-for-it"),
        pytest.param(class_event(CLASS, OTHER), [CLASS], Hint.QUEUE, id="a-class-took-the-name"),
        pytest.param(class_event(OTHER), [OTHER], Hint.SKIP, id="a-class-for-something-else"),
    ],
)
def test_what_wakes_a_pod_that_a_node_had_too_little_for(change, classes, hint):
    assert NodeResourcesFit().hint(asking(), change, Cluster(classes=classes)) is hint


POD = asking()


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        pytest.param(class_event(None, CLASS), Hint.QUEUE, id="its-class-went-another-may-stand-in"),
        pytest.param(class_event(None, OTHER), Hint.QUEUE, id="another-class-went-that-a-plugin-may-serve"),
        pytest.param(
            ClusterEvent(Resource.CLAIM, Action.DELETE, special(POD), None), Hint.QUEUE, id="the-name-came-free"
        ),
        pytest.param(
            ClusterEvent(Resource.CLAIM, Action.DELETE, special(asking("q")), None), Hint.SKIP, id="another-pods-claim"
        ),
    ],
)
def test_what_wakes_a_pod_that_devices_were_missing_for(change, hint):
    assert DynamicResources().hint(POD, change, Cluster(classes=[CLASS])) is hint


def test_a_claim_is_taken_back_step_by_step():
    stored = special(POD, finalizers=("other", FINALIZER), allocation=allocation("a", "gpu-0"), reserved_for=(POD,))
    (first,) = removal(stored, POD)
    assert first == RemoveClaimFinalizer(stored.key, stored.uid, stored.revision, ("other",))
    without = replace(stored, finalizers=("other",))
    assert removal(without, POD) == (DeleteClaim(stored.key, stored.uid, stored.revision),)
    assert removal(replace(without, deletion_timestamp="2026-01-01T00:00:00Z"), POD) == ()


def test_a_claim_that_others_use_loses_our_reservation_only():
    stored = special(POD, reserved_for=(POD, asking("q")))
    others = (consumer(asking("q")),)
    assert removal(stored, POD) == (WriteClaimStatus(stored.key, stored.uid, stored.revision, reserved_for=others),)
    assert removal(replace(stored, reserved_for=others), POD) == ()


def test_what_is_not_the_pods_special_claim_is_never_taken_back():
    for foreign in (special(POD, annotations=()), special(asking("q")), replace(special(POD), owner_references=())):
        assert removal(foreign, POD) == ()


@pytest.mark.parametrize(
    ("request_object", "fits"),
    [
        (exactly("container-0-request-1", "gpus"), True),
        (exactly("container-0-request-0", "gpus"), False),
        (exactly("container-0-request-1", "nics"), False),
        (exactly("container-0-request-1", "gpus", count=2), False),
        (exactly("container-0-request-1", "gpus", adminAccess=True), False),
        (exactly("container-0-request-1", "gpus", selectors=[{"cel": {"expression": "true"}}]), False),
    ],
)
def test_a_claim_is_used_only_if_it_asks_for_just_that(request_object, fits):
    cluster = Cluster(classes=[CLASS])
    found = find_special_claim(POD, cluster)
    needed = found.on(info())
    assert asks_for(claim("c", request_object).spec, needed.requests.requests) is fits
    assert asks_for(decoded_spec(needed.requests.requests), needed.requests.requests)


def test_names_fit_and_differ():
    long_name = "a" * 40 + "." + "b" * 200
    keys = {special_claim_key(builders.pod(name, uid=uid)).name for name in ("p", long_name) for uid in ("1", "2")}
    assert len(keys) == 4
    for name in keys:
        assert len(name) <= 63
        assert all(part and part.strip("-") == part for part in name.split("."))


def test_the_provisional_uid_stands_for_the_claims_own():
    assert stands_for(special(POD)) == provisional_uid(POD.uid)
    assert stands_for(special(POD, annotations=((EXTENDED_RESOURCE_ANNOTATION, "false"),))) is None
