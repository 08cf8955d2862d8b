"""The page (`dra-scheduler ui`) on many devices that change: how soon it is there, how it moves, what it costs.

    python -m benchmarks.page                           # all rows but `memory`
    python -m benchmarks.page --row memory --minutes 60

first    5,000 nodes x 8 devices, a page is opened: seconds until its picture is drawn, while the first answer is being
         made, and when it is at hand
frames   500 nodes x 8 devices, 50 changes a second: frames a second while the picture is panned, the longest frame
memory   the same, a tab that goes round all views and nine clients, four of them
         hostile (`benchmarks.page_hour`), at `observe --events`: resident MiB of its process and MiB of the tab's
         scripts (interpreted), each minute. At the end the page has what the API server has, and the exit code is 1
         where process or tab has grown
cost     our throughput with one-device pods, 32 at a time, on a real control plane: alone, and with `run --ui` and two
         clients that ask as open pages do

Needs chromium; `cost` needs Go. The cluster of the others is the embedded one, in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import aiohttp

from benchmarks.contenders import Ours
from benchmarks.fleet import NAMESPACE, Fleet, Size, workloads
from benchmarks.loads import Loop, measure, set_stage
from benchmarks.page_hour import Changes, Clients, Tab, flat
from scheduler.embedded.cluster import EmbeddedCluster
from tests.controlplane.cluster import ControlPlane, resident_bytes
from tests.integration.api import Api, connected
from tests.ui.chromium import opened_browser

_URL: Final = re.compile(rb"the page is at (\S+)")
_METRICS: Final = re.compile(rb"metrics are at port (\d+)")
_SAID_MAX: Final = 40
_MIB: Final = 1 << 20
_SETTLE_S: Final = 8.0
_INTERPRETED: Final = "--js-flags=--jitless"
"""Else what chromium compiles of scripts counts as what they hold: it was all that grew in an hour, 0.2 MiB."""
_PAN: Final = """new Promise(done => {
  const box = document.querySelector('.grid'), begun = performance.now();
  let frames = 0, last = begun, longest = 0, way = 5;
  const step = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    frames++;
    const before = box.scrollTop;
    box.scrollTop += way;
    if (box.scrollTop === before) way = -way;
    if (now - begun < 10000) requestAnimationFrame(step);
    else done([frames / ((now - begun) / 1000), longest]);
  };
  requestAnimationFrame(step);
})"""
_DRAWN: Final = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Served(NamedTuple):
    """A page's process, and its addresses; `metrics` is "" where it has none."""

    pid: int
    page: str
    metrics: str


def fleet_of(nodes: int) -> Fleet:
    return Fleet(workloads()["one-device"], Size(nodes, 8, 1, 0))


@asynccontextmanager
async def clustered(nodes: int, *command: str) -> AsyncIterator[tuple[Api, Served]]:
    """An embedded cluster with so many nodes of eight devices, and its page; `command`: `ui`, or what is given."""
    async with EmbeddedCluster(controllers=False) as cluster, connected(cluster.url) as api:
        await set_stage(api, fleet_of(nodes))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", *(command or ("ui",)), f"--kubeconfig={cluster.kubeconfig_path}"),
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        saying = None
        try:
            metrics, found = "", None
            while found is None:
                line = await process.stderr.readline()
                metrics = f"http://127.0.0.1:{one[1].decode()}/metrics" if (one := _METRICS.search(line)) else metrics
                found = _URL.search(line)
            saying = asyncio.create_task(_say(process.stderr))
            yield api, Served(process.pid, found[1].decode(), metrics)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
            if saying is not None:
                await saying


async def _say(stderr: asyncio.StreamReader) -> None:
    """What the page's process says, the first lines of it; a pipe that nobody reads would stop it."""
    number = 0
    async for line in stderr:
        number += 1
        if number <= _SAID_MAX:
            print(f"it says: {line.decode(errors='replace').rstrip()}", flush=True)


async def first(nodes: int) -> None:
    async with clustered(nodes) as (_, served), opened_browser() as browser:
        for label in ("first while it is being made", *["first at hand"] * 4):
            page = await browser.new_page()
            begun = time.monotonic()
            await page.goto(f"{served.page}#/devices")
            await page.wait_for_selector(".legend", timeout=120_000)
            await page.evaluate(_DRAWN)
            spent = time.monotonic() - begun
            devices = (await page.inner_text(".legend .sum")).strip("= ")
            print(f"{label}: {spent:.2f} s, {devices}, {resident_bytes(served.pid) / _MIB:.0f} MiB", flush=True)
            await page.wait_for_selector(f".legend >> text={nodes * 8:,} devices", timeout=120_000)
            await page.close()


async def frames(nodes: int) -> None:
    async with clustered(nodes) as (api, served), opened_browser() as browser:
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        await page.goto(f"{served.page}#/devices")
        await page.wait_for_selector(".legend")
        for label in ("still", "50 changes a second"):
            changing = asyncio.create_task(Changes(api, fleet_of(nodes)).run()) if label != "still" else None
            per_s, longest = await page.evaluate(_PAN)
            print(f"frames, {label}: {per_s:.1f} a second, the longest {longest:.0f} ms", flush=True)
            if changing is not None:
                changing.cancel()


async def memory(nodes: int, minutes: int) -> bool:
    """Whether process and tab stay as large as they are after ten minutes."""
    command = ("observe", "--events", "--port=0", "--health-port=0")
    async with clustered(nodes, *command) as (api, served), opened_browser(_INTERPRETED) as browser:
        changes = Changes(api, fleet_of(nodes))
        clients = Clients(served.page, served.metrics, changes)
        tab = Tab(await browser.new_page(), served.page, changes)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(changes.run()), group.create_task(clients.run())]
            await tab.open()
            process, heap = list[tuple[float, float]](), list[tuple[float, float]]()
            for minute in range(1, minutes + 1):
                begun, before = time.monotonic(), changes.made
                watching = group.create_task(_resident(served.pid, 60))
                while time.monotonic() < begun + 60:
                    await tab.next_view()
                used, parts = await tab.heap_bytes()
                seen = await watching
                process.append((statistics.median(seen), max(seen)))
                heap.append((used / _MIB, used / _MIB))
                per_s = (changes.made - before) / (time.monotonic() - begun)
                middle, highest = process[-1]
                print(
                    f"{minute:3} min: process {middle:.0f} MiB (highest {highest:.0f}), tab {used / _MIB:.2f} MiB and "
                    f"{parts} nodes, {per_s:.1f} changes a second, {len(changes.waiting)} pods wait; "
                    f"tab {dict(tab.seen)}; {clients.take()}".replace("'", ""),
                    flush=True,
                )
            for task in tasks:
                task.cancel()
        given = [one for one in await api.list("resourceclaims", NAMESPACE) if one.get("status", {}).get("allocation")]
        await tab.has_in_use(len(given))
        print(f"memory: at the end the page has {len(given)} devices in use, as the API server")
    verdicts = [flat("process", process), flat("tab", heap)]
    print("\n".join(said for said, _ in verdicts), flush=True)
    return all(is_flat for _, is_flat in verdicts)


async def _resident(pid: int, seconds: float) -> list[float]:
    """MiB of a process, once a second."""
    seen = list[float]()
    for _ in range(int(seconds)):
        seen.append(resident_bytes(pid) / _MIB)
        await asyncio.sleep(1)
    return seen


@dataclass(slots=True)
class OursWithPages(Ours):
    """`run --ui`, and two clients that listen and ask as open pages do; their browsers are on other machines."""

    name: str = "with two pages"
    options: tuple[str, ...] = ("--ui=0", "--log-level=info")
    pages: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self, cluster: ControlPlane, api: Api, fleet: Fleet) -> None:
        await super(OursWithPages, self).start(cluster, api, fleet)
        log = cluster.folder / "dra-scheduler.log"
        async with asyncio.timeout(60):
            while True:
                found = _URL.search(log.read_bytes())
                if found is not None:
                    break
                await asyncio.sleep(0.05)
        self.pages = [asyncio.create_task(_follow(found[1].decode(), view)) for view in ("devices", "pending")]
        await asyncio.sleep(_SETTLE_S)


async def _follow(url: str, view: str) -> None:
    """Ask for the view at each version that is told."""
    forever = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=forever) as session, session.get(f"{url}api/events") as events:
        async for line in events.content:
            if line.startswith(b"data: "):
                async with session.get(f"{url}api/{view}") as reply:
                    have = json.loads(await reply.read())["version"]
                async with session.get(f"{url}api/{view}?after={have}") as reply:
                    await reply.read()


async def cost(nodes: int, rounds: int) -> None:
    fleet = Fleet(workloads()["one-device"], Size(nodes, 8, 1, 0))
    for number in range(rounds):
        for contender in (Ours(name="alone"), OursWithPages()):
            found = await measure(fleet, contender, number, Loop(32, 20))
            for page in contender.pages if isinstance(contender, OursWithPages) else ():
                page.cancel()
            print(
                f"cost, {found.contender}: {found.pods_per_s:.1f} pods/s, {found.cpu_ms_per_pod:.2f} ms CPU a pod, "
                f"p50 {found.p50_s:.3f} s, p99 {found.p99_s:.3f} s {found.failure}",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", choices=["first", "frames", "memory", "cost"], action="append")
    parser.add_argument("--minutes", type=int, default=5, help="of `memory`; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=2, help="of `cost`; default: %(default)s")
    parser.add_argument("--small", action="store_true", help="20 nodes, to see whether it works")
    given = parser.parse_args()
    many, some = (20, 20) if given.small else (5_000, 500)
    rows = {
        "first": lambda: first(many),
        "frames": lambda: frames(some),
        "memory": lambda: memory(some, given.minutes),
        "cost": lambda: cost(some, given.rounds),
    }
    is_well = [asyncio.run(rows[name]()) for name in given.row or ("first", "frames", "cost")]
    return 1 if False in is_well else 0


if __name__ == "__main__":
    sys.exit(main())
