"""What only a terminal shows: colours, and that something takes its time.

Rules of this module
  1. Colour says nothing that the words do not say.
  2. Output that is piped, or goes to a file, has neither; NO_COLOR takes the colours from a terminal too
     (https://no-color.org), and `--color` decides otherwise.

Not here: bars, where it is known how much there is to do (`simulate`).
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from rich.status import Status

_PATIENCE_S: Final = 2.0
_NARROWEST: Final = 40


def colour_option() -> click.Option:
    """`--color`, for the group of all commands."""
    return click.Option(
        ["--color"],
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=_decide,
        help="Colours; auto: on a terminal, unless NO_COLOR is set.",
    )


def _decide(context: click.Context, _: click.Parameter, value: str) -> None:
    """For this command and those below it: click takes colours out where `color` is false."""
    never = value == "never" or (value == "auto" and bool(os.environ.get("NO_COLOR")))
    context.color = False if never else True if value == "always" else None


def verdict(text: str, *, is_good: bool) -> str:
    """An answer's first line."""
    return click.style(text, fg="green" if is_good else "red", bold=True)


def emphasis(text: str) -> str:
    """What to do, and titles."""
    return click.style(text, bold=True)


def caution(text: str) -> str:
    """A warning."""
    return click.style(text, fg="yellow")


def wrapped(text: str) -> str:
    """Lines that break between words where a terminal shows them; as it is, for programs, anywhere else."""
    if not sys.stdout.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    lines = [
        textwrap.wrap(one, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for one in text.splitlines()
    ]
    return "\n".join("\n".join(one) for one in lines)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Shows what lasts longer than two seconds where standard error is a terminal; nothing may be written meanwhile."""
    if not sys.stderr.isatty():
        yield
        return
    shown: list[Status] = []
    timer = threading.Timer(_PATIENCE_S, lambda: shown.append(_status(what)))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for status in shown:
            status.stop()


def _status(what: str) -> Status:
    from rich.console import Console

    status = Console(stderr=True).status(f"{what} …")
    status.start()
    return status
