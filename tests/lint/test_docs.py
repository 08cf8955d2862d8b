"""The page of lint's codes has each code that is reported, with its severity.

docs/lint-codes.md is the only list of them: what each means, and what `convert` makes of it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Set
from pathlib import Path

import cel.selector_lint
import scheduler.cli.lint
import scheduler.lint
from scheduler.explain import linted
from scheduler.lint.against import _FAULTS
from tests.lint.texts import SEVERITIES

REPORTERS = frozenset({"report", "error", "never_valid", "warning", "Mistake", "Finding", "Trap", "warn", "say"})
FIXED = {"error": "error", "never_valid": "error", "warning": "warning"}
"""What makes findings of one severity."""


def codes_of(source: str, reporters: Set[str] = REPORTERS) -> set[str]:
    """The codes that a module reports: the first texts given to what makes findings."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in reporters:
            first = node.args[0]
            for each in (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    found.add(each.value)
    return found


def sources() -> list[str]:
    package = Path(inspect.getfile(scheduler.lint)).parent
    modules = [path.read_text(encoding="utf-8") for path in package.glob("*.py")]
    return [
        *modules,
        inspect.getsource(cel.selector_lint),
        inspect.getsource(linted),
        Path(inspect.getfile(scheduler.cli.lint)).read_text("utf-8"),
    ]


def test_the_page_has_the_codes_that_are_reported_in_their_order() -> None:
    faults = {code for code, _ in _FAULTS.values()}

    assert [*SEVERITIES] == sorted(faults.union(*map(codes_of, sources())))


def test_what_is_reported_as_an_error_is_one() -> None:
    """Where the call itself says it; the rest is looked at where findings are made, in all tests of lint."""
    wrong = [
        (code, name)
        for source in sources()
        for name, severity in FIXED.items()
        for code in codes_of(source, {name})
        if severity not in SEVERITIES[code]
    ]
    assert wrong == []
