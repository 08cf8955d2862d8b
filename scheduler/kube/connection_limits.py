"""An HTTP server with a limited number of connections, over TLS or without.

Rules of this module
  1. At most `connections_max` connections are open, at most `of_one_address_max` of them from one address; those before
     and in their TLS handshake count. What is beyond is closed when it is accepted, but takes the place of the
     connection that has rested longest after an answer, where one has for `head_s`.
  2. A connection has `head_s` for its handshake, as long for its first request's head, from each head `answer_s` for
     the answer to be made, and then `idle_s` to read it and for the next head; `head_s` after an answer that refuses.
     Then it is cut, and its place is free.
  3. A handshake is begun at most once in its gap, in the order in which connections came: handshakes cost the scheduler
     a bounded share of its time.
  4. Of what is no valid HTTP nothing is written, neither into the answer nor into the log: it may hold a token. The log
     gets a count, now and then.

Not here: what is answered (`health`), certificates (`certificates`), who may read (`readers`).

Cost: a TLS handshake takes about 1 ms of CPU, most of it the signature's and the loop's.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from ssl import SSLContext
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

log = logging.getLogger(__name__)

_ACCEPTED_AT_ONCE: Final = 100  # asyncio's
_ACCEPT_PAUSE_S: Final = 0.1
_TELLING_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Counts and seconds (rules 1 to 3); Prometheus asks every 15 to 60 s."""

    connections_max: int = 64
    of_one_address_max: int = 16
    head_s: float = 5.0
    answer_s: float = 75.0
    idle_s: float = 75.0
    handshake_gap_s: float = 0.01


class _Connection(RequestHandler):
    """Tells of what is malformed no more than that it is (rule 4)."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError | web.RequestPayloadError):
            return super().handle_error(request, status, exc, message)
        if isinstance(self._manager, LimitedServer):
            self._manager.note_malformed()
        response = web.Response(status=400, text="this is no valid HTTP request\n")
        response.force_close()
        return response


class LimitedServer(web.Server):
    """aiohttp's server within the limits.

    Args:
        tls: What to serve a new connection with; None: without TLS.
    """

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Any],
        limits: ConnectionLimits,
        *,
        tls: Callable[[], SSLContext] | None = None,
    ) -> None:
        # A request whose client went away waits for nothing any more.
        super().__init__(
            self._limited,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=limits.idle_s,
            lingering_time=0.0,
        )
        self._handler = handler
        self._limits = limits
        self._tls = tls
        self._listening: list[socket.socket] = []
        self._addresses: dict[RequestHandler, str] = {}  # of all connections
        self._beginning: set[asyncio.Task[None]] = set()
        self._cuts: dict[RequestHandler, asyncio.TimerHandle] = {}
        self._resting: dict[RequestHandler, float] = {}  # since when, the longest first
        self._handshake_s = 0.0  # when the last one begins
        self._malformed, self._tell_s = 0, 0.0

    def serve(self, listening: Iterable[socket.socket]) -> None:
        """Accept connections until `close`, which closes the sockets, too."""
        # Python's servers count a connection when its handshake is over, and wait a minute for that.
        for one in listening:
            one.setblocking(False)
            self._listening.append(one)
            self._listen(one)

    async def close(self, timeout_s: float) -> None:
        """Accept nothing more, and end the connections, at the latest after `timeout_s`."""
        for listening in self._listening:
            self._loop.remove_reader(listening)
            listening.close()
        for task in self._beginning:
            task.cancel()
        await asyncio.sleep(0)
        self.pre_shutdown()
        await self.shutdown(timeout_s)

    def note_malformed(self) -> None:
        """What came was no valid HTTP."""
        self._malformed += 1
        if self._loop.time() >= self._tell_s:
            self._tell_s = self._loop.time() + _TELLING_S
            log.warning("requests that are no valid HTTP were refused: %d so far", self._malformed)

    async def _limited(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request of which the head has been read."""
        handler, limits = request.protocol, self._limits
        self._resting.pop(handler, None)
        self._cut_after(handler, limits.answer_s)
        response: web.StreamResponse = await self._handler(request)
        self._cut_after(handler, limits.idle_s if response.status < HTTPStatus.BAD_REQUEST else limits.head_s)
        if handler.transport is not None:
            self._resting[handler] = self._loop.time()
        return response

    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._cut_after(handler, self._limits.head_s)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._addresses.pop(handler, None)
        self._resting.pop(handler, None)
        self._cuts.pop(handler).cancel()
        super().connection_lost(handler, exc)

    def _cut_after(self, handler: RequestHandler, seconds: float) -> None:
        transport = handler.transport
        if transport is None:
            return  # gone already
        if (earlier := self._cuts.get(handler)) is not None:
            earlier.cancel()
        self._cuts[handler] = self._loop.call_later(seconds, transport.abort)

    def _listen(self, listening: socket.socket) -> None:
        if listening.fileno() != -1:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, (address, *_) = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors left
                log.debug("cannot accept a connection: %s", error)
                self._loop.remove_reader(listening)
                self._loop.call_later(_ACCEPT_PAUSE_S, self._listen, listening)
                return
            if not self._has_room(address):
                accepted.close()
                continue
            handler = self()
            self._addresses[handler] = address
            task = self._loop.create_task(self._begin(handler, accepted), name="connection")
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    def _has_room(self, address: str) -> bool:
        limits = self._limits
        is_shared = sum(one == address for one in self._addresses.values()) < limits.of_one_address_max
        if is_shared and len(self._addresses) < limits.connections_max:
            return True
        for one, since_s in self._resting.items():
            if since_s + limits.head_s > self._loop.time():
                break
            if one.transport is not None and (is_shared or self._addresses.get(one) == address):
                one.transport.abort()
                del self._addresses[one], self._resting[one]
                return True
        return False

    async def _begin(self, handler: RequestHandler, accepted: socket.socket) -> None:
        options: dict[str, Any] = {}
        try:
            if self._tls is not None:
                now_s = self._loop.time()
                self._handshake_s = max(now_s, self._handshake_s + self._limits.handshake_gap_s)
                await asyncio.sleep(self._handshake_s - now_s)
                times = {"ssl_handshake_timeout": self._limits.head_s, "ssl_shutdown_timeout": 1.0}
                options = {"ssl": self._tls(), **times}
            with suppress(OSError):  # no TLS, another version, an untrusting client, too slow, gone
                await self._loop.connect_accepted_socket(lambda: handler, accepted, **options)
        finally:
            if handler.transport is None:
                self._addresses.pop(handler, None)
                accepted.close()
