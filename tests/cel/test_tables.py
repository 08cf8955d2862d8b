"""The tables of CEL's functions agree: declared, implemented, estimated, and charged while it runs.

A function is a line of `declarations.OVERLOADS`, an implementation, a formula of its worst cost and a cost by the sizes
it meets. They are four tables, as in cel-go; what one has beyond the others is named here, and why.
"""

from __future__ import annotations

import pytest

from cel.checker import environments
from cel.checker.declarations import OVERLOADS
from cel.cost.formulas import BY_FUNCTION, BY_OVERLOAD, STANDARD
from cel.library.kube_library import implementations
from cel.library.runtime_cost import FUNCTION_COSTS, OVERLOAD_COSTS
from cel.library.stdlib import SINGLETONS

FUNCTION_BY_OVERLOAD = {
    line.partition(" ")[0]: name for name, lines in OVERLOADS.items() for line in lines.splitlines() if line
}

# A device selector has no authorizer to begin with: such calls are checked and estimated, never made.
OF_THE_AUTHORIZER = {
    *("allowed", "check", "error", "errored", "fieldSelector", "group", "labelSelector", "name", "namespace", "path"),
    *("reason", "resource", "serviceAccount", "subresource"),
}
# Operators for which the walker has a step of its own: not all operands are evaluated, or it looks into a value.
STEPS = {
    *("@not_strictly_false", "__not_strictly_false__", "_&&_", "_||_", "_?_:_", "or", "orValue"),
    *("_[_]", "_[?_]", "_==_", "_!=_", "_in_"),
}
# Charged by the steps above; and a list that is added costs 1.
CHARGED_ELSEWHERE = {"equals", "not_equals", "in_list", "add_list"}
# The time zone's form has its function under a name that no line declares.
WITH_TIME_ZONE = "_tz"


@pytest.mark.parametrize("table", [BY_FUNCTION, FUNCTION_COSTS], ids=["estimate", "runtime"])
def test_costs_by_function_are_of_declared_functions(table: dict[str, object]) -> None:
    assert table.keys() <= OVERLOADS.keys()


@pytest.mark.parametrize("table", [BY_OVERLOAD, STANDARD, OVERLOAD_COSTS], ids=["lists", "standard", "runtime"])
def test_costs_by_overload_are_of_declared_overloads(table: dict[str, object]) -> None:
    assert table.keys() <= FUNCTION_BY_OVERLOAD.keys()


@pytest.mark.parametrize("minor", [36, 37])
def test_every_declared_overload_is_implemented(minor: int) -> None:
    table = implementations(minor)
    missing = {
        name
        for overload, name in FUNCTION_BY_OVERLOAD.items()
        if overload not in table and name not in table and name not in SINGLETONS
    }
    assert missing == OF_THE_AUTHORIZER | STEPS


@pytest.mark.parametrize("minor", [36, 37])
def test_every_implementation_is_of_a_declared_overload(minor: int) -> None:
    unknown = implementations(minor).keys() - FUNCTION_BY_OVERLOAD.keys()
    assert {name for name in unknown if not name.endswith(WITH_TIME_ZONE)} == set()


def test_what_is_estimated_is_what_is_charged() -> None:
    estimated = {
        overload
        for overload, name in FUNCTION_BY_OVERLOAD.items()
        if overload in BY_OVERLOAD or overload in STANDARD or name in BY_FUNCTION
    }
    charged = {
        overload
        for overload, name in FUNCTION_BY_OVERLOAD.items()
        if overload in OVERLOAD_COSTS or name in FUNCTION_COSTS
    }
    never_made = {overload for overload, name in FUNCTION_BY_OVERLOAD.items() if name in OF_THE_AUTHORIZER}
    assert estimated - never_made == charged | CHARGED_ELSEWHERE


def test_what_is_not_always_available_is_declared() -> None:
    assert OVERLOADS.keys() >= environments._LISTS_FUNCTIONS
    assert FUNCTION_BY_OVERLOAD.keys() >= {"list_includes_dyn_dyn", "dra_includes_dyn_dyn", "int64_to_duration"}
