"""Who leaves ends their question, and an answer leaves nothing."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any
from weakref import WeakSet

import aiohttp
import pytest

from allocator import Features
from scheduler.answering import LeftError, _has_left, go_on, in_thread
from scheduler.core.machine import Machine
from scheduler.explain import NotThereError, explain_pod
from scheduler.explain.waiting import ask_all
from scheduler.garbage_collector import settle
from scheduler.offline import OfflineCluster
from scheduler.ui import data_source, what_if
from scheduler.ui.data_source import Objects, _Shared
from scheduler.ui.server import UiServer
from scheduler.ui.what_if import WhatIf, WhatIfRequest, answer
from tests.offline.causes import pod
from tests.patience import PATIENCE_S
from tests.ui.worlds import source


class Endless:
    """An answer that ends only when nobody waits for it."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.playing = self.most = 0

    def __call__(self, *_: object, **__: object) -> Any:
        self.playing += 1
        self.most = max(self.most, self.playing)
        self.begun.release()
        try:
            while True:
                go_on()
        finally:
            self.playing -= 1


@pytest.fixture
def as_on_the_page() -> Iterator[None]:
    """Its thresholds of the garbage collector."""
    before = gc.get_threshold()
    settle()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def worlds_alive() -> int:
    return sum(isinstance(one, Machine | OfflineCluster) for one in gc.get_objects())


@pytest.mark.parametrize("view", ["pod", "nobody", "pending", "what-if"])
@pytest.mark.usefixtures("as_on_the_page")
async def test_what_an_answer_leaves_is_collected(view: str) -> None:
    """A pod's page left 31 MB of 300 nodes, each time it was asked for."""
    asked = source()
    what = WhatIf(asked)

    async def ask(number: int) -> object:
        if view == "pending":
            return await asked._pending()
        if view == "what-if":
            return await what.answer(WhatIfRequest(pod=("default", "waits"), copies=2))
        try:
            return await asked._pod(("default", "waits" if view == "pod" else f"nobody-{number}"))
        except NotThereError:
            return None

    await ask(0)
    before = worlds_alive()
    for number in range(50):
        await ask(number)
    assert worlds_alive() <= before


@pytest.mark.usefixtures("as_on_the_page")
async def test_an_answer_that_makes_many_machines_keeps_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of 60 pods that wait kept 13 machines until it was made: 150 MiB of 500 nodes, and a peak stays."""
    alive, made, most, init = WeakSet[Machine](), 0, 0, Machine.__init__

    def noted(machine: Machine, *given: Any, **options: Any) -> None:
        nonlocal made, most
        init(machine, *given, **options)
        alive.add(machine)
        made, most = made + 1, max(most, len(alive))

    monkeypatch.setattr(Machine, "__init__", noted)
    asked = source(*(pod("three", name=f"pod-{number}", requests={"cpu": str(90 + number)}) for number in range(6)))
    await asked._pending()
    assert made > 6
    assert most <= 3  # the list's own, the last one and the one that was just made


async def test_who_leaves_a_what_if_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven who asked and left took all threads: no view was answered, and the process could not end."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(3))
    endless = Endless()
    monkeypatch.setattr(what_if, "answer", endless)
    async with UiServer(source()) as server, aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE_S):
        for _ in range(7):
            asked = asyncio.ensure_future(session.get(f"{server.url}api/whatif?pod=default/waits"))
            await asyncio.to_thread(endless.begun.acquire)
            asked.cancel()
        async with session.get(f"{server.url}api/devices") as reply:
            assert reply.status == 200
        monkeypatch.setattr(what_if, "answer", answer)
        async with session.get(f"{server.url}api/whatif?pod=default/waits") as reply:
            assert reply.status == 200
    assert (endless.playing, endless.most) == (0, 1)


async def test_the_turn_is_held_until_the_thread_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """So two questions are never played at once, however often somebody asks and leaves."""
    begun, may_end = threading.Event(), threading.Event()

    def slow(*_: object) -> dict[str, Any]:
        begun.set()
        may_end.wait()
        return {}

    monkeypatch.setattr(what_if, "answer", slow)
    asked = WhatIf(source())
    first = asyncio.ensure_future(asked.answer(WhatIfRequest()))
    await asyncio.to_thread(begun.wait)
    for _ in range(3):
        first.cancel()
        await asyncio.sleep(0)
    assert asked._turn.locked()
    may_end.set()
    await asyncio.wait([first])
    assert first.cancelled()
    assert await asked.answer(WhatIfRequest()) == {}


async def test_who_leaves_pods_pages_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Endless()
    monkeypatch.setattr(data_source, "explain_pod", endless)
    asked = source(*(pod("three", name=f"pod-{number}") for number in range(6)))
    pages = [asyncio.ensure_future(asked.pod(("default", f"pod-{number}"))) for number in range(6)]
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.to_thread(endless.begun.acquire)
        for page in pages:
            page.cancel()
        await asyncio.wait(pages)
        monkeypatch.undo()
        assert (await asked.pod(("default", "pod-0")))["subject"] == "pod/default/pod-0"
    assert endless.playing == 0
    assert endless.most <= 2


async def test_few_machines_are_played_at_a_time_and_who_waits_keeps_no_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four at once, which is rare, left the process of 500 nodes 90 MiB larger for good."""
    endless, asked, read = Endless(), source(*(pod("three", name=f"pod-{number}") for number in range(3))), 0
    objects = asked.objects

    async def counted() -> Objects:
        nonlocal read
        read += 1
        return await objects()

    for where, name in ((data_source, "explain_pod"), (data_source, "ask_all"), (what_if, "answer")):
        monkeypatch.setattr(where, name, endless)
    monkeypatch.setattr(asked, "objects", counted)
    questions = [*(asked.pod(("default", f"pod-{number}")) for number in range(3)), asked.pending()]
    asking = [asyncio.ensure_future(one) for one in (*questions, WhatIf(asked).answer(WhatIfRequest()))]
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(2):
            await asyncio.to_thread(endless.begun.acquire)
        for _ in range(50):  # each comes as far as it may
            await asyncio.sleep(0)
        assert (endless.playing, read) == (2, 2)
        for one in asking:
            one.cancel()
        await asyncio.wait(asking)
    assert (endless.playing, endless.most) == (0, 2)


@pytest.mark.looptime
async def test_who_waits_for_a_turn_makes_no_page_rest() -> None:
    """In an hour of hostile questions an open page was told of news every two minutes."""
    asked, turn = source(), asyncio.Semaphore(0)
    begun_s = asyncio.get_running_loop().time()

    async def make() -> dict[str, Any]:
        await asyncio.sleep(2)
        return {}

    making = asyncio.ensure_future(asked._make(make, turn, 1))
    await asyncio.sleep(100)
    turn.release()
    await making
    assert asked._rest_until_s == pytest.approx(begun_s + 102 + 9 * 2)


async def test_who_leaves_ends_nothing_for_those_who_still_wait() -> None:
    shared, begun, may_end = _Shared[str](), asyncio.Event(), asyncio.Event()

    async def make(_: int) -> str:
        begun.set()
        await may_end.wait()
        return "made"

    first, second = (asyncio.ensure_future(shared.of(1, lambda: 1, make)) for _ in range(2))
    await begun.wait()
    first.cancel()
    await asyncio.wait([first])
    may_end.set()
    assert await second == "made"


async def test_an_answer_that_was_ended_is_made_anew_for_whoever_comes() -> None:
    shared, begun, made = _Shared[str](), asyncio.Event(), 0

    async def make(_: int) -> str:
        nonlocal made
        made += 1
        if made == 1:
            begun.set()
            await asyncio.Event().wait()
        return "made"

    first = asyncio.ensure_future(shared.of(1, lambda: 1, make))
    await begun.wait()
    first.cancel()
    await asyncio.sleep(0)
    assert await shared.of(1, lambda: 1, make) == "made"


KEY = ("default", "waits")
NOW: dict[str, Any] = {"now_ms": 0, "features": Features()}


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda read: explain_pod(read.given, KEY, **NOW), id="pod"),
        pytest.param(lambda read: ask_all(read.given, **NOW), id="pending"),
        pytest.param(lambda read: answer(read, WhatIfRequest(pod=KEY)), id="what if"),
        pytest.param(lambda read: answer(read, WhatIfRequest(room=KEY)), id="room"),
        pytest.param(lambda read: answer(read, WhatIfRequest(drain="node-1/gpu-0")), id="drain"),
    ],
)
async def test_whatever_plays_a_machine_looks_whether_somebody_waits(
    ask: Callable[[Objects], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here whoever asked leaves when the cluster has been read."""
    read, load, has_left, context = await source().objects(), OfflineCluster.load, threading.Event(), copy_context()

    def loaded(*arguments: Any) -> Any:
        found = load(*arguments)
        has_left.set()
        return found

    monkeypatch.setattr(OfflineCluster, "load", loaded)
    context.run(_has_left.set, has_left)
    with pytest.raises(LeftError):
        context.run(ask, read)


async def test_reading_the_cluster_ends_too() -> None:
    """20,000 objects took 20 s and more, also when whoever asked had left."""
    read, has_left, context = await source().objects(), threading.Event(), copy_context()
    has_left.set()
    context.run(_has_left.set, has_left)
    with pytest.raises(LeftError):
        context.run(OfflineCluster(0).load, read.given)


async def test_a_thread_that_nobody_waits_for_is_told() -> None:
    begun, told = threading.Event(), list[bool]()

    def ask() -> None:
        begun.set()
        try:
            while True:
                go_on()
        except LeftError:
            told.append(True)
            raise

    asked = asyncio.ensure_future(in_thread(ask))
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.to_thread(begun.wait)
        asked.cancel()
        await asyncio.wait([asked])
    assert told == [True]
    go_on()  # who is in no such thread is told nothing
