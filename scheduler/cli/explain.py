"""`dra-scheduler explain`: why a pod or claim does not fit, and the smallest change that would make it fit.

Not here: the explanation (`scheduler.explain`), reading files and clusters (`verdicts`).
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.input_size import size_option
from scheduler.cli.options import check_input, cluster_options, objects_option, output_option
from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import caution, emphasis, verdict, working

if TYPE_CHECKING:
    from scheduler.explain import Explanation

_NAMED_MAX: Final = 3
_KINDS: Final = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "claim": "claim",
    "resourceclaim": "claim",
    "resourceclaims": "claim",
}


@click.command()
@click.argument("subject", metavar="pod/NAME|claim/NAME")
@objects_option
@cluster_options("Read this cluster's objects too.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the pod or claim.")
@output_option("table", "wide", "json", "yaml")
@size_option
@click.pass_context
def explain(
    ctx: click.Context,
    subject: str,
    *,
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    output: str,
) -> None:
    """Say why a pod or claim does not fit, and the smallest change that would make it fit.

    The first line is the verdict and its cause, the second what to do. Each change was tried: it is made to a copy of
    the objects, and the scheduler itself is asked again. Nothing is written anywhere.

    \b
    kubectl get nodes,namespaces,resourceslices,deviceclasses,resourceclaims,pods -A -o yaml > dump.yaml
    dra-scheduler explain pod/web-0 -n team -f dump.yaml
    dra-scheduler explain claim/gpu -n team --kubeconfig ~/.kube/config

    Exit codes: 0 it fits or is bound, 1 it does not fit, 2 wrong use or input.
    """
    from allocator import Features
    from scheduler.cli.verdicts import read_given
    from scheduler.explain import NotThereError, explain_claim, explain_pod

    word, *inside, name = subject.split("/")
    kind = _KINDS.get(word)
    if kind is None or not name or len(inside) > 1:
        raise click.UsageError(f"{subject}: say pod/NAME or claim/NAME, or pod/NAMESPACE/NAME")
    namespace = inside[0] if inside else namespace
    check_input(files, kubeconfig, context)
    ask = explain_pod if kind == "pod" else explain_claim
    given = read_given(files, kubeconfig, context)
    try:
        with working("asking the scheduler about changes"):
            told = ask(given, (namespace, name), now_ms=time.time_ns() // 1_000_000, features=Features())
    except NotThereError as error:
        raise WrongInputError(str(error)) from error
    if output in ("table", "wide"):
        _print(told, named_max=_NAMED_MAX if output == "table" else sys.maxsize)
    else:
        print_document(told.model_dump(mode="json"), output)
    ctx.exit(0 if told.fits else 1)


def _print(told: Explanation, named_max: int) -> None:
    click.echo(verdict(told.verdict, is_good=told.fits))
    click.echo(emphasis(told.advice))
    for step in told.also:
        click.echo(f"or: {step.change}")
    if told.message:
        click.echo(f"the scheduler says: {told.message}")
    for failure in told.failures:
        click.echo(f"\nthe selector of {failure.of} fails for device {failure.device}:\n{failure.shown}")
    if told.nodes:
        click.echo()
        rows = []
        for group in told.nodes:
            names = ", ".join(group.nodes[:named_max])
            if group.count > len(group.nodes[:named_max]):
                names += f" and {group.count - len(group.nodes[:named_max])} more"
            rows.append((names, group.plugin, "; ".join((group.reason, *group.devices))))
        print_table(("NODES", "PLUGIN", "WHY"), rows)
    if told.scores:
        click.echo()
        cells = []
        for place in told.scores:
            plugins = ", ".join(f"{plugin} {score}" for plugin, score in place.plugins.items())
            cells.append((place.node, str(place.total), plugins))
        print_table(("NODES THAT FIT", "SCORE", "BY PLUGIN"), cells)
    for note in told.notes:
        click.echo(caution(f"note: {note}"), err=True)
