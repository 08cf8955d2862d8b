"""The small controllers inside the API server's process: who they are, and the loop that runs them.

They stand in for what a cluster has besides its scheduler: kubelets, the workload controllers, the garbage
collector, the namespace controller. They call `rest` directly, so they cost no HTTP and never conflict.

Rules of this module
  1. Level-triggered: a reactor learns which object to look at, never what happened to it. Looking twice is harmless.
  2. `look` is synchronous and makes a bounded number of writes; between two looks the event loop gets a turn.
  3. A refusal of the API is logged and forgotten, with one retry when the object changes again.

Not here: the claim controllers (`claim_controllers`), which are clients like any other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from scheduler.embedded.server.object_store import Change
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.statuses import ApiError

_LOG: Final = logging.getLogger(__name__)
_LOOKS_PER_TURN: Final = 20
"""Looks between two turns of the event loop: about 2 ms."""


class ObjectKey(NamedTuple):
    """What to look at."""

    kind_id: str
    namespace: str
    name: str


class Reactor(Protocol):
    """One controller."""

    def notice(self, kind_id: str, change: Change) -> Iterable[ObjectKey]:
        """The objects to look at because of a change. Called inside the write: must not write, must be quick."""

    def look(self, key: ObjectKey) -> None:
        """Bring the world closer to what the object at `key` wants; it may be gone."""


class Reactors:
    """Runs reactors on a store's changes, from `start` to `close`."""

    def __init__(self, api: Api, reactors: Iterable[Reactor]) -> None:
        self._reactors: Final = tuple(reactors)
        self._due: OrderedDict[tuple[Reactor, ObjectKey], None] = OrderedDict()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        api.store.listen(self._notice)
        for kind_id, stored in api.store:
            for reactor in self._reactors:
                self._due[reactor, ObjectKey(kind_id, stored.namespace, stored.name)] = None
        self._wake.set()

    def _notice(self, kind_id: str, change: Change) -> None:
        for reactor in self._reactors:
            for key in reactor.notice(kind_id, change):
                self._due[reactor, key] = None
        if self._due:
            self._wake.set()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="embedded-reactors")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                for _ in range(min(len(self._due), _LOOKS_PER_TURN)):
                    (reactor, key), _ = self._due.popitem(last=False)
                    self._look(reactor, key)
                await asyncio.sleep(0)

    def _look(self, reactor: Reactor, key: ObjectKey) -> None:
        try:
            reactor.look(key)
        except ApiError as error:
            _LOG.debug("%s at %s: %d %s", type(reactor).__name__, key, error.code, error.message)
        except Exception:  # one broken object must not stop the others
            _LOG.exception("%s at %s failed", type(reactor).__name__, key)
