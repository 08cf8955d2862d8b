"""What each example of the public dra-example-driver shows, with objects of our own on what that driver publishes.

The driver's demo has 21 examples (`UPSTREAM`); its end-to-end tests apply most of them and look at what a container was
given. Here the allocation that decides it is looked at. Not here: what only a kubelet does with it (environment
variables, health, PodResources), of which the allocation is all that a scheduler can give.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.build import MINOR, built_or_skip
from tests.controlplane.cluster import CONTROLLERS, ControlPlane
from tests.integration.api import Object
from tests.integration.conftest import RealCluster, embedded_world, real_world, with_manifests
from tests.integration.public_driver import GPUS, cpus, gpus, networks
from tests.integration.world import UNDER_TEST, World, devices_of

# Folders of the driver's demo/examples.
UPSTREAM = (
    "admin-access",
    "basic-multiple-requests",
    "basic-resourceclaim-opaque-config",
    "basic-resourceclaimtemplate",
    "basic-shared-claim-across-containers",
    "basic-shared-claim-across-pods",
    "binding-conditions",
    "cel-selector",
    "device-taints-tolerations",
    "extended-resource-request",
    "gpu-allow-multiple-allocations",
    "gpu-allow-multiple-allocations-partitionable",
    "health-reporting",
    "initcontainer-shared-gpu",
    "native-resource-request",
    "net-consumable-capacity",
    "partitionable-devices",
    "podgroup-resourceclaimtemplate",
    "podresources-api",
    "prioritized-alternatives",
    "subrequest-config-scoping",
)

Run = Callable[[World], Awaitable[None]]

TAINT = "gpu.example.com/unhealthy"


@dataclass(frozen=True)
class Example:
    """One of them.

    Args:
        folder: upstream's, with what comes after a colon for one of several steps.
        shows: in a sentence.
        gates: feature gates that are off in Kubernetes 1.36; then it has a control plane of its own.
        serves: API versions for that control plane.
        embedded: whether the embedded cluster has all its kinds.
        minor: the release of Kubernetes that has the fields in this form.
    """

    folder: str
    shows: str
    run: Run
    gates: Mapping[str, bool] = field(default_factory=dict)
    serves: tuple[str, ...] = ()
    embedded: bool = True
    minor: str = MINOR


EXAMPLES: list[Example] = []


def example(folder: str, shows: str, **more: Any) -> Callable[[Run], Run]:
    """Put the function into the table."""

    def add(run: Run) -> Run:
        EXAMPLES.append(Example(folder, shows, run, **more))
        return run

    return add


# -- how the examples are told ----------------------------------------------------------------------------------------


async def install(world: World, count: int = GPUS, *, nodes: int = 1, **profile: bool | int) -> list[str]:
    """The driver with its GPUs on each node, its class, and the scheduler."""
    names = await world.add_nodes(nodes)
    for name in names:
        for item in gpus(world.driver, name, count, **profile):
            await world.create("resourceslices", item)
    await world.add_class()
    await world.start_scheduler()
    return names


async def add_class_of(world: World, driver: str, **more: object) -> None:
    """This test's class, of another driver than the GPUs', or with more in it."""
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    spec = {"selectors": [selector], **more}
    await world.create("deviceclasses", {"metadata": {"name": world.class_name}, "spec": spec})


def container(name: str, *claims: str) -> Object:
    """It uses these claims of its pod, each "claim" or "claim/request"."""
    used = []
    for claim in claims:
        claim_name, _, request = claim.partition("/")
        used.append({"name": claim_name, "request": request} if request else {"name": claim_name})
    return {"name": name, "image": "registry.example.com/work:1", "resources": {"claims": used}}


def config(world: World, interval: str, *requests: str) -> Object:
    """A driver's parameters for these requests; a scheduler hands them on and does not read them."""
    parameters = {"apiVersion": "gpu.example.com/v1", "kind": "Sharing", "interval": interval}
    return {"requests": list(requests), "opaque": {"driver": world.driver, "parameters": parameters}}


async def bound(world: World, *names: str) -> dict[str, Object]:
    """Wait for these pods; by name, the results of the claim of each."""
    await world.wait_bound(*names)
    claims = {name: await world.claim_of(name) for name in names}
    return {name: claim["status"]["allocation"]["devices"] for name, claim in claims.items()}


def used(devices: Object) -> list[str]:
    return [result["device"] for result in devices["results"]]


def configs(devices: Object) -> list[tuple[tuple[str, ...], str]]:
    """(requests, interval) of what the driver is given, in order."""
    return [
        (tuple(one.get("requests") or ()), one["opaque"]["parameters"]["interval"])
        for one in devices.get("config") or ()
    ]


def model_is(world: World, model: str) -> Object:
    return {"cel": {"expression": f"device.attributes['{world.driver}'].model == '{model}'"}}


def memory_is_at_least(world: World, amount: str) -> Object:
    expression = f"device.capacity['{world.driver}'].memory.compareTo(quantity('{amount}')) >= 0"
    return {"cel": {"expression": expression}}


# -- one claim, or two ------------------------------------------------------------------------------------------------


@example("basic-resourceclaimtemplate", "two pods of one template get a GPU each")
async def two_pods_of_one_template(world: World) -> None:
    await install(world)
    await world.add_template()
    await world.add_pods(["pod-0", "pod-1"], template="one-gpu")
    found = await bound(world, "pod-0", "pod-1")
    assert len({*used(found["pod-0"]), *used(found["pod-1"])}) == 2


@example("basic-multiple-requests", "a container gets the two GPUs of a claim's two requests")
async def two_requests(world: World) -> None:
    await install(world)
    await world.add_template("two", world.request("first"), world.request("second"))
    await world.add_pod("pod", template="two")
    found = await bound(world, "pod")
    assert [result["request"] for result in found["pod"]["results"]] == ["first", "second"]
    assert len(set(used(found["pod"]))) == 2


@example("basic-shared-claim-across-containers", "two containers of a pod share a GPU")
async def two_containers(world: World) -> None:
    await install(world)
    await world.add_template()
    containers = [container("one", "gpu"), container("two", "gpu")]
    await world.add_pod("pod", template="one-gpu", containers=containers)
    assert len(used((await bound(world, "pod"))["pod"])) == 1


@example("basic-shared-claim-across-pods", "two pods share a GPU, on one node, both reserved")
async def two_pods_of_one_claim(world: World) -> None:
    await install(world, nodes=2)
    await world.add_claim("shared")
    for name in ("pod-0", "pod-1"):
        await world.add_pod(name, claim="shared")
    pods = await world.wait_bound("pod-0", "pod-1")
    claim = await world.api.get("resourceclaims", "shared", world.namespace)
    assert {pods[name]["spec"]["nodeName"] for name in ("pod-0", "pod-1")} == {pool for pool, _ in devices_of(claim)}
    assert sorted(one["name"] for one in claim["status"]["reservedFor"]) == ["pod-0", "pod-1"]
    assert len(devices_of(claim)) == 1


@example("initcontainer-shared-gpu", "an init container and a container share a GPU")
async def init_container(world: World) -> None:
    await install(world)
    await world.add_template()
    await world.add_pod(
        "pod", template="one-gpu", initContainers=[container("init", "gpu")], containers=[container("main", "gpu")]
    )
    assert len(used((await bound(world, "pod"))["pod"])) == 1


@example("basic-resourceclaim-opaque-config", "each of two requests keeps its own parameters")
async def parameters_of_requests(world: World) -> None:
    await install(world)
    requests = [world.request("sliced"), world.request("parted")]
    parameters = [config(world, "Long", "sliced"), config(world, "Short", "parted")]
    await world.add_template("configured", *requests, config=parameters)
    containers = [container(f"{part}-{number}", f"gpu/{part}") for part in ("sliced", "parted") for number in (0, 1)]
    await world.add_pod("pod", template="configured", containers=containers)
    devices = (await bound(world, "pod"))["pod"]
    assert len(set(used(devices))) == 2
    assert configs(devices) == [(("sliced",), "Long"), (("parted",), "Short")]
    assert {one["source"] for one in devices["config"]} == {"FromClaim"}


@example("cel-selector", "a GPU by model and memory, and none where no device has so much")
async def cel_selectors(world: World) -> None:
    await install(world)
    for name, amount in (("modest", "4Gi"), ("greedy", "1Ti")):
        selectors = [model_is(world, "LATEST-GPU-MODEL"), memory_is_at_least(world, amount)]
        await world.add_template(name, world.request(selectors=selectors))
        await world.add_pod(name, template=name)
    assert len(used((await bound(world, "modest"))["modest"])) == 1
    await world.wait_unschedulable("greedy")


@example("podresources-api", "the claim names driver, pool and device, which a kubelet shows")
async def pod_resources(world: World) -> None:
    (name,) = await install(world)
    await world.add_template()
    await world.add_pod("pod", template="one-gpu")
    (result,) = (await bound(world, "pod"))["pod"]["results"]
    assert {**result, "device": ""} == {"request": "gpu", "driver": world.driver, "pool": name, "device": ""}


@example("health-reporting", "a GPU whose health a kubelet tells; what that says does not move the pod")
async def health(world: World) -> None:
    await install(world)
    await world.add_template()
    await world.add_pod("pod", template="one-gpu", restartPolicy="Never")
    (device,) = used((await bound(world, "pod"))["pod"])
    ill = {"name": "claim:gpu", "resources": [{"resourceID": device, "health": "Unhealthy"}]}
    told = [{"name": "main", "image": "i", "imageID": "i", "ready": True, "restartCount": 0}]
    told[0] |= {"state": {"running": {}}, "allocatedResourcesStatus": [ill]}
    await world.api.merge_patch("pods", "pod", {"status": {"containerStatuses": told}}, world.namespace, "status")
    await world.add_pod("next", template="one-gpu")
    found = await bound(world, "pod", "next")
    assert used(found["pod"]) == [device]
    assert used(found["next"]) != [device]


@example("admin-access", "a monitor gets every GPU of its node, those in use too, and takes none away")
async def admin_access(world: World) -> None:
    await install(world)
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await world.api.merge_patch("namespaces", world.namespace, label)
    await world.add_template()
    everything = {"deviceClassName": world.class_name, "allocationMode": "All", "adminAccess": True}
    await world.add_template("monitor", {"name": "all", "exactly": everything})
    await world.add_pod("worker", template="one-gpu")
    await world.wait_bound("worker")
    await world.add_pod("monitor", template="monitor")
    devices = (await bound(world, "monitor"))["monitor"]
    assert sorted(used(devices)) == [f"gpu-{index}" for index in range(GPUS)]
    assert all(result["adminAccess"] for result in devices["results"])
    await world.add_pods([f"worker-{number}" for number in range(GPUS - 1)], template="one-gpu")
    await world.wait_bound(*(f"worker-{number}" for number in range(GPUS - 1)))


@example("extended-resource-request", "a GPU by the name of a resource, the class's own and the one made of its name")
async def extended_resources(world: World) -> None:
    (name,) = await world.add_nodes(1)
    for item in gpus(world.driver, name):
        await world.create("resourceslices", item)
    explicit, implicit = f"{world.tag}.example.com/gpu", f"deviceclass.resource.kubernetes.io/{world.class_name}"
    await add_class_of(world, world.driver, extendedResourceName=explicit)
    await world.start_scheduler()
    for pod, resource in (("pod-0", implicit), ("pod-1", explicit)):
        asking = container("main") | {"resources": {"requests": {resource: "1"}, "limits": {resource: "1"}}}
        await world.add_pod(pod, containers=[asking])
    pods = await world.wait_bound("pod-0", "pod-1")
    given = set()
    for pod, resource in (("pod-0", implicit), ("pod-1", explicit)):
        told = pods[pod]["status"]["extendedResourceClaimStatus"]
        (mapping,) = told["requestMappings"]
        assert (mapping["containerName"], mapping["resourceName"]) == ("main", resource)
        given.update(devices_of(await world.api.get("resourceclaims", told["resourceClaimName"], world.namespace)))
    assert len(given) == 2


# -- alternatives -----------------------------------------------------------------------------------------------------


def alternative(world: World, name: str, *selectors: Object) -> Object:
    return {"name": name, "deviceClassName": world.class_name, "selectors": list(selectors)}


def preferring(*alternatives: Object) -> Object:
    return {"name": "gpu", "firstAvailable": list(alternatives)}


@example("prioritized-alternatives", "the first alternative that fits is taken, and no better one is passed over")
async def prioritized_alternatives(world: World) -> None:
    await install(world)
    newest = alternative(world, "newest", model_is(world, "NOT-BUILT-YET"))
    huge = alternative(world, "huge", memory_is_at_least(world, "1Ti"))
    latest = alternative(world, "latest", model_is(world, "LATEST-GPU-MODEL"))
    any_one = alternative(world, "any")
    await world.add_template("falls-back", preferring(newest, huge, any_one))
    await world.add_template("prefers", preferring(latest, any_one))
    for name in ("falls-back", "prefers"):
        await world.add_pod(name, template=name)
    found = await bound(world, "falls-back", "prefers")
    requests = {name: [result["request"] for result in devices["results"]] for name, devices in found.items()}
    assert requests == {"falls-back": ["gpu/any"], "prefers": ["gpu/latest"]}


@example("subrequest-config-scoping", "parameters of a request, of the alternative taken, of another, of both in order")
async def parameters_of_alternatives(world: World) -> None:
    await install(world)
    huge = alternative(world, "huge", memory_is_at_least(world, "1Ti"))
    latest, any_one = alternative(world, "latest", model_is(world, "LATEST-GPU-MODEL")), alternative(world, "any")
    beside = world.request("beside")
    parameters = {
        "of-the-request": (preferring(huge, any_one), [config(world, "Long", "gpu")]),
        "of-alternatives": (
            preferring(latest, any_one),
            [config(world, "Short", "gpu/latest"), config(world, "Medium", "gpu/any")],
        ),
        "of-both": (
            preferring(latest, any_one),
            [config(world, "Short", "gpu/latest"), config(world, "Long", "gpu")],
        ),
    }
    for name, (request, given) in parameters.items():
        await world.add_template(name, request, beside, config=given)
        await world.add_pod(name, template=name)
    found = await bound(world, *parameters)
    assert {name: [one["request"] for one in devices["results"]] for name, devices in found.items()} == {
        "of-the-request": ["gpu/any", "beside"],
        "of-alternatives": ["gpu/latest", "beside"],
        "of-both": ["gpu/latest", "beside"],
    }
    assert {name: configs(devices) for name, devices in found.items()} == {
        "of-the-request": [(("gpu",), "Long")],
        "of-alternatives": [(("gpu/latest",), "Short")],
        "of-both": [(("gpu/latest",), "Short"), (("gpu",), "Long")],
    }


# -- parts and shares -------------------------------------------------------------------------------------------------


@example("partitionable-devices", "two of a GPU's four partitions; the whole one is then gone, the others are not")
async def partitions(world: World) -> None:
    await install(world, 1, partitions=4)
    is_whole = {"cel": {"expression": f"device.attributes['{world.driver}'].?full.orValue(false)"}}
    await world.add_template("two-parts", world.request(count=2))
    await world.add_template("whole", world.request(selectors=[is_whole]))
    await world.add_pod("pod", template="two-parts")
    found = await bound(world, "pod")
    assert len(set(used(found["pod"]))) == 2
    assert all(device.startswith("gpu-0-partition-") for device in used(found["pod"]))
    await world.add_pod("whole", template="whole")
    await world.wait_unschedulable("whole")
    await world.add_pod("others", template="two-parts")
    found = await bound(world, "pod", "others")
    assert len({*used(found["pod"]), *used(found["others"])}) == 4


async def share(world: World, memory: str, compute: str) -> list[Object]:
    """Two pods whose claims ask for so much each; their results."""
    for name in ("pod-0", "pod-1"):
        capacity = {"requests": {"memory": memory, "compute": compute}}
        await world.add_claim(name, world.request(capacity=capacity))
        await world.add_pod(name, claim=name)
    found = await bound(world, "pod-0", "pod-1")
    results = [result for devices in found.values() for result in devices["results"]]
    assert [result["consumedCapacity"] for result in results] == [{"memory": memory, "compute": compute}] * 2
    assert len({result["shareID"] for result in results}) == 2
    return results


@example(
    "gpu-allow-multiple-allocations", "two claims share a GPU by memory and compute, and a third finds it too full"
)
async def shares_of_a_gpu(world: World) -> None:
    await install(world, 1, shared=True)
    results = await share(world, "16Gi", "20")
    assert {result["device"] for result in results} == {"gpu-0"}
    await world.add_claim("large", world.request(capacity={"requests": {"memory": "40Gi", "compute": "61"}}))
    await world.add_pod("large", claim="large")
    await world.wait_unschedulable("large")


@example("gpu-allow-multiple-allocations-partitionable", "two claims share one partition of a GPU")
async def shares_of_a_partition(world: World) -> None:
    await install(world, 1, partitions=4, shared=True)
    results = await share(world, "8Gi", "10")
    assert len({result["device"] for result in results}) == 1
    assert all(result["device"].startswith("gpu-0-partition-") for result in results)


@example("net-consumable-capacity", "two pods share a network card by bandwidth, rounded up to the card's step")
async def network_cards(world: World) -> None:
    driver = f"{world.tag}.net.example.com"
    (name,) = await world.add_nodes(1)
    for item in networks(driver, name, 1):
        await world.create("resourceslices", item)
    await add_class_of(world, driver)
    await world.start_scheduler()
    for pod, ingress in (("pod-0", "10G"), ("pod-1", "5G")):
        capacity = {"requests": {"ingressBandwidth": ingress, "egressBandwidth": "5G"}}
        await world.add_template(pod, world.request(capacity=capacity))
        await world.add_pod(pod, template=pod)
    found = await bound(world, "pod-0", "pod-1")
    consumed = {name: devices["results"][0]["consumedCapacity"] for name, devices in found.items()}
    assert {device for devices in found.values() for device in used(devices)} == {"nic-0"}
    assert consumed == {
        "pod-0": {"vfs": "1", "ingressBandwidth": "9537Mi", "egressBandwidth": "4769Mi"},
        "pod-1": {"vfs": "1", "ingressBandwidth": "4769Mi", "egressBandwidth": "4769Mi"},
    }


# -- the driver's and the administrator's later word ------------------------------------------------------------------


@example("binding-conditions", "the pod is bound when the driver's controller says that its GPU is ready")
async def binding_conditions(world: World) -> None:
    await install(world, binding=True)
    await world.add_template()
    await world.add_pod("pod", template="one-gpu")

    def allocated(claims: dict[str, Object]) -> bool:
        return any((claim.get("status") or {}).get("allocation") for claim in claims.values())

    (claim,) = (await world.wait_for("resourceclaims", allocated, what="its claim allocated")).values()
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["bindingConditions"] == ["BindingConditions"]
    assert result["bindingFailureConditions"] == ["BindingFailureConditions"]
    assert "nodeName" not in (await world.api.get("pods", "pod", world.namespace))["spec"]
    ready = {
        "type": "BindingConditions",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    device = {key: result[key] for key in ("driver", "pool", "device")} | {"conditions": [ready]}
    name = claim["metadata"]["name"]
    await world.api.merge_patch("resourceclaims", name, {"status": {"devices": [device]}}, world.namespace, "status")
    assert used((await bound(world, "pod"))["pod"]) == [result["device"]]


def whole_driver_is(world: World, effect: str) -> Object:
    """The administrator's rule: everything of this driver is broken."""
    taint = {"key": TAINT, "value": "true", "effect": effect}
    spec = {"deviceSelector": {"driver": world.driver}, "taint": taint}
    return {"metadata": {"name": f"{world.tag}-broken"}, "spec": spec}


async def add_tolerant(world: World, name: str, **more: object) -> None:
    toleration = {"key": TAINT, "operator": "Equal", "value": "true", "effect": "NoExecute", **more}
    await world.add_template(name, world.request(tolerations=[toleration]))
    await world.add_pod(name, template=name)


async def wait_gone(world: World, name: str) -> None:
    await world.wait_for("pods", lambda pods: name not in pods, what=f"pod {name} evicted")


@example("device-taints-tolerations: noschedule", "who runs stays, who comes waits")
async def no_schedule(world: World) -> None:
    await install(world)
    await world.add_template()
    await world.add_pod("before", template="one-gpu")
    await world.wait_bound("before")
    await world.create("devicetaintrules", whole_driver_is(world, "NoSchedule"))
    await world.add_pod("after", template="one-gpu")
    await world.wait_unschedulable("after")
    await bound(world, "before")


@example("device-taints-tolerations: noexecute", "who runs is evicted, who comes waits")
async def no_execute(world: World) -> None:
    await install(world)
    await world.add_template()
    await world.add_pod("before", template="one-gpu")
    await world.wait_bound("before")
    await world.create("devicetaintrules", whole_driver_is(world, "NoExecute"))
    await wait_gone(world, "before")
    await world.add_pod("after", template="one-gpu")
    await world.wait_unschedulable("after")


@example("device-taints-tolerations: toleration", "who tolerates the taint gets a GPU, who does not waits")
async def toleration(world: World) -> None:
    await world.create("devicetaintrules", whole_driver_is(world, "NoExecute"))
    await install(world)
    await world.add_template()
    await world.add_pod("careful", template="one-gpu")
    await world.wait_unschedulable("careful")
    await add_tolerant(world, "tolerant")
    await bound(world, "tolerant")


@example("device-taints-tolerations: configurable eviction time", "each pod is evicted when its toleration ends")
async def toleration_that_ends(world: World) -> None:
    await install(world)
    await world.add_template()
    await world.add_pod("careful", template="one-gpu")
    await add_tolerant(world, "for-a-while", tolerationSeconds=2)
    await add_tolerant(world, "for-ever")
    await world.wait_bound("careful", "for-a-while", "for-ever")
    await world.create("devicetaintrules", whole_driver_is(world, "NoExecute"))
    await wait_gone(world, "careful")
    await wait_gone(world, "for-a-while")
    await bound(world, "for-ever")


# -- behind gates -----------------------------------------------------------------------------------------------------


@example(
    "podgroup-resourceclaimtemplate",
    "the pods of a group share a GPU, two groups have two",
    gates={"GenericWorkload": True, "DRAWorkloadResourceClaims": True},
    serves=("scheduling.k8s.io/v1beta1",),
    embedded=False,
)
async def pod_groups(world: World) -> None:
    await install(world)
    await world.add_template()
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{world.namespace}/podgroups"
    names = []
    for group in ("group-0", "group-1"):
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": claims}
        await world.api.request("POST", path, {"metadata": world.meta(group), "spec": spec})
        for number in (0, 1):
            names.append(f"{group}-{number}")
            await world.add_pod(names[-1], template="one-gpu", schedulingGroup={"podGroupName": group})
    await world.wait_bound(*names)
    claims_of = {claim["metadata"]["name"]: claim for claim in await world.api.list("resourceclaims", world.namespace)}
    assert sorted(one["name"] for claim in claims_of.values() for one in claim["status"]["reservedFor"]) == [
        "group-0",
        "group-1",
    ]
    assert len({devices_of(claim)[0] for claim in claims_of.values()}) == len(claims_of) == 2


@example(
    "native-resource-request",
    "CPUs of the node by two shares of a NUMA device, which nobody else on the node gets",
    gates={"DRANodeAllocatableResources": True},
    embedded=False,
    minor="1.36",
)
async def node_cpus(world: World) -> None:
    driver = f"{world.tag}.cpu.example.com"
    (name,) = await world.add_nodes(1, cpu="2")
    for item in cpus(driver, name, numa_nodes=1, each=2):
        await world.create("resourceslices", item)
    await add_class_of(world, driver)
    await world.start_scheduler()
    one_cpu = {"requests": {f"{driver}/cpu": "1"}}
    await world.add_template("two", *(world.request(f"cpu-{number}", capacity=one_cpu) for number in (0, 1)))
    await world.add_pod("pod", template="two")
    results = (await bound(world, "pod"))["pod"]["results"]
    assert [result["device"] for result in results] == ["numa-0"] * 2
    assert len({result["shareID"] for result in results}) == 2
    pod = await world.api.get("pods", "pod", world.namespace)
    (taken,) = pod["status"]["nodeAllocatableResourceClaimStatuses"]
    claim = await world.claim_of("pod")
    assert taken == {
        "resourceClaimName": claim["metadata"]["name"],
        "containers": ["main"],
        "resources": {"cpu": "2"},
    }
    asking = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    await world.add_pod("plain", containers=[asking])
    assert "Insufficient cpu" in (await world.wait_unschedulable("plain"))["message"]


# -- the table --------------------------------------------------------------------------------------------------------


def test_every_example_of_the_public_driver_has_its_row() -> None:
    folders = [one.folder.partition(":")[0] for one in EXAMPLES]

    assert set(folders) == set(UPSTREAM)
    assert len(UPSTREAM) == 21


def _cases() -> list[Any]:
    return [
        pytest.param(
            one,
            cluster,
            id=f"{cluster}-{one.folder.replace(': ', '-').replace(' ', '-')}",
            marks=pytest.mark.controlplane if cluster == "controlplane" else (),
        )
        for one in EXAMPLES
        for cluster in ("embedded", "controlplane")
        if one.embedded or cluster == "controlplane"
    ]


@pytest.fixture
async def opened(one: Example, cluster: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A cluster with the example's gates: the session's where it needs none."""
    if cluster == "embedded":
        async with embedded_world(tmp_path) as world:
            yield world
    elif not one.gates:
        async with real_world(request.getfixturevalue("control_plane"), tmp_path) as world:
            yield world
            await world.clean_up()
    else:
        built_or_skip(f"controlplane-{one.minor}")
        with ControlPlane(CONTROLLERS, one.gates, runtime_config=one.serves, minor=one.minor) as plane:
            real = with_manifests(plane) if UNDER_TEST == "ours" else RealCluster(plane, ("", ""))
            async with real_world(real, tmp_path) as world:
                yield world


@pytest.mark.parametrize(("one", "cluster"), _cases())
async def test_an_example_of_the_public_driver_shows_what_it_shows_there(opened: World, one: Example) -> None:
    await opened.add_namespace()
    try:
        await one.run(opened)
        assert await opened.violations() == []
    finally:
        await opened.stop_scheduler(kill=True)
