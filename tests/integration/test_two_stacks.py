"""A device plugin and a DRA driver for the same devices of a node: pods of both kinds, the scheduler killed meanwhile.

What is counted is read from the API server, and not from the scheduler.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from tests.integration.api import Object
from tests.integration.test_extended_resources import add_class, add_pod, explicit_name
from tests.integration.world import PATIENT, UNDER_TEST, World, condition_of, devices_of, gpu, node

DEVICES = 4
PODS = 5

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler gives each device to both")


async def start(world: World, mode: str) -> Path:
    path = world.configuration(**PATIENT)
    written = {**yaml.safe_load(path.read_text()), "twoStacks": mode}
    mine = path.with_name("two-stacks.yaml")
    mine.write_text(yaml.safe_dump(written))
    await world.start_scheduler(f"--config={mine}")
    return mine


async def counted(world: World) -> tuple[int, int]:
    """What bound pods have of the plugin, and how many devices claims have."""
    resource, state = explicit_name(world), await world.state()
    bound = [pod for pod in state.pods if pod["spec"].get("nodeName")]
    of_plugin = [
        pod
        for pod in bound
        if resource in (pod["spec"]["containers"][0].get("resources", {}).get("requests") or {})
        and not pod["status"].get("extendedResourceClaimStatus")
    ]
    allocated = [claim for claim in state.claims if (claim.get("status") or {}).get("allocation")]
    return len(of_plugin), len({device for claim in allocated for device in devices_of(claim)})


@pytest.mark.parametrize(("mode", "seed"), [("leave", 1), ("leave", 2), ("refuse", 3)])
async def test_never_more_pods_than_devices(world: World, mode: str, seed: int) -> None:
    """Of each kind more pods than there are devices; some go, and the scheduler is killed when it likes least."""
    rnd = random.Random(seed)
    both = node(world.node_name(0))
    both["status"]["allocatable"][explicit_name(world)] = str(DEVICES)
    await world.create("nodes", both)
    await world.publish(world.node_name(0), [gpu(index) for index in range(DEVICES)])
    await add_class(world)
    await world.add_template()
    await start(world, mode)
    kinds = ["claim", "plugin"] * PODS
    rnd.shuffle(kinds)
    for number, kind in enumerate(kinds):
        name = f"{kind}-{number}"
        if kind == "claim":
            await world.add_pod(name, template="one-gpu")
        else:
            await add_pod(world, name, explicit_name(world))
        if rnd.random() < 0.3:
            await world.stop_scheduler(kill=True)
            await start(world, mode)
        elif rnd.random() < 0.5:
            await world.wait_decided(name)
        if rnd.random() < 0.2:
            await world.api.delete("pods", name, world.namespace)
        assert sum(await counted(world)) <= DEVICES

    def is_decided(pods: dict[str, Object]) -> bool:
        bound = [pod for pod in pods.values() if pod["spec"].get("nodeName")]
        waiting = [pod for pod in pods.values() if pod not in bound]
        return len(bound) >= DEVICES * (mode == "leave") and all(map(condition_of, waiting))

    pods = await world.wait_for("pods", is_decided, what="all pods bound or refused")
    of_plugin, of_claims = await counted(world)
    assert of_plugin + of_claims <= DEVICES
    if mode == "refuse":
        assert of_claims == 0
    said = " ".join(condition_of(pod)["message"] for pod in pods.values() if condition_of(pod))
    assert "[two-stacks]" in said
    assert await world.violations() == []
