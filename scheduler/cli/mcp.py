"""`dra-scheduler mcp`: commands as tools for agents (Model Context Protocol, over standard input and output).

Rules of this module
  1. A tool is a command that only reads, run with -o json in a process of its own: the answer is what it prints, and
     `cli` is how a person would ask. Each reads the cluster, or the files, anew.
  2. One runs at a time, for at most `CPU_S_MAX` of a processor and with the memory that the page may take; so many wait
     for it, and whoever comes beyond them is refused. What nobody waits for is ended.
  3. An answer longer than `BYTES_MAX` is cut, and `leftOut` says of what and how much.

Not here: the answers; the protocol, which is the SDK's (the package `mcp`, loaded by this module only).
"""

from __future__ import annotations

import asyncio
import json
import resource
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.subjects import read_subject
from scheduler.cli.terminal import escaped
from scheduler.cli.ui import memory_max

if TYPE_CHECKING:
    from mcp.server import MCPServer

Document = dict[str, Any]

BYTES_MAX: Final = 64 * 1024
CPU_S_MAX: Final = 60
_QUESTIONS: Final = ("--questions-max", "2000")
_WAITING_MAX: Final = 4
_MANIFEST_MAX: Final = 256 * 1024
_SAID_MAX: Final = 4_000
_OF_FIXES: Final = ("subject", "fits", "verdict", "advice", "command", "changes", "also")


@click.command()
@cluster_question
def mcp(question: ClusterQuestion) -> None:
    """Answer agents: why pods wait, what would help, who holds which device (MCP over standard input and output).

    An agent's program starts it, and it ends with that. It needs rights to read only. Each answer is what the command
    that it names prints with -o json. It needs the extra: pip install 'dra-scheduler[mcp]'.

    \b
    dra-scheduler mcp --context prod
    dra-scheduler mcp -f dump.yaml

    Exit codes: 0 ended, 2 wrong use or input.
    """
    if "-" in question.files:
        raise click.UsageError("-f -: standard input is the agent's; name a file")
    try:
        served = _server(Tools(question))
    except ImportError:
        text = "mcp needs the MCP SDK, which is not installed: pip install 'dra-scheduler[mcp]'"
        raise WrongInputError(text) from None
    asyncio.run(served.run_stdio_async())


def _server(tools: Tools) -> MCPServer[Any]:
    """What speaks the protocol. Raises ImportError without the SDK."""
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    words = "A cluster's devices (Kubernetes DRA): who waits and why, who has what. Read only; `cli` is how people ask."
    made: MCPServer[Any] = MCPServer(
        "dra-scheduler", instructions=words, version=version("dra-scheduler"), log_level="WARNING"
    )
    offered: tuple[Callable[..., Any], ...] = (
        *(tools.why_pending, tools.what_would_help, tools.will_it_fit, tools.make_room),
        *(tools.devices, tools.who_holds, tools.drain_device),
    )
    for tool in offered:
        made.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True))
    return made


class Tools:
    """What agents may ask. Each method is a tool; its docstring is what they read of it."""

    def __init__(self, question: ClusterQuestion) -> None:
        self._question: Final = question
        self._turn: Final = asyncio.Lock()
        self._waiting = 0

    async def why_pending(self, pod: str) -> Document:
        """Why a pod does not start, and what was found to help; where it runs if it does.

        `pod` is NAME, NAMESPACE/NAME, or deploy/NAME, job/NAME, … for the first that waits of a workload; claim/NAME
        asks about a ResourceClaim.
        """
        return await self._answer(["explain", "--", pod])

    async def what_would_help(self, pod: str) -> Document:
        """The smallest change that would let a pod start, tried by asking the scheduler; `pod` as in why_pending."""
        found = await self._answer(["explain", "--", pod], f" | jq '{{{', '.join(_OF_FIXES)}}}'")
        return {name: value for name, value in found.items() if name in (*_OF_FIXES, *_ADDED)}

    async def will_it_fit(self, manifest: str) -> Document:
        """Whether the pods of a manifest (YAML: Pods, workloads, their claims) would run if it was created, and where.

        Pods that wait in a cluster are left aside; those that wait in a dump are played, too.
        """
        if len(manifest.encode()) > _MANIFEST_MAX:
            raise _refusal(f"the manifest is larger than {_MANIFEST_MAX // 1024} KiB: use dra-scheduler simulate")
        return await self._answer(["simulate", *self._beside(), "-"], " < manifest.yaml", manifest)

    async def make_room(self, pod: str) -> Document:
        """The fewest pods to move so that a pod that waits fits, with commands; `pod` as in why_pending."""
        try:
            subject = read_subject([pod])
        except click.UsageError as error:
            raise _refusal(error.message) from error
        # With its kind it is a name, never a file of this machine.
        return await self._answer(["make-room", *_QUESTIONS, "--", f"{subject.kind}/{subject.name}"])

    async def devices(self, node: str = "", device_class: str = "", free_only: bool = False) -> Document:
        """Devices by class, node and profile: how many are free, the largest request that fits, each one's state.

        Name a node or a class where the cluster is large.
        """
        named = [f"{name}={value}" for name, value in (("--node", node), ("--class", device_class)) if value]
        return await self._answer(["devices", *named, *(["--free"] if free_only else [])])

    async def who_holds(self, device: str = "") -> Document:
        """Which claims and pods hold a device, POOL/DEVICE or DRIVER/POOL/DEVICE; without one, all devices in use."""
        from allocator import DeviceId
        from scheduler.offline.altered import NoSuchObjectError, device_named

        chosen = ".users != []"
        if device:
            chosen = f'"/\\(.driver)/\\(.pool)/\\(.device)" | endswith({json.dumps(f"/{device}")})'
        found = await self._run(["devices"], f" | jq {shlex.quote(f'.devices[] | select({chosen})')}")
        by_id = {DeviceId(one["driver"], one["pool"], one["device"]): one for one in found["devices"]}
        try:
            named = [by_id[device_named(device, by_id)]] if device else [one for one in by_id.values() if one["users"]]
        except NoSuchObjectError as error:
            raise _refusal(escaped(str(error))) from error
        return cut({**{name: value for name, value in found.items() if name in _ADDED}, "devices": named})

    async def drain_device(self, device: str) -> Document:
        """Where the pods that hold a device would go, in which order, with commands; `device` as in who_holds."""
        return await self._answer(["drain-device", *_QUESTIONS, "--", device])

    async def _answer(self, command: Sequence[str], pipe: str = "", given: str = "") -> Document:
        return cut(await self._run(command, pipe, given))

    async def _run(self, command: Sequence[str], pipe: str = "", given: str = "") -> Document:
        """What a command prints, with `cli` and, where it says more on standard error, `said`."""
        words = [command[0], *self._question.words(), "-o", "json", *command[1:]]
        cli = f"dra-scheduler {shlex.join(words)}{pipe}"
        if self._waiting >= _WAITING_MAX:
            raise _refusal(f"{_WAITING_MAX} questions wait already; ask again in a moment")
        self._waiting += 1
        try:
            async with self._turn:
                code, printed, errors = await _run(words, given)
        except (OSError, ValueError) as error:  # a NUL, or more than a process can be given
            raise _refusal(f"this cannot be asked: {error}") from error
        finally:
            self._waiting -= 1
        said = errors.decode(errors="replace").strip().removeprefix("Error: ")[-_SAID_MAX:]
        if code == -signal.SIGXCPU:
            raise _refusal(f"no answer within {CPU_S_MAX} s of a processor; without that bound: {cli}")
        if not printed:
            raise _refusal(said or f"the command ended with exit code {code}: {cli}")
        return {"cli": cli, **({"said": said} if said else {}), **json.loads(printed)}

    def _beside(self) -> list[str]:
        """What a command needs so that it asks the cluster though it is given a file."""
        question = self._question
        connection = None if question.kubeconfig or question.context else question.connection()
        if connection is None:
            return []
        if connection.kubeconfig is None or not Path(connection.kubeconfig).is_file():
            raise _refusal("a manifest is asked about where mcp was started with --context or --kubeconfig")
        return ["--kubeconfig", str(connection.kubeconfig)]


_ADDED: Final = ("cli", "said", "leftOut")


async def _run(words: Sequence[str], given: str) -> tuple[int, bytes, bytes]:
    """Exit code and outputs; ended when nobody waits any more."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", *words), stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=_bound
    )
    try:
        printed, errors = await process.communicate(given.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, printed, errors


def _bound() -> None:
    for kind, most in ((resource.RLIMIT_CPU, CPU_S_MAX), (resource.RLIMIT_DATA, memory_max())):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _refusal(text: str) -> Exception:
    """What an agent is told instead of an answer."""
    from mcp.server.mcpserver.exceptions import ToolError

    refusal: Exception = ToolError(text)
    return refusal


def cut(document: Document, bytes_max: int = BYTES_MAX) -> Document:
    """The document, its longest values halved until it has so few bytes as JSON; `leftOut` counts what is gone."""
    left_out: Counter[str] = Counter()
    sizes = {name: len(json.dumps(value)) for name, value in document.items()}
    while sum(sizes.values()) > bytes_max:
        name = max(sizes, key=lambda one: sizes[one])
        value = document[name]
        kept = value[: len(value) // 2] if isinstance(value, list | str) else None
        left_out[name] += len(value) - len(kept or ())
        document = {**document, name: kept}
        sizes[name] = len(json.dumps(kept))
    return {**document, "leftOut": dict(left_out)} if left_out else document
