"""kube-scheduler, ours, and bare API writes on the same backlog, on a real control plane of its own each time.

    python -m benchmarks.compare                           # all workloads, 500 nodes x 8 devices, 1000 pods, 3 rounds
    python -m benchmarks.compare --quick                   # 20 nodes, 40 pods, 1 round: does it work
    python -m benchmarks.compare --workload one-device --rounds 5 -o json
    python -m benchmarks.compare --steady 20 --full 0.5    # pods arrive at 20/s: time from creation to binding

What is measured
    The pods and their claims exist before the contender starts; its start-up and cache filling are not counted.
    Watches see its first write (a claim's finalizer, or a binding) and every binding; the clock runs from the first
    write to the last binding. pods/s is what was bound in that time, p50 and p99 are over the pods' times since
    its beginning, CPU seconds are the contender's process in that time. Contenders alternate within each round,
    each on a fresh control plane.
    `bare writes` sends the writes of a scheduler (finalizer, status, binding, event) and decides nothing: the
    limit that API server and etcd set on this machine.
    With --steady pods arrive at a fixed rate and go when they are bound; p50 and p99 are from creation to binding.

Every run ends with the invariant checker; a violation is printed and makes the exit code 1.
Needs Go (tests/controlplane/build.py) and Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:  # also as `python benchmarks/compare.py`
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import uvloop

from benchmarks.contenders import Contender, ContenderError, contender
from benchmarks.fleet import NAMESPACE, Fleet, Object, Size, Workload, workloads
from benchmarks.watching import BoundPods
from tests.controlplane.cluster import CONTROLLERS, ControlPlane
from tests.integration.api import Api, ApiError, connected
from tests.integration.invariants import State, check

BACKLOG_SECONDS = 900.0
CLAIMS_SECONDS = 300.0
FIRST_SECONDS = 120.0
CREATING = 48  # requests at once while the stage is set
BASELINE, LIMIT = "kube-scheduler", "bare writes"


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one contender. Times in seconds; `bound` < `pods` says that it did not finish.

    `watch_gaps`: how often the harness's own watch was cut for being slow; p50 of such a run is too high.
    """

    workload: str
    contender: str
    round: int
    pods: int
    bound: int
    pods_per_s: float
    cpu_s: float
    cpu_ms_per_pod: float
    p50_s: float
    p99_s: float
    cluster_cpu_s: float
    resident_mib: float
    violations: int
    watch_gaps: int = 0
    failure: str = ""


async def measure(workload: Workload, size: Size, one: Contender, round_number: int, load: Load) -> Measured:
    """A fresh control plane, the stage, the run, the check."""
    fleet = Fleet(workload, size)
    # Without the garbage collector: nothing is deleted while the clock runs.
    controllers = [name for name in CONTROLLERS if name != "garbage-collector-controller"]
    with ControlPlane(controllers=controllers) as cluster:
        context = cluster.ssl_context()
        async with connected(cluster.url, cluster.admin_token, context, limit=CREATING + 4) as api:
            await set_stage(api, fleet)
            try:
                return await load(cluster, api, fleet, one, round_number)
            except (ContenderError, TimeoutError, ApiError) as error:
                return failed(workload, one, size, round_number, str(error))
            finally:
                await asyncio.to_thread(one.stop)


Load = Callable[[ControlPlane, Api, Fleet, Contender, int], Awaitable[Measured]]


async def set_stage(api: Api, fleet: Fleet) -> None:
    """Nodes, slices, class, namespace and template."""
    await api.create("namespaces", {"metadata": {"name": NAMESPACE}})
    await create_all(api, (("nodes", node) for node in fleet.nodes()))
    await create_all(api, (("resourceslices", item) for item in fleet.slices()))
    await api.create("deviceclasses", fleet.device_class())
    if (template := fleet.template()) is not None:
        await api.create("resourceclaimtemplates", template)


async def create_all(api: Api, objects: Iterable[tuple[str, Object]]) -> None:
    waiting = iter(objects)

    async def creator() -> None:
        for resource, item in waiting:
            await api.create(resource, item)

    async with asyncio.TaskGroup() as group:
        for _ in range(CREATING):
            group.create_task(creator())


# -- a backlog ------------------------------------------------------------------------------------------------------


async def backlog(cluster: ControlPlane, api: Api, fleet: Fleet, one: Contender, round_number: int) -> Measured:
    """All pods wait; the contender is started; until the last is bound."""
    count = fleet.size.pods
    names = [f"pod-{number:05}" for number in range(count)]
    await create_all(api, (("pods", fleet.pod(name, one.scheduler_name)) for name in names))
    if fleet.workload.claim is not None:
        await claims_generated(api, count)
    async with BoundPods(api) as bound:
        await one.start(cluster, api, fleet)
        try:
            began = await bound.wait_begin(seconds=FIRST_SECONDS, check=one.check_alive)
        except TimeoutError:
            raise ContenderError(f"nothing written within {FIRST_SECONDS:.0f} s of its start") from None
        cpu_began, cluster_began = one.cpu_seconds(), cluster_cpu(cluster)
        sampler = asyncio.create_task(sample(one))
        failure = ""
        try:
            await bound.wait_count(count, seconds=BACKLOG_SECONDS, check=one.check_alive)
        except TimeoutError:
            failure = f"{len(bound.at)} of {count} bound after {BACKLOG_SECONDS:.0f} s"
        finally:
            sampler.cancel()
        cpu, cluster_cpu_s = one.cpu_seconds() - cpu_began, cluster_cpu(cluster) - cluster_began
        resident = one.resident_bytes()
    times = sorted(at - began for at in bound.at.values())
    done, took = len(times), max(times[-1], 1e-9)
    return Measured(
        workload=fleet.workload.name,
        contender=one.name,
        round=round_number,
        pods=count,
        bound=len(times),
        pods_per_s=done / took,
        cpu_s=cpu,
        cpu_ms_per_pod=1000 * cpu / max(done, 1),
        p50_s=quantile(times, 0.50),
        p99_s=quantile(times, 0.99),
        cluster_cpu_s=cluster_cpu_s,
        resident_mib=resident / 2**20,
        violations=await violations(api),
        watch_gaps=bound.interruptions,
        failure=failure,
    )


async def sample(one: Contender) -> None:
    """Bare writes end with their work; their CPU time must be read while they run."""
    while True:
        one.cpu_seconds()
        await asyncio.sleep(0.02)


async def claims_generated(api: Api, count: int) -> None:
    """Until kube-controller-manager has made all claims and named them in the pods."""
    async with asyncio.timeout(CLAIMS_SECONDS):
        while True:
            pods = await api.list("pods", NAMESPACE)
            ready = sum(1 for pod in pods if (pod.get("status") or {}).get("resourceClaimStatuses"))
            if ready >= count:
                return
            await asyncio.sleep(min(0.2 + (count - ready) / 1000, 2))


# -- a steady stream ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Steady:
    """Pods arrive at `rate` a second for `seconds`, each goes when it is bound; `full` of the devices are taken."""

    rate: float
    seconds: float
    full: float

    async def __call__(
        self, cluster: ControlPlane, api: Api, fleet: Fleet, one: Contender, round_number: int
    ) -> Measured:
        await fill(api, fleet, self.full)
        count = round(self.rate * self.seconds)
        created: dict[str, float] = {}
        async with BoundPods(api) as bound:
            await one.start(cluster, api, fleet)
            await self._warm_up(api, fleet, one, bound)
            cpu_began, cluster_began, begin = one.cpu_seconds(), cluster_cpu(cluster), time.monotonic()
            async with asyncio.TaskGroup() as group:
                remover = group.create_task(remove_bound(api, bound))
                for number in range(count):
                    await asyncio.sleep(max(begin + number / self.rate - time.monotonic(), 0))
                    name = f"pod-{number:05}"
                    created[name] = time.monotonic()
                    group.create_task(api.create("pods", fleet.pod(name, one.scheduler_name)))
                with suppress(TimeoutError):
                    await bound.wait_names(created, seconds=60, check=one.check_alive)
                remover.cancel()
            took = time.monotonic() - begin
            cpu, cluster_cpu_s = one.cpu_seconds() - cpu_began, cluster_cpu(cluster) - cluster_began
        times = sorted(bound.at[name] - at for name, at in created.items() if name in bound.at)
        missing = count - len(times)
        return Measured(
            workload=f"{fleet.workload.name} at {self.rate:g}/s, {self.full:.0%} full",
            contender=one.name,
            round=round_number,
            pods=count,
            bound=len(times),
            pods_per_s=len(times) / took,
            cpu_s=cpu,
            cpu_ms_per_pod=1000 * cpu / max(len(times), 1),
            p50_s=quantile(times, 0.50),
            p99_s=quantile(times, 0.99),
            cluster_cpu_s=cluster_cpu_s,
            resident_mib=one.resident_bytes() / 2**20,
            violations=await violations(api),
            watch_gaps=bound.interruptions,
            failure=f"{missing} of {count} not bound 60 s after the last came" if missing else "",
        )

    async def _warm_up(self, api: Api, fleet: Fleet, one: Contender, bound: BoundPods) -> None:
        for number in range(5):
            name = f"warm-up-{number}"
            await api.create("pods", fleet.pod(name, one.scheduler_name))
            await bound.wait_names([name], seconds=120, check=one.check_alive)
            await api.delete("pods", name, NAMESPACE)


async def remove_bound(api: Api, bound: BoundPods) -> None:
    """Delete each pod of the stream when it is bound: the cluster stays as full as it was."""
    async with asyncio.TaskGroup() as group:
        async for name in bound.names():
            if name.startswith("pod-"):
                group.create_task(api.delete("pods", name, NAMESPACE))


async def fill(api: Api, fleet: Fleet, full: float) -> None:
    """Claims that take that share of the devices, from the front, held by pods of nobody."""
    count = int(fleet.size.nodes * fleet.size.devices * full)
    places = fleet.bare_places()
    take = max((fleet.workload.bare or {}).get("take", 1), 1)
    if fleet.workload.claim is None or not count:
        return

    async def take_one(number: int) -> None:
        node, results = next(places)
        name = f"filler-{number:05}"
        claim = {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": fleet.workload.claim}
        claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]  # type: ignore[index]
        await api.create("resourceclaims", claim)
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}
        await api.merge_patch("resourceclaims", name, {"status": {"allocation": allocation}}, NAMESPACE, "status")

    numbers = iter(range(count // take))

    async def taker() -> None:
        for number in numbers:
            await take_one(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(CREATING):
            group.create_task(taker())


# -- reading the results --------------------------------------------------------------------------------------------


def cluster_cpu(cluster: ControlPlane) -> float:
    """What API server, etcd and controllers have used."""
    return sum(cluster.component(name).cpu_seconds() for name in ("etcd", "kube-apiserver", "kube-controller-manager"))


async def violations(api: Api) -> int:
    pods, claims = await api.list("pods", NAMESPACE), await api.list("resourceclaims", NAMESPACE)
    slices, nodes = await api.list("resourceslices"), await api.list("nodes")
    found = check(State(pods=pods, claims=claims, slices=slices, nodes=nodes))
    for violation in found[:5]:
        print(f"VIOLATION {violation}", file=sys.stderr)
    return len(found)


def failed(workload: Workload, one: Contender, size: Size, round_number: int, text: str) -> Measured:
    nothing = (0.0,) * 7
    return Measured(
        workload.name, one.name, round_number, size.pods, 0, *nothing, violations=0, failure=text or "failed"
    )


def quantile(times: Sequence[float], share: float) -> float:
    return times[min(int(len(times) * share), len(times) - 1)] if times else 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """All rounds of one contender on one workload: medians, and the spread of pods/s."""

    workload: str
    contender: str
    rounds: int
    pods_per_s: float
    pods_per_s_min: float
    pods_per_s_max: float
    cpu_s: float
    cpu_ms_per_pod: float
    p50_s: float
    p99_s: float
    times_baseline: float | None
    share_of_limit: float | None
    violations: int
    failures: tuple[str, ...]


def summarize(measured: Sequence[Measured]) -> list[Row]:
    """One row a workload and contender, with the ratios to kube-scheduler and to bare writes."""
    rows: list[Row] = []
    for workload in dict.fromkeys(one.workload for one in measured):
        of_workload = [one for one in measured if one.workload == workload]
        speeds: dict[str, float] = {}
        for name in dict.fromkeys(one.contender for one in of_workload):
            runs = [one for one in of_workload if one.contender == name]
            whole = [one for one in runs if one.bound] or runs
            speed = statistics.median(one.pods_per_s for one in whole)
            speeds[name] = speed
            rows.append(
                Row(
                    workload=workload,
                    contender=name,
                    rounds=len(runs),
                    pods_per_s=speed,
                    pods_per_s_min=min(one.pods_per_s for one in whole),
                    pods_per_s_max=max(one.pods_per_s for one in whole),
                    cpu_s=statistics.median(one.cpu_s for one in whole),
                    cpu_ms_per_pod=statistics.median(one.cpu_ms_per_pod for one in whole),
                    p50_s=statistics.median(one.p50_s for one in whole),
                    p99_s=statistics.median(one.p99_s for one in whole),
                    times_baseline=None,
                    share_of_limit=None,
                    violations=sum(one.violations for one in runs),
                    failures=tuple(one.failure for one in runs if one.failure),
                )
            )
        for index, row in enumerate(rows):
            if row.workload == workload:
                rows[index] = replace(
                    row,
                    times_baseline=ratio(row.pods_per_s, speeds.get(BASELINE)),
                    share_of_limit=ratio(row.pods_per_s, speeds.get(LIMIT)),
                )
    return rows


def ratio(value: float, of: float | None) -> float | None:
    return value / of if of else None


def print_table(rows: Sequence[Row]) -> None:
    head = (
        "workload",
        "contender",
        "pods/s",
        "(min-max)",
        "CPU s",
        "CPU ms/pod",
        "p50 s",
        "p99 s",
        "x kube",
        "of bare",
    )
    lines = [head, *(cells_of(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = ["-" * width if column < 2 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    for line in (lines[0], rule, *lines[1:]):
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("| " + " | ".join(cells) + " |")
    for row in rows:
        for failure in row.failures:
            print(f"{row.workload}, {row.contender}: {failure}")
        if row.violations:
            print(f"{row.workload}, {row.contender}: {row.violations} INVARIANT VIOLATIONS")


def cells_of(row: Row) -> tuple[str, ...]:
    return (
        row.workload,
        row.contender,
        f"{row.pods_per_s:.0f}",
        f"({row.pods_per_s_min:.0f}-{row.pods_per_s_max:.0f})",
        f"{row.cpu_s:.1f}",
        f"{row.cpu_ms_per_pod:.2f}",
        f"{row.p50_s:.3f}",
        f"{row.p99_s:.3f}",
        "" if row.times_baseline is None else f"{row.times_baseline:.1f}",
        "" if row.share_of_limit is None else f"{row.share_of_limit:.0%}",
    )


# -- the command ----------------------------------------------------------------------------------------------------


async def run(arguments: argparse.Namespace) -> list[Measured]:
    task = asyncio.current_task()
    assert task is not None
    # Unwind when told to stop, so that nothing is left behind.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    known = workloads()
    size = Size(arguments.nodes, arguments.devices, arguments.pods)
    load: Load = Steady(arguments.steady, arguments.seconds, arguments.full) if arguments.steady else backlog
    measured: list[Measured] = []
    for name in arguments.workload or known:
        for round_number in range(1, arguments.rounds + 1):
            for short in arguments.contenders.split(","):
                if short == "bare" and (arguments.steady or not Fleet(known[name], size).can_write_bare()):
                    continue
                result = await measure(known[name], size, contender(short), round_number, load)
                measured.append(result)
                print(
                    f"{result.workload} round {round_number} {result.contender}: {result.pods_per_s:.0f} pods/s, "
                    f"{result.cpu_s:.1f} CPU s, p99 {result.p99_s:.3f} s {result.failure}".rstrip(),
                    file=sys.stderr,
                )
    return measured


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--devices", type=int, default=8, help="a node")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workload", action="append", choices=list(workloads()), help="repeatable; default: all")
    parser.add_argument("--contenders", default="kube,ours,bare", help="of kube, ours, bare; default: %(default)s")
    parser.add_argument("--steady", type=float, metavar="RATE", help="pods/s that arrive, instead of a backlog")
    parser.add_argument("--seconds", type=float, default=30, help="how long they arrive, with --steady")
    parser.add_argument("--full", type=float, default=0.0, help="share of devices taken before, with --steady")
    parser.add_argument("--quick", action="store_true", help="20 nodes, 100 pods, 1 round")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args(given)
    if arguments.quick:
        arguments.nodes, arguments.pods, arguments.rounds = 20, 40, 1
    for short in arguments.contenders.split(","):
        try:
            contender(short)
        except ValueError as error:
            parser.error(str(error))
    return arguments


def main(given: Sequence[str] | None = None) -> int:
    arguments = parse(given)
    try:
        measured = uvloop.run(run(arguments))
    except asyncio.CancelledError:
        print("stopped by SIGTERM", file=sys.stderr)
        return 1
    rows = summarize(measured)
    if arguments.output == "json":
        machine: dict[str, Any] = {"cores": os.cpu_count(), "python": platform.python_version()}
        about = {"nodes": arguments.nodes, "devices": arguments.devices, "pods": arguments.pods, **machine}
        print(
            json.dumps(
                {"about": about, "rows": [asdict(row) for row in rows], "runs": [asdict(one) for one in measured]}
            )
        )
    else:
        print(f"{arguments.nodes} nodes x {arguments.devices} devices, {arguments.pods} pods, {os.cpu_count()} cores")
        print_table(rows)
    return 1 if any(row.violations or row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
