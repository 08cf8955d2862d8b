"""House rules that no linter knows, checked over the source as text and syntax trees."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("cel", "allocator", "scheduler")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULE_LINES_MAX = 700
BANNED_NAMES = {"utils", "helpers", "helper", "common", "base", "manager", "misc"}
# The shell may await; the core, the plugins, the allocator and CEL may not.
MAY_BE_ASYNC = ("scheduler/kube/", "scheduler/embedded/", "scheduler/cli/", "scheduler/app.py")

modules = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))


@modules
def test_module_stays_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MODULE_LINES_MAX


@modules
def test_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "every module begins with a docstring"


@modules
def test_module_has_a_name_that_means_something(path: Path) -> None:
    assert path.stem not in BANNED_NAMES


@modules
def test_only_the_shell_awaits(path: Path) -> None:
    if str(path.relative_to(ROOT)).startswith(MAY_BE_ASYNC):
        return
    asynchronous = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.AsyncFunctionDef)]
    assert asynchronous == []


def test_top_level_folders_are_the_agreed_ones() -> None:
    ours = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    made = {"dist", "build"} | {name for name in ours if name.endswith((".egg-info", "__pycache__"))}
    assert ours - made == {"allocator", "benchmarks", "cel", "docs", "manifests", "scheduler", "tests"}


def test_cel_is_ours_and_not_the_package_of_that_name_on_pypi() -> None:
    import cel

    assert cel.__file__ is not None
    assert Path(cel.__file__).is_relative_to(ROOT)


def test_every_skip_gives_a_reason() -> None:
    bare = []
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".skip", "mark.skipif")):
                has_reason = bool(node.args if ast.unparse(node.func) == "pytest.skip" else node.keywords)
                if not has_reason:
                    bare.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert bare == []
