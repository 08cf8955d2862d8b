"""WATCH requests: initial state, then changes as they happen, bookmarks, and an honest end.

Rules of this module
  1. A watcher keeps no queue. It remembers the revision it has sent and reads on from the store's
     history, so a slow client costs nothing, and is answered 410 when it falls out of the window.
  2. Changes are sent in revision order, each one once; a bookmark at revision R says that everything up
     to R has been sent.
  3. An object that starts or stops matching the selectors is an ADDED or a DELETED to this watcher.

Not here: how objects become bytes (`views`).

Source: k8s.io/apiserver v0.36.3 pkg/endpoints/handlers/watch.go, pkg/storage/cacher/*.go.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Final

import orjson
from aiohttp import web

from scheduler.embedded.server.list_params import ListParams
from scheduler.embedded.server.object_store import (
    ANNOTATION_INITIAL_EVENTS_END,
    Change,
    ChangeType,
    ExpiredError,
    Stored,
)
from scheduler.embedded.server.rest import Api, matches
from scheduler.embedded.server.statuses import ApiError, bad_request, expired, too_large_resource_version
from scheduler.embedded.server.views import JSON_TYPE, View

DEFAULT_TIMEOUT_S: Final = 1800.0
"""Shortest watch of a client that names no timeout; the real server draws 1 to 2 times this."""

_BOOKMARK_BEFORE_END_S: Final = 2.0


class Watch:
    """One watch, from its request to its end."""

    def __init__(self, api: Api, view: View, namespace: str, params: ListParams, *, bookmark_interval_s: float) -> None:
        self._api = api
        self._store = api.store
        self._view = view
        self._kind_id = view.kind.kind_id
        self._namespace = namespace
        self._params = params
        self._bookmark_interval_s = bookmark_interval_s
        self._sent_revision = 0
        self._header_due = True

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer until the timeout, the client or the history ends it.

        Raises:
            ApiError: before the first byte, for a resource version this server has not reached.
        """
        first, is_over = self._begin()
        response = web.StreamResponse(headers={"Content-Type": JSON_TYPE, "Cache-Control": "no-cache, private"})
        response.enable_chunked_encoding()
        # The client may have gone: then nothing is left to write.
        with contextlib.suppress(ConnectionError):
            await response.prepare(request)
            if first:
                await response.write(first)
            if not is_over:
                await self._follow(response)
            await response.write_eof()
        return response

    def _begin(self) -> tuple[bytes, bool]:
        """The first bytes, and whether the watch is already over (an ERROR line was written)."""
        params, store = self._params, self._store
        asked = params.revision
        if params.resource_version and asked < 0:
            raise bad_request(f'resourceVersion: Invalid value: "{params.resource_version}"')
        wants_state = params.send_initial_events
        if wants_state is None:
            # Without a version, or with "0", the state comes first, as if it had been asked for.
            wants_state = asked == 0
        if wants_state and asked > store.revision:
            raise too_large_resource_version(asked, store.revision)
        if not wants_state:
            if not store.is_reachable(self._kind_id, asked) and asked != 0:
                return self._expired(asked), True
            self._sent_revision = asked or store.revision
            return self._pending()
        lines = [
            self._line(ChangeType.ADDED, stored)
            for stored in self._api.select(self._view.kind, self._namespace, params.labels, params.fields)
        ]
        self._sent_revision = store.revision
        if params.bookmarks:
            lines.append(self._view.bookmark(store.revision, {ANNOTATION_INITIAL_EVENTS_END: "true"}))
        return b"".join(lines), False

    async def _follow(self, response: web.StreamResponse) -> None:
        """Send changes and bookmarks until the timeout."""
        loop = asyncio.get_running_loop()
        lifetime_s = self._params.timeout_s
        if lifetime_s is None:
            lifetime_s = DEFAULT_TIMEOUT_S * (1 + random.random())  # noqa: S311 - spreads reconnects
        end = loop.time() + lifetime_s
        bookmark_at = self._next_bookmark(loop.time(), end)
        changed = asyncio.Event()
        stop_waking = self._store.wake_on_change(self._kind_id, changed.set)
        try:
            while loop.time() < end:
                changed.clear()
                data, is_over = self._pending()
                if data:
                    await response.write(data)
                if is_over:
                    return
                if data:
                    continue  # Writing may have waited: look again before sleeping.
                try:
                    async with asyncio.timeout_at(min(end, bookmark_at)):
                        await changed.wait()
                except TimeoutError:
                    now = loop.time()
                    if now < bookmark_at or not self._params.bookmarks:
                        continue
                    # A change may have come in the same moment: it goes out before the bookmark that covers it.
                    data, is_over = self._pending()
                    if not is_over:
                        self._sent_revision = max(self._sent_revision, self._store.revision)
                        data += self._view.bookmark(self._sent_revision)
                    await response.write(data)
                    if is_over:
                        return
                    bookmark_at = self._next_bookmark(now, end)
        finally:
            stop_waking()

    def _next_bookmark(self, now: float, end: float) -> float:
        if not self._params.bookmarks:
            return end
        periodic = now + self._bookmark_interval_s
        before_end = end - _BOOKMARK_BEFORE_END_S
        if now < before_end < periodic:
            return before_end
        return periodic

    def _pending(self) -> tuple[bytes, bool]:
        """What has happened since the last call; True when the history no longer reaches back."""
        try:
            changes = self._store.since(self._kind_id, self._sent_revision)
        except ExpiredError:
            return self._expired(self._sent_revision), True
        if not changes:
            return b"", False
        self._sent_revision = changes[-1].revision
        return b"".join(filter(None, map(self._change, changes))), False

    def _change(self, change: Change) -> bytes:
        current = change.current
        if self._namespace and current.namespace != self._namespace:
            return b""
        labels, fields = self._params.labels, self._params.fields
        if labels is None and fields is None:
            return self._line(change.type, current)
        was_seen = change.previous is not None and matches(change.previous, labels, fields)
        is_seen = change.type is not ChangeType.DELETED and matches(current, labels, fields)
        if is_seen:
            return self._line(ChangeType.MODIFIED if was_seen else ChangeType.ADDED, current)
        if not was_seen:
            return b""
        if change.type is ChangeType.DELETED:
            return self._line(ChangeType.DELETED, current)
        # It has left the selection: the client is shown what it last saw, at the new revision.
        assert change.previous is not None
        last = change.previous.copy()
        last["metadata"]["resourceVersion"] = str(change.revision)
        return self._line(ChangeType.DELETED, Stored(current.namespace, current.name, last, change.revision))

    def _line(self, kind: ChangeType, stored: Stored) -> bytes:
        header, self._header_due = self._header_due, False
        return self._view.event(kind.value, stored, header=header)

    def _expired(self, asked: int) -> bytes:
        error: ApiError = expired(f"too old resource version: {asked} ({self._store.revision})")
        return b'{"type":"ERROR","object":%b}\n' % orjson.dumps(error.status())
