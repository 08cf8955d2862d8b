"""`dra-scheduler simulate`: which pods would run where, now or through time, from files or a cluster's objects.

Not here: playing (`scheduler.offline.playing`), what is changed beforehand (`arrivals`).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.cluster_question import ClusterQuestion, CommandInput, Key, cluster_question, keys_of, placed
from scheduler.cli.input_errors import WrongInputError, exit_code
from scheduler.cli.known_names import complete_removed, names_of
from scheduler.cli.make_room import pod_with
from scheduler.cli.plot import check_plot, plot
from scheduler.cli.subjects import pods_meant
from scheduler.cli.tables import print_document, print_names, print_table
from scheduler.cli.terminal import caution, echo, print_left_out, verdict, working
from scheduler.cli.what_node import answer_shapes
from scheduler.model.device_text import device_text
from scheduler.model.nearest import some

if TYPE_CHECKING:
    from scheduler.offline.offline_cluster import OfflineCluster, SourceObject
    from scheduler.offline.simulation import Arrival, Simulated

_BAR_MIN: Final = 100  # arrivals
_NAMES_MAX: Final = 3
"""Nodes beside each refusal in a table; all are counted."""
_COLUMNS: Final = ("namespace", "name", "outcome", "at", "bound", "ended", "node", "devices", "reason")


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, allow_dash=True), metavar="[FILE]…")
@cluster_question
@click.option(
    "--pod",
    "pods",
    multiple=True,
    shell_complete=names_of("pod"),
    help="Only this pod, or those of deploy/NAME, …",
)
@click.option(
    "--claim",
    "claims",
    multiple=True,
    shell_complete=names_of("claim", "template"),
    help="A pod that has only this claim or template.",
)
@click.option(
    "--node",
    "nodes",
    multiple=True,
    shell_complete=names_of("node"),
    help="As if only this node were there.",
)
@click.option("--arrivals", metavar="FILE", help="Pods that come later, as JSON lines.")
@click.option("--once", is_flag=True, help="Drop what arrives and does not fit at once.")
@click.option("--add", "added", multiple=True, metavar="[Nx]FILE", help="Objects more, N copies of pods and claims.")
@click.option(
    "--remove",
    "removed",
    multiple=True,
    metavar="KIND/NAME",
    shell_complete=complete_removed,
    help="Leave out node/NAME or pod/NAME.",
)
@click.option(
    "--without-device",
    "devices",
    multiple=True,
    metavar="POOL/DEVICE",
    callback=lambda _context, _parameter, value: tuple(f"device/{one}" for one in value),
    help="Leave out this device; who holds it is placed anew. The same as --remove device/POOL/DEVICE.",
)
@click.option(
    "--placement",
    type=click.Choice(["firstFit", "bestFit", "fgd", "fragmentation", "leastWaste"]),
    help="The rank of devices and nodes. Default: firstFit, or what --config says.",
)
@click.option(
    "--what-node",
    "shapes",
    metavar="FILE",
    multiple=True,
    help="How many nodes like this (a Node, its ResourceSlices) the pods that wait need.",
)
@click.option("--plot", "plot_file", metavar="FILE.png|FILE.svg", help="Draw what was given out over time.")
@click.option("--seed", type=int, help="Let arrivals come in another order, drawn from this.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml", "csv", "name"]),
    default="table",
    show_default=True,
    help="Output format; name lists the pods that are placed.",
)
@click.option(
    "--budget-steps",
    type=click.IntRange(1),
    help="Give up a node's search after so many steps. Default: 200000, or what --config says.",
)
@click.pass_context
def simulate(
    ctx: click.Context,
    *,
    paths: tuple[str, ...],
    question: ClusterQuestion,
    pods: tuple[str, ...],
    claims: tuple[str, ...],
    nodes: tuple[str, ...],
    arrivals: str | None,
    once: bool,
    added: tuple[str, ...],
    removed: tuple[str, ...],
    devices: tuple[str, ...],
    placement: str | None,
    shapes: tuple[str, ...],
    plot_file: str | None,
    seed: int | None,
    output: str,
    budget_steps: int | None,
) -> None:
    """Print which pods would run where, with which devices, and which would wait, and why.

    The scheduler itself decides. Nothing is written anywhere. Equal input gives equal output. Pods of FILEs (or -f)
    beside a cluster are asked about as if no other pod waited there; -n asks about the pods of a namespace.

    \b
    dra-scheduler simulate                                           # the pods that wait in the cluster
    dra-scheduler simulate --context prod my-pods.yaml               # mine, if I created them there
    dra-scheduler simulate -f dump.yaml --add 40xjob-pod.yaml        # would forty of them fit?
    dra-scheduler simulate -f dump.yaml --remove node/gpu-7          # where would its pods go?
    dra-scheduler simulate -f nodes/ --arrivals trace.jsonl --plot over-time.svg
    dra-scheduler simulate -f dump.yaml --what-node gpu-node.yaml    # how many such nodes would be needed?

    A line of --arrivals is {"at": 60, "for": 3600, "objects": [{"kind": "Pod", …}, …]}: seconds from the beginning,
    how long the pods run (null: to the end), and the objects.

    Exit codes: 0 every pod got a node, 1 one did not, 2 wrong use or input.
    """
    from scheduler.offline.altered import not_made_again
    from scheduler.offline.playing import find_refusals, play, profiles_with
    from scheduler.offline.verdicts import BUDGET_STEPS

    _refuse(arrivals, {"--once": once, "--seed": seed is not None, "--plot": plot_file is not None})
    samples = check_plot(plot_file)
    if shapes and (arrivals is not None or pods or claims or output in ("csv", "name")):
        raise click.UsageError("--what-node takes no --arrivals, --pod, --claim, -o csv or -o name")
    asked = replace(question, files=(*paths, *question.files)).read()
    given, later = _read(asked, arrivals=arrivals, added=added, removed=(*removed, *devices), seed=seed)
    lost = not_made_again(asked.given, given, (*removed, *devices))
    given = _on_nodes(given, nodes)
    arguments = {"placement": placement, "searchSteps": budget_steps}
    profile = profiles_with(asked.config, asked.features, arguments, preempts=not shapes)
    playing = partial(play, arrivals=later, features=asked.features, profile=profile)
    playing = partial(playing, is_offered_once=once, samples=samples, progress=_progress)
    if shapes:
        ctx.exit(answer_shapes(shapes, given, playing, output))
    probes = _probes(asked, claims)
    played = playing([*given, *probes], only=partial(_only, asked, pods, keys_of(probes, "Pod")))
    played.notes += filter(None, [lost])
    find_refusals(played, budget_steps or BUDGET_STEPS)
    plot(played.over_time, plot_file)
    if output in ("table", "wide"):
        print_left_out(played.problems)
    _PRINT[output](played)
    if not played.pods:
        where = f" in the namespace {asked.namespace}; without -n all are asked about" if asked.is_strict else ""
        played.notes.append(f"no pod waits{where}")
    for text in (*(f"note: {note}" for note in played.notes), *(f"warning: {problem}" for problem in played.problems)):
        caution(text, is_error=True)
    ctx.exit(exit_code(fits=not played.refused, is_broken=bool(played.problems)))


def _refuse(arrivals: str | None, given: Mapping[str, bool]) -> None:
    for option, is_given in given.items():
        if is_given and arrivals is None:
            raise click.UsageError(f"{option} needs --arrivals FILE")


def _read(
    asked: CommandInput,
    *,
    arrivals: str | None,
    added: Sequence[str],
    removed: Sequence[str],
    seed: int | None,
) -> tuple[list[SourceObject], list[Arrival]]:
    """What is there at the beginning, and what comes."""
    from scheduler.cli.arrivals import read_arrivals, read_copies, shuffled, take_away

    given = [*take_away(asked.given, removed), *(placed(one, asked.home) for one in read_copies(added))]
    later = read_arrivals(arrivals) if arrivals is not None else []
    return given, later if seed is None else shuffled(later, seed)


def _on_nodes(given: Sequence[SourceObject], nodes: Sequence[str]) -> list[SourceObject]:
    """The objects with these nodes only, if any are named."""
    from scheduler.offline.offline_cluster import name_of

    known = {name_of(one.obj) for one in given if one.obj.get("kind") == "Node"}
    if nodes and not known & {*nodes}:
        there = ", ".join(sorted(known)) or "none"
        raise WrongInputError(f"no node is named {' or '.join(nodes)}; known: {there}")
    return [one for one in given if not nodes or one.obj.get("kind") != "Node" or name_of(one.obj) in nodes]


def _probes(asked: CommandInput, claims: Sequence[str]) -> list[SourceObject]:
    """For each claim or template that is named a pod that has nothing else."""
    from scheduler.offline.offline_cluster import SourceObject

    of_claims = keys_of(asked.given, "ResourceClaim")
    known = of_claims | keys_of(asked.given, "ResourceClaimTemplate")
    probes = []
    for written in claims:
        key = asked.find("claim", written, known)
        field = "resourceClaimName" if key in of_claims else "resourceClaimTemplateName"
        probes.append(
            SourceObject(f"--claim {written}", pod_with(f"only-{key[1]}"[:63].rstrip("-."), key[0], field, key[1]))
        )
    return probes


def _only(
    asked: CommandInput, pods: Sequence[str], probes: Collection[Key], cluster: OfflineCluster
) -> set[Key] | None:
    """The pods that are asked about, where not all are: the others that wait are not there."""
    from scheduler.offline.offline_cluster import is_waiting

    known = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in cluster.pods()}
    refused = {problem.pod for problem in cluster.loaded.problems if problem.pod is not None}
    if pods or probes:
        named = [pods_meant(asked, one, {*known, *refused}, cluster.now_ms) for one in pods]
        return {*probes, *(key for keys in named for key in keys)}
    in_scope = {key for key in {*known, *refused} if not asked.is_strict or key[0] == asked.namespace}
    listed = keys_of((one for one in asked.listed if one.obj.get("kind") == "Pod" and is_waiting(one.obj)), "Pod")
    written = {key for key in in_scope - listed if key in refused or is_waiting(known[key])}
    if asked.listed and asked.written and written:
        return written
    return in_scope if asked.is_strict else None


@contextmanager
def _progress(length: int) -> Iterator[Callable[[], None]]:
    """Shown where a person waits for it; `simulate … > file` on a terminal shows it too."""
    if length >= _BAR_MIN and sys.stderr.isatty():
        every = length // 100
        with click.progressbar(length=length, label="arrivals", file=sys.stderr, update_min_steps=every) as bar:
            yield lambda: bar.update(1)
    else:
        with working("asking the scheduler"):
            yield lambda: None


# -- the answer -----------------------------------------------------------------------------------


def _print_rows(played: Simulated, *, is_wide: bool) -> None:
    cells = [
        (f"{pod.namespace}/{pod.name}", pod.node, ", ".join(map(device_text, pod.devices)) or "<none>")
        for pod in played.pods
        if pod.has_place
    ]
    if cells:
        print_table(("POD", "NODE", "DEVICES"), cells)
    for maker, pods in played.alike():
        names = [f"{pod.namespace}/{pod.name}" for pod in pods]
        label = ", ".join(names) if is_wide else maker.named((pods[0].namespace, pods[0].name), len(pods))
        echo(f"{label}: {pods[0].reason or pods[0].outcome}")
        for refusal in pods[0].refusals:
            nodes = some(refusal.nodes, None if is_wide else _NAMES_MAX)
            echo(f"  {nodes}: {'; '.join(refusal.devices) or refusal.reason}")
    verdict(f"{played.placed} placed, {played.refused} not", is_good=not played.refused, rest=_used(played))


def _used(played: Simulated) -> str:
    used = [
        f"{name} {100 * float(one.share):.1f} % of {one.devices}"
        for name, one in played.allocated.items()
        if one.devices
    ]
    return f"; given out at the end: {', '.join(used)}" if used else ""


def _print_csv(played: Simulated) -> None:
    from scheduler.offline.playing import row_of

    writer = csv.writer(SimpleNamespace(write=echo), lineterminator="")  # a call for each row
    writer.writerow(_COLUMNS)
    for pod in played.pods:
        row = row_of(pod)
        devices = " ".join(map(device_text, pod.devices))
        writer.writerow([{**row, "devices": devices, "reason": pod.reason}[name] for name in _COLUMNS])


def _print_for_programs(played: Simulated, *, form: str) -> None:
    from scheduler.offline.playing import document_of

    print_document(document_of(played), form)


_PRINT: Final[dict[str, Callable[[Simulated], None]]] = {
    "table": partial(_print_rows, is_wide=False),
    "wide": partial(_print_rows, is_wide=True),
    "name": lambda played: print_names("pod", ((pod.namespace, pod.name) for pod in played.pods if pod.has_place)),
    "json": partial(_print_for_programs, form="json"),
    "yaml": partial(_print_for_programs, form="yaml"),
    "csv": _print_csv,
}
