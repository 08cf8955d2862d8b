"""Preemption of pods without devices, as people see it: who goes, who stays, what is said, and who gets the room."""

from __future__ import annotations

from scheduler.framework.diagnosis import without_cause
from tests.integration.preempting import (
    add_pod,
    add_priorities,
    disruption_of,
    end,
    make_ready,
    protect,
    refusal_of,
    wait_gone,
    wait_nominated,
    wait_preempted,
    wait_terminating,
)
from tests.integration.test_restart import ours_only
from tests.integration.witness import witnessed
from tests.integration.world import UNDER_TEST, World

REASON = "PreemptionByScheduler"


async def filled(world: World, *pods: tuple[str, str, str], **more: object) -> list[str]:
    """A node of 4 cpu for each pod (name, priority, cpu), bound there, and the scheduler running."""
    await add_priorities(world)
    names = await world.add_nodes(len(pods), cpu="4")
    for node, (name, priority, cpu) in zip(names, pods, strict=True):
        await add_pod(world, name, priority, cpu=cpu, on=node, **more)
    await world.start_scheduler()
    return names


async def test_one_victim_makes_room(world: World) -> None:
    first, second = await filled(world, ("low", "low", "3"), ("equal", "high", "3"))
    async with witnessed(world) as witness:
        pod = await add_pod(world, "high", "high", cpu="3")
        bound = await world.wait_bound("high")
        assert bound["high"]["spec"]["nodeName"] == first
        assert "nominatedNodeName" not in bound["high"]["status"]
        (event,) = (await wait_preempted(world, "low")).values()
        assert (event["type"], event["action"]) == ("Normal", "Preempting")
        assert event["note"].startswith(f"Preempted by pod {pod['metadata']['uid']} on node {first}")
        if UNDER_TEST == "ours":
            assert event["related"]["name"] == "high"
        assert await witness.gone() == {"low"}
        assert await witness.preemptions() == {("low", "high")}
        assert (await world.api.get("pods", "equal", world.namespace))["spec"]["nodeName"] == second


async def test_as_few_go_as_needed_and_the_least_important_of_them(world: World) -> None:
    await add_priorities(world)
    (node,) = await world.add_nodes(1, cpu="4")
    for name in ("lowest", "low", "middle", "high"):
        await add_pod(world, name, name, cpu="1", on=node)
    await world.start_scheduler()
    async with witnessed(world) as witness:
        await add_pod(world, "new", "highest", cpu="2")
        await world.wait_bound("new")
        assert await witness.gone() == {"lowest", "low"}
        await wait_preempted(world, "lowest", "low")
        assert await witness.preemptions() == {("lowest", "new"), ("low", "new")}


async def test_nobody_goes_for_a_pod_that_is_not_more_important_or_must_not_preempt(world: World) -> None:
    await filled(world, ("low", "low", "3"))
    never = f"{world.tag}-polite"
    await world.create("priorityclasses", {"metadata": {"name": never}, "value": 500, "preemptionPolicy": "Never"})
    async with witnessed(world) as witness:
        await add_pod(world, "equal", "low", cpu="3")
        await add_pod(world, "polite", cpu="3", priorityClassName=never)
        condition = await world.wait_unschedulable("equal")
        assert "No preemption victims found for incoming pod" in condition["message"]
        condition = await world.wait_unschedulable("polite")
        assert "not eligible due to preemptionPolicy=Never." in condition["message"]
        assert await witness.gone() == set()
        assert await witness.preemptions() == set()


async def test_nobody_goes_where_that_would_not_help(world: World) -> None:
    await filled(world, ("low", "low", "3"))
    async with witnessed(world) as witness:
        await add_pod(world, "huge", "high", cpu="5")
        await world.wait_unschedulable("huge")
        assert await witness.gone() == set()


async def test_a_budget_is_respected_and_violated_only_when_nothing_else_is_left(world: World) -> None:
    await filled(world, ("guarded-0", "lowest", "3"), ("free-0", "low", "3"))
    await make_ready(world, "guarded-0", "free-0")
    await protect(world, "guarded", 0, minAvailable=1)
    await protect(world, "free", 1, minAvailable=0)
    async with witnessed(world) as witness:
        await add_pod(world, "first", "high", cpu="3")
        await world.wait_bound("first")
        assert await witness.gone() == {"free-0"}  # although the other one is less important
        await add_pod(world, "second", "high", cpu="3")
        await world.wait_bound("second")
        assert await witness.gone() == {"free-0", "guarded-0"}


async def test_a_budget_allows_as_many_as_it_says(world: World) -> None:
    """Two pods of a budget that allows one on a node, two that nothing guards on the other: these go."""
    await add_priorities(world)
    first, second = await world.add_nodes(2, cpu="4")
    for node, app in ((first, "guarded"), (second, "free")):
        for number in range(2):
            await add_pod(world, f"{app}-{number}", "low", cpu="2", on=node)
    await make_ready(world, "guarded-0", "guarded-1")
    await protect(world, "guarded", 1, minAvailable=1)
    await world.start_scheduler()
    async with witnessed(world) as witness:
        await add_pod(world, "whole", "high", cpu="4")
        assert (await world.wait_bound("whole"))["whole"]["spec"]["nodeName"] == second
        await add_pod(world, "half", "high", cpu="2")
        await world.wait_bound("half")
        assert len(await witness.gone() & {"guarded-0", "guarded-1"}) == 1


async def test_one_victim_is_not_taken_twice(world: World) -> None:
    """Two equal pods want the room of one: one gets it, the other waits, and nobody else goes."""
    await filled(world, ("low", "low", "3"), ("equal", "high", "3"))
    async with witnessed(world) as witness:
        for name in ("one", "other"):
            await add_pod(world, name, "high", cpu="3")
        pods = await world.wait_for(
            "pods", lambda pods: any(pods[name]["spec"].get("nodeName") for name in ("one", "other")), what="one bound"
        )
        (waiting,) = [name for name in ("one", "other") if not pods[name]["spec"].get("nodeName")]
        await world.wait_unschedulable(waiting)
        assert await witness.gone() == {"low"}


async def test_two_preemptors_get_a_victim_each(world: World) -> None:
    await filled(world, ("low-0", "low", "3"), ("low-1", "low", "3"), ("equal", "high", "3"))
    async with witnessed(world) as witness:
        for name in ("one", "other"):
            await add_pod(world, name, "high", cpu="3")
        pods = await world.wait_bound("one", "other")
        assert len({pods[name]["spec"]["nodeName"] for name in ("one", "other")}) == 2
        assert await witness.gone() == {"low-0", "low-1"}


async def test_pods_of_another_scheduler_are_victims_too(world: World) -> None:
    await filled(world, ("theirs", "low", "3"), schedulerName="somebody-else")
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", cpu="3")
        await world.wait_bound("high")
        assert await witness.preemptions() <= {("theirs", "high")}
        assert await witness.gone() == {"theirs"}


# -- victims that take their time ----------------------------------------------------------------------------


async def test_while_a_victim_terminates_its_place_is_kept_and_nobody_else_goes(world: World) -> None:
    """The other node's pod would be next, and a lower pod would like the room."""
    first, _ = await filled(world, ("lowest-0", "lowest", "3"), ("low-0", "low", "3"), lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", cpu="3")
        await wait_nominated(world, "high", first)
        await wait_terminating(world, "lowest-0")
        told = await disruption_of(world, "lowest-0")
        assert told is not None
        assert (told["status"], told["reason"]) == ("True", REASON)
        await add_pod(world, "thief", "low", cpu="3")
        await world.wait_unschedulable("thief")
        assert "Insufficient cpu" in await refusal_of(world, "high")
        assert await witness.gone() == {"lowest-0"}

        await end(world, "lowest-0")
        bound = await world.wait_bound("high")
        assert bound["high"]["spec"]["nodeName"] == first
        assert await witness.gone() == {"lowest-0"}
        assert not (await world.api.get("pods", "thief", world.namespace))["spec"].get("nodeName")


async def test_a_more_important_pod_may_take_the_place(world: World) -> None:
    (node,) = await filled(world, ("low", "low", "3"), lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", cpu="3")
        await wait_nominated(world, "high", node)
        await wait_terminating(world, "low")
        await add_pod(world, "higher", "highest", cpu="3")
        await wait_nominated(world, "higher", node)
        await end(world, "low")
        await world.wait_bound("higher")
        await world.wait_unschedulable("high")
        assert await witness.gone() == {"low"}


async def test_a_victim_that_a_finalizer_keeps_is_waited_for(world: World) -> None:
    (node,) = await filled(world, ("low", "low", "3"), finalizers=["example.com/keep"])
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", cpu="3")
        await wait_terminating(world, "low")
        await wait_nominated(world, "high", node)
        assert not (await world.api.get("pods", "high", world.namespace))["spec"].get("nodeName")
        await world.api.merge_patch("pods", "low", {"metadata": {"finalizers": None}}, world.namespace)
        await world.wait_bound("high")
        assert await witness.gone() == {"low"}


async def test_a_preemptor_that_is_deleted_leaves_the_room_to_others(world: World) -> None:
    (node,) = await filled(world, ("low", "low", "3"), lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", cpu="3")
        await wait_nominated(world, "high", node)
        await wait_terminating(world, "low")
        await add_pod(world, "next", "lowest", cpu="3")
        await world.wait_unschedulable("next")
        await world.api.delete("pods", "high", world.namespace)
        await end(world, "low")
        await world.wait_bound("next")
        assert await witness.gone() == {"low", "high"}


async def test_a_preemptor_that_finds_room_elsewhere_goes_there(world: World) -> None:
    (node,) = await filled(world, ("low", "low", "3"), lingers=True)
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", cpu="3")
        await wait_nominated(world, "high", node)
        await wait_terminating(world, "low")
        (free,) = await world.add_nodes(1, cpu="4", first=1)
        assert (await world.wait_bound("high"))["high"]["spec"]["nodeName"] == free
        await end(world, "low")
        await add_pod(world, "next", "lowest", cpu="3")  # the place is nobody's any more
        assert (await world.wait_bound("next"))["next"]["spec"]["nodeName"] == node
        assert await witness.gone() == {"low"}


@ours_only
async def test_a_victim_in_the_middle_of_its_binding_is_asked_in_memory(world: World) -> None:
    """Its claim's status is on the way: it has no node yet, and must not be deleted."""
    (node,) = await world.add_nodes(1, devices=1, cpu="4")
    await add_priorities(world)
    await world.add_class()
    await world.add_claim("gpu")
    fault = world.fault("hold", "claim status")
    await world.start_scheduler()
    async with witnessed(world) as witness:
        body = world.pod("low", claim="gpu", priorityClassName=f"{world.tag}-low")
        body["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "3"}
        await world.create("pods", body)
        await world.wait_fault(fault)
        await add_pod(world, "high", "high", cpu="3")
        await wait_nominated(world, "high", node)
        await fault.release()
        await world.wait_bound("high")
        await world.wait_unschedulable("low")
        assert await witness.gone() == set()


async def test_gone_is_gone(world: World) -> None:
    """What `wait_gone` sees: a victim without a grace period is not there any more when its preemptor is bound."""
    await filled(world, ("low", "low", "3"))
    await add_pod(world, "high", "high", cpu="3")
    await world.wait_bound("high")
    await wait_gone(world, "low")


async def test_nobody_goes_for_devices_where_that_is_switched_off(world: World) -> None:
    """Then all is as with kube-scheduler, to the word; it runs this test too, without the setting."""
    await add_priorities(world)
    await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_template()
    config = world.configuration()
    profiles = "profiles:\n  - pluginConfig:\n      - {name: DynamicResources, args: {preemptForDevices: false}}\n"
    config.write_text(config.read_text() + profiles)
    await world.start_scheduler(f"--config={config}")
    await add_pod(world, "low", "low", template="one-gpu")
    await world.wait_bound("low")
    async with witnessed(world) as witness:
        await add_pod(world, "high", "high", template="one-gpu")
        assert without_cause((await world.wait_unschedulable("high"))["message"]) == (
            "0/1 nodes are available: 1 cannot allocate all claims. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        assert await witness.gone() == set()
        await world.api.delete("pods", "low", world.namespace)
        await world.wait_bound("high")
