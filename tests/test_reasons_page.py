"""docs/reasons.md is what the code says: each kind of cause, and each sentence of a plugin."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scheduler.why.kinds import FIXES, KINDS, Kind
from tests.reasons_page import ROOT, kinds_by_plugin, kinds_of_calls, page, tree_of

PAGE = ROOT / "docs" / "reasons.md"
CODE = [
    path
    for path in sorted((ROOT / "scheduler").rglob("*.py"))
    if path.parent.name != "why" or path.name == "reasons.py"
]


def test_the_page_is_not_stale() -> None:
    """Written by: python -m tests.reasons_page > docs/reasons.md."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_each_kind_that_code_names_is_in_the_table() -> None:
    named = {kind: f"{path}:{line}" for path in CODE for line, kinds in kinds_of_calls(path) for kind in kinds}

    assert {kind: place for kind, place in named.items() if kind not in KINDS} == {}
    assert len(named) >= 18


def test_each_blame_of_a_plugin_names_its_kind_where_it_can_be_read() -> None:
    unread = [
        f"{path}:{line}"
        for path in CODE
        if path.is_relative_to(ROOT / "scheduler" / "plugins")
        for line, kinds in kinds_of_calls(path)
        if not kinds
    ]
    assert unread == []


def test_each_kind_of_the_table_is_named_by_code() -> None:
    texts = {
        one.value
        for path in CODE
        for one in ast.walk(tree_of(path))
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }
    assert set(KINDS) - texts == set()


def test_each_row_stands_once_and_each_fix_is_offered() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in CODE)

    tables = [(ROOT / "scheduler" / "why" / f"{name}.txt").read_text(encoding="utf-8") for name in ("reasons", "fixes")]
    rows = [[line.split()[0] for line in table.splitlines() if line[:1].islower()] for table in tables]
    assert rows == [[*KINDS], [*FIXES]]
    assert [name for name in FIXES if f'"{name}"' not in texts] == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_has_what_the_page_shows(kind: Kind) -> None:
    assert kind.says
    assert not any(text.startswith("[") for text in kind.says.values())
    assert kind.means.endswith(".")
    assert kind.do.endswith(".")


def test_plugins_are_found_with_their_sentences_and_kinds() -> None:
    text = page()
    for plugin, sentence in (
        ("NodeUnschedulable", "node(s) were unschedulable"),
        ("DynamicResources", "cannot allocate all claims"),
        ("DynamicResources", "request …: device class … does not exist"),
        ("NodeResourcesFit", "Insufficient …"),
        ("NodeResourcesFit", "Too many pods"),
        ("SchedulingGates", "waiting for scheduling gates: […]"),
    ):
        of_plugin = text.partition(f"\n### {plugin}\n")[2].partition("\n### ")[0]
        assert f"\n- `{sentence}`\n" in of_plugin
    kinds = kinds_by_plugin()
    assert {"pods-full", "resources-short"} <= kinds["NodeResourcesFit"]
    assert kinds["InterPodAffinity"] == {"pod-affinity-unmet"}


def test_a_new_kind_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "blame.py"
    calls = 'return Reason("x", {}), Reason(kind, {}), Reason(a, {})'
    path.write_text(f'def f(a):\n    kind = "b" if a else "c"\n    {calls}\n')

    assert [kinds for _, kinds in kinds_of_calls(path)] == [{"x"}, {"b", "c"}, set()]
