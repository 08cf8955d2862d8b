"""What a scrape costs, plain and with TLS, printed: `python -m tests.kube.measure_secure_health [scrapes]`.

The server is this process, on uvloop; who asks is another one. CPU time of this process for each answer of /metrics,
whose text is a real one's size: over one connection, and over a new one for each, as from a scraper that closes it. The
review is remembered, but for the last row: there each scrape has a token of its own, and an API server that answers at
once. Not a test: figures depend on machines.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import ssl
import sys
import time

import uvloop

from scheduler.kube.certificates import ServerCertificate
from scheduler.kube.health import HealthLimits, HealthServer
from tests.kube.test_readers import ALICE, ApiServer, readers_of
from tests.kube.test_secure_health import ANSWERS, CONFIGURATION

BODY = b"scheduler_pending_pods 1.0\n" * 2000  # 54 kB
LIMITS = {"metrics_gap_s": 0.0, "handshake_gap_s": 0.0}


def scrape(port: int, secure: bool, keeps: bool, count: int, tokens: list[str]) -> None:
    import http.client

    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    token = itertools.cycle(tokens)

    def connect() -> http.client.HTTPConnection:
        if secure:
            return http.client.HTTPSConnection("127.0.0.1", port, context=tls)
        return http.client.HTTPConnection("127.0.0.1", port)

    connection = connect()
    for _ in range(count):
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {next(token)}"})
        answer = connection.getresponse()
        assert (answer.status, len(answer.read())) == (200, len(BODY))
        if not keeps:
            connection.close()
            connection = connect()


async def row(name: str, count: int, *, secure: bool, keeps: bool, tokens: list[str]) -> None:
    api = ApiServer(users=dict.fromkeys(tokens, ALICE), may=[("alice", "/metrics")])
    certificate = ServerCertificate()
    options = {"tls": certificate.context, "readers": readers_of(api, clock=time.monotonic)} if secure else {}
    answers = {**ANSWERS, **CONFIGURATION, "metrics": lambda: (BODY, "text/plain")}
    async with HealthServer("127.0.0.1", 0, **answers, **options, limits=HealthLimits(**LIMITS)) as server:
        process = multiprocessing.get_context("spawn").Process(
            target=scrape, args=(server.port, secure, keeps, count, tokens)
        )
        begun_s = time.process_time()
        process.start()
        await asyncio.get_running_loop().run_in_executor(None, process.join)
        spent_s = time.process_time() - begun_s
    assert process.exitcode == 0
    print(f"{name:45} {spent_s / count * 1000:6.3f} ms a scrape, {len(api.asked):5} reviews")


async def main(count: int) -> None:
    one, many = ["good"], [f"good-{n}" for n in range(count)]
    await row("plain, one connection", count, secure=False, keeps=True, tokens=one)
    await row("TLS, one connection, review remembered", count, secure=True, keeps=True, tokens=one)
    await row("plain, a connection each", count, secure=False, keeps=False, tokens=one)
    await row("TLS, a connection each, review remembered", count, secure=True, keeps=False, tokens=one)
    await row("TLS, one connection, two reviews each", count, secure=True, keeps=True, tokens=many)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
