"""`dra-scheduler ui`: the page, for a cluster that is watched, or for files.

Not here: the page (`scheduler.ui`), reading files and clusters (`cluster_question`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.options import joined
from scheduler.cli.serving_options import guard_options, with_serving
from scheduler.cli.terminal import echo

if TYPE_CHECKING:
    from scheduler.config import Config
    from scheduler.kube.credentials import Connection
    from scheduler.observer import ClusterObserver
    from scheduler.ui.data_source import Events, Objects, Source


log = logging.getLogger(__name__)

_Command = TypeVar("_Command", bound=Callable[..., Any])

_RESTART_S: Final = 1.0
_RESTART_MAX_S: Final = 60.0
_NICE: Final = 10
_ENDING_S: Final = 5
_CONTAINER_MEMORY: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def page_options(port: int) -> Callable[[_Command], _Command]:
    """`address`, `port` (this one by default) and `hosts` of a page."""
    number, hosts = click.IntRange(0, 65535), "Another name under which browsers may reach the page (repeatable); "
    return joined(
        click.option("--address", default="127.0.0.1", show_default=True, help="Where to listen."),
        click.option("--port", default=port, show_default=True, type=number, help="0: one that is free."),
        click.option("--host", "hosts", multiple=True, help=f"{hosts}requests that name none are refused."),
    )


@click.command()
@cluster_question
@page_options(0)
@guard_options
@click.option("--ends-with-stdin", is_flag=True, hidden=True, help="End when standard input does: with the scheduler.")
def ui(
    question: ClusterQuestion,
    *,
    address: str,
    port: int,
    hosts: tuple[str, ...],
    ends_with_stdin: bool,
    **serving: str | None,
) -> None:
    """Show the devices, who has them, and who waits and why, in a browser.

    The page is served on this machine until Ctrl-C; its address is printed. Of a cluster it is kept up to date, and it
    needs rights to read only; of files (a dump) it shows what they say. Nothing is written anywhere.

    \b
    dra-scheduler ui
    dra-scheduler ui --context prod
    dra-scheduler ui -f dump.yaml

    Exit codes: 0 ended, 1 the cluster can no longer be observed, 2 wrong use or input.
    """
    where = Where(address, port, hosts, serving)
    run_until_ended(_serve(question, where, ends_with_stdin=ends_with_stdin), f"{address} port {port}")


def run_until_ended(serving: Coroutine[Any, Any, None], where: str) -> None:
    """Serve a page until a signal ends it; what goes wrong becomes the command's error.

    Args:
        where: The addresses that are listened on.
    """
    from scheduler.kube.credentials import CredentialsError
    from scheduler.kube.serving import ServingError

    try:
        asyncio.run(serving)
    except KeyboardInterrupt:
        return
    except (CredentialsError, ServingError) as error:
        raise WrongInputError(str(error)) from error
    except ExceptionGroup as error:
        first = error.exceptions[0]  # a MemoryError says nothing
        raise click.ClickException(f"the cluster can no longer be observed: {str(first) or first!r}") from error
    except OSError as error:
        raise WrongInputError(f"cannot listen on {where}: {error.strerror or error}") from error


class Where(NamedTuple):
    """Where to listen, and the options about who may read that were given."""

    address: str = "127.0.0.1"
    port: int = 0
    hosts: tuple[str, ...] = ()
    serving: Mapping[str, str | None] = {}


class LivePage(NamedTuple):
    """A page that is served, and what it is made of; `settings` are those of the configuration and of options."""

    url: str
    source: Source
    observer: ClusterObserver
    settings: Config


async def _serve(question: ClusterQuestion, where: Where, *, ends_with_stdin: bool) -> None:
    from scheduler.kube.serving import ServingError, is_loopback
    from scheduler.ui.data_source import Source
    from scheduler.ui.server import UiServer

    connection = question.connection()
    if connection is None:
        is_plain = not any(value for value in where.serving.values() if value != "plain")
        if not is_loopback(where.address) or not is_plain:
            raise ServingError(
                "files are shown on a loopback address only, without TLS: there is no cluster to ask who may read"
            )
        read = await asyncio.to_thread(_read, question, is_once=True)
        source = Source.of_files(", ".join(question.files), read, _configured(question))
        await source.devices()  # at hand when somebody comes
        async with UiServer(source, where.address, where.port, hosts=where.hosts) as server:
            await until_ended(server.url, ends_with_stdin=ends_with_stdin)
        return
    async with live_page(question, connection, where) as page:
        await until_ended(page.url, ends_with_stdin=ends_with_stdin)


@asynccontextmanager
async def page_of(kubeconfig: Path, name: str) -> AsyncIterator[str]:
    """The page of a cluster on a free port of this machine, while it is open; its address."""
    from scheduler.kube.credentials import Connection

    question = ClusterQuestion((), str(kubeconfig), None, None, {}, None, None, is_everywhere=True)
    async with live_page(question, Connection(kubeconfig=kubeconfig), Where(), name) as page:
        yield page.url


@asynccontextmanager
async def live_page(
    question: ClusterQuestion, connection: Connection, where: Where, name: str = ""
) -> AsyncIterator[LivePage]:
    """The page of a cluster, while it is open."""
    from concurrent.futures import ThreadPoolExecutor

    from scheduler.kube.serving import guarded
    from scheduler.observer import ClusterObserver
    from scheduler.ui.data_source import PLAYED_MAX, Reading, Source
    from scheduler.ui.server import UiServer

    # A thread keeps the most memory that an answer in it took: six had 21 MiB each, of 500 nodes. One more reads.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(PLAYED_MAX + 1))
    name = name or (f"context {question.context}" if question.context else "the cluster of the current context")
    settings = with_serving(question.config(), where.serving)
    observer = ClusterObserver(connection, settings.features, settings.slice_selector)
    reading = Reading(partial(_read, question, is_once=False), partial(_events_of, connection))
    live = Source(name, observer, reading, _configured(question))
    async with (
        observer,
        guarded(settings.model_copy(update={"health_address": where.address}), observer.credentials) as guard,
        UiServer(live, where.address, where.port, hosts=where.hosts, guard=guard) as server,
        asyncio.TaskGroup() as tasks,
    ):
        following = tasks.create_task(_follow(live, observer))
        try:
            yield LivePage(server.url, live, observer, settings)
        finally:
            following.cancel()


async def _follow(live: Source, observer: ClusterObserver) -> None:
    """Have the first answer at hand when somebody comes; then wait for what ends it all."""
    from scheduler.garbage_collector import settle

    await live.filled()
    await live.devices()
    settle()
    await observer.failed()


def _configured(question: ClusterQuestion) -> Config | None:
    return question.config(warns=False) if question.is_configured else None


async def until_ended(url: str, *, ends_with_stdin: bool = False) -> None:
    """Say where the page is; wait for a signal, or for the end of standard input."""
    echo(f"the page is at {url}", is_error=True)
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    if ends_with_stdin:  # it ends with whoever began this
        loop.add_reader(sys.stdin.fileno(), _end_with_stdin, ended)
    most = memory_max()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    await ended.wait()
    signal.alarm(_ENDING_S)  # the system ends what has not ended by then, whatever its threads do


def _end_with_stdin(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 1):
        ended.set()


def memory_max() -> int:
    """Bytes that the page may take: half of what the machine has, or the container where that is less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CONTAINER_MEMORY:
        with suppress(OSError, ValueError):  # "max": as much as there is
            found.append(int(path.read_text()))
    return min(found) // 2


def _step_back() -> None:
    """The scheduler goes before: with the processor, and when memory is short."""
    os.nice(_NICE)
    with suppress(OSError):  # Linux has it
        Path("/proc/self/oom_score_adj").write_text("1000")


async def page_beside(arguments: Sequence[str], settings: str) -> None:
    """Keep a process with the page, which the scheduler goes before; it ends when this task is cancelled.

    Args:
        arguments: Of `ui`.
        settings: The scheduler's configuration as a file.
    """
    with _file(settings) as (path, inherited):
        command = (sys.executable, "-m", "scheduler", "ui", "--ends-with-stdin", f"--config={path}", *arguments)
        await _keep(command, inherited)


@contextmanager
def _file(text: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """A path that another process can read, and what it must inherit for that: of memory, where there is such a file.

    A scheduler in a cluster may write into no folder.
    """
    if hasattr(os, "memfd_create"):  # Linux
        with open(os.memfd_create("settings"), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}", (file.fileno(),)
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        yield file.name, ()


async def _keep(command: Sequence[str], inherited: Sequence[int]) -> None:
    loop, rest_s = asyncio.get_running_loop(), 0.0
    while True:
        begun_s = loop.time()
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, preexec_fn=_step_back, pass_fds=inherited
        )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        has_lasted = loop.time() - begun_s > _RESTART_MAX_S
        rest_s = _RESTART_S if has_lasted else min(max(_RESTART_S, 2 * rest_s), _RESTART_MAX_S)
        log.warning("the page's process ended with exit code %s; it is started again in %g s", code, rest_s)
        await asyncio.sleep(rest_s)


def _read(question: ClusterQuestion, *, is_once: bool) -> Objects:
    from scheduler.ui.data_source import Objects, UnreadableError

    try:
        asked = question.read(warns=is_once, ends=is_once)
    except WrongInputError as error:
        if is_once:
            raise
        raise UnreadableError(error.message) from error
    return Objects(asked.given, asked.features, asked.unlisted)


def _events_of(connection: Connection, key: tuple[str, str]) -> Events:
    from scheduler.cli.cluster_objects import ClusterReadError, read_events
    from scheduler.ui.data_source import Events

    try:
        return Events(read_events(connection, *key))
    except ClusterReadError as error:
        return Events((), (f"{error}; the pod's history has none",))
