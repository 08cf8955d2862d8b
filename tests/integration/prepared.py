"""Processes without their start-up: forked from one that has imported the program already.

To import it takes 0.6 to 0.9 s of CPU time, 0.5 s for the embedded cluster's claim controllers; the suite starts some
500 schedulers and 250 of those: a third of what it cost. From the fork on each is a process like any other: memory,
event loop, descriptors, signals and end are its own. What they share is the seed of Python's hashes.

Rules
  1. A preparing process has one thread and runs nothing of the program: a fork would copy it in the middle.
  2. It ends with the end of the socket it is asked through, and its children with it.

Not here: what the command does from its first line on (`tests/kube/test_run_command.py`, `tests/cli/test_process.py`).
"""

from __future__ import annotations

import array
import asyncio
import functools
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from scheduler.embedded.controllers.claim_process import ClaimProcess
from tests.controlplane.cluster import die_with_parent

ROOT: Final = Path(__file__).resolve().parents[2]
_REQUEST_BYTES_MAX: Final = 1 << 17
# What a module imports when its `main` runs.
_IMPORTED: Final = {
    "scheduler.__main__": ("scheduler.cli.main", "scheduler.cli.run", "scheduler.app", "pydantic", "uvloop", "orjson"),
    "scheduler.embedded.controllers.claim_process": (
        *("kopf", "scheduler.embedded.controllers.claim_controllers", "scheduler.embedded.controllers.taint_eviction"),
    ),
}
_NUMBER: Final = "q"  # of what is answered: the process's id, then what its end was


class PreparedProcess:
    """A running process: what is used of `asyncio.subprocess.Process`."""

    stdin: io.FileIO | None = None
    stdout: asyncio.StreamReader | None = None

    def __init__(self, told: socket.socket, pid: int, descriptor: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._told = told
        self._descriptor = descriptor

    def send_signal(self, number: int) -> None:
        """Raises ProcessLookupError when it has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Its exit code; negative, the signal that ended it."""
        if self.returncode is None:
            said = await asyncio.get_running_loop().sock_recv(self._told, 8)
            (self.returncode,) = array.array(_NUMBER, said)
            self._told.close()
            os.close(self._descriptor)
        return self.returncode


async def start_scheduler(arguments: Sequence[str], output: int) -> PreparedProcess:
    """`python -m scheduler ARGUMENTS` in a session of its own, at the checkout's root, without input."""
    with io.FileIO(os.devnull) as nothing:
        return await _start("scheduler.__main__", arguments, os.environ, (nothing.fileno(), output, output))


class PreparedClaimProcess(ClaimProcess):
    """The embedded cluster's claim controllers, prepared."""

    async def _spawn(self) -> None:
        their_input, our_output = os.pipe()
        our_input, their_output = os.pipe()
        environment = self._environment or os.environ
        with self._log_path.open("ab") as log, io.FileIO(their_input) as first, io.FileIO(their_output, "w") as second:
            process = await _start(
                "scheduler.embedded.controllers.claim_process",
                ["--server", self._server],
                environment,
                (first.fileno(), second.fileno(), log.fileno()),
            )
        process.stdin = io.FileIO(our_output, "w")
        process.stdout = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(process.stdout)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, io.FileIO(our_input))
        self._process = process


async def _start(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int]
) -> PreparedProcess:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = json.dumps({"arguments": list(arguments), "environment": dict(environment)}).encode()
    assert len(request) < _REQUEST_BYTES_MAX
    with theirs:
        socket.send_fds(_preparing(module), [request], [*descriptors, theirs.fileno()])
    # At first it is still importing; that is awaited here, with everything else that this process does.
    ours.setblocking(False)
    await _readable(ours)
    said, (descriptor,), _, _ = socket.recv_fds(ours, 8, 1)
    return PreparedProcess(ours, array.array(_NUMBER, said)[0], descriptor)


async def _readable(end: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(end, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(end)


@functools.cache
def _preparing(module: str) -> socket.socket:
    """The socket of the process that prepares a module's `main`, started when it is first asked; each worker's own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, module],
            cwd=ROOT,
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509 one system call, no lock of Python's
        )
    process.returncode = 0  # it ends with us; nobody waits for it
    return ours


def serve(asked: socket.socket) -> list[str] | None:
    """Fork for each request, and answer with the process's id, then with its end, until nobody asks: None.

    Returns in each child too: the arguments of its command.
    """
    ends: dict[int, tuple[int, socket.socket]] = {}  # by the child's descriptor: its id, and where its end is told
    events = select.poll()
    events.register(asked, select.POLLIN)
    while True:
        for ready, _ in events.poll():
            if ready in ends:
                events.unregister(ready)
                pid, told = ends.pop(ready)
                os.close(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with told, suppress(ConnectionError):
                    told.send(array.array(_NUMBER, [code]).tobytes())
                continue
            request, descriptors, _, _ = socket.recv_fds(asked, _REQUEST_BYTES_MAX, 4)
            if not request:
                return None
            *theirs, answer = descriptors
            pid = os.fork()
            if pid == 0:
                for _, told in ends.values():
                    told.detach()
                return _become(json.loads(request), theirs)
            for descriptor in theirs:
                os.close(descriptor)
            told = socket.socket(fileno=answer)
            child = os.pidfd_open(pid)
            ends[child] = pid, told
            events.register(child, select.POLLIN)
            with suppress(ConnectionError):
                socket.send_fds(told, [array.array(_NUMBER, [pid]).tobytes()], [child])


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> list[str]:
    os.setsid()
    die_with_parent()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(request["environment"])
    arguments: list[str] = request["arguments"]
    return arguments


def _main(module: str) -> None:
    asked = socket.socket(fileno=os.dup(0))
    if module == "scheduler.embedded.controllers.claim_process":
        sys.modules["kubernetes_asyncio"] = None  # as that module says
    for name in _IMPORTED[module]:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "rule 1"
    arguments = serve(asked)
    if arguments is None:
        os._exit(0)  # what runs still ends with this process
    asked.detach()
    sys.argv = ["scheduler", *arguments]
    sys.exit(importlib.import_module(module).main())


if __name__ == "__main__":
    _main(sys.argv[1])
