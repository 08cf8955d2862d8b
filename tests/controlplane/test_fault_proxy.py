"""The fault proxy: what it passes on is unchanged, and each fault does what its name says, as often as it says."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from tests.controlplane.fault_proxy import Fault, FaultProxy, api_failure
from tests.patience import PATIENCE_S


class Server:
    """Counts what reaches it, echoes bodies, and has watches that never end by themselves."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.url = ""
        self.say_more = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.reached.append(f"{request.method} {request.path}")
        if request.query.get("watch") == "true":
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(b"first\n")
            await self.say_more.wait()
            await stream.write(b"second\n")
            await asyncio.Event().wait()
        body = await request.read()
        headers = {"X-Sent": request.headers.get("Authorization", ""), "X-Type": request.headers["Content-Type"]}
        return web.Response(status=201, body=body, headers=headers)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    one = Server()
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", one.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield one
    await runner.cleanup()


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(server.url) as running:
        yield running


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(proxy.url) as session:
        yield session


async def patch(client: aiohttp.ClientSession, path: str, body: bytes = b"{}") -> int:
    """PATCH: aiohttp's client sends what is idempotent again by itself when a connection is cut."""
    async with client.patch(path, data=body, headers={"Content-Type": "application/json"}) as answer:
        await answer.read()
        return answer.status


async def test_requests_and_replies_pass_unchanged(client: aiohttp.ClientSession, server: Server) -> None:
    large = bytes(range(256)) * 20_000  # beyond aiohttp's default limit of 1 MiB
    headers = {"Authorization": "Bearer token", "Content-Type": "application/merge-patch+json"}
    async with client.patch("/api/v1/pods/a?fieldManager=x", data=io.BytesIO(large), headers=headers) as answer:
        assert answer.status == 201
        assert answer.headers["X-Sent"] == "Bearer token"
        assert answer.headers["X-Type"] == "application/merge-patch+json"
        assert await answer.read() == large
    assert server.reached == ["PATCH /api/v1/pods/a"]


async def test_a_lost_request_never_reaches_the_server(
    client: aiohttp.ClientSession, proxy: FaultProxy, server: Server
) -> None:
    fault = proxy.add(Fault("lose-request", "PATCH", "/status$"))
    with pytest.raises(aiohttp.ClientError):
        await patch(client, "/api/v1/pods/a/status")
    assert server.reached == []
    assert await patch(client, "/api/v1/pods/a/status") == 201
    assert fault.hits == 1


async def test_a_lost_reply_was_done_by_the_server(
    client: aiohttp.ClientSession, proxy: FaultProxy, server: Server
) -> None:
    proxy.add(Fault("lose-reply", "PATCH", "/status$"))
    with pytest.raises(aiohttp.ClientError):
        await patch(client, "/api/v1/pods/a/status")
    assert server.reached == ["PATCH /api/v1/pods/a/status"]


async def test_an_answer_replaces_the_servers(client: aiohttp.ClientSession, proxy: FaultProxy, server: Server) -> None:
    body = api_failure(409, "Conflict", "changed")
    fault = proxy.add(Fault("answer", "*", "/pods/", times=2, status=409, body=body, headers={"Retry-After": "3"}))
    for _ in range(2):
        async with client.post("/api/v1/pods/a") as answer:
            assert answer.status == 409
            assert answer.headers["Retry-After"] == "3"
            assert (await answer.json())["reason"] == "Conflict"
    assert await patch(client, "/api/v1/pods/a") == 201
    assert fault.hits == 2
    assert server.reached == ["PATCH /api/v1/pods/a"]


async def test_before_acts_and_then_passes_on(client: aiohttp.ClientSession, proxy: FaultProxy, server: Server) -> None:
    async def act(path: str) -> None:
        server.reached.append(f"act {path}")

    proxy.add(Fault("before", "PATCH", "/pods/", action=act))
    assert await patch(client, "/api/v1/pods/a") == 201
    assert server.reached == ["act /api/v1/pods/a", "PATCH /api/v1/pods/a"]


async def test_a_fault_leaves_other_requests_alone(client: aiohttp.ClientSession, proxy: FaultProxy) -> None:
    fault = proxy.add(Fault("lose-request", "POST", "/pods/", times=-1))
    assert await patch(client, "/api/v1/pods/a") == 201
    assert await patch(client, "/api/v1/nodes/a") == 201
    assert fault.hits == 0


async def test_cut_watches_cuts_watches_of_that_resource_and_nothing_else(
    client: aiohttp.ClientSession, proxy: FaultProxy
) -> None:
    async with client.get("/api/v1/pods?watch=true", headers={"Content-Type": "x"}) as pods:
        async with client.get("/api/v1/nodes?watch=true", headers={"Content-Type": "x"}) as nodes:
            assert await pods.content.readline() == b"first\n"
            assert await nodes.content.readline() == b"first\n"

            assert proxy.cut_watches("nodes") == 1
            with pytest.raises(aiohttp.ClientError):
                await nodes.content.readline()
        assert proxy.cut_watches() == 1
        with pytest.raises(aiohttp.ClientError):
            await pods.content.readline()
    assert proxy.cut_watches() == 0


async def test_refuse_cuts_everything_until_accept(client: aiohttp.ClientSession, proxy: FaultProxy) -> None:
    async with client.get("/api/v1/pods?watch=true", headers={"Content-Type": "x"}) as watch:
        assert await watch.content.readline() == b"first\n"
        proxy.refuse()
        with pytest.raises(aiohttp.ClientError):
            await watch.content.readline()
    with pytest.raises(aiohttp.ClientError):
        await patch(client, "/api/v1/pods/a")
    proxy.accept()
    assert await patch(client, "/api/v1/pods/a") == 201


async def test_a_server_that_is_gone_is_a_cut_and_no_answer() -> None:
    async with FaultProxy("http://127.0.0.1:9") as proxy, aiohttp.ClientSession(proxy.url) as client:
        with pytest.raises(aiohttp.ClientError):
            await patch(client, "/api/v1/pods/a")


async def test_requests_are_counted_without_names(client: aiohttp.ClientSession, proxy: FaultProxy) -> None:
    for name in ("a", "b"):
        await patch(client, f"/api/v1/namespaces/ns/pods/{name}/binding")
    assert proxy.seen == {("PATCH", "/api/v1/namespaces/*/pods/*/binding"): 2}


async def test_what_is_held_arrives_when_it_is_released_also_without_its_client(
    server: Server, proxy: FaultProxy, client: aiohttp.ClientSession
) -> None:
    fault = proxy.add(Fault("hold", "PATCH", "/held"))
    sent = asyncio.create_task(patch(client, "/held"))
    await fault.happened.wait()
    assert await patch(client, "/other") == 201
    assert server.reached == ["PATCH /other"]
    sent.cancel()
    await asyncio.wait([sent])

    assert await fault.release() == 201
    assert server.reached == ["PATCH /other", "PATCH /held"]


async def test_the_client_of_what_was_held_gets_the_answer(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    fault = proxy.add(Fault("hold", "PATCH", "/held"))
    sent = asyncio.create_task(patch(client, "/held"))
    await fault.happened.wait()
    assert await fault.release() == await sent == 201


async def test_who_asks_for_a_denied_right_is_told_no_and_nobody_else(
    server: Server, proxy: FaultProxy, client: aiohttp.ClientSession
) -> None:
    proxy.deny("patch", "resource.k8s.io", "resourceclaims", "binding")
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    attributes = {"verb": "patch", "group": "resource.k8s.io", "resource": "resourceclaims"}
    denied = {"spec": {"resourceAttributes": {**attributes, "subresource": "binding"}}}
    async with client.post(path, json=denied) as response:
        assert (response.status, (await response.json())["status"]["allowed"]) == (201, False)
    assert server.reached == []
    other = {"spec": {"resourceAttributes": attributes}}
    async with client.post(path, json=other) as response:
        assert await response.json(content_type=None) == other
    assert server.reached == [f"POST {path}"]


async def test_a_truncated_reply_breaks_off_in_its_middle(client: aiohttp.ClientSession, proxy: FaultProxy) -> None:
    proxy.add(Fault("truncate", "PATCH", "/pods/"))
    async with client.patch("/api/v1/pods/a", data=b"0123456789", headers={"Content-Type": "x"}) as answer:
        assert answer.status == 201
        assert await answer.content.readany() == b"01234"
        with pytest.raises(aiohttp.ClientError):
            await answer.content.readany()
    assert await patch(client, "/api/v1/pods/a") == 201


async def test_a_truncated_watch_ends_in_the_middle_of_a_line(
    client: aiohttp.ClientSession, proxy: FaultProxy, server: Server
) -> None:
    async with client.get("/api/v1/pods?watch=true", headers={"Content-Type": "x"}) as watch:
        assert await watch.content.readline() == b"first\n"
        assert proxy.truncate_watches("nodes") == 0
        assert proxy.truncate_watches("pods") == 1
        server.say_more.set()
        assert await watch.content.readany() == b"sec"
        with pytest.raises(aiohttp.ClientError):
            await watch.content.readany()


async def test_cut_lines_end_a_watch_in_the_middle_of_one(
    client: aiohttp.ClientSession, proxy: FaultProxy, server: Server
) -> None:
    proxy.cut_lines(0.5, seed=10)  # the first line comes, the second does not
    async with client.get("/api/v1/pods?watch=true", headers={"Content-Type": "x"}) as watch:
        assert await watch.content.readline() == b"first\n"
        server.say_more.set()
        assert await watch.content.readany() == b"sec"
        with pytest.raises(aiohttp.ClientError):
            await watch.content.readany()
    assert await patch(client, "/api/v1/pods/a") == 201


async def test_a_duplicate_reaches_the_server_twice(
    client: aiohttp.ClientSession, proxy: FaultProxy, server: Server
) -> None:
    proxy.add(Fault("duplicate", "PATCH", "/pods/"))
    assert await patch(client, "/api/v1/pods/a") == 201
    assert server.reached == ["PATCH /api/v1/pods/a"] * 2


async def test_a_late_copy_comes_after_the_client_has_its_reply(
    client: aiohttp.ClientSession, proxy: FaultProxy, server: Server
) -> None:
    fault = proxy.add(Fault("late-copy", "PATCH", "/pods/", seconds=0.05))
    assert await patch(client, "/api/v1/pods/a") == 201
    assert await patch(client, "/api/v1/pods/b") == 201
    async with asyncio.timeout(PATIENCE_S):
        await fault.answered.wait()
    assert server.reached == ["PATCH /api/v1/pods/a", "PATCH /api/v1/pods/b", "PATCH /api/v1/pods/a"]
