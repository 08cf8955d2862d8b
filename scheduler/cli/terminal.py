"""What only a terminal shows: colours, that something takes its time, and a screen that is drawn anew.

Rules of this module
  1. Colour says nothing that the words do not say.
  2. Output that is piped, or goes to a file, has neither; NO_COLOR takes the colours from a terminal too
     (https://no-color.org), and `--color` decides otherwise.

Not here: bars, where it is known how much there is to do (`simulate`).
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Final, Self

import click

if TYPE_CHECKING:
    from rich.status import Status

_PATIENCE_S: Final = 2.0
_NARROWEST: Final = 40
_ENTER: Final = "\x1b[?1049h\x1b[?25l"  # the other screen, without a cursor: what was there comes back at the end
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_LINE_ENDS: Final = "\x1b[K"
_SCREEN_ENDS: Final = "\x1b[J"


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


def print_left_out(texts: Sequence[str]) -> None:
    """The first line of an answer for people, where something of what was given is left out of it."""
    if texts:
        more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
        click.echo(caution(wrapped(one_line(f"not all is considered: {texts[0]}{more}"))))


def one_line(text: str) -> str:
    """A text that moves no cursor and turns no direction: what cannot be printed is a blank."""
    return "".join(character if character.isprintable() else " " for character in text)


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


class Screen:
    """A terminal's whole screen, drawn anew in place; nothing where standard output is none.

    The screen is entered with the first drawing and left at the end, with what was drawn last printed below what was
    there before.
    """

    def __init__(self, *, is_wanted: bool = True) -> None:
        self.is_terminal: Final = is_wanted and sys.stdout.isatty()
        self._size: os.terminal_size | None = None
        self._text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._size is not None:
            click.echo(_LEAVE + self._text, nl=False)

    @property
    def has_other_size(self) -> bool:
        """Whether the terminal is larger or smaller than when it was drawn."""
        return self._size != shutil.get_terminal_size()

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Draws what is printed meanwhile: so many lines as there is room for."""
        begin = _ENTER if self._size is None else ""
        printed = _TerminalText()
        with redirect_stdout(printed):
            yield
        self._size = size = shutil.get_terminal_size()
        self._text = printed.getvalue()
        lines = _screen_lines(self._text, size.columns)
        if len(lines) > size.lines:
            hidden = len(lines) - size.lines + 1
            lines[size.lines - 1 :] = [f"... and {hidden} more lines"[: size.columns]]
        body = "\n".join(line + _LINE_ENDS for line in lines)
        click.echo(begin + _HOME + body + _SCREEN_ENDS, nl=False)


class _TerminalText(io.StringIO):
    """What is printed for a terminal, kept."""

    def isatty(self) -> bool:
        return True


def _screen_lines(text: str, columns: int) -> list[str]:
    """Lines that the terminal does not break: what is longer goes on in the next line."""
    lines: list[str] = []
    for line in text.splitlines():
        if len(click.unstyle(line)) <= columns:
            lines.append(line)
        else:
            lines += textwrap.wrap(click.unstyle(line), columns, subsequent_indent="  ", break_on_hyphens=False)
    return lines


def _status(what: str) -> Status:
    from rich.console import Console

    status = Console(stderr=True).status(f"{what} …")
    status.start()
    return status
