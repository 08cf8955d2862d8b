"""`dra-scheduler mcp`: answers of commands as tools for agents (MCP over standard input and output).

Rules of this module
  1. Nothing is written anywhere. Each question reads the cluster, or the files, anew.
  2. An answer has the values that a command prints with -o json; `cli` is that command.
  3. One question at a time; so many wait for it, and whoever comes beyond them is refused.
  4. An answer longer than `BYTES_MAX` is cut, and `leftOut` says of what and how much.

Not here: the answers; the protocol, which is the SDK's (`mcp`, loaded by this module only).

Cost: what the command takes, with the bounds that the page has.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import to_builtins

from scheduler.answering import played
from scheduler.cli.cluster_question import ClusterQuestion, CommandInput, cluster_question
from scheduler.cli.devices import devices_in, input_errors
from scheduler.cli.explain import explained
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.subjects import pod_named, read_subject
from scheduler.cli.ui import bound_memory

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from scheduler.ui.what_if import WhatIfRequest

Document = dict[str, Any]

BYTES_MAX: Final = 64 * 1024
_WAITING_MAX: Final = 4
_OF_FIXES: Final = ("subject", "fits", "verdict", "advice", "command", "changes", "also", "questions", "exhausted")


@click.command()
@cluster_question
@click.pass_context
def mcp(ctx: click.Context, *, question: ClusterQuestion) -> None:
    """Answer agents: why pods wait, what would help, who holds which device (MCP over standard input and output).

    An agent's program starts it, and it ends with that. It needs rights to read only. Each answer has the values that
    the command named in it prints with -o json. It needs the extra: pip install 'dra-scheduler[mcp]'.

    \b
    dra-scheduler mcp --context prod
    dra-scheduler mcp -f dump.yaml

    Exit codes: 0 ended, 2 wrong use or input.
    """
    if "-" in question.files:
        raise click.UsageError("-f -: standard input is the agent's; name a file")
    try:
        served = server(Tools(ctx, question))
    except ImportError:
        text = "mcp needs the MCP SDK, which is not installed: pip install 'dra-scheduler[mcp]'"
        raise WrongInputError(text) from None
    bound_memory()
    asyncio.run(served.run_stdio_async())


def server(tools: Tools) -> MCPServer[Any]:
    """What speaks the protocol. Raises ImportError without the SDK."""
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    words = "A cluster's devices (Kubernetes DRA): who waits and why, who has what. Read only; `cli` is how people ask."
    made = MCPServer[Any](
        "dra-scheduler", instructions=words, version=version("dra-scheduler"), log_level="WARNING", subscriptions=False
    )
    offered: tuple[Callable[..., Any], ...] = (
        *(tools.why_pending, tools.what_would_help, tools.will_it_fit, tools.make_room),
        *(tools.devices, tools.who_holds, tools.drain_device),
    )
    for tool in offered:
        made.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    return made


class Tools:
    """What agents may ask. Each method is a tool: its words are what they read of it."""

    def __init__(self, context: click.Context, question: ClusterQuestion) -> None:
        self._context: Final = context
        self._question: Final = question
        self._turn: Final = asyncio.Lock()
        self._waiting = 0

    async def why_pending(self, pod: str) -> dict[str, Any]:
        """Why a pod does not start, and where it runs if it does.

        `pod` is NAME, NAMESPACE/NAME, or deploy/NAME, job/NAME, … for the first that waits of a workload; claim/NAME
        asks about a ResourceClaim.
        """
        return await self._answer(f"explain {shlex.quote(pod)}", partial(_explain, pod))

    async def what_would_help(self, pod: str) -> dict[str, Any]:
        """The smallest change that would let a pod start, tried by asking the scheduler; `pod` as in why_pending."""

        def ask(asked: CommandInput) -> Document:
            found = _explain(pod, asked)
            return {name: found[name] for name in _OF_FIXES}

        return await self._answer(f"explain {shlex.quote(pod)}", ask)

    async def will_it_fit(self, manifest: str) -> dict[str, Any]:
        """Whether pods would run if this manifest (YAML: Pods, workloads, their claims) were created now, and where."""
        from scheduler.ui.what_if import WhatIfRequest

        def ask(asked: CommandInput) -> Document:
            found = _what_if(WhatIfRequest(manifest=manifest), asked)
            pods = (f"{one['namespace']}/{one['name']}" for one in found["pods"])
            return {**found, "cli": " ".join(f"--pod {shlex.quote(pod)}" for pod in pods)}

        is_named = self._question.files or self._question.kubeconfig or self._question.context
        beside = "" if is_named else ' --context "$(kubectl config current-context)"'
        return await self._answer(f"simulate manifest.yaml{beside}", ask)

    async def make_room(self, pod: str) -> dict[str, Any]:
        """The fewest pods to move so that a pod that waits fits, with commands; `pod` as in why_pending."""
        from scheduler.offline.offline_cluster import key_of
        from scheduler.offline.playing import BEGIN_MS
        from scheduler.ui.what_if import QUESTIONS_MAX, WhatIfRequest

        def ask(asked: CommandInput) -> Document:
            return _what_if(WhatIfRequest(room=key_of(pod_named(asked, pod, BEGIN_MS).obj)), asked)

        return await self._answer(f"make-room {shlex.quote(pod)} --questions-max {QUESTIONS_MAX}", ask)

    async def devices(self, node: str = "", device_class: str = "", free_only: bool = False) -> dict[str, Any]:
        """Devices by class, node and profile: how many are free, the largest request that fits, each one's state.

        Name a node or a class where the cluster is large.
        """
        from scheduler.inventory import Filter

        wanted = Filter(tuple(filter(None, [node])), tuple(filter(None, [device_class])), free_only)
        options = [("--node", node), ("--class", device_class)]
        words = [f"{name} {shlex.quote(value)}" for name, value in options if value] + ["--free"] * free_only
        return await self._answer(" ".join(["devices", *words]), lambda asked: _document(devices_in(asked, wanted)))

    async def who_holds(self, device: str = "") -> dict[str, Any]:
        """Which claims and pods hold a device, POOL/DEVICE or DRIVER/POOL/DEVICE; without one, all devices in use."""
        from allocator import DeviceId
        from scheduler.inventory import Filter
        from scheduler.offline.altered import device_named

        def ask(asked: CommandInput) -> Document:
            found = {DeviceId(one.driver, one.pool, one.device): one for one in devices_in(asked, Filter()).devices}
            named = [found[device_named(device, found)]] if device else [one for one in found.values() if one.users]
            return {"devices": to_builtins(named)}

        chosen = ".users != []"
        if device:
            chosen = f'"/\\(.driver)/\\(.pool)/\\(.device)" | endswith({json.dumps(f"/{device}")})'
        return await self._answer("devices", ask, pipe=f" | jq {shlex.quote(f'.devices[] | select({chosen})')}")

    async def drain_device(self, device: str) -> dict[str, Any]:
        """Where the pods that hold a device would go, in which order, with commands; `device` as in who_holds."""
        from scheduler.offline.drain_plan import document_of
        from scheduler.offline.draining import drain_device
        from scheduler.offline.playing import BEGIN_MS, profiles_with
        from scheduler.ui.data_source import STEPS_MAX
        from scheduler.ui.what_if import QUESTIONS_MAX

        def ask(asked: CommandInput) -> Document:
            profile = profiles_with(asked.config, asked.features, {}, preempts=False)
            bounds = {"questions_max": QUESTIONS_MAX, "steps_max": STEPS_MAX}
            return document_of(
                drain_device(asked.given, device, profile=profile, features=asked.features, now_ms=BEGIN_MS, **bounds)
            )

        return await self._answer(f"drain-device {shlex.quote(device)} --questions-max {QUESTIONS_MAX}", ask)

    async def _answer(self, command: str, ask: Callable[[CommandInput], Document], pipe: str = "") -> Document:
        """What `ask` finds, and the command; its `cli` is what only the answer knows of that."""
        from mcp.server.mcpserver.exceptions import ToolError

        if self._waiting >= _WAITING_MAX:
            raise ToolError(f"{_WAITING_MAX} questions wait already; ask again in a moment")
        self._waiting += 1
        try:
            async with self._turn:
                found = await played(partial(self._ask, ask))
        except click.ClickException as error:
            raise ToolError(error.message) from error
        finally:
            self._waiting -= 1
        words = ["dra-scheduler", command, shlex.join(self._question.words()), found.pop("cli", ""), f"-o json{pipe}"]
        return cut({"cli": " ".join(filter(None, words)), **found})

    def _ask(self, ask: Callable[[CommandInput], Document]) -> Document:
        from scheduler.offline.altered import NoSuchObjectError
        from scheduler.ui.what_if import WrongQuestionError

        try:
            with self._context.scope(cleanup=False), input_errors():  # a thread has no context of its own
                asked = self._question.read(warns=False, ends=False)
                found = ask(asked)
        except (NoSuchObjectError, WrongQuestionError) as error:
            raise WrongInputError(str(error)) from error
        return {**found, **({"unlisted": [*asked.unlisted]} if asked.unlisted else {})}


def _explain(pod: str, asked: CommandInput) -> Document:
    return _document(explained(asked, read_subject([pod]), time.time_ns() // 1_000_000)[0])


def _what_if(question: WhatIfRequest, asked: CommandInput) -> Document:
    from scheduler.ui.data_source import Objects
    from scheduler.ui.what_if import answer

    return answer(Objects(asked.given, asked.features), question, asked.config)


def _document(found: object) -> Document:
    document: Document = to_builtins(found)
    return document


def cut(document: Document, bytes_max: int = BYTES_MAX) -> Document:
    """The document, its longest values halved until it has so few bytes as JSON; `leftOut` counts what is gone."""
    left_out: Counter[str] = Counter()
    sizes = {name: len(json.dumps(value)) for name, value in document.items()}
    while sum(sizes.values()) > bytes_max:
        name = max(sizes, key=lambda one: sizes[one])
        value = document[name]
        kept = value[: len(value) // 2] if isinstance(value, list | tuple | str) else None
        left_out[name] += len(value) - len(kept or ())
        document = {**document, name: kept}
        sizes[name] = len(json.dumps(kept))
    return {**document, "leftOut": dict(left_out)} if left_out else document
