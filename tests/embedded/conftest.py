"""`api`: the contract tests run on the embedded API server and on a real kube-apiserver.

The real one is started once for all of them; each test has a namespace of its own. The embedded one is new for
every test: it starts in a few milliseconds.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio

from scheduler.embedded.cluster import EmbeddedCluster
from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import ControlPlane
from tests.embedded.rest_client import RestClient, trusted

# looptime asks for the current loop before each test that is not asynchronous. Before Python 3.14 such a question
# makes a loop that nobody closes, unless somebody has said that there is none.
asyncio.set_event_loop(None)

BOTH = ["embedded", pytest.param("real", marks=pytest.mark.controlplane)]

Restart = Callable[[], Awaitable[None]]

_numbers = itertools.count()


@dataclass(slots=True)
class Target:
    """An API server to test, and how to reach it."""

    kind: str
    url: str
    token: str = ""
    certificate: str = ""


@pytest.fixture(scope="package")
def control_plane() -> Iterator[ControlPlane]:
    built_or_skip("controlplane")
    with ControlPlane() as started:
        yield started


async def _real(request: pytest.FixtureRequest) -> AsyncIterator[RestClient]:
    plane: ControlPlane = request.getfixturevalue("control_plane")
    target = Target("real", plane.url, plane.admin_token, str(plane.ca_file))
    async for client in _connected(target, lambda: asyncio.to_thread(plane.restart_apiserver)):
        yield client


async def _embedded(cluster: EmbeddedCluster) -> AsyncIterator[RestClient]:
    async with cluster:
        async for client in _connected(Target("embedded", cluster.url), cluster.restart):
            yield client


async def _connected(target: Target, restart: Restart) -> AsyncIterator[RestClient]:
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    connector = aiohttp.TCPConnector(ssl=trusted(target.certificate)) if target.certificate else None
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(target.url, headers=headers, connector=connector, timeout=timeout) as session:
        client = RestClient(session, f"contract-{next(_numbers)}", target.kind, restart)
        await client.created("/api/v1/namespaces", {"metadata": {"name": client.namespace}})
        yield client


@pytest.fixture(params=BOTH)
async def api(request: pytest.FixtureRequest) -> AsyncIterator[RestClient]:
    """A server on which nothing acts on pods and nodes: objects stay as they are written."""
    if request.param == "real":
        async for client in _real(request):
            yield client
        return
    async for client in _embedded(EmbeddedCluster(controllers=False)):
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def busy_cluster() -> AsyncIterator[EmbeddedCluster]:
    """An embedded cluster with its controllers; they take a moment to start, so tests share it."""
    async with EmbeddedCluster() as cluster:
        yield cluster


@pytest_asyncio.fixture(params=BOTH, loop_scope="module")
async def cluster_api(request: pytest.FixtureRequest, busy_cluster: EmbeddedCluster) -> AsyncIterator[RestClient]:
    """A server with the controllers of claims, owners and namespaces; the test runs in the module's loop."""
    if request.param == "real":
        async for client in _real(request):
            yield client
        return
    async for client in _connected(Target("embedded", busy_cluster.url), busy_cluster.restart):
        yield client
