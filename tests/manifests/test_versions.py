"""`.ci/versions`: tests with other versions than the pinned ones. Nothing is installed here; CI runs it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.manifests.rendering import ROOT


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    module = runpy.run_path(str(ROOT / ".ci" / "versions"))
    scope = module["main"].__globals__  # run_path gives a copy
    (tmp_path / ".cache").mkdir()
    monkeypatch.setitem(scope, "ROOT", tmp_path)
    monkeypatch.setitem(scope, "LEFT_OUT", tmp_path / ".cache" / "left-out")
    return scope


def test_what_is_to_be_run_is_there_and_each_tool_is_pinned() -> None:
    module = runpy.run_path(str(ROOT / ".ci" / "versions"))

    assert [one for one in module["TESTS"] if one.startswith("tests/") and not (ROOT / one).exists()] == []
    assert set(module["TOOLS"]) - module["pins"]().keys() == set()
    assert module["PYTHONS"][0] == module["PROJECT"]["requires-python"].removeprefix(">=")


def test_what_is_not_here_is_left_out_and_fails_nothing(
    versions: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(which: str, folder: Path) -> None:
        raise versions["NotHereError"](f"there is no Python {which} here")

    monkeypatch.setitem(versions, "prepare", absent)

    assert versions["try_out"]("3.14") == ""
    assert versions["LEFT_OUT"].read_text() == (
        "LEFT OUT, tests with other versions (3.14): there is no Python 3.14 here\n"
    )


@pytest.mark.parametrize(
    ("words", "is_absent"),
    [
        ("error: No solution found when resolving dependencies", False),
        ("error: Failed to fetch: `x`\n  Caused by: dns error", True),
        ("error: Request failed after 3 retries: operation timed out", True),
        ("hint: msgspec has no wheels with a matching Python ABI tag", False),
    ],
)
def test_only_a_registry_that_does_not_answer_is_left_out(
    versions: dict[str, Any], words: str, is_absent: bool
) -> None:
    assert bool(versions["_NO_ANSWER"].search(words)) is is_absent


def test_a_failure_names_the_package_whose_version_is_enough_for_it(
    versions: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pinned = {"orjson": "3.13", "click": "8.4", "numpy": "2.4", "pytest": "9"}
    tried = {"orjson": "3.10", "click": "8.2", "numpy": "2.5", "pytest": "9"}

    class Fake:
        def __init__(self, folder: Path, python: str) -> None:
            self.python = python
            self.here = dict(pinned if folder.name == "locked" else tried)

        def install(self, wanted: str) -> None:
            name, _, version = wanted.partition("==")
            self.here[name] = version

        def install_locked(self) -> None:
            self.here = dict(pinned)

        def install_project(self) -> None:
            pass

        def versions(self) -> dict[str, str]:
            return dict(self.here)

        def failures(self, *tests: str, workers: str = "2") -> list[str]:
            return ["tests/a.py::test_b"] if self.here["click"] == "8.2" else []

    monkeypatch.setitem(versions, "Environment", Fake)
    monkeypatch.setitem(versions, "prepare", lambda which, folder: Fake(folder, which))

    assert versions["try_out"]("lowest") == (
        "lowest: tests fail because of click 8.2 (pinned: 8.4)\n  tests/a.py::test_b"
    )
