"""`dra-scheduler demo`: an embedded cluster, the live scheduler, and the examples, in one process.

Nothing here is special to the demo: the scheduler talks HTTP to the embedded API server exactly as it would to a real
one, and the example files are those in docs/examples.

Not here: what became of a pod (`pod_devices`), files brought into the cluster (`demo_objects`).
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import uvloop

from scheduler.cli.gate_options import gates_option
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.options import output_option, size_option
from scheduler.cli.pod_devices import OURS
from scheduler.cli.tables import print_document
from scheduler.cli.terminal import echo

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from allocator import Features
    from scheduler.cli.demo_objects import DemoObjects
    from scheduler.embedded.cluster import EmbeddedCluster

_SETTLE_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.05
_QUIET_POLLS: Final = 6  # without a change, before what does not fit is believed

_FILE: Final = click.Path(exists=True, allow_dash=True, path_type=str)


@click.command()
@click.option(
    "--nodes", default=2, show_default=True, type=click.IntRange(1, 1000), help="Nodes with 8 large GPUs each."
)
@output_option("table", "json", "yaml")
@click.option("--serve", is_flag=True, help="Keep cluster and scheduler running and print the kubeconfig's path.")
@click.option(
    "--apply",
    "extra",
    multiple=True,
    type=_FILE,
    help="Apply this file or folder too (repeatable); pods need `schedulerName: dra-scheduler`.",
)
@click.option("--empty", is_flag=True, help="No nodes and no example pods: only what --apply brings.")
@click.option(
    "--cluster",
    "cluster_files",
    multiple=True,
    type=_FILE,
    help="Nodes, slices, classes and all else from this file or folder (repeatable), in place of the built-in nodes "
    "and the example pods: manifests, or a dump (kubectl get nodes,resourceslices,deviceclasses,… -A -o yaml).",
)
@gates_option
@size_option
def demo(
    *,
    nodes: int,
    output: str,
    serve: bool,
    extra: tuple[str, ...],
    empty: bool,
    cluster_files: tuple[str, ...],
    feature_gates: dict[str, bool],
) -> None:
    """Try it without a cluster: watch example pods get their devices.

    Starts an in-memory API server with GPU nodes like those of the dra-example-driver, runs the scheduler against it,
    applies the examples (a training job that wants 4 GPUs on one NUMA node, an inference Deployment, containers that
    share a GPU, a pod that picks by CEL, a pod that cannot fit) and prints which pod got what, or why not.

    \b
    dra-scheduler demo --apply my-pods.yaml
    dra-scheduler demo --cluster dump.yaml --apply my-pods.yaml
    dra-scheduler demo --apply alternatives.yaml --feature-gates DRAPrioritizedList=false
    """
    from scheduler.cli.demo_objects import DemoError, DemoObjects

    signals: list[int] = []
    try:
        objects = DemoObjects.read(cluster_files, extra, nodes=nodes, is_empty=empty)
        settled = uvloop.run(_ended_by_signals(_demo(objects, feature_gates, output=output, serve=serve), signals))
    except DemoError as error:
        raise WrongInputError(str(error)) from error
    except asyncio.CancelledError:
        # All is put in order. A cluster that serves is ended like this; else something was left undone.
        sys.exit(0 if serve and signals == [signal.SIGTERM] else 128 + signals[0])
    if not settled:
        raise click.ClickException(f"after {_SETTLE_TIMEOUT_S:.0f} s some pods are neither placed nor refused")
    if objects.refused:
        more = f" (and {len(objects.refused) - 1} more)" if len(objects.refused) > 1 else ""
        raise WrongInputError(f"not all was applied: {objects.refused[0]}{more}")


async def _ended_by_signals(work: Coroutine[Any, Any, bool], signals: list[int]) -> bool:
    """Do it; SIGTERM, and SIGHUP of a terminal that is closed, cancel it, so that it takes away what it has made."""
    task = asyncio.ensure_future(work)

    def end(number: int) -> None:
        signals.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            asyncio.get_running_loop().add_signal_handler(number, end, number)
    return await task


async def _demo(objects: DemoObjects, feature_gates: dict[str, bool], *, output: str, serve: bool) -> bool:
    import aiohttp

    from scheduler.app import SchedulerApp
    from scheduler.config import Config, LeaderElection
    from scheduler.embedded.cluster import EmbeddedCluster
    from scheduler.kube.credentials import Connection

    async with EmbeddedCluster(token=secrets.token_urlsafe(32)) as cluster:
        _say(f"embedded cluster: {objects.description}")
        for problem in await objects.build(cluster):
            _say(problem)
        election = LeaderElection(leader_elect=False)
        config = Config(health_port=None, leader_election=election, feature_gates=feature_gates)
        connector = aiohttp.TCPConnector(ssl=cluster.tls)
        async with (
            SchedulerApp(Connection(kubeconfig=cluster.kubeconfig_path), config) as app,
            aiohttp.ClientSession(cluster.url, headers=cluster.headers, connector=connector) as session,
        ):
            await app.synced()
            reported: set[str] = set()
            if objects.infrastructure:
                # Pods that are there already have what they need before others come.
                await _settle(session, reported, expected=objects.pods_before)
            _say(f"scheduler is running; applying {objects.counted}")
            for problem in await objects.apply(cluster):
                _say(problem)
            settled = await _settle(session, reported, expected=objects.pods_before + objects.pods_expected)
            rows = await _rows(session)
            kubeconfig = cluster.kubeconfig_path if serve else None
            if output == "table":
                assert app.running is not None
                print_rows(rows, _causes(cluster, app.running.machine.store.features))
            else:
                more = {"kubeconfig": str(kubeconfig)} if kubeconfig is not None else {}
                print_document({"pods": rows, **more}, output)
            if kubeconfig is not None:
                await _serve(kubeconfig, is_printed=output != "table")
    return settled


async def _list(session: ClientSession, path: str) -> list[dict[str, Any]]:
    async with session.get(path) as response:
        response.raise_for_status()
        items: list[dict[str, Any]] = (await response.json())["items"]
        return items


async def _shown_pods(session: ClientSession) -> list[dict[str, Any]]:
    from scheduler.cli.pod_devices import is_shown

    return [pod for pod in await _list(session, "/api/v1/pods") if is_shown(pod)]


async def _is_growing(session: ClientSession, pods: Sequence[dict[str, Any]]) -> bool:
    """Whether a set will make more pods: a StatefulSet all of whose pods have a node, a DaemonSet not looked at yet."""
    nodes: dict[str, list[bool]] = {}
    for pod in pods:
        for owner in pod["metadata"].get("ownerReferences") or ():
            nodes.setdefault(owner["uid"], []).append(bool(pod["spec"].get("nodeName")))
    for one in await _list(session, "/apis/apps/v1/statefulsets"):
        known = nodes.get(one["metadata"]["uid"], [])
        if len(known) < one["spec"]["replicas"] and all(known):
            return True
    for one in await _list(session, "/apis/apps/v1/daemonsets"):
        status = one.get("status") or {}
        if "observedGeneration" not in status:
            return True
        if len(nodes.get(one["metadata"]["uid"], [])) < status["desiredNumberScheduled"]:
            return True
    return False


async def _notes(session: ClientSession, pods: Iterable[dict[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """What the events say of pods that are not bound, by uid: reason and note, oldest first."""
    waiting = {pod["metadata"]["uid"] for pod in pods if not pod["spec"].get("nodeName")}
    notes: dict[str, list[tuple[str, str]]] = {}
    if waiting:
        for event in await _list(session, "/api/v1/events"):
            uid = event.get("involvedObject", {}).get("uid")
            if uid in waiting:
                notes.setdefault(uid, []).append((event.get("reason", ""), event.get("message", "")))
    return notes


async def _rows(session: ClientSession) -> list[dict[str, Any]]:
    from scheduler.cli.pod_devices import pod_rows, preempted_rows

    pods = await _shown_pods(session)
    claims = await _list(session, "/apis/resource.k8s.io/v1/resourceclaims")
    rows = pod_rows(pods, claims, notes_by_uid=await _notes(session, pods))
    return rows + preempted_rows(await _list(session, "/api/v1/events"), pods)


def _causes(cluster: EmbeddedCluster, features: Features) -> dict[tuple[str, str], str]:
    """By pod, why it waits as things are now: what its condition advises was true when it was tried."""
    from scheduler.explain.waiting import ask_all
    from scheduler.offline import SourceObject
    from scheduler.why.reasons import TO_MAKE_IT_FIT

    given = [
        SourceObject(stored.name, {"apiVersion": kind.api_version, "kind": kind.kind, **stored.obj})
        for kind in cluster.api.registry.kinds
        if not kind.storage
        for stored in cluster.api.store.listed(kind.kind_id)
    ]
    found = ask_all(given, now_ms=time.time_ns() // 1_000_000, features=features)
    return {
        one.key: f"[{one.kind}] {one.cause}{TO_MAKE_IT_FIT if one.change else ''}{one.change}"
        for one in found.pods
        if one.kind and one.kind != "claim-not-made"  # of which the pod's event says why
    }


async def _report_preempted(session: ClientSession, reported: set[str]) -> None:
    from scheduler.cli.pod_devices import preempted_rows

    for row in preempted_rows(await _list(session, "/api/v1/events"), ()):
        what = f"{row['namespace']}/{row['name']}: {row['reason']}"
        if what not in reported:
            reported.add(what)
            _say(f"  {what}")


async def _settle(session: ClientSession, reported: set[str], *, expected: int) -> bool:
    """Wait until every expected pod has its verdict; says so as pods are bound. False when nothing happens any more."""
    from scheduler.cli.pod_devices import verdict_of

    loop = asyncio.get_running_loop()
    last_change_s, state, quiet = loop.time(), None, 0
    while loop.time() - last_change_s < _SETTLE_TIMEOUT_S:
        pods = await _shown_pods(session)
        notes = await _notes(session, pods)
        verdicts = {pod["metadata"]["uid"]: verdict_of(pod, notes.get(pod["metadata"]["uid"], ())) for pod in pods}
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if verdicts[uid] and uid not in reported:
                reported.add(uid)
                _say(f"  {pod['metadata']['namespace']}/{pod['metadata']['name']}: {verdicts[uid]}")
        await _report_preempted(session, reported)
        now = {(pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]) for pod in pods}
        if now != state:
            last_change_s, state, quiet = loop.time(), now, 0
        ours = sum(pod["spec"].get("schedulerName") == OURS for pod in pods)
        if ours >= expected and all(verdicts.values()) and not await _is_growing(session, pods):
            # A pod that does not fit may do so a moment later: its class or its claim is on the way.
            quiet += 1
            if quiet > _QUIET_POLLS or (pods and all(pod["spec"].get("nodeName") for pod in pods)):
                return True
        await asyncio.sleep(_POLL_S)
    return False


async def _serve(kubeconfig: Path, *, is_printed: bool) -> None:
    """Until it is cancelled."""
    from scheduler.cli.ui import page_of

    async with page_of(kubeconfig, "the demo's cluster") as page:
        _say(f"\nserving; look at {page}\ntry: kubectl --kubeconfig {kubeconfig} get pods -A\nstop with Ctrl-C")
        if not is_printed:
            echo(str(kubeconfig))
        await asyncio.Event().wait()


def print_rows(rows: Sequence[dict[str, Any]], causes: Mapping[tuple[str, str], str]) -> None:
    """The table: pod, node, devices, or why not: the cause where one is known, else what the scheduler says."""
    from scheduler.cli.tables import print_table

    print_table(
        ("POD", "NODE", "DEVICES, OR WHY NOT"),
        (
            (
                f"{row['namespace']}/{row['name']}",
                row["node"] or "<none>",
                ", ".join(device["device"] for device in row["devices"])
                if row["node"]
                else causes.get((row["namespace"], row["name"]), row["reason"]),
            )
            for row in rows
        ),
    )


def _say(text: str) -> None:
    """Progress goes to standard error: standard output is the answer."""
    echo(*text.split("\n"), is_error=True)
