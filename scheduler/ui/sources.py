"""Where the page's answers come from: a cluster that is observed, or objects that were read once.

Rules of this module
  1. An answer is made once for everybody who looks, and again when what it was made of has changed.
  2. A page that follows events takes at most a fifth of the time: after an answer no change is told for four times as
     long as it took. Whoever asks without waiting for one, as by loading the page anew, is answered at once.
  3. A cluster's pods are explained from all of its objects, read anew: the observer has devices, claims and pods only.

Not here: reading files and listing a cluster (`scheduler.cli`), what answers look like (`pictures`).
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

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


class _Shared(Generic[T]):
    """A value that is made once for all who ask, and again for whoever asks for a newer version."""

    def __init__(self) -> None:
        self._made: tuple[int, T] | None = None
        self._making: asyncio.Task[None] | None = None

    async def of(self, version: int, make: Callable[[], Awaitable[T]]) -> T:
        while (made := self._made) is None or made[0] < version:
            if self._making is None:
                self._making = asyncio.ensure_future(self._make(version, make))
            # Whoever goes away must not end it for the others. One that was begun for an older version is made anew.
            await asyncio.shield(self._making)
        return made[1]

    async def _make(self, version: int, make: Callable[[], Awaitable[T]]) -> None:
        try:
            self._made = version, await make()
        finally:
            self._making = None


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
        self._answers: Final[dict[Hashable, _Shared[Document]]] = {}
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

    async def _kept(self, key: Hashable, make: Callable[[], Awaitable[Document]]) -> Document:
        """The answer of this version (rule 1)."""
        shared = self._answers.get(key)
        if shared is None:
            if len(self._answers) >= _KEPT_MAX:
                del self._answers[next(iter(self._answers))]
            shared = self._answers[key] = _Shared()
        version = self.version
        return await shared.of(version, partial(self._make, version, make))

    async def _make(self, version: int, make: Callable[[], Awaitable[Document]]) -> Document:
        return {**await make(), "version": version, "asOf": _now_ms()}


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
        self._all: Final[_Shared[Objects]] = _Shared()
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

    async def _make(self, version: int, make: Callable[[], Awaitable[Document]]) -> Document:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            return await super()._make(version, make)
        finally:
            self._rest_until_s = max(self._rest_until_s, loop.time() + _REST * (loop.time() - begun_s))

    async def _objects(self) -> Objects:
        return await self._all.of(self.version, partial(asyncio.to_thread, self._list))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
