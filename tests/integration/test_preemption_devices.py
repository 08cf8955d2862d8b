"""Preemption for devices, as people see it: whose devices are taken, who waits for them, and who cannot take them."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.integration import test_extended_resources as extended_resources
from tests.integration.preempting import (
    add_pod,
    add_priorities,
    disruption_of,
    end,
    make_ready,
    protect,
    refusal_of,
    replaced,
    wait_nominated,
    wait_preempted,
    wait_terminating,
)
from tests.integration.test_devices import profile, publish_partitionable
from tests.integration.test_restart import ours_only
from tests.integration.witness import Witness, witnessed
from tests.integration.world import World, devices_of, gpu

pytestmark = ours_only  # kube-scheduler preempts nobody for devices


async def prepared(world: World, nodes: int = 1, *, devices: int = 1) -> list[str]:
    """Nodes with devices, a template of one device, the priorities, and the scheduler running."""
    await add_priorities(world)
    names = await world.add_nodes(nodes, devices=devices)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    return names


async def add_bound(world: World, name: str, priority: str, template: str = "one-gpu", **more: object) -> str:
    """A pod with a claim from the template, once it is bound; its node."""
    await add_pod(world, name, priority, template=template, **more)
    node: str = (await world.wait_bound(name))[name]["spec"]["nodeName"]
    return node


@asynccontextmanager
async def claim_controllers_paused(world: World) -> AsyncIterator[None]:
    """Nobody ends reservations and allocations meanwhile, nor makes claims."""
    world.cluster.signal_claim_controllers(signal.SIGSTOP)
    try:
        yield
    finally:
        world.cluster.signal_claim_controllers(signal.SIGCONT)


async def stays(witness: Witness, *gone: str) -> None:
    """These pods have gone, and no other one."""
    assert await witness.gone() == set(gone)


async def test_one_victim_gives_its_device(world: World) -> None:
    first, second = await prepared(world, 2)
    assert {await add_bound(world, "equal", "high"), await add_bound(world, "low", "low")} == {first, second}
    node = (await world.api.get("pods", "low", world.namespace))["spec"]["nodeName"]
    async with witnessed(world) as witness:
        pod = await add_pod(world, "high", "high", template="one-gpu")
        assert (await world.wait_bound("high"))["high"]["spec"]["nodeName"] == node
        ((pool, device),) = devices_of(await world.claim_of("high"))
        assert pool == node
        (event,) = (await wait_preempted(world, "low")).values()
        assert event["note"].startswith(f"Preempted by pod {pod['metadata']['uid']} on node {node}")
        assert f"{world.driver}/{pool}/{device}" in event["note"]
        assert event["related"]["name"] == "high"
        await stays(witness, "low")


async def test_the_waiting_pod_says_whom_it_waits_for_and_for_which_devices(world: World) -> None:
    (node,) = await prepared(world)
    await add_bound(world, "low", "low", lingers=True)
    async with witnessed(world):
        await add_pod(world, "high", "high", template="one-gpu")
        await wait_nominated(world, "high", node)
        message = (await world.wait_unschedulable("high"))["message"]
        assert f"{world.namespace}/low" in message
        assert f"{world.driver}/{node}/gpu-0" in message
        await wait_terminating(world, "low")
        told = await disruption_of(world, "low")
        assert told is not None
        assert told["reason"] == "PreemptionByScheduler"
        await end(world, "low")
        await world.wait_bound("high")


async def test_several_victims_give_what_one_pod_needs(world: World) -> None:
    await prepared(world, devices=3)
    for name in ("lowest", "low", "middle"):
        await add_bound(world, name, name)
    await world.add_template("two", world.request(count=2))
    async with witnessed(world) as witness:
        await add_bound(world, "high", "high", "two")
        await stays(witness, "lowest", "low")


async def test_all_users_of_a_shared_claim_go_or_none(world: World) -> None:
    await prepared(world)
    await world.add_claim("shared")
    for name in ("low-0", "low-1"):
        await add_pod(world, name, "low", claim="shared")
    await world.wait_bound("low-0", "low-1")
    async with witnessed(world) as witness:
        await add_bound(world, "high", "high")
        await stays(witness, "low-0", "low-1")


async def test_pods_that_replace_the_users_of_a_shared_claim_do_not_join_it(world: World) -> None:
    """A controller makes them while the users terminate. If they joined, these would have gone in vain, for ever."""
    (node,) = await prepared(world)
    await world.add_claim("shared")
    users = ("low-0", "low-1", "low-2")
    for name in users:
        await add_pod(world, name, "low", claim="shared", lingers=True)
    await world.wait_bound(*users)
    async with witnessed(world) as witness, replaced(world, *users, priority="low", claim="shared") as there:
        await add_pod(world, "high", "high", template="one-gpu")
        await wait_nominated(world, "high", node)
        await wait_terminating(world, *users)
        for name in ("again-0", "again-1", "again-2"):
            await world.wait_for("pods", lambda pods, name=name: name in pods, what=name)
            message = (await world.wait_unschedulable(name))["message"]
            assert f"{world.namespace}/shared is being released for pod {world.namespace}/high" in message
        await end(world, *users)
        await world.wait_bound("high")
        await stays(witness, *users)
        assert await witness.preemptions() == {(name, "high") for name in users}
        await end(world, "high")
        await world.wait_bound(*there)


async def test_a_claim_that_a_more_important_pod_uses_too_is_not_taken(world: World) -> None:
    await prepared(world)
    await world.add_claim("shared")
    await add_pod(world, "low", "low", claim="shared")
    await add_pod(world, "important", "high", claim="shared")
    await world.wait_bound("low", "important")
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", template="one-gpu")
        await world.wait_unschedulable("high")
        await stays(witness)
        assert await witness.preemptions() == set()


async def test_two_victims_free_one_partition(world: World) -> None:
    await add_priorities(world)
    node = world.node_name(0)
    await publish_partitionable(world, node)
    await world.add_class()
    await world.add_template("half", profile(world, "half"))
    await world.add_template("quarter", profile(world, "quarter"))
    await world.start_scheduler()
    await add_bound(world, "equal", "high", "half")
    for name in ("low-0", "low-1"):
        await add_bound(world, name, "low", "quarter")
    async with witnessed(world) as witness:
        await add_bound(world, "high", "high", "half")
        await stays(witness, "low-0", "low-1")


async def test_a_share_of_a_devices_capacity_is_given(world: World) -> None:
    await add_priorities(world)
    (node,) = await world.add_nodes(1)
    await world.publish(node, [{**gpu(0), "allowMultipleAllocations": True}])
    await world.add_class()
    await world.add_template("share", world.request(capacity={"requests": {"memory": "40Gi"}}))
    await world.start_scheduler()
    await add_bound(world, "equal", "high", "share")
    await add_bound(world, "low", "low", "share")
    async with witnessed(world) as witness:
        await add_bound(world, "high", "high", "share")
        await stays(witness, "low")


async def test_devices_and_cpu_are_judged_together(world: World) -> None:
    """On one node the device would be free, on the other one the cpu: only there both are."""
    await add_priorities(world)
    first, second = await world.add_nodes(2, devices=1, cpu="4")
    await world.add_class()
    await world.add_template()
    await add_pod(world, "first-cpu", "high", cpu="3", on=first)
    await world.start_scheduler()
    await world.cordon(second)
    await add_bound(world, "first-gpu", "lowest")
    await world.cordon(second, False)
    await world.cordon(first)
    await add_bound(world, "second-gpu", "low", cpu="3")
    await world.cordon(first, False)
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", template="one-gpu", cpu="3")
        assert (await world.wait_bound("high"))["high"]["spec"]["nodeName"] == second
        await stays(witness, "second-gpu")


async def test_a_budget_is_respected_where_there_is_a_choice(world: World) -> None:
    await prepared(world, 2)
    await add_bound(world, "guarded-0", "lowest")
    await add_bound(world, "free-0", "low")
    await make_ready(world, "guarded-0", "free-0")
    await protect(world, "guarded", 0, minAvailable=1)
    async with witnessed(world) as witness:
        await add_bound(world, "first", "high")
        await stays(witness, "free-0")
        await add_bound(world, "second", "high")
        await stays(witness, "free-0", "guarded-0")


async def test_an_extended_resource_that_devices_serve_is_given_too(world: World) -> None:
    """Neither pod has a claim in its spec; a third one, which uses a device by a claim, is not less important."""
    await add_priorities(world)
    (node,) = await world.add_nodes(1, devices=2)
    await extended_resources.add_class(world)
    await world.add_template()
    await world.start_scheduler()
    await add_bound(world, "equal", "high")
    gpu_of = [extended_resources.container("main", extended_resources.explicit_name(world), 1)]
    await add_pod(world, "low", "low", containers=gpu_of)
    await world.wait_bound("low")
    ((_, device),) = devices_of(await extended_resources.special_claim(world, "low"))
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", containers=gpu_of)
        await world.wait_bound("high")
        assert devices_of(await extended_resources.special_claim(world, "high")) == [(node, device)]
        (event,) = (await wait_preempted(world, "low")).values()
        assert f"{world.driver}/{node}/{device}" in event["note"]
        await stays(witness, "low")


async def test_two_share_the_devices_of_one_victim(world: World) -> None:
    """One of the two nodes' pods holds two devices: no second one need go."""
    await prepared(world, 2, devices=2)
    await world.add_template("two", world.request(count=2))
    await add_bound(world, "equal", "high", "two")
    await add_bound(world, "low", "low", "two", lingers=True)
    async with witnessed(world) as witness:
        for name in ("one", "other"):
            await add_pod(world, name, "high", template="one-gpu")
        await wait_terminating(world, "low")
        await world.wait_unschedulable("one")
        await world.wait_unschedulable("other")
        await end(world, "low")
        pods = await world.wait_bound("one", "other")
        assert len({pods[name]["spec"]["nodeName"] for name in ("one", "other")}) == 1
        await stays(witness, "low")


async def test_one_device_is_not_promised_twice(world: World) -> None:
    await prepared(world)
    await add_bound(world, "low", "low", lingers=True)
    async with witnessed(world) as witness:
        for name in ("one", "other"):
            await add_pod(world, name, "high", template="one-gpu")
            await world.wait_unschedulable(name)
        await wait_terminating(world, "low")
        await end(world, "low")
        pods = await world.wait_for(
            "pods", lambda pods: any(pods[name]["spec"].get("nodeName") for name in ("one", "other")), what="one bound"
        )
        assert len([name for name in ("one", "other") if pods[name]["spec"].get("nodeName")]) == 1
        await stays(witness, "low")


async def test_devices_of_a_victim_that_will_not_die_are_kept_from_the_less_important(world: World) -> None:
    """As where a driver is down: the kubelet cannot end the pod. The other node's pod stays, too."""
    await prepared(world, 2)
    node = await add_bound(world, "lowest", "lowest", lingers=True)
    await add_bound(world, "low", "low", lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", template="one-gpu")
        await wait_nominated(world, "high", node)
        await wait_terminating(world, "lowest")
        await add_pod(world, "thief", "low", template="one-gpu")
        await world.wait_unschedulable("thief")
        await stays(witness, "lowest")
        await end(world, "lowest")
        assert (await world.wait_bound("high"))["high"]["spec"]["nodeName"] == node
        await stays(witness, "lowest")
        assert not (await world.api.get("pods", "thief", world.namespace))["spec"].get("nodeName")


async def test_nobody_else_goes_while_a_claim_is_not_released(world: World) -> None:
    """Between the victim's end and the release of its claim no pod terminates any more, and no device is free."""
    await prepared(world, 2)
    node = await add_bound(world, "lowest", "lowest", lingers=True)
    await add_bound(world, "low", "low")
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", template="one-gpu")
        await wait_nominated(world, "high", node)
        await wait_terminating(world, "lowest")
        async with claim_controllers_paused(world):
            await end(world, "lowest")
            await add_pod(world, "cpu-only", "lowest", cpu="1")
            await world.wait_bound("cpu-only")  # the scheduler has seen the end, and looked at everything since
            await stays(witness, "lowest")
            assert not (await world.api.get("pods", "high", world.namespace))["spec"].get("nodeName")
        assert (await world.wait_bound("high"))["high"]["spec"]["nodeName"] == node
        await stays(witness, "lowest")


async def test_a_more_important_pod_takes_the_devices(world: World) -> None:
    (node,) = await prepared(world)
    await add_bound(world, "low", "low", lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", template="one-gpu")
        await wait_nominated(world, "high", node)
        await wait_terminating(world, "low")
        await add_pod(world, "higher", "highest", template="one-gpu")
        await world.wait_unschedulable("higher")
        await end(world, "low")
        await world.wait_bound("higher")
        assert not (await world.api.get("pods", "high", world.namespace))["spec"].get("nodeName")
        assert await refusal_of(world, "high")
        await stays(witness, "low")


async def test_a_preemptor_that_is_deleted_leaves_the_device_to_others(world: World) -> None:
    (node,) = await prepared(world)
    await add_bound(world, "low", "low", lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", template="one-gpu")
        await wait_nominated(world, "high", node)
        await wait_terminating(world, "low")
        await add_pod(world, "next", "lowest", template="one-gpu")
        await world.wait_unschedulable("next")
        await world.api.delete("pods", "high", world.namespace)
        await end(world, "low")
        await world.wait_bound("next")
        await stays(witness, "low", "high")


async def test_a_preemptor_that_finds_a_device_elsewhere_goes_there(world: World) -> None:
    (node,) = await prepared(world)
    await add_bound(world, "low", "low", lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", template="one-gpu")
        await wait_nominated(world, "high", node)
        await wait_terminating(world, "low")
        (free,) = await world.add_nodes(1, devices=1, first=1)
        assert (await world.wait_bound("high"))["high"]["spec"]["nodeName"] == free
        await end(world, "low")
        assert await add_bound(world, "next", "lowest") == node
        await stays(witness, "low")


async def test_pods_of_another_scheduler_give_their_devices_too(world: World) -> None:
    await add_priorities(world)
    await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler(name="somebody-else")
    await add_bound(world, "theirs", "low", schedulerName="somebody-else")
    await world.stop_scheduler()
    await world.start_scheduler()
    async with witnessed(world) as witness:
        await add_bound(world, "high", "high")
        await stays(witness, "theirs")


async def test_a_victim_in_the_middle_of_its_binding_gives_its_device_back(world: World) -> None:
    """Its claim's status is on the way: it has no node yet, and must not be deleted."""
    await prepared(world)
    fault = world.fault("hold", "claim status")
    async with witnessed(world) as witness:
        await add_pod(world, "low", "low", template="one-gpu")
        await world.wait_fault(fault)
        await add_pod(world, "high", "high", template="one-gpu")
        await world.wait_unschedulable("high")
        await fault.release()
        await world.wait_bound("high")
        await stays(witness)
        low = await world.api.get("pods", "low", world.namespace)
        assert not low["spec"].get("nodeName")


async def test_a_pod_that_comes_back_does_not_take_its_device_back(world: World) -> None:
    """As a controller makes it: the same priority, at once, while the preemptor waits for the release."""
    await prepared(world)
    await add_bound(world, "low", "low")
    async with witnessed(world) as witness:
        async with claim_controllers_paused(world):
            # A claim of its own making: the controllers that would generate one are paused.
            await world.add_claim("mine")
            await add_pod(world, "high", "high", claim="mine")
            await wait_preempted(world, "low")
            await world.add_claim("again")
            await add_pod(world, "back", "low", claim="again")
            await world.wait_unschedulable("back")
        await world.wait_bound("high")
        await world.wait_unschedulable("back")
        await stays(witness, "low")


async def test_a_restart_keeps_what_was_promised(world: World) -> None:
    (node,) = await prepared(world)
    await add_bound(world, "low", "low", lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", template="one-gpu")
        await wait_nominated(world, "high", node)
        await wait_terminating(world, "low")
        await world.stop_scheduler()
        await add_pod(world, "thief", "low", template="one-gpu")
        await world.start_scheduler()
        await world.wait_unschedulable("thief")
        await end(world, "low")
        await world.wait_bound("high")
        await stays(witness, "low")
        assert not (await world.api.get("pods", "thief", world.namespace))["spec"].get("nodeName")
