"""An HTTP server with a limited number of connections, over TLS or without: a crowd keeps no kubelet's probe out.

Rules of this module
  1. There are at most `connections_max` connections, those whose TLS handshake is not over among them. A new one is
     always accepted. To make room, an old one is cut: of the address that has most connections the one that has been
     idle longest. So a kubelet's probe always gets an answer.
  2. A connection that does not send a request's head in time is cut; the handshake is part of that time.
  3. A handshake is begun at most once in its gap, of all that wait the one of the address with the fewest connections:
     handshakes cost the scheduler a bounded share of its time.

Not here: what is answered (`health`), certificates (`certificates`), who may read (`readers`).

Cost: a TLS handshake takes about 1 ms of CPU, most of it the signature's and the loop's.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from ssl import SSLContext
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

log = logging.getLogger(__name__)

_SWEEP_S: Final = 1.0
_ACCEPT_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Seconds and counts; the times are for the other side to be slow in.

    Attributes:
        head_s: From the connection to the end of its first request's head.
        idle_s: From an answer to the end of the next request's head; Prometheus asks every 15 to 60 s.
        handshake_gap_s: Between the beginnings of two TLS handshakes.
    """

    connections_max: int = 64
    head_s: float = 5.0
    idle_s: float = 75.0
    handshake_gap_s: float = 0.01


@dataclass(slots=True, eq=False)
class Seat:
    """One connection. `until_s`: when it is cut, unless a request comes."""

    cut: Callable[[], object]
    address: str
    until_s: float
    is_busy: bool = False


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
        self._seats: dict[RequestHandler, Seat] = {}  # in the order in which they became idle
        self._crowds: Counter[str] = Counter()  # how many of each address
        self._sweeping: asyncio.TimerHandle | None = None
        self._waiting: dict[RequestHandler, socket.socket] = {}  # for their handshakes
        self._shaking: dict[RequestHandler, asyncio.Task[None]] = {}
        self._next_handshake: asyncio.TimerHandle | None = None
        self._accepting: list[asyncio.Task[None]] = []

    def seat_of(self, request: web.BaseRequest) -> Seat | None:
        return self._seats.get(request.protocol)

    def rest(self, request: web.BaseRequest) -> None:
        """The request is answered: its connection is idle again, if it is still there."""
        if (seat := self._seats.pop(request.protocol, None)) is not None:
            seat.is_busy, seat.until_s = False, self._loop.time() + self._limits.idle_s
            self._seats[request.protocol] = seat

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if (seat := self._seats.get(handler)) is not None:
            seat.cut = transport.abort  # its handshake is over
        elif self._tls is None:
            peer = transport.get_extra_info("peername")
            self._sit(handler, str(peer[0]) if isinstance(peer, tuple) and peer else "", transport.abort)
        else:
            transport.abort()  # cut during its handshake

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._leave(handler)
        super().connection_lost(handler, exc)

    def _sit(self, handler: RequestHandler, address: str, cut: Callable[[], object]) -> None:
        if len(self._seats) >= self._limits.connections_max:
            self._make_room()
        self._seats[handler] = Seat(cut, address, self._loop.time() + self._limits.head_s)
        self._crowds[address] += 1
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)

    def _leave(self, handler: RequestHandler) -> Seat | None:
        seat = self._seats.pop(handler, None)
        if seat is not None:
            self._crowds[seat.address] -= 1
            if not self._crowds[seat.address]:
                del self._crowds[seat.address]
        return seat

    def _cut(self, handler: RequestHandler) -> None:
        if (seat := self._leave(handler)) is not None:
            seat.cut()

    def _make_room(self) -> None:
        # A flood makes thousands of connections a second: no look at all seats where the first one will do.
        most = max(self._crowds.values())
        crowd = (one for one, seat in self._seats.items() if self._crowds[seat.address] == most)
        first = next(crowd)
        idle = (one for one in itertools.chain((first,), crowd) if not self._seats[one].is_busy)
        self._cut(next(idle, first))

    def _sweep(self) -> None:
        self._sweeping = None
        now_s = self._loop.time()
        for handler, seat in list(self._seats.items()):
            if not seat.is_busy and now_s >= seat.until_s:
                self._cut(handler)
        if self._seats:
            self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)

    def serve(self, listening: Iterable[socket.socket]) -> None:
        """Accept connections for TLS until `close`, which closes the sockets, too."""
        self._accepting = [self._loop.create_task(self._accept(one), name="accept") for one in listening]

    async def _accept(self, listening: socket.socket) -> None:
        # Python's servers count a connection when its handshake is over. Here it is a socket that nothing is read from
        # until its turn comes.
        listening.setblocking(False)
        with listening:
            while True:
                try:
                    accepted, peer = await self._loop.sock_accept(listening)
                except OSError as error:  # gone again, or no descriptors left
                    log.debug("cannot accept a connection: %s", error)
                    await asyncio.sleep(_ACCEPT_PAUSE_S)
                    continue
                handler = self()
                self._waiting[handler] = accepted
                self._sit(handler, str(peer[0]), partial(self._forget, handler))
                if self._next_handshake is None:
                    self._begin_handshake()

    def _forget(self, handler: RequestHandler) -> None:
        """Cut before its handshake is over."""
        if (accepted := self._waiting.pop(handler, None)) is not None:
            accepted.close()
        elif (task := self._shaking.get(handler)) is not None:
            task.cancel()

    def _begin_handshake(self) -> None:
        self._next_handshake = None
        if not self._waiting:
            return
        # Of equals the first, which has waited longest.
        handler = min(self._waiting, key=lambda one: self._crowds[self._seats[one].address])
        task = self._loop.create_task(self._shake_hands(handler, self._waiting.pop(handler)), name="handshake")
        self._shaking[handler] = task
        task.add_done_callback(lambda _: self._shaking.pop(handler, None))
        self._next_handshake = self._loop.call_later(self._limits.handshake_gap_s, self._begin_handshake)

    async def _shake_hands(self, handler: RequestHandler, accepted: socket.socket) -> None:
        assert self._tls is not None
        try:
            await self._loop.connect_accepted_socket(
                lambda: handler,
                accepted,
                ssl=self._tls(),
                ssl_handshake_timeout=self._limits.head_s,
                ssl_shutdown_timeout=1.0,
            )
        except OSError:  # no TLS, another version, an untrusting client, too slow, gone
            self._leave(handler)
            accepted.close()

    def close(self) -> None:
        for timer in (self._sweeping, self._next_handshake):
            if timer is not None:
                timer.cancel()
        for task in self._accepting:
            task.cancel()
        for handler in [*self._waiting, *self._shaking]:
            self._forget(handler)
