"""`dra-scheduler devices`: which devices there are, who uses them, what is free, what still fits.

Not here: finding that out (`scheduler.inventory`), reading files and clusters (`cluster_question`), tables
(`device_tables`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import click
from msgspec import structs

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.known_names import names_of
from scheduler.cli.options import output_option
from scheduler.cli.terminal import Screen, caution, echo
from scheduler.model.nearest import listed, nearest
from scheduler.yaml_reading import without_collector

if TYPE_CHECKING:
    from scheduler.inventory import DeviceList, Filter
    from scheduler.observer import ClusterObserver

_PAUSE_S: Final = 1.0  # between two answers of --watch; longer where looking takes longer
_REST: Final = 4  # times as long as looking took
_PROBLEMS_S: Final = 5.0  # until failures are looked at
_SEPARATED: Final = ("table", "wide", "name", "yaml")


@click.command()
@cluster_question
@click.option("--node", "nodes", multiple=True, shell_complete=names_of("node"), help="Only this node (repeatable).")
@click.option(
    "--class", "classes", multiple=True, shell_complete=names_of("class"), help="Only this class (repeatable)."
)
@click.option("--free", "free_only", is_flag=True, help="Only nodes and devices that have something free.")
@click.option(
    "--watch",
    is_flag=True,
    help="Go on watching until Ctrl-C. When the devices have changed, once a second at most, a terminal is drawn anew; "
    "elsewhere they are printed again, below a line ---.",
)
@output_option("table", "wide", "json", "yaml", "name")
def devices(
    *,
    question: ClusterQuestion,
    nodes: tuple[str, ...],
    classes: tuple[str, ...],
    free_only: bool,
    watch: bool,
    output: str,
) -> None:
    """List which devices are free, the largest request that still fits, and who uses what.

    The first lines say of each device class how many of its devices are free, and how many of them one request could
    get: on one node, and with one value of each attribute that says what is near (NUMA node, PCIe root, NVLink). The
    allocator itself is asked. Then, of partitions, what is free of each profile and how many could still be given
    together; nodes and who uses their devices; devices that are blocked or tainted, and what blocks them; pools whose
    slices are missing or contradict each other. With -o wide each device, and each pool with its generation, and what
    is left of capacity and counters. Nothing is written anywhere.

    A device that is free could be given to a claim now. On nodes that are cordoned, unreachable or not ready none is.

    \b
    dra-scheduler devices
    dra-scheduler devices --context prod --class gpu.example.com --free
    dra-scheduler devices -f dump.yaml --node gpu-7 -o wide
    dra-scheduler devices -f dump.yaml -o json

    Exit codes: 0 done, 2 wrong use or input.
    """
    from scheduler.inventory import Filter

    if watch and question.files:
        raise click.UsageError("--watch watches a cluster: leave out the files")
    wanted = Filter(nodes, classes, free_only)
    if watch:
        with Screen(is_wanted=output in ("table", "wide")) as screen, _input_errors(), suppress(KeyboardInterrupt):
            asyncio.run(_watch(question, wanted, _Printer(output, screen)))
        return
    # Looking for garbage takes half of the time of a large dump.
    with without_collector(), _input_errors():
        found = _look(question, wanted)
    _Printer(output).print(found)


class _Printer:
    """Prints an answer when it is another one than before; on a screen, also when its size is."""

    def __init__(self, output: str, screen: Screen | None = None) -> None:
        self._output = output
        self._screen = screen if screen is not None and screen.is_terminal else None
        self._before: DeviceList | None = None

    def print(self, found: DeviceList) -> None:
        from scheduler.cli.device_tables import print_devices

        before, self._before = self._before, found
        if self._screen is not None:
            if found != before or self._screen.has_other_size:
                with self._screen.drawn():
                    print_devices(found, self._output)
                    for note in found.notes:
                        caution(f"note: {note}")
            return
        if found == before:
            return
        if before is None or structs.replace(found, notes=before.notes) != before:
            if before is not None and self._output in _SEPARATED:
                echo("---")
            print_devices(found, self._output)
        for note in found.notes:
            if before is None or note not in before.notes:
                echo(f"note: {note}", is_error=True)


async def _watch(question: ClusterQuestion, wanted: Filter, printer: _Printer) -> None:
    """Print the devices, and again whenever something of them has changed, until Ctrl-C."""
    from scheduler.inventory import devices_observed
    from scheduler.observer import ClusterObserver

    loop = asyncio.get_running_loop()
    config, connection = question.config(), question.connection()
    assert connection is not None
    async with ClusterObserver(connection, config.features, config.slice_selector) as observer:
        await _fill(observer)
        while True:
            begun_s, version = loop.time(), observer.version
            read = partial(devices_observed, wanted=wanted, notes=observer.problems())
            printer.print(await observer.look(read))
            spent_s = loop.time() - begun_s
            await asyncio.sleep(max(_PAUSE_S, _REST * spent_s))
            with suppress(TimeoutError):  # a watch that fails is no change
                async with asyncio.timeout(_PROBLEMS_S):
                    await observer.changed_since(version)


async def _fill(observer: ClusterObserver) -> None:
    """Wait until all has been observed; say what it waits for where that takes long."""
    reported: tuple[str, ...] = ()
    while True:
        try:
            async with asyncio.timeout(_PROBLEMS_S):
                return await observer.filled()
        except TimeoutError:
            if (problems := observer.problems()) != reported:
                reported = problems
                for text in problems:
                    echo(f"waiting: {text}", is_error=True)


def _look(question: ClusterQuestion, wanted: Filter) -> DeviceList:
    from scheduler.inventory import list_devices

    asked = question.read()
    return list_devices(asked.given, now_ms=time.time_ns() // 1_000_000, features=asked.features, wanted=wanted)


@contextmanager
def _input_errors() -> Iterator[None]:
    """What is wrong with what was given, as the command's error."""
    from scheduler.inventory import UnknownNameError
    from scheduler.kube.credentials import CredentialsError

    try:
        yield
    except CredentialsError as error:
        raise WrongInputError(str(error)) from error
    except UnknownNameError as error:
        raise WrongInputError(f"{error}; {nearest(error.name, error.known) or listed(error.known)}") from error
