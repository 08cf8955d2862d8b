"""An HTTP proxy in front of an API server, real or embedded, that makes things go wrong on demand.

    async with FaultProxy(upstream=cluster.url, upstream_ssl=cluster.ssl_context(), tls=(cert, key)) as proxy:
        proxy.url                                    # the scheduler talks to this
        proxy.add(Fault("lose-reply", "PATCH", r"/resourceclaims/[^/]+/status$"))
        proxy.cut_watches()
        proxy.hold_watches("pods")                   # open, and nothing comes
        proxy.truncate_watches("pods")               # half of what comes next, then they are cut
        proxy.cut_lines(0.01, seed=7)                # from now on: each line of a watch, whichever, ends it so
        proxy.refuse(); proxy.accept()
        proxy.deny("patch", "resource.k8s.io", "resourceclaims", "binding")  # says a SelfSubjectAccessReview

A client sees what it would see of a bad network or a busy server: nothing is changed in a request or reply
that is passed on. It runs in the caller's event loop. Not here: what the API server itself does wrong
(`ControlPlane.kill_apiserver`).
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import random
import re
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal

import aiohttp
from aiohttp import web

from tests.patience import PATIENCE_S

FaultKind = Literal[
    "lose-request", "lose-reply", "answer", "delay", "before", "hold", "truncate", "duplicate", "late-copy"
]

# Headers that belong to one connection and not to the message.
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "host", "content-length"}


@dataclass(slots=True)
class Fault:
    """What shall happen to the next `times` requests that match.

    Attributes:
        kind: lose-request: cut the connection, the server never sees it. lose-reply: the server does it, the
            client gets a cut connection. answer: the client gets `status` and `body`, the server nothing.
            delay: wait `seconds`, then pass it on. before: await `action(path)`, then pass it on.
            hold: keep it until `release()`, also when the client has gone meanwhile; then pass it on.
            truncate: pass it on; of the first part of the reply (a watch: of what it says first) the client gets half.
            duplicate: the server gets it twice, the client the second reply. late-copy: the client gets the first
            reply, and `seconds` later the server gets the same request again.
        method: exact, or "*".
        path: regular expression, searched in the path with its query.
        times: how often; -1 for ever.
        hits: how often so far.
        happened: set with the first hit; for `before`, when its action is done.
        released: for `hold`: let go what is held.
        answers: for `hold`: the server's HTTP codes, 0 where it did not answer; `answered` with the first.
    """

    kind: FaultKind
    method: str
    path: str
    times: int = 1
    status: int = 500
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    action: Callable[[str], Awaitable[None]] | None = None
    hits: int = 0
    happened: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    answers: list[int] = field(default_factory=list)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def release(self) -> int:
        """For `hold`: let the server have the request now; its HTTP code."""
        self.released.set()
        async with asyncio.timeout(PATIENCE_S):
            await self.answered.wait()
        return self.answers[-1]

    def takes(self, method: str, path: str) -> bool:
        if self.times == 0 or self.method not in ("*", method) or not re.search(self.path, path):
            return False
        self.times -= 1
        self.hits += 1
        if self.kind not in ("before", "hold"):
            self.happened.set()
        return True


def api_failure(status: int, reason: str, message: str) -> bytes:
    """The body of a refusal, as an API server words it; for `Fault("answer", …)`."""
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": status,
        }
    ).encode()


@dataclass(slots=True)
class _Open:
    """A request on its way; `watched` is the resource, where it is a watch; `is_held`: nothing comes of it."""

    request: web.BaseRequest
    task: asyncio.Task[object] | None
    watched: str = ""
    is_held: bool = False
    is_truncated: bool = False

    def cut(self) -> None:
        _cut(self.request)
        if self.task is not None:  # it may be waiting for the server, not for the client
            self.task.cancel()


@dataclass(slots=True)
class FaultProxy:
    """Async context manager; see the module's text.

    Attributes:
        upstream: URL of the API server.
        upstream_ssl: how to trust it; None for plain HTTP.
        tls: certificate and key to serve with; None for plain HTTP.
        seen: how often each (method, resource path without names) was passed on or failed.
    """

    upstream: str
    upstream_ssl: ssl.SSLContext | None = None
    tls: tuple[Path, Path] | None = None
    url: str = ""
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    _faults: list[Fault] = field(default_factory=list)
    _denied: set[tuple[str, str, str, str]] = field(default_factory=set)
    _refusing: bool = False
    _held_watches: set[str] = field(default_factory=set)
    _watches_flow: asyncio.Event = field(default_factory=asyncio.Event)
    _cut_share: float = 0.0
    _cuts: random.Random = field(default_factory=random.Random)
    _open: dict[int, _Open] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _held: set[asyncio.Task[object]] = field(default_factory=set)
    _session: aiohttp.ClientSession | None = None
    _runner: web.ServerRunner | None = None
    _context: ssl.SSLContext | None = None

    async def __aenter__(self) -> FaultProxy:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self.upstream_ssl or True),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._runner = web.ServerRunner(
            web.Server(self._serve, access_log=None, handler_cancellation=True),
            handle_signals=False,
            shutdown_timeout=1,
        )
        await self._runner.setup()
        if self.tls is not None:
            self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._context.load_cert_chain(*map(str, self.tls))
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context).start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.refuse()
        for held in self._held:
            held.cancel()
        await asyncio.gather(*self._held, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    # -- switches ---------------------------------------------------------------------------------------------

    def add(self, fault: Fault) -> Fault:
        """From now on; the first fault that takes a request has it. Returns it, to read `hits`."""
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        self._faults.clear()

    def deny(self, verb: str, group: str, resource: str, subresource: str = "") -> None:
        """Say no to who asks whether it has this right. The requests themselves are passed on."""
        self._denied.add((verb, group, resource, subresource))

    def cut_watches(self, resource: str = "") -> int:
        """Cut the open watches (of one resource, such as "pods"); returns how many."""
        watches = [one for one in self._open.values() if one.watched and resource in one.watched]
        for one in watches:
            one.cut()
        return len(watches)

    def hold_watches(self, *resources: str) -> None:
        """What the open watches of these resources have to say stays here until `let_watches_go`; new ones are free."""
        self._watches_flow.clear()
        self._held_watches.update(resources)
        for one in self._open.values():
            one.is_held = one.watched in self._held_watches

    def let_watches_go(self) -> None:
        self._held_watches.clear()
        self._watches_flow.set()

    def truncate_watches(self, resource: str = "") -> int:
        """Cut the open watches (of one resource) in the middle of what they say next; returns how many."""
        watches = [one for one in self._open.values() if one.watched and resource in one.watched]
        for one in watches:
            one.is_truncated = True
        return len(watches)

    def cut_lines(self, share: float, *, seed: int) -> None:
        """A watch is cut in the middle of a line, at this share of all their lines."""
        self._cut_share, self._cuts = share, random.Random(seed)

    def refuse(self) -> None:
        """Cut every connection and every new one, as if the server were gone, until `accept`."""
        self._refusing = True
        for one in list(self._open.values()):
            one.cut()

    def accept(self) -> None:
        self._refusing = False

    def rotate(self, certificate: Path, key: Path) -> None:
        """Serve with another certificate from now on; open connections are cut."""
        assert self._context is not None, "it serves plain HTTP"
        self._context.load_cert_chain(certificate, key)
        assert self._runner is not None
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    # -- one request ------------------------------------------------------------------------------------------

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        number = next(self._numbers)
        watching = request.query.get("watch") in ("1", "true")
        watched = request.path.rsplit("/", 1)[-1] if watching else ""
        self._open[number] = _Open(request, asyncio.current_task(), watched)
        try:
            return await self._faulty(request)
        except (aiohttp.ClientError, OSError):
            # The server went away, or the client did: the other side must see a cut, not a polite answer.
            return _cut(request)
        finally:
            del self._open[number]

    async def _faulty(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path_qs
        if self._refusing:
            return _cut(request)
        self.seen[request.method, _without_names(request.path)] += 1
        fault = next((fault for fault in self._faults if fault.takes(request.method, path)), None)
        match fault:
            case None if self._denied and request.path.endswith("/selfsubjectaccessreviews"):
                return await self._review(request)
            case None:
                return await self._pass_on(request)
            case Fault(kind="lose-request"):
                return _cut(request)
            case Fault(kind="lose-reply"):
                await self._pass_on(request, reply=False)
                return _cut(request)
            case Fault(kind="answer"):
                headers = {"Content-Type": "application/json", **fault.headers}
                return web.Response(status=fault.status, body=fault.body, headers=headers)
            case Fault(kind="delay"):
                await asyncio.sleep(fault.seconds)
                return await self._pass_on(request)
            case Fault(kind="hold"):
                held = asyncio.create_task(self._hold(fault, request, await request.content.read()))
                self._held.add(held)
                held.add_done_callback(self._held.discard)
                fault.happened.set()
                # Not cancelled with the client's connection: the request is on its way, whoever sent it.
                status, content_type, body = await asyncio.shield(held)
                return web.Response(status=status, body=body, headers={"Content-Type": content_type})
            case Fault(kind="truncate"):
                self._opened(request).is_truncated = True
                return await self._pass_on(request)
            case Fault(kind="duplicate"):
                body = await request.content.read()
                await self._pass_on(request, body, reply=False)
                return await self._pass_on(request, body)
            case Fault(kind="late-copy"):
                body = await request.content.read()
                copy = asyncio.create_task(self._copy(fault, request, body))
                self._held.add(copy)
                copy.add_done_callback(self._held.discard)
                return await self._pass_on(request, body)
            case _:
                assert fault.action is not None, "a fault of kind `before` needs an action"
                await fault.action(path)
                fault.happened.set()
                return await self._pass_on(request)

    async def _review(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        review = json.loads(body)
        asked = review["spec"].get("resourceAttributes") or {}
        if tuple(asked.get(name) or "" for name in ("verb", "group", "resource", "subresource")) not in self._denied:
            return await self._pass_on(request, body)
        return web.json_response({**review, "status": {"allowed": False, "reason": "denied on purpose"}}, status=201)

    async def _hold(self, fault: Fault, request: web.BaseRequest, body: bytes) -> tuple[int, str, bytes]:
        assert self._session is not None
        await fault.released.wait()
        status = 0
        try:
            async with self._session.request(
                request.method,
                self.upstream + request.path_qs,
                headers=[(name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP],
                data=body or None,
            ) as answer:
                status = answer.status
                return status, answer.headers.get("Content-Type", "application/json"), await answer.read()
        finally:
            fault.answers.append(status)
            fault.answered.set()

    async def _copy(self, fault: Fault, request: web.BaseRequest, body: bytes) -> None:
        await asyncio.sleep(fault.seconds)
        with suppress(aiohttp.ClientError, OSError):
            await self._pass_on(request, body, reply=False)
            fault.answered.set()

    def _opened(self, request: web.BaseRequest) -> _Open:
        return next(one for one in self._open.values() if one.request is request)

    async def _pass_on(
        self, request: web.BaseRequest, body: bytes | None = None, *, reply: bool = True
    ) -> web.StreamResponse:
        assert self._session is not None
        if body is None:
            body = await request.content.read()
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP]
        async with self._session.request(
            request.method,
            self.upstream + request.path_qs,
            headers=headers,
            data=io.BytesIO(body) if body else None,
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as answer:
            if not reply:
                await answer.read()
                return web.Response()
            passed = web.StreamResponse(status=answer.status, reason=answer.reason)
            for name, value in answer.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    passed.headers.add(name, value)
            await passed.prepare(request)
            opened = self._opened(request)
            async for chunk in answer.content.iter_any():
                if opened.is_held:
                    await self._watches_flow.wait()
                if opened.is_truncated:
                    await passed.write(chunk[: len(chunk) // 2])
                    return _close(request)
                if opened.watched and (kept := self._before_cut(chunk)) is not None:
                    await passed.write(kept)
                    return _close(request)
                await passed.write(chunk)
            await passed.write_eof()
            return passed

    def _before_cut(self, chunk: bytes) -> bytes | None:
        """What the client gets of a watch before it is cut; None: all, and the watch goes on."""
        kept = 0
        for line in chunk.splitlines(keepends=True):
            if line.endswith(b"\n") and self._cuts.random() < self._cut_share:
                return chunk[: kept + len(line) // 2]
            kept += len(line)
        return None


def _cut(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _close(request: web.BaseRequest) -> web.Response:
    """After what was written has gone out, which `_cut` does not wait for."""
    if request.transport is not None:
        request.transport.close()
    return web.Response()


_NAMED = re.compile(r"/(namespaces|pods|nodes|resourceclaims|resourceslices|deviceclasses|events|leases)/[^/]+")


def _without_names(path: str) -> str:
    return _NAMED.sub(r"/\1/*", path)
