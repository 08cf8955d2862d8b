"""The claim walk and the special rules around it: PreEnqueue says the same as PreFilter, with upstream's words."""

from __future__ import annotations

import pytest

from scheduler.framework.status import Code
from scheduler.model.keys import ClaimKey
from scheduler.model.objects import Pod
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.dynamic_resources.resolved_claims import walk_claims
from tests.plugins.cluster import Cluster, claim, cycle_of, pod_with, templated_pod
from tests.plugins.objects import node_info, pod

STRANGER = pod("pod", uid="an-earlier-pod-of-the-same-name")


@pytest.mark.parametrize(
    ("one", "claims", "names"),
    [
        pytest.param(pod(), [claim()], [], id="no-entries-no-claims"),
        pytest.param(pod_with("a", "b"), [claim("b"), claim("a")], ["a", "b"], id="named-claims-in-pod-order"),
        pytest.param(pod_with("a"), [claim("a", owner=STRANGER)], ["a"], id="a-named-claim-may-have-any-owner"),
        pytest.param(
            templated_pod(),
            [claim(owner=templated_pod())],
            ["claim"],
            id="a-generated-claim-is-found-by-the-pods-status",
        ),
        pytest.param(templated_pod(None), [], [], id="an-entry-that-needs-no-claim-is-left-out"),
        pytest.param(pod_with("a", "a"), [claim("a")], ["a"], id="a-claim-named-twice-counts-once"),
    ],
)
def test_walk_finds(one, claims, names) -> None:
    walk = walk_claims(one, Cluster(claims=claims))
    assert (walk.problem, [found.key.name for found in walk.claims]) == (None, names)


@pytest.mark.parametrize(
    ("one", "claims", "problem"),
    [
        pytest.param(
            templated_pod(is_generated=False),
            [],
            'pod "default/pod": ResourceClaim not created yet',
            id="claim-not-generated-yet",
        ),
        pytest.param(pod_with("gone"), [], 'could not find ResourceClaim "default/gone"', id="claim-missing"),
        pytest.param(
            pod_with("claim"),
            [claim(deletion_timestamp="2026-07-01T00:00:00Z")],
            'resourceclaim "claim" is being deleted',
            id="claim-being-deleted",
        ),
        pytest.param(
            templated_pod(),
            [claim(owner=STRANGER, deletion_timestamp="2026-07-01T00:00:00Z")],
            'resourceclaim "claim" is being deleted',
            id="deletion-is-noticed-before-ownership",
        ),
        pytest.param(
            templated_pod(),
            [claim(owner=STRANGER)],
            "ResourceClaim default/claim was not created for Pod default/pod (Pod is not owner)",
            id="claim-of-an-earlier-pod-of-the-same-name",
        ),
        pytest.param(
            templated_pod(),
            [claim()],
            "ResourceClaim default/claim was not created for Pod default/pod (Pod is not owner)",
            id="claim-without-owner",
        ),
        pytest.param(
            pod(resourceClaims=[{"name": "r"}]),
            [],
            'pod "default/pod", spec.resourceClaim "r": none of the supported fields are set',
            id="entry-of-a-newer-type",
        ),
        pytest.param(
            pod_with("claim"),
            [claim(problem="spec.devices: expected an object")],
            "ResourceClaim default/claim cannot be read: spec.devices: expected an object",
            id="claim-that-cannot-be-read",
        ),
        pytest.param(
            pod_with("a", "gone"), [claim("a")], 'could not find ResourceClaim "default/gone"', id="the-second"
        ),
    ],
)
def test_walk_refuses_and_pre_enqueue_and_pre_filter_say_so(one, claims, problem) -> None:
    view = Cluster(node_info(), claims=claims)
    plugin = DynamicResources()
    assert walk_claims(one, view).problem == problem
    for status in (plugin.pre_enqueue(one, view), plugin.pre_filter(cycle_of(one), view).status):
        assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, problem)


def test_claims_of_other_namespaces_are_not_the_pods() -> None:
    view = Cluster(claims=[claim()])
    elsewhere: Pod = pod(namespace="other", resourceClaims=[{"name": "r", "resourceClaimName": "claim"}])
    assert walk_claims(elsewhere, view).problem == f'could not find ResourceClaim "{ClaimKey("other", "claim")}"'
