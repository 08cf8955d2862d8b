"""/livez, /readyz, /metrics and /configz over HTTP or HTTPS, answered on the scheduler's own event loop.

Live: the loop answers, inputs do not wait for long, the machine has not failed, and the API server was heard of within
minutes. Ready: all caches are filled and fresh, and no permission is missing. Whoever may read /metrics gets a line for
each problem; all others get the names of the checks, as kube-apiserver words them: problems name claims and namespaces.

Rules of this module
  1. An answer is made after its request came; requests that wait at the same time share an answer.
  2. An answer is made at most once in its gap, and making answers takes at most a tenth of the time; requests wait.
  3. What is always allowed (the probes) is answered without a look at who asks. All else is answered to those only whom
     `readers` let, and never when they cannot say. Who may not read /metrics gets no verdict's reasons; a probe that
     sends no token is answered without a review.

Not here: how many may connect (`connection_limits`), who may read (`readers`).
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final, Generic, TypeAlias, TypeVar

from aiohttp import web

from scheduler.kube.connection_limits import ConnectionLimits, LimitedServer
from scheduler.kube.readers import Readers, Refusal

_T = TypeVar("_T")

Checks: TypeAlias = Mapping[str, Sequence[str]]
"""What is wrong, by the name of what was looked at; nothing where all is well."""

_ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - what a user may give
_SHARE: Final = 10  # an answer takes at most one part in so many of the time
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


_METRICS: Final = "/metrics"
PROBES: Final = ("/healthz", "/readyz", "/livez")  # kube-scheduler's --authorization-always-allow-paths


@dataclass(frozen=True, slots=True)
class HealthLimits(ConnectionLimits):
    """Seconds and counts.

    Attributes:
        metrics_gap_s, verdict_gap_s: Between two answers of /metrics, and of the others.
    """

    metrics_gap_s: float = 0.2
    verdict_gap_s: float = 0.02


DEFAULT_LIMITS: Final = HealthLimits()


class HealthServer:
    """An async context manager that serves while it is open.

    Args:
        address: Where to listen; "0.0.0.0" and "::" both mean all addresses of both families, as in kube-scheduler.
        checks_alive, checks_ready: What is wrong now.
        notes_ready: Lines after the verdict, for those who may read its reasons; they do not change it.
        details_ready: More of them, for those who ask for `?verbose`.
        metrics: The exposition and its content type.
        configuration: What is in force, as JSON.
        tls: What to serve a new connection with; None: plain HTTP.
        readers: Who may read what is not always allowed; None: everybody who can connect.
        always_allowed: Paths, or beginnings of paths with a star at their end.
    """

    def __init__(
        self,
        address: str,
        port: int,
        *,
        checks_alive: Callable[[], Checks],
        checks_ready: Callable[[], Checks],
        notes_ready: Callable[[], Sequence[str]] = tuple,
        details_ready: Callable[[], Sequence[str]] = tuple,
        metrics: Callable[[], tuple[bytes, str]],
        configuration: Callable[[], bytes],
        limits: HealthLimits = DEFAULT_LIMITS,
        tls: Callable[[], SSLContext] | None = None,
        readers: Readers | None = None,
        always_allowed: Sequence[str] = PROBES,
    ) -> None:
        self.port = port
        self._address = address
        self._limits = limits
        self._tls = tls
        self._readers = readers
        alive = _Paced(lambda: _verdict(checks_alive()), limits.verdict_gap_s)
        ready = _Paced(
            lambda: _verdict({**checks_alive(), **checks_ready()}, notes_ready(), details_ready()), limits.verdict_gap_s
        )
        self._answers: dict[str, _Paced[_Answer]] = {
            "/livez": alive,
            "/healthz": alive,
            "/readyz": ready,
            "/configz": _Paced(lambda: _Answer(200, configuration(), "application/json"), limits.metrics_gap_s),
            _METRICS: _Paced(lambda: _Answer(200, *metrics()), limits.metrics_gap_s),
        }
        self._open_to_all = frozenset(path for path in self._answers if _is_among(path, always_allowed))

    async def __aenter__(self) -> HealthServer:
        listening = listen(self._address, self.port)
        self.port = listening[0].getsockname()[1]
        self._server = LimitedServer(self._answer, self._limits, tls=self._tls)
        self._server.serve(listening)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._server.close(1.0)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        paced = self._answers.get(request.path)
        if paced is None:
            return web.Response(status=404, text=f"there are {', '.join(self._answers)}\n")
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        refusal = await self._refusal(request, request.method.lower(), request.path)
        if refusal is not None:
            return web.Response(
                status=refusal.code,
                body=refusal.body,
                headers={"Content-Type": refusal.content_type, "X-Content-Type-Options": "nosniff"},
            )
        sees_all = request.path not in PROBES or await self._refusal(request, "get", _METRICS) is None
        answer = await paced.result()
        is_verbose = "verbose" in request.query
        body = answer.body + is_verbose * answer.details if sees_all else answer.withheld(request.path[1:], is_verbose)
        return web.Response(status=answer.code, body=body, headers={"Content-Type": answer.content_type})

    async def _refusal(self, request: web.BaseRequest, verb: str, path: str) -> Refusal | None:
        """None: whoever sent this may do that."""
        if self._readers is None or path in self._open_to_all:
            return None
        return await self._readers.refusal(request.headers.get("Authorization"), verb, path, request.remote or "")


@dataclass(frozen=True, slots=True)
class _Answer:
    """`checks` of a verdict: their names, and whether all is well there; `details` for who asks for more."""

    code: int
    body: bytes
    content_type: str
    checks: tuple[tuple[str, bool], ...] = ()
    details: bytes = b""

    def withheld(self, name: str, is_verbose: bool) -> bytes:
        """The verdict without its reasons, as kube-apiserver words it."""
        is_well = all(is_ok for _, is_ok in self.checks)
        if is_well and not is_verbose:
            return b"ok\n"
        lines = [f"[+]{one} ok" if is_ok else f"[-]{one} failed: reason withheld" for one, is_ok in self.checks]
        return "\n".join([*lines, f"{name} check {'passed' if is_well else 'failed'}", ""]).encode()


def _is_among(path: str, allowed: Sequence[str]) -> bool:
    return any(path.startswith(one[:-1]) if one.endswith("*") else path == one for one in allowed)


def _verdict(checks: Checks, notes: Sequence[str] = (), details: Sequence[str] = ()) -> _Answer:
    problems = [text for texts in checks.values() for text in texts]
    text = "\n".join([*(problems or ["ok"]), *notes])
    names = (("ping", True), *((name, not texts) for name, texts in checks.items()))
    more = "".join([f"{line}\n" for line in details]).encode()
    return _Answer(503 if problems else 200, f"{text}\n".encode(), "text/plain; charset=utf-8", names, more)


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


def listen(address: str, port: int) -> list[socket.socket]:
    """A socket for each address of this name; a free port is the same for all of them."""
    if address in _ALL_ADDRESSES:
        return [_listen_everywhere(port)]
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, where in socket.getaddrinfo(address, port, type=socket.SOCK_STREAM):
            used = sockets[0].getsockname()[1] if sockets else port
            sockets.append(socket.create_server((where[0], used), family=family))
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


def _listen_everywhere(port: int) -> socket.socket:
    """One socket for IPv6 and IPv4; for IPv4 alone where the system has no IPv6."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    return socket.create_server(("", port))
