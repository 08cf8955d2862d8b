"""Sees pods get bound: a watch that looks at each line's bytes only, so that it costs the machine little.

The API server filters: with the field selector `spec.nodeName!=` a pod's binding is its first event.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from types import TracebackType

from benchmarks.fleet import NAMESPACE
from tests.integration.api import Api, ExpiredError, path_of

_NAME = re.compile(rb'"metadata":\{(?:"namespace":"[^"]+",)?"name":"([^"]+)"')  # the embedded server keeps our order
_MODIFIED = b'{"type":"MODIFIED"'
_FINALIZER = b"resource.kubernetes.io/delete-protection"
_BOUND = {"fieldSelector": "spec.nodeName!="}
_CHECK_SECONDS = 1.0


class BoundPods:
    """Async context manager.

    Attributes:
        began: when the first write for these pods was seen, a claim's finalizer or a binding; None before.
        at: when a pod's binding was seen (time.monotonic), by its name.
        interruptions: how often the watch had to be taken up again.
    """

    def __init__(self, api: Api) -> None:
        self.at: dict[str, float] = {}
        self.began: float | None = None
        self.interruptions = 0
        self._api = api
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._claims: asyncio.Task[None] | None = None

    async def __aenter__(self) -> BoundPods:
        version = await self._see_all()
        self._task = asyncio.create_task(self._watch(version))
        self._claims = asyncio.create_task(self._first_claim_write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks = [task for task in (self._task, self._claims) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tell(self) -> None:
        """Wake all who wait; who comes later waits for the next news."""
        self._news.set()
        self._news = asyncio.Event()

    async def _see_all(self) -> str:
        """List the bound pods; returns the revision to watch from."""
        listed = await self._api.request("GET", path_of("pods", NAMESPACE), params=_BOUND)
        now = time.monotonic()
        for pod in listed.get("items") or ():
            self.at.setdefault(pod["metadata"]["name"], now)
        return str(listed["metadata"]["resourceVersion"])

    async def _first_claim_write(self) -> None:
        """A scheduler may write many claims before it binds its first pod: that is work done, too."""
        path = path_of("resourceclaims", NAMESPACE)
        listed = await self._api.request("GET", path, params={"limit": "1"})
        params = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        async for lines in self._api.stream(path, params):
            if any(line.startswith(_MODIFIED) and _FINALIZER in line for line in lines):
                self.first_write()
                return

    def first_write(self) -> None:
        """A write for these pods was seen now; harmless when it was not the first."""
        if self.began is None:
            self.began = time.monotonic()
            self._tell()

    async def _watch(self, version: str) -> None:
        while True:
            with suppress(ExpiredError):
                params = {**_BOUND, "watch": "true", "resourceVersion": version}
                async for lines in self._api.stream(path_of("pods", NAMESPACE), params):
                    now = time.monotonic()
                    for line in lines:
                        if (found := _NAME.search(line)) is not None:
                            self.at.setdefault(found[1].decode(), now)
                    if self.began is None:
                        self.began = now
                    self._tell()
            # The API server ends a watch whose reader lags; what came in between is seen late, not lost.
            self.interruptions += 1
            version = await self._see_all()
            self._tell()

    async def _wait(self, until: Callable[[], bool], seconds: float, check: Callable[[], None]) -> None:
        async with asyncio.timeout(seconds):
            while not until():
                check()
                assert self._task is not None
                if self._task.done():
                    await self._task  # raises what ended it
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), _CHECK_SECONDS)

    async def wait_begin(self, *, seconds: float, check: Callable[[], None]) -> float:
        """Until the first write is seen; returns when that was. `check` runs every second and may raise.

        Raises:
            TimeoutError: not within `seconds`.
        """
        await self._wait(lambda: self.began is not None, seconds, check)
        assert self.began is not None
        return self.began

    async def wait_names(self, names: Collection[str], *, seconds: float, check: Callable[[], None]) -> None:
        """Until these pods are bound."""
        left = list(names)

        def is_done() -> bool:
            while left and left[-1] in self.at:
                left.pop()
            return not left

        await self._wait(is_done, seconds, check)

    async def names(self) -> AsyncIterator[str]:
        """Every bound pod, once, as it comes; for ever."""
        given = 0
        while True:
            known = list(self.at)
            for name in known[given:]:
                yield name
            given = len(known)
            if len(self.at) == given:
                await self._news.wait()
