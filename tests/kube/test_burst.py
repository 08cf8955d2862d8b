"""A burst of 100,000 events: what waits for the machine is bounded, nothing is lost, and others have their turn."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace

import pytest
from aiohttp import web

from scheduler import machine_turns
from scheduler.core.ground.inputs import Input
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.clock import Clock
from scheduler.kube.codec import Codec
from scheduler.kube.credentials import Connection
from scheduler.kube.metrics import Metrics
from scheduler.kube.watch import Reflector
from scheduler.machine_turns import INPUTS_WAITING_MAX, MachineTurns
from tests.kube.misbehaving import Reports, added, bookmark, misbehaving, pod, watch
from tests.observed import is_of
from tests.patience import PATIENCE_S

BURST = 100_000
PIECE = 500


class SlowMachine:
    """Each input takes a millisecond of a time that is counted, so a turn takes five."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.seen: list[str] = []
        self.is_done = asyncio.Event()

    def handle(self, given: Input, *, now_ms: int) -> tuple[()]:
        self.now_s += 0.001
        if is_of(given, "Pod"):
            self.seen.append(given.object.metadata.resource_version)
            if len(self.seen) == BURST:
                self.is_done.set()
        return ()


def burst():
    """A watch that sends all of it as fast as it is taken."""
    line = added(pod("a", 0))
    assert '"resourceVersion":"0"' in line

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(bookmark(9, ends_initial=True).encode())
        for first in range(0, BURST, PIECE):
            versions = range(first + 10, first + 10 + PIECE)
            lines = (line.replace('"resourceVersion":"0"', f'"resourceVersion":"{version}"') for version in versions)
            await response.write("".join(lines).encode())
        await asyncio.Event().wait()
        return response

    return answer


@pytest.mark.slow
async def test_a_burst_waits_in_the_network_and_not_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SlowMachine()
    clock = SimpleNamespace(perf_counter=lambda: machine.now_s, thread_time=lambda: machine.now_s)
    monkeypatch.setattr(machine_turns, "time", clock)
    turns = MachineTurns(
        SimpleNamespace(
            outbox=SimpleNamespace(takes_notes=False),
            troubles=SimpleNamespace(changes=0),
            next_deadline_ms=lambda: None,
        ),
        machine.handle,
        lambda decisions: None,
        clock=Clock(lambda: machine.now_s),
        metrics=Metrics(lambda: None),
        on_idle=lambda: None,
        on_failure=lambda error: pytest.fail(f"{error!r}"),
    )
    waiting: list[int] = []

    def deliver(inputs) -> None:
        turns.deliver(inputs)
        waiting.append(turns.inputs_waiting)

    async with misbehaving(burst(), watch(then="hang")) as server:
        credentials = await Connection(url=server.url).open()
        async with ApiClient(credentials) as client:
            reflector = Reflector(client, Codec().pods, deliver, Reports(), room=turns.room)
            task = asyncio.create_task(reflector.run())
            turns.begin()
            turns.decide([])
            async with asyncio.timeout(PATIENCE_S):
                await machine.is_done.wait()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    assert machine.seen == [str(number) for number in range(10, 10 + BURST)]
    assert max(waiting) <= INPUTS_WAITING_MAX + 10_000  # and what one read of the network brings, of so small ones
