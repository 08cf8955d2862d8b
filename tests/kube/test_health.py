"""The health port: what it answers, and that a crowd on it changes neither that nor the scheduler's work."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import socket
from contextlib import asynccontextmanager

import aiohttp
import pytest

from scheduler.kube.health import HealthLimits, HealthServer
from tests.patience import PATIENCE_S

NO_IPV6 = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this system has no IPv6")


class Metrics:
    """Counts how often it is rendered."""

    def __init__(self) -> None:
        self.renderings = 0

    def __call__(self) -> tuple[bytes, str]:
        self.renderings += 1
        return f"renderings {self.renderings}\n".encode(), "text/plain"


@asynccontextmanager
async def serving(address="127.0.0.1", *, alive=(), ready=(), notes=(), details=(), metrics=None, **limits):
    server = HealthServer(
        address,
        0,
        checks_alive=lambda: {"machine": alive},
        checks_ready=lambda: {"watches": ready},
        notes_ready=lambda: notes,
        details_ready=lambda: details,
        metrics=metrics or Metrics(),
        configuration=lambda: b'{"componentconfig": {}}',
        limits=HealthLimits(**limits),
    )
    async with server:
        yield server


async def ask(server, path="/livez", *, host="127.0.0.1", source=None):
    """One request on a connection of its own: code and text."""
    async with asyncio.timeout(PATIENCE_S):
        local = (source, 0) if source else None
        reader, writer = await asyncio.open_connection(host, server.port, local_addr=local)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
            answer = (await reader.read()).decode()
        finally:
            writer.close()
        head, _, body = answer.partition("\r\n\r\n")
        return int(head.split()[1]), body


async def is_cut(reader) -> bool:
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            return await reader.read() == b""
        return True


async def test_verdicts_and_their_reasons():
    async with serving(alive=["the machine failed"], ready=["Pod: not listed yet"]) as server:
        assert await ask(server, "/livez") == (503, "the machine failed\n")
        assert await ask(server, "/healthz") == (503, "the machine failed\n")
        assert await ask(server, "/readyz?verbose") == (503, "the machine failed\nPod: not listed yet\n")
    async with serving() as server:
        assert await ask(server, "/livez") == (200, "ok\n")
        assert await ask(server, "/metrics") == (200, "renderings 1\n")
        assert (await ask(server, "/other"))[0] == 404
    async with serving(notes=["binding Pod a/b fails"], details=["12 MiB remembered"]) as server:
        assert await ask(server, "/readyz") == (200, "ok\nbinding Pod a/b fails\n")
        assert await ask(server, "/readyz?verbose") == (200, "ok\nbinding Pod a/b fails\n12 MiB remembered\n")
        assert await ask(server, "/livez") == (200, "ok\n")
    async with serving(ready=["Pod: not listed yet"], notes=["binding Pod a/b fails"]) as server:
        assert await ask(server, "/readyz") == (503, "Pod: not listed yet\nbinding Pod a/b fails\n")


async def test_the_configuration_in_force_is_served():
    async with serving() as server:
        assert await ask(server, "/configz") == (200, '{"componentconfig": {}}')


async def test_only_reading_is_allowed():
    async with serving() as server, aiohttp.ClientSession() as session:
        async with session.post(f"http://127.0.0.1:{server.port}/metrics", data=b"x" * 100_000) as response:
            assert response.status == 405
        async with session.head(f"http://127.0.0.1:{server.port}/livez") as response:
            assert response.status == 200


async def test_what_asks_at_once_shares_one_rendering():
    metrics = Metrics()
    async with serving(metrics=metrics, of_one_address_max=50) as server:
        answers = await asyncio.gather(*(ask(server, "/metrics") for _ in range(50)))

    # The first is answered at once; all the others ask before the gap is over.
    assert [code for code, _ in answers] == [200] * 50
    assert metrics.renderings <= 3


async def test_each_answer_is_newer_than_its_question():
    metrics = Metrics()
    async with serving(metrics=metrics, metrics_gap_s=0.01) as server:
        for number in range(1, 5):
            assert (await ask(server, "/metrics"))[1] == f"renderings {number}\n"


async def test_who_asks_without_end_is_answered_once_in_each_gap():
    """The flood paces itself: it costs as many renderings and requests as there are gaps."""
    metrics = Metrics()
    async with serving(metrics=metrics, metrics_gap_s=0.05) as server, aiohttp.ClientSession() as session:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()

        async def flood() -> int:
            for _ in range(6):
                async with session.get(f"http://127.0.0.1:{server.port}/metrics") as response:
                    assert response.status == 200
            return 6

        assert sum(await asyncio.gather(*(flood() for _ in range(8)))) == 48
        gaps = (loop.time() - begun_s) / 0.05

    assert metrics.renderings <= gaps + 1
    assert metrics.renderings < 48


async def test_a_rendering_that_fails_is_told_to_each_and_the_next_one_works():
    calls = 0

    def metrics():
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("out of order")
        return b"fine\n", "text/plain"

    async with serving(metrics=metrics, metrics_gap_s=0.05) as server:
        assert (await ask(server, "/metrics"))[0] == 200
        answers = await asyncio.gather(*(ask(server, "/metrics") for _ in range(3)))
        assert {code for code, _ in answers} <= {500, 200}
        assert (500 in {code for code, _ in answers}) is True
        assert (await ask(server, "/metrics"))[0] == 200


async def test_a_client_that_goes_away_takes_nobodys_answer_along():
    async with serving(metrics_gap_s=0.1) as server:
        await ask(server, "/metrics")
        gone, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
        waiting = asyncio.create_task(ask(server, "/metrics"))
        writer.transport.abort()
        assert (await waiting)[0] == 200
        del gone


async def cut_of(taken, count: int) -> list[bool]:
    """Wait until so many are cut; which ones are."""
    tasks = [asyncio.create_task(is_cut(reader)) for reader, _ in taken]
    for one in itertools.islice(asyncio.as_completed(tasks), count):
        assert await one
    cut = [one.done() for one in tasks]
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return cut


async def test_what_is_beyond_the_share_of_an_address_is_closed_and_a_kubelet_has_its_own():
    async with serving(connections_max=8, of_one_address_max=5, head_s=1000.0) as server:
        crowd = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(50)]
        assert await cut_of(crowd, 45) == [False] * 5 + [True] * 45
        for _ in range(4):  # each gives its place back
            assert await ask(server, source="127.0.0.2") == (200, "ok\n")
        crowd[0][1].write(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await crowd[0][0].readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        for _, writer in crowd:
            writer.transport.abort()


async def test_all_addresses_together_have_a_limit_too():
    async with serving(connections_max=5, of_one_address_max=2, head_s=1000.0) as server:
        sources = [f"127.0.0.{2 + number // 2}" for number in range(8)]
        taken = [await asyncio.open_connection("127.0.0.1", server.port, local_addr=(source, 0)) for source in sources]
        assert await cut_of(taken, 3) == [False] * 5 + [True] * 3
        for _, writer in taken:
            writer.transport.abort()


async def test_an_answer_that_is_not_read_is_cut_and_gives_its_place_back():
    """Its answer is larger than what the system takes; nobody else has a place meanwhile."""
    large = b"x" * 50_000_000
    async with serving(metrics=lambda: (large, "text/plain"), connections_max=1, idle_s=0.3) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    assert await ask(server) == (200, "ok\n")
                    break
                except (ConnectionError, IndexError):  # closed without an answer
                    continue
        writer.transport.abort()


async def test_a_head_that_does_not_come_in_time_is_cut():
    async with serving(head_s=0.05) as server:
        silent, one = await asyncio.open_connection("127.0.0.1", server.port)
        slow, two = await asyncio.open_connection("127.0.0.1", server.port)
        two.write(b"GET /livez HTTP/1.1\r\nHo")
        assert await is_cut(silent)
        assert await is_cut(slow)
        one.close()
        two.close()


async def test_a_connection_that_is_used_again_is_kept_and_one_that_rests_too_long_is_cut():
    async with serving(head_s=0.05, idle_s=3.0, verdict_gap_s=0.0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        while loop.time() - begun_s < 1.5:  # longer than a new connection may take
            writer.write(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        assert await is_cut(reader)
        writer.close()


@pytest.mark.parametrize("address", ["::", "0.0.0.0", ""])
@NO_IPV6
async def test_everywhere_means_both_families(address):
    """The shipped Deployment listened on 0.0.0.0 only: in an IPv6 cluster every probe of it failed."""
    async with serving(address) as server:
        assert await ask(server, host="127.0.0.1") == (200, "ok\n")
        assert await ask(server, host="::1") == (200, "ok\n")


@pytest.mark.parametrize("failing", ["socket", "bind"])
async def test_everywhere_is_ipv4_where_there_is_no_ipv6(failing, monkeypatch):
    """Without the protocol no socket can be made; where it is only switched off, none may be bound."""
    if failing == "socket":
        monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    real = socket.create_server

    def create_server(address, *, family=socket.AF_INET, **options):
        if family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return real(address, family=family, **options)

    monkeypatch.setattr(socket, "create_server", create_server)
    async with serving("::") as server:
        assert await ask(server, host="127.0.0.1") == (200, "ok\n")


@NO_IPV6
async def test_a_port_that_is_taken_is_said_and_not_passed_over():
    async with serving("::") as server:
        with pytest.raises(OSError, match="in use"):
            async with HealthServer(
                "::", server.port, checks_alive=dict, checks_ready=dict, metrics=Metrics(), configuration=bytes
            ):
                raise AssertionError("not reached")


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=NO_IPV6), "localhost"])
async def test_one_address_is_the_only_one(host):
    async with serving(host) as server:
        assert (await ask(server, host="::1" if host == "::1" else "127.0.0.1"))[0] == 200


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer s3cret\0\r\n\r\n", id="a NUL"),
        pytest.param(b"GET / HTTP/1.1\r\nAuthorization: Bearer s3cret" + b"x" * 9_000 + b"\r\n\r\n", id="a long field"),
        pytest.param(b"GET /" + b"s3cret" * 1_500 + b" HTTP/1.1\r\nHost: a\r\n\r\n", id="a long address"),
        pytest.param(b"s3cret\r\r\n\r\n", id="no HTTP"),
        pytest.param(b"GET http://[s3cret HTTP/1.1\r\nHost: a\r\n\r\n", id="no address"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: s3cret\r\n\r\n", id="no length"),
    ],
)
async def test_of_what_is_no_http_nothing_is_written_but_a_count(request_, caplog):
    """Each left a traceback with its bytes in the log, and its bytes in the answer: a token among them."""
    async with serving() as server:
        for _ in range(5):
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(request_)
                answer = await reader.read()
                writer.close()
            assert b" 400 " in answer.partition(b"\r\n")[0]
            assert answer.endswith(b"\r\n\r\nthis is no valid HTTP request\n")
        assert server._server._malformed == 5
    assert [one.getMessage() for one in caplog.records] == ["requests that are no valid HTTP were refused: 1 so far"]
    assert [one for one in caplog.records if one.exc_info] == []


async def test_who_has_rested_longest_gives_a_place_to_whoever_comes():
    """Sixteen that asked once, and then kept their connections, kept everybody of their address out for 75 s."""
    async with serving(of_one_address_max=3, head_s=0.05, verdict_gap_s=0.0) as server:
        taken = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
        loop = asyncio.get_running_loop()
        for reader, writer in taken:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
            await reader.readuntil(b"ok\n")
        rested_s = loop.time() + 0.05
        while loop.time() < rested_s:  # noqa: ASYNC110 - time alone is waited for
            await asyncio.sleep(0)
        assert await ask(server) == (200, "ok\n")
        assert await is_cut(taken[0][0])
        taken[2][1].write(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await taken[2][0].readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        for _, writer in taken:
            writer.close()


async def test_whoever_was_refused_has_no_long_rest():
    async with serving(head_s=0.05, idle_s=1000.0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read()).startswith(b"HTTP/1.1 404")
        writer.close()
