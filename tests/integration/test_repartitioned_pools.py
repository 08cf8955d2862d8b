"""A driver puts partitions in the place of a whole device that a pod has: both claims are told, and lint says it."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.integration.api import Object
from tests.integration.conftest import RealCluster
from tests.integration.world import ROOT, UNDER_TEST, World

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler says nothing")

CONSUMES = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]


async def test_claims_of_a_pool_that_was_partitioned_in_use_are_told(world: World) -> None:
    (node,) = await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("whole", template="one-gpu")
    await world.wait_bound("whole")

    pool = {"name": node, "generation": 2, "resourceSliceCount": 2}
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    common = {"driver": world.driver, "nodeName": node, "pool": pool}
    for name, more in (
        ("counters", {"sharedCounters": counters}),
        ("halves", {"devices": [{"name": f"gpu-0-half-{part}", "consumesCounters": CONSUMES} for part in range(2)]}),
    ):
        await world.create("resourceslices", {"metadata": {"name": f"{node}-{name}"}, "spec": {**common, **more}})
    await world.api.delete("resourceslices", f"{node}-1-first")
    await world.add_pod("half", template="one-gpu")
    await world.wait_bound("half")
    claims = [(await world.claim_of(pod))["metadata"]["name"] for pod in ("whole", "half")]

    def told(events: dict[str, Object]) -> bool:
        found = {one["regarding"]["name"] for one in events.values() if one["reason"] == "DeviceRepartitioned"}
        return found >= set(claims)

    await world.wait_for("events", told, what="an event on each claim")
    assert f"ResourceClaim {world.namespace}/{claims[0]}: pool {node} does not publish its device gpu-0" in await lint(
        world
    )


async def lint(world: World) -> str:
    """What `dra-scheduler lint` says of this cluster, given no manifest of its own."""
    # A person's: the scheduler's own rights leave out kinds that lint looks at.
    cluster = world.cluster
    if isinstance(cluster, RealCluster):
        kubeconfig = cluster.control_plane.kubeconfig("admin")
    else:
        kubeconfig = cluster.scheduler_kubeconfig(world.proxy.url)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "lint", "-", f"--kubeconfig={kubeconfig}"),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return output.decode()
