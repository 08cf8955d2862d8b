"""Where text leaves, and what only a terminal shows: colours, that something takes its time, a screen drawn anew.

Rules of this module
  1. All that a command prints goes through `echo`, which escapes what anybody may have put into an object to write to
     the terminal of whoever looks at it: it is escaped first, and coloured then.
  2. Colour says nothing that the words do not say.
  3. Output that is piped, or goes to a file, has no colours and no screen; NO_COLOR takes the colours from a terminal
     too (https://no-color.org), and `--color` decides otherwise.

Not here: bars, where it is known how much there is to do (`simulate`).
"""

from __future__ import annotations

import io
import logging
import os
import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

import click

if TYPE_CHECKING:
    from rich.status import Status

_UNSAFE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but the tab, other ends of lines, what turns the direction of text, and halves of characters."""
_PLAIN: Final = MappingProxyType[str, Any]({})
_PATIENCE_S: Final = 2.0
_NARROWEST: Final = 40
_LEFT_OUT_MAX: Final = 240
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


def escaped(text: str) -> str:
    """One line that moves no cursor, turns no direction and begins no other line.

    ESC is written \\u001b, as JSON and YAML write it; the end of a line is a blank, as in a selector of several lines.
    """
    return _UNSAFE.sub(lambda one: " " if one[0] == "\n" else f"\\u{ord(one[0]):04x}", text)


def echo(
    *lines: str, rest: str = "", style: Mapping[str, Any] = _PLAIN, is_error: bool = False, ends_line: bool = True
) -> None:
    """Print lines; an end of a line in one of them is none.

    Args:
        rest: What follows in the last line, without the style.
        style: What `click.style` takes.
        is_error: To standard error.
        ends_line: The last line is one; else more will be printed in it.
    """
    text = "\n".join(map(escaped, lines))
    click.echo((click.style(text, **style) if style else text) + escaped(rest), err=is_error, nl=ends_line)


def print_file(text: str) -> None:
    """Print what is a file's content: escaped for a terminal; as it is, for programs, anywhere else."""
    if sys.stdout.isatty():
        echo(*text.replace("\r\n", "\n").split("\n"), ends_line=False)
    else:
        click.echo(text, nl=False)


class TextFormatter(logging.Formatter):
    """A line for people, and lines below it of a traceback; what objects and servers say begins no line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 logging's name
        return escaped(super().formatMessage(record))

    def formatException(self, *about: Any) -> str:  # noqa: N802
        return "\n".join(map(escaped, super().formatException(*about).split("\n")))


def verdict(*lines: str, is_good: bool, rest: str = "") -> None:
    """Print an answer's first line."""
    echo(*lines, rest=rest, style={"fg": "green" if is_good else "red", "bold": True})


def emphasis(*lines: str) -> None:
    """Print what to do, or titles."""
    echo(*lines, style={"bold": True})


def caution(*lines: str, is_error: bool = False) -> None:
    """Print a warning."""
    echo(*lines, style={"fg": "yellow"}, is_error=is_error)


def print_left_out(texts: Sequence[str]) -> None:
    """The first line of an answer for people, where something of what was given is left out of it."""
    if texts:
        more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
        first = texts[0] if len(texts[0]) <= _LEFT_OUT_MAX else f"{texts[0][: _LEFT_OUT_MAX - 1]}…"
        caution(*wrapped(f"not all is considered: {first}{more}"))


def wrapped(text: str) -> list[str]:
    """The lines of a text, broken between words where a terminal shows them; one, for programs, anywhere else."""
    if not sys.stdout.isatty():
        return [text]
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    return textwrap.wrap(
        escaped(text), width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    ) or [""]


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
