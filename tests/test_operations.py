"""docs/operations.md has an entry for each line of level error, and the tests that docs/faults.md names are there.

For each alert: `tests/manifests/test_alerts.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
TEXT: Final = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
LEVELS: Final = {"error", "exception", "critical", "fatal"}
# Logged as they are: where their text is made.
MADE_ELSEWHERE: Final = {"%s": "the lease {} was lost: {}"}


def errors_of(source: str) -> Iterator[str]:
    """The format of each call that logs an error; "" where it is not a plain text."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            owner = call.func.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            arguments = call.args
            if call.func.attr == "log" and any(
                "ERROR" in ast.unparse(one) or "CRITICAL" in ast.unparse(one) for one in arguments[:1]
            ):
                arguments = arguments[1:]
            elif call.func.attr not in LEVELS or name.lstrip("_") not in ("log", "logger", "logging"):
                continue
            first = arguments[0]
            yield first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def logged() -> dict[str, str]:
    """Where each error is logged, by its format."""
    return {
        found: f"{path.relative_to(ROOT)}"
        for package in ("scheduler", "allocator", "cel")
        for path in sorted((ROOT / package).rglob("*.py"))
        for found in errors_of(path.read_text(encoding="utf-8"))
    }


def told() -> list[str]:
    section = TEXT.partition("## Errors in the log")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)


def shown(line: str) -> str:
    """As the table has it: "…" for what differs, what follows a colon at the end being one such thing."""
    text = re.sub(r"%[sdr]|\{\}", "…", MADE_ELSEWHERE.get(line, line))
    return re.sub(r"(: …)+$", ": …", text)


def test_each_error_in_the_log_says_what_to_do() -> None:
    assert sorted(told()) == sorted(shown(line) for line in logged())


def test_the_lease_says_so() -> None:
    assert "was lost: " in (ROOT / "scheduler" / "kube" / "lease.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("source", "formats"),
    [
        ('log.error("a %s", x)', ["a %s"]),
        ('self._log.exception("b")', ["b"]),
        ('log.log(logging.ERROR, "c", x)', ["c"]),
        ('log.warning("d"); log.log(level, "e"); click.error("f")', []),
        ("log.error(text)", [""]),
    ],
)
def test_errors_are_found(source: str, formats: list[str]) -> None:
    assert list(errors_of(source)) == formats


def test_the_tests_that_are_named_are_there() -> None:
    section = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    named = [re.findall(r"`(tests/[^`]+\.py)::(test_\w+)`", row) for row in rows]
    assert len(rows) > 10
    assert all(named), [row for row, tests in zip(rows, named, strict=True) if not tests]
    missing = [
        f"{path}::{name}"
        for tests in named
        for path, name in tests
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []
