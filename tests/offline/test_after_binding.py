"""Pods with a node, in `devices` and `explain`: claims that nobody allocates, hardware that is given out twice."""

from __future__ import annotations

from typing import Any

import pytest

from allocator import Features
from scheduler.explain import Explanation, explain_pod
from scheduler.inventory import list_devices
from scheduler.offline import SourceObject
from tests.inventory.test_listing import GPU_CLASS, Obj, held, node, slice_of

NOW_MS = 1_800_000_000_000
COUNTERS = {"sharedCounters": [{"name": "g", "counters": {"memory": {"value": "80Gi"}}}]}
CONSUMES = [{"counterSet": "g", "counters": {"memory": {"value": "40Gi"}}}]
PARTS = tuple({"name": f"gpu-0-half-{part}", "consumesCounters": CONSUMES} for part in range(2))


def pod(name: str, claim: str, *, phase: str = "Pending", **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "9"},
        "spec": {
            "schedulerName": "dra-scheduler",
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "r"}]}}],
            "resourceClaims": [{"name": "r", "resourceClaimName": claim}],
            **spec,
        },
        "status": {"phase": phase},
    }


def unallocated(name: str, **metadata: Any) -> Obj:
    claim = held(name)
    return {**claim, "metadata": {**claim["metadata"], **metadata}, "status": {}}


def partitioned(*devices: Obj, slices: int = 2, counters: Obj = COUNTERS) -> list[Obj]:
    """A node whose pool publishes these devices in the place of gpu-0, which pod whole has; pod half has a half."""
    return [
        node("a"),
        slice_of("a", *devices, generation=2, count=slices, name="parts"),
        slice_of("a", generation=2, count=slices, name="counters", **counters),
        held("w", {"pool": "a", "device": "gpu-0"}, pod="whole"),
        pod("whole", "w", nodeName="a", phase="Running"),
        held("h", {"pool": "a", "device": "gpu-0-half-1"}, pod="half"),
        pod("half", "h", nodeName="a", phase="Running"),
    ]


def noted(*objects: Obj) -> str:
    given = [SourceObject("test", one) for one in (GPU_CLASS, *objects)]
    return "\n".join(list_devices(given, now_ms=NOW_MS, features=Features()).notes)


def explained(name: str, *objects: Obj) -> Explanation:
    given = [SourceObject("test", one) for one in (GPU_CLASS, *objects)]
    return explain_pod(given, ("team", name), now_ms=NOW_MS, features=Features())


def test_a_device_that_became_partitions_is_named_with_its_claim() -> None:
    objects = partitioned(*PARTS)
    assert "gpu-0 is held by claim team/w, and no slice publishes it: gpu.example.com/a/gpu-0 is not" in noted(*objects)
    assert "its hardware can be given to other claims too" in explained("whole", *objects).notes[-1]
    assert (
        explained("half", *objects)
        .notes[-1]
        .startswith(
            "gpu.example.com/a/gpu-0-half-1 may be the same hardware as gpu-0, which ResourceClaim team/w still has"
        )
    )


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param(partitioned({"name": "gpu-0"}, *PARTS), id="still-published"),
        pytest.param(partitioned(*PARTS, slices=3), id="slices-are-missing"),
        pytest.param(partitioned(*({"name": one["name"]} for one in PARTS), counters={}), id="no-partitions"),
    ],
)
def test_hardware_that_is_not_given_out_again_is_not_said_to_be(objects: list[Obj]) -> None:
    said = noted(*objects), explained("whole", *objects).notes, explained("half", *objects).notes
    assert "hardware" not in str(said)


def test_a_claim_of_a_pod_with_a_node_that_nobody_allocates_is_named() -> None:
    objects = [node("a"), unallocated("c"), pod("p", "c", nodeName="a")]
    want = "the pod is on node a already, so no scheduler allocates its ResourceClaim c and it cannot start"
    assert f"pod team/p: {want}. Delete the pod and make it anew; where its manifest has spec.nodeName" in noted(
        *objects
    )
    answer = explained("p", *objects)
    assert (answer.fits, answer.verdict) == (False, f"pod team/p cannot start: {want}")
    assert answer.advice.startswith("Delete the pod and make it anew")


def test_a_claim_that_took_the_place_of_the_one_it_was_bound_with_is_said_to_be_that() -> None:
    owner = {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True, "apiVersion": "v1"}]}
    first = held("first", {"pool": "a", "device": "gpu-0"})
    first["metadata"].update(owner)
    objects = [node("a"), first, unallocated("second", **owner), pod("p", "second", nodeName="a")]
    assert "it was bound with ResourceClaim first, and the resource claim controller has put second in its" in noted(
        *objects
    )


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([pod("p", "c", nodeName="a", phase="Running")], id="it-runs"),
        pytest.param([pod("p", "c", nodeName="a", phase="Succeeded")], id="it-has-ended"),
        pytest.param([pod("p", "c", nodeName="a"), pod("q", "c")], id="a-pod-that-waits-shares-the-claim"),
        pytest.param([pod("p", "c")], id="it-waits"),
    ],
)
def test_what_may_still_be_allocated_or_runs_is_not_said_to_be_stuck(objects: list[Obj]) -> None:
    assert "no scheduler allocates" not in noted(node("a"), unallocated("c"), *objects)
