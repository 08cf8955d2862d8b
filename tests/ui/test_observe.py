"""`dra-scheduler observe` beside a cluster: what it serves, what it creates, and that it changes nothing else."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli
from scheduler.embedded.cluster import EmbeddedCluster
from tests.offline.causes import claim, device_class, gpu, node, pod, request, slice_
from tests.patience import PATIENCE_S
from tests.ui.page_process import page_process

_METRICS: Final = re.compile(r"metrics are at port (\d+)\n")


class Observed(NamedTuple):
    """Where a process serves."""

    page: str
    metrics: str


@asynccontextmanager
async def observing(cluster: EmbeddedCluster, folder: Path, *options: str) -> AsyncIterator[Observed]:
    """A process; it ends in order."""
    arguments = (f"--kubeconfig={cluster.kubeconfig_path}", "--port=0", "--health-port=0", *options)
    async with page_process(folder, *arguments, command="observe") as url:
        port = _METRICS.search((folder / "page.log").read_text())
        yield Observed(url, f"http://127.0.0.1:{port[1]}" if port else "")


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        return reply.status, await reply.text()


async def listed(cluster: EmbeddedCluster, path: str) -> list[dict[str, Any]]:
    return list(json.loads((await get(f"{cluster.url}{path}"))[1])["items"])


async def said(cluster: EmbeddedCluster, *names: str) -> dict[str, list[str]]:
    """What events say of each pod, once there is one of each of these."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            events = await listed(cluster, "/apis/events.k8s.io/v1/events")
            notes = [(one["regarding"]["name"], one["note"]) for one in events if one["reason"] == "WhyPending"]
            if {*names} <= {name for name, _ in notes}:
                return {name: [note for other, note in notes if other == name] for name, _ in notes}
            await asyncio.sleep(0.05)


def waiting(name: str, count: int, scheduler: str = "default-scheduler") -> list[dict[str, Any]]:
    return [claim(request(count=count), name=name), pod(name, name=name, schedulerName=scheduler)]


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """Two devices, and pods of three schedulers, none of which runs."""
    async with EmbeddedCluster(controllers=False) as opened:
        theirs, ours, others = (
            waiting(f"of-{name[:2]}", 3, name) for name in ("default-scheduler", "dra-scheduler", "volcano")
        )
        await opened.apply([node(), slice_(gpu("gpu-0"), gpu("gpu-1")), device_class(), *theirs, *ours, *others])
        yield opened


async def test_it_answers_for_pods_of_every_scheduler_and_writes_nothing(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    revision = cluster.api.store.revision
    async with observing(cluster, tmp_path) as observed:
        async with asyncio.timeout(PATIENCE_S):
            while (await get(f"{observed.metrics}/readyz"))[0] != 200:  # noqa: ASYNC110 - what another process does
                await asyncio.sleep(0.05)
        assert await get(f"{observed.metrics}/livez") == (200, "ok\n")
        async with asyncio.timeout(PATIENCE_S):
            while "dra_waiting_pods{" not in (metrics := (await get(f"{observed.metrics}/metrics"))[1]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert "process_resident_memory_bytes" in metrics
        assert 'dra_waiting_pods{age="<1m",cause="devices-short"} 3.0' in metrics
        assert re.search(r'dra_devices\{device_class="gpu.example.com",.*state="free"\} 2.0', metrics)
        _, text = await get(f"{observed.page}api/pending")
        rows = json.loads(text)["pods"]
        assert {name: row["kind"] for row in rows for name in row["names"]} == {
            "of-de": "devices-short",
            "of-dr": "devices-short",
            "of-vo": "devices-short",
        }
        _, text = await get(f"{observed.page}api/pod?namespace=default&name=of-de")
        assert "answered as kube-scheduler" in json.loads(text)["notes"][0]
        assert (await get(f"{observed.page}api/whatif?pod=default/of-de"))[0] == 200
    assert cluster.api.store.revision == revision


async def test_events_say_each_cause_once_also_after_a_restart(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    names = ("of-de", "of-dr", "of-vo")
    async with observing(cluster, tmp_path, "--events"):
        first = await said(cluster, *names)
    await cluster.apply(waiting("z-new", 4))
    async with observing(cluster, tmp_path, "--events", "--no-health") as observed:
        again = await said(cluster, *names, "z-new")  # the last of a round
        assert observed.metrics == ""
    assert {name: notes for name, notes in again.items() if name != "z-new"} == first
    assert all(len(notes) == 1 for notes in again.values())
    assert again["z-new"][0].startswith("[devices-short] node node-1 has 2 devices")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--serving=plain", "--address=0.0.0.0", "--no-health"), "plain is for loopback addresses only"),
        (("--kube-scheduler-config", __file__), "test_observe.py:1:3"),
        (("-f", __file__), "dra-scheduler ui shows files"),
    ],
    ids=lambda given: " ".join(given)[:30],
)
async def test_wrong_use_is_refused(
    cluster: EmbeddedCluster, options: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    connects = [] if "-f" in options else [f"--kubeconfig={cluster.kubeconfig_path}"]
    arguments = ["observe", *connects, *options]
    refused = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
    assert refused.exit_code == 2, refused.output
    assert text in refused.output
    assert "Traceback" not in refused.output
