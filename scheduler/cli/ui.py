"""`dra-scheduler ui`: the page, for a cluster that is watched, or for files.

Not here: the page (`scheduler.ui`), reading files and clusters (`cluster_question`).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.terminal import caution

if TYPE_CHECKING:
    from scheduler.config import Config
    from scheduler.kube.credentials import Connection
    from scheduler.observer import ClusterObserver
    from scheduler.ui.sources import Events, LiveSource, Objects


@click.command()
@cluster_question
@click.option("--address", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=0, show_default=True, type=click.IntRange(0, 65535), help="0: one that is free.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Another name under which browsers may reach the page (repeatable); requests that name none are refused.",
)
def ui(question: ClusterQuestion, *, address: str, port: int, hosts: tuple[str, ...]) -> None:
    """Show the devices, who has them, and who waits and why, in a browser.

    The page is served on this machine until Ctrl-C; its address is printed. Of a cluster it is kept up to date, and it
    needs rights to read only; of files (a dump) it shows what they say. Nothing is written anywhere.

    \b
    dra-scheduler ui
    dra-scheduler ui --context prod
    dra-scheduler ui -f dump.yaml

    Exit codes: 0 ended, 2 wrong use or input.
    """
    from scheduler.kube.credentials import CredentialsError
    from scheduler.kube.serving import is_loopback

    if not is_loopback(address):
        click.echo(caution(f"note: whoever can connect to {address} may read what you may read"), err=True)
    try:
        asyncio.run(_serve(question, address, port, hosts))
    except KeyboardInterrupt:
        return
    except CredentialsError as error:
        raise WrongInputError(str(error)) from error
    except ExceptionGroup as error:
        raise click.ClickException(f"the cluster can no longer be observed: {error.exceptions[0]}") from error
    except OSError as error:
        raise WrongInputError(f"cannot listen on {address} port {port}: {error.strerror or error}") from error


async def _serve(question: ClusterQuestion, address: str, port: int, hosts: tuple[str, ...]) -> None:
    from scheduler.ui.server import UiServer
    from scheduler.ui.sources import FileSource

    connection = question.connection()
    if connection is None:
        read = await asyncio.to_thread(_read, question, is_once=True)
        source = FileSource(", ".join(question.files), read, _configured(question))
        async with UiServer(source, address, port, hosts=hosts) as server:
            await _until_ended(server.url)
        return
    name = f"context {question.context}" if question.context else "the cluster of the current context"
    async with _live_page(question, connection, name, address=address, port=port, hosts=hosts) as url:
        await _until_ended(url)


@asynccontextmanager
async def page_of(kubeconfig: Path, name: str) -> AsyncIterator[str]:
    """The page of a cluster on a free port of this machine, while it is open; its address."""
    from scheduler.kube.credentials import Connection

    question = ClusterQuestion((), str(kubeconfig), None, None, {}, None, None, is_everywhere=True)
    async with _live_page(question, Connection.from_kubeconfig(kubeconfig), name) as url:
        yield url


@asynccontextmanager
async def _live_page(
    question: ClusterQuestion,
    connection: Connection,
    name: str,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    hosts: tuple[str, ...] = (),
) -> AsyncIterator[str]:
    from scheduler.observer import ClusterObserver
    from scheduler.ui.server import UiServer
    from scheduler.ui.sources import LiveSource, Reading

    settings = question.config()
    observer = ClusterObserver(connection, settings.features, settings.slice_selector)
    reading = Reading(partial(_read, question, is_once=False), partial(_events_of, connection))
    live = LiveSource(name, observer, reading, _configured(question))
    async with observer, UiServer(live, address, port, hosts=hosts) as server, asyncio.TaskGroup() as tasks:
        following = tasks.create_task(_follow(live, observer))
        try:
            yield server.url
        finally:
            following.cancel()


async def _follow(live: LiveSource, observer: ClusterObserver) -> None:
    """Have the first answer at hand when somebody comes; then wait for what ends it all."""
    from scheduler.garbage_collector import settle

    await live.filled()
    await live.devices()
    settle()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(live.remember())
        tasks.create_task(observer.failed())


def _configured(question: ClusterQuestion) -> Config | None:
    return question.config() if question.config_path is not None else None


async def _until_ended(url: str) -> None:
    click.echo(f"the page is at {url}", err=True)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()


def _read(question: ClusterQuestion, *, is_once: bool) -> Objects:
    from scheduler.ui.sources import Objects

    asked = question.read(warns=False, ends=is_once)
    return Objects(asked.given, asked.features, asked.unlisted)


def _events_of(connection: Connection, key: tuple[str, str]) -> Events:
    from scheduler.cli.cluster_objects import ClusterReadError, read_events
    from scheduler.ui.sources import Events

    try:
        return Events(read_events(connection, *key))
    except ClusterReadError as error:
        return Events((), (f"{error}; the pod's history has none",))
