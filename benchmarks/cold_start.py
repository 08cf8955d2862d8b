"""Cold start: from the start of the process until it is ready, with a large cluster to read first.

    python -m benchmarks.cold_start                         # 5,000 nodes and slices of 8, 20,000 pods with a claim each
    python -m benchmarks.cold_start --nodes 100 --pods 200  # does it work

On a real API server. The pods are bound and hold a device each; creating all that takes some minutes, the start itself
is measured `--starts` times. Ready is what `/readyz` says: every kind listed, the machine told. At the end of each
start one pod is created and must be bound, on what was read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import aiohttp
import uvloop

from benchmarks.contenders import Ours
from benchmarks.fleet import NAMESPACE, Fleet, Object, Size, workloads
from benchmarks.loads import CREATING, create_all, set_stage
from tests.controlplane.cluster import ControlPlane
from tests.integration.api import Api, connected

READY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the process's start until it was ready, and until a new pod was bound; what it used until ready."""

    ready_s: float
    first_pod_s: float
    cpu_s: float
    resident_mib: float


def running_pods(fleet: Fleet, scheduler_name: str) -> Iterator[tuple[Object, Object, Object]]:
    """Pods on nodes, each with its claim and that claim's status, but for the pod's uid."""
    spec = fleet.workload.claim
    for number, (node, results) in zip(range(fleet.size.pods), fleet.bare_places(), strict=False):
        name = f"running-{number:05}"
        pod = fleet.pod(name, scheduler_name)
        pod["spec"] |= {"nodeName": node, "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
        finalizers = ["resource.kubernetes.io/delete-protection"]
        claim = {"metadata": {"namespace": NAMESPACE, "name": name, "finalizers": finalizers}, "spec": spec}
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}
        yield pod, claim, {"allocation": allocation}


async def fill(api: Api, fleet: Fleet, scheduler_name: str) -> None:
    waiting = running_pods(fleet, scheduler_name)

    async def filler() -> None:
        for pod, claim, status in waiting:
            name = claim["metadata"]["name"]
            await api.create("resourceclaims", claim)
            uid = (await api.create("pods", pod))["metadata"]["uid"]
            status["reservedFor"] = [{"resource": "pods", "name": name, "uid": uid}]
            await api.merge_patch("resourceclaims", name, {"status": status}, NAMESPACE, "status")

    async with asyncio.TaskGroup() as group:
        for _ in range(CREATING):
            group.create_task(filler())


async def start_once(cluster: ControlPlane, api: Api, fleet: Fleet, number: int) -> Start:
    """Start it, wait until it is ready, have it bind one pod, stop it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    one = Ours(arguments=(f"--health-port={port}", "--log-level=info"))
    began = time.monotonic()
    await one.start(cluster, api, fleet)
    try:
        await _ready(one, f"http://127.0.0.1:{port}/readyz")
        ready_s, cpu_s, resident = time.monotonic() - began, one.cpu_seconds(), one.resident_bytes()
        name = f"first-{number}"
        claim = {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": fleet.workload.claim}
        pod = fleet.pod(name, one.scheduler_name)
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        await create_all(api, [("resourceclaims", claim), ("pods", pod)])
        asked = time.monotonic()
        async with asyncio.timeout(READY_SECONDS):
            while not (await api.get("pods", name, NAMESPACE))["spec"].get("nodeName"):
                one.check_alive()
                await asyncio.sleep(0.01)
        return Start(ready_s, time.monotonic() - asked, cpu_s, resident / 2**20)
    finally:
        await asyncio.to_thread(one.stop)


async def _ready(one: Ours, url: str) -> None:
    async with asyncio.timeout(READY_SECONDS), aiohttp.ClientSession() as session:
        while True:
            one.check_alive()
            try:
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectorError:
                pass  # not listening yet
            await asyncio.sleep(0.05)


async def run(arguments: argparse.Namespace) -> tuple[float, list[Start]]:
    size = Size(arguments.nodes, arguments.devices, arguments.pods)
    fleet = Fleet(workloads()["one-device"], size)
    with ControlPlane(controllers=()) as cluster:
        context = cluster.ssl_context()
        async with connected(cluster.url, cluster.admin_token, context, limit=CREATING + 4) as api:
            began = time.monotonic()
            await set_stage(api, fleet)
            await fill(api, fleet, "dra-scheduler")
            stage_s = time.monotonic() - began
            print(f"{size.nodes} nodes and {size.pods} pods created in {stage_s:.0f} s", file=sys.stderr, flush=True)
            starts = []
            for number in range(arguments.starts):
                start = await start_once(cluster, api, fleet, number)
                print(start, file=sys.stderr, flush=True)
                starts.append(start)
    return stage_s, starts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8, help="a node")
    parser.add_argument("--pods", type=int, default=20_000, help="that run, with a claim each")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    arguments = parser.parse_args()
    stage_s, starts = uvloop.run(run(arguments))
    medians = {name: statistics.median(asdict(start)[name] for start in starts) for name in Start.__dataclass_fields__}
    if arguments.output == "json":
        print(json.dumps({"medians": medians, "starts": [asdict(start) for start in starts], "stage_s": stage_s}))
    else:
        print(", ".join(f"{name} {value:.2f}" for name, value in medians.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
