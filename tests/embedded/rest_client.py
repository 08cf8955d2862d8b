"""A small client of the Kubernetes API for the contract tests: raw requests, raw watch lines, objects to start from."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.patience import PATIENCE_S

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DRA = "/apis/resource.k8s.io/v1"


@dataclass(slots=True)
class Answer:
    """A status code and a decoded body."""

    status: int
    body: Any

    def __getitem__(self, key: str) -> Any:
        return self.body[key]

    @property
    def causes(self) -> set[tuple[str, str]]:
        """(reason, field) of each cause of a refusal."""
        return {(cause["reason"], cause["field"]) for cause in self.body.get("details", {}).get("causes", ())}


class RestClient:
    """Requests to one API server."""

    def __init__(
        self, session: aiohttp.ClientSession, namespace: str, kind: str, restart: Callable[[], Awaitable[None]]
    ) -> None:
        self._session = session
        self.restart_server = restart
        self.namespace = namespace
        self.kind = kind
        """`embedded` or `real`: for what a test may not compare."""

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def config_maps(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    @property
    def claims(self) -> str:
        return f"{DRA}/namespaces/{self.namespace}/resourceclaims"

    @property
    def templates(self) -> str:
        return f"{DRA}/namespaces/{self.namespace}/resourceclaimtemplates"

    async def call(self, method: str, path: str, body: Any = None, *, media: str = JSON, accept: str = JSON) -> Answer:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": media, "Accept": accept}
        async with self._session.request(method, path, data=data, headers=headers) as response:
            raw = await response.read()
            return Answer(response.status, json.loads(raw) if raw.startswith((b"{", b"[")) else raw)

    async def get(self, path: str, *, accept: str = JSON) -> Answer:
        return await self.call("GET", path, accept=accept)

    async def post(self, path: str, body: Any) -> Answer:
        return await self.call("POST", path, body)

    async def put(self, path: str, body: Any) -> Answer:
        return await self.call("PUT", path, body)

    async def patch(self, path: str, body: Any, *, media: str = MERGE) -> Answer:
        return await self.call("PATCH", path, body, media=media)

    async def delete(self, path: str, body: Any = None) -> Answer:
        return await self.call("DELETE", path, body)

    async def created(self, path: str, body: Any) -> Any:
        """Create and insist on success."""
        answer = await self.post(path, body)
        assert answer.status == 201, answer
        return answer.body

    async def eventually(self, path: str, wanted: Callable[[Answer], bool]) -> Answer:
        """The first answer that satisfies `wanted`; polls, because controllers owe no event of their own."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self.get(path)
                if wanted(answer):
                    return answer
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def watch(self, path: str, query: str = "", *, accept: str = JSON) -> AsyncIterator[Watch]:
        async with self._session.get(f"{path}?watch=true&{query}", headers={"Accept": accept}) as response:
            try:
                yield Watch(response)
            finally:
                # A TLS connection would wait for the other side's goodbye, and outlive the test's event loop.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()
                    await asyncio.sleep(0)


class Watch:
    """An open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Any:
        """The next line; fails after a while without one."""
        async with asyncio.timeout(PATIENCE_S):
            line = await self.response.content.readline()
        return json.loads(line) if line else None

    async def until(self, wanted: Callable[[Any], bool]) -> list[Any]:
        """All lines up to and including the first that is wanted."""
        seen: list[Any] = []
        while True:
            line = await self.next()
            assert line is not None, f"the watch ended after {seen}"
            seen.append(line)
            if wanted(line):
                return seen

    async def rest(self) -> list[Any]:
        """All lines up to the end of the watch."""
        seen: list[Any] = []
        while (line := await self.next()) is not None:
            seen.append(line)
        return seen


def trusted(certificate: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


# -- objects to start from -------------------------------------------------------------------------


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "img"}], **spec}}


def request(name: str = "gpu", **exactly: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **exactly}}


def claim(name: str, *requests: dict[str, Any], **devices: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests) or [request()], **devices}},
    }


def allocation(*devices: str, request: str = "gpu", **more: Any) -> dict[str, Any]:
    results = [
        {"request": request, "driver": "gpu.example.com", "pool": "node-1", "device": device} for device in devices
    ]
    return {"devices": {"results": results}, **more}


def consumer(name: str, uid: str) -> dict[str, str]:
    return {"resource": "pods", "name": name, "uid": uid}


def resource_slice(name: str, *devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "node-1",
            **({"devices": list(devices)} if devices else {}),
            **spec,
        },
    }
