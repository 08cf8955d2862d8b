"""A flood of inputs, or inputs that take long, leave the Lease's renewals alone: between two turns is their turn.

Time is counted, not measured: it passes by what each input is said to take, and at once where nothing happens.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
from types import SimpleNamespace

import pytest

from scheduler import machine_turns
from scheduler.kube.clock import Clock
from scheduler.kube.metrics import Metrics
from scheduler.machine_turns import MachineTurns
from tests.kube.test_lease import TIMES, Process, Server


class CountedTime(asyncio.SelectorEventLoop):
    """Its clock stands still but for `now_s`, and moves on to the next timer when nothing is ready."""

    def __init__(self) -> None:
        self.now_s = 0.0
        counted = self

        class Selector(selectors.DefaultSelector):
            def select(self, timeout: float | None = None):
                ready = super().select(0 if timeout is not None else None)
                if not ready and timeout:
                    counted.now_s += timeout
                return ready

        super().__init__(Selector())

    def time(self) -> float:
        return self.now_s


async def flood(loop: CountedTime, inputs: int, takes_s: float) -> tuple[Process, list[float], MachineTurns]:
    """The lease's holder is given so many inputs at once; when it renewed until all were taken."""
    server, done = Server(), asyncio.Event()
    process = Process(server, "one")

    def handle(given, *, now_ms: int) -> tuple[()]:
        loop.now_s += takes_s
        return ()

    turns = MachineTurns(
        SimpleNamespace(
            outbox=SimpleNamespace(takes_notes=False),
            troubles=SimpleNamespace(changes=0),
            next_deadline_ms=lambda: None,
        ),
        handle,
        lambda decisions: None,
        clock=Clock(loop.time),
        metrics=Metrics(lambda: None),
        on_idle=done.set,
        on_failure=lambda error: pytest.fail(f"{error!r}"),
    )
    async with process.election:
        await process.election.acquired()
        turns.begin()
        turns.deliver([object()] * inputs)
        await done.wait()
        assert process.election.may_write()
    return process, [at_s for at_s, method, _ in server.writes if method == "PUT"], turns


@pytest.mark.parametrize(
    ("inputs", "takes_s"),
    [
        pytest.param(100_000, 0.001, id="a-flood"),
        pytest.param(200, 0.5, id="hostile-inputs"),
    ],
)
def test_renewals_go_on_while_inputs_are_taken(inputs: int, takes_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = CountedTime()
    monkeypatch.setattr(
        machine_turns, "time", SimpleNamespace(perf_counter=lambda: loop.now_s, thread_time=lambda: loop.now_s)
    )
    try:
        process, renewed_s, turns = loop.run_until_complete(flood(loop, inputs, takes_s))
    finally:
        loop.close()

    assert turns.inputs_count == inputs
    assert process.losses == []
    turn_s = max(takes_s, 0.006)
    *_, last_s = renewed_s
    assert last_s > inputs * takes_s - TIMES.retry_period_s
    # Each step of a renewal (its timer, sending, the answer, who waits for it) comes after a turn; some eight of them.
    longest_s = max(later - earlier for earlier, later in itertools.pairwise([0.0, *renewed_s]))
    assert longest_s <= TIMES.retry_period_s + 10 * turn_s
