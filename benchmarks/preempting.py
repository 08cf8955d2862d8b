"""A backlog whose pods fit only where less important pods go: preemption.

The victims are bound before the contender starts, and end at once when they are deleted, as no kubelet runs. The clock
runs from the first write, which is about a victim, to the last binding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from benchmarks.contenders import Contender, ContenderError
from benchmarks.fleet import LOW, NAMESPACE, Fleet, Object
from benchmarks.loads import (
    BACKLOG_SECONDS,
    CREATING,
    Measured,
    Usage,
    claims_generated,
    create_all,
    pod_name,
    result_of,
    sampled,
)
from benchmarks.watching import BoundPods
from tests.controlplane.cluster import ControlPlane
from tests.integration.api import Api

_BEGIN_SECONDS: Final = 45.0
_QUIET_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Preempting:
    """All pods wait behind their victims; the contender is started; until the last is bound, or nothing happens."""

    label: str = ""

    async def __call__(
        self, cluster: ControlPlane, api: Api, fleet: Fleet, one: Contender, round_number: int
    ) -> Measured:
        await _set_victims(api, fleet)
        wanted = [pod_name(number) for number in range(fleet.size.pods)]
        await create_all(api, (("pods", fleet.pod(name, one.scheduler_name)) for name in wanted))
        if fleet.has_generated_claims:
            await claims_generated(api, len(wanted))
        async with BoundPods(api) as bound:
            await one.start(cluster, api, fleet)
            try:
                began = await bound.wait_begin(seconds=_BEGIN_SECONDS, check=one.check_alive)
            except TimeoutError:
                began = asyncio.get_running_loop().time()  # nobody is preempted, perhaps
            usage = Usage(cluster, one)
            async with sampled(one):
                failure = await _until_bound(api, one, bound, wanted)
                usage.stop()
            times = [bound.at[name] - began for name in wanted if name in bound.at]
            took = max([*times, 1e-9])
            return await result_of(api, fleet, usage, round_number, bound, times, len(wanted), took, failure)


async def _set_victims(api: Api, fleet: Fleet) -> None:
    await create_all(api, (("priorityclasses", item) for item in fleet.priority_classes()))
    waiting = iter(fleet.victims())

    async def maker() -> None:
        for pod, claim, results in waiting:
            if claim is not None:
                await api.create("resourceclaims", claim)
            made = await api.create("pods", pod)
            if claim is not None:
                await _give(api, made, results)

    async with asyncio.TaskGroup() as group:
        for _ in range(CREATING):
            group.create_task(maker())


async def _give(api: Api, pod: Object, results: list[Object]) -> None:
    """Allocate the pod's claim, which has its name, and reserve it."""
    metadata = pod["metadata"]
    on_node = {"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}
    status = {
        "allocation": {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [on_node]}]},
        },
        "reservedFor": [{"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}],
    }
    await api.merge_patch("resourceclaims", metadata["name"], {"status": status}, NAMESPACE, "status")


async def _until_bound(api: Api, one: Contender, bound: BoundPods, wanted: Collection[str]) -> str:
    """Until all are bound, or none was for a while and the others were told that no node fits; what is missing."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + BACKLOG_SECONDS
    before, since_s = -1, loop.time()
    while loop.time() < ends_s:
        one.check_alive()
        done = sum(name in bound.at for name in wanted)
        if done == len(wanted):
            return ""
        if done != before:
            before, since_s = done, loop.time()
        elif loop.time() - since_s > _QUIET_SECONDS:
            pods = await api.list("pods", NAMESPACE)
            left = sum(pod["spec"].get("priorityClassName") == LOW for pod in pods)
            told = sum(bool((pod.get("status") or {}).get("conditions")) for pod in pods)
            if told >= len(pods) - left - done:
                return f"{done} of {len(wanted)} bound; {left} of the less important pods stay, the others wait"
        await asyncio.sleep(_LOOK_SECONDS)
    raise ContenderError(f"{before} of {len(wanted)} bound after {BACKLOG_SECONDS:.0f} s")
