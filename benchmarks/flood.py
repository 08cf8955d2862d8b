"""A flood of a health port: clients that ask for /metrics without a pause, and connections whose request never ends.

    python -m benchmarks.flood --port 10259 --clients 8 --half-open 3000

It prints "flooding" when all connections have been tried once, and runs until it is killed. A connection that the
server ends is opened again a second later. A process of its own: `benchmarks.hostile` is to measure the scheduler, not
itself.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
from contextlib import suppress

import uvloop

_HEAD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Never: "
_METRICS = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_CONNECT_SECONDS = 5.0


async def ask_metrics(port: int) -> None:
    while True:
        with suppress(OSError, TimeoutError):
            reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), _CONNECT_SECONDS)
            try:
                writer.write(_METRICS)
                while await reader.read(2**16):
                    pass
            finally:
                writer.close()
            continue
        await asyncio.sleep(0.1)  # refused


async def half_open(port: int, tried: asyncio.Event) -> None:
    while True:
        with suppress(OSError, TimeoutError):
            try:
                reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), _CONNECT_SECONDS)
            finally:
                tried.set()
            try:
                writer.write(_HEAD)
                while await reader.read(1024):
                    pass
            finally:
                writer.close()
        await asyncio.sleep(1)


async def flood(port: int, clients: int, connections: int) -> None:
    async with asyncio.TaskGroup() as group:
        first = [asyncio.Event() for _ in range(connections)]
        for number, tried in enumerate(first):
            group.create_task(half_open(port, tried))
            if number % 50 == 49:
                await tried.wait()  # no faster than a backlog of connections that nobody has taken yet allows
        for tried in first:
            await tried.wait()
        for _ in range(clients):
            group.create_task(ask_metrics(port))
        print("flooding", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--half-open", type=int, default=3000)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(flood(arguments.port, arguments.clients, arguments.half_open))


if __name__ == "__main__":
    main()
