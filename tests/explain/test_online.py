"""`explain` asked of an API server over HTTP says of planted causes what it says of a dump of the same cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.cli.dump import dump
from scheduler.cli.explain import explain
from scheduler.embedded.cluster import EmbeddedCluster
from tests.explain.test_explaining import ASKABLE, EXPECTED

REFUSED = ("priority-class-missing",)
"""No API server stores such a pod, so only files can hold it."""
ONLINE = [
    cause for cause in ASKABLE if cause.name in EXPECTED and cause.name not in REFUSED and not cause.needs_controllers
]


def told(*arguments: str) -> list[str]:
    """Cause, which is whole here, and advice."""
    result = CliRunner().invoke(explain, ["pod/asked", *arguments, "-o", "json"])
    assert result.exit_code == 1, result.output
    answer = json.loads(result.stdout)
    return [answer["cause"], answer["advice"]]


@pytest.mark.parametrize("cause", ONLINE, ids=lambda cause: cause.name)
async def test_an_api_server_and_its_dump_are_explained_alike(cause, tmp_path: Path) -> None:
    path = tmp_path / "dump.yaml"
    async with EmbeddedCluster(controllers=False) as cluster:
        await cause.build(cluster)
        source = "--kubeconfig", str(cluster.kubeconfig_path)
        online = await asyncio.to_thread(told, *source)
        path.write_text((await asyncio.to_thread(CliRunner().invoke, dump, list(source))).stdout)

    assert EXPECTED[cause.name] in online[0]
    assert online == told("-f", str(path))
