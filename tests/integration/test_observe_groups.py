"""`observe` about PodGroups of kube-scheduler, the only scheduler of a real control plane whose gates for them are on.

Of kube-scheduler the condition of the group is asserted, and what it says of the one pod that has no place; of ours,
that each pod of the group has the same cause, which names that pod and the object that keeps it out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import CONTROLLERS, ControlPlane
from tests.integration.api import Object
from tests.integration.conftest import RealCluster, real_world
from tests.integration.test_observe import ACCOUNT, answers, apply_overlay, kubeconfig, of_model, wants
from tests.integration.test_pod_groups import GATES, groups, said_of
from tests.integration.world import UNDER_TEST, World, gpu, node
from tests.ui.page_process import page_process

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(600),
    pytest.mark.skipif(UNDER_TEST != "ours", reason="this is about our command"),
]
MANY: Final = 140
"""More pods than our own scheduler places together."""
SMALL: Final = {"requests": {"cpu": "10m"}}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A control plane that serves PodGroups, with overlays/observe, and kube-scheduler under its own name."""
    built_or_skip("controlplane")
    controllers = (*CONTROLLERS, "podgroup-protection-controller")
    with ControlPlane(controllers, GATES, runtime_config=["scheduling.k8s.io/v1beta1"]) as plane:
        apply_overlay(plane)
        plane.start_kube_scheduler("default-scheduler")
        async with real_world(RealCluster(plane, ACCOUNT), tmp_path) as opened:
            await opened.add_namespace()
            yield opened


class Planted(NamedTuple):
    """A group that waits.

    Attributes:
        names: Its pods.
        reason: Of its condition, "" where kube-scheduler says nothing of it.
        unfit: The pod without a place.
        says: What kube-scheduler says of that one.
        kind, about: Of the cause that `observe` names.
    """

    names: list[str]
    reason: str
    unfit: str
    says: str
    kind: str
    about: str


async def add_group(world: World, name: str, pods: list[Object], least: int = 0, **spec: Any) -> list[str]:
    """A gang of these pods, of which `least` are needed, or all; their names."""
    policy = {"schedulingPolicy": {"gang": {"minCount": least or len(pods)}}}
    await world.api.request("POST", groups(world), {"metadata": world.meta(name), "spec": policy | spec})
    for number, pod in enumerate(pods):
        pod["metadata"] = world.meta(f"{name}-{number}")
        pod["spec"] |= {"schedulerName": "default-scheduler", "schedulingGroup": {"podGroupName": name}}
        await world.create("pods", pod)
    return [pod["metadata"]["name"] for pod in pods]


async def with_claim(world: World, name: str, request: Object) -> Object:
    await world.add_claim(name, request)
    return world.pod(name, claim=name)


def small(world: World, **spec: Any) -> Object:
    pod = world.pod("", **spec)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
    return pod


async def plant(world: World) -> dict[str, Planted]:
    """Three nodes with a device each, in two racks; a group that fits, and others that wait, each for one reason."""
    for number, rack in enumerate("aab"):
        name = world.node_name(number)
        await world.create("nodes", node(name, labels={"rack": rack}))
        await world.publish(name, [gpu(0, model={"string": "FREE"})])
    await world.add_class()
    await world.wait_bound(*await add_group(world, "fits", [small(world) for _ in range(MANY)]))

    free, nobody = of_model(world, "FREE"), of_model(world, "NOBODY")
    fails = wants(world, "device.attributes['DRIVER'].driverVersion == '1.0.0'")
    racks = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    pods = {
        "selector": [small(world), await with_claim(world, "nobody", nobody)],
        "many": [*(small(world) for _ in range(MANY - 1)), small(world, nodeSelector={"zone": "nowhere"})],
        "first": [await with_claim(world, "first", fails), small(world)],
        "last": [small(world), await with_claim(world, "last", fails)],
        "rack": [await with_claim(world, f"rack-{one}", free) for one in range(3)],
        "large": [await with_claim(world, f"large-{one}", free) for one in range(4)],
    }
    names = {name: await add_group(world, name, of, **(racks if name == "rack" else {})) for name, of in pods.items()}
    names["few"] = await add_group(world, "few", [small(world), small(world)], 3)
    no_device, no_node = "cannot allocate all claims", "didn't match Pod's node affinity/selector"
    last_of_many, version = f"many-{MANY - 1}", "driverVersion is a version"
    return {
        name: Planted(names[name], *planted)
        for name, planted in {
            "selector": ("Unschedulable", "selector-1", no_device, "group-unmet", "NOBODY"),
            "many": ("Unschedulable", last_of_many, no_node, "group-unmet", "zone=nowhere"),
            "first": ("SchedulerError", "first-0", "CEL runtime error", "group-unmet", version),
            "last": ("SchedulerError", "last-1", "CEL runtime error", "group-unmet", version),
            "rack": (
                "Unschedulable",
                "",
                no_device,
                "group-unmet",
                "one value of rack.*planned for the others",
            ),
            "large": ("Unschedulable", "large-3", no_device, "group-unmet", "3 of 4 fit.*planned for the others"),
            "few": ("", "", "", "group-incomplete", "2 of the 3 pods"),
        }.items()
    }


def said(pod: Object) -> str:
    """Why it is not scheduled, "" where nobody says so."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next(
        (str(one["message"]) for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), ""
    )


async def test_each_pod_of_a_group_has_the_cause_of_the_one_that_kube_scheduler_finds_no_place_for(
    world: World, tmp_path: Path
) -> None:
    planted = await plant(world)
    told = {name: one for name, one in planted.items() if one.reason}
    for name, one in told.items():
        assert (await said_of(world, name, "False"))["reason"] == one.reason

    def are_told(pods: dict[str, Object]) -> bool:
        return all(said(pods[pod]) for one in told.values() for pod in one.names)

    pods = await world.wait_for("pods", are_told, what="kube-scheduler says something of each pod")
    for one in told.values():
        says = {pod: said(pods[pod]) for pod in one.names}
        assert [pod for pod in one.names if one.says in says[pod] and one.unfit in ("", pod)], says
    assert [pod for pod in planted["few"].names if said(pods[pod])] == []

    count = sum(len(one.names) for one in planted.values())
    async with page_process(tmp_path, kubeconfig(world.cluster), "--port=0", "--no-health", command="observe") as url:
        found = await answers(url, count)
    causes: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for pod, row in found.items():
        causes[pod.rpartition("-")[0]].add((row["kind"], row["cause"]))
    assert causes.keys() == planted.keys(), "all others fit"
    for name, one in planted.items():
        ((kind, cause),) = causes[name]
        assert kind == one.kind, cause
        assert re.search(f"{one.unfit}.*{world.namespace}/{name}.*{one.about}", cause), cause
