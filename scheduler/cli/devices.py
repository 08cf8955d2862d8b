"""`dra-scheduler devices`: which devices there are, who uses them, what is free, what still fits.

Not here: finding that out (`scheduler.inventory`), reading files and clusters (`cluster_question`).
"""

from __future__ import annotations

import asyncio
import difflib
import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.known_names import names_of
from scheduler.cli.options import output_option
from scheduler.cli.tables import print_document, print_table

if TYPE_CHECKING:
    from scheduler.inventory import DeviceList, Filter
    from scheduler.inventory.answer import DeviceSummary, Largest
    from scheduler.observer import ClusterObserver

_PAUSE_S: Final = 1.0  # between two answers of --watch; longer where looking takes longer
_REST: Final = 4  # times as long as looking took
_PROBLEMS_S: Final = 5.0  # until failures are looked at
_WITHIN: Final = {"node": "on one node"}


@click.command()
@cluster_question
@click.option("--node", "nodes", multiple=True, shell_complete=names_of("node"), help="Only this node (repeatable).")
@click.option(
    "--class", "classes", multiple=True, shell_complete=names_of("class"), help="Only this class (repeatable)."
)
@click.option("--free", "free_only", is_flag=True, help="Only nodes and devices that have something free.")
@click.option("--watch", is_flag=True, help="Go on watching, and print the devices again when they have changed.")
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
    """Say which devices are free, the largest request that still fits, and who uses what.

    The first lines say of each device class how many of its devices are free, and how many of them one request could
    get: on one node, and with one value of each attribute that says what is near (NUMA node, PCIe root, NVLink). The
    allocator itself is asked. Then nodes and who uses their devices; with -o wide each device, and each pool with its
    generation, and what is left of capacity and counters. Nothing is written anywhere.

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
        raise click.UsageError("--watch is about a cluster: leave out the files")
    wanted = Filter(nodes, classes, free_only)
    if watch:
        with _input_errors():
            asyncio.run(_watch(question, wanted, _Printer(output)))
        return
    with _without_collector(), _input_errors():
        found = _look(question, wanted)
    _Printer(output).print(found)


class _Printer:
    """Prints an answer when it is another one than before."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._before: DeviceList | None = None

    def print(self, found: DeviceList) -> None:
        before, self._before = self._before, found
        if found == before:
            return
        if before is None or found.model_copy(update={"notes": before.notes}) != before:
            if before is not None and self._output in ("table", "wide"):
                click.echo()
            _PRINT[self._output](found)
        for note in found.notes:
            if before is None or note not in before.notes:
                click.echo(f"note: {note}", err=True)


async def _watch(question: ClusterQuestion, wanted: Filter, printer: _Printer) -> None:
    """Print the devices, and again whenever something of them has changed, until Ctrl-C."""
    from scheduler.inventory import devices_observed
    from scheduler.observer import ClusterObserver

    loop = asyncio.get_running_loop()
    config, connection = question.config(), question.connection()
    assert connection is not None
    async with ClusterObserver(connection, config.features(), config.slice_selector) as observer:
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
                    click.echo(f"waiting: {text}", err=True)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Nothing becomes garbage in circles here, and looking for it takes half of the time of a large dump."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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
        near = difflib.get_close_matches(error.name, error.known, 1)
        more = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(error.known[:10]) or 'none'}"
        raise WrongInputError(f"{error}{more}") from error


def _print_short(found: DeviceList) -> None:
    _print_classes(found)
    users = _users_by_node_and_class(found.devices)
    rows = [
        (
            one.node,
            one.device_class,
            f"{one.free} of {one.devices}",
            ", ".join((*users.get((one.node, one.device_class), ()), *([one.closed] if one.closed else []))) or "-",
        )
        for one in found.nodes
    ]
    if rows:
        click.echo()
        print_table(("NODE", "CLASS", "FREE", "USED BY"), rows)
    odd = [one for one in found.pools if one.state != "complete"]
    if odd:
        click.echo()
        print_table(
            ("POOL", "GENERATION", "STATE"),
            [(f"{one.driver}/{one.pool}", str(one.generation), f"{one.state}: {one.reason}") for one in odd],
        )
    tainted = [one for one in found.devices if one.taints]
    if tainted:
        click.echo()
        print_table(("TAINTED DEVICE", "TAINTS"), [(_name(one), ", ".join(one.taints)) for one in tainted])


def _print_classes(found: DeviceList) -> None:
    for one in found.classes:
        fits = "; nothing more fits"
        if one.largest[0].count:
            fits = "; largest request that fits: " + ", ".join(map(_largest_text, one.largest))
        click.echo(f"{one.name}: {one.free} of {one.devices} free{fits if one.devices else ''}")
    if not found.classes:
        click.echo("there are no device classes")


def _largest_text(largest: Largest) -> str:
    least = "" if largest.exact else "at least "
    within = _WITHIN.get(largest.within, f"of one {largest.within}")
    return f"{least}{largest.count} {within} ({largest.node})"


def _users_by_node_and_class(listed: Sequence[DeviceSummary]) -> Mapping[tuple[str, str], list[str]]:
    """Who uses how many devices: pods, or the claim where no pod has it."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for one in listed:
        for name in one.classes:
            users = counts.setdefault((one.node or "", name), Counter())
            for user in one.users:
                users.update(user.pods or (f"claim {user.claim}",))
    return {
        key: [f"{who} ({count})" if count > 1 else who for who, count in users.items()] for key, users in counts.items()
    }


def _print_wide(found: DeviceList) -> None:
    _print_classes(found)
    if found.devices:
        click.echo()
        print_table(
            ("NODE", "DEVICE", "CLASSES", "STATE", "CAPACITY LEFT", "TAINTS", "USED BY"),
            map(_device_row, found.devices),
        )
    if found.pools:
        click.echo()
        print_table(
            ("POOL", "NODES", "GENERATION", "SLICES", "DEVICES", "STATE", "COUNTERS LEFT"),
            [
                (
                    f"{one.driver}/{one.pool}",
                    ",".join(one.nodes[:3]) + (f" and {len(one.nodes) - 3} more" if len(one.nodes) > 3 else "") or "-",
                    str(one.generation),
                    f"{one.slices} of {one.expected}" + (f", {one.superseded} old" if one.superseded else ""),
                    str(one.devices),
                    one.state + (f": {one.reason}" if one.reason else ""),
                    ", ".join(f"{each.counter_set}.{each.counter} {each.left} of {each.total}" for each in one.counters)
                    or "-",
                )
                for one in found.pools
            ],
        )


def _device_row(one: DeviceSummary) -> tuple[str, ...]:
    users = [
        f"{', '.join(user.pods) or 'no pod'} by claim {user.claim}"
        + "".join(f" {name}={amount}" for name, amount in user.consumed.items())
        + (" (admin access)" if user.admin else "")
        for user in one.users
    ]
    return (
        one.node or "-",
        _name(one),
        ",".join(one.classes) or "-",
        one.state,
        ",".join(f"{name}={amount.left}" for name, amount in one.capacity.items()) or "-",
        ",".join(one.taints) or "-",
        "; ".join(users) or "-",
    )


def _print_names(found: DeviceList) -> None:
    for one in found.devices:
        click.echo(_name(one))


def _name(one: DeviceSummary) -> str:
    return f"{one.driver}/{one.pool}/{one.device}"


_PRINT: Final[Mapping[str, Callable[[DeviceList], None]]] = {
    "table": _print_short,
    "wide": _print_wide,
    "name": _print_names,
    "json": lambda found: print_document(found.model_dump(mode="json"), "json"),
    "yaml": lambda found: print_document(found.model_dump(mode="json"), "yaml"),
}
