"""What crowds at the port cost with TLS, printed: `python -m tests.kube.measure_tls_flood`.

The server is this process, on uvloop; each of the crowd is another one, of address 127.0.0.1. A probe of /livez comes
from 127.0.0.2 ten times a second, with a handshake each time. Not a test: figures depend on machines.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import resource
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import uvloop

from scheduler.kube.certificates import ServerCertificate
from scheduler.kube.health import HealthServer
from scheduler.kube.readers import Readers
from tests.kube.test_readers import ApiServer
from tests.kube.test_secure_health import ANSWERS, CLIENT, CONFIGURATION

SECONDS = 5


def silent(port: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    taken: list[socket.socket] = []
    while True:
        with suppress(OSError):
            while len(taken) < 3000:
                taken.append(socket.create_connection(("127.0.0.1", port)))
        time.sleep(0.5)
        taken = taken[1000:]


def handshakes(port: int) -> None:
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as one, CLIENT.wrap_socket(one):
            pass


def made_up_tokens(port: int) -> None:
    for number in itertools.count():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as one, CLIENT.wrap_socket(one) as tls:
            tls.sendall(f"GET /metrics HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {number}\r\n\r\n".encode())
            tls.recv(1000)


def probe(port: int, answers: multiprocessing.Queue) -> None:
    taken_ms = []
    end_s = time.monotonic() + SECONDS
    while time.monotonic() < end_s:
        begun_s = time.perf_counter()
        one = socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.2", 0))
        with CLIENT.wrap_socket(one) as tls:
            tls.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            assert b"200 OK" in tls.recv(1000)
        taken_ms.append((time.perf_counter() - begun_s) * 1000)
        time.sleep(0.1)
    answers.put(sorted(taken_ms))


async def row(name: str, crowd: list[Callable[[int], None]]) -> None:
    api, certificate = ApiServer(), ServerCertificate()
    apart = multiprocessing.get_context("spawn")
    async with HealthServer(
        "127.0.0.1", 0, **ANSWERS, **CONFIGURATION, tls=certificate.context, readers=Readers(api, api)
    ) as server:
        answers = apart.Queue()
        processes = [apart.Process(target=one, args=(server.port,), daemon=True) for one in crowd]
        for one in processes:
            one.start()
        await asyncio.sleep(3)
        probing = apart.Process(target=probe, args=(server.port, answers))
        begun_s, cpu_s, asked = time.monotonic(), time.process_time(), len(api.asked)
        probing.start()
        taken_ms = await asyncio.get_running_loop().run_in_executor(None, answers.get)
        seconds = time.monotonic() - begun_s
        share = (time.process_time() - cpu_s) / seconds
        for one in processes:
            one.kill()
        probing.join()
    print(
        f"{name:22} probes: median {taken_ms[len(taken_ms) // 2]:3.0f} ms, longest {taken_ms[-1]:3.0f} ms; "
        f"CPU {share:6.1%}; {(len(api.asked) - asked) / seconds:3.0f} reviews a second"
    )


async def main() -> None:
    await row("nobody else", [])
    await row("3,000 say nothing", [silent])
    await row("8 shake hands", [handshakes] * 8)
    await row("8 make up tokens", [made_up_tokens] * 8)


if __name__ == "__main__":
    uvloop.run(main())
