"""Ordinary pods beside hostile users, drivers and webhooks, on a real control plane.

    python -m benchmarks.hostile                                 # all loads, about a quarter of an hour
    python -m benchmarks.hostile --quick                         # does it work: few nodes, 3 s, a minute in all
    python -m benchmarks.hostile --loads selector-5000 flood --seconds 30
    python -m benchmarks.hostile --list

What is measured
    A fresh control plane and a fresh scheduler for each row. Pods of one device come at 20 a second, each deleted when
    it is bound, first alone for --seconds, then as long beside the load. p50 and p99 are milliseconds from a pod's
    creation to its binding, as a watch sees it; "x alone" is p99 divided by p99 of the same process without the load.
    Where a load is many pods, they first get up to 15 s until each is bound or told why not: what counts is that they
    wait, not that they come.
    A pod that was not bound when the row ended counts with the time it had waited by then, and the figure has a ">".
    "input CPU" is the scheduler's own dra_scheduler_longest_handle_cpu_seconds since its start, the most CPU time that
    one input took: the goal is about this one. "longest input" is the same by the clock: API server, etcd, controllers
    and harness share the machine's cores, so an input of 1 ms lasts as long as the process had none. Memory is what is
    resident at the end; /livez is asked five times a second while the load lasts, for at most 5 s each time, and failed
    when that was not 200. p99 of 800 pods is their eighth worst.

A row takes a bounded time whatever the scheduler does: 15 s after the last pod came what is not bound is counted as it
is. --out FILE keeps each row in FILE.json and FILE.md as it ends. The exit code is 1 when an invariant was broken or a
row failed; goals that are missed are named in the table, and nothing else.
Needs Go (tests/controlplane/build.py) and Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.contenders import ContenderError, Serving, told
from benchmarks.fleet import NAMESPACE, Fleet, Size, workloads
from benchmarks.hostile_loads import HOSTILE, LOADS, Field, HostileLoad
from benchmarks.loads import (
    CREATING,
    UNCOLLECTED,
    arrive,
    count_violations,
    create_all,
    pod_name,
    quantile,
    remove_bound,
    set_stage,
    warm_up,
)
from benchmarks.report import aligned, replace_file, until_stopped
from benchmarks.watching import BoundPods
from tests.controlplane.cluster import ControlPlane
from tests.integration.api import Api, ApiError, connected

RATE: Final = 20.0
TAIL_SECONDS: Final = 15.0
LIVEZ_SECONDS: Final = 5.0
OTHER_ADDRESS: Final = ("127.0.0.2", 0)  # a kubelet is no part of the flood, of whose address few are let in
_LIVEZ_EVERY_SECONDS: Final = 0.2
_READY_SECONDS: Final = 60.0
_BEGIN_SECONDS: Final = 240.0  # 10,000 classes, claims that take a server long to validate, 2,000 pods
_METRICS_SECONDS: Final = 30.0
_STAGE_SECONDS: Final = 120.0  # 5,000 nodes and their slices take the longest
_CHECK_SECONDS: Final = 60.0
_LONGEST: Final = re.compile(rb"^dra_scheduler_longest_handle_seconds (\S+)", re.MULTILINE)
_LONGEST_CPU: Final = re.compile(rb"^dra_scheduler_longest_handle_cpu_seconds (\S+)", re.MULTILINE)

# What the project wants of every row.
RATIO_GOAL: Final = 2.0
LONGEST_GOAL_MS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Stream:
    """The ordinary pods of one stretch: milliseconds until each was bound, and how long the `late` ones had waited."""

    bound: tuple[float, ...] = ()
    late: tuple[float, ...] = ()

    def quantile(self, share: float) -> float:
        return quantile(sorted(self.bound + self.late), share)

    def text(self, share: float) -> str:
        """The quantile; ">" says that pods which still waited are in it."""
        value = self.quantile(share)
        return f"{'>' if any(one <= value for one in self.late) else ''}{value:.0f}"


@dataclass(slots=True)
class Livez:
    """Answers of /livez: the longest time one took, and how many were not 200 within `LIVEZ_SECONDS`."""

    asked: int = 0
    failed: int = 0
    worst_ms: float = 0.0


@dataclass(slots=True)
class Row:
    """One load.

    Attributes:
        longest_ms: The longest input since the start; None when /metrics was not answered.
        longest_cpu_ms: The most CPU time of an input; None also for a scheduler that does not measure it.
        stop_s: from SIGTERM until the process had ended; it is killed after 10 s.
    """

    load: str
    nodes: int
    alone: Stream = field(default_factory=Stream)
    beside: Stream = field(default_factory=Stream)
    longest_ms: float | None = None
    longest_cpu_ms: float | None = None
    resident_mib: float = 0.0
    livez: Livez = field(default_factory=Livez)
    stop_s: float = 0.0
    violations: int = 0
    wall_s: float = 0.0
    failure: str = ""


# -- one row --------------------------------------------------------------------------------------------------------


async def measure(load: HostileLoad, arguments: argparse.Namespace) -> Row:
    """A fresh control plane, the stage, the pods alone, the pods beside the load, the check."""
    began = time.monotonic()
    nodes = max(load.nodes // 25, 3) if arguments.quick else load.nodes
    fleet = Fleet(workloads()["one-device"], Size(nodes, 8, 1))
    one = Serving()
    row = Row(load.name, nodes)
    streams_s = 2 * (arguments.seconds + TAIL_SECONDS) + _READY_SECONDS + _BEGIN_SECONDS + _METRICS_SECONDS
    with ControlPlane(controllers=UNCOLLECTED) as cluster:
        context = cluster.ssl_context()
        async with connected(cluster.url, cluster.admin_token, context, limit=CREATING + 16) as api:
            try:
                async with asyncio.timeout(_STAGE_SECONDS):
                    await set_stage(api, fleet)
                    await api.create("namespaces", {"metadata": {"name": HOSTILE, "labels": {"name": HOSTILE}}})
                    await create_all(api, load.stage(nodes))
                async with asyncio.timeout(streams_s):
                    await _streams(load, fleet, cluster, api, one, row, arguments)
            except (ContenderError, ApiError, TimeoutError, aiohttp.ClientError, ExceptionGroup) as error:
                row.failure = told(error)
            finally:
                asked = time.monotonic()
                await asyncio.to_thread(one.stop)
                row.stop_s = time.monotonic() - asked
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    row.violations = await count_violations(api, NAMESPACE, HOSTILE)
    row.wall_s = time.monotonic() - began
    return row


async def _streams(
    load: HostileLoad,
    fleet: Fleet,
    cluster: ControlPlane,
    api: Api,
    one: Serving,
    row: Row,
    arguments: argparse.Namespace,
) -> None:
    """Fills in the row as far as it comes."""
    one.arguments = (f"--health-port={one.port}", "--log-level=warning")
    where = Field(cluster, api, one.scheduler_name, one.port, row.nodes, arguments.seconds, arguments.scale)
    async with BoundPods(api) as bound, AsyncExitStack() as loads, asyncio.TaskGroup() as group:
        await one.start(cluster, api, fleet)
        await one.until_ready(_READY_SECONDS)
        await warm_up(api, fleet, one, bound)
        tasks = [group.create_task(remove_bound(api, bound))]
        row.alone = await _stream(api, fleet, one, bound, 0, arguments.seconds)
        tasks.append(group.create_task(_ask_livez(f"{one.url}/livez", row.livez)))
        async with asyncio.timeout(_BEGIN_SECONDS):
            await loads.enter_async_context(load.lasts(where))
        row.beside = await _stream(api, fleet, one, bound, 1, arguments.seconds)
        row.resident_mib = one.resident_bytes() / 2**20
        row.longest_ms, row.longest_cpu_ms = await _longest_ms(f"{one.url}/metrics")
        for task in tasks:
            task.cancel()


async def _stream(api: Api, fleet: Fleet, one: Serving, bound: BoundPods, stretch: int, seconds: float) -> Stream:
    """The ordinary pods of one stretch: `RATE` a second, and `TAIL_SECONDS` for the last of them."""
    count = round(RATE * seconds)
    due = ((pod_name(stretch * count + number), number / RATE) for number in range(count))
    created = await arrive(api, fleet, one, bound, due, TAIL_SECONDS)
    now = time.monotonic()
    return Stream(
        tuple(1000 * (bound.at[name] - at) for name, at in created.items() if name in bound.at),
        tuple(1000 * (now - at) for name, at in created.items() if name not in bound.at),
    )


async def _ask_livez(url: str, livez: Livez) -> None:
    """As a kubelet does, a connection each time; until it is cancelled."""
    connector = aiohttp.TCPConnector(force_close=True, local_addr=OTHER_ADDRESS)
    limit = aiohttp.ClientTimeout(total=LIVEZ_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=limit) as session:
        while True:
            began = time.monotonic()
            livez.asked += 1
            is_well = False
            with suppress(aiohttp.ClientError, TimeoutError, OSError):
                async with session.get(url) as response:
                    is_well = response.status == 200
                    await response.read()
            took = time.monotonic() - began
            livez.failed += not is_well
            livez.worst_ms = max(livez.worst_ms, 1000 * took)
            await asyncio.sleep(max(_LIVEZ_EVERY_SECONDS - took, 0))


async def _longest_ms(url: str) -> tuple[float | None, float | None]:
    """The longest input by the clock, and in CPU time."""
    limit = aiohttp.ClientTimeout(total=_METRICS_SECONDS)
    with suppress(aiohttp.ClientError, TimeoutError, OSError):
        connector = aiohttp.TCPConnector(local_addr=OTHER_ADDRESS)
        async with aiohttp.ClientSession(connector=connector, timeout=limit) as session, session.get(url) as response:
            text = await response.read()
            return _ms_of(_LONGEST, text), _ms_of(_LONGEST_CPU, text)
    return None, None


def _ms_of(metric: re.Pattern[bytes], text: bytes) -> float | None:
    found = metric.search(text)
    return 1000 * float(found[1]) if found is not None else None


# -- the table ------------------------------------------------------------------------------------------------------

HEAD: Final = (
    *("load", "nodes", "alone: p50", "p99", "bound", "p50 ms", "p99 ms", "x alone"),
    *("longest input ms", "input CPU ms", "MiB", "/livez worst ms", "failed", "missed"),
)


def table(rows: Sequence[Row]) -> str:
    """Markdown, a line a load; then what failed."""
    lines = aligned([HEAD, *map(cells_of, rows)], left=(0, len(HEAD) - 1))
    for row in rows:
        if row.failure:
            lines.append(f"\n{row.load}: {row.failure}")
        if row.violations:
            lines.append(f"\n{row.load}: {row.violations} INVARIANT VIOLATIONS")
        if row.stop_s > 9:
            lines.append(f"\n{row.load}: SIGTERM was not obeyed within 9 s")
    return "\n".join(lines)


def cells_of(row: Row) -> tuple[str, ...]:
    alone, beside, cpu, livez = row.alone, row.beside, row.longest_cpu_ms, row.livez
    judged = row.longest_ms if cpu is None else cpu
    ratio = beside.quantile(0.99) / alone.quantile(0.99) if alone.bound else 0.0
    goals = {
        "p99": ratio > RATIO_GOAL or bool(beside.late) or not beside.bound,
        "input": judged is None or judged > LONGEST_GOAL_MS,
        "livez": livez.failed > 0 or not livez.asked,
    }
    return (
        LOADS[row.load].what,
        str(row.nodes),
        *(alone.text(share) for share in (0.5, 0.99)),
        f"{len(beside.bound)}/{len(beside.bound) + len(beside.late)}",
        *(beside.text(share) for share in (0.5, 0.99)),
        f"{ratio:.1f}" if ratio else "",
        _whole_ms(row.longest_ms),
        "" if cpu is None else _whole_ms(cpu),
        f"{row.resident_mib:.0f}",
        f"{livez.worst_ms:.0f}",
        f"{livez.failed}/{livez.asked}",
        ", ".join(name for name, is_missed in goals.items() if is_missed),
    )


def _whole_ms(value: float | None) -> str:
    return "no answer" if value is None else f"{value:.0f}"


def write(path: Path, about: dict[str, Any], rows: Sequence[Row]) -> None:
    replace_file(path.with_suffix(".json"), json.dumps({"about": about, "rows": [asdict(row) for row in rows]}))
    replace_file(path.with_suffix(".md"), table(rows) + "\n")


# -- the command ----------------------------------------------------------------------------------------------------


async def run(arguments: argparse.Namespace, about: dict[str, Any], rows: list[Row]) -> None:
    for name in arguments.loads:
        row = await measure(LOADS[name], arguments)
        rows.append(row)
        if arguments.out is not None:
            write(arguments.out, about, rows)
        said = ", ".join(f"{key} {cell}" for key, cell in zip(HEAD[2:], cells_of(row)[2:], strict=True))
        print(f"{name}: {said}; {row.wall_s:.0f} s {row.failure}", file=sys.stderr, flush=True)


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", nargs="+", metavar="NAME", choices=list(LOADS), default=list(LOADS))
    parser.add_argument("--list", action="store_true", help="say which loads there are, and run nothing")
    parser.add_argument("--seconds", type=float, default=40, help="of the pods alone, and again beside the load")
    parser.add_argument("--quick", action="store_true", help="a 25th of the nodes, a 20th of the objects, 3 s")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write FILE.json and FILE.md after each row")
    arguments = parser.parse_args(given)
    arguments.scale = 1.0
    if arguments.quick:
        arguments.seconds, arguments.scale = 3.0, 0.05
    return arguments


def main(given: Sequence[str] | None = None) -> int:
    arguments = parse(given)
    if arguments.list:
        width = max(map(len, LOADS))
        print("\n".join(f"{name.ljust(width)}  {load.what}" for name, load in LOADS.items()))
        return 0
    about = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "seconds": arguments.seconds,
    }
    rows: list[Row] = []
    is_whole = until_stopped(run(arguments, about, rows))
    print(", ".join(f"{key} {value}" for key, value in about.items()) + "\n")
    print(table(rows))
    return 1 if not is_whole or any(row.failure or row.violations for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
