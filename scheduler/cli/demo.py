"""`dra-scheduler demo`: an embedded cluster, the live scheduler, and the examples, in one process.

Nothing here is special to the demo: the scheduler talks HTTP to the embedded API server exactly as it would to a real
one, and the example files are those in docs/examples.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
import uvloop

_SETTLE_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.05
_PIPED_WIDTH: Final = 160  # columns, where no terminal says how many it has


@click.command()
@click.option(
    "--nodes", default=2, show_default=True, type=click.IntRange(1, 1000), help="Nodes with 8 large GPUs each."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json is for programs.",
)
@click.option("--serve", is_flag=True, help="Keep cluster and scheduler running and print the kubeconfig's path.")
@click.option(
    "--apply",
    "extra",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Apply this file too (repeatable); pods need `schedulerName: dra-scheduler`.",
)
def demo(nodes: int, output: str, serve: bool, extra: tuple[Path, ...]) -> None:
    """Try it without a cluster: watch example pods get their devices.

    Starts an in-memory API server with GPU nodes like those of the dra-example-driver, runs the scheduler against it,
    applies the examples (a training job that wants 4 GPUs on one NUMA node, an inference Deployment, containers that
    share a GPU, a pod that picks by CEL, a pod that cannot fit) and prints which pod got what, or why not.
    """
    try:
        settled = uvloop.run(_demo(nodes=nodes, output=output, serve=serve, extra=extra))
    except DemoError as error:
        raise click.ClickException(str(error)) from error
    if not settled:
        raise click.ClickException(f"some pods had no verdict after {_SETTLE_TIMEOUT_S:.0f} s")


class DemoError(Exception):
    """Something the user can act on: a file that cannot be read or that the API server refuses."""


async def _demo(*, nodes: int, output: str, serve: bool, extra: Sequence[Path]) -> bool:
    from scheduler.app import SchedulerApp
    from scheduler.cli.demo_cluster import fleet
    from scheduler.config import Config
    from scheduler.embedded import ApiError, EmbeddedCluster
    from scheduler.kube.credentials import Connection

    examples = _read([*_example_files(), *extra])
    async with EmbeddedCluster() as cluster:
        _say(f"embedded cluster: {nodes} nodes with 8 large GPUs, 1 with 8 small ones")
        await cluster.apply(fleet(large_nodes=nodes, small_nodes=1))
        async with SchedulerApp(Connection(url=cluster.url), Config(health_port=None)) as app:
            await app.synced()
            _say(f"scheduler is running; applying {len(examples)} objects from docs/examples")
            try:
                await cluster.apply(examples)
            except ApiError as error:
                raise DemoError(str(error)) from error
            settled = await _settle(cluster.url, expected=sum(map(_pods_of, examples)))
            rows = await _rows(cluster.url)
            if output == "json":
                click.echo(json.dumps({"pods": rows}, indent=2))
            else:
                print_rows(rows)
            if serve:
                await _serve(cluster.kubeconfig_path)
    return settled


def _example_files() -> list[Path]:
    """The examples: beside this module in an installed wheel, under docs/ in a checkout. The class comes first."""
    here = Path(__file__).resolve().parent
    folder = next(folder for folder in (here / "examples", here.parents[1] / "docs" / "examples") if folder.is_dir())
    return sorted(folder.glob("*.yaml"), key=lambda path: (path.name != "gpu-class.yaml", path.name))


def _read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    from scheduler.cli.manifests import ManifestError, read_manifests

    try:
        return [document.obj for document in read_manifests(paths)]
    except ManifestError as error:
        raise DemoError(str(error)) from error


def _pods_of(obj: dict[str, Any]) -> int:
    """How many pods of ours an applied object leads to."""
    spec = obj.get("spec", {})
    template = spec if obj["kind"] == "Pod" else spec.get("template", {}).get("spec", {})
    if template.get("schedulerName") != "dra-scheduler":
        return 0
    counts = {"Pod": 1, "Deployment": spec.get("replicas", 1), "ReplicaSet": spec.get("replicas", 1)}
    return int(counts.get(obj["kind"], spec.get("parallelism", 1) if obj["kind"] == "Job" else 0))


async def _list(url: str, path: str) -> list[dict[str, Any]]:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(url + path) as response:
        response.raise_for_status()
        items: list[dict[str, Any]] = (await response.json())["items"]
        return items


async def _our_pods(url: str) -> list[dict[str, Any]]:
    pods = await _list(url, "/api/v1/pods")
    return [pod for pod in pods if pod["spec"].get("schedulerName") == "dra-scheduler"]


async def _rows(url: str) -> list[dict[str, Any]]:
    from scheduler.cli.pod_devices import pod_rows

    return pod_rows(await _our_pods(url), await _list(url, "/apis/resource.k8s.io/v1/resourceclaims"))


async def _settle(url: str, *, expected: int) -> bool:
    """Wait until every expected pod has its verdict; says so as pods are bound. False when time ran out."""
    from scheduler.cli.pod_devices import is_settled

    told: set[str] = set()
    deadline = asyncio.get_running_loop().time() + _SETTLE_TIMEOUT_S
    while asyncio.get_running_loop().time() < deadline:
        pods = await _our_pods(url)
        for pod in pods:
            if is_settled(pod) and pod["metadata"]["uid"] not in told:
                told.add(pod["metadata"]["uid"])
                node = pod["spec"].get("nodeName")
                where = f"bound to {node}" if node else "does not fit now"
                _say(f"  {pod['metadata']['namespace']}/{pod['metadata']['name']}: {where}")
        if len(pods) >= expected and all(map(is_settled, pods)):
            return True
        await asyncio.sleep(_POLL_S)
    return False


async def _serve(kubeconfig: Path) -> None:
    _say(f"\nserving; try: kubectl --kubeconfig {kubeconfig} get pods -A\nstop with Ctrl-C")
    click.echo(str(kubeconfig))
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    with suppress(asyncio.CancelledError):
        await stopped.wait()


def print_rows(rows: Iterable[dict[str, Any]]) -> None:
    """The table: pod, node, devices, or why not."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("POD", overflow="fold")
    table.add_column("NODE", no_wrap=True)
    table.add_column("DEVICES, OR WHY NOT", overflow="fold")
    for row in rows:
        devices = ", ".join(device["device"] for device in row["devices"])
        table.add_row(
            escape(f"{row['namespace']}/{row['name']}"),
            escape(row["node"] or "<none>"),
            escape(devices if row["node"] else row["reason"]),
        )
    Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(table)


def _say(text: str) -> None:
    """Progress goes to standard error: standard output is the answer."""
    click.echo(text, err=True)
