"""The reflector: one kind of object, listed and watched for ever, as batches of inputs.

Rules of this module
  1. `deliver` is called with complete batches. A list is one batch: deletions of objects that vanished, then new and
     changed objects in the order of their revisions, then `RelistFinished`. Until then the machine keeps what it knew.
  2. A deletion carries the revision of the list (or of the DELETED event), so an old list deletes nothing newer. An
     object that only an old list lacks stays known here, as in the machine: somebody must observe its end.
  3. `run` ends only by cancellation. Whatever the network or the server does leads to a resume, a relist or a pause.
  4. A watch that is silent for `inactivity_s` is cut: bookmarks come every minute.
  5. A line may have any length, and may come in any number of chunks.
  6. A kind that a server may not have (`WatchedKind.served_as`) is looked for before each list. A missing kind counts
     as an empty list, and is looked for again every `absent_s`. The same goes for a version that disappears under a
     watch, and for a kind that we may not read where that costs only some pods (`WatchedKind.cost`); once it has been
     read, what is known of it is kept. That we may not read it is reported (`RelistFinished.is_readable`).
  7. `catch_up` ends once everything that was stored before it was asked has been delivered.

It starts with WatchList (`sendInitialEvents`), one stream that begins with all objects. Where the server refuses that
or never finishes it, it lists in pages and then watches. So it does for `paged_s` after a streamed list broke off
`broken_lists_max` times in a row: a stream begins anew each time, while pages that have come stay, and only the one
that failed is asked for again. After a page whose token has expired (410) comes one list without a limit.
It goes on at the last version seen; after 410 it starts again.

Source for the behaviour: client-go v0.36.3 tools/cache/reflector.go, tools/pager/pager.go (FullListIfExpired);
measured on kube-apiserver 1.36.3: an expired version is HTTP 200 and one ERROR line with code 410.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

import aiohttp
from msgspec import Struct

from scheduler.core.ground.inputs import Deleted, Input, RelistFinished
from scheduler.kube.api_requests import ApiClient, Reply, text_of
from scheduler.kube.api_versions import ServedAs, UnansweredError, find_version
from scheduler.kube.credentials import CredentialsError
from scheduler.kube.names_and_versions import read_newest_version, read_stored, revision_of
from scheduler.kube.outcomes import (
    Accepted,
    Conflicted,
    Rejected,
    UndecodableError,
    Unknown,
    WriteResult,
    classify,
    decode_status,
    retry_after_s,
)
from scheduler.kube.reporting import Reporter
from scheduler.kube.watched_kind import (
    Bookmark,
    Broken,
    ErrorEvent,
    Event,
    Gone,
    Ignored,
    LineSplitter,
    Replacement,
    Seen,
    WatchedKind,
)
from scheduler.model.keys import ObjectKey

log = logging.getLogger(__name__)


class WatchLimits(Struct, frozen=True):
    """Seconds and sizes. Watches are asked to end after a random time within `timeout_s`: never all at once."""

    inactivity_s: float = 70.0
    timeout_s: tuple[int, int] = (300, 600)
    backoff_s_min: float = 0.8
    backoff_s_max: float = 30.0
    healthy_s: float = 10.0  # a stream that lasted so long, or brought something, ends a run of failures
    page_size: int = 500
    broken_lists_max: int = 2  # streamed lists in a row that broke off
    paged_s: float = 600.0  # after that many, before a list is streamed again
    absent_s: float = 60.0  # between two questions for a kind that the server does not have


DEFAULT_LIMITS: Final = WatchLimits()


@dataclass(slots=True)
class WatchStats:
    """Of one kind, for metrics and readiness. Times are the event loop's, in seconds."""

    relists: int = 0
    restarts: int = 0  # streams begun
    events: int = 0
    undecodable: int = 0
    objects: int = 0
    is_synced: bool = False
    last_sync_s: float | None = None  # the end of the last (re)list
    last_activity_s: float | None = None  # the last byte of any kind
    failure: str | None = None  # why the last attempt failed, None while it goes well
    version: str | None = None  # served now, of a kind that a server may not have
    is_absent: bool = False  # the server does not have this kind, or does not let us read it: nothing is watched
    is_readable: bool = True  # False: the server does not let us read it


class _RelistError(Exception):
    """The version to resume from is gone."""


class _PauseError(Exception):
    """Try again later. `wait_s` is what the server asked for, None for the ordinary backoff."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class _AbsentError(Exception):
    """The server does not have this kind."""


class _NoWatchListError(Exception):
    """The server does not send initial events: list instead."""


class Reflector:
    """Lists and watches one kind, and delivers what it observes to the machine.

    Args:
        deliver: Takes a batch; synchronous, must not raise.
        room: Waited for before more of a watch is read: what the machine has not taken yet stays with the API server,
            which ends a watch that is too far behind, so that it is listed anew. None: there is always room.
        pause: Sleeps; replaced in tests.
        rng: For jitter only.
    """

    def __init__(
        self,
        client: ApiClient,
        kind: WatchedKind,
        deliver: Callable[[Sequence[Input]], None],
        reporter: Reporter,
        *,
        room: asyncio.Event | None = None,
        limits: WatchLimits = DEFAULT_LIMITS,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.kind = kind
        self.stats = WatchStats()
        self._client = client
        self._deliver = deliver
        self._room = room
        self._reporter = reporter
        self._limits = limits
        self._pause = pause
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._path = kind.path
        self._known: dict[ObjectKey, tuple[str, str]] = {}  # uid and resource version as last delivered
        self._version: str | None = None  # None: (re)list
        self._streams_from_s = 0.0  # when a list may be streamed (again); never: the server has no such lists
        self._broken_lists = 0  # streamed lists in a row that were not finished
        self._pages: Replacement | None = None  # of a list that is not complete yet
        self._pages_read = 0
        self._has_pages_expired = False
        self._failures = 0
        self._lists_begun = 0
        self._list_delivered = 0  # the number of the last one
        self._must_list = False
        self._interruption: asyncio.Timeout | None = None  # of what `run` does now
        self._has_moved = asyncio.Event()  # for `catch_up`

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            self._interruption = asyncio.timeout(None)
            try:
                async with self._interruption:
                    await self._attempt()
            except TimeoutError:  # by `catch_up`: an attempt lets none out
                self._failures = 0

    async def catch_up(self, wait_s: float) -> None:
        """Return once everything that was stored before the call has been delivered. One caller at a time.

        A consistent read says which version that is. A watch of objects that do not change comes there only with its
        bookmark, each minute: after `wait_s` what is stored is compared by name. What differs is listed anew, at once.
        """
        await self._until(lambda: self.stats.is_synced)
        if self.stats.is_absent:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                version = await read_newest_version(self._client, self._path)
                await self._until(lambda: 0 < version <= revision_of(self._version or ""))
                return
        stored = await read_stored(self._client, self._path)
        if stored is not None and stored.is_known(self._known):
            return
        lists_before = self._lists_begun
        self._must_list = True
        if self._interruption is not None:
            self._interruption.reschedule(asyncio.get_running_loop().time())
        await self._until(lambda: self._list_delivered > lists_before)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._has_moved.clear()
            await self._has_moved.wait()

    async def _attempt(self) -> None:
        """List where that is needed, watch until that ends, and pause where that is called for."""
        loop = asyncio.get_running_loop()
        begun_s, version_before, read_before = loop.time(), self._version, (self.stats.events, self._pages_read)
        wait_s: float | None = 0.0
        try:
            await self._list_and_watch()
            failure = None
        except _RelistError as error:
            self._version, self._pages, failure = None, None, f"relisting: {error}"
        except _NoWatchListError as error:
            self._streams_from_s, failure = math.inf, None
            log.info("%s: no streaming list, listing in pages: %s", self.kind.name, error)
            return
        except _AbsentError:
            self._failures, self._pages, self.stats.failure = 0, None, None
            await self._pause(self._limits.absent_s)
            return
        except _PauseError as error:
            failure, wait_s = str(error), error.wait_s
        except (aiohttp.ClientError, TimeoutError, OSError, UndecodableError, CredentialsError) as error:
            failure, wait_s = text_of(error), None
        is_healthy = (
            (self.stats.events, self._pages_read) != read_before
            or loop.time() - begun_s >= self._limits.healthy_s
            or (wait_s is None and self._version != version_before)  # it broke after a bookmark
        )
        self._failures = 0 if is_healthy else self._failures + 1
        self.stats.failure = failure
        if failure is not None:
            log.info("%s: watch interrupted (%s)", self.kind.name, failure)
        if wait_s == 0.0 and self._failures <= 1:
            return  # a stream that ended as announced, or expired after working: go on at once
        await self._pause(max(wait_s or 0.0, self._backoff_s()))

    def _backoff_s(self) -> float:
        """Doubling from the least to the greatest pause, each with ±20 % of jitter."""
        limits = self._limits
        pause_s = min(limits.backoff_s_max, limits.backoff_s_min * 2 ** min(max(self._failures - 1, 0), 16))
        return float(pause_s * self._rng.uniform(0.8, 1.2))

    async def _list_and_watch(self) -> None:
        if self._must_list:
            self._version, self._pages, self._must_list = None, None, False
        if self._version is None:
            if self._pages is None:
                self._lists_begun += 1
                if self.kind.served_as is not None:
                    await self._find(self.kind.served_as)
                if self._may_stream():
                    await self._stream(Replacement())
                    return
                self._pages = Replacement()
            await self._list(self._pages)
        await self._stream(None)

    def _may_stream(self) -> bool:
        """Whether a list is worth streaming: not where it broke off again and again."""
        now_s = asyncio.get_running_loop().time()
        if self._broken_lists >= self._limits.broken_lists_max:
            text = "%s: the streamed list broke off %d times in a row, listing in pages for the next %.0f minutes"
            log.info(text, self.kind.name, self._broken_lists, self._limits.paged_s / 60)
            self._broken_lists, self._streams_from_s = 0, now_s + self._limits.paged_s
        return now_s >= self._streams_from_s

    async def _find(self, wanted: ServedAs) -> None:
        """Settle which version to list."""
        try:
            version = await find_version(self._client, wanted)
        except UnansweredError as error:
            raise _PauseError(str(error)) from error
        self._mark_alive()
        was_synced, self.stats.version = self.stats.is_synced, version
        if version is not None:
            if not was_synced or (self.stats.is_absent and not self.kind.cost):
                log.info("%s: served as %s/%s", self.kind.name, wanted.group, version)
            self._path = wanted.path(version)
            if not self.kind.cost:
                self.stats.is_absent = False  # the others may be forbidden: once they are listed
            return
        self._count_as_empty(f"the API server serves none of {wanted}", code=404)
        raise _AbsentError

    def _count_as_empty(self, why: str, *, code: int) -> None:
        """The kind cannot be read: say so once."""
        is_readable = code != HTTPStatus.FORBIDDEN
        if not self.stats.is_absent or self.stats.is_readable != is_readable:
            level = logging.WARNING if self.kind.cost else logging.INFO
            cost = f": {self.kind.cost}" if self.kind.cost else ""
            log.log(level, "%s: %s%s; asked again later", self.kind.name, why, cost)
            self.stats.is_absent, self.stats.is_readable = True, is_readable
            self._replace(Replacement(), "")

    async def _list(self, pages: Replacement) -> None:
        """LIST in pages, from the first that has not come; the consistent answer of the server's storage."""
        is_whole, self._has_pages_expired = self._has_pages_expired, False
        while True:
            query = {} if is_whole else {"limit": str(self._limits.page_size)}
            if pages.next_page:
                query["continue"] = pages.next_page
            outcome = await self._client.send("GET", f"{self._path}?{urlencode(query)}")
            if not isinstance(outcome, Accepted):
                self._has_pages_expired = (
                    isinstance(outcome, Rejected) and outcome.code == HTTPStatus.GONE and bool(pages.next_page)
                )
                self._raise_for(outcome)
                raise AssertionError("unreachable: _raise_for raises")
            self._mark_alive()
            page = self.kind.decode_page(outcome.body)
            for one in page.objects:
                pages.take(one)
            self._pages_read += 1
            pages.next_page = page.continue_token
            if not pages.next_page:
                break
        self._pages = None
        self._replace(pages, page.resource_version)

    async def _stream(self, initial: Replacement | None) -> None:
        """One watch request, from its start to its end. With `initial`, its first part fills that."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._rng.randint(*self._limits.timeout_s)),
        }
        if initial is not None:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        elif self._version is not None:
            query["resourceVersion"] = self._version
        self.stats.restarts += 1
        path = f"{self._path}?{urlencode(query)}"
        try:
            async with self._client.stream(path, inactivity_s=self._limits.inactivity_s) as response:
                if response.status != HTTPStatus.OK:
                    self._raise_for_response(response, is_initial=initial is not None)
                self._reporter.granted(self.kind.name)
                self._mark_alive()
                self._broken_lists += initial is not None  # `_replace` takes it back
                splitter = LineSplitter()
                async for chunk in response.content.iter_any():
                    self._mark_alive()
                    for_machine: list[Input] = []
                    try:
                        for line in splitter.feed(chunk):
                            initial = self._take(self.kind.decode_event(line), initial, for_machine)
                    finally:
                        # Also when an ERROR line ends the stream: the events before it count.
                        if for_machine:
                            self._deliver(for_machine)
                        self._has_moved.set()
                    if self._room is not None:
                        await self._room.wait()
        except aiohttp.SocketTimeoutError as error:
            if initial is not None:
                # A server that does not know `sendInitialEvents` never says that they are complete.
                raise _NoWatchListError(f"no initial events within {self._limits.inactivity_s:g} s") from error
            raise
        if initial is not None:
            raise _PauseError("the stream ended before all initial events were sent")

    def _mark_alive(self) -> None:
        self.stats.last_activity_s = asyncio.get_running_loop().time()

    def _take(self, event: Event, initial: Replacement | None, for_machine: list[Input]) -> Replacement | None:
        """One event of a stream. Returns what is left of `initial`: None once it is complete."""
        match event:
            case Seen() | Gone() | Broken():
                if initial is not None:
                    initial.take(event)
                else:
                    self._observe(event, for_machine)
                    self.stats.events += 1
                    if event.resource_version:
                        self._version = event.resource_version
            case Bookmark():
                if initial is not None and event.ends_initial_events:
                    self._replace(initial, event.resource_version)
                    return None
                if initial is None and event.resource_version:
                    self._version = event.resource_version
            case ErrorEvent():
                self._raise_for_code(event.code, event.reason, event.message, event.retry_after_s)
            case Ignored():
                log.warning("%s: event ignored: %s", self.kind.name, event.reason)
        return initial

    def _observe(self, event: Seen | Gone | Broken, for_machine: list[Input]) -> None:
        """One change, compared with what was delivered before."""
        name = event.name
        known = self._known.get(name)
        if known is not None and 0 < revision_of(event.resource_version) < revision_of(known[1]):
            return  # older than what the machine knows, which it keeps
        if isinstance(event, Gone):
            if known is not None:
                del self._known[name]
                for_machine.append(Deleted(self.kind.name, name, known[0], revision_of(event.resource_version)))
            return
        if isinstance(event, Broken):
            self._report_broken(event)
            if not self.kind.withdraws_broken or known is None:
                return
            del self._known[name]
            for_machine.append(Deleted(self.kind.name, name, known[0], revision_of(event.resource_version)))
            return
        if known is not None and known[0] != event.uid:
            # The old object ended before the new one came: a later revision would delete the new one, too, where kinds
            # are known by name.
            for_machine.append(Deleted(self.kind.name, name, known[0], max(0, revision_of(event.resource_version) - 1)))
        self._known[name] = (event.uid, event.resource_version)
        for_machine.append(event.input)

    def _replace(self, new: Replacement, version: str) -> None:
        """The swap: one batch that turns what the machine knows into what exists."""
        for_machine: list[Input] = []
        revision = revision_of(version)
        for name in [name for name in self._known if name not in new.seen and name not in new.broken]:
            uid, last_version = self._known[name]
            if 0 < revision < revision_of(last_version):
                continue  # the list is older than this object (rule 2)
            del self._known[name]
            for_machine.append(Deleted(self.kind.name, name, uid, revision))
        for one in new.broken.values():
            self._observe(one, for_machine)
        # Oldest first, as in a watch: whoever observes a change has observed all earlier ones.
        for name, seen in sorted(new.seen.items(), key=lambda item: revision_of(item[1].resource_version)):
            if self._known.get(name) != (seen.uid, seen.resource_version):
                self._observe(seen, for_machine)
        self._version, self._broken_lists = version or None, 0
        if version:
            self.stats.is_absent, self.stats.is_readable = False, True
        for_machine.append(RelistFinished(self.kind.name, is_readable=self.stats.is_readable))
        self.stats.relists += 1
        self.stats.events += 1
        self.stats.objects = len(self._known)
        self.stats.is_synced = True
        self.stats.failure = None
        self.stats.last_sync_s = asyncio.get_running_loop().time()
        self._deliver(for_machine)
        self._list_delivered = self._lists_begun
        self._has_moved.set()

    def _report_broken(self, event: Broken) -> None:
        self.stats.undecodable += 1
        self._reporter.undecodable(self.kind.name, str(event.name), event.reason)

    def _raise_for_response(self, response: Reply, *, is_initial: bool) -> None:
        body, code = response.body, response.status
        status = decode_status(body)
        if code == HTTPStatus.TOO_MANY_REQUESTS:
            raise _PauseError(f"HTTP 429: {status.message}", retry_after_s(response.headers.get("Retry-After"), status))
        known = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.GONE, HTTPStatus.NOT_FOUND}
        if is_initial and 400 <= code < 500 and code not in known:
            raise _NoWatchListError(f"HTTP {code}: {status.message}")
        self._raise_for(classify(code, body))

    def _raise_for(self, outcome: WriteResult) -> None:
        match outcome:
            case Rejected():
                if outcome.code == HTTPStatus.FORBIDDEN and self.kind.cost:
                    if not self._known:
                        self._count_as_empty(f"the API server does not let us read them ({outcome.message})", code=403)
                        raise _AbsentError
                    if self.stats.is_readable:
                        self._deliver([RelistFinished(self.kind.name, is_readable=False)])
                    self._must_list, self.stats.is_readable = True, False  # the list shows that we may again
                if outcome.is_configuration:
                    self._reporter.refused(self.kind.name, outcome.message)
                self._raise_for_code(outcome.code, outcome.reason, outcome.message, None)
            case Conflicted() | Unknown():
                raise _PauseError(outcome.message)
            case Accepted():
                raise _PauseError(f"unexpected HTTP {outcome.code}")

    def _raise_for_code(self, code: int, reason: str, message: str, wait_s: float | None) -> None:
        text = f"{reason or code}: {message}"
        # 400: the server cannot read the version (it was restored from a backup, or has another storage). "Too large":
        # another server was ahead of this one. Resuming would fail for ever.
        if code in {HTTPStatus.GONE, HTTPStatus.BAD_REQUEST} or "Too large resource version" in message:
            raise _RelistError(text)
        if code == HTTPStatus.NOT_FOUND and self.kind.served_as is not None:
            raise _RelistError(f"not served as {self._path} any more: {text}")
        raise _PauseError(text, wait_s)
