"""A cluster as a machine observes it, kept up to date; nothing is decided and nothing written.

Whoever shows what is there now uses it: `devices --watch` and the page (`scheduler.ui`). It needs rights to read only.

Rules of this module
  1. The machine does not learn that anything has been listed whole, and no time passes for it: so it tries no pod
     (`machine_turns`, rule 3).
  2. While somebody looks, the machine does not change: inputs wait, and when too many do, the network does.
  3. An object that cannot be read is named in `problems`, and the others are shown.

Cost: O(1) for each change; a look costs what is looked at, in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, Self, TypeVar

from allocator import NEWEST_RELEASE, Features
from scheduler.answering import in_thread
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.inputs import Deleted, Input, Observed
from scheduler.core.machine import Machine
from scheduler.framework.api import Profile
from scheduler.framework.decisions import Decision
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.clock import Clock
from scheduler.kube.codec import Codec
from scheduler.kube.credentials import Connection, Credentials
from scheduler.kube.feature_gates import features_left, read_gates
from scheduler.kube.metrics import Metrics
from scheduler.kube.preflight import read_version
from scheduler.kube.reporting import Reporter
from scheduler.kube.watch import Reflector
from scheduler.kube.watched_kind import WatchedKind
from scheduler.machine_turns import MachineTurns
from scheduler.model.label_selectors import TextSelector
from scheduler.validation.releases import minor_of, release_of

_Answer = TypeVar("_Answer")

_UNREADABLE_MAX: Final = 100  # objects named


def _features_of(release: str) -> Features:
    return Features(kubernetes=release)


class Unreadable(Reporter):
    """Keeps which objects cannot be read now, and why."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: Final[dict[tuple[str, str], str]] = {}

    def undecodable(self, kind: str, name: str, reason: str) -> None:
        super().undecodable(kind, name, reason)
        if len(self.reasons) < _UNREADABLE_MAX:
            self.reasons[kind, name] = reason

    def forget_readable(self, kind: WatchedKind, inputs: Sequence[Input]) -> None:
        """What is observed can be read again, and what is deleted is not there; but see `withdraws_broken`."""
        for given in inputs:
            if isinstance(given, Observed) or (isinstance(given, Deleted) and not kind.withdraws_broken):
                self.reasons.pop((kind.name, str(given.key)), None)


class ClusterObserver:
    """Observes while its context is open. Made in a running event loop.

        async with ClusterObserver(Connection(url=...)) as observer:
            await observer.filled()
            found = await observer.look(list_devices_of)

    Raises (on entering):
        CredentialsError: The server cannot be reached as it was described.
    """

    def __init__(
        self,
        connection: Connection,
        features: Callable[[str], Features] = _features_of,
        slices: TextSelector | None = None,
    ) -> None:
        self._features: Final = features
        self._slices: Final = slices
        self.machine: Machine
        """Its release and its gates are asked of the server on entering."""
        self.credentials: Credentials
        """Those it reads with; opened on entering."""
        self.version = 0
        """Larger after each change of what is observed."""
        self._connection = connection
        self._stack = AsyncExitStack()
        self._reports: Final = Unreadable()
        self.reflectors: tuple[Reflector, ...] = ()
        self._tasks: list[asyncio.Task[None]] = []
        self._has_changed: Final = asyncio.Event()
        self._looking = asyncio.Lock()
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        self.credentials = await self._connection.open()
        client = await self._stack.enter_async_context(ApiClient(self.credentials))
        minor = minor_of(await read_version(client))
        release = release_of(minor) if minor is not None else NEWEST_RELEASE
        features = features_left(self._features(release), await read_gates(client))
        self.machine = Machine(
            [Profile("dra-scheduler", ())], features=features, new_uid=lambda: "", settings=CoreSettings()
        )
        turns = self._turns = MachineTurns(
            self.machine,
            self._observe,
            lambda _: None,
            clock=Clock(asyncio.get_running_loop().time),
            metrics=Metrics(),
            on_idle=self._has_changed.set,
            on_failure=self._fail,
        )
        self.reflectors = tuple(
            Reflector(client, kind, partial(self._deliver, kind), self._reports, room=turns.room)
            for kind in self.kinds(Codec(self._slices))
        )
        for one in self.reflectors:
            task = asyncio.create_task(one.run(), name=f"watch-{one.kind.name}")
            task.add_done_callback(self._on_task_done)
            self._tasks.append(task)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    @staticmethod
    def kinds(codec: Codec) -> tuple[WatchedKind, ...]:
        """What is kept up to date."""
        return (codec.nodes, codec.slices, codec.classes, codec.taint_rules, codec.claims, codec.pods)

    @property
    def is_filled(self) -> bool:
        """Whether all that exists has been observed."""
        return not self._turns.inputs_waiting and all(one.stats.is_synced for one in self.reflectors)

    def problems(self) -> tuple[str, ...]:
        """What is not observed now, or not as it is: failures of watches, objects that cannot be read."""
        failing = (f"{one.kind.name}: {one.stats.failure}" for one in self.reflectors if one.stats.failure is not None)
        broken = (f"{kind} {name} cannot be read: {why}" for (kind, name), why in self._reports.reasons.items())
        return (*failing, *broken)

    async def filled(self) -> None:
        """Wait until all that exists has been observed; raises what ended a watch."""
        await self._until(lambda: self.is_filled)

    async def failed(self) -> None:
        """Wait for what ends a watch, and raise it."""
        await self._until(lambda: False)

    async def changed_since(self, version: int) -> int:
        """Wait until something is observed that was not at `version`; the version then."""
        await self._until(lambda: self.version != version)
        return self.version

    async def _until(self, holds: Callable[[], bool]) -> None:
        while True:
            if self._failure is not None:
                raise self._failure
            if holds():
                return
            self._has_changed.clear()
            await self._has_changed.wait()

    async def look(self, read: Callable[[Machine], _Answer]) -> _Answer:
        """What `read` finds in a machine that does not change meanwhile. It runs in a thread, one at a time."""
        async with self._looking:
            self._turns.pause()
            try:
                return await in_thread(partial(read, self.machine))
            finally:
                self._turns.go_on()

    def _deliver(self, kind: WatchedKind, inputs: Sequence[Input]) -> None:
        if self._reports.reasons:
            self._reports.forget_readable(kind, inputs)
        self._turns.deliver(inputs)

    def _observe(self, given: Input, *, now_ms: int) -> tuple[Decision, ...]:
        self.version += 1
        self._has_changed.set()
        return self.machine.handle(given, now_ms=now_ms)

    def _fail(self, error: BaseException) -> None:
        """A wrong state must not be shown."""
        self._failure = error
        self._has_changed.set()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
