"""A PodGroup's claim on a real control plane with the alpha gates on: made once, reserved once, used by all pods.

The scheduler runs as a process with the shipped manifests' rights; `DRA_TEST_SCHEDULER=kube-scheduler` runs another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import CONTROLLERS, ControlPlane
from tests.integration.api import ApiError
from tests.integration.conftest import RealCluster, real_world, with_manifests
from tests.integration.world import ROOT, SCHEDULER_NAME, UNDER_TEST, World, devices_of
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]
GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True, "TopologyAwareWorkloadScheduling": True}
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A control plane that serves PodGroups, one node with two GPUs, and the scheduler."""
    built_or_skip("controlplane")
    # Without podgroup-protection-controller nothing takes the finalizer off a PodGroup that is deleted.
    controllers = (*CONTROLLERS, "podgroup-protection-controller", "job-controller")
    with ControlPlane(controllers, GATES, runtime_config=["scheduling.k8s.io/v1beta1"]) as plane:
        cluster = with_manifests(plane) if UNDER_TEST == "ours" else RealCluster(plane, ("", ""))
        async with real_world(cluster, tmp_path) as opened:
            await opened.add_namespace()
            await opened.add_nodes(1, devices=2)
            await opened.add_class()
            await opened.add_template("one-gpu")
            await opened.start_scheduler()
            try:
                yield opened
            finally:
                await opened.stop_scheduler(kill=True)


def groups(world: World) -> str:
    return f"/apis/scheduling.k8s.io/v1beta1/namespaces/{world.namespace}/podgroups"


async def add_group(world: World, name: str) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": CLAIMS}
    group: dict[str, Any] = await world.api.request("POST", groups(world), {"metadata": world.meta(name), "spec": spec})
    return group


async def add_member(world: World, name: str, group: str | None) -> None:
    spec: dict[str, Any] = {
        "schedulerName": SCHEDULER_NAME,
        "terminationGracePeriodSeconds": 0,
        "resourceClaims": CLAIMS,
        "containers": [{"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
    }
    if group is not None:
        spec["schedulingGroup"] = {"podGroupName": group}
    await world.api.create("pods", {"metadata": world.meta(name), "spec": spec})


async def test_the_pods_of_a_group_share_one_claim_and_one_reservation(world: World) -> None:
    api, namespace = world.api, world.namespace
    made = await add_group(world, "group")
    for name in ("first", "second", "third"):
        await add_member(world, name, "group")
    await add_member(world, "alone", None)

    def bound(pods: dict[str, Any]) -> bool:
        return len(pods) == 4 and all(pod["spec"].get("nodeName") for pod in pods.values())

    await api.wait_for("pods", bound, namespace, what="all four bound")
    claims = await api.list("resourceclaims", namespace)
    reserved = {claim["metadata"]["ownerReferences"][0]["kind"]: claim["status"]["reservedFor"] for claim in claims}
    assert len(claims) == len(reserved) == 2
    uid = made["metadata"]["uid"]
    of_group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "group", "uid": uid}
    assert reserved["PodGroup"] == [of_group]
    assert [one["name"] for one in reserved["Pod"]] == ["alone"]
    used = [claim["status"]["allocation"]["devices"]["results"][0]["device"] for claim in claims]
    assert sorted(used) == ["gpu-0", "gpu-1"]

    # One pod less frees nothing; the group's end does.
    await api.delete("pods", "second", namespace)
    await add_member(world, "late", None)
    await api.wait_for(
        "pods",
        lambda pods: any(one["status"] == "False" for one in pods["late"].get("status", {}).get("conditions", ())),
        namespace,
        what="no device for the late one",
    )
    for name in ("first", "third"):
        await api.delete("pods", name, namespace)
    await api.request("DELETE", f"{groups(world)}/group")
    await api.wait_for("pods", lambda pods: bool(pods["late"]["spec"].get("nodeName")), namespace, what="late bound")


async def add_gang(world: World, name: str, pods: int, **spec: Any) -> None:
    """A PodGroup that needs so many pods, and as many that want a GPU each."""
    policy = {"schedulingPolicy": {"gang": {"minCount": pods}}}
    group = {"metadata": world.meta(name), "spec": policy | spec}
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await world.api.request("POST", groups(world), group)
                break
            except ApiError as error:  # its admission may not have heard of a new PriorityClass
                if error.status != HTTPStatus.FORBIDDEN:
                    raise
            await asyncio.sleep(0.1)
    for number in range(pods):
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        pod: dict[str, Any] = {
            "schedulerName": SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 0,
            "schedulingGroup": {"podGroupName": name},
            "resourceClaims": claims,
            "containers": [{"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        }
        await world.api.create("pods", {"metadata": world.meta(f"{name}-{number}"), "spec": pod})


async def said_of(world: World, name: str, status: str, text: str = "") -> dict[str, Any]:
    """The condition of a PodGroup, once it has this status, and this text in its message."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            group = await world.api.request("GET", f"{groups(world)}/{name}")
            for one in group.get("status", {}).get("conditions") or ():
                if (one["type"], one["status"]) == ("PodGroupInitiallyScheduled", status) and text in one["message"]:
                    assert one.get("observedGeneration") == group["metadata"].get("generation")
                    found: dict[str, Any] = one
                    return found
            await asyncio.sleep(0.1)


async def test_a_group_says_whether_it_was_placed_and_why_not(world: World) -> None:
    """Two GPUs; what is asserted here is what kube-scheduler 1.37.2 writes, too."""
    await add_gang(world, "fits", 2)
    assert (await said_of(world, "fits", "True"))["reason"] == "Scheduled"
    await add_gang(world, "large", 3)
    condition = await said_of(world, "large", "False")
    assert condition["reason"] == "Unschedulable"
    if UNDER_TEST == "ours":
        assert "0 of the 3 pods of group" in condition["message"]
    await world.api.request(
        "POST",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": "seven"}, "value": 7},
    )
    await add_gang(world, "odd", 1, priorityClassName="seven")
    condition = await said_of(world, "odd", "False")
    assert condition["reason"] == "SchedulerError"
    assert condition["message"] == (
        "all pods in a single pod group should have the same priority as the pod group's priority, got 0 and 7"
    )
    for number in range(2):
        await world.api.delete("pods", f"fits-{number}", world.namespace)
    await world.add_nodes(1, devices=1, first=7)
    assert (await said_of(world, "large", "True"))["reason"] == "Scheduled"
    assert (await said_of(world, "fits", "True"))["reason"] == "Scheduled", "what it says once stays"


def cpu_pod(cpus: int, group: str | None, **spec: Any) -> dict[str, Any]:
    requests = {"requests": {"cpu": str(cpus)}}
    pod: dict[str, Any] = {
        "schedulerName": SCHEDULER_NAME,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "i", "resources": requests}],
    }
    return pod | ({"schedulingGroup": {"podGroupName": group}} if group is not None else {}) | spec


async def add_group_of(world: World, name: str, pods: list[dict[str, Any]], **spec: Any) -> None:
    """A gang of these pods."""
    group = {"schedulingPolicy": {"gang": {"minCount": len(pods)}}} | spec
    await world.api.request("POST", groups(world), {"metadata": world.meta(name), "spec": group})
    for number, pod in enumerate(pods):
        await world.api.create("pods", {"metadata": world.meta(f"{name}-{number}"), "spec": pod})


async def test_a_group_makes_room_and_a_group_that_is_disrupted_together_leaves_together(world: World) -> None:
    """Two nodes of 64 CPUs; what is asserted here is what kube-scheduler 1.37.2 does, too."""
    api, namespace = world.api, world.namespace
    await world.add_nodes(1, first=1)
    for name, value in (("middle", 10), ("high", 20)):
        await api.request(
            "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value}
        )
    for number in range(2):
        await api.create("pods", {"metadata": world.meta(f"low-{number}"), "spec": cpu_pod(40, None)})
    await world.wait_bound("low-0")
    await world.wait_bound("low-1")

    await add_group_of(
        world,
        "team",
        [cpu_pod(40, "team", priorityClassName="middle") for _ in range(2)],
        priorityClassName="middle",
        disruptionMode={"all": {}},
    )
    await world.wait_bound("team-0")
    await world.wait_bound("team-1")
    names = {pod["metadata"]["name"] for pod in await api.list("pods", namespace)}
    assert names == {"team-0", "team-1"}, "both others made room"
    assert (await said_of(world, "team", "True"))["reason"] == "Scheduled"

    await api.create("pods", {"metadata": world.meta("high"), "spec": cpu_pod(40, None, priorityClassName="high")})
    await world.wait_bound("high")
    names = {pod["metadata"]["name"] for pod in await api.list("pods", namespace)}
    assert names == {"high"}, "the group left as a whole"


async def test_a_group_with_a_topology_has_its_devices_on_nodes_with_one_value(world: World) -> None:
    """Racks a and b with two GPUs on two nodes each, of which one of a is taken; as kube-scheduler 1.37.2."""
    api = world.api
    nodes = await world.add_nodes(4, devices=1, first=1)
    for node, rack in zip(nodes, "aabb", strict=True):
        await api.merge_patch("nodes", node, {"metadata": {"labels": {"rack": rack}}})
    await api.delete("nodes", world.node_name(0))  # it has two GPUs, and no rack
    await world.add_pod("taken", template="one-gpu", nodeSelector={"rack": "a"})
    await world.wait_bound("taken")

    constraints = {"topology": [{"key": "rack"}]}
    await add_gang(world, "pair", 2, schedulingConstraints=constraints)
    pods = await world.wait_bound("pair-0", "pair-1")
    assert {pods[name]["spec"]["nodeName"] for name in ("pair-0", "pair-1")} == set(nodes[2:])
    assert (await said_of(world, "pair", "True"))["reason"] == "Scheduled"

    await api.delete("pods", "pair-0", world.namespace)
    await add_gang(world, "other", 2, schedulingConstraints=constraints)
    # Tried before the claim of pair-0 is gone, it finds none in rack b.
    condition = await said_of(world, "other", "False", "; b: 1 of 2" if UNDER_TEST == "ours" else "")
    assert condition["reason"] == "Unschedulable", "one free GPU in each rack"
    if UNDER_TEST == "ours":
        assert "must be on nodes with one value of label rack: a: 1 of 2" in condition["message"]


async def test_the_workers_of_the_example_run_together_or_not_at_all(world: World) -> None:
    """docs/examples/nvidia/podgroup.yaml: a Job whose pods name their PodGroup, two GPUs of one PCIe root each."""
    example = ROOT / "docs/examples/nvidia/podgroup.yaml"
    await world.apply(example.with_name("podgroup-cluster.yaml"))
    slices = [await world.api.get("resourceslices", f"h100-{number}-gpus") for number in range(2)]
    roots = {
        (one["spec"]["pool"]["name"], device["name"]): device["attributes"]["resource.kubernetes.io/pcieRoot"]["string"]
        for one in slices
        for device in one["spec"]["devices"]
    }
    one_less = {"spec": {"devices": slices[1]["spec"]["devices"][:3]}}
    await world.api.merge_patch("resourceslices", "h100-1-gpus", one_less)
    group, *others = yaml.safe_load_all(example.read_text(encoding="utf-8"))
    await world.api.request("POST", groups(world), group)
    await world.apply(yaml.safe_dump_all(others), one_by_one=False)
    assert (await said_of(world, "train", "False"))["reason"] == "Unschedulable"
    pods = await world.wait_for("pods", lambda pods: len(pods) == 4, what="the Job's pods")
    assert {pod["spec"].get("nodeName") for pod in pods.values()} == {None}

    await world.api.merge_patch("resourceslices", "h100-1-gpus", {"spec": {"devices": slices[1]["spec"]["devices"]}})
    assert (await said_of(world, "train", "True"))["reason"] == "Scheduled"
    claims = [devices_of(one) for one in await world.api.list("resourceclaims", world.namespace)]
    assert Counter(device for devices in claims for device in devices) == dict.fromkeys(roots, 1)
    assert [len({(device[0], roots[device]) for device in devices}) for devices in claims] == [1] * 4
