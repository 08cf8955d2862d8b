"""Where the page's answers come from: a cluster that is observed, or objects that were read once.

Rules of this module
  1. An answer is made once for everybody who looks. A client without an answer gets the cached one at once, then polls
     for a newer version (stale-while-revalidate).
  2. A page that follows events takes at most a tenth of the time: after an answer none is announced for nine times as
     long as it took.
  3. A cluster's pods are explained from all of its objects, read anew: the observer has devices, claims and pods only.
  4. Machines are played few at a time, and what one plays with is read when it has its turn. Whoever waited with
     objects would keep a copy of the cluster.

Not here: reading files and listing a cluster (`scheduler.cli`), what answers look like (`responses`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, structs, to_builtins

from allocator import Features
from scheduler.answering import in_thread, played
from scheduler.config.settings import Config
from scheduler.core.machine import Machine
from scheduler.explain import Explanation, explain_pod
from scheduler.explain.waiting import AllWaiting, Key, ask_all, waiting_in
from scheduler.inventory import DeviceList, Filter, devices_observed
from scheduler.observer import ClusterObserver
from scheduler.offline import OfflineCluster, SourceObject, observed_machine
from scheduler.offline.offline_cluster import created_at
from scheduler.offline.utilization import utilization
from scheduler.ui.answers import Answered, Overview, PodAnswer
from scheduler.ui.first_looks import FirstLooks
from scheduler.ui.overview import overview_picture
from scheduler.ui.pod_timeline import events_in, history_of, pod_in
from scheduler.ui.responses import Document, Shape, count_running, device_picture, devices_picture, pending_picture

_REST: Final = 9
_PAUSE_S: Final = 1.0
_KEPT_MAX: Final = 16
"""Answers, of all views and groupings; one about 40,000 devices takes 4 MB."""

PLAYED_MAX: Final = 2
"""Machines at a time, of all questions: each is a copy of the cluster. Two so that one long question stops no other."""
STEPS_MAX: Final = 1_000_000
"""For looking at all nodes in one question, some 6 s; a pod with eight costly selectors on 50 nodes took 50."""
TURNS_MAX: Final = 300
"""Of the scheduler, for a look at the pods that wait, or for a question what if; 20 that backtrack took 800."""

T = TypeVar("T")


class Objects(NamedTuple):
    """All objects of a cluster, as they were read.

    Attributes:
        features: As a scheduler beside the API server has them.
        unlisted: What could not be read, and what answers lack without it.
    """

    given: Sequence[SourceObject]
    features: Features
    unlisted: tuple[str, ...] = ()


class UnreadableError(Exception):
    """The cluster cannot be read now; the text says why."""


class Events(NamedTuple):
    """Events, and why there are none."""

    found: Sequence[Mapping[str, Any]]
    unlisted: tuple[str, ...] = ()


_Make: TypeAlias = Callable[[], Awaitable[Document]]


class _Shared(Generic[T]):
    """A value that is made once for all who ask, and again for whoever asks for a newer version.

    Who goes away ends nothing for the others; when the last one does, the making is ended.
    """

    def __init__(self) -> None:
        self._made: tuple[int, T] | None = None
        self._making: asyncio.Task[None] | None = None
        self._waiting = 0

    async def of(self, wanted: int, version: Callable[[], int], make: Callable[[int], Awaitable[T]]) -> T:
        """The value of this version, or of a newer one.

        Args:
            wanted: No newer than what `version` says.
            version: Of what it would be made of now.
            make: Makes it for that version.
        """
        while (made := self._made) is None or made[0] < wanted:
            making = self._making = self._making or asyncio.ensure_future(self._make(version(), make))
            self._waiting += 1
            try:
                await asyncio.wait([making])
            finally:
                self._waiting -= 1
                if not self._waiting:
                    making.cancel()
            # One that was begun for an older version, or was ended because nobody waited, is made anew.
            if not making.cancelled():
                making.result()
        return made[1]

    async def _make(self, version: int, make: Callable[[int], Awaitable[T]]) -> None:
        try:
            self._made = version, await make(version)
        finally:
            self._making = None


class Reading(NamedTuple):
    """What is read of a cluster when somebody asks: all objects, and the events about a pod. Called in a thread.

    Raises UnreadableError.
    """

    objects: Callable[[], Objects]
    events_of: Callable[[Key], Events]


class StillCluster:
    """Objects that were read once, as `ClusterObserver` has a cluster: nothing changes.

    Attributes:
        waiting: How many pods wait, with those that an API server would refuse.
        read_at: Since when is what files do not say since when.
    """

    version: Final = 0

    def __init__(self, read: Objects) -> None:
        cluster = OfflineCluster(_now_ms())
        loaded = cluster.load(read.given)
        self._machine, broken = observed_machine(cluster, read.features)
        self.waiting: Final = len([*waiting_in(cluster)])
        self.read_at: Final = cluster.api.now()
        self._problems: Final = (*map(str, loaded.problems), *broken, *loaded.notes)

    async def changed_since(self, version: int) -> int:
        never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        return await never

    def problems(self) -> tuple[str, ...]:
        return self._problems

    async def look(self, read: Callable[[Machine], T]) -> T:
        return await in_thread(partial(read, self._machine))


class Source:
    """What the page shows.

    Attributes:
        name: Where it comes from, for people.
        is_live: Whether it can change.
        config: The scheduler's configuration that answers follow; None: the default.
        playing: Turns of questions that play a machine.
    """

    def __init__(
        self, name: str, cluster: ClusterObserver | StillCluster, reading: Reading, config: Config | None
    ) -> None:
        self.name: Final = name
        self.is_live: Final = isinstance(cluster, ClusterObserver)
        self.config: Final = config
        self._cluster: Final = cluster
        self._reading: Final = reading
        self._all: Final[_Shared[Objects]] = _Shared()
        self._answers: Final[dict[Hashable, _Shared[Document]]] = {}
        self.playing: Final = asyncio.Semaphore(PLAYED_MAX)
        self._first_looks: Final = FirstLooks(self.playing)
        self._list_of: tuple[int, DeviceList] | None = None
        self._rest_until_s = 0.0
        self._has_filled = not self.is_live

    @classmethod
    def of_files(cls, name: str, read: Objects, config: Config | None) -> Source:
        """Objects of files."""
        reading = Reading(lambda: read, lambda key: Events(events_in(read.given, key)))
        return cls(name, StillCluster(read), reading, config)

    @property
    def version(self) -> int:
        """Larger after each change."""
        return self._cluster.version + self._has_filled

    async def changed_since(self, version: int) -> int:
        """Wait until it is another; the version then.

        Not before the source has rested (rule 2), nor before all has been observed.
        """
        await asyncio.sleep(max(_PAUSE_S, self._rest_until_s - asyncio.get_running_loop().time()))
        await self.filled()
        return 1 + await self._cluster.changed_since(version - 1)

    async def filled(self) -> None:
        """Wait until all that exists has been observed."""
        if isinstance(self._cluster, ClusterObserver) and not self._has_filled:
            await self._cluster.filled()
            self._has_filled = True

    def problems(self) -> tuple[str, ...]:
        """What is not seen, and why."""
        begun = () if self._has_filled else ("the cluster is being read; what is shown is not yet all",)
        return (*begun, *self._cluster.problems())

    async def objects(self) -> Objects:
        """All objects now."""
        return await self._all.of(self.version, lambda: self.version, lambda _: in_thread(self._reading.objects))

    async def play(self, ask: Callable[[Objects], T]) -> tuple[Objects, T]:
        """What `ask` finds out with a machine of its own, and the objects that it was given; in a turn of `playing`."""
        read = await self.objects()
        return read, await played(partial(ask, read))

    async def overview(self, after: int = -1) -> Document:
        """The cluster in short; made of the list that `devices` has.

        Args:
            after: The version of the answer that the asker has, here and below (rule 1).
        """
        return await self._kept("overview", partial(self._picture, self._overview), after)

    async def devices(self, shape: Shape = Shape(), after: int = -1) -> Document:  # noqa: B008 - immutable
        """All devices, put together as asked."""
        picture = partial(devices_picture, shape=shape)
        return await self._kept(("devices", shape), partial(self._picture, picture), after)

    async def device(self, key: tuple[str, str, str], after: int = -1) -> Document:
        """One device by driver, pool and name. Raises NotThereError where there is none."""
        wanted = min(after + 1, self.version)

        def read(machine: Machine) -> Document:
            version, listed = self._listed(machine, wanted)
            return _stamped(to_builtins(device_picture(machine, listed, key)), version)

        return await self._cluster.look(read)

    async def pending(self, after: int = -1) -> Document:
        """The pods that wait."""
        return self._first_looks.shown(await self._kept("pending", self._pending, after, self.playing))

    async def waiting(self, after: int = -1) -> AllWaiting:
        """The same as values."""
        await self.pending(after)
        return self._first_looks.found

    async def pod(self, key: Key, after: int = -1) -> Document:
        """Why a pod waits, or where it runs. Raises NotThereError where there is none."""
        return await self._kept(("pod", key), partial(self._pod, key), after, self.playing)

    async def given_out(self) -> Document:
        """The share of each class's devices that is given out now."""
        return {name: float(one.share) for name, one in (await self._cluster.look(utilization)).items()}

    def _listed(self, machine: Machine, wanted: int) -> tuple[int, DeviceList]:
        """All devices, of that version or newer. The machine does not change meanwhile, and one looks at a time."""
        if self._list_of is None or self._list_of[0] < wanted:
            self._list_of = self.version, devices_observed(machine, Filter(), notes=self.problems())
        return self._list_of

    async def _picture(self, picture: Callable[[Machine, DeviceList], Struct]) -> Document:
        """Of all devices."""

        def read(machine: Machine) -> Document:
            document: Document = to_builtins(picture(machine, self._listed(machine, self.version)[1]))
            return document

        return await self._cluster.look(read)

    def _overview(self, machine: Machine, found: DeviceList) -> Overview:
        if isinstance(self._cluster, StillCluster):
            return overview_picture(machine, found, self._cluster.waiting, self._cluster.read_at)
        pods = machine.store.pods.values()
        waiting = sum(one.node_name is None and not one.is_terminal and not one.is_deleting for one in pods)
        return overview_picture(machine, found, waiting)

    async def _pending(self) -> Document:
        read, found = await self.play(self._ask)
        running = await self._cluster.look(partial(count_running, owners={one.maker.owner for one in found.pods}))
        picture = structs.replace(pending_picture(found), running=running, unlisted=read.unlisted)
        document: Document = to_builtins(picture)
        self._first_looks.begin(found, document["pods"], partial(self._ask, read))
        return document

    def _ask(self, read: Objects, only: Collection[Key] | None = None) -> AllWaiting:
        return ask_all(
            read.given, now_ms=_now_ms(), features=read.features, config=self.config, only=only, turns_max=TURNS_MAX
        )

    async def _pod(self, key: Key) -> Document:
        read, explained = await self.play(partial(self._explain, key))
        answer = PodAnswer(**structs.asdict(explained), unlisted=read.unlisted)
        # An object that was never stored has no history, and its fields may be invalid.
        if answer.outcome != "refused" and (pod := pod_in(read.given, key)) is not None:
            events = await in_thread(partial(self._reading.events_of, key))
            history = tuple(history_of(read.given, pod.obj, events.found))
            unlisted = (*read.unlisted, *events.unlisted)
            answer = structs.replace(answer, created=created_at(pod.obj), history=history, unlisted=unlisted)
        document: Document = to_builtins(answer)
        return document

    def _explain(self, key: Key, read: Objects) -> Explanation:
        return explain_pod(
            read.given, key, now_ms=_now_ms(), features=read.features, config=self.config, steps_max=STEPS_MAX
        )

    async def _kept(self, key: Hashable, make: _Make, after: int, turn: asyncio.Semaphore | None = None) -> Document:
        """An answer that is newer than `after`, if there is a newer version (rule 1); it is made in a turn."""
        shared = self._answers.pop(key, None) or _Shared()
        self._answers[key] = shared  # whoever was asked for last stays longest
        if len(self._answers) > _KEPT_MAX:
            del self._answers[next(iter(self._answers))]
        return await shared.of(min(after + 1, self.version), lambda: self.version, partial(self._make, make, turn))

    async def _make(self, make: _Make, turn: asyncio.Semaphore | None, version: int) -> Document:
        async with turn or nullcontext():
            loop = asyncio.get_running_loop()
            begun_s = loop.time()  # who waits for a turn takes no time of others (rule 2)
            try:
                return _stamped(await make(), version)
            finally:
                self._rest_until_s = max(self._rest_until_s, loop.time() + _REST * (loop.time() - begun_s))


def _stamped(document: Document, version: int) -> Document:
    return {**document, **to_builtins(Answered(version=version, as_of=_now_ms()))}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
