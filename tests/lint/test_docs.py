"""docs/manifests.md names every rule, and no rule that is not there."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import cel.lint
import scheduler.lint

ROOT = Path(__file__).resolve().parents[2]
REPORTERS = {"report", "error", "never_valid", "warning", "Mistake", "Finding", "Trap", "warn"}


def codes_of(source: str) -> set[str]:
    """The codes that a module reports: the first texts given to what makes findings."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in REPORTERS:
            first = node.args[0]
            for each in (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    found.add(each.value)
    return found


def test_the_page_names_the_rules() -> None:
    package = Path(inspect.getfile(scheduler.lint)).parent
    in_code = set().union(*(codes_of(path.read_text(encoding="utf-8")) for path in package.glob("*.py")))
    in_code |= codes_of(inspect.getsource(cel.lint))
    page = (ROOT / "docs" / "manifests.md").read_text(encoding="utf-8")
    cells = [cell for line in page.splitlines() if line.startswith("|") for cell in line.split("|")]
    in_page = {
        code
        for cell in cells
        if re.fullmatch(r"\s*`[a-z-]+`(?:,\s*`[a-z-]+`)*\s*", cell)
        for code in re.findall(r"`([a-z-]+)`", cell)
    }

    assert in_page == in_code
