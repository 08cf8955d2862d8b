"""What can go wrong, and where: nothing else is raised out of `cel`.

Texts of compile errors are cel-go's, as Kubernetes shows them to users:
`compilation failed: ERROR: <input>:1:7: undefined field 'foo'`, the source line and a caret.

Not here: texts of single errors (each stands where it is found).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final


class CelError(Exception):
    """Base of the two kinds of failure of an expression."""


class Issue:
    """One finding of the parser or the checker: `offset` in code points, `message` one line."""

    __slots__ = ("message", "offset")

    def __init__(self, offset: int, message: str) -> None:
        self.offset: Final = offset
        self.message: Final = message

    def __repr__(self) -> str:
        return f"Issue({self.offset}, {self.message!r})"


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


def is_wide(character: str) -> bool:
    """East Asian wide or full-width: cel-go draws a full-width dot or caret under it."""
    import unicodedata  # noqa: PLC0415 - only an error text needs it, and it loads a shared library

    return unicodedata.east_asian_width(character) in "WF"


def render(source: str, issue: Issue) -> str:
    """`ERROR: <input>:L:C: message`, the source line and the caret, as cel-go's `Error.ToDisplayString`."""
    line, column, text = locate(source, issue.offset)
    text = text.replace("\t", " ")
    head = f"ERROR: <input>:{line}:{column + 1}: {issue.message}\n | {text}\n | "
    if text.isascii():
        return head + "." * column + "^"
    dots = "".join("．" if is_wide(character) else "." for character in text[:column])
    return head + dots + ("＾" if column < len(text) and is_wide(text[column]) else "^")


def compilation_failed(source: str, issues: Sequence[Issue]) -> CompileError:
    """The error for findings of the parser or the checker, sorted by place as cel-go sorts them."""
    ordered = sorted(issues, key=lambda issue: issue.offset)
    return CompileError("compilation failed: " + "\n".join(render(source, issue) for issue in ordered), ordered)
