"""What `benchmarks.page --row memory` is made of: a cluster that changes, ten who look at it, and the verdict.

The tab goes round all views. Of the nine clients beside it three follow views as an open page does, one reads metrics,
one asks questions and waits for the answers, and four are hostile.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import aiohttp

from benchmarks.fleet import CLASS, DRIVER, NAMESPACE, Fleet, Object, node_name
from tests.integration.api import Api

SETTLED_MIN: Final = 10
SLOPE_GOAL: Final = 0.05
HIGHEST_GOAL: Final = 0.10
PER_S: Final = 50.0
_WAITING: Final = 60
_OWNERS: Final = 12
_LEAVE_S: Final = 0.3
_VIEW_S: Final = 4.0


def claimed(name: str, **more: object) -> Object:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": CLASS, **more}}]
    return {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"devices": {"requests": requests}}}


class Changes:
    """One change after the other, so many a second, for ever; after a delay they come faster until they are even.

    Of twenty changes sixteen give a claim a device or take it away, and four are a claim and a pod that waits for it,
    and the oldest such pod and its claim removed. No two pods have the same name, label or selector. Each 250th change
    is a taint that comes or goes.

    Attributes:
        made: How many by now.
        waiting: The names of the pods that wait, the oldest first.
    """

    def __init__(self, api: Api, fleet: Fleet) -> None:
        self.made = 0
        self.waiting: Final[deque[str]] = deque()
        self._api: Final = api
        self._fleet: Final = fleet
        self._numbers: Final = itertools.count()

    async def run(self) -> None:
        slices = await self._api.list("resourceslices")
        claims = [f"claim-{number}" for number in range(min(200, len(slices)))]
        for name in claims:
            await self._api.create("resourceclaims", claimed(name))
        begun, gives = time.monotonic(), itertools.count()
        while True:
            await asyncio.sleep(max(0.0, begun + self.made / PER_S - time.monotonic()))
            step = self.made % 20
            if self.made % 250 == 249:
                number = self.made // 250
                await self._taint(slices[number // 2 % len(slices)], is_there=number % 2 == 0)
            elif step >= 4 or (step >= 2 and len(self.waiting) <= _WAITING):
                number = next(gives)
                await self._give(claims[number % len(claims)], number % len(claims), number // len(claims) % 2 == 0)
            else:
                await (self._claim, self._pod, self._remove_pod, self._remove_claim)[step]()
            self.made += 1

    async def _give(self, claim: str, node: int, is_given: bool) -> None:
        result = {"request": "gpu", "driver": DRIVER, "pool": node_name(node), "device": "gpu-0"}
        status: Object = {"allocation": {"devices": {"results": [result]}} if is_given else None}
        await self._api.merge_patch("resourceclaims", claim, {"status": status}, NAMESPACE, sub="status")

    async def _taint(self, slice_: Object, *, is_there: bool) -> None:
        *others, last = slice_["spec"]["devices"]
        taints = [{"key": "example.com/bad", "value": str(self.made), "effect": "NoSchedule"}] if is_there else []
        spec = {"devices": [*others, {**last, "taints": taints}]}
        await self._api.merge_patch("resourceslices", slice_["metadata"]["name"], {"spec": spec})

    async def _claim(self) -> None:
        self._next = f"wait-{next(self._numbers)}"
        expression = f"device.attributes['{DRIVER}'].uuid == '{self._next}'"
        await self._api.create("resourceclaims", claimed(self._next, selectors=[{"cel": {"expression": expression}}]))

    async def _pod(self) -> None:
        pod, number = self._fleet.hopeless_pod(self._next, "default-scheduler"), int(self._next.rpartition("-")[2])
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
        name = f"job-{number // _WAITING}-{number % _OWNERS}"
        pod["metadata"]["ownerReferences"] = [{**owner, "name": name, "uid": name}]
        pod["metadata"]["labels"] = {"app": name, f"only-{number}": "yes"}
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": self._next}]
        await self._api.create("pods", pod)
        self.waiting.append(self._next)

    async def _remove_pod(self) -> None:
        await self._api.delete("pods", self.waiting[0], NAMESPACE)

    async def _remove_claim(self) -> None:
        await self._api.delete("resourceclaims", self.waiting.popleft(), NAMESPACE)


class Clients:
    """Those beside the tab.

    Attributes:
        told: How often each had which answer (`200`, `404`; `left` where it went first, else the error's name).
    """

    def __init__(self, page: str, metrics: str, changes: Changes) -> None:
        self._page: Final = page
        self._metrics: Final = metrics
        self._changes: Final = changes
        self._numbers: Final = itertools.count()
        self._acts: Final[dict[str, tuple[Callable[[], Awaitable[str]], float]]] = {
            **{f"follows {view}": (partial(self._follow, view), 1.0) for view in ("overview", "pending", "devices")},
            "metrics": (partial(self._get, metrics), 15.0),
            "asks": (self._ask, 5.0),
            "ghosts": (self._ghost, 0.5),
            "shapes": (self._shape, 0.5),
            "leaver": (self._leave, 1.0),
            "halves": (self._half, 0.5),
        }
        self.told: Final[dict[str, Counter[str]]] = {name: Counter() for name in self._acts}

    async def run(self) -> None:
        """For ever."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            self._session = session
            async with asyncio.TaskGroup() as group:
                for name, (act, pause_s) in self._acts.items():
                    group.create_task(self._again(name, act, pause_s))

    def take(self) -> str:
        """What has been told since the last call."""
        said = [f"{name} {dict(told)}" for name, told in self.told.items()]
        for told in self.told.values():
            told.clear()
        return "; ".join(said).replace("'", "")

    async def _again(self, name: str, act: Callable[[], Awaitable[str]], pause_s: float) -> None:
        while True:
            try:
                said = await act()
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                said = type(error).__name__
            self.told[name][said] += 1
            await asyncio.sleep(pause_s)

    async def _get(self, address: str, leaves_s: float | None = None, **query: str) -> str:
        try:
            async with asyncio.timeout(leaves_s), self._session.get(address, params=query) as reply:
                await reply.read()
                return str(reply.status)
        except TimeoutError:
            return "left"

    async def _follow(self, view: str) -> str:
        """The view at each version that is told, until the server ends it."""
        have = -1
        async with self._session.get(f"{self._page}api/events") as events:
            async for line in events.content:
                if line.startswith(b"data: "):
                    async with self._session.get(f"{self._page}api/{view}", params={"after": str(have)}) as reply:
                        body = await reply.read()
                    self.told[f"follows {view}"][str(reply.status)] += 1
                    have = json.loads(body)["version"] if reply.ok else have
        return "ended"

    def _question(self) -> dict[str, str]:
        """What if, of all kinds by turns."""
        number = next(self._numbers)
        pod = f"{NAMESPACE}/{self._changes.waiting[-1]}" if self._changes.waiting else "none/none"
        kinds = ({"room": pod}, {"pod": pod, "copies": str(1 + number % 9)}, {"without": node_name(number % 20)})
        return kinds[number % len(kinds)]

    async def _ask(self) -> str:
        return await self._get(f"{self._page}api/whatif", **self._question())

    async def _leave(self) -> str:
        return await self._get(f"{self._page}api/whatif", _LEAVE_S, **self._question())

    async def _ghost(self) -> str:
        """A pod or a device that is not there, each another; now and then one that is, or was."""
        number = next(self._numbers)
        if number % 3 == 0:
            return await self._get(f"{self._page}api/device", driver=DRIVER, pool=f"pool-{number}", name="gpu-0")
        name = self._changes.waiting[0] if number % 3 == 1 and self._changes.waiting else f"ghost-{number}"
        return await self._get(f"{self._page}api/pod", namespace=NAMESPACE, name=name)

    async def _shape(self) -> str:
        number = next(self._numbers)
        return await self._get(f"{self._page}api/devices", **{("by", "near", "rack")[number % 3]: f"x-{number}"})

    async def _half(self) -> str:
        """Half a head, half a body, or half a stream of events; then it goes."""
        host, number = self._page.split("/")[2], next(self._numbers)
        heads = (
            "GET /api/overview HTTP/1.1\r\nHost: ",
            f"POST /api/whatif HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 9000\r\n\r\na: ",
            f"GET /api/events HTTP/1.1\r\nHost: {host}\r\n\r\n",
            f"GET /{'a' * 9000} HTTP/1.1\r\nHost: {host}\r\nX: {number}\0\r\n\r\n",
        )
        name, _, port = host.rpartition(":")
        reader, writer = await asyncio.open_connection(name, int(port))
        try:
            writer.write(heads[number % len(heads)].encode())
            async with asyncio.timeout(_LEAVE_S):
                return (await reader.readline()).decode(errors="replace")[9:12]
        except TimeoutError:
            return "left"
        finally:
            writer.close()


class Tab:
    """One browser tab that goes through all views, again and again.

    Attributes:
        seen: How often each view had something to show.
    """

    def __init__(self, page: Any, url: str, changes: Changes) -> None:
        self._page: Final = page
        self._url: Final = url
        self._changes: Final = changes
        self._numbers: Final = itertools.count()
        self.seen: Final[Counter[str]] = Counter()

    async def open(self) -> None:
        await self._page.goto(f"{self._url}#/overview")
        self._inside = await self._page.context.new_cdp_session(self._page)
        await self._inside.send("HeapProfiler.enable")

    async def next_view(self) -> None:
        """Go to another view, and look at it for some seconds."""
        pod, node = f"{NAMESPACE}/{self._changes.waiting[-1]}", node_name(self._changes.made % 20)
        views = (
            *("overview", "pending?sort=age", "pending?by=namespace", f"pod?pod={pod}", "devices"),
            *(f"devices?by={DRIVER}/numa", "devices?rack=topology.kubernetes.io/zone", "warnings"),
            *(f"devices?device={DRIVER} {node} gpu-0", f"whatif?pod={pod}&copies=2", f"whatif?without={node}"),
        )
        view = views[next(self._numbers) % len(views)]
        await self._page.evaluate("view => { location.hash = '#/' + view }", view)
        await asyncio.sleep(_VIEW_S)
        # Nothing that hands out an element, as wait_for_selector does: whoever has it keeps its document's tree.
        if await self._page.evaluate("document.querySelector('main :is(h2, h3)') !== null"):
            self.seen[view.partition("?")[0]] += 1

    async def heap_bytes(self) -> tuple[int, int]:
        """What its scripts hold after a collection, with the overview seen; and how many nodes its documents have."""
        await self._page.evaluate("location.hash = '#/overview'")
        await self._page.wait_for_function("document.querySelector('#waiting') !== null", timeout=120_000)
        for _ in range(3):  # what the view before had goes a frame later, and what it held after that
            await asyncio.sleep(_LEAVE_S)
            await self._inside.send("HeapProfiler.collectGarbage")
        used = (await self._inside.send("Runtime.getHeapUsage"))["usedSize"]
        return int(used), int((await self._inside.send("Memory.getDOMCounters"))["nodes"])

    async def has_in_use(self, devices: int) -> None:
        """Wait until the page shows so many."""
        await self._page.evaluate("location.hash = '#/devices'")
        await self._page.wait_for_selector(f".legend >> text=used {devices}", timeout=120_000)


def flat(name: str, minutes: Sequence[tuple[float, float]]) -> tuple[str, bool]:
    """Whether a number stays from minute 10 on; of less than half an hour, from the first third on.

    Flat is: the line through the medians (least squares) rises less than 5 % of their median in an hour, and the
    highest value is less than 10 % above the highest until then.

    Args:
        minutes: Median and highest in each minute.
    """
    settled = min(SETTLED_MIN, len(minutes) // 3)
    until, later = minutes[: settled + 1], minutes[settled:]
    if len(later) < 2:
        return f"{name}: too short for a verdict", False
    medians = [middle for middle, _ in later]
    slope = 60 * statistics.linear_regression(range(len(medians)), medians).slope / statistics.median(medians)
    higher = max(highest for _, highest in later) / max(highest for _, highest in until) - 1
    is_flat = slope < SLOPE_GOAL and higher < HIGHEST_GOAL
    said = f"{slope:+.1%} an hour from minute {settled} on, the highest {higher:+.1%} over the highest until then"
    return f"{name}: {'flat' if is_flat else 'NOT FLAT'}, {said}", is_flat
