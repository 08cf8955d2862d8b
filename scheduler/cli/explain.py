"""`dra-scheduler explain`: why a pod or claim does not fit, and the smallest change that would make it fit.

Not here: the explanation (`scheduler.explain`), reading files and clusters (`cluster_question`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import click
from msgspec import structs, to_builtins

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.known_names import complete_subject
from scheduler.cli.options import output_option
from scheduler.cli.subjects import meant, read_subject
from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import caution, echo, emphasis, print_left_out, verdict, working, wrapped

if TYPE_CHECKING:
    from scheduler.explain import Explanation

_NAMED_MAX: Final = 3


@click.command()
@click.argument("subject", nargs=-1, metavar="[KIND/]NAME", shell_complete=complete_subject)
@cluster_question
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def explain(ctx: click.Context, subject: tuple[str, ...], *, question: ClusterQuestion, output: str) -> None:
    """Explain why a pod or claim does not fit, and find the smallest change that makes it fit.

    The first line is the verdict and its cause, the second what to do. Each change was tried: it is made to a copy of
    the objects, and the scheduler itself is asked again. Nothing is written anywhere.

    NAME alone is a pod; claim/NAME is a claim; deploy/, sts/, ds/, rs/ and job/NAME mean the pods of a workload, of
    which the first that waits is explained and the others are counted by cause. It is looked for in the namespace of
    -n, else in the context's; if it is in one other namespace only, that one is meant. Without a NAME, -A has a line
    for each pod that waits, and -n for those of a namespace.

    \b
    dra-scheduler explain web-0
    dra-scheduler explain deploy/web -n team
    dra-scheduler explain -A
    dra-scheduler explain claim/gpu -n team --context prod
    dra-scheduler explain pod/web-0 -n team -f dump.yaml

    Exit codes: 0 it fits or is bound, 1 it does not fit, 2 wrong use or input.
    """
    from scheduler.explain import NotThereError, explain_claim, explain_pod
    from scheduler.framework.cycle import UNLIMITED_STEPS

    now_ms = time.time_ns() // 1_000_000
    if not subject:
        ctx.exit(_explain_all(question, output, now_ms))
    named = read_subject(subject)
    asked = question.read()
    found = meant(asked, named, now_ms)
    kind, key, others = found.kind, found.key, tuple[str, ...]()
    if found.workload:
        from scheduler.cli.pods_table import of_workload

        key, others = of_workload(asked, found, now_ms)
    ask: Callable[..., Explanation] = explain_pod if kind == "pod" else explain_claim
    if output == "wide" and kind == "pod":
        ask = partial(explain_pod, steps_max=UNLIMITED_STEPS)
    try:
        with working("asking the scheduler about changes"):
            answer = ask(asked.given, key, now_ms=now_ms, features=asked.features, config=asked.config)
    except NotThereError as error:
        raise WrongInputError(str(error)) from error
    answer = structs.replace(answer, notes=(*others, *answer.notes))
    if output in ("table", "wide"):
        _print(answer, named_max=_NAMED_MAX if output == "table" else sys.maxsize)
        if output == "wide" and kind == "pod":
            from scheduler.cli.victims_table import print_preemption

            print_preemption(asked, key)
    else:
        print_document(to_builtins(answer), output)
    ctx.exit(0 if answer.fits else 1)


def _explain_all(question: ClusterQuestion, output: str, now_ms: int) -> int:
    if not question.is_everywhere and question.namespace is None:
        raise click.UsageError("give NAME or KIND/NAME; -A for all pods that wait; -n NAMESPACE for those of one")
    from scheduler.cli.pods_table import explain_all

    return explain_all(question.read(), output, now_ms)


def _print(answer: Explanation, named_max: int) -> None:
    print_left_out(answer.left_out)
    verdict(*wrapped(answer.verdict), is_good=answer.fits)
    emphasis(*wrapped(answer.advice))
    for step in answer.also:
        echo(*wrapped(f"or: {step.change}"))
    if named_max > _NAMED_MAX and answer.cause not in answer.verdict:
        echo(*wrapped(f"the whole cause: {answer.cause}"))
    if answer.message:
        echo(*wrapped(f"the scheduler says: {answer.message}"))
    for failure in answer.failures:
        where = f"the selector of {failure.of} fails for device {failure.device}:"
        echo("", where, *failure.shown.split("\n"))
    if answer.nodes:
        echo()
        rows = []
        for group in answer.nodes:
            names = ", ".join(group.nodes[:named_max])
            if group.count > len(group.nodes[:named_max]):
                names += f" and {group.count - len(group.nodes[:named_max])} more"
            more = (text for text in group.devices if text not in group.reason)
            rows.append((names, group.plugin, "; ".join((group.reason, *more))))
        print_table(("NODES", "PLUGIN", "WHY"), rows)
    if answer.scores:
        echo()
        cells = []
        for place in answer.scores:
            plugins = ", ".join(f"{plugin} {score}" for plugin, score in place.plugins.items())
            cells.append((place.node, str(place.total), plugins))
        print_table(("NODES THAT FIT", "SCORE", "BY PLUGIN"), cells)
    for note in answer.notes:
        caution(f"note: {note}", is_error=True)
