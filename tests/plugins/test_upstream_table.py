"""The table of upstream's test cases names only tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).parent / "upstream-tests.md"
FILES = {
    "filter": "tests/plugins/test_dynamic_resources_filter.py",
    "binding": "tests/plugins/test_dynamic_resources_binding.py",
    "hints": "tests/plugins/test_dynamic_resources_hints.py",
    "walk": "tests/plugins/test_pod_claims.py",
    "extended": "tests/plugins/test_extended_resources.py",
    "special": "tests/core/test_special_claims.py",
    "releases": "tests/plugins/test_releases.py",
    "groups": "tests/plugins/test_pod_groups.py",
    "rules": "tests/plugins/test_device_taint_rules.py",
    "tainted": "tests/core/test_taint_rules.py",
}


def named_tests(text: str) -> list[tuple[str, str, str | None]]:
    """(file, function, case id or None) of every test that the table names."""
    return [
        (FILES.get(where, where), function, case)
        for where, function, case in re.findall(r"`([\w./]+)::(\w+)(?:\[([^\]`]+)\])?`", text)
    ]


def cases_of(path: Path) -> dict[str, set[str]]:
    """The ids of the parametrized cases of each test function."""
    found: dict[str, set[str]] = {}
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            keywords = (
                keyword
                for decorator in function.decorator_list
                for call in ast.walk(decorator)
                if isinstance(call, ast.Call)
                for keyword in call.keywords
                if keyword.arg == "id"
            )
            found[function.name] = {
                keyword.value.value for keyword in keywords if isinstance(keyword.value, ast.Constant)
            }
    return found


@pytest.mark.slow
def test_every_test_in_the_table_exists() -> None:
    named = named_tests(TABLE.read_text(encoding="utf-8"))
    assert len(named) > 60
    missing = []
    for file, function, case in named:
        cases = cases_of(ROOT / file).get(function)
        if cases is None or (case and case not in cases):
            missing.append(f"{file}::{function}[{case}]")
    assert missing == []


def test_every_row_says_which_test_or_why_none() -> None:
    rows = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    silent = [
        row
        for row in rows
        if "::" not in row
        and "Not yet" not in row
        and "Differs" not in row
        and "the same" not in row
        and not re.match(r"\| (Upstream|---)", row)
    ]
    assert silent == []
