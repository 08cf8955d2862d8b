"""What a scheduler and its commands need, for docs/operations.md: memory, CPU, the first start, a takeover.

    python -m benchmarks.sizing --nodes 500 --pods 500      # all rows
    python -m benchmarks.sizing --row pair                  # 5,000 nodes of 8 devices, 5,000 pods with a claim each
    python -m benchmarks.sizing --row start --pods 20000
    python -m benchmarks.sizing --row explain

pair     two processes of one name on a real API server, as the overlay high-availability runs them. Churn is pods with
         a claim, `--rate` a second. At the end the leader is killed, and the standby's log says how long it took to
         catch up. CPU is the processes' own, in milliseconds of it a second; memory is resident, after each step
start    from the start of a process until `/readyz` says that every kind is listed and the machine told, `--starts`
         times, and until a pod that is created then is bound; the pods on the server are bound and hold a device each
explain  `dra-scheduler explain` in a new process, on a dump: the pod asks for one device more than a node has. The goal
         (issue 54) is 2 s and 300 MiB. Python's compiled files are there, as they are for whoever uses it twice
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import uvloop
import yaml

from benchmarks.contenders import Serving
from benchmarks.fleet import NAMESPACE, Fleet, Object, Size, workloads
from benchmarks.loads import CREATING, create_all, place_all, set_stage
from tests.controlplane.cluster import ControlPlane
from tests.integration.api import Api, connected
from tests.offline.causes import Obj, claim, device_class, gpu, node, pod, request, slice_

READY_SECONDS: Final = 300.0
TIMES: Final = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}
SETTLING_S: Final = 10.0  # the standby has just become ready


# -- a cluster whose pods run ---------------------------------------------------------------------------------------


@asynccontextmanager
async def full_cluster(arguments: argparse.Namespace) -> AsyncIterator[tuple[ControlPlane, Api, Fleet]]:
    """A real API server with the nodes, and the pods on them, each with its claim."""
    fleet = Fleet(workloads()["one-device"], Size(arguments.nodes, arguments.devices, arguments.pods))
    with ControlPlane(controllers=()) as cluster:
        context = cluster.ssl_context()
        async with connected(cluster.url, cluster.admin_token, context, limit=CREATING + 4) as api:
            await set_stage(api, fleet)
            await place_all(api, fleet.running("dra-scheduler"))
            yield cluster, api, fleet


def _pod_with_claim(fleet: Fleet, name: str) -> tuple[Object, Object]:
    made = fleet.pod(name, "dra-scheduler")
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    return made, {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": fleet.workload.claim}


async def add_pods(api: Api, fleet: Fleet, names: list[str], rate: float) -> None:
    """Pods with a claim of their own, so many a second; returns when all are bound."""
    for name in names:
        made, wanted = _pod_with_claim(fleet, name)
        await create_all(api, [("resourceclaims", wanted), ("pods", made)])
        await asyncio.sleep(1 / rate)
    async with asyncio.timeout(READY_SECONDS):
        for name in names:
            while not (await api.get("pods", name, NAMESPACE))["spec"].get("nodeName"):  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.01)


# -- leader and standby ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Replica(Serving):
    """One of the two; its name is its role."""

    log: Path = Path()

    async def start(self, cluster: ControlPlane, api: Api, fleet: Fleet) -> None:
        head = {"apiVersion": "dra-scheduler/v1alpha1", "kind": "DraSchedulerConfiguration"}
        config = cluster.folder / "sizing.yaml"
        config.write_text(yaml.safe_dump({**head, "leaderElection": TIMES, "tuneGc": True}))  # as the manifests have it
        self.log = cluster.folder / f"{self.name}.log"
        command = ["-m", "scheduler", "run", f"--kubeconfig={cluster.kubeconfig('admin')}", f"--config={config}"]
        self._process.spawn([*command, f"--health-port={self.port}", "--log-level=info"], self.log)
        await self.until_ready(READY_SECONDS)

    def kill(self) -> None:
        self._process.running.kill()
        self._process.running.wait()

    def caught_up(self) -> str:
        found = re.search(r"caught up in .*", self.log.read_text(encoding="utf-8"))
        return found[0] if found else ""


class Measured:
    """Prints what each replica used since the line before."""

    def __init__(self, replicas: list[Replica]) -> None:
        self.replicas = replicas
        self._last = self._now()

    def _now(self) -> tuple[float, list[float]]:
        return time.monotonic(), [one.cpu_seconds() for one in self.replicas]

    def say(self, what: str) -> None:
        (before_s, before), (now_s, now) = self._last, self._now()
        for one, first, last in zip(self.replicas, before, now, strict=True):
            cpu_ms = 1000 * (last - first) / (now_s - before_s)
            print(f"{what:10} {one.name:8} {one.resident_bytes() / 2**20:6.0f} MiB {cpu_ms:6.1f} ms of CPU a second")
        sys.stdout.flush()
        self._last = self._now()


async def pair(arguments: argparse.Namespace) -> None:
    async with full_cluster(arguments) as (cluster, api, fleet):
        replicas = [Replica(name) for name in ("leader", "standby")]
        try:
            for one in replicas:
                await one.start(cluster, api, fleet)
                print(f"{one.name} ready after {one.cpu_seconds():.1f} s of CPU")
            measured = Measured(replicas)
            await asyncio.sleep(SETTLING_S)
            measured.say("settling")
            await asyncio.sleep(arguments.seconds)
            measured.say("at rest")
            churn = [f"churn-{number:05}" for number in range(int(arguments.rate * arguments.seconds))]
            await add_pods(api, fleet, churn, arguments.rate)
            measured.say(f"{arguments.rate:g} pods/s")
            replicas[0].kill()
            killed_s, cpu_s = time.monotonic(), replicas[1].cpu_seconds()
            await add_pods(api, fleet, ["takeover-0"], arguments.rate)
            print(
                f"takeover: bound {time.monotonic() - killed_s:.1f} s after the kill, "
                f"{replicas[1].cpu_seconds() - cpu_s:.2f} s of CPU, "
                f"{replicas[1].resident_bytes() / 2**20:.0f} MiB; {replicas[1].caught_up()}"
            )
        finally:
            for one in replicas:
                await asyncio.to_thread(one.stop)


# -- the first start ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the process's start until it was ready, and until a new pod was bound; what it used until ready."""

    ready_s: float
    first_pod_s: float
    cpu_s: float
    resident_mib: float


async def start(arguments: argparse.Namespace) -> None:
    async with full_cluster(arguments) as (cluster, api, fleet):
        starts = [await _start_once(cluster, api, fleet, number) for number in range(arguments.starts)]
    medians = {name: statistics.median(asdict(one)[name] for one in starts) for name in Start.__dataclass_fields__}
    print("start: " + ", ".join(f"{name} {value:.2f}" for name, value in medians.items()))


async def _start_once(cluster: ControlPlane, api: Api, fleet: Fleet, number: int) -> Start:
    one = Serving()
    one.arguments = (f"--health-port={one.port}", "--log-level=info")
    began = time.monotonic()
    await one.start(cluster, api, fleet)
    try:
        await one.until_ready(READY_SECONDS)
        ready_s, cpu_s, resident = time.monotonic() - began, one.cpu_seconds(), one.resident_bytes()
        asked = time.monotonic()
        await add_pods(api, fleet, [f"first-{number}"], rate=1e9)
        return Start(ready_s, time.monotonic() - asked, cpu_s, resident / 2**20)
    finally:
        await asyncio.to_thread(one.stop)


# -- explain --------------------------------------------------------------------------------------------------------


def _objects(nodes: int, devices: int) -> Iterator[Obj]:
    yield device_class()
    for number in range(nodes):
        name = f"node-{number:05}"
        yield node(name)
        yield slice_(*(gpu(f"gpu-{index}") for index in range(devices)), where=name)
    yield claim(request(count=devices + 1, allocationMode="ExactCount"))  # a server fills the mode in
    yield pod("gpu")


def _explained(path: Path, nodes: int, devices: int) -> str:
    """The first two lines of what it says of a dump as `kubectl get … -o json` prints it."""
    items = []
    for number, obj in enumerate(_objects(nodes, devices), 1):
        metadata = {"uid": f"uid-{number}", "resourceVersion": str(number), "creationTimestamp": "2026-01-01T00:00:00Z"}
        items.append({**obj, "metadata": {**obj["metadata"], **metadata}})
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "scheduler", "explain", "pod/asked", "-f", os.fspath(path)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    assert told.returncode == 1, told
    return "\n".join(told.stdout.splitlines()[:2])


async def explain(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _explained(Path(folder) / "small.json", 1, arguments.devices)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(_explained(Path(folder) / "dump.json", arguments.nodes, arguments.devices))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(f"explain: {cpu:.1f} s of CPU, {used.ru_maxrss // 1024} MiB")


ROWS: Final = {"explain": explain, "start": start, "pair": pair}
"""Of processes that have ended the largest counts: `explain` comes first."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", choices=ROWS, action="append", help="repeatable; default: all")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8, help="a node")
    parser.add_argument("--pods", type=int, default=5000, help="that run, with a claim each")
    parser.add_argument("--rate", type=float, default=20, help="pods a second of the churn")
    parser.add_argument("--seconds", type=float, default=20, help="of rest, and of churn")
    parser.add_argument("--starts", type=int, default=3)
    arguments = parser.parse_args()
    for name in ROWS:
        if arguments.row is None or name in arguments.row:
            uvloop.run(ROWS[name](arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
