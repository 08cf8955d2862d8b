"""House rules that no linter knows, checked over the source as text and syntax trees.

Three of them are ratchets: long functions, long modules, and the places that the recipes of docs/CONTRIBUTING.md touch.
What they count may fall and never grow. Whoever makes it fall lowers the number here in the same commit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("cel", "allocator", "scheduler")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULE_LINES_MAX = 700
MODULE_LINES_WANTED = 500
FUNCTION_LINES_WANTED = 55
# Ratchets: lower them, never raise them.
LONGEST_FUNCTION = 86
LONG_FUNCTIONS = 3
LONG_MODULES = {
    *("cel/checker/checker.py", "cel/checker/declarations.py", "cel/evaluator/codegen.py"),
    *("cel/library/values.py", "cel/parser/parser.py"),
}
BANNED_NAMES = {"utils", "helpers", "helper", "common", "base", "manager", "misc"}
# The shell may await; the core, the plugins, the allocator and CEL may not.
MAY_BE_ASYNC = (
    "scheduler/kube/",
    "scheduler/embedded/",
    "scheduler/cli/",
    "scheduler/ui/",
    "scheduler/answering.py",
    "scheduler/app.py",
    "scheduler/observer.py",
)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_modules_stay_small() -> None:
    grown = [
        f"{name_of(path)}: {lines}"
        for path in MODULES
        if (lines := lines_of(path)) > (MODULE_LINES_MAX if name_of(path) in LONG_MODULES else MODULE_LINES_WANTED)
    ]
    assert grown == [], (
        "split what it does into two modules with a name each "
        f"(more than {MODULE_LINES_WANTED} lines only where LONG_MODULES has it, and that list only shrinks)"
    )


def test_long_modules_are_still_long() -> None:
    long = {name_of(path) for path in MODULES if lines_of(path) > MODULE_LINES_WANTED}
    gone = LONG_MODULES - long
    assert gone == set(), f"strike them from LONG_MODULES (renamed: put the new name there): {sorted(gone)}"


def functions() -> Iterator[tuple[int, str]]:
    """Lines of each function of the product, and where it begins."""
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield node.end_lineno - node.lineno + 1, f"{name_of(path)}:{node.lineno} {node.name}"


def test_functions_do_not_grow() -> None:
    by_length = sorted(functions(), reverse=True)
    long = [f"{lines} lines: {where}" for lines, where in by_length if lines > FUNCTION_LINES_WANTED]
    advice = "split yours: a part with a name of its own becomes a function; the longest are\n" + "\n".join(long)
    assert by_length[0][0] <= LONGEST_FUNCTION, (
        f"a function is longer than any before it ({LONGEST_FUNCTION} lines): {advice}"
    )
    assert len(long) <= LONG_FUNCTIONS, (
        f"{len(long)} functions have more than {FUNCTION_LINES_WANTED} lines, {LONG_FUNCTIONS} may: {advice}"
    )
    now = (by_length[0][0], len(long))
    assert now == (LONGEST_FUNCTION, LONG_FUNCTIONS), f"better than the limits: make these (LONGEST, LONG) = {now}"


def test_modules_say_what_they_are() -> None:
    """The first line of a docstring stands alone, and is a whole sentence or noun phrase with its full stop."""
    heads = {name_of(path): [*(ast.get_docstring(parsed(path)) or "").splitlines(), "", ""][:2] for path in MODULES}
    assert [name for name, (first, rest) in heads.items() if rest or not first.endswith((".", ":", "?"))] == []


SOURCE = re.compile(r"^Source: (.*?)(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
VERSION = re.compile(r"\d+\.\d+|^none upstream")


@pytest.mark.parametrize("package", ["scheduler/core", "allocator"])
def test_maps_of_folders_are_whole(package: str) -> None:
    """A folder's docstring names its modules, or the folders in it: the map that a newcomer reads first."""
    missing = []
    for init in (ROOT / package).rglob("__init__.py"):
        text = ast.get_docstring(parsed(init)) or ""
        rooms = {path.stem for path in init.parent.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
        missing += [
            f"{name_of(init)} does not name {room}"
            for room in rooms - {"__init__"}
            if not re.search(rf"\b{room}\b", text)
        ]
    assert not missing, "\n".join(sorted(missing))


def test_sources_name_their_version() -> None:
    """So that a new release is read against what was mirrored, and not against a memory of it."""
    without = [
        f"{name_of(path)}: Source: {source}"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for source in SOURCE.findall(ast.get_docstring(node) or "")
        if not VERSION.search(source)
    ]
    assert without == [], "which version was read (v0.36.3, v1.36.3, Go 1.26)?"


def test_modules_have_names_that_mean_something() -> None:
    assert [name_of(path) for path in MODULES if path.stem in BANNED_NAMES] == []


def test_only_the_shell_awaits() -> None:
    asynchronous = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        if not name_of(path).startswith(MAY_BE_ASYNC)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.AsyncFunctionDef)
    ]
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


# The recipes of docs/CONTRIBUTING.md: the places that they touch, and no more.

CONTRIBUTING = (ROOT / "docs" / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"^\*\*A ([^*:]+): (\d+)\.\*\*(.*?)(?=^\*\*A |^## )", CONTRIBUTING, re.DOTALL | re.MULTILINE)
MORE = "a recipe has grown by this place: let the place find what it needs in the table that the recipe names"


def test_recipes_count_their_places() -> None:
    assert [(name, int(count)) for name, count, _ in RECIPES] == [
        *(("plugin", 3), ("CEL function", 2), ("kind of object that a plugin reads", 2), ("metric", 2)),
        ("cause that a pod can wait for", 3),
    ]
    for name, count, steps in RECIPES:
        assert len(re.findall(r"^\d\. ", steps, re.MULTILINE)) == int(count), name


def test_a_pods_way_names_files_that_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    way = text[text.index("## A pod's way") : text.index("## Why it is fast")]
    named = re.findall(r"`([a-z_/]+\.py)`", way)
    assert len(named) > 15
    assert [file for file in named if not ((ROOT / "scheduler" / file).exists() or (ROOT / file).exists())] == []


def test_recipes_name_files_that_are_there() -> None:
    named = [path for _, _, steps in RECIPES for path in re.findall(r"`([a-z]\w*/[\w/]+\.(?:py|md))`", steps)]
    assert len(named) >= 9
    assert [path for path in named if not (ROOT / path).exists() and "NAME" not in path] == []


PACKAGES = sorted(path.parent.name for path in ROOT.glob("scheduler/plugins/*/__init__.py"))
"""Plugins of several modules."""


def test_a_plugin_is_known_to_the_list_of_plugins_only() -> None:
    """Nobody else of the product imports a plugin's module, but for those who share DynamicResources' knowledge."""
    plugins = "scheduler/plugins/"
    beside = ("node_resources_fit.py", "served_devices.py", *(f"{name}/" for name in PACKAGES))
    shared = (
        "normalize",
        "pod_questions",
        "scoring_strategies",
        "served_devices",
        "affinity_hints",
    )
    importers = set()
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scheduler.plugins."):
                importers.add((name_of(path), (node.module or "").split(".")[2]))
    importers = {one for one in importers if one[1] not in shared and not one[1].endswith("_reasons")}
    importers = {(who, whom) for who, whom in importers if who != f"{plugins}__init__.py"}
    others = {(who, whom) for who, whom in importers if not who.startswith(tuple(plugins + name for name in beside))}
    tells = {"scheduler/offline/reasons.py", "scheduler/inventory/device_metrics.py"}  # which resources devices serve
    assert others <= {(who, "dynamic_resources") for who in tells}, MORE


# (overload, module) where one is named beside the tables: a version that lacks it, an exception of the estimate.
NAMED_BESIDE = {("list_includes_dyn_dyn", "environments"), ("dra_includes_dyn_dyn", "estimate")}


def test_a_cel_function_is_named_in_its_tables_only() -> None:
    from cel.checker import declarations
    from cel.cost import formulas
    from cel.library import kube_library, stdlib

    tables = {Path(module.__file__ or "") for module in (declarations, kube_library, stdlib, formulas)}
    overloads = kube_library.implementations(36).keys() - stdlib.IMPLEMENTATIONS.keys()
    beside = {
        (node.value, path.stem)
        for path in MODULES
        if path not in tables
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in overloads
    }
    assert beside <= NAMED_BESIDE, MORE


def test_a_kind_of_object_has_its_case_in_its_tables_only() -> None:
    """Inputs that show objects are told apart by `KINDS`: nobody else of the core has a case for one kind."""
    from scheduler.core.observation import ALWAYS_WATCHED, KINDS

    of_plugins = KINDS.keys() - ALWAYS_WATCHED.keys()
    named = {
        name_of(path)
        for path in MODULES
        if name_of(path).startswith(("scheduler/core/", "scheduler/kube/", "scheduler/observer"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and node.value in of_plugins
    }
    # Requests that write volumes have the kind as their label.
    beside = {"scheduler/kube/decision_requests.py", "scheduler/kube/permissions.py"}
    assert named - beside == {"scheduler/kube/plugin_kinds.py"}, MORE
    importers = {
        name_of(path)
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.module == "scheduler.core.ground.inputs"
        if any(one.name == "Observed" for one in node.names)
    }
    core = {path for path in importers if path.startswith("scheduler/core/")}
    assert core == {"scheduler/core/machine.py", "scheduler/core/observation.py"}, MORE


def test_a_metric_is_named_in_one_module() -> None:
    from prometheus_client.metrics import MetricWrapperBase

    from scheduler.kube.device_families import OF_DEVICES
    from scheduler.kube.metrics import OBSERVED, Metrics

    counted = [made for made in Metrics().registry._collector_to_names if isinstance(made, MetricWrapperBase)]
    names = {metric.name for metric in OBSERVED} | {made._name for made in counted}
    assert len(names) >= 20
    assert naming(names) == {"scheduler/kube/metrics.py"}, MORE
    assert naming({metric.name for metric in OF_DEVICES}) == {"scheduler/kube/device_families.py"}, MORE


def naming(names: set[str]) -> set[str]:
    """The modules that say one of these names of metrics."""
    return {
        name_of(path)
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.removesuffix("_total") in names
    }
