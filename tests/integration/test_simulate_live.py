"""What `simulate` says of a dump is what the live scheduler then does with the same 200 pods."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli.main import cli
from tests.integration.api import Object
from tests.integration.test_dump import kubeconfig_of
from tests.integration.world import UNDER_TEST, World, condition_of

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="a command of ours")

PODS = 200
NODES = 20
SHAPES = (
    # name, share, requests of the template
    ("one", 0.5, [{"count": 1}]),
    ("two", 0.2, [{"count": 2}]),
    ("picky", 0.1, [{"count": 1, "selectors": True}]),
    ("both", 0.1, [{"count": 1}, {"count": 1}]),
    ("never", 0.1, [{"count": 9}]),
)


async def test_what_is_simulated_is_what_the_live_scheduler_does(world: World, tmp_path: Path) -> None:
    await _set_scene(world)
    kubeconfig = kubeconfig_of(world)
    path = tmp_path / "cluster.yaml"
    dumped = yaml.safe_load_all((await _run("dump", "--kubeconfig", kubeconfig))[1])
    # Pods of other namespaces (the scheduler's own, of the manifests) name a scheduler that does not run here.
    mine = [one for one in dumped if one["kind"] != "Pod" or one["metadata"]["namespace"] == world.namespace]
    path.write_text(yaml.safe_dump_all(mine))
    code, text = await _run("simulate", "-f", str(path), "-o", "json")
    simulated = {pod["name"]: pod for pod in json.loads(text)["pods"]}
    assert code == 1
    assert len(simulated) == PODS

    await world.start_scheduler()
    bound = {name for name, pod in simulated.items() if pod["node"]}
    assert 100 < len(bound) < PODS
    refused = set(simulated) - bound

    def settled(pods: dict[str, Object]) -> bool:
        done = [pod["spec"].get("nodeName") or condition_of(pod) for pod in pods.values()]
        return len(done) == PODS and all(done)

    pods = await world.wait_for("pods", settled, what="all pods bound or refused")
    assert {name for name, pod in pods.items() if not pod["spec"].get("nodeName")} == refused
    claims = {one["metadata"]["name"]: one for one in await world.api.list("resourceclaims", world.namespace)}
    live = {name: (pod["spec"].get("nodeName"), _devices(pod, claims)) for name, pod in pods.items() if name in bound}
    expected = {name: (simulated[name]["node"], _given(simulated[name])) for name in bound}
    assert live == expected
    for name in refused:
        condition = condition_of(pods[name])
        assert condition is not None
        assert condition["reason"] == "Unschedulable"
    assert await world.violations() == []


async def _set_scene(world: World) -> None:
    """Nodes, classes, templates and pods, and the claims that the pods' controller makes; no scheduler.

    No two pods share a claim: the second one waits until the first has stored the allocation, and others pass it.
    """
    await world.add_nodes(NODES, devices=8)
    await world.add_class()
    for name, _, requests in SHAPES:
        made = []
        for number, one in enumerate(requests):
            more: dict[str, Any] = {}
            if one.get("selectors"):
                expression = f"device.attributes['{world.driver}'].index == 3"
                more["selectors"] = [{"cel": {"expression": expression}}]
            made.append(world.request(f"gpu-{number}", count=int(one["count"]), **more))
        await world.add_template(name, *made)
    draw = random.Random(7)
    kinds = [name for name, share, _ in SHAPES for _ in range(int(share * PODS))]
    draw.shuffle(kinds)
    # Neither the order of names nor that of creation is the order of the other.
    numbers = draw.sample(range(1000), PODS)
    for kind, number in zip(kinds, numbers, strict=True):
        await world.add_pod(f"p{number:03}-{kind}", template=kind)

    def made_all(pods: dict[str, Object]) -> bool:
        return all(
            one.get("resourceClaimName") or (pod.get("status") or {}).get("resourceClaimStatuses")
            for pod in pods.values()
            for one in pod["spec"]["resourceClaims"]
        )

    await world.wait_for("pods", made_all, what="claims of all pods")


def _devices(pod: Object, claims: dict[str, Object]) -> list[tuple[str, str]]:
    """Request and device of each device that the pod's claim has, in the claim's order."""
    (reference,) = pod["spec"]["resourceClaims"]
    name = reference.get("resourceClaimName") or pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    allocation = claims[name]["status"]["allocation"]
    return [(one["request"], f"{one['pool']}/{one['device']}") for one in allocation["devices"]["results"]]


def _given(pod: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["request"], f"{one['pool']}/{one['device']}") for one in pod["devices"]]


async def _run(*arguments: str) -> tuple[int, str]:
    result = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
    return result.exit_code, result.stdout
