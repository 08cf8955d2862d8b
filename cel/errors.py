"""What can go wrong, and where: nothing else is raised out of `cel`.

Texts of compile errors are cel-go's, as Kubernetes shows them to users:
`compilation failed: ERROR: <input>:1:7: undefined field 'foo'`, the source line and a caret.

Not here: texts of single errors (each stands where it is found).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

LONGEST_LINE_SHOWN: Final = 16384
"""Bytes of a source line up to which cel-go prints it under the message."""

MOST_ISSUES_SHOWN: Final = 100
"""Findings after which cel-go only counts."""

_NARROW: Final = re.compile(r"[\x00-\x7f]")
_WIDE: Final = re.compile(r"[^\x00-\x7f]")


class CelError(Exception):
    """Base of the two kinds of failure of an expression."""


class Issue(Struct, frozen=True):
    """One finding of the parser or the checker: `offset` in code points (-1: no place), `message` one line."""

    offset: int
    message: str


class CompileError(CelError):
    """The expression is refused before any device is looked at.

    `str(error)` is the whole text as Kubernetes prints it; `issues` are the findings by place, in
    order, empty when the failure has no place (result type, program instantiation).
    """

    def __init__(self, message: str, issues: Sequence[Issue] = ()) -> None:
        super().__init__(message)
        self.issues: Final = tuple(issues)


class EvaluationError(CelError):
    """The expression failed on one device; `str(error)` is cel-go's text."""


def locate(source: str, offset: int) -> tuple[int, int, str]:
    """Line (from 1), column (from 0, in code points) and the text of the line an offset is in."""
    start = source.rfind("\n", 0, offset) + 1
    end = source.find("\n", start)
    return source.count("\n", 0, start) + 1, offset - start, source[start:] if end < 0 else source[start:end]


def render(source: str, issue: Issue) -> str:
    """`ERROR: <input>:L:C: message`, the source line and the caret, as cel-go's `Error.ToDisplayString`.

    Not ASCII means wide to cel-go: dots and caret under it are the full-width ones.
    """
    if issue.offset < 0:
        return f"ERROR: <input>:-1:0: {issue.message}"
    if not source:
        return f"ERROR: <input>:1:0: {issue.message}"
    line, column, text = locate(source, issue.offset)
    head = f"ERROR: <input>:{line}:{column + 1}: {issue.message}"
    if len(text.encode("utf-8", "replace")) > LONGEST_LINE_SHOWN:
        return head
    text = text.replace("\t", " ")
    before = text[:column]
    dots = "." * len(before) if before.isascii() else _WIDE.sub("．", _NARROW.sub(".", before))
    caret = "^" if column >= len(text) or text[column].isascii() else "＾"
    return f"{head}\n | {text}\n | {dots}{caret}"


class EvaluationFailure(Struct, frozen=True):
    """How and where an expression fails for some device: `offset` in code points, `message` one line."""

    source: str
    offset: int
    message: str

    def __str__(self) -> str:
        """As compile errors are shown: the message with line and column, the source line and a caret."""
        return render(self.source, Issue(self.offset, self.message))


def compilation_failed(source: str, issues: Sequence[Issue]) -> CompileError:
    """The error for findings of the parser or the checker, sorted by place and cut as cel-go does."""
    reported = sorted(issues[:MOST_ISSUES_SHOWN], key=lambda issue: issue.offset)
    lines = [render(source, issue) for issue in reported]
    if len(issues) > MOST_ISSUES_SHOWN:
        lines.append(f"{len(issues) - MOST_ISSUES_SHOWN} more errors were truncated")
    return CompileError("compilation failed: " + "\n".join(lines), reported)
