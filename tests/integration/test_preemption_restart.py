"""The scheduler is killed (SIGKILL) at each write of a preemption, and the next one goes on: nobody more must go."""

from __future__ import annotations

from typing import Final

from tests.integration.preempting import (
    add_pod,
    add_priorities,
    end,
    end_until_bound,
    wait_nominated,
    wait_preempted,
    wait_terminating,
)
from tests.integration.test_restart import Fate, arrives_late, kill_at, on_both, ours_only, writes_seen
from tests.integration.witness import witnessed
from tests.integration.world import World

pytestmark = ours_only

VICTIMS: Final = ("lowest-0", "lowest-1")
# The writes of a preemption with two victims, in their order as far as they have one.
POINTS: Final[dict[str, tuple[str, str]]] = {
    "nomination": ("PATCH", r"/pods/pod/status$"),
    "announcement": ("PATCH", r"/pods/lowest-[01]/status$"),
    "first removal": ("DELETE", r"/pods/lowest-0$"),
    "second removal": ("DELETE", r"/pods/lowest-1$"),
    "event": ("POST", r"/events$"),
    "binding": ("POST", r"/pods/pod/binding$"),
}
BEFORE_THE_END: Final = tuple(point for point in POINTS if point not in ("binding", "event"))
CLAIM_POINTS: Final[dict[str, tuple[str, str]]] = {
    "finalizer": ("PATCH", r"/resourceclaims/gpu$"),
    "allocation": ("PATCH", r"/resourceclaims/gpu/status$"),
}
DEVICE_POINTS: Final = {**{point: POINTS[point] for point in (*BEFORE_THE_END, "binding")}, **CLAIM_POINTS}


async def add_victims(world: World, *, lingers: bool = False) -> str:
    """Two full nodes: the first one's pods are the least important, the second one's come next. Returns the first."""
    await add_priorities(world)
    nodes = await world.add_nodes(2, cpu="4")
    for node, priority in zip(nodes, ("lowest", "low"), strict=True):
        for number in range(2):
            await add_pod(world, f"{priority}-{number}", priority, cpu="2", on=node, lingers=lingers)
    return nodes[0]


async def add_victims_with_devices(world: World, *, lingers: bool = False) -> str:
    """The same, where each pod has a device and the preemptor's claim asks for two."""
    await add_priorities(world)
    nodes = await world.add_nodes(2, devices=2)
    await world.add_class()
    await world.add_template()
    await world.add_claim("gpu", world.request(count=2))
    await world.start_scheduler()
    await world.cordon(nodes[1])
    for priority in ("lowest", "low"):
        for number in range(2):
            await add_pod(world, f"{priority}-{number}", priority, template="one-gpu", lingers=lingers)
        await world.wait_bound(f"{priority}-0", f"{priority}-1")
        await world.cordon(nodes[1], False)
    await world.stop_scheduler()
    return nodes[0]


async def test_the_points_are_those_of_the_table(world: World) -> None:
    """A write that a preemption newly needs must be added above."""
    await add_victims(world)
    await world.start_scheduler()
    await add_pod(world, "pod", "high", cpu="4")
    await world.wait_bound("pod")
    await wait_preempted(world, *VICTIMS)
    await world.stop_scheduler()

    writes = writes_seen(world)
    pods = "/api/v1/namespaces/*/pods/*"
    assert writes.pop(("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), 0) > 0
    assert writes.pop(("POST", "/apis/events.k8s.io/v1/namespaces/*/events")) == 4
    assert writes == {
        ("PATCH", f"{pods}/status"): 3,
        ("DELETE", pods): 2,
        ("POST", f"{pods}/binding"): 1,
    }


@on_both(*POINTS, real=("first removal", "stored"))
async def test_the_next_one_finishes(world: World, point: str, fate: Fate) -> None:
    node = await add_victims(world)
    async with witnessed(world) as witness:
        await add_pod(world, "pod", "high", cpu="4")
        fault = await kill_at(world, *POINTS[point], fate)
        await world.start_scheduler()
        assert (await world.wait_bound("pod"))["pod"]["spec"]["nodeName"] == node
        await arrives_late(fault, fate)
        assert await witness.gone() == set(VICTIMS)


@on_both(*BEFORE_THE_END, real=("second removal", "lost"))
async def test_the_next_one_waits_for_victims_that_take_their_time(world: World, point: str, fate: Fate) -> None:
    """Who was announced and not removed may go first or, decided once more, when the others have gone."""
    node = await add_victims(world, lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "pod", "high", cpu="4")
        fault = await kill_at(world, *POINTS[point], fate)
        await world.start_scheduler()
        await wait_nominated(world, "pod", node)
        await arrives_late(fault, fate)
        assert await witness.gone() <= set(VICTIMS)
        assert (await end_until_bound(world, "pod"))["spec"]["nodeName"] == node
        assert await witness.gone() == set(VICTIMS)


@on_both(*BEFORE_THE_END, real=("announcement", "late"))
async def test_a_preemptor_that_went_meanwhile_takes_nobody_with_it(world: World, point: str, fate: Fate) -> None:
    """What was not removed before the pod was deleted stays, unless the request was on its way."""
    await add_victims(world)
    async with witnessed(world) as witness:
        await add_pod(world, "pod", "high", cpu="4")
        fault = await kill_at(world, *POINTS[point], fate)
        await world.api.delete("pods", "pod", world.namespace)
        before = await witness.gone()
        await world.start_scheduler()
        await add_pod(world, "other", "lowest", cpu="64")
        await world.wait_unschedulable("other")  # it has looked at everything
        await arrives_late(fault, fate)
        may_go = {"pod", *before} | (set(VICTIMS) if fate == "late" else set())
        assert await witness.gone() <= may_go


@on_both(*DEVICE_POINTS, real=("second removal", "stored"))
async def test_the_next_one_finishes_with_devices(world: World, point: str, fate: Fate) -> None:
    node = await add_victims_with_devices(world)
    async with witnessed(world) as witness:
        await add_pod(world, "pod", "high", claim="gpu")
        fault = await kill_at(world, *DEVICE_POINTS[point], fate)
        await world.start_scheduler()
        assert (await world.wait_bound("pod"))["pod"]["spec"]["nodeName"] == node
        await arrives_late(fault, fate)
        assert await witness.gone() == set(VICTIMS)


@on_both(*BEFORE_THE_END, real=("first removal", "late"))
async def test_the_next_one_waits_for_devices_that_take_their_time(world: World, point: str, fate: Fate) -> None:
    node = await add_victims_with_devices(world, lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "pod", "high", claim="gpu")
        fault = await kill_at(world, *DEVICE_POINTS[point], fate)
        await world.start_scheduler()
        await wait_nominated(world, "pod", node)
        await arrives_late(fault, fate)
        assert (await end_until_bound(world, "pod"))["spec"]["nodeName"] == node
        assert await witness.gone() == set(VICTIMS)


async def test_nominations_outlast_a_restart(world: World) -> None:
    """While nobody schedules a less important pod comes, which would fit once the victims have ended."""
    node = await add_victims(world, lingers=True)
    await world.start_scheduler()
    async with witnessed(world) as witness:
        await add_pod(world, "pod", "high", cpu="4")
        await wait_nominated(world, "pod", node)
        await wait_terminating(world, *VICTIMS)
        await world.stop_scheduler()
        await add_pod(world, "thief", "low", cpu="2")
        await world.start_scheduler()
        await world.wait_unschedulable("thief")
        assert await witness.gone() == set(VICTIMS)
        await end(world, *VICTIMS)
        assert (await world.wait_bound("pod"))["pod"]["spec"]["nodeName"] == node
        assert not (await world.api.get("pods", "thief", world.namespace))["spec"].get("nodeName")
        assert await witness.gone() == set(VICTIMS)
