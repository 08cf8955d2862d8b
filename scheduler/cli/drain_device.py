"""`dra-scheduler drain-device`: who holds a device and where they would go, as a table, a document, and commands.

Not here: finding it out (`scheduler.offline.draining`), its words and commands (`scheduler.offline.drain_plan`).
"""

from __future__ import annotations

import click

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.move_plans import print_plan, questions_option
from scheduler.cli.options import output_option


@click.command("drain-device")
@click.argument("device", metavar="[DRIVER/]POOL/DEVICE")
@cluster_question
@questions_option
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
    from scheduler.offline.drain_plan import document_of

    asked = question.read()
    try:
        drain = draining.drain_device(asked.given, device, asked.config, asked.features, questions_max=questions_max)
    except NoSuchObjectError as error:
        raise WrongInputError(str(error)) from error
    ctx.exit(print_plan(document_of(drain), drain.problems, output))
