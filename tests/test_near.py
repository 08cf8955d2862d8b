"""`poe near` chooses the test files that import what changed, in two steps."""

from __future__ import annotations

from tests.near import near


def test_a_module_brings_the_tests_that_import_it_and_those_that_import_what_imports_it() -> None:
    found = near(["scheduler/core/state/store.py"])
    assert "tests/core/test_store.py" in found  # imports it
    assert "tests/core/test_invariants.py" in found  # imports the machine, which imports it
    assert "tests/cel/test_quantity.py" not in found


def test_a_test_brings_itself_and_a_rig_the_tests_that_use_it() -> None:
    assert near(["tests/cel/test_quantity.py"]) == ["tests/cel/test_quantity.py"]
    assert "tests/core/test_gangs.py" in near(["tests/core/rig.py"])


def test_what_nobody_imports_brings_the_folder_of_its_name() -> None:
    assert "tests/ui/test_page.py" in near(["scheduler/ui/static/js/grid.js"])
    assert "tests/test_links.py" in near(["docs/explain.md"])


def test_what_is_gone_brings_nothing_that_is_not_there() -> None:
    assert near(["tests/core/test_gone.py", "scheduler/gone.py"]) == []
