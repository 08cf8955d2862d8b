"""/livez, /readyz, /metrics and /configz over HTTP, answered on the scheduler's own event loop.

Live: the loop answers, inputs do not wait for long, the machine has not failed, and the API server was heard of within
minutes. Ready: all caches are filled and fresh, and no permission is missing. The bodies have a line for each problem,
as kube-scheduler's `?verbose` does.

Rules of this module
  1. An answer is made after its request came; requests that wait at the same time share an answer.
  2. An answer is made at most once in its gap, and making answers takes at most a tenth of the time; requests wait.
  3. There are at most `connections_max` connections. A new connection is always accepted. To make room, an old one is
     cut: of the address that has most connections the one that has been idle longest. So a kubelet's probe always
     gets an answer.
  4. A connection that does not send a request's head in time is cut.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

_T = TypeVar("_T")

_ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - what a user may give
_SWEEP_S: Final = 1.0
_SHARE: Final = 10  # an answer takes at most one part in so many of the time
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """Seconds and counts; the times are for the other side to be slow in.

    Attributes:
        head_s: From the connection to the end of its first request's head.
        idle_s: From an answer to the end of the next request's head; Prometheus asks every 15 to 60 s.
        metrics_gap_s, verdict_gap_s: Between two answers of /metrics, and of the others.
    """

    connections_max: int = 64
    head_s: float = 5.0
    idle_s: float = 75.0
    metrics_gap_s: float = 0.2
    verdict_gap_s: float = 0.02


DEFAULT_LIMITS: Final = HealthLimits()


class HealthServer:
    """An async context manager that serves while it is open.

    Args:
        address: Where to listen; "0.0.0.0" and "::" both mean all addresses of both families, as in kube-scheduler.
        problems_alive, problems_ready: What is wrong now; empty when all is well.
        notes_ready: Lines after the verdict, for people; they do not change it.
        metrics: The exposition and its content type.
        configuration: What is in force, as JSON.
    """

    def __init__(
        self,
        address: str,
        port: int,
        *,
        problems_alive: Callable[[], Sequence[str]],
        problems_ready: Callable[[], Sequence[str]],
        notes_ready: Callable[[], Sequence[str]] = tuple,
        metrics: Callable[[], tuple[bytes, str]],
        configuration: Callable[[], bytes],
        limits: HealthLimits = DEFAULT_LIMITS,
    ) -> None:
        self.port = port
        self._address = address
        self._limits = limits
        alive = _Paced(lambda: _verdict(problems_alive()), limits.verdict_gap_s)
        ready = _Paced(lambda: _verdict([*problems_alive(), *problems_ready()], notes_ready()), limits.verdict_gap_s)
        self._answers: dict[str, _Paced[_Answer]] = {
            "/livez": alive,
            "/healthz": alive,
            "/readyz": ready,
            "/configz": _Paced(lambda: _Answer(200, configuration(), "application/json"), limits.metrics_gap_s),
            "/metrics": _Paced(lambda: _Answer(200, *metrics()), limits.metrics_gap_s),
        }
        self._runner: web.ServerRunner | None = None

    async def __aenter__(self) -> HealthServer:
        limits = self._limits
        self._server = _LimitedServer(
            self._answer, limits, access_log=None, keepalive_timeout=limits.idle_s, lingering_time=0.0
        )
        self._runner = web.ServerRunner(self._server, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            if self._address in _ALL_ADDRESSES:
                site: web.BaseSite = web.SockSite(self._runner, _listen_everywhere(self.port))
            else:
                site = web.TCPSite(self._runner, self._address, self.port)
            await site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._runner is not None:
            self._server.close()
            await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        seat = self._server.seat_of(request)
        if seat is not None:
            seat.is_busy = True
        try:
            paced = self._answers.get(request.path)
            if paced is None:
                return web.Response(status=404, text=f"there are {', '.join(self._answers)}\n")
            if request.method not in {"GET", "HEAD"}:
                return web.Response(status=405, headers={"Allow": "GET, HEAD"})
            answer = await paced.result()
            return web.Response(status=answer.code, body=answer.body, headers={"Content-Type": answer.content_type})
        finally:
            if seat is not None:
                seat.rest(asyncio.get_running_loop().time() + self._limits.idle_s)


@dataclass(frozen=True, slots=True)
class _Answer:
    code: int
    body: bytes
    content_type: str


def _verdict(problems: Sequence[str], notes: Sequence[str] = ()) -> _Answer:
    text = "\n".join([*(problems or ["ok"]), *notes])
    return _Answer(503 if problems else 200, f"{text}\n".encode(), "text/plain; charset=utf-8")


class _Paced(Generic[_T]):
    """Work that is done for all who wait for it at once (rules 1 and 2)."""

    def __init__(self, work: Callable[[], _T], gap_s: float) -> None:
        self._work = work
        self._gap_s = gap_s
        self._next_s = 0.0
        self._waiting: asyncio.Future[_T] | None = None

    async def result(self) -> _T:
        """What the work gives, begun after this was asked for."""
        loop = asyncio.get_running_loop()
        if self._waiting is None:
            if loop.time() >= self._next_s:
                return self._do(loop)
            self._waiting = loop.create_future()
            loop.call_at(self._next_s, self._do_for_all, loop, self._waiting)
        # A client that goes away must not cancel the answer for the others.
        return await asyncio.shield(self._waiting)

    def _do(self, loop: asyncio.AbstractEventLoop) -> _T:
        begun_s = time.perf_counter()  # the loop's clock may stand still within a turn
        try:
            return self._work()
        finally:
            spent_s = time.perf_counter() - begun_s
            self._next_s = loop.time() + max(self._gap_s, spent_s * _SHARE)

    def _do_for_all(self, loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[_T]) -> None:
        self._waiting = None
        try:
            result = self._do(loop)
        except Exception as error:  # for those who asked: aiohttp makes a 500 of it, and logs it
            waiting.set_exception(error)
        else:
            waiting.set_result(result)


@dataclass(slots=True, eq=False)
class _Seat:
    """One connection. `until_s`: when it is cut, unless a request comes."""

    transport: asyncio.Transport
    address: str
    since_s: float
    until_s: float
    is_busy: bool = False

    def rest(self, until_s: float) -> None:
        self.is_busy, self.since_s, self.until_s = False, asyncio.get_running_loop().time(), until_s


class _LimitedServer(web.Server):
    """aiohttp's server, with a limited number of connections (rules 3 and 4)."""

    def __init__(
        self, handler: Callable[[web.BaseRequest], Any], limits: HealthLimits, **protocol_options: Any
    ) -> None:
        super().__init__(handler, **protocol_options)
        self._limits = limits
        self._seats: dict[RequestHandler, _Seat] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    def seat_of(self, request: web.BaseRequest) -> _Seat | None:
        return self._seats.get(request.protocol)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        now_s = self._loop.time()
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        if len(self._seats) >= self._limits.connections_max:
            self._make_room()
        self._seats[handler] = _Seat(transport, address, now_s, now_s + self._limits.head_s)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._seats.pop(handler, None)
        super().connection_lost(handler, exc)

    def _make_room(self) -> None:
        crowded = Counter(seat.address for seat in self._seats.values())
        handler = min(
            self._seats,
            key=lambda one: (-crowded[self._seats[one].address], self._seats[one].is_busy, self._seats[one].since_s),
        )
        self._seats.pop(handler).transport.abort()

    def _sweep(self) -> None:
        self._sweeping = None
        now_s = self._loop.time()
        for handler, seat in list(self._seats.items()):
            if not seat.is_busy and now_s >= seat.until_s:
                del self._seats[handler]
                seat.transport.abort()
        if self._seats:
            self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)

    def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()


def _listen_everywhere(port: int) -> socket.socket:
    """One socket for IPv6 and IPv4; for IPv4 alone where the system has no IPv6."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    return socket.create_server(("", port))
