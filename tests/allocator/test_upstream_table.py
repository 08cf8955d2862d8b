"""upstream-tests.md names tests that exist, and every upstream case has one."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

from tests.allocator import (
    test_parts,
    test_search_effort,
    test_small_worlds,
    test_upstream_cases,
    test_upstream_device_features,
)

TABLE = Path(__file__).parent / "upstream-tests.md"
MODULES: dict[str, ModuleType] = {
    "cases": test_upstream_cases,
    "features": test_upstream_device_features,
    "effort": test_search_effort,
    "parts": test_parts,
    "worlds": test_small_worlds,
}


def rows() -> list[list[str]]:
    lines = TABLE.read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(\w+)::(\w+)(?:\[([^]`]+)\])?`", TABLE.read_text())
    assert len(named) > 219
    for short, function, parameter in named:
        module = MODULES[short]
        assert callable(getattr(module, function)), f"{short}::{function}"
        if parameter:
            assert parameter in module.CASES, parameter


def test_every_upstream_case_has_a_row_with_a_test() -> None:
    assert len(rows()) >= 219 + 4
    without = [row[0] for row in rows() if not row[1]]
    assert without == ["selection of the variant per feature set"]


def test_every_case_here_is_in_the_table() -> None:
    text = TABLE.read_text()
    for module in (test_upstream_cases, test_upstream_device_features):
        for name in module.CASES:
            assert f"test_case[{name}]" in text
