"""The request layer: one keep-alive connection pool.

Rules of this module
  1. `send` never raises for what the network or the server does: it returns one of four outcomes (`outcomes`).
  2. "Accepted" and "rejected" are certain. A request that may have been executed, or may still arrive, is `Unknown`. So
     is a 5xx, unless an admission webhook was the reason: webhooks are asked before anything is stored.
  3. After 401 the credentials are refreshed once and the request is sent again. So it is when the certificate is not
     trusted and the files have changed since (nothing has been sent then). After 429 it waits as the server asks and
     sends again, a bounded number of times.
  4. No other write is sent twice: a 404 to a DELETE or a 409 to a PUT is never the echo of our own first sending. A
     read whose connection was lost before its reply is.
  5. A request that may change something is sent only while `may_write` allows it. It is asked before each attempt, and
     again when there is a connection. A request that was not sent is rejected for certain.

Not here: what a reply means (`outcomes`), what is written and why (`executor`), watching (`watch`).

Cost: about 0.09 ms of CPU per request with TLS. With aiohttp's session, which has no part in what we ask, it was 0.19;
so requests are written and read here, on connections of its pool.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, NamedTuple

import aiohttp
import aiohttp.http
from aiohttp.connector import Connection
from msgspec import Struct
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from scheduler.kube.credentials import Credentials, CredentialsError
from scheduler.kube.outcomes import (
    JSON,
    Accepted,
    Rejected,
    Unknown,
    WriteResult,
    classify,
    decode_status,
    retry_after_s,
)

_THROTTLED_RETRIES_MAX: Final = 3
_RETRY_AFTER_S_MAX: Final = 10.0
_BREAKS: Final = re.compile(r"[\r\n\0]")  # would end a header, and begin another

_NOT_SENT: Final = Rejected(0, "NotLeading", "not sent: this scheduler does not hold its lease", is_retriable=True)


class _NotSentError(aiohttp.ClientError):
    """`may_write` said no."""


class Timeouts(Struct, frozen=True):
    """Seconds. `total_s` bounds a write from its start to the end of the reply."""

    connect_s: float = 5.0
    total_s: float = 15.0


DEFAULT_TIMEOUTS: Final = Timeouts()


class _Request(NamedTuple):
    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    inactivity_s: float | None = None  # of a stream


class Reply(NamedTuple):
    """A reply. Of a stream that is accepted the body is in `content`, as it comes; else in `body`."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    content: aiohttp.StreamReader
    connection: Connection


class ApiClient:
    """One HTTP session with one API server. An async context manager; all methods are for one event loop.

    Args:
        may_write: Whether what may change something may be sent now; see `lease`.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        may_write: Callable[[], bool] = lambda: True,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._credentials = credentials
        self._timeouts = timeouts
        self._may_write = may_write
        self.accepted_s: float | None = None  # when a request of `send` was last accepted, by the loop's clock
        self._pause = pause
        self._connect_timeout = aiohttp.ClientTimeout(total=None, sock_connect=timeouts.connect_s)
        self._connector: aiohttp.TCPConnector | None = None
        self._opening: aiohttp.ClientRequest | None = None
        self._opening_generation = 0  # of the credentials in it

    @property
    def origin(self) -> str:
        """Where the credentials come from, for errors about them."""
        return self._credentials.origin

    async def __aenter__(self) -> ApiClient:
        # We drop idle connections before servers and load balancers do: a write on a connection that the other side is
        # closing has an unknown outcome.
        self._connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=20, ttl_dns_cache=30)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._connector is not None:
            await self._connector.close()
            self._connector = None

    async def send(
        self, method: str, path: str, body: bytes | None = None, content_type: str = JSON, *, accept: str = JSON
    ) -> WriteResult:
        """One request and what became of it. `path` is everything after the host, already escaped.

        `accept` is the form of the reply; refusals may come in that form as well.
        """
        request = _Request(method, path, body, content_type, accept)
        for attempt in range(_THROTTLED_RETRIES_MAX + 1):
            if request.method != "GET" and not self._may_write():
                return _NOT_SENT
            try:
                reply = await self._answer(request)
            except (
                aiohttp.ClientConnectorError,
                aiohttp.ConnectionTimeoutError,
                aiohttp.ClientHttpProxyError,
            ) as error:
                return Rejected(0, "NoConnection", text_of(error), is_retriable=True)
            except CredentialsError as error:
                # An exec plugin or a token file that is being replaced may work the next time.
                return Rejected(0, "NoCredentials", str(error), is_retriable=True)
            except _NotSentError:
                return _NOT_SENT
            except aiohttp.InvalidURL as error:
                return Rejected(0, "InvalidURL", describe(error), is_configuration=True)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                return Unknown(text_of(error))
            outcome = classify(reply.status, reply.body, is_deletion=request.method == "DELETE")
            if isinstance(outcome, Accepted):
                self.accepted_s = asyncio.get_running_loop().time()
            is_throttled = isinstance(outcome, Rejected) and outcome.code == HTTPStatus.TOO_MANY_REQUESTS
            if not is_throttled or attempt == _THROTTLED_RETRIES_MAX:
                return outcome
            wait_s = retry_after_s(reply.headers.get("Retry-After"), decode_status(reply.body))
            await self._pause(min(wait_s, _RETRY_AFTER_S_MAX))
        raise AssertionError("unreachable: the last attempt returns")

    @asynccontextmanager
    async def stream(self, path: str, *, inactivity_s: float) -> AsyncIterator[Reply]:
        """A GET whose body is read as it comes; `inactivity_s` bounds the silence between two reads.

        Raises:
            aiohttp.ClientError, TimeoutError, CredentialsError: No connection, or it was lost.
        """
        reply = await self._answer(_Request("GET", path, inactivity_s=inactivity_s))
        try:
            yield reply
        finally:
            reply.connection.release()  # kept when the reply was read to its end, closed otherwise

    async def _answer(self, request: _Request) -> Reply:
        """The reply that newer credentials do not change."""
        await self._credentials.keep_current()
        generation = self._credentials.generation
        try:
            reply = await self._open(request)
        except aiohttp.ClientConnectorCertificateError:
            if not await self._credentials.refresh_if_changed(generation):
                raise
            generation = self._credentials.generation
            reply = await self._open(request)
        if reply.status == HTTPStatus.UNAUTHORIZED and await self._credentials.refresh(generation):
            reply = await self._open(request)
        return reply

    async def _open(self, request: _Request) -> Reply:
        """A read whose connection is lost before the reply is sent once more: a kept connection may just have ended."""
        is_last = request.method != "GET"
        while True:
            try:
                async with asyncio.timeout(self._timeouts.total_s if request.inactivity_s is None else None):
                    return await self._exchange(request)
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
                if is_last or isinstance(error, aiohttp.ClientConnectorError):
                    raise
                is_last = True

    async def _exchange(self, request: _Request) -> Reply:
        assert self._connector is not None, "use `async with ApiClient(...)`"
        opening = self._opening
        if opening is None or self._opening_generation != self._credentials.generation:
            opening, self._opening_generation = _opening(self._credentials), self._credentials.generation
            self._opening = opening
        try:
            connection = await self._connector.connect(opening, [], self._connect_timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"Connection timeout to host {opening.url}") from error
        try:
            # Making a connection can take as long as a lease lasts.
            if request.method != "GET" and not self._may_write():
                raise _NotSentError
            protocol, transport = connection.protocol, connection.transport
            if protocol is None or transport is None:
                raise aiohttp.ServerDisconnectedError
            protocol.set_response_params(
                read_until_eof=True, auto_decompress=False, read_timeout=request.inactivity_s, read_bufsize=1 << 20
            )
            transport.write(_encode(request, opening))
            protocol.start_timeout()
            head, content = await protocol.read()
            while head.code < HTTPStatus.OK and head.code != HTTPStatus.SWITCHING_PROTOCOLS:
                head, content = await protocol.read()
            body = b""
            if request.inactivity_s is None or head.code != HTTPStatus.OK:
                body = await content.read()
                connection.release()
            return Reply(head.code, head.headers, body, content, connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, aiohttp.http.HttpProcessingError):
                raise aiohttp.ClientPayloadError(f"no HTTP reply: {error.message}") from error
            raise


def _opening(credentials: Credentials) -> aiohttp.ClientRequest:
    """What aiohttp's connector makes connections for, with the headers of all requests."""
    url = URL(credentials.url, encoded=True)
    if url.scheme not in {"http", "https"}:
        raise aiohttp.InvalidURL(url, "neither http nor https")
    # On loopback and in a cluster inflating costs more than the bytes that gzip saves.
    headers = CIMultiDict({"Accept-Encoding": "identity", "User-Agent": "dra-scheduler"})
    if (authorization := credentials.authorization()) is not None:
        headers["Authorization"] = authorization
    for name, value in credentials.impersonation:
        headers.add(name, value)
    return aiohttp.ClientRequest(
        "GET",
        url,
        headers=headers,
        skip_auto_headers=("Accept",),
        ssl=credentials.tls,
        server_hostname=credentials.server_hostname,
        proxy=URL(credentials.proxy) if credentials.proxy else None,
        loop=asyncio.get_running_loop(),
    )


def _encode(request: _Request, opening: aiohttp.ClientRequest) -> bytes:
    """The request as it is sent, when there is a connection: a proxy's authorization comes into `opening` with that."""
    url, body = opening.url, request.body or b""
    base = str(url) if opening.proxy is not None and not opening.is_ssl() else url.raw_path
    lines = [f"{request.method} {base.rstrip('/')}{request.path} HTTP/1.1", f"Accept: {request.accept}"]
    lines += [f"{name}: {value}" for name, value in opening.headers.items()]
    if request.body is not None:
        lines.append(f"Content-Type: {request.content_type}")
    if request.method != "GET":
        lines.append(f"Content-Length: {len(body)}")
    if _BREAKS.search("".join(lines)):
        raise aiohttp.InvalidURL(request.path, "a line break in it or in the credentials")
    return "\r\n".join((*lines, "", "")).encode() + body


def describe(error: BaseException) -> str:
    """What went wrong with a connection, for people."""
    match error:
        case CredentialsError():
            return str(error)
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
            return f"the certificate of {error.host}:{error.port} is not trusted: {why}"
        case aiohttp.ClientConnectorDNSError():
            return f"cannot find host {error.host}: {error.os_error.strerror or error.os_error}"
        case aiohttp.ClientConnectorSSLError():
            return f"cannot connect to {error.host}:{error.port} with TLS: {_why(error.os_error)}"
        case aiohttp.ClientProxyConnectionError():
            return f"cannot connect to the proxy {error.host}:{error.port}: {_why(error.os_error)}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {error.host}:{error.port}: {_why(error.os_error)}"
        case _:
            return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def text_of(error: BaseException) -> str:
    """The same of an error that nobody handles further, without its frames from now on.

    aiohttp's reader keeps the error that ended it, and the error's frames the reader: a cycle for each connection that
    is lost, of some kilobytes. The collector looks at what is that old after hours only (`garbage_collector`).
    """
    text = describe(error)
    linked: list[BaseException | None] = [error]
    while linked:
        one = linked.pop()
        if one is not None and one.__traceback__ is not None:
            one.__traceback__ = None
            linked += (one.__cause__, one.__context__)
    return text


def _why(error: OSError) -> str:
    # aiohttp's and asyncio's own texts repeat host and port.
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
