"""What lint says: findings, each with a place, what is wrong, since and until when it was right, and what to write.

Not here: how findings are printed (scheduler.cli.lint).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

FieldPath: TypeAlias = tuple[str | int, ...]

SHOWN_COLUMNS: Final = 200
"""Of a line, before and after a finding's place."""

NEVER_VALID: Final = "never valid in any release"


class Severity(StrEnum):
    """ERROR: a cluster refuses it, ignores it, or it can never work. WARNING: it works, and may surprise."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes:
        code: Stable name of the rule, kebab-case; docs/lint-codes.md explains each.
        field: The path in the file's object, as Kubernetes writes it.
        served: Since and until which Kubernetes release the shape was served; empty where it still is.
        fix: What to write instead, in v1.
        converted: What `convert` writes for it; empty when `convert` leaves it as it is.
        line_text: The line of the file at `place`.
    """

    code: str
    severity: Severity
    place: Place
    object: str
    field: str
    message: str
    fix: str = ""
    served: str = ""
    converted: str = ""
    line_text: str = ""

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    @property
    def is_refusal(self) -> bool:
        """An error that nothing was done about."""
        return self.is_error and not self.converted

    def as_text(self) -> str:
        """`file:line:column: severity: object: field: message [code]`, the line with a caret, and the advice."""
        subject = ": ".join(part for part in (self.object, self.field) if part)
        head = f"{self.place}: {self.severity.value}: {subject}{': ' if subject else ''}{self.message} [{self.code}]"
        lines = [head]
        if self.line_text.strip():
            # A whole file in one line is shown around the place.
            begin = max(0, self.place.column - 1 - SHOWN_COLUMNS)
            shown = self.line_text[begin : self.place.column - 1 + SHOWN_COLUMNS].replace("\t", " ")
            # A full-width character takes two columns on a terminal, and a caret under it moves.
            blanks = "".join(" " if char.isascii() else "　" for char in shown[: self.place.column - 1 - begin])
            lines += [f"  | {shown}", f"  | {blanks}^"]
        if self.served:
            lines.append(f"  served: {self.served}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(line.replace("\n", " ") for line in lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "severity": self.severity.value,
            "code": self.code,
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "object": self.object,
            "field": self.field,
            "message": self.message,
            "served": self.served,
            "fix": self.fix,
            "converted": self.converted,
        }


def field_text(path: FieldPath) -> str:
    """A path as Kubernetes writes it: `spec.devices.requests[0].exactly`."""
    text = ""
    for step in path:
        if isinstance(step, int) or not step or not all(char.isalnum() or char in "_-" for char in step):
            text += f"[{step}]"
        else:
            text += f".{step}"
    return text.removeprefix(".")
