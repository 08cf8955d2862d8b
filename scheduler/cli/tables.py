"""Tables for people and for grep: aligned on a terminal, tab-separated elsewhere.

Rules of this module
  1. Names are never cut and never broken: only the last column wraps, at blanks, and only on a terminal.
  2. What is not for a terminal has one line a row, no padding and no frame.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from scheduler.cli.terminal import echo, emphasis, escaped

_GAP: Final = "  "
_LAST_WIDTH_MIN: Final = 20  # columns; with less, wrapping makes nothing easier to read


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print to standard output, as wide as the terminal is, if it is one."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    title, *lines = table_lines(titles, rows, width)
    emphasis(title)
    for line in lines:
        echo(line)


def table_lines(titles: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> list[str]:
    """The table's lines.

    Args:
        rows: As many texts each as there are titles; what `escaped` escapes is, and a tab becomes a blank.
        width: The terminal's columns, None for tab-separated lines.
    """
    table = [[escaped(text).replace("\t", " ") for text in row] for row in (titles, *rows)]
    if width is None:
        return ["\t".join(row) for row in table]
    widths = [max(len(row[column]) for row in table) for column in range(len(titles) - 1)]
    lines = []
    for row in table:
        head = "".join(text.ljust(size) + _GAP for text, size in zip(row, widths, strict=False))
        left = width - len(head)
        last = [row[-1]]
        if left >= _LAST_WIDTH_MIN:
            last = textwrap.wrap(row[-1], left, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [((head if index == 0 else " " * len(head)) + text).rstrip() for index, text in enumerate(last)]
    return lines


def print_document(document: Mapping[str, Any], output: str) -> None:
    """Print an answer for programs, as JSON or YAML."""
    if output == "json":
        echo(*json.dumps(document, indent=2).split("\n"))
    else:
        import yaml

        echo(*yaml.safe_dump(document, sort_keys=False).split("\n"), ends_line=False)


def print_names(kind: str, names: Iterable[tuple[str, str]]) -> None:
    """Print a line for each, as `-o name` does: KIND/NAMESPACE/NAME, or KIND/NAME of what has no namespace.

    Args:
        names: Of each namespace ("" for none) and name.
    """
    for parts in names:
        echo("/".join((kind, *filter(None, parts))))
