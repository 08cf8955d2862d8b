"""Where the page's answers come from: a cluster that is observed, or objects that were read once.

Rules of this module
  1. An answer is made once for everybody who looks, and again when what it was made of has changed.
  2. Making answers takes at most a fifth of the time: after each the source rests four times as long as it took.
  3. A cluster's pods are explained from all of its objects, read anew: the observer has devices, claims and pods only.

Not here: reading files and listing a cluster (`scheduler.cli`), what answers look like (`pictures`).
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from allocator import Features
from scheduler.config.settings import Config
from scheduler.core.machine import Machine
from scheduler.explain import explain_pod
from scheduler.explain.waiting import Key, ask_all
from scheduler.inventory import DeviceList, Filter, devices_observed
from scheduler.observer import ClusterObserver
from scheduler.offline import Given, OfflineCluster, observed_machine
from scheduler.ui.pictures import Document, device_picture, devices_picture, pending_picture

_REST: Final = 4
_PAUSE_S: Final = 1.0
_KEPT_MAX: Final = 64
"""Answers about single pods and groupings."""

T = TypeVar("T")


class Objects(NamedTuple):
    """All objects of a cluster, as they were read.

    Attributes:
        features: As a scheduler beside the API server has them.
        unlisted: What could not be read, and what answers lack without it.
    """

    given: Sequence[Given]
    features: Features
    unlisted: tuple[str, ...] = ()


class Source(ABC):
    """What the page shows.

    Attributes:
        name: Where it comes from, for people.
        is_live: Whether it can change.
    """

    name: str
    is_live: bool

    def __init__(self, config: Config | None) -> None:
        self._config = config
        self._answers: Final[dict[Hashable, tuple[object, Document]]] = {}
        self._making: Final[dict[Hashable, asyncio.Task[Document]]] = {}
        self._list_of: tuple[int, DeviceList] | None = None

    @property
    @abstractmethod
    def version(self) -> int:
        """Larger after each change."""

    @abstractmethod
    async def changed_since(self, version: int) -> int:
        """Wait until it is another; the version then."""

    @abstractmethod
    def problems(self) -> tuple[str, ...]:
        """What is not seen, and why."""

    @abstractmethod
    async def _look(self, read: Callable[[Machine], T]) -> T:
        """What `read` finds in the machine."""

    @abstractmethod
    async def _objects(self) -> Objects:
        """All objects now."""

    async def devices(self, by: str = "") -> Document:
        """All devices, grouped by an attribute or by node."""
        return await self._kept(("devices", by), partial(self._look, partial(self._devices, by=by)))

    async def device(self, key: tuple[str, str, str]) -> Document:
        """One device by driver, pool and name. Raises KeyError where there is none."""
        found = await self._look(lambda machine: device_picture(machine, self._listed(machine), key))
        if found is None:
            raise KeyError(key)
        return found

    async def pending(self) -> Document:
        """The pods that wait."""
        return await self._kept("pending", self._pending)

    async def pod(self, key: Key) -> Document:
        """Why a pod waits, or where it runs. Raises NotThereError where there is none."""
        return await self._kept(("pod", key), partial(self._pod, key))

    def _listed(self, machine: Machine) -> DeviceList:
        """All devices of this version; the machine does not change meanwhile, and one looks at a time."""
        version, known = self.version, self._list_of
        if known is None or known[0] != version:
            known = self._list_of = version, devices_observed(machine, Filter(), notes=self.problems())
        return known[1]

    def _devices(self, machine: Machine, by: str) -> Document:
        return devices_picture(machine, self._listed(machine), by)

    async def _pending(self) -> Document:
        read = await self._objects()
        ask = partial(ask_all, read.given, now_ms=_now_ms(), features=read.features, config=self._config)
        return {**pending_picture(await asyncio.to_thread(ask)), "unlisted": list(read.unlisted)}

    async def _pod(self, key: Key) -> Document:
        read = await self._objects()
        ask = partial(explain_pod, read.given, key, now_ms=_now_ms(), features=read.features, config=self._config)
        document: Document = (await asyncio.to_thread(ask)).model_dump(mode="json")
        return document

    async def _kept(self, key: Hashable, make: Callable[[], Any]) -> Document:
        """The answer of this version, made once for all who ask for it (rule 1)."""
        version = self.version
        known = self._answers.get(key)
        if known is not None and known[0] == version:
            return known[1]
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.ensure_future(self._make(key, version, make))
            task.add_done_callback(lambda _: self._making.pop(key, None))
        # Whoever goes away must not end the answer of the others.
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, version: int, make: Callable[[], Any]) -> Document:
        document: Document = {**await make(), "version": version, "asOf": _now_ms()}
        if len(self._answers) >= _KEPT_MAX:
            del self._answers[next(iter(self._answers))]
        self._answers.pop(key, None)
        self._answers[key] = version, document
        return document


class FileSource(Source):
    """Objects of files; nothing changes."""

    is_live = False

    def __init__(self, name: str, read: Objects, config: Config | None) -> None:
        super().__init__(config)
        self.name = name
        self._read: Final = read
        cluster = OfflineCluster(_now_ms())
        loaded = cluster.load(read.given)
        self._machine, broken = observed_machine(cluster, read.features)
        self._problems: Final = (*map(str, loaded.problems), *broken, *loaded.notes)

    @property
    def version(self) -> int:
        return 1

    async def changed_since(self, version: int) -> int:
        if version != self.version:
            return self.version
        never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        return await never

    def problems(self) -> tuple[str, ...]:
        return self._problems

    async def _look(self, read: Callable[[Machine], T]) -> T:
        return await asyncio.to_thread(read, self._machine)

    async def _objects(self) -> Objects:
        return self._read


class LiveSource(Source):
    """A cluster that is observed.

    Args:
        read: Lists all of the cluster's objects; called in a thread.
    """

    is_live = True

    def __init__(
        self, name: str, observer: ClusterObserver, read: Callable[[], Objects], config: Config | None
    ) -> None:
        super().__init__(config)
        self.name = name
        self._observer: Final = observer
        self._list: Final = read
        self._listed_at: tuple[int, Objects] | None = None
        self._listing: asyncio.Task[Objects] | None = None
        self._rest_until_s = 0.0

    @property
    def version(self) -> int:
        return self._observer.version

    async def changed_since(self, version: int) -> int:
        """Not before the source has rested (rule 2)."""
        await asyncio.sleep(max(_PAUSE_S, self._rest_until_s - asyncio.get_running_loop().time()))
        return await self._observer.changed_since(version)

    def problems(self) -> tuple[str, ...]:
        return self._observer.problems()

    async def _look(self, read: Callable[[Machine], T]) -> T:
        return await self._observer.look(read)

    async def _make(self, key: Hashable, version: int, make: Callable[[], Any]) -> Document:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            return await super()._make(key, version, make)
        finally:
            self._rest_until_s = max(self._rest_until_s, loop.time() + _REST * (loop.time() - begun_s))

    async def _objects(self) -> Objects:
        """Those of this version; one list for all who wait for it."""
        if self._listed_at is not None and self._listed_at[0] == self.version:
            return self._listed_at[1]
        if self._listing is None:
            self._listing = asyncio.ensure_future(self._read(self.version))
        return await asyncio.shield(self._listing)

    async def _read(self, version: int) -> Objects:
        try:
            found = await asyncio.to_thread(self._list)
        finally:
            self._listing = None
        self._listed_at = version, found
        return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
