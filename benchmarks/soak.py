"""Leader and standby for hours, while pods come and go of which no two are alike: does their memory stay?

    python -m benchmarks.soak --minutes 60            # the real API server; needs Go
    python -m benchmarks.soak --embedded --minutes 5  # the embedded server, in this process: no Go

100 nodes of 8 devices. Pods come at --rate a second, but none while 64 wait: a slow machine is not buried. Each pod has
a name, labels, a CEL selector in its claim and label selectors of affinity and spreading of its own, so that what is
remembered of one pod serves no other. The oldest is deleted, with its claim, as soon as more than --alive are bound.

Each 15 s a line: pods bound so far, and a second in these 15 s; what is resident; p50 and p99 of pods bound in these
15 s, from the request that creates a pod to its binding, as a watch sees it; the leader's CPU time for each of them.

What is expected
    At the end, what is resident of leader and of standby is at most 10 % more than at minute 3, in one hour as in 24.
    p99 and CPU per pod do not grow. Each pod is bound within a minute.

The last lines are the verdict; the exit code is 1 when not all is as expected. A run of less than six minutes compares
its last line with its middle one, which says little. All share this machine's cores: compare times among themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import aiohttp

from benchmarks.contenders import ContenderError, Ours, told
from benchmarks.fleet import CLASS, DRIVER, NAMESPACE, Fleet, Object, Size, workloads
from benchmarks.loads import FIRST_SECONDS, quantile, set_stage, warm_up
from benchmarks.report import until_stopped
from benchmarks.watching import BoundPods
from scheduler.embedded.cluster import EmbeddedCluster
from tests.controlplane.cluster import ControlPlane
from tests.integration.api import Api, ApiError, connected

EVERY_S: Final = 15.0
BASE_S: Final = 180.0
GROWTH_GOAL: Final = 0.10
WAITING_MAX: Final = 64
_STAGE_S, _TAIL_S = 120.0, 60.0
_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
FLEET: Final = Fleet(workloads()["one-device"], Size(100, 8, 1))
Line: TypeAlias = tuple[float, tuple[float, float]]  # seconds, and MiB of leader and standby


def objects_of(number: int, scheduler_name: str) -> tuple[Object, Object]:
    """The pod of that number and its claim; all that others could share is its own."""
    name, app = f"pod-{number:07}", f"app-{number}"
    expression = f"device.attributes['{DRIVER}'].uuid != 'job-{number}'"
    exactly = {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": expression}}]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    claim = {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec}
    pod = FLEET.pod(name, scheduler_name)
    pod["metadata"]["labels"] = {"app": app, f"job-{number}": "yes"}
    own, other = ({"matchLabels": {"app": value}} for value in (app, f"app-{max(number - 7, 0)}"))
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": _HOST, "labelSelector": own}]}
    soft = {"weight": 1, "podAffinityTerm": {"topologyKey": _ZONE, "labelSelector": other}}
    near = {"preferredDuringSchedulingIgnoredDuringExecution": [soft]}
    spread = {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": own}
    pod["spec"] |= {
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        "affinity": {"podAntiAffinity": apart, "podAffinity": near},
        "topologySpreadConstraints": [spread],
    }
    return pod, claim


@dataclass(slots=True)
class Stream:
    """The pods that come and go; `waiting` has when those were created that are not yet reported as bound."""

    api: Api
    bound: BoundPods
    leader: Ours
    alive: int
    waiting: dict[str, float] = field(default_factory=dict)
    living: deque[str] = field(default_factory=deque)

    async def run(self, rate: float, seconds: float) -> None:
        begun, number, free = time.monotonic(), 0, asyncio.Semaphore(WAITING_MAX)
        async with asyncio.TaskGroup() as group:
            while (now := time.monotonic()) < begun + seconds:
                await asyncio.sleep(max(begun + number / rate - now, 0))
                await free.acquire()
                group.create_task(self._replace(number)).add_done_callback(lambda _: free.release())
                number += 1

    async def _replace(self, number: int) -> None:
        """One comes and is bound, and the oldest goes when there are too many."""
        pod, claim = objects_of(number, self.leader.scheduler_name)
        name = pod["metadata"]["name"]
        await self.api.create("resourceclaims", claim)
        self.waiting[name] = time.monotonic()
        await self.api.create("pods", pod)
        await self.bound.wait_names([name], seconds=_TAIL_S, check=self.leader.check_alive)
        self.living.append(name)
        if len(self.living) > self.alive:
            old = self.living.popleft()
            for resource in ("pods", "resourceclaims"):
                await self.api.delete(resource, old, NAMESPACE)

    def take_times_ms(self) -> list[float]:
        """Of the pods that were bound since the last call, sorted."""
        done = [name for name in self.waiting if name in self.bound.at]
        return sorted(1000 * (self.bound.at[name] - self.waiting.pop(name)) for name in done)


async def report(stream: Stream, pair: tuple[Ours, Ours], lines: list[Line]) -> None:
    """A line each 15 s, until it is cancelled."""
    begun = last = time.monotonic()
    total, spent = 0, pair[0].cpu_seconds()
    while True:
        await asyncio.sleep(begun + (len(lines) + 1) * EVERY_S - time.monotonic())
        for one in pair:
            one.check_alive()
        now, cpu, times = time.monotonic(), pair[0].cpu_seconds(), stream.take_times_ms()
        total += len(times)
        leader, standby = (one.resident_bytes() / 2**20 for one in pair)
        lines.append((now - begun, (leader, standby)))
        print(
            f"{now - begun:6.0f} s {total:8} bound {len(times) / (now - last):5.1f}/s  leader {leader:5.1f} MiB  "
            f"standby {standby:5.1f} MiB  p50 {quantile(times, 0.5):5.0f} ms  p99 {quantile(times, 0.99):5.0f} ms  CPU "
            f"{1000 * (cpu - spent) / max(len(times), 1):5.1f} ms/pod  {len(stream.waiting)} wait",
            flush=True,
        )
        last, spent = now, cpu


def verdict(lines: list[Line]) -> tuple[str, bool]:
    """The last lines of the report, and whether all is as expected."""
    if len(lines) < 2:
        return "too short for a verdict", False
    half, (end_s, end) = lines[(len(lines) - 1) // 2], lines[-1]
    base_s, base = next((line for line in lines if BASE_S <= line[0] <= half[0]), half)
    said, is_well = [], True
    for name, before, after in zip(("leader", "standby"), base, end, strict=True):
        growth = after / before - 1
        is_well &= growth <= GROWTH_GOAL
        much = ", TOO MUCH" if growth > GROWTH_GOAL else ""
        said.append(f"{name}: {before:.1f} MiB at {base_s:.0f} s, {after:.1f} at {end_s:.0f} s: {growth:+.1%}{much}")
    return "\n".join(said), is_well


async def soak(target: Any, api: Api, arguments: argparse.Namespace, lines: list[Line]) -> None:
    """Set the stage and run it; `lines` grows."""
    leader, standby = (Ours(name=name, options=("--leader-elect=true",)) for name in ("leader", "standby"))
    try:
        async with asyncio.timeout(_STAGE_S):
            await set_stage(api, FLEET)
        async with BoundPods(api) as bound:
            await leader.start(target, api, FLEET)
            async with asyncio.timeout(2 * FIRST_SECONDS):
                await warm_up(api, FLEET, leader, bound)  # so it has the Lease before the other asks
            await standby.start(target, api, FLEET)
            stream = Stream(api, bound, leader, arguments.alive)
            async with asyncio.timeout(60 * arguments.minutes + _TAIL_S), asyncio.TaskGroup() as group:
                reporting = group.create_task(report(stream, (leader, standby), lines))
                await stream.run(arguments.rate, 60 * arguments.minutes + 0.5)
                reporting.cancel()
    finally:
        for one in (leader, standby):
            await asyncio.to_thread(one.stop)


@asynccontextmanager
async def cluster_for(is_embedded: bool) -> AsyncIterator[tuple[Any, Api]]:
    """What `Ours.start` asks of a cluster, and its API. The user is admin: kube-scheduler may not hold our Lease."""
    if is_embedded:
        async with EmbeddedCluster() as embedded, connected(embedded.url, limit=WAITING_MAX + 8) as api:
            path = embedded.kubeconfig_path
            yield SimpleNamespace(folder=path.parent, kubeconfig=lambda _: path), api
        return
    with ControlPlane() as plane:
        path, context = plane.kubeconfig("admin"), plane.ssl_context()
        async with connected(plane.url, plane.admin_token, context, limit=WAITING_MAX + 8) as api:
            yield SimpleNamespace(folder=path.parent, kubeconfig=lambda _: path), api


async def run(arguments: argparse.Namespace, lines: list[Line], failures: list[str]) -> None:
    async with cluster_for(arguments.embedded) as (target, api):
        try:
            await soak(target, api, arguments, lines)
        except (ContenderError, ApiError, TimeoutError, aiohttp.ClientError, ExceptionGroup) as error:
            failures.append(f"failed: {told(error)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=20, help="pods a second")
    parser.add_argument("--alive", type=int, default=500, help="pods that are there at once, on 800 devices")
    parser.add_argument("--embedded", action="store_true", help="on the embedded server, in this process: no Go")
    lines, failures = list[Line](), list[str]()
    is_whole = until_stopped(run(parser.parse_args(), lines, failures))
    said, is_well = verdict(lines)
    print("\n".join([said, *failures]))
    return 0 if is_well and is_whole and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
