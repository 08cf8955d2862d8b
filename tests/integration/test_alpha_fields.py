"""Compatibility groups (KEP-5963, alpha in Kubernetes 1.37) on a real API server, with its gate on and off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import ControlPlane
from tests.integration.api import Object
from tests.integration.conftest import RealCluster, real_world, with_manifests
from tests.integration.world import UNDER_TEST, World

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]
GATE = "DRADeviceCompatibilityGroups"


@pytest.fixture(scope="module", params=[True, False], ids=["on", "off"])
def plane(request: pytest.FixtureRequest) -> Iterator[tuple[RealCluster, bool]]:
    built_or_skip("controlplane-1.37")
    with ControlPlane(minor="1.37", feature_gates={GATE: request.param}) as running:
        cluster = with_manifests(running) if UNDER_TEST == "ours" else RealCluster(running, ("", ""))
        yield cluster, request.param


@pytest.fixture
async def world(plane: tuple[RealCluster, bool], tmp_path: Path) -> AsyncIterator[World]:
    async with real_world(plane[0], tmp_path) as opened:
        await opened.add_namespace()
        await opened.add_class()
        await opened.start_scheduler()
        try:
            yield opened
        finally:
            await opened.stop_scheduler(kill=True)
        await opened.clean_up()


def part(name: str, *groups: str) -> Object:
    consumed = {"counterSet": "gpu", "counters": {"memory": {"value": "10Gi"}}, "compatibilityGroups": list(groups)}
    return {"name": name, "consumesCounters": [consumed]}


async def publish(world: World, *devices: Object) -> None:
    """A node with these parts of one GPU, whose memory suffices for all of them."""
    (node,) = await world.add_nodes(1)
    await world.publish(node, devices, slices=2)
    spec = {
        "driver": world.driver,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 2},
        "sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}],
    }
    await world.create("resourceslices", {"metadata": {"name": f"{node}-counters"}, "spec": spec})


async def test_devices_of_different_groups_go_together_only_where_the_server_drops_the_groups(
    world: World, plane: tuple[RealCluster, bool]
) -> None:
    await publish(world, part("a", "mig"), part("b", "vgpu"), part("c", "vgpu", "mig"))
    await world.add_template("two", world.request(count=2))
    await world.add_template("one-gpu")

    await world.add_pod("first", template="two")
    await world.wait_bound("first")
    (claim,) = await world.api.list("resourceclaims", world.namespace)
    given = [result["device"] for result in claim["status"]["allocation"]["devices"]["results"]]
    is_on = plane[1]
    assert given == (["a", "c"] if is_on else ["a", "b"])

    await world.add_pod("second", template="one-gpu")
    if not is_on:
        await world.wait_bound("second")
        return
    message = (await world.wait_unschedulable("second"))["message"]
    assert "cannot allocate all claims" in message
    if UNDER_TEST == "ours":
        assert "[partition-blocked]" in message
        assert "compatibility group vgpu" in message
