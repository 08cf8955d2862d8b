"""Devices made of a node's own cpu and memory (feature gate DRANodeAllocatableResources): nobody gets them twice.

The real control plane has the gate on, in the API server and in whatever scheduler is under test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import ControlPlane
from tests.integration.api import Object
from tests.integration.conftest import RealCluster, embedded_world, real_world, with_manifests
from tests.integration.world import UNDER_TEST, World

GATE = "DRANodeAllocatableResources"
RELEASE = "1.36"  # the form of this release, which 1.37 replaced
SHARED_CPU = {
    "allowMultipleAllocations": True,
    "capacity": {"cpu": {"value": "2", "requestPolicy": {"default": "1", "validRange": {"min": "500m"}}}},
    "nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "cpu"}},
}


@pytest.fixture(scope="module")
def open_plane() -> Iterator[RealCluster]:
    built_or_skip(f"controlplane-{RELEASE}")
    with ControlPlane(minor=RELEASE, feature_gates={GATE: True}) as plane:
        yield with_manifests(plane) if UNDER_TEST == "ours" else RealCluster(plane, ("", ""))


@pytest.fixture(params=["embedded", pytest.param("controlplane", marks=pytest.mark.controlplane)])
async def open_world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """As `world`, on a cluster that keeps the fields of the gate."""
    if request.param == "controlplane":
        opened = real_world(request.getfixturevalue("open_plane"), tmp_path)
    else:
        opened = embedded_world(tmp_path)
    async with opened as ready:
        await ready.add_namespace()
        await ready.add_class()
        try:
            yield ready
        finally:
            await ready.stop_scheduler(kill=True)
        if ready.cluster.kind == "controlplane":
            await ready.clean_up()


def profile(number: int = 0, **resources: str) -> Object:
    """A device that takes so much of its node."""
    mappings = {name: {"allocationMultiplier": amount} for name, amount in resources.items()}
    return {"name": f"cpu-{number}", "nodeAllocatableResourceMappings": mappings}


def container(**requests: str) -> Object:
    return {"name": "main", "image": "registry.example.com/work:1", "resources": {"requests": requests}}


async def add_node(world: World, *devices: Object) -> str:
    """A node of 2 CPUs with these devices."""
    (name,) = await world.add_nodes(1, cpu="2")
    await world.publish(name, devices)
    return name


async def add_plain(world: World, name: str, **requests: str) -> None:
    await world.add_pod(name, containers=[container(**requests)])


async def noted(world: World, name: str) -> list[Object]:
    """`status.nodeAllocatableResourceClaimStatuses` of a pod."""
    pod = await world.api.get("pods", name, world.namespace)
    return list(pod["status"].get("nodeAllocatableResourceClaimStatuses") or ())


async def test_what_a_claim_takes_is_not_given_to_a_plain_pod(open_world: World) -> None:
    world = open_world
    await add_node(world, profile(cpu="2", memory="1Gi"))
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("claimed", template="one-gpu")
    await world.wait_bound("claimed")

    await add_plain(world, "plain", cpu="2")
    message = (await world.wait_unschedulable("plain"))["message"]
    assert "0/1 nodes are available: 1 Insufficient cpu" in message
    claim = await world.claim_of("claimed")
    assert await noted(world, "claimed") == [
        {
            "resourceClaimName": claim["metadata"]["name"],
            "containers": ["main"],
            "resources": {"cpu": "2", "memory": "1Gi"},
        }
    ]

    await world.api.delete("pods", "claimed", world.namespace)
    await world.wait_bound("plain")


async def test_what_a_plain_pod_has_is_not_given_to_a_claim(open_world: World) -> None:
    world = open_world
    await add_node(world, profile(cpu="2"))
    await world.add_template()
    await world.start_scheduler()
    await add_plain(world, "plain", cpu="1")
    await world.wait_bound("plain")

    await world.add_pod("claimed", template="one-gpu")
    assert "1 Insufficient cpu" in (await world.wait_unschedulable("claimed"))["message"]
    if UNDER_TEST != "ours":
        return  # kube-scheduler looks again after five minutes
    await world.api.delete("pods", "plain", world.namespace)
    await world.wait_bound("claimed")


async def test_shares_of_a_device_add_up_and_a_restart_counts_them(open_world: World) -> None:
    world = open_world
    await add_node(world, {"name": "socket-0", **SHARED_CPU})
    await world.add_template("one-cpu", world.request(capacity={"requests": {"cpu": "1"}}))
    await world.start_scheduler()
    await world.add_pod("first", template="one-cpu")
    await world.wait_bound("first")
    (note,) = await noted(world, "first")
    assert note["resources"] == {"cpu": "1"}

    await world.stop_scheduler(kill=True)
    await world.start_scheduler()
    await add_plain(world, "large", cpu="1500m")
    assert "1 Insufficient cpu" in (await world.wait_unschedulable("large"))["message"]
    await add_plain(world, "small", cpu="500m")
    await world.wait_bound("small")
    await world.add_pod("second", template="one-cpu")
    assert "1 Insufficient cpu" in (await world.wait_unschedulable("second"))["message"]


async def test_a_claim_that_takes_of_its_node_is_for_one_pod_and_for_a_container(open_world: World) -> None:
    world = open_world
    await add_node(world, profile(0, cpu="1"), profile(1, cpu="500m"))
    await world.add_claim("common")
    await world.add_claim("unused")
    await world.start_scheduler()
    await world.add_pod("first", claim="common")
    await world.wait_bound("first")

    await world.add_pod("second", claim="common")
    message = (await world.wait_unschedulable("second"))["message"]
    assert "node allocatable resource claim common is already used by another pod" in message
    idle = world.pod("idle", claim="unused")
    idle["spec"]["containers"] = [container()]
    await world.create("pods", idle)
    message = (await world.wait_unschedulable("idle"))["message"]
    assert "claim unused: node-allocatable resource claim not referenced by any container within the pod" in message


async def test_pod_level_requests_must_cover_what_its_claims_take(open_world: World) -> None:
    world = open_world
    await add_node(world, profile(0, cpu="1"), profile(1, cpu="1"))
    await world.add_template()
    await world.start_scheduler()
    for name, cpu in (("small", "500m"), ("enough", "1")):
        await world.add_pod(name, template="one-gpu", resources={"requests": {"cpu": cpu}})

    await world.wait_bound("enough")
    message = (await world.wait_unschedulable("small"))["message"]
    assert "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable" in message
    await add_plain(world, "plain", cpu="1")
    await world.wait_bound("plain")  # the pod's request is all it takes


@pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler writes without conditions, and not again")
@pytest.mark.parametrize("kind", ["lose-reply", "lose-request", "conflict"])
async def test_the_note_is_stored_before_the_binding_whatever_becomes_of_the_write(open_world: World, kind) -> None:
    world = open_world
    await add_node(world, profile(cpu="2"))
    await world.add_template()
    await world.start_scheduler()

    async def touch(path: str) -> None:
        patch = {"metadata": {"annotations": {"touched": "yes"}}}
        await world.api.merge_patch("pods", "claimed", patch, world.namespace)

    fault = world.fault("before", "pod status", action=touch) if kind == "conflict" else world.fault(kind, "pod status")
    await world.add_pod("claimed", template="one-gpu")
    await world.wait_fault(fault)
    await world.wait_bound("claimed")

    (note,) = await noted(world, "claimed")
    assert note["resources"] == {"cpu": "2"}
    assert await world.violations() == []


@pytest.mark.controlplane
@pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler believes its own gate")
async def test_a_server_that_drops_the_note_is_told_of_and_nothing_is_bound(tmp_path: Path) -> None:
    """The gate was on when the slice was published, and is off now."""
    built_or_skip(f"controlplane-{RELEASE}")
    with ControlPlane(minor=RELEASE, feature_gates={GATE: True}) as plane:
        async with real_world(with_manifests(plane), tmp_path) as world:
            await world.add_namespace()
            await world.add_class()
            await add_node(world, profile(cpu="2"))
            await world.add_template()
            plane.feature_gates = {}
            await asyncio.to_thread(plane.restart_apiserver)
            try:
                await world.start_scheduler()
                await world.add_pod("claimed", template="one-gpu")

                def told(pods: dict[str, Object]) -> bool:
                    conditions = pods["claimed"].get("status", {}).get("conditions", ()) if "claimed" in pods else ()
                    return any(f"feature gate {GATE} is off" in one.get("message", "") for one in conditions)

                pods = await world.wait_for("pods", told, what="the gate named")
                assert "nodeName" not in pods["claimed"]["spec"]
            finally:
                await world.stop_scheduler(kill=True)
