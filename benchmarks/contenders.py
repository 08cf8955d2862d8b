"""Who schedules: kube-scheduler, ours, or a loop that only writes. Each is a process whose CPU time is measured.

All three use the same credentials (the built-in role system:kube-scheduler), so that the API server's work for
authorization is the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import aiohttp

from benchmarks.fleet import NAMESPACE, Fleet, Object, allocation
from tests.controlplane.cluster import Component, ControlPlane, cpu_seconds, die_with_parent, resident_bytes
from tests.integration.api import Api

ROOT = Path(__file__).resolve().parents[1]


class ContenderError(Exception):
    """It ended before its work was done; the text has its last log lines."""


def told(error: Exception) -> str:
    """What went wrong, of everything that did so together."""
    return "; ".join(dict.fromkeys(_words(error)))


def _words(error: Exception) -> list[str]:
    if isinstance(error, ExceptionGroup):
        return [text for one in error.exceptions for text in _words(one)]
    return [str(error) or ("took too long" if isinstance(error, TimeoutError) else type(error).__name__)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Contender(Protocol):
    name: str
    scheduler_name: str

    async def start(self, cluster: ControlPlane, api: Api, fleet: Fleet) -> None:
        """Start it; pods may be bound from now on."""

    def cpu_seconds(self) -> float:
        """Used by its process so far."""

    def resident_bytes(self) -> int: ...

    def check_alive(self) -> None:
        """Raises ContenderError when it has ended and should not have."""

    def stop(self) -> None: ...


@dataclass(slots=True)
class KubeScheduler:
    """The real one, as fast as it can be.

    qps and burst are 5000: with its default of 50 the client's own limiter would be measured. From 1.37 on it has
    SchedulerPreQueueingHints, which is off by default and doubles its throughput with devices, as its authors say.
    """

    name: str = "kube-scheduler"
    scheduler_name: str = "kube-scheduler-bench"
    _component: Component | None = None

    async def start(self, cluster: ControlPlane, api: Api, fleet: Fleet) -> None:
        gates = {} if cluster.minor == "1.36" else {"SchedulerPreQueueingHints": True}
        self._component = cluster.start_kube_scheduler(self.scheduler_name, qps=5000, feature_gates=gates)

    @property
    def _running(self) -> Component:
        assert self._component is not None, "not started"
        return self._component

    def cpu_seconds(self) -> float:
        return self._running.cpu_seconds()

    def resident_bytes(self) -> int:
        return resident_bytes(self._running.process.pid)

    def check_alive(self) -> None:
        if self._running.process.poll() is not None:
            raise ContenderError(f"kube-scheduler ended; its log ends:\n{self._running.log_tail()}")

    def stop(self) -> None:
        if self._component is not None:
            self._component.kill()
            self._component = None


@dataclass(slots=True)
class _Process:
    """A Python process of ours."""

    log: Path = Path()
    _process: subprocess.Popen[bytes] | None = None

    def spawn(self, arguments: list[str], log: Path, stdin: Path | None = None) -> None:
        self.log = log
        with log.open("wb") as output, (stdin or Path(os.devnull)).open("rb") as given:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                stdin=given,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                preexec_fn=die_with_parent,  # noqa: PLW1509 one system call, no lock of Python's
            )

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None


@dataclass(slots=True)
class Ours:
    """`dra-scheduler run`, as a user starts it, but alone as kube-scheduler is here."""

    name: str = "dra-scheduler"
    scheduler_name: str = "dra-scheduler"
    arguments: tuple[str, ...] = ("--no-health", "--log-level=warning")
    options: tuple[str, ...] = ()
    _process: _Process = field(default_factory=_Process)

    async def start(self, cluster: ControlPlane, api: Api, fleet: Fleet) -> None:
        kubeconfig = cluster.kubeconfig("kube-scheduler")
        command = ["-m", "scheduler", "run", f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
        command += [*self.arguments, *self.options]
        self._process.spawn(command, cluster.folder / f"{self.name}.log")

    @property
    def pid(self) -> int:
        return self._process.running.pid

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def check_alive(self) -> None:
        if self._process.running.poll() is not None:
            raise ContenderError(f"dra-scheduler ended; its log ends:\n{self._process.tail()}")

    def stop(self) -> None:
        self._process.stop()


@dataclass(slots=True)
class Sampled(Ours):
    """Its stacks are read while it works, where the load is `stages`: that costs CPU time of its own."""

    name: str = "dra-scheduler, sampled"


@dataclass(slots=True)
class Serving(Ours):
    """With a health port of its own."""

    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def until_ready(self, seconds: float) -> None:
        """Until `/readyz` says so: every kind is listed, and the machine knows it."""
        async with asyncio.timeout(seconds), aiohttp.ClientSession() as session:
            while True:
                self.check_alive()
                with suppress(aiohttp.ClientError):  # not listening yet
                    async with session.get(f"{self.url}/readyz") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.05)


@dataclass(slots=True)
class BareWrites:
    """The writes alone, planned before the clock starts."""

    name: str = "bare writes"
    scheduler_name: str = "bare-writes"
    in_flight: int = 32
    _process: _Process = field(default_factory=_Process)
    _last: tuple[float, int] = (0.0, 0)

    async def start(self, cluster: ControlPlane, api: Api, fleet: Fleet) -> None:
        plan = cluster.folder / "bare-writes.jsonl"
        plan.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in await self._plan(api, fleet)))
        kubeconfig = cluster.kubeconfig("kube-scheduler")
        command = ["-m", "benchmarks.bare_writes", f"--kubeconfig={kubeconfig}", f"--in-flight={self.in_flight}"]
        self._process.spawn(command, cluster.folder / "bare-writes.log", plan)

    async def _plan(self, api: Api, fleet: Fleet) -> list[Object]:
        places = fleet.free_places()
        lines: list[Object] = []
        for pod in await api.list("pods", NAMESPACE):
            node, results = next(places)
            line: Object = {"pod": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "node": node}
            if results:
                consumer = {"resource": "pods", "name": line["pod"], "uid": line["uid"]}
                status = {"allocation": allocation(node, results), "reservedFor": [consumer]}
                name = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
                line["claim"] = {"name": name, "status": status}
            lines.append(line)
        return lines

    def cpu_seconds(self) -> float:
        if self._process.running.poll() is None:
            self._last = (cpu_seconds(self._process.running.pid), 0)
        return self._last[0]

    def resident_bytes(self) -> int:
        return 0  # of no interest, and it may have ended

    def check_alive(self) -> None:
        if self._process.running.poll() not in (None, 0):
            raise ContenderError(f"bare writes ended; its log ends:\n{self._process.tail()}")

    def stop(self) -> None:
        self._process.stop()


def contender(name: str) -> Contender:
    """A new one by its short name: kube, ours, bare or sampled."""
    return {"kube": KubeScheduler, "ours": Ours, "bare": BareWrites, "sampled": Sampled}[name]()
