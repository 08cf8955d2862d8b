"""What a flood of the health port costs ordinary pods, printed: `python -m tests.kube.measure_health [seconds]`.

An embedded cluster, `dra-scheduler run` and the crowd are processes of their own. 20 pods a second are created; the
time from each one's creation to its binding is taken, and the time of a probe of /livez, ten times a second: without a
crowd, with 8 clients that ask for /metrics without end, and with 3,000 connections on which nothing is said. Not a
test: figures depend on machines.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from scheduler.kube.api_requests import ApiClient
from scheduler.kube.credentials import Connection
from scheduler.kube.outcomes import Accepted

RATE = 20  # pods a second
CLIENTS = 8
CONNECTIONS = 3000


def flood(port: int) -> None:
    async def client(session: aiohttp.ClientSession) -> None:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
                    await response.read()
            except aiohttp.ClientError:
                pass

    async def main() -> None:
        async with aiohttp.ClientSession() as session:
            await asyncio.gather(*(client(session) for _ in range(CLIENTS)))

    asyncio.run(main())


def occupy(port: int) -> None:
    """Connections that say nothing, for as long as they are let."""
    taken = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    while True:
        time.sleep(len(taken))


async def bind_times(client: ApiClient, run: str, seconds: float) -> list[float]:
    """Milliseconds from the creation of each pod to the watch's word of its node."""
    created_s: dict[str, float] = {}
    bound_ms: list[float] = []
    all_bound = asyncio.Event()
    count = int(seconds * RATE)

    async def watch() -> None:
        async with client.stream("/api/v1/namespaces/default/pods?watch=true", inactivity_s=60) as response:
            watching.set()
            async for line in response.content:
                pod = json.loads(line)["object"]
                name = pod["metadata"]["name"]
                if pod["spec"].get("nodeName") and name in created_s:
                    bound_ms.append((time.perf_counter() - created_s.pop(name)) * 1000)
                    if len(bound_ms) == count:
                        all_bound.set()

    watching = asyncio.Event()
    task = asyncio.create_task(watch())
    await watching.wait()
    begun_s = time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, begun_s + number / RATE - time.perf_counter()))
        name = f"{run}-{number}"
        pod = {
            "metadata": {"name": name},
            "spec": {"schedulerName": "dra-scheduler", "containers": [{"name": "c", "image": "i"}]},
        }
        created_s[name] = time.perf_counter()
        outcome = await client.send("POST", "/api/v1/namespaces/default/pods", orjson.dumps(pod))
        assert isinstance(outcome, Accepted), outcome
    async with asyncio.timeout(60):
        await all_bound.wait()
    task.cancel()
    await client.send("DELETE", "/api/v1/namespaces/default/pods")
    return bound_ms


async def probe(port: int, took_ms: list[float]) -> None:
    while True:
        begun_s = time.perf_counter()
        try:
            async with (
                asyncio.timeout(1),
                aiohttp.ClientSession() as session,  # a new connection, as kubelets make
                session.get(f"http://127.0.0.1:{port}/livez") as response,
            ):
                response.raise_for_status()
            took_ms.append((time.perf_counter() - begun_s) * 1000)
        except (aiohttp.ClientError, TimeoutError, OSError):
            took_ms.append(float("inf"))
        await asyncio.sleep(0.1)


def said(name: str, values: list[float]) -> str:
    ordered = sorted(values)
    return f"{name} p50 {statistics.median(ordered):7.1f} ms  p99 {ordered[int(len(ordered) * 0.99)]:7.1f} ms"


async def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    pipe = asyncio.subprocess.PIPE
    cluster = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler.embedded", "--no-controllers"), stdout=pipe
    )
    assert cluster.stdout is not None
    kubeconfig = ""
    while not kubeconfig:
        kubeconfig = (await cluster.stdout.readline()).decode().partition("KUBECONFIG=")[2].strip()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    credentials = await Connection(kubeconfig=Path(kubeconfig)).open()
    async with ApiClient(credentials) as client:
        capacity = {"cpu": "640", "memory": "5Ti", "pods": "100000"}
        for number in range(20):
            node: dict[str, Any] = {"metadata": {"name": f"node-{number}"}}
            node["status"] = {"allocatable": capacity, "capacity": capacity}
            await client.send("POST", "/api/v1/nodes", orjson.dumps(node))
        scheduler = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", "run", "--kubeconfig", kubeconfig, "--health-port", str(port)),
            stderr=pipe,
        )
        assert scheduler.stderr is not None
        while b"caches filled" not in await scheduler.stderr.readline():
            pass
        reading = asyncio.create_task(scheduler.stderr.read())
        for name, crowd in (("alone", None), ("8 ask for /metrics", flood), ("3,000 say nothing", occupy)):
            process = multiprocessing.Process(target=crowd, args=(port,), daemon=True) if crowd else None
            if process is not None:
                process.start()
                await asyncio.sleep(2)
            took_ms: list[float] = []
            probing = asyncio.create_task(probe(port, took_ms))
            bound_ms = await bind_times(client, name.split()[-1].strip("/"), seconds)
            probing.cancel()
            print(f"{name:20} {said('binding', bound_ms)}   {said('/livez', took_ms)}", flush=True)
            if process is not None:
                process.kill()
                process.join()
        reading.cancel()
    for one in (scheduler, cluster):
        one.terminate()
        await one.wait()


if __name__ == "__main__":
    asyncio.run(main())
