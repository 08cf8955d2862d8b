"""Two processes of one scheduler name at once, with no lease between them: nothing is taken from a pod that is bound.

A lease keeps the second one quiet (`test_lease`); here none is kept, for a request that has left cannot be called back.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.controlplane.fault_proxy import Fault, FaultProxy
from tests.integration.api import Object
from tests.integration.world import UNDER_TEST, WRITES, World

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="this is about two processes of ours")

NODES, DEVICES = 8, 8
PODS = NODES * DEVICES


@asynccontextmanager
async def second_process(world: World) -> AsyncIterator[World]:
    second = replace(world, log=world.log.with_name("second.log"), _scheduler=None)
    await second.start_scheduler("--leader-elect=false")
    try:
        yield second
    finally:
        await second.stop_scheduler(kill=True)


def signal_scheduler(world: World, number: signal.Signals) -> None:
    assert world._scheduler is not None
    world._scheduler.send_signal(number)


async def add_fleet(world: World) -> None:
    await world.add_nodes(NODES, devices=DEVICES)
    await world.add_class()
    await world.add_template()


def names(prefix: str, count: int = PODS) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


async def delete(world: World, pods: list[str]) -> None:
    for name in pods:
        await world.api.delete("pods", name, world.namespace)
    await world.wait_for("pods", lambda left: not set(pods) & set(left), what="pods deleted")
    await world.wait_for("resourceclaims", lambda left: not left, what="claims deleted")


async def test_both_at_work_give_every_pod_its_devices_once(world: World) -> None:
    """As many pods as devices, three times; each process sees all of them and tries all of them."""
    await add_fleet(world)
    await world.start_scheduler("--leader-elect=false")
    async with second_process(world):
        for round_ in range(3):
            pods = names(f"round-{round_}")
            await world.add_pods(pods, template="one-gpu")
            await world.wait_bound(*pods)
            assert await world.violations() == []
            await delete(world, pods)


async def test_a_sleeper_that_wakes_up_takes_nothing_back(world: World) -> None:
    """Stopped in the middle; another does the rest; the first goes on, and does what it had in mind, or lets it be."""
    await add_fleet(world)
    await world.start_scheduler("--leader-elect=false")
    pods = names("pod", PODS - 1)
    await world.add_pods(pods[:8], template="one-gpu")
    await world.wait_bound(*pods[:8])
    await world.add_pods(pods[8:], template="one-gpu")

    def some_are_bound(seen: dict[str, Object]) -> bool:
        return sum(bool(pod["spec"].get("nodeName")) for pod in seen.values()) >= 12

    await world.wait_for("pods", some_are_bound, what="12 pods bound")
    signal_scheduler(world, signal.SIGSTOP)
    async with second_process(world):
        await world.wait_bound(*pods)
        assert await world.violations() == []
        signal_scheduler(world, signal.SIGCONT)
    # The last pod is the first process's alone: when it is bound, that one has dealt with all that it had in mind.
    await world.add_pods(["last"], template="one-gpu")
    await world.wait_bound("last")
    assert await world.violations() == []


async def test_an_allocation_that_lands_after_another_gave_the_device_is_given_back(world: World) -> None:
    """The write of a process that was killed arrives late: no revision refuses it, for nobody has changed its claim."""
    await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_template()
    await world.create("priorityclasses", {"metadata": {"name": f"{world.tag}-high"}, "value": 1000})
    held = world.proxy.add(Fault("hold", *WRITES["claim status"]))
    await world.start_scheduler("--leader-elect=false")
    await world.add_pods(["late"], template="one-gpu")
    await held.happened.wait()
    await world.stop_scheduler(kill=True)
    await world.add_pod("urgent", template="one-gpu", priorityClassName=f"{world.tag}-high")

    first = world.proxy
    async with (
        FaultProxy(first.upstream, first.upstream_ssl, first.tls) as proxy,
        second_process(replace(world, proxy=proxy)),
    ):
        await world.wait_bound("urgent")
        assert await held.release() == 200

        def only_one_has_it(claims: dict[str, Object]) -> bool:
            return sum("allocation" in one.get("status", {}) for one in claims.values()) == 1

        await world.wait_for("resourceclaims", only_one_has_it, what="the late allocation taken back")
        assert await world.violations() == []
        await world.api.delete("pods", "urgent", world.namespace)
        await world.wait_bound("late")
        assert await world.violations() == []
