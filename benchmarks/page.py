"""The page (`dra-scheduler ui`) on many devices that change: how soon it is there, how it moves, what it costs.

    python -m benchmarks.page                           # all rows but `memory`
    python -m benchmarks.page --row memory --minutes 60

first    5,000 nodes x 8 devices, a page is opened: seconds until its picture is drawn, while the first answer is being
         made, and when it is at hand
frames   500 nodes x 8 devices, 50 claims a second are given a device or lose it: frames a second while the picture is
         panned, the longest frame
memory   the same churn: resident MiB of the process, MiB of the tab's scripts, each minute; at the end the page has
         what the API server has
cost     our throughput with one-device pods, 32 at a time, on a real control plane: alone, and with `run --ui` and two
         clients that ask as open pages do

Needs chromium; `cost` needs Go. The cluster of the others is the embedded one, in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from benchmarks.contenders import Ours
from benchmarks.fleet import CLASS, DRIVER, NAMESPACE, Fleet, Object, Size, node_name, workloads
from benchmarks.loads import Loop, measure, set_stage
from scheduler.embedded.cluster import EmbeddedCluster
from tests.controlplane.cluster import ControlPlane, resident_bytes
from tests.integration.api import Api, connected
from tests.ui.chromium import opened_browser

_URL: Final = re.compile(rb"the page is at (\S+)")
_MIB: Final = 1 << 20
_SETTLE_S: Final = 8.0
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


@asynccontextmanager
async def clustered(nodes: int) -> AsyncIterator[tuple[Api, str, int]]:
    """An embedded cluster with so many nodes of eight devices; its page's address, and its process."""
    async with EmbeddedCluster(controllers=False) as cluster, connected(cluster.url) as api:
        await set_stage(api, Fleet(workloads()["one-device"], Size(nodes, 8, 1, 0)))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", "ui", f"--kubeconfig={cluster.kubeconfig_path}"),
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            found = _URL.search(await process.stderr.readline())
            assert found is not None
            yield api, found[1].decode(), process.pid
        finally:
            process.terminate()
            await process.wait()


async def churn(api: Api, nodes: int, per_s: float) -> None:
    """Claims are given a device, and lose it, one every 1/`per_s` seconds, for ever."""
    device = (await api.list("resourceslices"))[0]["spec"]["devices"][0]["name"]
    names = [f"claim-{number}" for number in range(min(200, nodes))]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}
    for name in names:
        await api.create("resourceclaims", {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec})
    begun = time.monotonic()
    for number in itertools.count():
        await asyncio.sleep(max(0.0, begun + number / per_s - time.monotonic()))
        name, is_given = names[number % len(names)], (number // len(names)) % 2 == 0
        where = node_name(number % min(len(names), nodes))
        result = {"request": "gpu", "driver": DRIVER, "pool": where, "device": device}
        status: Object = {"allocation": {"devices": {"results": [result]}} if is_given else None}
        await api.merge_patch("resourceclaims", name, {"status": status}, NAMESPACE, sub="status")


async def first(nodes: int) -> None:
    async with clustered(nodes) as (_, url, pid), opened_browser() as browser:
        for label in ("first while it is being made", *["first at hand"] * 4):
            page = await browser.new_page()
            begun = time.monotonic()
            await page.goto(f"{url}#/devices")
            await page.wait_for_selector(".legend", timeout=120_000)
            await page.evaluate(_DRAWN)
            spent = time.monotonic() - begun
            devices = (await page.inner_text(".legend .sum")).strip("= ")
            print(f"{label}: {spent:.2f} s, {devices}, {resident_bytes(pid) / _MIB:.0f} MiB", flush=True)
            await page.wait_for_selector(f".legend >> text={nodes * 8:,} devices", timeout=120_000)
            await page.close()


async def frames(nodes: int) -> None:
    async with clustered(nodes) as (api, url, _), opened_browser() as browser:
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        await page.goto(f"{url}#/devices")
        await page.wait_for_selector(".legend")
        for label in ("still", "50 changes a second"):
            changing = asyncio.create_task(churn(api, nodes, 50)) if label != "still" else None
            per_s, longest = await page.evaluate(_PAN)
            print(f"frames, {label}: {per_s:.1f} a second, the longest {longest:.0f} ms", flush=True)
            if changing is not None:
                changing.cancel()


async def memory(nodes: int, minutes: float) -> None:
    async with clustered(nodes) as (api, url, pid), opened_browser() as browser:
        page = await browser.new_page()
        await page.goto(f"{url}#/devices")
        await page.wait_for_selector(".legend")
        changing = asyncio.create_task(churn(api, nodes, 50))
        for minute in range(int(minutes) + 1):
            heap = await page.evaluate("performance.memory.usedJSHeapSize")
            resident = resident_bytes(pid) / _MIB
            print(f"memory after {minute} min: process {resident:.0f} MiB, tab {heap / _MIB:.1f} MiB", flush=True)
            if minute < minutes:
                await asyncio.sleep(60)
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)
        given = [one for one in await api.list("resourceclaims", NAMESPACE) if one.get("status", {}).get("allocation")]
        await page.wait_for_selector(f".legend >> text=used {len(given)}", timeout=60_000)
        print(f"memory: at the end the page has {len(given)} devices in use, as the API server", flush=True)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", choices=["first", "frames", "memory", "cost"], action="append")
    parser.add_argument("--minutes", type=float, default=5, help="of `memory`; default: %(default)s")
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
    for name in given.row or ("first", "frames", "cost"):
        asyncio.run(rows[name]())


if __name__ == "__main__":
    main()
