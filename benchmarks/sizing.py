"""What a leader and a standby need, for docs/operations.md: memory, CPU at rest and under churn, and a takeover.

    python -m benchmarks.sizing --nodes 500 --pods 500
    python -m benchmarks.sizing                         # 5,000 nodes of 8 devices, 5,000 pods with a claim each

Two processes of one name on a real API server, as the overlay high-availability runs them. Churn is pods with a claim,
`--rate` a second. At the end the leader is killed, and the standby's log says how long it took to catch up. CPU is the
processes' own, in milliseconds of it a second of time; memory is resident, after each step.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import socket
import sys
import time
from pathlib import Path
from typing import Final

import aiohttp
import uvloop
import yaml

from benchmarks.cold_start import READY_SECONDS, fill
from benchmarks.contenders import ROOT, Ours
from benchmarks.fleet import NAMESPACE, Fleet, Size, workloads
from benchmarks.loads import CREATING, create_all, set_stage
from tests.controlplane.cluster import ControlPlane
from tests.integration.api import Api, connected

TIMES: Final = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}
SETTLING_S: Final = 10.0  # the standby has just become ready
ROLES: Final = ("leader", "standby")


class Replica(Ours):
    """One of the two."""

    def __init__(self, role: str, tree: Path) -> None:
        super().__init__(tree=tree)
        self.role = role
        self.log = Path()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]

    async def start(self, cluster: ControlPlane, api: Api, fleet: Fleet) -> None:
        head = {"apiVersion": "dra-scheduler/v1alpha1", "kind": "DraSchedulerConfiguration"}
        config = cluster.folder / "sizing.yaml"
        config.write_text(yaml.safe_dump({**head, "leaderElection": TIMES, "tuneGc": True}))  # as the manifests have it
        self.log = cluster.folder / f"{self.role}.log"
        command = ["-m", "scheduler", "run", f"--kubeconfig={cluster.kubeconfig('admin')}", f"--config={config}"]
        self._process.spawn([*command, f"--health-port={self._port}", "--log-level=info"], self.log, tree=self.tree)
        async with asyncio.timeout(READY_SECONDS), aiohttp.ClientSession() as session:
            while not await self._is_ready(session):
                self.check_alive()
                await asyncio.sleep(0.2)

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"http://127.0.0.1:{self._port}/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False  # not listening yet

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
            print(f"{what:10} {one.role:8} {one.resident_bytes() / 2**20:6.0f} MiB {cpu_ms:6.1f} ms of CPU a second")
        sys.stdout.flush()
        self._last = self._now()


async def add_pods(api: Api, fleet: Fleet, names: list[str], rate: float) -> None:
    """Pods with a claim of their own, so many a second; returns when all are bound."""
    for name in names:
        claim = {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": fleet.workload.claim}
        pod = fleet.pod(name, "dra-scheduler")
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        await create_all(api, [("resourceclaims", claim), ("pods", pod)])
        await asyncio.sleep(1 / rate)
    async with asyncio.timeout(READY_SECONDS):
        for name in names:
            while not (await api.get("pods", name, NAMESPACE))["spec"].get("nodeName"):  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.02)


async def run(arguments: argparse.Namespace) -> None:
    fleet = Fleet(workloads()["one-device"], Size(arguments.nodes, arguments.devices, arguments.pods))
    with ControlPlane(controllers=()) as cluster:
        context = cluster.ssl_context()
        async with connected(cluster.url, cluster.admin_token, context, limit=CREATING + 4) as api:
            await set_stage(api, fleet)
            await fill(api, fleet, "dra-scheduler")
            replicas = [Replica(role, arguments.tree) for role in ROLES]
            try:
                for one in replicas:
                    await one.start(cluster, api, fleet)
                    print(f"{one.role} ready after {one.cpu_seconds():.1f} s of CPU")
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8, help="a node")
    parser.add_argument("--pods", type=int, default=5000, help="that run, with a claim each")
    parser.add_argument("--rate", type=float, default=20, help="pods a second of the churn")
    parser.add_argument("--seconds", type=float, default=20, help="of rest, and of churn")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout whose scheduler it is")
    uvloop.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
