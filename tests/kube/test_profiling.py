"""The profile by stage adds up, whatever interrupts whatever."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.kube.profiling import DECIDING, REPLIES, WRITING, Stages


class Clock:
    """Goes forward when told."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def spend(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_stage_within_a_stage_is_charged_once(clock: Clock) -> None:
    stages = Stages(clock)
    inner = stages.timed(REPLIES, lambda: clock.spend(2))

    def outer() -> str:
        clock.spend(1)
        inner()
        clock.spend(4)
        return "done"

    assert stages.timed(DECIDING, outer)() == "done"
    clock.spend(8)
    stages.table()

    assert stages.cpu_s[DECIDING] == 5
    assert stages.cpu_s[REPLIES] == 2
    assert sum(stages.cpu_s.values()) == 15


def test_an_exception_ends_its_stage(clock: Clock) -> None:
    stages = Stages(clock)

    def fail() -> None:
        clock.spend(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        stages.timed(DECIDING, fail)()
    clock.spend(16)
    stages.table()

    assert stages.cpu_s[DECIDING] == 1
    assert sum(stages.cpu_s.values()) == 17


async def test_what_a_coroutine_waits_for_is_not_charged(clock: Clock) -> None:
    stages = Stages(clock)
    gate = asyncio.Event()

    async def request() -> int:
        clock.spend(1)
        await gate.wait()
        clock.spend(2)
        return 7

    async def run() -> int:
        return await stages.timed_writing(request())

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    clock.spend(32)
    gate.set()

    assert await task == 7
    assert stages.cpu_s[WRITING] == 3


async def test_cancelling_reaches_the_coroutine(clock: Clock) -> None:
    stages = Stages(clock)
    seen: list[str] = []

    async def request() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def run() -> None:
        await stages.timed_writing(request())

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


def test_the_table_is_by_bound_pod(clock: Clock) -> None:
    stages = Stages(clock)
    stages.timed(DECIDING, lambda: clock.spend(0.004))()
    for _ in range(2):
        stages.wrote("BindPod", "Accepted", 0.01)
    stages.wrote("WriteClaimStatus", "Accepted", 0.03)
    text = stages.table()

    assert "2 pods bound" in text
    assert "| deciding | 2.000 | 100% | 1 |" in text
    assert "| BindPod | 2 | 10.00 | 10.000 |" in text
    assert "| WriteClaimStatus | 1 | 30.00 | 15.000 |" in text
    assert "Longest time the machine took for one input: 4.00 ms" in text
