"""Devices made of a node's own cpu and memory (feature gate DRANodeAllocatableResources): nobody gets them twice.

The real control plane has the gate on, in the API server and in whatever scheduler is under test. Kubernetes 1.37 has
another form of the field than 1.36; the embedded cluster is of 1.37.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import ControlPlane
from tests.integration.api import ApiError, Object
from tests.integration.conftest import RealCluster, embedded_world, real_world, with_manifests
from tests.integration.world import UNDER_TEST, World
from tests.patience import PATIENCE_S

GATE = "DRANodeAllocatableResources"
REAL = pytest.mark.controlplane


@pytest.fixture(
    scope="module",
    params=[
        "embedded",
        pytest.param("1.36", marks=REAL, id="controlplane-1.36"),
        pytest.param("1.37", marks=REAL, id="controlplane-1.37"),
    ],
)
def plane(request: pytest.FixtureRequest) -> Iterator[RealCluster | None]:
    if request.param == "embedded":
        yield None
        return
    built_or_skip(f"controlplane-{request.param}")
    with ControlPlane(minor=request.param, feature_gates={GATE: True}) as running:
        yield with_manifests(running) if UNDER_TEST == "ours" else RealCluster(running, ("", ""))


@pytest.fixture
def is_136(plane: RealCluster | None) -> bool:
    """Whether devices have the form of 1.36."""
    return plane is not None and plane.control_plane.minor == "1.36"


@pytest.fixture
async def open_world(plane: RealCluster | None, tmp_path: Path) -> AsyncIterator[World]:
    """As `world`, on a cluster that keeps the fields of the gate."""
    async with real_world(plane, tmp_path) if plane is not None else embedded_world(tmp_path) as ready:
        await ready.add_namespace()
        await ready.add_class()
        try:
            yield ready
        finally:
            await ready.stop_scheduler(kill=True)
        if ready.cluster.kind == "controlplane":
            await ready.clean_up()


def profile(is_136: bool, number: int = 0, **resources: str) -> Object:
    """A device that takes so much of its node."""
    if is_136:
        mappings = {name: {"allocationMultiplier": amount} for name, amount in resources.items()}
        return {"name": f"cpu-{number}", "nodeAllocatableResourceMappings": mappings}
    taken = {name: {"mapping": {"deviceMultiplier": amount}} for name, amount in resources.items()}
    return {"name": f"cpu-{number}", "nodeAllocatableResources": taken}


def shared_cpu(is_136: bool) -> Object:
    """A device of two cores, of which each claim takes what it consumes."""
    shared: Object = {
        "name": "socket-0",
        "allowMultipleAllocations": True,
        "capacity": {"cpu": {"value": "2", "requestPolicy": {"default": "1", "validRange": {"min": "500m"}}}},
    }
    if is_136:
        return shared | {"nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "cpu"}}}
    mapping = {"capacityKey": "cpu", "capacityMultiplier": "1"}
    return shared | {"nodeAllocatableResources": {"cpu": {"mapping": mapping}}}


def amounts_of(note: Object) -> dict[str, str]:
    """What a note says that devices map, in either form."""
    mapped: dict[str, str] = {one["name"]: one["quantity"] for one in note.get("mapping") or ()}
    return mapped | note.get("resources", {})


def container(**requests: str) -> Object:
    return {"name": "main", "image": "registry.example.com/work:1", "resources": {"requests": requests}}


async def add_node(world: World, *devices: Object) -> str:
    """A node of 2 CPUs with these devices. Its kubelet says that it counts what they take: 1.37 asks for that."""
    (name,) = await world.add_nodes(1, cpu="2")
    await world.api.merge_patch("nodes", name, {"status": {"declaredFeatures": [GATE]}}, sub="status")
    async with asyncio.timeout(PATIENCE_S):
        while True:  # the API server's admission reads nodes from a cache
            try:
                await world.publish(name, devices)
                return name
            except ApiError as error:
                if error.status != 403:
                    raise
            await asyncio.sleep(0.05)


async def add_plain(world: World, name: str, **requests: str) -> None:
    await world.add_pod(name, containers=[container(**requests)])


async def noted(world: World, name: str) -> list[Object]:
    """`status.nodeAllocatableResourceClaimStatuses` of a pod."""
    pod = await world.api.get("pods", name, world.namespace)
    return list(pod["status"].get("nodeAllocatableResourceClaimStatuses") or ())


async def test_what_a_claim_takes_is_not_given_to_a_plain_pod(open_world: World, is_136: bool) -> None:
    world = open_world
    await add_node(world, profile(is_136, cpu="2", memory="1Gi"))
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("claimed", template="one-gpu")
    await world.wait_bound("claimed")

    await add_plain(world, "plain", cpu="2")
    message = (await world.wait_unschedulable("plain"))["message"]
    assert "0/1 nodes are available: 1 Insufficient cpu" in message
    claim = await world.claim_of("claimed")
    (note,) = await noted(world, "claimed")
    assert (note["resourceClaimName"], note["containers"]) == (claim["metadata"]["name"], ["main"])
    assert amounts_of(note) == {"cpu": "2", "memory": "1Gi"}

    await world.api.delete("pods", "claimed", world.namespace)
    await world.wait_bound("plain")


async def test_what_a_plain_pod_has_is_not_given_to_a_claim(open_world: World, is_136: bool) -> None:
    world = open_world
    await add_node(world, profile(is_136, cpu="2"))
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


async def test_shares_of_a_device_add_up_and_a_restart_counts_them(open_world: World, is_136: bool) -> None:
    world = open_world
    await add_node(world, shared_cpu(is_136))
    await world.add_template("one-cpu", world.request(capacity={"requests": {"cpu": "1"}}))
    await world.start_scheduler()
    await world.add_pod("first", template="one-cpu")
    await world.wait_bound("first")
    (note,) = await noted(world, "first")
    assert amounts_of(note) == {"cpu": "1"}

    await world.stop_scheduler(kill=True)
    await world.start_scheduler()
    await add_plain(world, "large", cpu="1500m")
    assert "1 Insufficient cpu" in (await world.wait_unschedulable("large"))["message"]
    await add_plain(world, "small", cpu="500m")
    await world.wait_bound("small")
    await world.add_pod("second", template="one-cpu")
    assert "1 Insufficient cpu" in (await world.wait_unschedulable("second"))["message"]


async def test_a_claim_that_takes_of_its_node_is_for_one_pod_and_for_a_container(
    open_world: World, is_136: bool
) -> None:
    world = open_world
    await add_node(world, profile(is_136, 0, cpu="1"), profile(is_136, 1, cpu="500m"))
    await world.add_claim("common")
    await world.add_claim("unused")
    await world.start_scheduler()
    await world.add_pod("first", claim="common")
    await world.wait_bound("first")

    await world.add_pod("second", claim="common")
    message = (await world.wait_unschedulable("second"))["message"]
    said = "is already used by another pod" if is_136 else "has a mapped device and cannot be shared across pods"
    assert f"node allocatable resource claim common {said}" in message
    idle = world.pod("idle", claim="unused")
    idle["spec"]["containers"] = [container()]
    await world.create("pods", idle)
    if not is_136:
        await world.wait_bound("idle")
        await add_plain(world, "plain", cpu="600m")
        assert "1 Insufficient cpu" in (await world.wait_unschedulable("plain"))["message"]
        return
    message = (await world.wait_unschedulable("idle"))["message"]
    assert "claim unused: node-allocatable resource claim not referenced by any container within the pod" in message


async def test_pod_level_requests_must_cover_what_its_claims_take(open_world: World, is_136: bool) -> None:
    world = open_world
    await add_node(world, profile(is_136, 0, cpu="1"), profile(is_136, 1, cpu="1"))
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
async def test_the_note_is_stored_before_the_binding_whatever_becomes_of_the_write(
    open_world: World, is_136: bool, kind: str
) -> None:
    world = open_world
    await add_node(world, profile(is_136, cpu="2"))
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
    assert amounts_of(note) == {"cpu": "2"}
    assert await world.violations() == []


async def test_overhead_counts_for_each_pod_and_each_container_and_its_claim_may_be_shared(
    open_world: World, is_136: bool
) -> None:
    if is_136:
        pytest.skip("1.36 has no overhead")
    world = open_world
    device = {
        "name": "cpu-0",
        "nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "200m", "perContainer": "300m"}}},
    }
    await add_node(world, device)
    await world.add_claim("common")
    await world.start_scheduler()
    for name in ("first", "second"):
        await world.add_pod(name, claim="common")
        await world.wait_bound(name)
        (note,) = await noted(world, name)
        assert note["containers"] == ["main"]
        assert note["overhead"] == [{"name": "cpu", "perPod": "200m", "perContainer": "300m"}]
    await add_plain(world, "large", cpu="1100m")
    assert "1 Insufficient cpu" in (await world.wait_unschedulable("large"))["message"]
    await add_plain(world, "small", cpu="1")
    await world.wait_bound("small")


@pytest.mark.controlplane
@pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler believes its own gate")
@pytest.mark.parametrize("release", ["1.36", "1.37"])
async def test_a_server_that_drops_the_note_is_told_of_and_nothing_is_bound(tmp_path: Path, release: str) -> None:
    """The gate was on when the slice was published, and is off now."""
    built_or_skip(f"controlplane-{release}")
    is_136 = release == "1.36"
    with ControlPlane(minor=release, feature_gates={GATE: True}) as plane:
        async with real_world(with_manifests(plane), tmp_path) as world:
            await world.add_namespace()
            await world.add_class()
            await add_node(world, profile(is_136, cpu="2"))
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
