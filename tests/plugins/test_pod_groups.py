"""Claims of a PodGroup: one reservation for all of its pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from scheduler.framework.api import PreBindDone
from scheduler.framework.decisions import WriteClaimStatus
from scheduler.framework.status import Code, Status
from scheduler.kube.codec import Codec
from scheduler.kube.watched_kind import Seen
from scheduler.model.claim import Consumer
from scheduler.model.keys import PodGroupKey
from scheduler.model.objects import OwnerReference, PodResourceClaim, SchedulingGroup
from scheduler.model.pod_group import PodGroup
from scheduler.plugins.dynamic_resources import NAME, DynamicResources
from scheduler.plugins.dynamic_resources.deallocation import REASON_UNAVAILABLE
from scheduler.plugins.dynamic_resources.resolved_claims import walk_claims
from tests.plugins.cluster import (
    NOW_MS,
    Cluster,
    NoDryRun,
    allocation,
    claim,
    consumer,
    cycle_of,
    gpu,
    info_of,
    node_slice,
    pod_with,
    templated_pod,
)
from tests.plugins.objects import node_info

PLUGIN = DynamicResources()
KEY = PodGroupKey("default", "group")
GROUP = PodGroup(KEY, "group-uid", (PodResourceClaim("r0", "shared"),))
OF_GROUP = Consumer("podgroups", "group", "group-uid", "scheduling.k8s.io")


def member(name: str = "pod", group: str = "group", claim_name: str = "shared"):
    return pod_with(claim_name, name=name, schedulingGroup={"podGroupName": group})


def view_of(*claims, group: PodGroup | None = GROUP, **fields) -> Cluster:
    view = Cluster(node_info(), slices=[node_slice("node", gpu())], claims=claims, **fields)
    if group is not None:
        view.store.pod_groups[group.key] = group
    return view


def stored_for(view: Cluster, one) -> tuple[Consumer, ...]:
    """Whom the claim is reserved for once the pod's PreBind is done."""
    cycle = cycle_of(one)
    assert PLUGIN.pre_filter(cycle, view).status.is_success
    assert PLUGIN.filter(cycle, info_of(view), view).is_success
    reserved = PLUGIN.reserve(cycle, info_of(view), view)
    assert reserved.status.is_success
    view.hold(*reserved.held)
    for _ in range(5):
        step = PLUGIN.pre_bind(cycle, "node", view)
        if isinstance(step, PreBindDone):
            (stored,) = view.claims.values()
            return stored.reserved_for
        assert all(view.execute(decision) for decision in step.decisions)
    raise AssertionError(step)


def test_the_groups_claim_is_reserved_for_the_group_and_so_for_every_pod_of_it():
    view = view_of(claim("shared"))
    assert stored_for(view, member("first")) == (OF_GROUP,)
    assert stored_for(view, member("second")) == (OF_GROUP,)


@pytest.mark.parametrize(
    ("one", "group"),
    [
        pytest.param(pod_with("shared"), GROUP, id="a-pod-without-a-group"),
        pytest.param(member(), None, id="the-group-is-not-known-or-its-api-not-served"),
        pytest.param(member(), replace(GROUP, claims=()), id="the-group-has-no-claims"),
        pytest.param(
            member(), replace(GROUP, claims=(PodResourceClaim("other", "shared"),)), id="another-name-in-the-group"
        ),
        pytest.param(
            member(), replace(GROUP, claims=(PodResourceClaim("r0", None, "t"),)), id="another-source-in-the-group"
        ),
        pytest.param(member(group="another"), GROUP, id="another-group"),
    ],
)
def test_other_claims_are_reserved_for_the_pod(one, group):
    assert stored_for(view_of(claim("shared"), group=group), one) == (consumer(one),)


def test_a_group_may_have_more_pods_than_a_claim_consumers():
    full = tuple(Consumer("pods", f"p{number}", f"u{number}") for number in range(255))
    view = view_of(claim("shared", allocation=allocation("node", "gpu-0")))
    (key,) = view.claims
    view.change(key, reserved_for=(*full, OF_GROUP))
    assert PLUGIN.pre_filter(cycle_of(member()), view).status.is_success
    assert PLUGIN.pre_filter(cycle_of(member(group="another")), view).status.code is not Code.SUCCESS


@pytest.mark.parametrize(
    ("owner", "is_found"),
    [
        pytest.param({}, True, id="the-pods-group"),
        pytest.param({"api_version": "scheduling.k8s.io/v1beta1"}, True, id="of-any-version"),
        pytest.param({"name": "another"}, False, id="another-group"),
        pytest.param({"kind": "Workload"}, False, id="another-kind"),
        pytest.param({"api_version": "example.com/v1"}, False, id="another-api"),
        pytest.param({"controller": None}, False, id="no-controller"),
    ],
)
def test_a_generated_claim_may_belong_to_the_group(owner, is_found):
    alone = templated_pod("claim")
    pod = structs.replace(alone, spec=structs.replace(alone.spec, scheduling_group=SchedulingGroup("group")))
    reference = {
        "kind": "PodGroup",
        "name": "group",
        "uid": "g",
        "api_version": "scheduling.k8s.io/v1alpha2",
        "controller": True,
        **owner,
    }
    view = view_of(replace(claim("claim"), owner_references=(OwnerReference(**reference),)))
    walk = walk_claims(pod, view)
    assert (walk.problem is None) is is_found


def test_unreserve_leaves_the_groups_reservation():
    view = view_of(claim("shared", allocation=allocation("node", "gpu-0")))
    (key,) = view.claims
    view.change(key, reserved_for=(OF_GROUP,))
    cycle = cycle_of(member())
    assert PLUGIN.pre_filter(cycle, view).status.is_success
    PLUGIN.reserve(cycle, info_of(view), view)
    assert PLUGIN.unreserve(cycle, "node", view) == ()


@pytest.mark.parametrize("running", ["nobody", "a-pod-of-the-group", "a-pod-of-another-group"])
def test_post_filter_takes_the_reservation_back_while_no_pod_of_the_group_is_on_a_node(running):
    """The claim is on another node, which went; first the group's reservation goes, then the allocation."""
    others = {
        "nobody": [],
        "a-pod-of-the-group": [member("other")],
        "a-pod-of-another-group": [member("other", "another")],
    }
    info = node_info()
    for one in others[running]:
        info.add_pod(one)
    view = view_of(claim("shared", allocation=allocation("gone", "gpu-0")))
    view.store.node_infos[info.name] = info
    (key,) = view.claims
    view.change(key, reserved_for=(OF_GROUP,))
    cycle = cycle_of(member())
    assert PLUGIN.pre_filter(cycle, view).status.is_success
    verdict = PLUGIN.filter(cycle, info, view).by(NAME)
    assert REASON_UNAVAILABLE in verdict.reasons
    result = PLUGIN.post_filter(cycle, {info.name: verdict}, view, NoDryRun())
    if running == "a-pod-of-the-group":
        assert result.decisions == ()
        return
    (write,) = result.decisions
    assert isinstance(write, WriteClaimStatus)
    assert (write.reserved_for, write.clear_allocation) == ((), False)
    assert result.status == Status.unresolvable("ResourceClaim unreserved for PodGroup")
    assert view.execute(write)
    again = cycle_of(member(), NOW_MS)
    assert PLUGIN.pre_filter(again, view).status.is_success
    refused = {info.name: PLUGIN.filter(again, info, view).by(NAME)}
    (free,) = PLUGIN.post_filter(again, refused, view, NoDryRun()).decisions
    assert free.clear_allocation


def test_groups_are_decoded():
    wire = b"""{"metadata": {"name": "group", "namespace": "default", "uid": "group-uid", "resourceVersion": "5"},
        "spec": {"schedulingPolicy": {"basic": {}},
                 "resourceClaims": [{"name": "r0", "resourceClaimName": "shared"}]}}"""
    decoded = Codec().pod_groups.decode_object(wire)
    assert isinstance(decoded, Seen)
    assert (decoded.input.object, decoded.input.revision) == (GROUP, 5)
    gang = Codec().pod_groups.decode_object(wire.replace(b'"basic": {}', b'"gang": {"minCount": 4}'))
    assert isinstance(gang, Seen)
    assert gang.input.object == replace(GROUP, min_count=4)
