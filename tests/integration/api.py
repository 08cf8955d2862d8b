"""A small API client for tests: plain dicts in and out, and waiting by watch instead of by sleeping.

It is ours so that the tests depend neither on the scheduler's own request layer nor on a client library's models.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from tests.patience import PATIENCE_S

Object = dict[str, Any]

# resource: (prefix of its API group and version, is it namespaced)
_RESOURCES: Final = {
    **dict.fromkeys(("pods", "serviceaccounts", "configmaps"), ("/api/v1", True)),
    **dict.fromkeys(("nodes", "namespaces", "persistentvolumes"), ("/api/v1", False)),
    **dict.fromkeys(("persistentvolumeclaims", "services"), ("/api/v1", True)),
    **dict.fromkeys(("storageclasses", "csinodes"), ("/apis/storage.k8s.io/v1", False)),
    "events": ("/apis/events.k8s.io/v1", True),
    "leases": ("/apis/coordination.k8s.io/v1", True),
    **dict.fromkeys(("resourceclaims", "resourceclaimtemplates"), ("/apis/resource.k8s.io/v1", True)),
    **dict.fromkeys(("resourceslices", "deviceclasses"), ("/apis/resource.k8s.io/v1", False)),
    "devicetaintrules": ("/apis/resource.k8s.io/v1", False),
    **dict.fromkeys(("clusterroles", "clusterrolebindings"), ("/apis/rbac.authorization.k8s.io/v1", False)),
    **dict.fromkeys(("roles", "rolebindings"), ("/apis/rbac.authorization.k8s.io/v1", True)),
    "deployments": ("/apis/apps/v1", True),
    "jobs": ("/apis/batch/v1", True),
    "horizontalpodautoscalers": ("/apis/autoscaling/v2", True),
    "poddisruptionbudgets": ("/apis/policy/v1", True),
    "priorityclasses": ("/apis/scheduling.k8s.io/v1", False),
}

MERGE_PATCH: Final = "application/merge-patch+json"


def is_namespaced(resource: str) -> bool:
    return _RESOURCES[resource][1]


class ApiError(Exception):
    """The API server refused; `status` is the HTTP code and `body` its Status object."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status} {body[:600]}")
        self.status = status
        self.body = body


class ExpiredError(Exception):
    """A watch ended with 410: list again."""


def path_of(resource: str, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
    prefix, namespaced = _RESOURCES[resource]
    parts = [prefix]
    if namespaced and namespace is not None:
        parts.append(f"namespaces/{namespace}")
    parts.append(resource)
    parts += [part for part in (name, sub) if part is not None]
    return "/".join(parts)


class Api:
    """Requests with one credential; close it by leaving `connected`."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """One request, decoded.

        Raises:
            ApiError: the server refused.
            aiohttp.ClientError: it did not answer.
        """
        async with self._session.request(
            method,
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            params=params,
            headers={"Content-Type": content_type},
        ) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise ApiError(method, path, answer.status, text)
            decoded: Object = json.loads(text)
            return decoded

    async def get(self, resource: str, name: str, namespace: str | None = None) -> Object:
        return await self.request("GET", path_of(resource, namespace, name))

    async def list(self, resource: str, namespace: str | None = None) -> list[Object]:
        items: list[Object] = (await self.request("GET", path_of(resource, namespace))).get("items") or []
        return items

    async def create(self, resource: str, body: Object) -> Object:
        return await self.request("POST", path_of(resource, body["metadata"].get("namespace")), body)

    async def merge_patch(
        self, resource: str, name: str, body: object, namespace: str | None = None, sub: str | None = None
    ) -> Object:
        return await self.request("PATCH", path_of(resource, namespace, name, sub), body, content_type=MERGE_PATCH)

    async def delete(self, resource: str, name: str, namespace: str | None = None, *, force: bool = True) -> None:
        """`force`: without the grace period that only a kubelet would end. Already gone is fine."""
        options = {"gracePeriodSeconds": 0} if force else {}
        try:
            await self.request("DELETE", path_of(resource, namespace, name), options)
        except ApiError as error:
            if error.status != 404:
                raise

    async def delete_all(self, resource: str, namespace: str | None = None) -> None:
        await self.request("DELETE", path_of(resource, namespace), {"gracePeriodSeconds": 0})

    async def wait_for(
        self,
        resource: str,
        until: Callable[[dict[str, Object]], bool],
        namespace: str | None = None,
        *,
        seconds: float = PATIENCE_S,
        what: str = "",
    ) -> dict[str, Object]:
        """List and watch until `until(objects by name)` holds; returns those objects.

        Watches that end, and a server that is away for a while, are no failure: it starts over.

        Raises:
            TimeoutError: it did not come to hold; the text names what was waited for and the last objects.
        """
        objects: dict[str, Object] = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        async for objects in self._states(resource, namespace):
                            if until(objects):
                                return objects
                    except (aiohttp.ClientError, ExpiredError, OSError):
                        await asyncio.sleep(0.05)  # the server is away; nothing to watch yet
        except TimeoutError:
            raise TimeoutError(
                f"after {seconds:g} s still waiting for {what or until!r}; {resource} now: "
                + json.dumps([_short(item) for item in list(objects.values())[:12]])
            ) from None

    async def _states(self, resource: str, namespace: str | None) -> AsyncIterator[dict[str, Object]]:
        path = path_of(resource, namespace)
        listed = await self.request("GET", path)
        objects = {_key(item, namespace): item for item in listed.get("items") or ()}
        yield objects
        params = {
            "watch": "true",
            "resourceVersion": listed["metadata"]["resourceVersion"],
            "allowWatchBookmarks": "true",
        }
        async for lines in self.stream(path, params):
            changed = False
            for line in lines:
                event = json.loads(line)
                match event["type"]:
                    case "ADDED" | "MODIFIED":
                        objects[_key(event["object"], namespace)] = event["object"]
                        changed = True
                    case "DELETED":
                        objects.pop(_key(event["object"], namespace), None)
                        changed = True
                    case "ERROR":
                        raise ExpiredError
            if changed:
                yield objects

    async def stream(self, path: str, params: Mapping[str, str]) -> AsyncIterator[Sequence[bytes]]:
        """The lines of a watch, as many at a time as have come.

        Raises:
            ExpiredError: the server refuses this watch; list again.
        """
        async with self._session.get(self.url + path, params=params) as answer:
            if answer.status >= 400:
                raise ExpiredError
            buffer = b""
            async for chunk in answer.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                if lines := list(filter(None, lines)):
                    yield lines


def _key(item: Object, namespace: str | None) -> str:
    """The name; with its namespace when several namespaces were asked for."""
    metadata = item["metadata"]
    if namespace is None and "namespace" in metadata:
        return f"{metadata['namespace']}/{metadata['name']}"
    return str(metadata["name"])


def _short(item: Object) -> Object:
    status = item.get("status") or {}
    return {
        "name": item["metadata"]["name"],
        "node": (item.get("spec") or {}).get("nodeName"),
        "status": {key: status[key] for key in ("phase", "conditions", "allocation", "reservedFor") if key in status},
    }


@asynccontextmanager
async def connected(
    url: str, token: str | None = None, context: ssl.SSLContext | None = None, *, limit: int = 32
) -> AsyncIterator[Api]:
    """An `Api` with a connection pool of its own."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit, ssl=context or True),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
        read_bufsize=2**20,
    ) as session:
        yield Api(url, session)
