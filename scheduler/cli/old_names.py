"""Old names of commands: `allocate` of `simulate`, `verdicts` of `explain -o wide`; both answer recorded cases, too.

With --jsonl they read cases from standard input, one a line, and answer each with a line: `allocate` what the allocator
says (`allocator_cases`), `verdicts` what each plugin says (`scheduler.offline.cases`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import click
from click.core import ParameterSource

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.known_names import names_of
from scheduler.cli.options import output_option
from scheduler.cli.simulate import simulate
from scheduler.cli.terminal import caution, echo
from scheduler.validation.api_fields import NEWEST

_WITH_LINES: Final = ("jsonl", "budget_steps", "kubernetes")
"""What may be said beside --jsonl."""
_jsonl = click.Option(["--jsonl"], is_flag=True, help="Read cases from standard input; answer each with a line.")


def _old_name(new: str) -> None:
    old = click.get_current_context().info_name
    caution(f"note: `{old}` is an old name; it is now `{new}`", is_error=True)


def _asks_lines(jsonl: bool) -> bool:
    """Whether lines are read; raises UsageError where more is asked."""
    context = click.get_current_context()
    given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if jsonl and not {*given} <= {*_WITH_LINES}:
        raise click.UsageError("--jsonl reads standard input: leave out files, cluster and other options")
    return jsonl


def _answer_lines(answer: Callable[[Any], Mapping[str, Any]], broken: Mapping[str, Any]) -> None:
    import orjson

    for line in filter(bytes.strip, sys.stdin.buffer):
        try:
            reply = answer(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            reply = {"name": "", **broken, "error": f"not a JSON object: {error}"}
        echo(orjson.dumps(reply).decode())


def _allocate(*, jsonl: bool, **options: Any) -> None:
    """The old name of `simulate`."""
    _old_name("simulate")
    if not _asks_lines(jsonl):
        assert simulate.callback is not None
        simulate.callback(**options)
        return
    from scheduler.cli.allocator_cases import answer
    from scheduler.offline.playing import BUDGET_STEPS

    budget_steps, kubernetes = options["budget_steps"] or BUDGET_STEPS, options["kubernetes"] or f"1.{NEWEST}"
    _answer_lines(
        lambda case: answer(case, budget_steps=budget_steps, kubernetes=kubernetes), {"outcome": "error", "steps": 0}
    )


allocate = click.Command(
    "allocate", callback=_allocate, params=[*simulate.params, _jsonl], help=_allocate.__doc__, hidden=True
)


@click.command(hidden=True)
@click.option("--pod", shell_complete=names_of("pod"), help="The pod to ask about, NAME or NAMESPACE/NAME.")
@cluster_question
@output_option("table", "json", "yaml", "name")
def verdicts(*, pod: str | None, question: ClusterQuestion, output: str, jsonl: bool) -> None:
    """The old name of `explain -o wide`."""
    _old_name("explain -o wide")
    if _asks_lines(jsonl):
        from scheduler.offline.cases import Cases

        _answer_lines(Cases().answer_anyhow, {})
    elif pod is None:
        raise click.UsageError("give the pod: --pod NAME or NAMESPACE/NAME")
    else:
        from scheduler.cli.every_node import ask_every_node

        click.get_current_context().exit(ask_every_node(question.read(), pod, output))


verdicts.params.append(_jsonl)
