"""The request layer: one keep-alive connection pool.

Rules of this module
  1. `send` never raises for what the network or the server does: it returns one of four outcomes (`outcomes`).
  2. "Accepted" and "rejected" are certain. A request that may have been executed, or may still arrive, is `Unknown`. So
     is a 5xx, unless an admission webhook was the reason: webhooks are asked before anything is stored.
  3. After 401 the credentials are refreshed once and the request is sent again. So it is when the certificate is not
     trusted and the files have changed since (nothing has been sent then). After 429 it waits as the server asks and
     sends again, a bounded number of times.
  4. No other request is sent twice: a 404 to a DELETE or a 409 to a PUT is never the echo of our own first sending.
  5. A request that may change something is sent only while `may_write` allows it. It is asked before each attempt, and
     again when there is a connection. A request that was not sent is rejected for certain.

Not here: what a reply means (`outcomes`), what is written and why (`executor`), watching (`watch`).

Cost: about 0.15 ms of CPU per request, nearly all of it aiohttp's.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, NamedTuple

import aiohttp
from msgspec import Struct
from multidict import CIMultiDict
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


_NOT_SENT: Final = Rejected(0, "NotLeading", "not sent: this scheduler does not hold its lease", is_retriable=True)


class _NotSentError(aiohttp.ClientError):
    """`may_write` said no."""


class _FencedRequest(aiohttp.ClientRequest):
    """Asks `may_write` when there is a connection: making one can take as long as a lease lasts."""

    may_write: Callable[[], bool]

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        if self.method != "GET" and not self.may_write():
            raise _NotSentError
        return await super().send(conn)


class Timeouts(Struct, frozen=True):
    """Seconds. `total_s` bounds a write from its start to the end of the reply."""

    connect_s: float = 5.0
    total_s: float = 15.0


DEFAULT_TIMEOUTS: Final = Timeouts()


class _Request(NamedTuple):
    method: str
    path: str
    timeout: aiohttp.ClientTimeout
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON


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
        user_agent: str = "dra-scheduler",
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._credentials = credentials
        self._timeouts = timeouts
        self._may_write = may_write
        self.accepted_s: float | None = None  # when a request of `send` was last accepted, by the loop's clock
        self._pause = pause
        # On loopback and in a cluster inflating costs more than the bytes that gzip saves.
        self._headers = {"Accept-Encoding": "identity", "User-Agent": user_agent}
        self._write_timeout = aiohttp.ClientTimeout(total=timeouts.total_s, sock_connect=timeouts.connect_s)
        self._session: aiohttp.ClientSession | None = None

    @property
    def origin(self) -> str:
        """Where the credentials come from, for errors about them."""
        return self._credentials.origin

    async def __aenter__(self) -> ApiClient:
        # We drop idle connections before servers and load balancers do: a write on a connection that the other side is
        # closing has an unknown outcome.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=20, ttl_dns_cache=30)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._write_timeout,
            read_bufsize=1 << 20,
            auto_decompress=False,
            middlewares=(_writes_are_sent_once,),
            request_class=type("FencedRequest", (_FencedRequest,), {"may_write": staticmethod(self._may_write)}),
        )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(
        self, method: str, path: str, body: bytes | None = None, content_type: str = JSON, *, accept: str = JSON
    ) -> WriteResult:
        """One request and what became of it. `path` is everything after the host, already escaped.

        `accept` is the form of the reply; refusals may come in that form as well.
        """
        request = _Request(method, path, self._write_timeout, body, content_type, accept)
        for attempt in range(_THROTTLED_RETRIES_MAX + 1):
            if request.method != "GET" and not self._may_write():
                return _NOT_SENT
            try:
                async with self._request(request) as response:
                    code, reply = response.status, await response.read()
                    retry_after = response.headers.get("Retry-After")
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
            outcome = classify(code, reply, is_deletion=request.method == "DELETE")
            if isinstance(outcome, Accepted):
                self.accepted_s = asyncio.get_running_loop().time()
            is_throttled = isinstance(outcome, Rejected) and outcome.code == HTTPStatus.TOO_MANY_REQUESTS
            if not is_throttled or attempt == _THROTTLED_RETRIES_MAX:
                return outcome
            await self._pause(min(retry_after_s(retry_after, decode_status(reply)), _RETRY_AFTER_S_MAX))
        raise AssertionError("unreachable: the last attempt returns")

    @asynccontextmanager
    async def stream(self, path: str, *, inactivity_s: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """A GET whose body is read as it comes; `inactivity_s` bounds the silence between two reads.

        Raises:
            aiohttp.ClientError, TimeoutError, CredentialsError: No connection, or it was lost.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect_s, sock_read=inactivity_s)
        async with self._request(_Request("GET", path, timeout)) as response:
            yield response

    @asynccontextmanager
    async def _request(self, request: _Request) -> AsyncIterator[aiohttp.ClientResponse]:
        await self._credentials.keep_current()
        generation = self._credentials.generation
        try:
            response = await self._open(request)
        except aiohttp.ClientConnectorCertificateError:
            if not await self._credentials.refresh_if_changed(generation):
                raise
            generation = self._credentials.generation
            response = await self._open(request)
        try:
            if response.status == HTTPStatus.UNAUTHORIZED and await self._credentials.refresh(generation):
                response.release()
                response = await self._open(request)
            yield response
        finally:
            # Gives the connection back when the reply was read to its end, closes it otherwise.
            response.release()

    async def _open(self, request: _Request) -> aiohttp.ClientResponse:
        assert self._session is not None, "use `async with ApiClient(...)`"
        credentials = self._credentials
        headers = CIMultiDict(self._headers)
        headers["Accept"] = request.accept
        if (authorization := credentials.authorization()) is not None:
            headers["Authorization"] = authorization
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        for name, value in credentials.impersonation:
            headers.add(name, value)
        return await self._session.request(
            request.method,
            URL(credentials.url + request.path, encoded=True),
            data=request.body,
            headers=headers,
            timeout=request.timeout,
            ssl=credentials.tls,
            server_hostname=credentials.server_hostname,
            proxy=credentials.proxy,
            allow_redirects=False,
        )


async def _writes_are_sent_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keeps aiohttp from sending a PUT or DELETE again by itself when its connection is lost (rule 4).

    It repeats what RFC 9110 calls idempotent after ClientOSError and ServerDisconnectedError, and has no option for
    it; a middleware is asked about each attempt, and other errors than these end the request. A GET may be repeated.
    """
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise  # never sent, and not repeated
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method == "GET":
            raise
        raise aiohttp.ClientConnectionError(str(error) or type(error).__name__) from error


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
