"""Requests of the harness itself, which goes on whatever is done to the API server; states that are of one revision."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, ParamSpec, TypeVar

import aiohttp
import orjson

from tests.integration.api import Api, ApiError, ExpiredError, Object, path_of

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")
_PAUSE_S: Final = 0.2
_REQUEST_S: Final = 30.0
AWAY: Final = (aiohttp.ClientError, OSError)  # a TimeoutError is an OSError


async def patiently(
    ask: Callable[_Asked, Awaitable[_Answer]], *arguments: _Asked.args, **more: _Asked.kwargs
) -> _Answer | None:
    """The answer, however long the server is away; None: it is made already, or what it means is gone."""
    while True:
        try:
            async with asyncio.timeout(_REQUEST_S):
                return await ask(*arguments, **more)
        except ApiError as error:
            if error.status in (404, 409):
                return None
            if error.status < 429:
                raise
        except AWAY:
            pass
        await asyncio.sleep(_PAUSE_S)


async def same_moment(api: Api, *resources: str) -> list[list[Object]]:
    """All objects of each kind, as they were at one revision of the cluster."""
    while True:
        params: dict[str, str] = {}
        lists = []
        try:
            async with asyncio.timeout(_REQUEST_S):
                for resource in resources:
                    answer = await api.request("GET", path_of(resource), params=params)
                    params = {"resourceVersion": answer["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}
                    lists.append(answer.get("items") or [])
                return lists
        except ApiError as error:
            if error.status < 409:  # 410: compacted in between
                raise
        except AWAY:
            pass
        await asyncio.sleep(_PAUSE_S)


async def changes(api: Api, resource: str) -> AsyncIterator[tuple[str, Any]]:
    """Every change of every object of a kind, for ever: ("is" or "gone", object).

    ("listed", all objects) where changes may be missing: at first, and seldom later. A watch goes on where it ended:
    nothing is missing but after a 410, or when the server is away for long.
    """
    version = ""
    while True:
        try:
            if not version:
                listed = await api.request("GET", path_of(resource))
                version = listed["metadata"]["resourceVersion"]
                yield "listed", listed.get("items") or []
            params = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
            async for lines in api.stream(path_of(resource), params):
                for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        raise ExpiredError
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield "gone" if event["type"] == "DELETED" else "is", event["object"]
        except (ExpiredError, ApiError):
            version = ""
        except AWAY:
            pass
        await asyncio.sleep(_PAUSE_S)
