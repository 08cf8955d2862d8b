"""An HTTP server that answers from a script, as an API server in trouble would.

Each request takes the next answer of the script; when the script is used up, watches stay open and silent.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from scheduler.core.ground.inputs import Input, RelistFinished
from scheduler.kube.credentials import Connection, Credentials
from tests.patience import PATIENCE_S

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Asked:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    header_pairs: tuple[tuple[str, str], ...] = ()

    def all_headers(self, name: str) -> list[str]:
        """The values of a header that may be there several times."""
        return [value for other, value in self.header_pairs if other.lower() == name.lower()]


def _decoded(body: bytes) -> Any:
    """JSON as an object, protobuf as it is."""
    if not body:
        return None
    return body if body.startswith(b"k8s\x00") else json.loads(body)


@dataclass
class Misbehaving:
    """The server; `url` once it is open."""

    script: deque[Answer] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def answer(self, *answers: Answer) -> None:
        self.script.extend(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(
            Asked(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                _decoded(body),
                tuple(request.headers.items()),
            )
        )
        self.changed.set()
        answer = self.script.popleft() if self.script else watch(then="hang")
        response = await answer(request)
        return response

    async def asked_for(self, count: int) -> None:
        """Wait until `count` requests have come."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.asked) < count:
                self.changed.clear()
                await self.changed.wait()


SERVER = web.AppKey("server", Misbehaving)


@asynccontextmanager
async def misbehaving(*answers: Answer, tls: ssl.SSLContext | None = None):
    """With `tls`: over HTTPS."""
    server = Misbehaving(deque(answers))
    application = web.Application()
    application[SERVER] = server
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.closing.set()
        await runner.cleanup()


def watch(*chunks: bytes | str, then: str = "close") -> Answer:
    """A watch stream: the chunks as they are, then the end, a cut connection or silence."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk.encode() if isinstance(chunk, str) else chunk)
        if then == "hang":
            server: Misbehaving = request.app[SERVER]
            await server.closing.wait()
        elif then == "cut":
            assert request.transport is not None
            request.transport.close()
        return response

    return answer


def reply(obj: Any, code: int = 200, headers: dict[str, str] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        body = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        return web.Response(status=code, body=body, headers={"Content-Type": "application/json"} | (headers or {}))

    return answer


def drop() -> Answer:
    """Reads the request and closes the connection without an answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    return answer


def hang() -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        server: Misbehaving = request.app[SERVER]
        await server.closing.wait()
        return web.Response()

    return answer


def status(code: int, reason: str, message: str, *, headers: dict[str, str] | None = None, **details: Any) -> Answer:
    return reply(status_object(code, reason, message, **details), code, headers)


def status_object(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details or None,
        "code": code,
    }


def pod(name: str, version: int, *, uid: str = "", node: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        },
        "spec": {"containers": [{"name": "c"}], "schedulerName": "dra-scheduler", "nodeName": node} | spec,
        "status": {"phase": "Pending"},
    }


def event(kind: str, obj: dict[str, Any]) -> str:
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")) + "\n"


def added(*objects: dict[str, Any]) -> str:
    return "".join(event("ADDED", obj) for obj in objects)


def bookmark(version: int, *, ends_initial: bool = False) -> str:
    """As kube-apiserver sends it: the kind's empty object, with nulls in required lists."""
    annotations = {"annotations": {"k8s.io/initial-events-end": "true"}} if ends_initial else {}
    obj = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(version), "creationTimestamp": None} | annotations,
        "spec": {"containers": None},
        "status": {},
    }
    return event("BOOKMARK", obj)


def page(*objects: dict[str, Any], version: int = 1, token: str = "") -> Answer:
    meta = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    items = [{key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}} for obj in objects]
    return reply({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items})


class Told:
    """Stands for the machine: remembers the inputs, and lets a test wait for them."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.batches: list[list[Input]] = []
        self._changed = asyncio.Event()

    def __call__(self, inputs) -> None:
        batch = list(inputs)
        self.batches.append(batch)
        self.inputs += batch
        self._changed.set()

    def one(self, given: Input) -> None:
        self([given])

    async def until(self, predicate: Callable[[list[Input]], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not predicate(self.inputs):
                self._changed.clear()
                await self._changed.wait()

    async def relisted(self, times: int = 1) -> None:
        await self.until(lambda inputs: sum(isinstance(one, RelistFinished) for one in inputs) >= times)


class Reports:
    """A `Reporter` that remembers."""

    def __init__(self) -> None:
        self.broken: list[tuple[str, str, str]] = []
        self.refusals: dict[str, str] = {}
        self.refused_ever: list[tuple[str, str]] = []
        self.losses: list[tuple[str, tuple[str, ...]]] = []

    def undecodable(self, kind: str, name: str, reason: str) -> None:
        self.broken.append((kind, name, reason))

    def refused(self, subject: str, message: str) -> None:
        self.refusals[subject] = message
        self.refused_ever.append((subject, message))

    def granted(self, subject: str) -> None:
        self.refusals.pop(subject, None)

    def dropped(self, claim: str, fields: Sequence[str]) -> None:
        self.losses.append((claim, tuple(fields)))


class Pauses:
    """Stands for `asyncio.sleep`: remembers the seconds, and lets everything else go on."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._changed = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._changed.set()
        await asyncio.sleep(0)

    async def reached(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.seconds) < count:
                self._changed.clear()
                await self._changed.wait()


class RotatingToken(Credentials):
    """Credentials whose token changes when they are refreshed."""

    def __init__(self, url: str, *tokens: str) -> None:
        super().__init__(Connection(url=url))
        self.url = url
        self.tokens = list(tokens)
        self.refreshes = 0

    def authorization(self) -> str | None:
        return f"Bearer {self.tokens[min(self.generation, len(self.tokens) - 1)]}"

    async def refresh(self, seen_generation: int) -> bool:
        if seen_generation == self.generation:
            self.generation += 1
            self.refreshes += 1
        return True
