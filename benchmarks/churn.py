"""What comes and goes beside the measured pods, as scheduler_perf's `churn`: at a fixed pace, whoever schedules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from benchmarks.fleet import NAMESPACE, Object
from tests.integration.api import Api

PRIORITY: Final = "churn"
KINDS: Final[dict[str, float]] = {"unschedulable": 0.2, "mixed": 1.0}
"""Seconds between two: pods that no node is large enough for, which stay; such a pod, a node and a service, made anew
each time."""


@asynccontextmanager
async def churning(api: Api, kind: str, scheduler_name: str) -> AsyncIterator[None]:
    """While it lasts, objects of this kind come; "": none do."""
    if not kind:
        yield
        return
    await api.create("priorityclasses", {"metadata": {"name": PRIORITY}, "value": 10})
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_churn(api, kind, scheduler_name))
        try:
            yield
        finally:
            task.cancel()


async def _churn(api: Api, kind: str, scheduler_name: str) -> None:
    number = 0
    while True:
        name = f"churn-{number:05}"
        made = [("pods", _large_pod(name, scheduler_name))]
        if kind == "mixed":
            made += [("nodes", _node(name)), ("services", _service(name))]
        for resource, item in made:
            await api.create(resource, item)
        await asyncio.sleep(KINDS[kind])
        if kind == "mixed":
            for resource, item in made:
                await api.delete(resource, name, item["metadata"].get("namespace"))
        number += 1


def gated_pod(name: str, scheduler_name: str) -> Object:
    """A pod that nobody may schedule yet."""
    spec = {
        "schedulerName": scheduler_name,
        "schedulingGates": [{"name": "example.com/hold"}],
        "containers": [{"name": "main", "image": "registry.example.com/work:1"}],
    }
    return {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec}


def _large_pod(name: str, scheduler_name: str) -> Object:
    container = {"name": "main", "image": "registry.example.com/work:1", "resources": {"requests": {"cpu": "9"}}}
    spec = {"schedulerName": scheduler_name, "priorityClassName": PRIORITY, "containers": [container]}
    return {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec}


def _node(name: str) -> Object:
    status = {"capacity": {"pods": "0"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name}, "status": status}


def _service(name: str) -> Object:
    spec = {"selector": {"app": "foo"}, "ports": [{"protocol": "TCP", "port": 8080, "targetPort": 8080}]}
    return {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec}
