"""`dra-scheduler explain`: why a pod or claim does not fit, and the smallest change that would make it fit.

Not here: the explanation (`scheduler.explain`), reading files and clusters (`cluster_question`).
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.cluster_question import Asked, ClusterQuestion, Key, cluster_question, keys_of
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.options import output_option
from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import caution, emphasis, verdict, working, wrapped

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
@click.argument("subject", metavar="[pod/]NAME|claim/NAME")
@cluster_question
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def explain(ctx: click.Context, subject: str, *, question: ClusterQuestion, output: str) -> None:
    """Say why a pod or claim does not fit, and the smallest change that would make it fit.

    The first line is the verdict and its cause, the second what to do. Each change was tried: it is made to a copy of
    the objects, and the scheduler itself is asked again. Nothing is written anywhere.

    NAME alone is a pod. It is looked for in the namespace of -n, else in the context's; if it is in one other namespace
    only, that pod is meant.

    \b
    dra-scheduler explain web-0
    dra-scheduler explain claim/gpu -n team --context prod
    dra-scheduler explain pod/web-0 -n team -f dump.yaml

    Exit codes: 0 it fits or is bound, 1 it does not fit, 2 wrong use or input.
    """
    from scheduler.explain import NotThereError, explain_claim, explain_pod

    kind, written = _subject(subject)
    asked, now_ms = question.read(), time.time_ns() // 1_000_000
    key = _key_of(asked, kind, written, now_ms)
    ask = explain_pod if kind == "pod" else explain_claim
    try:
        with working("asking the scheduler about changes"):
            told = ask(asked.given, key, now_ms=now_ms, features=asked.features, config=asked.config)
    except NotThereError as error:
        raise WrongInputError(str(error)) from error
    if output in ("table", "wide"):
        _print(told, named_max=_NAMED_MAX if output == "table" else sys.maxsize)
    else:
        print_document(told.model_dump(mode="json"), output)
    ctx.exit(0 if told.fits else 1)


def _subject(written: str) -> tuple[str, str]:
    """Kind, and NAME or NAMESPACE/NAME."""
    word, *rest = written.split("/")
    kind = _KINDS.get(word)
    if not rest and kind is None and word:
        return "pod", word
    if kind is None or len(rest) not in (1, 2) or not all(rest):
        raise click.UsageError(f"{written!r}: say NAME or pod/NAME, claim/NAME, or pod/NAMESPACE/NAME")
    return kind, "/".join(rest)


def _key_of(asked: Asked, kind: str, written: str, now_ms: int) -> Key:
    if kind == "claim":
        return asked.find("claim", written, keys_of(asked.given, "ResourceClaim"))
    known = keys_of(asked.given, "Pod")
    if not any(key[1] == written.rpartition("/")[2] for key in known):
        from scheduler.offline import OfflineCluster

        cluster = OfflineCluster(now_ms)  # a workload's pods are in no file
        cluster.load(asked.given)
        known |= {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in cluster.pods()}
    return asked.find("pod", written, known)


def _print(told: Explanation, named_max: int) -> None:
    click.echo(verdict(wrapped(told.verdict), is_good=told.fits))
    click.echo(emphasis(wrapped(told.advice)))
    for step in told.also:
        click.echo(wrapped(f"or: {step.change}"))
    if named_max > _NAMED_MAX and told.cause not in told.verdict:
        click.echo(wrapped(f"the whole cause: {told.cause}"))
    if told.message:
        click.echo(wrapped(f"the scheduler says: {told.message}"))
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
