"""What the scenarios of preemption share: priorities, budgets, pods that end when the test says so.

On both clusters a pod with a grace period goes on until `end` plays its kubelet; `world.pod` gives none, so that a
victim is gone at once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.integration.api import Object
from tests.integration.world import World, condition_of

# Seconds; long enough for every test.
LINGERS: Final = 600
PRIORITIES: Final = {"lowest": 1, "low": 10, "middle": 50, "high": 100, "highest": 1000}


async def add_priorities(world: World) -> None:
    for name, value in PRIORITIES.items():
        await world.create("priorityclasses", {"metadata": {"name": f"{world.tag}-{name}"}, "value": value})


async def add_pod(
    world: World, name: str, priority: str = "", *, cpu: str = "", lingers: bool = False, **more: Any
) -> Object:
    """A pod of a priority of this test, with a request for cpu.

    Args:
        lingers: Deleted, it terminates until the test ends it.
    """
    labels, finalizers, on = (more.pop(one, None) for one in ("labels", "finalizers", "on"))
    body = world.pod(name, **more)
    body["metadata"] |= {"labels": {"app": name.rpartition("-")[0], **(labels or {})}}
    if finalizers:
        body["metadata"]["finalizers"] = finalizers
    spec = body["spec"]
    if priority:
        spec["priorityClassName"] = f"{world.tag}-{priority}"
    if cpu:
        spec["containers"][0].setdefault("resources", {})["requests"] = {"cpu": cpu}
    if lingers:
        spec["terminationGracePeriodSeconds"] = LINGERS
    if on:
        spec["nodeName"] = on
    return await world.create("pods", body)


async def end(world: World, *names: str) -> None:
    """The containers of these pods have ended: what their kubelet says then."""
    for name in names:
        await world.api.delete("pods", name, world.namespace)


async def wait_terminating(world: World, *names: str) -> None:
    def terminating(pods: dict[str, Object]) -> bool:
        return all(is_terminating(pods[name]) for name in names)

    await world.wait_for("pods", terminating, what=f"{names} terminating")


async def end_until_bound(world: World, name: str) -> Object:
    """Play the kubelets: end every pod that terminates, until the pod of that name is bound; returns that pod."""
    while True:

        def is_next(pods: dict[str, Object]) -> bool:
            return bool(pods[name]["spec"].get("nodeName")) or any(map(is_terminating, pods.values()))

        pods = await world.wait_for("pods", is_next, what=f"{name} bound, or pods that terminate")
        if pods[name]["spec"].get("nodeName"):
            return pods[name]
        await end(world, *(one for one, pod in pods.items() if is_terminating(pod)))


def is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


@asynccontextmanager
async def replaced(world: World, *names: str, priority: str, **more: Any) -> AsyncIterator[list[str]]:
    """A controller of these pods that replaces at once what goes; yields the names of its pods."""
    there = list(names)

    def is_owed(pods: dict[str, Object]) -> bool:
        return any(name not in pods or is_terminating(pods[name]) for name in there)

    async def control() -> None:
        for number in itertools.count():
            pods = await world.api.wait_for("pods", is_owed, world.namespace, seconds=3600)
            there.remove(next(name for name in there if name not in pods or is_terminating(pods[name])))
            await add_pod(world, f"again-{number}", priority, **more)
            there.append(f"again-{number}")

    controlling = asyncio.create_task(control())
    try:
        yield there
        assert not controlling.done(), controlling
    finally:
        controlling.cancel()
        await asyncio.wait([controlling])


async def wait_gone(world: World, *names: str) -> None:
    await world.wait_for("pods", lambda pods: not pods.keys() & set(names), what=f"{names} gone")


async def wait_nominated(world: World, name: str, node: str) -> Object:
    def nominated(pods: dict[str, Object]) -> bool:
        return pods[name]["status"].get("nominatedNodeName") == node

    return (await world.wait_for("pods", nominated, what=f"{name} nominated for {node}"))[name]


async def wait_preempted(world: World, *victims: str) -> dict[str, Object]:
    """Until each of them has its event; the events by victim."""

    def of_victims(events: dict[str, Object]) -> dict[str, Object]:
        return {one["regarding"]["name"]: one for one in events.values() if one["reason"] == "Preempted"}

    events = await world.wait_for(
        "events", lambda events: of_victims(events).keys() >= set(victims), what=f"events of {victims}"
    )
    return of_victims(events)


async def protect(world: World, name: str, allowed: int, **spec: Any) -> None:
    """A PodDisruptionBudget for the pods of that app, once it allows as many disruptions."""
    body = {"metadata": world.meta(name), "spec": {"selector": {"matchLabels": {"app": name}}, **spec}}
    await world.create("poddisruptionbudgets", body)

    def counted(budgets: dict[str, Object]) -> bool:
        status = budgets[name]["status"]
        return status.get("observedGeneration") == 1 and status.get("disruptionsAllowed") == allowed

    await world.wait_for("poddisruptionbudgets", counted, what=f"budget {name} allowing {allowed}")


async def make_ready(world: World, *names: str) -> None:
    """On the real cluster no kubelet says that they are."""
    if world.cluster.kind == "controlplane":
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        for name in names:
            path = f"/api/v1/namespaces/{world.namespace}/pods/{name}/status"
            await world.api.request("PATCH", path, ready, content_type="application/strategic-merge-patch+json")


async def disruption_of(world: World, name: str) -> Object | None:
    """The pod's condition DisruptionTarget."""
    pod = await world.api.get("pods", name, world.namespace)
    found = (one for one in pod["status"].get("conditions") or () if one["type"] == "DisruptionTarget")
    return next(found, None)


async def refusal_of(world: World, name: str) -> str:
    """Why the pod waits, by its condition."""
    condition = condition_of(await world.api.get("pods", name, world.namespace))
    return condition["message"] if condition is not None else ""
