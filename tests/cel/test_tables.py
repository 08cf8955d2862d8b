"""The tables of CEL's functions agree: declared, implemented and estimated.

A function is a line of `declarations.OVERLOADS`, an implementation and, where its cost is not 1, a formula of its worst
cost. What one table has beyond the others is named here, and why.
"""

from __future__ import annotations

import pytest

from cel.checker import environments
from cel.checker.declarations import OVERLOADS
from cel.cost.formulas import BY_FUNCTION, BY_OVERLOAD, STANDARD
from cel.library.kube_library import implementations
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
# The time zone's form has its function under a name that no line declares.
WITH_TIME_ZONE = "_tz"


def test_costs_are_of_declared_functions() -> None:
    assert BY_FUNCTION.keys() <= OVERLOADS.keys()
    assert BY_OVERLOAD.keys() | STANDARD.keys() <= FUNCTION_BY_OVERLOAD.keys()


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


def test_what_is_not_always_available_is_declared() -> None:
    assert OVERLOADS.keys() >= environments._LISTS_FUNCTIONS
    assert FUNCTION_BY_OVERLOAD.keys() >= {
        *("list_includes_dyn_dyn", "dra_includes_dyn_dyn", "int64_to_duration", "cidr_is_mask")
    }
