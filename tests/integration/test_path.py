"""The main job, from a pending pod to its devices and its node; on the embedded cluster and on a real one."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.integration.invariants import FINALIZER
from tests.integration.world import World, condition_of, devices_of, gpu, node


async def test_template_claim_is_allocated_reserved_and_the_pod_bound(world: World) -> None:
    (name,) = await world.add_nodes(1, devices=2)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    pod = await world.add_pod("train", template="one-gpu")

    pods = await world.wait_bound("train")
    claim = await world.claim_of("train")

    assert pods["train"]["spec"]["nodeName"] == name
    assert FINALIZER in claim["metadata"]["finalizers"]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "train", "uid": pod["metadata"]["uid"]}]
    allocation = claim["status"]["allocation"]
    assert allocation["devices"]["results"] == [
        {"request": "gpu", "driver": world.driver, "pool": name, "device": "gpu-0"}
    ]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    assert allocation["nodeSelector"] == {"nodeSelectorTerms": [term]}
    scheduled = await world.api.wait_for(
        "events", lambda events: any(event["reason"] == "Scheduled" for event in events.values()), world.namespace
    )
    assert any(event["regarding"]["name"] == "train" for event in scheduled.values())
    assert await world.violations() == []


async def test_pod_without_claims_is_bound(world: World) -> None:
    (name,) = await world.add_nodes(1)
    await world.start_scheduler()
    await world.add_pod("plain")

    assert (await world.wait_bound("plain"))["plain"]["spec"]["nodeName"] == name


async def test_pods_of_other_schedulers_are_left_alone(world: World) -> None:
    await world.add_nodes(1)
    await world.start_scheduler()
    await world.add_pod("theirs", schedulerName="somebody-else")
    await world.add_pod("ours")

    pods = await world.wait_bound("ours")
    assert "nodeName" not in pods["theirs"]["spec"]
    assert condition_of(pods["theirs"]) is None


async def test_200_pods_use_each_of_200_devices_once_and_the_201st_waits_for_one(world: World) -> None:
    await world.add_nodes(25, devices=8)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    names = [f"pod-{number:03}" for number in range(200)]
    await world.add_pods(names, template="one-gpu")
    await world.wait_bound(*names)

    state = await world.state()
    used = Counter(device for claim in state.claims for device in devices_of(claim))
    assert len(used) == 200
    assert set(used.values()) == {1}
    assert await world.violations() == []

    await world.add_pod("one-too-many", template="one-gpu")
    condition = await world.wait_unschedulable("one-too-many")
    assert "0/25 nodes are available" in condition["message"]
    assert "cannot allocate all claims" in condition["message"]
    failed = await world.wait_for(
        "events",
        lambda events: any(
            event["reason"] == "FailedScheduling" and event["regarding"]["name"] == "one-too-many"
            for event in events.values()
        ),
        what="event FailedScheduling",
    )
    assert failed

    # Only the next periodic flush, a minute away and more, would wake it if this deletion did not.
    await world.api.delete("pods", "pod-123", world.namespace)
    await world.wait_bound("one-too-many")
    assert await world.violations() == []


async def test_two_pods_that_share_a_claim_land_on_its_node(world: World) -> None:
    await world.add_nodes(3, devices=1)
    await world.add_class()
    await world.add_claim("shared")
    await world.start_scheduler()
    await world.add_pods(["filler"])
    await asyncio.gather(*(world.add_pod(name, claim="shared") for name in ("left", "right")))

    pods = await world.wait_bound("left", "right", "filler")
    claim = await world.api.get("resourceclaims", "shared", world.namespace)

    assert pods["left"]["spec"]["nodeName"] == pods["right"]["spec"]["nodeName"] == devices_of(claim)[0][0]
    assert {consumer["name"] for consumer in claim["status"]["reservedFor"]} == {"left", "right"}
    assert await world.violations() == []


async def test_a_pod_joins_a_claim_that_is_allocated_already(world: World) -> None:
    names = await world.add_nodes(3, devices=1)
    await world.add_class()
    await world.add_claim("shared")
    await world.start_scheduler()
    await world.add_pod("first", claim="shared")
    first = (await world.wait_bound("first"))["first"]["spec"]["nodeName"]
    assert first in names

    await world.add_pod("second", claim="shared")
    assert (await world.wait_bound("second"))["second"]["spec"]["nodeName"] == first
    assert await world.violations() == []


async def test_several_claims_and_requests_of_one_pod_fit_together_on_one_node(world: World) -> None:
    small, large = await world.add_nodes(1, devices=2) + await world.add_nodes(1, devices=4, first=1)
    await world.add_class()
    await world.add_claim("pair", world.request("a"), world.request("b"))
    await world.add_claim("single")
    await world.start_scheduler()
    pod = world.pod("both", claim="pair")
    pod["spec"]["resourceClaims"] = [
        {"name": "pair", "resourceClaimName": "pair"},
        {"name": "single", "resourceClaimName": "single"},
    ]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "pair"}, {"name": "single"}]}
    await world.create("pods", pod)

    assert (await world.wait_bound("both"))["both"]["spec"]["nodeName"] == large != small
    claims = [await world.api.get("resourceclaims", name, world.namespace) for name in ("pair", "single")]
    assert [device for claim in claims for device in devices_of(claim)] == [(large, f"gpu-{n}") for n in range(3)]
    assert await world.violations() == []


async def test_selectors_of_class_and_request_both_decide(world: World) -> None:
    (name,) = await world.add_nodes(1)
    await world.publish(
        name,
        [
            gpu(0, model={"string": "SMALL"}),
            gpu(1, index={"int": 7}),
            gpu(2),
        ],
    )
    await world.add_class(f"device.attributes['{world.driver}'].model == 'LATEST-GPU-MODEL'")
    domain = f"['{world.driver}']"
    wanted = f"device.attributes{domain}.index < 7 && device.capacity{domain}.memory.compareTo(quantity('40Gi')) > 0"
    await world.add_claim("picked", world.request(selectors=[{"cel": {"expression": wanted}}]))
    await world.start_scheduler()
    await world.add_pod("picky", claim="picked")

    await world.wait_bound("picky")
    assert devices_of(await world.claim_of("picky")) == [(name, "gpu-2")]


async def test_four_devices_on_one_numa_node(world: World) -> None:
    """The first NUMA node has only three free devices, so the search must go on."""
    (name,) = await world.add_nodes(1, devices=8)
    await world.add_class()
    await world.add_claim("first")
    same = [{"requests": ["gpus"], "matchAttribute": f"{world.driver}/numa"}]
    await world.add_claim("four", world.request("gpus", 4), constraints=same)
    await world.start_scheduler()
    await world.add_pod("one", claim="first")
    await world.wait_bound("one")
    await world.add_pod("training", claim="four")

    await world.wait_bound("training")
    assert devices_of(await world.claim_of("training")) == [(name, f"gpu-{index}") for index in range(4, 8)]
    assert await world.violations() == []


async def test_a_pod_that_fits_nowhere_says_why_and_is_woken_by_a_new_slice(world: World) -> None:
    (bare,) = await world.add_nodes(1)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("waiting", template="one-gpu")
    condition = await world.wait_unschedulable("waiting")
    assert "0/1 nodes are available: 1 cannot allocate all claims" in condition["message"]

    await world.publish(bare, [gpu(0)])
    assert (await world.wait_bound("waiting"))["waiting"]["spec"]["nodeName"] == bare


async def test_a_missing_class_is_named_and_its_creation_wakes_the_pod(world: World) -> None:
    await world.add_nodes(1, devices=1)
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("waiting", template="one-gpu")
    condition = await world.wait_unschedulable("waiting")
    assert f"device class {world.class_name} does not exist" in condition["message"]

    await world.add_class()
    await world.wait_bound("waiting")


async def test_the_creation_of_a_missing_claim_wakes_its_pod(world: World) -> None:
    await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.start_scheduler()
    await world.add_pod("waiting", claim="later")
    await world.add_pod("other")
    pods = await world.wait_bound("other")
    assert "nodeName" not in pods["waiting"]["spec"]

    await world.add_claim("later")
    await world.wait_bound("waiting")
    assert await world.violations() == []


async def test_node_plugins_and_devices_decide_together(world: World) -> None:
    """Of six nodes with devices, each but the last has one reason against it."""
    names = [world.node_name(number) for number in range(6)]
    specs = [
        {"unschedulable": True},
        {"taints": [{"key": "dedicated", "value": "other", "effect": "NoSchedule"}]},
        {},  # no label pool=gpu
        {},  # too little CPU
        {},  # no devices
        {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
    ]
    for number, (name, spec) in enumerate(zip(names, specs, strict=True)):
        labels = {} if number == 2 else {"pool": "gpu"}
        await world.create("nodes", node(name, cpu="1" if number == 3 else "8", labels=labels, **spec))
        if number != 4:
            await world.publish(name, [gpu(0)])
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    pod = world.pod("picky", template="one-gpu", nodeSelector={"pool": "gpu"})
    pod["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    await world.create("pods", pod)

    assert (await world.wait_bound("picky"))["picky"]["spec"]["nodeName"] == names[5]
    assert await world.violations() == []


async def test_resources_fill_up_as_pods_are_bound(world: World) -> None:
    """Two nodes of 2 CPUs take four pods of one; the fifth is told so and runs when one is gone."""
    await world.add_nodes(2, cpu="2")
    await world.start_scheduler()
    names = [f"pod-{number}" for number in range(5)]
    for name in names:
        pod = world.pod(name)
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        await world.create("pods", pod)
    pods = await world.wait_for(
        "pods",
        lambda pods: (
            sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) == 4
            and any(condition_of(pod) for pod in pods.values())
        ),
        what="four pods bound and one refused",
    )
    (refused,) = [pod for pod in pods.values() if not pod["spec"].get("nodeName")]
    condition = condition_of(refused)
    assert condition is not None
    assert "2 Insufficient cpu" in condition["message"]
    assert await world.violations() == []

    lucky = next(name for name in names if name != refused["metadata"]["name"])
    await world.api.delete("pods", lucky, world.namespace)
    await world.wait_bound(refused["metadata"]["name"])
    assert await world.violations() == []


async def test_a_gated_pod_waits_for_its_gate(world: World) -> None:
    await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("gated", template="one-gpu", schedulingGates=[{"name": "example.com/not-yet"}])
    await world.add_pod("free")
    pods = await world.wait_bound("free")
    assert "nodeName" not in pods["gated"]["spec"]

    await world.api.merge_patch("pods", "gated", {"spec": {"schedulingGates": []}}, world.namespace)
    await world.wait_bound("gated")
    assert await world.violations() == []


async def test_priority_decides_who_gets_the_last_device(world: World) -> None:
    """Three pods wait before the scheduler starts; the cluster has room for one."""
    await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_template()
    await world.create("priorityclasses", {"metadata": {"name": f"{world.tag}-high"}, "value": 1000})
    await world.add_pod("first", template="one-gpu")
    await world.add_pod("second", template="one-gpu")
    await world.add_pod("third", template="one-gpu", priorityClassName=f"{world.tag}-high")
    await world.wait_for(
        "pods",
        lambda pods: all(pod["status"].get("resourceClaimStatuses") for pod in pods.values()),
        what="claims generated",
    )
    await world.start_scheduler()

    await world.wait_bound("third")
    await world.wait_unschedulable("first")
    await world.wait_unschedulable("second")
    assert await world.violations() == []
