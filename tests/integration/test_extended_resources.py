"""Extended resources that devices serve: a pod asks for `example.com/gpu: 1` and has no claim in its spec.

Each test looks at what a kubelet would: the pod's `extendedResourceClaimStatus`, the claim it names, its allocation.
"""

from __future__ import annotations

import pytest

from tests.integration.api import Object
from tests.integration.world import UNDER_TEST, World, condition_of, devices_of, node

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


def explicit_name(world: World) -> str:
    return f"{world.tag}.example.com/gpu"


def implicit_name(world: World) -> str:
    return f"deviceclass.resource.kubernetes.io/{world.class_name}"


async def add_class(world: World, **spec: object) -> None:
    """The class of this test's devices, behind the explicit name."""
    selector = {"cel": {"expression": f"device.driver == '{world.driver}'"}}
    body = {"selectors": [selector], "extendedResourceName": explicit_name(world), **spec}
    await world.create("deviceclasses", {"metadata": {"name": world.class_name}, "spec": body})


def container(name: str, resource: str, amount: int, **more: object) -> Object:
    amounts = {resource: str(amount), "cpu": "100m"}
    return {
        "name": name,
        "image": "registry.example.com/work:1",
        "resources": {"requests": amounts, "limits": amounts},
        **more,
    }


async def add_pod(world: World, name: str, resource: str, amount: int = 1) -> Object:
    return await world.add_pod(name, containers=[container("main", resource, amount)])


async def special_claim(world: World, pod_name: str) -> Object:
    """The claim that the pod's status names, after comparing all that a kubelet relies on."""
    pod = await world.api.get("pods", pod_name, world.namespace)
    told = pod["status"]["extendedResourceClaimStatus"]
    claim = await world.api.get("resourceclaims", told["resourceClaimName"], world.namespace)
    assert claim["metadata"]["annotations"][ANNOTATION] == "true"
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", pod["metadata"]["uid"], True)
    assert [consumer["uid"] for consumer in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
    given = {result["request"] for result in claim["status"]["allocation"]["devices"]["results"]}
    assert {mapping["requestName"] for mapping in told["requestMappings"]} == given
    return claim


async def claims_of_namespace(world: World) -> list[Object]:
    return list(await world.api.list("resourceclaims", world.namespace))


@pytest.mark.parametrize("name_of", [explicit_name, implicit_name], ids=["explicit", "implicit"])
async def test_a_pod_gets_its_devices_by_the_name_of_a_resource(world: World, name_of) -> None:
    """Two devices for two pods; the third waits until one of them is gone."""
    await world.add_nodes(1, devices=2)
    await add_class(world)
    await world.start_scheduler()
    for name in ("one", "two"):
        await add_pod(world, name, name_of(world))
    await world.wait_bound("one", "two")

    used = [device for name in ("one", "two") for device in devices_of(await special_claim(world, name))]
    assert len(set(used)) == 2
    (mapping,) = (await world.api.get("pods", "one", world.namespace))["status"]["extendedResourceClaimStatus"][
        "requestMappings"
    ]
    assert mapping == {
        "containerName": "main",
        "resourceName": name_of(world),
        "requestName": "container-0-request-1",
    }
    assert await world.violations() == []

    await add_pod(world, "three", name_of(world))
    said = await world.wait_unschedulable("three")
    assert "cannot allocate all claims" in said["message"]
    assert len(await claims_of_namespace(world)) == 2  # nothing is made for a pod that waits
    await world.api.delete("pods", "one", world.namespace)
    await world.wait_bound("three")
    await special_claim(world, "three")
    assert await world.violations() == []


async def test_every_container_is_told_its_request_and_init_containers_reuse(world: World) -> None:
    """The init container's three devices are the two of the container that runs later, and one more."""
    await world.add_nodes(1, devices=4)
    await add_class(world)
    await world.start_scheduler()
    resource = explicit_name(world)
    await world.add_pod(
        "pod",
        initContainers=[container("warm-up", resource, 3)],
        containers=[container("main", resource, 2), container("side", resource, 1)],
    )
    await world.wait_bound("pod")

    claim = await special_claim(world, "pod")
    asked = {one["name"]: one["exactly"]["count"] for one in claim["spec"]["devices"]["requests"]}
    assert asked == {"container-1-request-1": 2, "container-2-request-1": 1}
    told = (await world.api.get("pods", "pod", world.namespace))["status"]["extendedResourceClaimStatus"]
    mappings = [(one["containerName"], one["requestName"]) for one in told["requestMappings"]]
    assert mappings == [
        ("main", "container-1-request-1"),
        ("side", "container-2-request-1"),
        ("warm-up", "container-1-request-1"),
        ("warm-up", "container-2-request-1"),
    ]
    assert len(devices_of(claim)) == 3
    assert await world.violations() == []


async def test_the_device_plugin_of_a_node_wins_there(world: World) -> None:
    """One node has the resource from its kubelet, the other has devices: one pod each, and one claim in all."""
    resource = explicit_name(world)
    with_plugin = node(world.node_name(1))
    for amounts in ("capacity", "allocatable"):
        with_plugin["status"][amounts][resource] = "1"
    await world.create("nodes", with_plugin)
    await world.publish(world.node_name(1), [{"name": "gpu-0"}])
    (with_devices,) = await world.add_nodes(1, devices=1)
    await add_class(world)
    await world.start_scheduler()
    for name in ("one", "two"):
        await add_pod(world, name, resource)
    pods = await world.wait_bound("one", "two")

    by_node = {pod["spec"]["nodeName"]: name for name, pod in pods.items()}
    assert by_node.keys() == {with_devices, world.node_name(1)}
    assert len(await claims_of_namespace(world)) == 1
    await special_claim(world, by_node[with_devices])
    assert "extendedResourceClaimStatus" not in pods[by_node[world.node_name(1)]]["status"]
    await add_pod(world, "three", resource)
    said = (await world.wait_unschedulable("three"))["message"]
    assert f"1 Insufficient {resource}" in said
    assert "1 cannot allocate all claims" in said
    assert await world.violations() == []


async def test_a_claim_and_an_extended_resource_in_one_pod(world: World) -> None:
    await world.add_nodes(1, devices=1)
    (both,) = await world.add_nodes(1, devices=2, first=1)
    await add_class(world)
    await world.add_template()
    await world.start_scheduler()
    with_both = container("main", explicit_name(world), 1)
    with_both["resources"]["claims"] = [{"name": "gpu"}]
    await world.add_pod(
        "pod",
        containers=[with_both],
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    )
    assert (await world.wait_bound("pod"))["pod"]["spec"]["nodeName"] == both

    used = [*devices_of(await special_claim(world, "pod")), *devices_of(await world.claim_of("pod"))]
    assert len(set(used)) == 2
    assert await world.violations() == []


async def test_a_class_that_takes_the_name_later_wakes_the_pods(world: World) -> None:
    await world.add_nodes(1, devices=1)
    await world.start_scheduler()
    await add_pod(world, "pod", explicit_name(world))
    assert f"Insufficient {explicit_name(world)}" in (await world.wait_unschedulable("pod"))["message"]

    await add_class(world)
    await world.wait_bound("pod")
    await special_claim(world, "pod")
    assert await world.violations() == []


async def test_what_a_failed_attempt_made_is_taken_back(world: World) -> None:
    """The binding is refused once: the claim goes, and the next attempt makes another."""
    await world.add_nodes(1, devices=1)
    await add_class(world)
    refused = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}
    fault = world.fault("answer", "binding", status=422, body=refused)
    await world.start_scheduler()
    await add_pod(world, "pod", explicit_name(world))
    await world.wait_fault(fault)
    await world.wait_bound("pod")

    (claim,) = await claims_of_namespace(world)
    assert (await special_claim(world, "pod"))["metadata"]["uid"] == claim["metadata"]["uid"]
    assert await world.violations() == []


@pytest.mark.parametrize("kind", ["lose-request", "lose-reply"])
@pytest.mark.parametrize("write", ["claim create", "claim status", "pod status", "binding"])
async def test_a_write_whose_outcome_is_unknown_makes_no_second_claim(world: World, write: str, kind: str) -> None:
    if UNDER_TEST == "kube-scheduler":
        pytest.skip("kube-scheduler lets the API server name the claim, so a lost reply leaves one behind")
    await world.add_nodes(1, devices=1)
    await add_class(world)
    fault = world.fault(kind, write)
    await world.start_scheduler()
    await add_pod(world, "pod", explicit_name(world))
    await world.wait_bound("pod")

    assert fault.hits == 1
    assert len(await claims_of_namespace(world)) == 1
    await special_claim(world, "pod")
    assert await world.violations() == []


@pytest.mark.parametrize("write", ["claim create", "claim status", "pod status", "binding"])
async def test_a_scheduler_killed_in_the_middle_is_followed_by_one_that_goes_on(world: World, write: str) -> None:
    """It dies after the write has landed and before it hears so."""
    if UNDER_TEST == "kube-scheduler":
        pytest.skip("kube-scheduler deletes the claim it finds, and the deletion does not wake the pod")
    await world.add_nodes(1, devices=1)
    await add_class(world)
    fault = world.fault("lose-reply", write)
    await world.start_scheduler()
    await add_pod(world, "pod", explicit_name(world))
    await world.wait_fault(fault)
    await world.stop_scheduler(kill=True)
    await world.start_scheduler()
    await world.wait_bound("pod")

    assert len(await claims_of_namespace(world)) == 1
    await special_claim(world, "pod")
    assert await world.violations() == []


@pytest.mark.parametrize("write", ["claim create", "claim status", "pod status"])
async def test_what_a_killed_scheduler_sent_arrives_late_and_changes_nothing(world: World, write: str) -> None:
    """The next one has bound the pod by then: the name is taken, or the revision has moved."""
    if UNDER_TEST == "kube-scheduler":
        pytest.skip("kube-scheduler's late create makes a second claim: the API server names it")
    await world.add_nodes(1, devices=2)
    await add_class(world)
    fault = world.fault("hold", write)
    await world.start_scheduler()
    await add_pod(world, "pod", explicit_name(world))
    await world.wait_fault(fault)
    await world.stop_scheduler(kill=True)
    await world.start_scheduler()
    await world.wait_bound("pod")
    before = await special_claim(world, "pod")

    assert await fault.release() == 409
    assert await special_claim(world, "pod") == before
    assert len(await claims_of_namespace(world)) == 1
    assert await world.violations() == []


async def test_a_claim_goes_with_its_pod(world: World) -> None:
    """Deleted pods leave nothing behind, whether they were bound or not."""
    await world.add_nodes(1, devices=1)
    await add_class(world)
    await world.start_scheduler()
    await add_pod(world, "bound", explicit_name(world))
    await world.wait_bound("bound")
    await add_pod(world, "waits", explicit_name(world))
    await world.wait_unschedulable("waits")
    for name in ("waits", "bound"):
        await world.api.delete("pods", name, world.namespace)
    await world.wait_for("resourceclaims", lambda claims: not claims, what="no claim left")
    await add_pod(world, "next", explicit_name(world))
    pods = await world.wait_bound("next")
    assert condition_of(pods["next"]) is None
    assert await world.violations() == []
