"""Every way to publish and to ask for devices, once through the whole path; the allocator's own tests go deep."""

from __future__ import annotations

import asyncio

from tests.integration.api import Object
from tests.integration.world import World, devices_of, gpu, node

HALF = ("half", (0, 1)), ("half", (2, 3))
QUARTERS = tuple(("quarter", (part,)) for part in range(4))


async def publish_partitionable(world: World, name: str) -> None:
    """One GPU that can be cut in halves or quarters: counters in one slice, the parts in another."""
    await world.create("nodes", node(name))
    counters = {"memory": {"value": "80Gi"}, **{f"slice-{part}": {"value": "1"} for part in range(4)}}
    pool = {"name": f"{name}-gpu", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": world.driver, "nodeName": name, "pool": pool}
    counter_set = {"sharedCounters": [{"name": "gpu", "counters": counters}]}
    await world.create("resourceslices", {"metadata": {"name": f"{name}-counters"}, "spec": {**spec, **counter_set}})
    devices = [part_of(number, profile, slices) for number, (profile, slices) in enumerate((*HALF, *QUARTERS))]
    await world.create("resourceslices", {"metadata": {"name": f"{name}-parts"}, "spec": {**spec, "devices": devices}})


def part_of(number: int, profile: str, slices: tuple[int, ...]) -> Object:
    memory = {"value": f"{20 * len(slices)}Gi"}
    counters = {"memory": memory, **{f"slice-{part}": {"value": "1"} for part in slices}}
    return {
        "name": f"part-{number}",
        "attributes": {"profile": {"string": profile}},
        "capacity": {"memory": memory},
        "consumesCounters": [{"counterSet": "gpu", "counters": counters}],
    }


def profile(world: World, name: str) -> Object:
    expression = f"device.attributes['{world.driver}'].profile == '{name}'"
    return world.request(selectors=[{"cel": {"expression": expression}}])


async def test_partitions_of_each_nodes_gpu_are_cut_once_and_used_where_they_are(world: World) -> None:
    """Three nodes, six halves: six pods; a quarter more fits nowhere until a half is given back."""
    names = [world.node_name(number) for number in range(3)]
    for name in names:
        await publish_partitionable(world, name)
    await world.add_class()
    await world.add_template("half", profile(world, "half"))
    await world.add_template("quarter", profile(world, "quarter"))
    await world.start_scheduler()
    halves = [f"half-{number}" for number in range(6)]
    await world.add_pods(halves, template="half")
    pods = await world.wait_bound(*halves)

    assert await world.violations() == []
    for name in halves:
        ((pool, _),) = devices_of(await world.claim_of(name))
        assert pool == f"{pods[name]['spec']['nodeName']}-gpu"
    await world.add_pod("quarter", template="quarter")
    await world.wait_unschedulable("quarter")

    await world.api.delete("pods", halves[3], world.namespace)
    freed = pods[halves[3]]["spec"]["nodeName"]
    assert (await world.wait_bound("quarter"))["quarter"]["spec"]["nodeName"] == freed
    assert await world.violations() == []


async def test_shares_of_a_device_add_up_to_its_capacity(world: World) -> None:
    """80Gi are four shares of 20Gi; the fifth pod waits until one is gone."""
    (name,) = await world.add_nodes(1)
    await world.publish(name, [{**gpu(0), "allowMultipleAllocations": True}])
    await world.add_class()
    await world.add_template("share", world.request(capacity={"requests": {"memory": "20Gi"}}))
    await world.start_scheduler()
    names = [f"pod-{number}" for number in range(4)]
    await world.add_pods(names, template="share")
    await world.wait_bound(*names)

    assert await world.violations() == []
    shares = [(await world.claim_of(pod))["status"]["allocation"]["devices"]["results"][0] for pod in names]
    assert len({share["shareID"] for share in shares}) == 4
    assert {share["consumedCapacity"]["memory"] for share in shares} == {"20Gi"}
    await world.add_pod("fifth", template="share")
    await world.wait_unschedulable("fifth")

    await world.api.delete("pods", "pod-2", world.namespace)
    await world.wait_bound("fifth")
    assert await world.violations() == []


async def test_the_first_available_alternative_is_taken(world: World) -> None:
    """One device of the better kind: the first pod gets it, the second the other alternative."""
    (name,) = await world.add_nodes(1)
    await world.publish(name, [gpu(0), gpu(1, model={"string": "BEST"})])
    await world.add_class()
    best = f"device.attributes['{world.driver}'].model == 'BEST'"
    alternatives = [
        {"name": "best", "deviceClassName": world.class_name, "selectors": [{"cel": {"expression": best}}]},
        {"name": "any", "deviceClassName": world.class_name},
    ]
    await world.add_template("prefer", {"name": "gpu", "firstAvailable": alternatives})
    await world.start_scheduler()
    given = []
    for pod in ("first", "second"):
        await world.add_pod(pod, template="prefer")
        await world.wait_bound(pod)
        (result,) = (await world.claim_of(pod))["status"]["allocation"]["devices"]["results"]
        given.append((result["request"], result["device"]))

    assert given == [("gpu/best", "gpu-1"), ("gpu/any", "gpu-0")]
    assert await world.violations() == []


async def test_all_devices_of_a_node_and_admin_access_beside_them(world: World) -> None:
    await world.api.merge_patch(
        "namespaces", world.namespace, {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    )
    small, large = await world.add_nodes(1, devices=2) + await world.add_nodes(1, devices=3, first=1)
    await world.add_class()
    everything = {"name": "gpu", "exactly": {"deviceClassName": world.class_name, "allocationMode": "All"}}
    await world.add_template("all", everything)
    await world.add_template("admin", {"name": "gpu", "exactly": {**everything["exactly"], "adminAccess": True}})
    await world.start_scheduler()
    await asyncio.gather(*(world.add_pod(name, template="all") for name in ("one", "two")))
    pods = await world.wait_bound("one", "two")

    assert {pods[name]["spec"]["nodeName"] for name in ("one", "two")} == {small, large}
    counts = {pods[name]["spec"]["nodeName"]: len(devices_of(await world.claim_of(name))) for name in ("one", "two")}
    assert counts == {small: 2, large: 3}

    await world.add_pod("watcher", template="admin")
    await world.wait_bound("watcher")
    results = (await world.claim_of("watcher"))["status"]["allocation"]["devices"]["results"]
    assert all(result["adminAccess"] for result in results)
    assert await world.violations() == []


async def test_tainted_devices_need_a_toleration(world: World) -> None:
    (name,) = await world.add_nodes(1)
    sick = {**gpu(0), "taints": [{"key": "example.com/sick", "value": "yes", "effect": "NoSchedule"}]}
    await world.publish(name, [sick, gpu(1)])
    await world.add_class()
    await world.add_template()
    tolerant = world.request(tolerations=[{"key": "example.com/sick", "operator": "Exists"}])
    await world.add_template("tolerant", tolerant)
    await world.start_scheduler()
    await world.add_pod("careful", template="one-gpu")
    await world.wait_bound("careful")
    assert devices_of(await world.claim_of("careful")) == [(name, "gpu-1")]
    await world.add_pod("waiting", template="one-gpu")
    await world.wait_unschedulable("waiting")

    await world.add_pod("bold", template="tolerant")
    await world.wait_bound("bold")
    assert devices_of(await world.claim_of("bold")) == [(name, "gpu-0")]
    assert await world.violations() == []


async def test_devices_that_belong_to_no_node_go_to_the_nodes_their_slice_selects(world: World) -> None:
    """A pool in the rack: two devices that the labelled nodes share; nobody else reaches them."""
    names = [world.node_name(number) for number in range(3)]
    for number, name in enumerate(names):
        await world.create("nodes", node(name, labels={"rack": "r1"} if number else {}))
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
    pool = {"name": f"{world.tag}-rack", "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": world.driver,
        "pool": pool,
        "nodeSelector": {"nodeSelectorTerms": [term]},
        "devices": [gpu(0), gpu(1)],
    }
    await world.create("resourceslices", {"metadata": {"name": f"{world.tag}-rack"}, "spec": spec})
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    await world.add_pods(["one", "two", "three"], template="one-gpu")
    pods = await world.wait_for(
        "pods",
        lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) == 2,
        what="two of three pods bound",
    )

    bound = {pod["spec"]["nodeName"] for pod in pods.values() if pod["spec"].get("nodeName")}
    assert bound <= set(names[1:])
    (waiting,) = [name for name, pod in pods.items() if not pod["spec"].get("nodeName")]
    await world.wait_unschedulable(waiting)
    assert await world.violations() == []


async def test_parameters_that_go_writes_otherwise_are_no_hindrance(world: World) -> None:
    """The API server stores them as they were sent, and refuses patches that would change a blank or a `<` of them."""
    await world.add_nodes(1, devices=2)
    opaque = {"opaque": {"driver": world.driver, "parameters": {"mode": "a < b & c", "list": [1, 2.50, 1e3]}}}
    spec = {"selectors": [{"cel": {"expression": f"device.driver == '{world.driver}'"}}], "config": [opaque]}
    await world.create("deviceclasses", {"metadata": {"name": world.class_name}, "spec": spec})
    await world.add_claim("claim", config=[opaque])
    await world.start_scheduler()
    await world.add_pod("first", claim="claim")
    await world.wait_bound("first")
    await world.add_pod("second", claim="claim")
    await world.wait_bound("second")

    claim = await world.claim_of("first")
    assert {consumer["name"] for consumer in claim["status"]["reservedFor"]} == {"first", "second"}
    configs = claim["status"]["allocation"]["devices"]["config"]
    assert [config["opaque"] for config in configs] == [opaque["opaque"]] * 2
    assert await world.violations() == []
