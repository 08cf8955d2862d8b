"""The main job while things go wrong: conflicts, lost replies, a cut network, a restarted API server or scheduler.

What is asked each time: every pod that can run does run in the end, and the invariant checker finds nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.controlplane.fault_proxy import api_failure
from tests.integration.world import UNDER_TEST, World, devices_of, gpu


async def one_pod_world(world: World, *, devices: int = 2) -> str:
    (name,) = await world.add_nodes(1, devices=devices)
    await world.add_class()
    await world.add_claim("claim")
    return name


async def test_a_conflict_on_the_status_write_is_survived(world: World) -> None:
    await one_pod_world(world)
    fault = world.conflict_next_status_write()
    await world.start_scheduler()
    await world.add_pod("pod", claim="claim")

    await world.wait_bound("pod")
    assert fault.hits == 1
    claim = await world.claim_of("pod")
    assert "touched-by" in claim["metadata"]["annotations"]
    assert await world.violations() == []


@pytest.mark.parametrize("kind", ["lose-request", "lose-reply"])
@pytest.mark.parametrize("write", ["claim", "claim status", "binding", "event"])
async def test_a_write_whose_outcome_is_unknown_is_settled(world: World, write: str, kind: str) -> None:
    """The pod is bound all the same, with one device, and the second pod gets the other one."""
    await one_pod_world(world)
    await world.add_claim("other")
    fault = world.fault(kind, write)
    await world.start_scheduler()
    await world.add_pod("pod", claim="claim")
    await world.wait_bound("pod")
    await world.add_pod("next", claim="other")
    await world.wait_bound("next")

    if write == "event":  # told after the fact, perhaps later than the binding
        await world.api.wait_for(
            "events", lambda events: any(e["regarding"]["name"] == "next" for e in events.values()), world.namespace
        )
    assert fault.hits == 1
    used = [device for pod in ("pod", "next") for device in devices_of(await world.claim_of(pod))]
    assert len(set(used)) == 2
    assert await world.violations() == []


@pytest.mark.parametrize(("status", "reason"), [(429, "TooManyRequests"), (500, "InternalError"), (504, "Timeout")])
@pytest.mark.parametrize("write", ["claim status", "binding"])
async def test_a_busy_or_broken_server_is_asked_again(world: World, write: str, status: int, reason: str) -> None:
    await one_pod_world(world)
    body = api_failure(status, reason, "try again")
    headers = {"Retry-After": "1"} if status == 429 else {}
    fault = world.fault("answer", write, status=status, body=body, headers=headers)
    await world.start_scheduler()
    await world.add_pod("pod", claim="claim")

    await world.wait_bound("pod")
    assert fault.hits == 1
    assert await world.violations() == []


async def test_a_claim_deleted_in_the_middle_sends_the_pod_back_to_wait(world: World) -> None:
    """The claim goes after the decision and before the first write to it."""
    await one_pod_world(world, devices=1)

    async def delete(path: str) -> None:
        await world.api.delete("resourceclaims", "claim", world.namespace)

    fault = world.fault("before", "claim", action=delete)
    await world.start_scheduler()
    await world.add_pod("pod", claim="claim")
    await world.wait_fault(fault)

    await world.add_claim("claim")
    await world.wait_bound("pod")
    assert await world.violations() == []


@pytest.mark.parametrize("stamp", [{"allocationTimestamp": "2026-01-02T03:04:05Z"}, {}], ids=["stamped", "unstamped"])
async def test_a_claim_allocated_by_somebody_else_in_the_middle_is_accepted(
    world: World, stamp: dict[str, str]
) -> None:
    """Another scheduler writes its allocation first: ours gives way and uses that one, where it is.

    Unstamped: an allocation without allocationTimestamp, as schedulers before 1.36 wrote it.
    """
    if UNDER_TEST == "kube-scheduler" and not stamp:
        pytest.skip("kube-scheduler 1.36.3 tries for ever to add a timestamp to it, and the field is immutable")
    first, _ = await world.add_nodes(2, devices=1)
    await world.add_class()
    await world.add_claim("claim")
    theirs = await world.add_pod("theirs", claim="claim", schedulerName="somebody-else")
    consumer = {"resource": "pods", "name": "theirs", "uid": theirs["metadata"]["uid"]}

    async def allocate(path: str) -> None:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [first]}]}
        result = {"request": "gpu", "driver": world.driver, "pool": first, "device": "gpu-0"}
        finalizers = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
        await world.api.merge_patch("resourceclaims", "claim", finalizers, world.namespace)
        allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}, **stamp}
        status = {"status": {"allocation": allocation, "reservedFor": [consumer]}}
        await world.api.merge_patch("resourceclaims", "claim", status, world.namespace, "status")

    await world.cordon(first)  # so that the scheduler's own choice is the second
    fault = world.fault("before", "claim status", action=allocate)
    await world.start_scheduler()
    await world.add_pod("pod", claim="claim")
    await world.wait_fault(fault)
    await world.wait_unschedulable("pod")
    assert devices_of(await world.claim_of("pod")) == [(first, "gpu-0")]

    await world.cordon(first, False)
    assert (await world.wait_bound("pod"))["pod"]["spec"]["nodeName"] == first
    assert await world.violations() == []


async def test_a_pod_deleted_in_the_middle_gives_its_device_back(world: World) -> None:
    await one_pod_world(world, devices=1)
    await world.add_template()

    async def delete(path: str) -> None:
        await world.api.delete("pods", "pod", world.namespace)

    fault = world.fault("before", "binding", action=delete)
    await world.start_scheduler()
    await world.add_pod("pod", template="one-gpu")
    await world.wait_fault(fault)
    await world.wait_for("pods", lambda pods: "pod" not in pods, what="the pod's deletion")

    await world.add_pod("next", template="one-gpu")
    await world.wait_bound("next")
    assert await world.violations() == []


async def test_cut_watches_and_a_restarted_server_lose_nothing_and_use_nothing_twice(world: World) -> None:
    await world.add_nodes(25, devices=8)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    names = [f"pod-{number:03}" for number in range(200)]
    for round_number in range(4):
        batch = names[round_number * 50 : (round_number + 1) * 50]
        adding = asyncio.create_task(world.add_pods(batch, template="one-gpu"))
        await world.wait_for(
            "pods",
            lambda pods, least=round_number * 50 + 10: bound_count(pods) >= least,
            what="some of the batch bound",
        )
        if round_number == 2:
            await adding
            await world.cluster.restart_apiserver()
        else:
            world.proxy.cut_watches()
            await adding
    await world.wait_bound(*names, seconds=240)

    # Claims that the pods name: the claim controller may have made a second one that nobody uses, around a restart
    # (kubernetes#140217), and deletes it.
    used = Counter([device for name in names for device in devices_of(await world.claim_of(name))])
    assert len(used) == 200
    assert set(used.values()) == {1}
    assert await world.violations() == []


async def test_one_of_a_hundred_watch_lines_breaks_its_connection_and_all_is_bound(world: World) -> None:
    """Of 250 objects in one stream the last comes once in twelve times: lists that break off go on in pages."""
    await world.add_nodes(250, devices=1)
    await world.add_class()
    await world.add_template()
    world.proxy.cut_lines(0.01, seed=8)
    await world.start_scheduler()
    names = [f"pod-{number:03}" for number in range(150)]
    await world.add_pods(names, template="one-gpu")
    await world.wait_bound(*names, seconds=240)

    used = Counter([device for name in names for device in devices_of(await world.claim_of(name))])
    assert len(used) == 150
    assert await world.violations() == []


async def test_a_scheduler_killed_in_the_middle_is_replaced_without_loss(world: World) -> None:
    await world.add_nodes(8, devices=8)
    await world.add_class()
    await world.add_template()
    names = [f"pod-{number:03}" for number in range(64)]
    await world.add_pods(names, template="one-gpu")
    await world.start_scheduler()
    await world.wait_for("pods", lambda pods: bound_count(pods) >= 10, what="ten pods bound")
    await world.stop_scheduler(kill=True)
    await world.start_scheduler()

    await world.wait_bound(*names)
    assert await world.violations() == []


async def test_an_unreachable_server_is_waited_for(world: World) -> None:
    await one_pod_world(world)
    await world.start_scheduler()
    await world.add_pod("before")
    await world.wait_bound("before")
    world.proxy.refuse()
    await world.add_pod("pod", claim="claim")
    world.proxy.accept()

    await world.wait_bound("pod")
    assert await world.violations() == []


async def test_a_withdrawn_slice_is_used_no_more(world: World) -> None:
    first, second = await world.add_nodes(2)
    only = await world.publish(first, [gpu(0), gpu(1)])
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("early", template="one-gpu")
    await world.wait_bound("early")
    await world.api.delete("pods", "early", world.namespace)
    await world.api.delete("resourceslices", only)
    await world.add_pod("late", template="one-gpu")
    await world.wait_unschedulable("late")

    await world.publish(second, [gpu(0)])
    assert (await world.wait_bound("late"))["late"]["spec"]["nodeName"] == second
    assert await world.violations() == []


async def test_a_pool_republished_with_a_new_generation_is_used_when_it_is_complete(world: World) -> None:
    """Generation 2 has two slices; while only one is there, nobody may pick from the pool, old or new."""
    (name,) = await world.add_nodes(1)
    await world.publish(name, [gpu(0)])
    await world.add_class()
    await world.add_template()
    await world.publish(name, [gpu(10)], generation=2, slices=2)
    await world.start_scheduler()
    await world.add_pod("pod", template="one-gpu")
    condition = await world.wait_unschedulable("pod")
    assert "0/1 nodes are available" in condition["message"]

    await world.publish(name, [gpu(11)], generation=2, slices=2, suffix="second")
    await world.wait_bound("pod")
    ((pool, device),) = devices_of(await world.claim_of("pod"))
    assert pool == name
    assert device in ("gpu-10", "gpu-11")
    assert await world.violations() == []


async def test_events_that_cannot_be_written_stop_nobody(world: World) -> None:
    await one_pod_world(world)
    body = api_failure(403, "Forbidden", "no events for you")
    world.fault("answer", "event", status=403, body=body, times=-1)
    await world.start_scheduler()
    await world.add_pod("pod", claim="claim")

    await world.wait_bound("pod")
    assert await world.violations() == []


async def test_the_missing_binding_permission_is_said_and_not_retried_for_ever(world: World) -> None:
    """Without `resourceclaims/binding` Kubernetes 1.36 refuses with 422, not 403."""
    await one_pod_world(world)
    message = (
        'ResourceClaim.resource.k8s.io "claim" is invalid: status.allocation: Forbidden: changing status.allocation '
        'or status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission'
    )
    body = api_failure(422, "Invalid", message)
    fault = world.fault("answer", "claim status", status=422, body=body, times=-1)
    await world.start_scheduler()
    await world.add_pod("pod", claim="claim")
    await world.add_pod("plain")
    await world.wait_bound("plain")
    await world.wait_for(
        "events",
        lambda events: any("resourceclaims/binding" in (event.get("note") or "") for event in events.values()),
        what="an event that names the missing permission",
    )
    if UNDER_TEST == "ours":
        assert "resourceclaims/binding" in world.log_tail(200)
    asked = fault.hits
    assert 1 <= asked <= 3


def bound_count(pods: dict[str, dict]) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods.values())
