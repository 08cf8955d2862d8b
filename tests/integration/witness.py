"""A witness of a test: every pod of its namespace that there was, as it was last seen.

A pod that is gone cannot be asked who it was. Who watches from the start can say whom the scheduler has removed, and
for whom, when the events name only uids.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.integration.api import Object
from tests.integration.invariants import Violation, check_preemptions, preemptor_uid
from tests.integration.world import World


@dataclass(slots=True)
class Witness:
    """What was seen.

    Attributes:
        pods: By uid, also those that are gone.
    """

    world: World
    pods: dict[str, Object] = field(default_factory=dict)

    def saw(self, pods: dict[str, Object]) -> bool:
        self.pods |= {pod["metadata"]["uid"]: pod for pod in pods.values()}
        return False

    async def gone(self) -> set[str]:
        """Names of the pods that were there, and are not any more or only until they have ended."""
        there = {
            pod["metadata"]["uid"]
            for pod in await self.world.api.list("pods", self.world.namespace)
            if "deletionTimestamp" not in pod["metadata"]
        }
        return {pod["metadata"]["name"] for uid, pod in self.pods.items() if uid not in there}

    async def preemptions(self) -> set[tuple[str, str]]:
        """Names of victim and preemptor, by the events."""
        names = {uid: pod["metadata"]["name"] for uid, pod in self.pods.items()}
        events = await self.world.api.list("events", self.world.namespace)
        return {(one["regarding"]["name"], names[preemptor_uid(one)]) for one in events if one["reason"] == "Preempted"}

    async def violations(self) -> list[Violation]:
        """What is wrong now, and who should not have been removed."""
        events = await self.world.api.list("events", self.world.namespace)
        return [*await self.world.violations(), *check_preemptions(self.pods, events)]


@asynccontextmanager
async def witnessed(world: World) -> AsyncIterator[Witness]:
    """A witness of everything from now on; at the end nobody must have been wronged."""
    witness = Witness(world)
    watching = asyncio.create_task(world.api.wait_for("pods", witness.saw, world.namespace, seconds=3600))
    try:
        yield witness
        assert await witness.violations() == []
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
