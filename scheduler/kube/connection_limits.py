"""An HTTP server with a limited number of connections, over TLS or without.

Rules of this module
  1. At most `connections_max` connections are open, at most `of_one_address_max` of them from one address; those before
     and in their TLS handshake count. What is beyond is closed when it is accepted.
  2. A connection has `head_s` for its handshake, as long for its first request's head, and from each head `idle_s` for
     the answer and the next head. Then it is cut, and its place is free.
  3. A handshake is begun at most once in its gap, in the order in which connections came: handshakes cost the scheduler
     a bounded share of its time.

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
from ssl import SSLContext
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

log = logging.getLogger(__name__)

_ACCEPTED_AT_ONCE: Final = 100  # asyncio's
_ACCEPT_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Counts and seconds (rules 1 to 3); Prometheus asks every 15 to 60 s."""

    connections_max: int = 64
    of_one_address_max: int = 16
    head_s: float = 5.0
    idle_s: float = 75.0
    handshake_gap_s: float = 0.01


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
            handler, handler_cancellation=True, access_log=None, keepalive_timeout=limits.idle_s, lingering_time=0.0
        )
        self._limits = limits
        self._tls = tls
        self._listening: list[socket.socket] = []
        self._addresses: dict[RequestHandler, str] = {}  # of all connections
        self._beginning: set[asyncio.Task[None]] = set()
        self._cuts: dict[RequestHandler, asyncio.TimerHandle] = {}
        self._handshake_s = 0.0  # when the last one begins

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

    def note_head(self, request: web.BaseRequest) -> None:
        """The head of a request has been read."""
        self._cut_after(request.protocol, self._limits.idle_s)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._cut_after(handler, self._limits.head_s)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._addresses.pop(handler, None)
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
        of_this = sum(one == address for one in self._addresses.values())
        return len(self._addresses) < self._limits.connections_max and of_this < self._limits.of_one_address_max

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
