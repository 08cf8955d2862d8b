"""What is asked of a dump is answered as it is of the cluster that was dumped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli
from tests.integration.conftest import RealCluster
from tests.integration.world import UNDER_TEST, World

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="a command of ours")
PRIVATE = "do-not-show-this"


async def test_commands_answer_of_a_dump_what_they_answer_of_the_cluster(world: World, tmp_path: Path) -> None:
    node, _ = await world.add_nodes(2, devices=2)
    await world.add_class()
    await world.add_template()
    await world.add_template("three-gpus", world.request(count=3))
    await world.start_scheduler()
    container = {
        "name": "c",
        "image": "example.com/app:1",
        "env": [{"name": "TOKEN", "value": PRIVATE}],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    for name, template in (("runs", "one-gpu"), ("waits", "three-gpus")):
        await world.add_pod(name, template=template, containers=[container])
    await world.wait_bound("runs")
    await world.wait_unschedulable("waits")
    await world.stop_scheduler()

    kubeconfig = kubeconfig_of(world)
    dumped = await run("dump", "--kubeconfig", kubeconfig)
    path = tmp_path / "cluster.yaml"
    path.write_text(dumped[1])

    assert dumped[0] == 0
    assert PRIVATE not in dumped[1]
    for command, code in (
        (("devices", "-o", "json"), 0),
        (("devices", "--node", node, "-o", "wide"), 0),
        (("explain", "pod/waits", "-n", world.namespace, "-o", "json"), 1),
        (("simulate", "-o", "json"), 1),
    ):
        online = await run(*command, "--kubeconfig", kubeconfig)
        offline = await run(*command, "-f", str(path))

        assert online[0] == code, online
        assert offline == online


def kubeconfig_of(world: World) -> str:
    """A person's, who may read everything."""
    if isinstance(world.cluster, RealCluster):
        return str(world.cluster.control_plane.kubeconfig("admin"))
    return str(world.cluster.scheduler_kubeconfig(world.proxy.url))


async def run(*arguments: str) -> tuple[int, str]:
    """Exit code and standard output."""
    result = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
    return result.exit_code, result.stdout
