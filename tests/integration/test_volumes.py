"""Pods with volumes: one that waits for its first pod is bound with it, where the pod can reach it, whoever dies.

The volumes are made by hand and each is reached from one node. On the real control plane kube-controller-manager's
volume controller completes the binding, on the embedded cluster its own does.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.integration.api import Object
from tests.integration.test_restart import Fate, arrives_late, kill_at, on_both, ours_only
from tests.integration.world import World

pytestmark = ours_only

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
POINTS: Final[dict[str, tuple[str, str]]] = {
    "promise": ("PATCH", r"/persistentvolumes/[^/]+$"),
    "binding": ("POST", r"/pods/pod/binding$"),
}
DEVICE_POINTS: Final = {
    "finalizer": ("PATCH", r"/resourceclaims/gpu$"),
    "status": ("PATCH", r"/resourceclaims/gpu/status$"),
    **POINTS,
}
PROVISIONED_POINTS: Final[dict[str, tuple[str, str]]] = {
    "selected node": ("PATCH", r"/persistentvolumeclaims/data$"),
    "binding": ("POST", r"/pods/pod/binding$"),
}


async def add_storage_class(world: World, provisioner: str = "kubernetes.io/no-provisioner") -> str:
    name = f"{world.tag}-volumes"
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    await world.create("storageclasses", body)
    return name


async def add_volume(world: World, node: str) -> str:
    """A volume that only this node reaches."""
    name = f"{node}-volume"
    expressions = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": f"{world.tag}-volumes",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
        "local": {"path": "/data"},
    }
    await world.create("persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    return name


async def add_volume_claim(world: World, name: str = "data") -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": f"{world.tag}-volumes",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await world.create("persistentvolumeclaims", {"metadata": world.meta(name), "spec": spec})


async def add_pod(world: World, name: str = "pod", volume_claim: str = "data", **more: Any) -> Object:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": volume_claim}}]
    return await world.add_pod(name, volumes=volumes, **more)


async def promised(world: World) -> dict[str, str]:
    """By volume of this test the claim that it is promised to or bound to."""
    volumes = await world.api.list("persistentvolumes")
    return {
        volume["metadata"]["name"]: volume["spec"]["claimRef"]["name"]
        for volume in volumes
        if volume["spec"].get("storageClassName") == f"{world.tag}-volumes" and "claimRef" in volume["spec"]
    }


async def test_a_pod_goes_where_its_volume_is(world: World) -> None:
    _, second = await world.add_nodes(2)
    await add_storage_class(world)
    volume = await add_volume(world, second)
    await add_volume_claim(world)
    await add_pod(world)
    await world.start_scheduler()
    pods = await world.wait_bound("pod")
    assert pods["pod"]["spec"]["nodeName"] == second
    claim = await world.api.get("persistentvolumeclaims", "data", world.namespace)
    assert claim["spec"]["volumeName"] == volume
    assert claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"


async def test_a_pod_with_a_volume_and_a_device_gets_both_on_one_node_or_neither(world: World) -> None:
    """Devices are on the first two nodes, volumes on the last two."""
    nodes = [*await world.add_nodes(2, devices=1), *await world.add_nodes(1, first=2)]
    await world.add_class()
    await add_storage_class(world)
    for node in nodes[1:]:
        await add_volume(world, node)
    for number in (1, 2):
        await world.add_claim(f"gpu-{number}")
        await add_volume_claim(world, f"data-{number}")
    await world.start_scheduler()
    await add_pod(world, "first", "data-1", claim="gpu-1")
    pods = await world.wait_bound("first")
    assert pods["first"]["spec"]["nodeName"] == nodes[1]

    await add_pod(world, "second", "data-2", claim="gpu-2")
    await world.wait_decided("second")
    pod = await world.api.get("pods", "second", world.namespace)
    assert "nodeName" not in pod["spec"]
    assert list((await promised(world)).values()) == ["data-1"]
    gpu_claim = await world.api.get("resourceclaims", "gpu-2", world.namespace)
    assert "allocation" not in gpu_claim.get("status", {})
    await add_volume(world, nodes[0])  # now the first node has both
    pods = await world.wait_bound("second")
    assert pods["second"]["spec"]["nodeName"] == nodes[0]
    assert await world.violations() == []


@on_both(*DEVICE_POINTS, real=("promise", "stored"))
async def test_the_next_one_finishes(world: World, point: str, fate: Fate) -> None:
    nodes = await world.add_nodes(2, devices=1)
    await world.add_class()
    await world.add_claim("gpu")
    await add_storage_class(world)
    reached = {await add_volume(world, node): node for node in nodes}
    await add_volume_claim(world)
    await add_pod(world, claim="gpu")
    fault = await kill_at(world, *DEVICE_POINTS[point], fate)

    await world.start_scheduler()
    pods = await world.wait_bound("pod")
    await arrives_late(fault, fate)
    claim = await world.api.get("persistentvolumeclaims", "data", world.namespace)
    assert reached[claim["spec"]["volumeName"]] == pods["pod"]["spec"]["nodeName"]
    assert await promised(world) == {claim["spec"]["volumeName"]: "data"}
    assert await world.violations() == []


@on_both(*POINTS, real=("promise", "late"))
async def test_a_volume_that_was_promised_serves_the_next_pod_of_its_claim(
    world: World, point: str, fate: Fate
) -> None:
    """The pod is deleted while nobody schedules. Its claim may have a volume by now: there its next pod must go."""
    nodes = await world.add_nodes(2)
    await add_storage_class(world)
    reached = {await add_volume(world, node): node for node in nodes}
    await add_volume_claim(world)
    await add_pod(world)
    fault = await kill_at(world, *POINTS[point], fate)
    await world.api.delete("pods", "pod", world.namespace)

    await world.start_scheduler()
    await arrives_late(fault, fate)
    await add_pod(world, "next")
    pods = await world.wait_bound("next")
    claim = await world.api.get("persistentvolumeclaims", "data", world.namespace)
    assert reached[claim["spec"]["volumeName"]] == pods["next"]["spec"]["nodeName"]


async def provisioning_fails_on(world: World, nodes: str) -> None:
    annotations = {"embedded.dra-scheduler/provisioning-fails-on": nodes}
    await world.api.merge_patch("storageclasses", f"{world.tag}-volumes", {"metadata": {"annotations": annotations}})


async def wait_failures(world: World, count: int) -> None:
    """Until the provisioner has failed so often."""

    def told(events: dict[str, Object]) -> bool:
        return sum(one["reason"] == "ProvisioningFailed" for one in events.values()) >= count

    await world.wait_for("events", told, what=f"{count} times no volume")


@pytest.mark.parametrize("world", ["embedded"], indirect=True)
async def test_a_provisioner_that_fails_gets_the_pod_and_its_device_again_until_there_is_room(world: World) -> None:
    """No node is held for the claim meanwhile; then one volume is made, where pod and device are."""
    await world.add_nodes(2, devices=1)
    await world.add_class()
    await world.add_claim("gpu")
    await add_storage_class(world, "volumes.example.com")
    await provisioning_fails_on(world, "*")
    await add_volume_claim(world)
    await add_pod(world, claim="gpu")
    await world.start_scheduler()
    await wait_failures(world, 2)
    assert await promised(world) == {}
    pod = await world.api.get("pods", "pod", world.namespace)
    assert "nodeName" not in pod["spec"]

    await provisioning_fails_on(world, "")
    pods = await world.wait_bound("pod")
    claim = await world.api.get("persistentvolumeclaims", "data", world.namespace)
    assert await promised(world) == {claim["spec"]["volumeName"]: "data"}
    assert claim["metadata"]["annotations"][SELECTED_NODE] == pods["pod"]["spec"]["nodeName"]
    assert await world.violations() == []


@pytest.mark.parametrize("world", ["embedded"], indirect=True)
async def test_a_node_without_room_for_the_volume_is_left_for_another(world: World) -> None:
    """The scheduler has chosen it once; then it takes no pods, and the claim names no node that binds the choice."""
    first, second = await world.add_nodes(2)
    await world.cordon(second)
    await add_storage_class(world, "volumes.example.com")
    await provisioning_fails_on(world, first)
    await add_volume_claim(world)
    await add_pod(world)
    await world.start_scheduler()
    await wait_failures(world, 1)
    await world.cordon(first)
    await world.cordon(second, False)
    pods = await world.wait_bound("pod")
    assert pods["pod"]["spec"]["nodeName"] == second


async def test_a_claim_without_a_class_gets_the_default_one_unless_it_asks_for_none(world: World) -> None:
    name = await add_storage_class(world)
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    await world.api.merge_patch("storageclasses", name, {"metadata": {"annotations": annotations}})
    for claim, asked in (("default", {}), ("none", {"storageClassName": ""})):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **asked}
        made = await world.create("persistentvolumeclaims", {"metadata": world.meta(claim), "spec": spec})
        assert made["spec"]["storageClassName"] == asked.get("storageClassName", name)


def has_selected_node(claims: dict[str, Object]) -> bool:
    return SELECTED_NODE in (claims["data"]["metadata"].get("annotations") or {})


@on_both(*PROVISIONED_POINTS, real=("selected node", "lost"))
async def test_the_next_one_finishes_a_volume_that_is_provisioned(world: World, point: str, fate: Fate) -> None:
    """On the real control plane, whose provisioner nobody plays, until the next one has selected a node again."""
    await world.add_nodes(2)
    await add_storage_class(world, "volumes.example.com")
    await add_volume_claim(world)
    await add_pod(world)
    fault = await kill_at(world, *PROVISIONED_POINTS[point], fate)

    await world.start_scheduler()
    if world.cluster.kind == "controlplane":
        await world.wait_for("persistentvolumeclaims", has_selected_node, what="a node selected for the claim")
        return
    pods = await world.wait_bound("pod")
    await arrives_late(fault, fate)
    claim = await world.api.get("persistentvolumeclaims", "data", world.namespace)
    assert claim["spec"]["volumeName"] in await promised(world)
    assert claim["metadata"]["annotations"][SELECTED_NODE] == pods["pod"]["spec"]["nodeName"]
