"""`dra-scheduler run`: the live scheduler of a cluster, until a signal stops it.

Exit codes: 0 stopped by SIGTERM, 1 it failed or lost its lease, 2 wrong use (an option or the configuration file), 130
stopped by Ctrl-C (SIGINT), in order like by SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from scheduler.cli.serving_options import serving_options, with_serving
from scheduler.cli.terminal import TextFormatter, escaped

if TYPE_CHECKING:
    from scheduler.app import SchedulerApp
    from scheduler.config import Config, ProfileConfig
    from scheduler.kube.credentials import Connection

log = logging.getLogger("scheduler")

_UI_PORT: Final = 10261
"""Beside those of kube-scheduler and the controller manager."""
_LEVELS: Final = ("debug", "info", "warning", "error")


def _check_selector(_: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    from scheduler.model.label_selectors import SelectorTextError, parse_label_selector, parse_slice_selector

    if text is not None:
        try:
            (parse_label_selector if parameter.name == "nodes" else parse_slice_selector)(text)
        except SelectorTextError as error:
            raise click.BadParameter(f"{text!r}: {error}") from error
    return text


def _writable(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """A file that is written at the end is tried at the start: hours of profile must not end in an error."""
    if path is not None:
        try:
            path.open("a").close()
        except OSError as error:
            raise click.BadParameter(f"cannot be written: {error.strerror}: '{path}'") from error
    return path


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    help="File to connect with. Default: $KUBECONFIG, ~/.kube/config, the pod's service account.",
)
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    help="Schedule pods with this spec.schedulerName (repeatable). Default: dra-scheduler.",
)
@click.option(
    "--nodes",
    metavar="SELECTOR",
    callback=_check_selector,
    help="Use only nodes with these labels, such as 'pool=gpu,!spot'. Default: all.",
)
@click.option(
    "--slices",
    metavar="SELECTOR",
    callback=_check_selector,
    help="Allocate only from ResourceSlices of this driver or pool, such as 'driver=gpu.example.com'. Default: all.",
)
@click.option(
    "--config",
    "config_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file; options given here win over it.",
)
@serving_options
@click.option(
    "--ui",
    "ui_port",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=_UI_PORT,
    metavar="[PORT]",
    help="Serve the page too (`dra-scheduler ui`), by a process of its own with a lower priority. Without a number: "
    f"{_UI_PORT}.",
)
@click.option("--no-health", is_flag=True, help="Serve neither health nor metrics.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="json is for programs."
)
@click.option(
    "--log-level", type=click.Choice(_LEVELS), default="info", show_default=True, help="Least level that is logged."
)
@click.option(
    "--profile-calls",
    "calls_path",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=_writable,
    help="Write a profile of all calls, for Python's pstats. Makes everything two to three times slower.",
)
@click.option(
    "--leader-elect",
    type=bool,
    is_flag=False,
    flag_value=True,
    help="Hold a Lease while scheduling, so that a second process of this scheduler name waits. Default: true.",
)
@click.option("--paranoid", is_flag=True, help="Compare every remembered verdict with a fresh one (slow).")
def run(
    *,
    kubeconfig: str | None,
    context: str | None,
    scheduler_names: tuple[str, ...],
    nodes: str | None,
    slices: str | None,
    config_path: Path | None,
    ui_port: int | None,
    no_health: bool,
    log_format: str,
    log_level: str,
    calls_path: Path | None,
    leader_elect: bool | None,
    paranoid: bool,
    **serving: Any,
) -> None:
    """Schedule pods of a cluster: the live scheduler.

    Watches pods whose spec.schedulerName is ours, finds a node and devices for each, writes the allocations into
    their ResourceClaims and binds them. Needs Kubernetes 1.34 or newer and the rights in manifests/base/rbac.yaml;
    both are checked at the start.

    \b
    dra-scheduler run --kubeconfig ~/.kube/config
    dra-scheduler run --config config.yaml
    """
    from scheduler.kube.credentials import Connection, CredentialsError

    set_up_logging(log_format, log_level)
    overrides: dict[str, Any] = {
        "nodes": nodes,
        "slices": slices,
        "health_port": serving.pop("health_port"),
        "health_address": serving.pop("health_address"),
        "is_paranoid": paranoid or None,
    }
    given = {name: value for name, value in overrides.items() if value is not None}
    config = find_configuration(config_path, given | ({"health_port": None} if no_health else {}), scheduler_names)
    config = with_serving(config, serving)
    if leader_elect is not None:
        elects = config.leader_election.model_copy(update={"leader_elect": leader_elect})
        config = config.model_copy(update={"leader_election": elects})
    try:
        connection = Connection.find(kubeconfig or config.client_connection.kubeconfig or None, context)
    except CredentialsError as error:
        raise click.UsageError(str(error)) from error
    page = _page(ui_port, config, kubeconfig, context) if ui_port is not None else None
    with _calls_profiled(calls_path):
        failure = _run(connection, config, page)
    if failure is not None:
        raise click.ClickException(failure)


class _Page(NamedTuple):
    """The arguments of `ui`, and its configuration file."""

    arguments: Sequence[str]
    settings: str


def _page(port: int, config: Config, kubeconfig: str | None, context: str | None) -> _Page:
    """So that it shows what this scheduler uses of this cluster; the file also says who may read its metrics."""
    from scheduler.config.shown import shown
    from scheduler.kube.serving import address_of

    given = {"--kubeconfig": kubeconfig or config.client_connection.kubeconfig, "--context": context}
    named = [f"{option}={value}" for option, value in given.items() if value]
    return _Page((f"--address={address_of(config)}", f"--port={port}", *named), shown(config))


@contextmanager
def _calls_profiled(path: Path | None) -> Iterator[None]:
    """Profile this thread's calls into a file, if one is given."""
    if path is None:
        yield
        return
    import cProfile

    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(path)


def find_configuration(path: Path | None, given: dict[str, Any], scheduler_names: Sequence[str]) -> Config:
    """The file's settings, those given on the command line over them."""
    from pydantic import ValidationError

    from scheduler.config import Config

    base = Config() if path is None else _read(path)
    try:
        settings = {name: getattr(base, name) for name in base.model_fields_set}
        named = {"profiles": _named_profiles(base, scheduler_names)} if scheduler_names else {}
        return Config(**(settings | {"tune_gc": True} | given | named))
    except ValidationError as error:
        # click has checked the others: what is left are scheduler names.
        texts = [
            f"{one['input']!r}: {one['msg']}" if one["loc"] else one["msg"].removeprefix("Value error, ")
            for one in error.errors()
        ]
        raise click.BadParameter("\n".join(texts), param_hint="--scheduler-name") from error


def _read(path: Path) -> Config:
    """A file's settings; what it sets without effect is logged."""
    from scheduler.config.file import ConfigError, read_config

    try:
        found = read_config(path)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    for line in found.words:
        log.warning("%s", line)
    return found.config


def _named_profiles(base: Config, names: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """The profiles of these names, each with the plugins the file gives it.

    A file with one profile gives them to whatever name is asked for; with several, each name must be among them.
    """
    by_name = {profile.scheduler_name: profile for profile in base.profiles}
    unknown = [name for name in names if name not in by_name]
    if unknown and len(by_name) > 1:
        raise click.BadParameter(
            f"{', '.join(unknown)}: the file's profiles are {', '.join(by_name)}", param_hint="--scheduler-name"
        )
    only = next(iter(by_name.values()))
    return tuple({**_written(by_name.get(name, only)), "scheduler_name": name} for name in names)


def _written(profile: ProfileConfig) -> dict[str, Any]:
    return {name: getattr(profile, name) for name in profile.model_fields_set}


def _run(connection: Connection, config: Config, page: _Page | None = None) -> str | None:
    """Run until stopped; what went wrong, if something did."""
    import uvloop

    from scheduler.kube.credentials import CredentialsError
    from scheduler.kube.lease import LeaseLostError
    from scheduler.kube.preflight import PreflightError
    from scheduler.kube.serving import ServingError

    try:
        if uvloop.run(_serve(connection, config, page)) == signal.SIGINT:
            raise KeyboardInterrupt
    except (CredentialsError, PreflightError, ServingError) as error:
        return str(error)
    except LeaseLostError as error:
        return (
            f"{error}; this process ends, for another one may be scheduling by now: start it again to wait for its turn"
        )
    except OSError as error:
        return f"cannot serve on port {config.health_port}: {error.strerror or error}"
    except Exception as error:
        # The defect and its traceback are in the log already; this is the last line a person reads.
        log.debug("ended by", exc_info=True)
        return f"the scheduler failed: {type(error).__name__}: {error}"
    return None


async def _serve(connection: Connection, config: Config, page: _Page | None) -> int | None:
    """Run until a signal ends it; the signal."""
    from scheduler.app import SchedulerApp

    stopped = asyncio.Event()
    came: list[int] = []
    has_begun = False
    loop, starting = asyncio.get_running_loop(), asyncio.current_task()
    assert starting is not None

    def stop(number: int) -> None:
        came.append(number)
        if has_begun:
            stopped.set()
        elif len(came) == 1:
            starting.cancel()  # it may be waiting for a server that never answers

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        async with SchedulerApp(connection, config, is_patient=connection.in_cluster) as app:
            has_begun = True
            # Not the loop's: it would come after what the loop had begun to send when we were stopped.
            signal.signal(signal.SIGCONT, lambda *_: _end_overslept(app))
            only = "".join(
                f", {option} only {text}"
                for option, text in (("nodes", config.nodes), ("slices", config.slices))
                if text
            )
            log.info("scheduling pods of %s%s", ", ".join(config.scheduler_names), only)
            async with _with_page(page):
                await app.run_until(stopped)
            log.info("stopping")
    except asyncio.CancelledError:
        if has_begun or not came:
            raise
    return came[0] if came else None


@asynccontextmanager
async def _with_page(page: _Page | None) -> AsyncIterator[None]:
    """A process with the page, where it is asked for, while this is open."""
    if page is None:
        yield
        return
    from scheduler.cli.ui import page_beside

    showing = asyncio.create_task(page_beside(*page))
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)


def _end_overslept(app: SchedulerApp) -> None:
    """After SIGSTOP: when the lease is lost, end at once, with whatever lies in buffers on its way to a connection."""
    if app.has_lost_lease():
        os.write(
            2, b"Error: the lease was lost while this process was stopped; it ends, for another one may be scheduling\n"
        )
        os._exit(1)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, what it is about, and the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        import orjson

        from scheduler.kube.clock import encode_micro_time

        entry = {
            "time": encode_micro_time(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return escaped(orjson.dumps(entry).decode())


def set_up_logging(log_format: str, level: str) -> None:
    """Log to standard error, as text for people or as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter() if log_format == "json" else TextFormatter("%(asctime)s %(levelname)-7s %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Their own lines about retries and connections say nothing that ours do not.
    for name in ("asyncio", "aiohttp", "kubernetes_asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
