"""The table of codes is whole and true, and the pages that speak of codes are.

`python -m tests.lint.test_docs` writes docs/lint-codes.md from the table.
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
from scheduler.lint.codes import CODES, Code
from scheduler.lint.findings import Severity

ROOT = Path(__file__).resolve().parents[2]
REPORTERS = frozenset({"report", "error", "never_valid", "warning", "Mistake", "Finding", "Trap", "warn", "say"})


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


PAGE = ROOT / "docs" / "lint-codes.md"
FIXED = {"error": Severity.ERROR, "never_valid": Severity.ERROR, "warning": Severity.WARNING}
"""What makes findings of one severity."""


def page() -> str:
    """docs/lint-codes.md."""
    rows = [
        f'| <a id="{name}"></a>`{name}` | {severities(code)} | {code.means} | {converted(code)} |'
        for name, code in sorted(CODES.items())
    ]
    head = (
        "# What lint finds, A to Z\n\n"
        "Each finding ends with its code in brackets. An error is what a cluster refuses or ignores, or what\n"
        "can never work; a warning works, and may surprise. The last column says what `convert` makes of it.\n"
        "All are there since 0.1.0. How to use both: [manifests.md](manifests.md).\n\n"
        "| code | severity | what is so | converted to |\n|---|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def severities(code: Code) -> str:
    return " or ".join(sorted(code.severities))


def converted(code: Code) -> str:
    return code.converted or ("kept" if code.severities == {Severity.WARNING} else "refused")


def sources() -> list[str]:
    package = Path(inspect.getfile(scheduler.lint)).parent
    modules = [path.read_text(encoding="utf-8") for path in package.glob("*.py")]
    return [
        *modules,
        inspect.getsource(cel.selector_lint),
        inspect.getsource(linted),
        Path(inspect.getfile(scheduler.cli.lint)).read_text("utf-8"),
    ]


def test_the_table_has_the_codes_that_are_reported() -> None:
    faults = {code for code, _ in _FAULTS.values()}

    assert set(CODES) == faults.union(*map(codes_of, sources()))


def test_what_is_reported_as_an_error_is_one() -> None:
    """Where the call itself says it; the rest is looked at where findings are made, in all tests of lint."""
    wrong = [
        (code, name)
        for source in sources()
        for name, severity in FIXED.items()
        for code in codes_of(source, {name})
        if severity not in CODES[code].severities
    ]
    assert wrong == []


def test_the_page_is_written_from_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.lint.test_docs"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
