"""Another scheduler beside ours on the same devices: kube-scheduler on the real control plane, a second one of ours.

Asked is what the guide promises: none of ours is bound on a device that somebody had before, whatever is given twice is
told on both claims, a claim of ours that is not in use gives way, and schedulers that are kept apart never collide.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.integration.api import Object
from tests.integration.world import SCHEDULER_NAME, UNDER_TEST, World, devices_of, gpu, node

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="this is about ours beside another scheduler")

OTHER = "other-scheduler"
NODES, DEVICES = 4, 4
FINALIZER = "resource.kubernetes.io/delete-protection"


@asynccontextmanager
async def other_scheduler(world: World, kind: str) -> AsyncIterator[None]:
    """One that schedules pods of OTHER: kube-scheduler where there is one, or a second of ours."""
    if kind == "kube-scheduler" and world.cluster.kind == "controlplane":
        stop = world.cluster.start_kube_scheduler(world.proxy.url, OTHER)
        try:
            yield
        finally:
            stop()
        return
    second = replace(world, log=world.log.with_name("second.log"), _scheduler=None)
    await second.start_scheduler(name=OTHER)
    try:
        yield
    finally:
        await second.stop_scheduler(kill=True)


def is_allocated(claim: Object) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


async def doubles(world: World) -> list[tuple[tuple[str, str], str, str]]:
    """Devices that two claims have, with the names of the claims."""
    holders: dict[tuple[str, str], list[str]] = {}
    for claim in await world.api.list("resourceclaims", world.namespace):
        for device in devices_of(claim) if is_allocated(claim) else ():
            holders.setdefault(device, []).append(claim["metadata"]["name"])
    return [
        (device, one, other) for device, names in holders.items() for one, other in itertools.combinations(names, 2)
    ]


async def conflict_notes(world: World) -> list[tuple[str, str]]:
    """Claim and note of each DeviceConflict event."""
    events = await world.api.list("events", world.namespace)
    found = [event for event in events if event.get("reason") == "DeviceConflict"]
    return [
        ((one.get("regarding") or one.get("involvedObject"))["name"], one.get("note") or one["message"])
        for one in found
    ]


async def wait_conflicts(world: World, *claims: str) -> dict[str, str]:
    """Until each of these claims has a DeviceConflict event; returns the notes."""

    def all_told(events: dict[str, Object]) -> bool:
        told = {one["regarding"]["name"] for one in events.values() if one.get("reason") == "DeviceConflict"}
        return told >= set(claims)

    await world.wait_for("events", all_told, what=f"DeviceConflict events on {claims}")
    return dict(await conflict_notes(world))


async def race(world: World, names: dict[str, list[str]], **spec: dict[str, Object]) -> None:
    """Create all these pods, by scheduler, each with a claim of its own, as fast as the server takes them."""
    everyone = [
        (scheduler, name)
        for pair in zip(*names.values(), strict=True)
        for scheduler, name in zip(names, pair, strict=True)
    ]
    await asyncio.gather(*(world.add_claim(f"{name}-gpu") for _, name in everyone))
    await asyncio.gather(
        *(
            world.add_pod(name, claim=f"{name}-gpu", schedulerName=scheduler, **spec.get(scheduler, {}))
            for scheduler, name in everyone
        )
    )


def pod_names(count: int) -> dict[str, list[str]]:
    return {
        SCHEDULER_NAME: [f"ours-{number}" for number in range(count)],
        OTHER: [f"other-{number}" for number in range(count)],
    }


@pytest.mark.parametrize("kind", ["kube-scheduler", "ours"])
async def test_pods_of_both_settle_and_what_is_given_twice_is_told(
    world: World, kind: str, record_property: pytest.FixtureRequest
) -> None:
    """As many pods as devices, half of them for each, again and again; on the embedded cluster both are ours."""
    await world.add_nodes(NODES, devices=DEVICES)
    await world.add_class()
    await world.start_scheduler()
    twice = told = 0
    async with other_scheduler(world, kind):
        for _ in range(3):
            names = pod_names(NODES * DEVICES // 2)
            everyone = [*names[SCHEDULER_NAME], *names[OTHER]]
            await race(world, names)
            await world.wait_bound(*everyone)
            found = await doubles(world)
            are_both_ours = kind == "ours" or world.cluster.kind == "embedded"
            assert not (are_both_ours and found), found
            for _, one, other in found:
                notes = await wait_conflicts(world, one, other)
                assert other in notes[one], notes
                assert one in notes[other], notes
                # Both are in use: every pod is bound, so each of them holds its device rightfully or was told.
                assert {one.partition("-")[0], other.partition("-")[0]} == {"ours", "other"}
            known = {f"{world.driver}/{pool}/{device}" for (pool, device), _, _ in found}
            others = [
                one
                for one in await world.violations()
                if one.kind != "device-in-two-claims" or not any(name in str(one) for name in known)
            ]
            assert others == []
            twice += len(found)
            told += len(await conflict_notes(world))
            await remove_all(world)
    record_property("devices given twice, conflict events", (twice, told))
    print(f"{world.cluster.kind}, beside {kind}: {twice} devices given twice, {told} conflict events")


async def remove_all(world: World) -> None:
    for resource in ("pods", "resourceclaims", "events"):
        await world.api.delete_all(resource, world.namespace)
    await world.wait_for("resourceclaims", lambda claims: not claims, what="all claims gone")


@pytest.mark.parametrize("kind", ["kube-scheduler", "ours"])
async def test_schedulers_that_are_kept_apart_never_collide(world: World, kind: str) -> None:
    taint = {"key": "pool", "value": "ours", "effect": "NoSchedule"}
    for number in range(NODES):
        is_ours = number % 2 == 0
        name = world.node_name(number)
        more = {"labels": {"pool": "ours"}, "taints": [taint]} if is_ours else {"labels": {"pool": "other"}}
        await world.create("nodes", node(name, **more))
        await world.publish(name, [gpu(index) for index in range(DEVICES)])
    await world.add_class()
    await world.start_scheduler("--nodes", "pool=ours")
    tolerations = [{"key": "pool", "operator": "Exists"}]
    names = pod_names(NODES * DEVICES // 2)
    async with other_scheduler(world, kind):
        await race(world, names, **{SCHEDULER_NAME: {"tolerations": tolerations}})
        pods = await world.wait_bound(*names[SCHEDULER_NAME], *names[OTHER])

        await world.add_claim("more-gpu")
        await world.add_pod("more", claim="more-gpu", tolerations=tolerations)
        refused = await world.wait_unschedulable("more")
    mine = {world.node_name(number) for number in range(0, NODES, 2)}
    assert {pods[name]["spec"]["nodeName"] for name in names[SCHEDULER_NAME]} <= mine
    assert {pods[name]["spec"]["nodeName"] for name in names[OTHER]}.isdisjoint(mine)
    assert "2 node(s) outside --nodes 'pool=ours' of this scheduler" in refused["message"]
    assert await conflict_notes(world) == []
    assert await world.violations() == []


async def test_slices_that_are_not_ours_are_left_alone(world: World) -> None:
    await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_claim("claim")
    await world.start_scheduler("--slices", "driver=nic.example.com")
    await world.add_pod("pod", claim="claim")

    refused = await world.wait_unschedulable("pod")
    assert "cannot allocate all claims from slices of --slices 'driver=nic.example.com'" in refused["message"]
    assert not is_allocated(await world.claim_of("pod"))


async def contested_world(world: World) -> Object:
    """One device, a claim of ours, a claim of somebody else's pod; returns what that scheduler would store."""
    (name,) = await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_claim("claim")
    await world.add_claim("theirs")
    pod = await world.add_pod("their-pod", claim="theirs", schedulerName="somebody-else")
    result = {"request": "gpu", "driver": world.driver, "pool": name, "device": "gpu-0"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}},
        "reservedFor": [{"resource": "pods", "name": "their-pod", "uid": pod["metadata"]["uid"]}],
    }


async def they_allocate(world: World, status: Object) -> None:
    finalizers = {"metadata": {"finalizers": [FINALIZER]}}
    await world.api.merge_patch("resourceclaims", "theirs", finalizers, world.namespace)
    await world.api.merge_patch("resourceclaims", "theirs", {"status": status}, world.namespace, "status")


async def test_ours_gives_way_to_a_device_given_away_a_moment_before(world: World) -> None:
    status = await contested_world(world)

    async def allocate(path: str) -> None:
        await they_allocate(world, status)

    fault = world.fault("before", "claim status", action=allocate)
    await world.start_scheduler()
    await world.add_pod("pod", claim="claim")
    await world.wait_fault(fault)
    notes = await wait_conflicts(world, "claim", "theirs")
    assert "withdrawn" in notes["claim"]
    await world.wait_for(
        "resourceclaims", lambda claims: not is_allocated(claims["claim"]), what="ours without allocation"
    )
    assert await doubles(world) == []
    assert not (await world.api.get("pods", "pod", world.namespace))["spec"].get("nodeName")

    await world.api.delete("pods", "their-pod", world.namespace)
    await world.wait_bound("pod")
    assert await world.violations() == []


async def test_what_is_given_away_while_ours_is_being_bound_is_told(world: World) -> None:
    status = await contested_world(world)

    async def allocate(path: str) -> None:
        await they_allocate(world, status)

    fault = world.fault("before", "binding", action=allocate)
    await world.start_scheduler()
    await world.add_pod("pod", claim="claim")
    await world.wait_fault(fault)
    await world.wait_bound("pod")
    notes = await wait_conflicts(world, "claim", "theirs")
    assert "its pod is bound already" in notes["claim"]
    assert is_allocated(await world.claim_of("pod"))
