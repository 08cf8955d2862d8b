"""`dra-scheduler drain-device`: who holds a device and where they would go, as a table, a document, and commands.

Not here: finding it out (`scheduler.offline.draining`), its words and commands (`scheduler.offline.drain_plan`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.options import output_option
from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import caution, echo, print_left_out

if TYPE_CHECKING:
    from scheduler.offline.draining import Drain


@click.command("drain-device")
@click.argument("device", metavar="[DRIVER/]POOL/DEVICE")
@cluster_question
@click.option(
    "--questions-max",
    default=20_000,
    show_default=True,
    type=click.IntRange(1),
    help="Give up looking for an order after so many questions to the scheduler.",
)
@output_option("table", "json", "yaml")
@click.pass_context
def drain_device(
    ctx: click.Context, *, device: str, question: ClusterQuestion, questions_max: int, output: str
) -> None:
    """Find out who holds a device and where they would go, and print the commands that empty it.

    A taint keeps new claims off the device; its holders are evicted one after the other, and the scheduler places each
    before the next one goes. With a whole device go its partitions. Nothing is written anywhere.

    \b
    dra-scheduler drain-device gpu-a/gpu-3
    dra-scheduler drain-device gpu.example.com/gpu-a/gpu-3 -f dump.yaml -o json

    Exit codes: 0 nobody holds it or there is a plan, 1 there is none or none was found, 2 wrong use or input.
    """
    from scheduler.offline import draining
    from scheduler.offline.altered import NoSuchObjectError
    from scheduler.offline.playing import BEGIN_MS, profiles_with

    asked = question.read()
    try:
        drain = draining.drain_device(
            asked.given,
            device,
            profile=profiles_with(asked.config, asked.features, {}, preempts=False),
            features=asked.features,
            now_ms=BEGIN_MS,
            questions_max=questions_max,
        )
    except NoSuchObjectError as error:
        raise WrongInputError(str(error)) from error
    _print(drain, output)
    for problem in drain.problems:
        echo(f"warning: {problem}", is_error=True)
    ctx.exit(0 if drain.outcome in ("free", "plan") else 1)


def _print(drain: Drain, output: str) -> None:
    from scheduler.offline.drain_plan import budget_texts, commands, document_of, verdict_of
    from scheduler.offline.room_plan import moved_text, warnings_of

    if output != "table":
        print_document(document_of(drain), output)
        return
    print_left_out(drain.problems)
    echo(verdict_of(drain))
    moves = [(str(number), move) for number, step in enumerate(drain.steps, 1) for move in step]
    rows = [(step, f"{one.namespace}/{one.name}", one.source, one.target, moved_text(one)) for step, one in moves]
    rows += [("-", f"{one.namespace}/{one.name}", one.node, "-", one.why) for one in drain.stays]
    if rows:
        print_table(("STEP", "POD", "FROM", "TO", "DEVICES"), rows)
    for text in (*budget_texts(drain), *drain.notes):
        echo(text)
    for text in warnings_of(move for _, move in moves):
        caution(f"warning: {text}")
    echo("", *commands(drain))
