"""What the controllers of the claim process share: a queue of keys with workers, requests to the API, start and end.

Rules of this module
  1. One key is never worked on twice at the same time; a key that becomes due meanwhile is worked on again.
  2. A failure is retried with back-off; a defect in one key's work is logged and stops no other.

Not here: what the work is (`claim_controllers`, `taint_eviction`), watching (kopf).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
import kopf
import orjson

from scheduler.embedded.kinds.events import pod_event
from scheduler.model.timestamps import format_rfc3339

_LOG: Final = logging.getLogger("scheduler.embedded.controllers.client_controller")
_RETRY_FIRST_S: Final = 0.05
_RETRY_LAST_S: Final = 15.0
_REQUEST_TIMEOUT_S: Final = 30.0

Resource = tuple[str, str, str]
PODS: Final[Resource] = ("", "v1", "pods")
CLAIMS: Final[Resource] = ("resource.k8s.io", "v1", "resourceclaims")
TEMPLATES: Final[Resource] = ("resource.k8s.io", "v1", "resourceclaimtemplates")
SLICES: Final[Resource] = ("resource.k8s.io", "v1", "resourceslices")
TAINT_RULES: Final[Resource] = ("resource.k8s.io", "v1", "devicetaintrules")

Obj = Mapping[str, Any]
WorkKey = tuple[str, str, str]
"""(what, namespace, name)."""


class RequestError(Exception):
    """A request that was refused."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class WaitError(Exception):
    """Something that has to come first is missing; it is reported in an event, and the key is worked on again."""


class WorkQueue:
    """Keys that are due, and the workers that call `work` with each.

    Args:
        work: Does what a key needs; RequestError, WaitError and network failures mean: again later.
        workers_count: Keys worked on at once.
    """

    def __init__(self, work: Callable[[WorkKey], Awaitable[None]], *, workers_count: int) -> None:
        self._work_on = work
        self._workers_count = workers_count
        self._due: OrderedDict[WorkKey, None] = OrderedDict()
        self._busy: set[WorkKey] = set()
        self._failures: dict[WorkKey, int] = {}
        self._timers: dict[WorkKey, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []

    def enqueue(self, key: WorkKey) -> None:
        self._due[key] = None
        self._wake.set()

    def enqueue_later(self, key: WorkKey, delay_s: float) -> None:
        """Make a key due after `delay_s` seconds; a later call for the same key replaces the time."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(delay_s, self._ring, key)

    def _ring(self, key: WorkKey) -> None:
        self._timers.pop(key, None)
        self.enqueue(key)

    def start(self) -> None:
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._workers_count)]

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    def _take(self) -> WorkKey | None:
        for key in self._due:
            if key not in self._busy:
                del self._due[key]
                self._busy.add(key)
                return key
        return None

    async def _work(self) -> None:
        while True:
            key = self._take()
            if key is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                await self._try(key)
            finally:
                self._busy.discard(key)
                if key in self._due:
                    self._wake.set()

    async def _try(self, key: WorkKey) -> None:
        kind, namespace, name = key
        try:
            await self._work_on(key)
        except (RequestError, WaitError, aiohttp.ClientError, TimeoutError) as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay_s = min(_RETRY_LAST_S, _RETRY_FIRST_S * 2 ** min(failures - 1, 16))
            _LOG.info("%s %s/%s: %s; again in %.2f s", kind, namespace, name, error, delay_s)
            asyncio.get_running_loop().call_later(delay_s, self.enqueue, key)
        except Exception:  # one broken object must not stop the others
            _LOG.exception("%s %s/%s failed", kind, namespace, name)
        else:
            self._failures.pop(key, None)


class Requests:
    """Requests to the API server at `server` (its base URL), from `open` to `close`."""

    def __init__(self, server: str, token: str | None = None, authority: str | None = None) -> None:
        self._server = server
        self._tls = ssl.create_default_context(cafile=authority) if authority is not None else True
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        timeout = aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_S)
        self._session = aiohttp.ClientSession(self._server, headers=self._headers, timeout=timeout)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, method: str, path: str, body: Obj | None = None, *, media: str = "application/json") -> Any:
        """One request, decoded. Raises RequestError: It was refused."""
        assert self._session is not None
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": media}
        async with self._session.request(method, path, data=data, headers=headers, ssl=self._tls) as response:
            answer = orjson.loads(await response.read())
        if response.status >= 400:
            raise RequestError(response.status, f"{method} {path}: {answer.get('message', '')}")
        return answer

    async def get(self, path: str) -> Obj | None:
        """The object at `path`, None when there is none."""
        try:
            found: Obj = await self.send("GET", path)
        except RequestError as error:
            if error.code == 404:
                return None
            raise
        return found

    async def record_event(self, pod: Obj, type_: str, reason: str, message: str, *, component: str) -> None:
        """An event about a pod; best effort."""
        metadata = pod["metadata"]
        now = format_rfc3339(datetime.now(UTC).timestamp())
        event = pod_event(metadata, type_, reason, message, now=now, component=component)
        try:
            await self.send("POST", f"/api/v1/namespaces/{metadata['namespace']}/events", event)
        except (RequestError, aiohttp.ClientError, TimeoutError) as error:
            _LOG.info("event for pod %s/%s: %s", metadata["namespace"], metadata["name"], error)


class ClientController:
    """A controller that is a client of the API: its requests, and the queue that calls `sync` with what is due.

    Args:
        server: Base URL of the API.
        token: The secret that it asks for.
        authority: A file with the certificate that it has; None without TLS.
        workers_count: Keys worked on at once.
    """

    def __init__(self, server: str, token: str | None, authority: str | None, *, workers_count: int) -> None:
        self._indexes: Mapping[str, Any] = defaultdict(dict)  # kopf's, by their ids
        self._requests = Requests(server, token, authority)
        self._queue = WorkQueue(self.sync, workers_count=workers_count)

    async def sync(self, key: WorkKey) -> None:
        raise NotImplementedError

    def register_life(self, registry: kopf.OperatorRegistry) -> None:
        """Have kopf start and stop the workers."""

        @kopf.on.startup(registry=registry, id=f"{type(self).__name__}-start")
        async def start(**_: Any) -> None:
            self._requests.open()
            self._queue.start()

        @kopf.on.cleanup(registry=registry, id=f"{type(self).__name__}-stop")
        async def stop(**_: Any) -> None:
            await self._queue.close()
            await self._requests.close()

    def on_event(
        self, registry: kopf.OperatorRegistry, resource: Resource, changed: Callable[..., None], **options: Any
    ) -> None:
        """Have `changed(object, is_deleted=…)` called for each change of a resource."""

        @kopf.on.event(*resource, registry=registry, id=f"{type(self).__name__}-{resource[2]}", **options)
        def notice(event: kopf.RawEvent, body: kopf.Body, **indexes: Any) -> None:
            self._indexes = indexes
            changed(body, is_deleted=event["type"] == "DELETED")
