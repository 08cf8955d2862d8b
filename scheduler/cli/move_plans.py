"""Plans of moves, as `make-room` and `drain-device` print them: a table and a script, or a document.

Not here: what a plan says (`scheduler.offline.room_plan`, `drain_plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import caution, echo, print_left_out
from scheduler.model.device_text import device_text

Command = TypeVar("Command", bound=Callable[..., Any])


def questions_option(command: Command) -> Command:
    """Give a command the option --questions-max."""
    return click.option(
        "--questions-max",
        default=20_000,
        show_default=True,
        type=click.IntRange(1),
        help="Give up looking for a plan after so many questions to the scheduler.",
    )(command)


def print_plan(document: Mapping[str, Any], problems: Sequence[str], output: str) -> int:
    """Print it, and return the exit code: 0 where nothing needs to move or there is a plan.

    Args:
        document: The answer for programs.
        problems: What of the objects is left out.
    """
    if output == "table":
        print_left_out(problems)
        _print_table(document)
    else:
        print_document(document, output)
    for problem in problems:
        echo(f"warning: {problem}", is_error=True)
    return 0 if document["outcome"] in ("fits", "free", "plan") else 1


def _print_table(document: Mapping[str, Any]) -> None:
    echo(document["text"])
    rows = [
        (str(one.get("step", "-")), f"{one['namespace']}/{one['name']}", one["from"], one.get("to", "-"), _what(one))
        for one in document.get("holders", document.get("moves", ()))
    ]
    if rows:
        print_table(("STEP", "POD", "FROM", "TO", "DEVICES"), rows)
    for text in (*(one["text"] for one in document["budgets"]), *document.get("notes", ())):
        echo(text)
    for text in document["warnings"]:
        caution(f"warning: {text}")
    if document["commands"]:
        echo("", *document["commands"])
    cannot = document.get("cannotMove", {}) if not rows else {}
    for why, count in sorted(cannot.items(), key=lambda one: (-one[1], one[0])):
        echo(f"cannot move: {count} {'pod' if count == 1 else 'pods'}: {why}")


def _what(holder: Mapping[str, Any]) -> str:
    """The devices of a pod and those that it would get, or why it stays."""
    if "why" in holder:
        return str(holder["why"])
    had, given = (", ".join(map(device_text, holder[name])) or "no devices" for name in ("devices", "given"))
    return f"{had} -> {given}" if holder["devices"] or holder["given"] else "<none>"
