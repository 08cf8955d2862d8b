"""The page over HTTP: its files, its answers as JSON, and an event when they are others.

Rules of this module
  1. Nothing is written anywhere. GET and HEAD, and POST for a question that is too long for an address.
  2. A request is answered where its Host is an address that is served, so that no other site's name leads here (DNS
     rebinding), and its Origin, where it has one, is this page; POST needs one. What another site embeds of the answers
     is refused, where the browser says that it is one.
  3. The page loads nothing from elsewhere and runs no inline script or style (Content-Security-Policy); its import map,
     which browsers take inline only, is allowed by its hash.
  4. A client that listens gets the newest version, never a queue of them; so many listen at once, and no more.
  5. Where `guard` has readers, answers and events are for those whom they let; who listens is asked about again now and
     then. The files are for everybody: there is nothing of the cluster in them.

Not here: what answers say (`responses`), how they are made (`data_source`).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from http import HTTPStatus
from importlib import resources
from typing import Final

import msgspec
from aiohttp import web

from scheduler.explain import NotThereError
from scheduler.explain.waiting import Key
from scheduler.kube.connection_limits import ConnectionLimits, LimitedServer
from scheduler.kube.health import listen
from scheduler.kube.serving import Guard
from scheduler.ui.answers import About
from scheduler.ui.data_source import Source, UnreadableError
from scheduler.ui.responses import Document, Shape
from scheduler.ui.what_if import MANIFEST_MAX, BusyError, WhatIf, WhatIfRequest, WrongQuestionError

LIMITS: Final = ConnectionLimits(connections_max=128, of_one_address_max=64, answer_s=3600.0)
"""So long may somebody listen; all else is answered within its steps, and a body has as long as a head."""
_LISTENERS_MAX: Final = 32
_LISTENING_S: Final = 600.0
"""Then a page listens anew, with its token."""
_BEAT_S: Final = 15.0
"""A line so often, that shows both ends that the other is there."""
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
}
_POLICY: Final = (
    "default-src 'self'; script-src 'self' {}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'; require-trusted-types-for 'script'"
)
_IMPORT_MAP: Final = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)
_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_REFUSALS: Final[Mapping[type[Exception], tuple[HTTPStatus, str]]] = {
    NotThereError: (HTTPStatus.NOT_FOUND, ""),
    WrongQuestionError: (HTTPStatus.BAD_REQUEST, ""),
    UnreadableError: (HTTPStatus.BAD_GATEWAY, ""),
    BusyError: (HTTPStatus.TOO_MANY_REQUESTS, ""),
    TimeoutError: (HTTPStatus.REQUEST_TIMEOUT, f"the manifest did not come within {LIMITS.head_s:g} s"),
    MemoryError: (HTTPStatus.SERVICE_UNAVAILABLE, "this question needs more memory than the page has"),
}
"""What errors are answered with; without a text of its own, the error's."""
_GZIP_FROM: Final = 1_000
_DIGITS_MAX: Final = 18
_PATH: Final = "/api/"
_WHAT_IF: Final = "whatif"


def static_files() -> Mapping[str, bytes]:
    """The page's files by path; read once, so that a request can name no other."""
    root = resources.files("scheduler.ui") / "static"
    found: dict[str, bytes] = {}

    def add(folder: resources.abc.Traversable, path: str) -> None:
        for one in folder.iterdir():
            if one.is_dir():
                add(one, f"{path}{one.name}/")
            elif one.name.rpartition(".")[2] in _TYPES:
                found[f"{path}{one.name}"] = one.read_bytes()

    add(root, "/")
    found["/"] = found["/index.html"]
    return found


class UiServer:
    """An async context manager that serves while it is open.

    Args:
        address: Where to listen, and the host that a request names, beside `hosts`.
        hosts: Other names by which this page is reached (an ingress, a service).
        guard: What to serve with, and who may read the answers; by default without TLS, everybody who can connect.
    """

    def __init__(
        self,
        source: Source,
        address: str = "127.0.0.1",
        port: int = 0,
        *,
        hosts: Collection[str] = (),
        guard: Guard = Guard(),  # noqa: B008 - immutable
    ) -> None:
        self.port = port
        self._source: Final = source
        self._address: Final = address
        self._hosts: Final = frozenset({"localhost", "127.0.0.1", "[::1]", address, *hosts})
        self._guard: Final = guard
        self._files: Final = static_files()
        self._headers: Final = {**_HEADERS, "Content-Security-Policy": _policy(self._files["/"])}
        self._listeners = 0
        self._answers: Final[Mapping[str, Callable[[web.BaseRequest], Awaitable[Document | About]]]] = {
            "about": self._about,
            "overview": lambda request: source.overview(_after(request)),
            "devices": lambda request: source.devices(_shape(request), _after(request)),
            "device": lambda request: source.device(
                (request.query.get("driver", ""), request.query.get("pool", ""), request.query.get("name", "")),
                _after(request),
            ),
            "pending": lambda request: source.pending(_after(request)),
            "pod": lambda request: source.pod(
                (request.query.get("namespace", ""), request.query.get("name", "")), _after(request)
            ),
            _WHAT_IF: self._if,
        }
        self._what_if: Final = WhatIf(source)

    async def __aenter__(self) -> UiServer:
        listening = listen(self._address, self.port)
        self.port = listening[0].getsockname()[1]
        self._server = LimitedServer(self._answer, LIMITS, tls=self._guard.tls)
        self._server.serve(listening)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._server.close(1.0)

    @property
    def url(self) -> str:
        host = f"[{self._address}]" if ":" in self._address else self._address
        return f"http{'s' if self._guard.tls is not None else ''}://{host}:{self.port}/"

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        is_question = request.method == "POST" and request.path == f"{_PATH}{_WHAT_IF}"
        if request.method not in {"GET", "HEAD"} and not is_question:
            return _said(HTTPStatus.METHOD_NOT_ALLOWED, "this page only reads: GET and HEAD", {"Allow": "GET, HEAD"})
        host = request.headers.get("Host", "")
        if self._name_in(host) not in self._hosts:
            return _said(HTTPStatus.MISDIRECTED_REQUEST, f"this page is not served as {host!a}; --host NAME allows it")
        origin = request.headers.get("Origin")
        is_foreign = origin.partition("://")[2] != host if origin is not None else is_question
        is_embedded = request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}
        if is_foreign or (is_embedded and request.path.startswith(_PATH)):
            return _said(HTTPStatus.FORBIDDEN, "other sites may not read this page")
        if not request.path.startswith(_PATH):
            return self._file(request)
        if self._guard.readers is not None:
            token = request.headers.get("Authorization")
            refusal = await self._guard.readers.refusal(token, "get", "/metrics", request.remote or "")
            if refusal is not None:
                return web.Response(status=refusal.code, body=refusal.body, headers=_HEADERS)
        name = request.path.removeprefix(_PATH)
        if name == "events":
            return await self._events(request)
        make = self._answers.get(name)
        if make is None:
            return _said(HTTPStatus.NOT_FOUND, f"there are {', '.join((*self._answers, 'events'))}")
        try:
            body = msgspec.json.encode(await make(request))
        except tuple(_REFUSALS) as error:
            code, text = next(said for kind, said in _REFUSALS.items() if isinstance(error, kind))
            return _said(code, text or str(error))
        response = web.Response(body=body, content_type="application/json", headers=self._headers)
        if len(body) > _GZIP_FROM:
            response.enable_compression()
        return response

    @staticmethod
    def _name_in(host: str) -> str:
        name, colon, port = host.rpartition(":")
        return name if colon and port.isdigit() else host

    def _file(self, request: web.BaseRequest) -> web.Response:
        body = self._files.get(request.path)
        if body is None:
            return _said(HTTPStatus.NOT_FOUND, f"there is no {request.path!a}")
        kind = _TYPES[request.path.rpartition(".")[2] if "." in request.path else "html"]
        return web.Response(body=body, headers={**self._headers, "Content-Type": kind})

    async def _about(self, _: web.BaseRequest) -> About:
        return About(source=self._source.name, live=self._source.is_live, problems=tuple(self._source.problems()))

    async def _if(self, request: web.BaseRequest) -> Document:
        query = request.query
        manifest = ""
        if request.method == "POST":
            raw = b""
            async with asyncio.timeout(LIMITS.head_s):
                while len(raw) <= MANIFEST_MAX and (part := await request.content.readany()):
                    raw += part
            try:
                manifest = raw.decode()
            except UnicodeDecodeError as error:
                raise WrongQuestionError(f"the manifest is not UTF-8 text (byte {error.start})") from error
        question = WhatIfRequest(
            manifest,
            pod=_pod_in(query.get("pod", "")),
            copies=_number(query.get("copies", "1")) or 0,
            without=query.get("without", ""),
            room=_pod_in(query.get("room", "")),
            drain=query.get("drain", ""),
        )
        found = await self._what_if.answer(question)
        return {**found, "now": await self._source.given_out()}

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        """The version now, and each newer one (rule 4)."""
        if self._listeners >= _LISTENERS_MAX:
            return _said(HTTPStatus.SERVICE_UNAVAILABLE, f"{_LISTENERS_MAX} pages listen already")
        headers = {**self._headers, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return web.Response(headers=headers)
        response = web.StreamResponse(headers=headers)
        self._listeners += 1
        newer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        newer.set_result(self._source.version)
        try:
            await response.prepare(request)
            end_s = asyncio.get_running_loop().time() + _LISTENING_S
            while self._guard.readers is None or asyncio.get_running_loop().time() < end_s:
                # Not ended with the beat: each wait begins with the source's rest.
                if not (await asyncio.wait([newer], timeout=_BEAT_S))[0]:
                    await response.write(b": still here\n\n")
                    continue
                version = newer.result()
                newer = asyncio.ensure_future(self._source.changed_since(version))
                said = json.dumps({"version": version, "problems": list(self._source.problems())})
                await response.write(f"event: version\ndata: {said}\n\n".encode())
            return response
        except (ConnectionError, asyncio.CancelledError):
            return response
        finally:
            newer.cancel()
            self._listeners -= 1


def _after(request: web.BaseRequest) -> int:
    """The version of the answer that the page has; -1: none."""
    said = _number(request.query.get("after", ""))
    return -1 if said is None else said


def _shape(request: web.BaseRequest) -> Shape:
    return Shape(**{name: request.query.get(name, "") for name in Shape._fields})


def _number(said: str) -> int | None:
    return int(said) if said.isascii() and said.isdigit() and len(said) < _DIGITS_MAX else None


def _pod_in(said: str) -> Key | None:
    """`NAMESPACE/NAME`."""
    namespace, _, name = said.partition("/")
    return (namespace, name) if said else None


def _policy(page: bytes) -> str:
    found = _IMPORT_MAP.search(page)
    assert found is not None
    return _POLICY.format(f"'sha256-{base64.b64encode(hashlib.sha256(found[1]).digest()).decode()}'")


def _said(code: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=code, text=f"{text}\n", headers={**_HEADERS, **(headers or {})})
