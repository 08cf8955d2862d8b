"""Constants: what cel-go computes when it makes a program, before it knows any device.

Such are lists, maps and conversions (`int("1")`) of constants. A conversion that fails makes the program fail, and
so do keys and patterns that are none.

Source: cel-go v0.26.0 and v0.29.2, interpreter/decorators.go, interpreter/planner.go.
"""

from __future__ import annotations

from typing import Any, Final

from cel import operators
from cel.checker.checker import Checked
from cel.checker.declarations import VALUELESS_TYPES
from cel.errors import EvaluationError
from cel.library.values import MISSING, AbortedError, TypeValue, begin, go_type, make_map
from cel.parser.syntax import Call, Expr, Ident, ListExpr, Literal, MapExpr, children
from cel.recursion import with_room

_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
MATCHING: Final = frozenset(("matches", "find", "findAll"))
"""Functions of a text and a pattern; cel-go compiles constant patterns beforehand."""


def constant_of(checked: Checked, node: Expr) -> Any:
    """The value that a node has before any evaluation, or MISSING."""
    value = _folded(checked, node)
    return MISSING if value.__class__ is EvaluationError else value


def _folded(checked: Checked, node: Expr) -> Any:
    """As `constant_of`, and the error of a conversion that fails."""
    if type(node) is Literal:
        return node.value
    if type(node) is Ident:
        return TypeValue(node.name) if node.id in checked.references else MISSING
    if type(node) not in (ListExpr, MapExpr, Call):
        return MISSING
    known = checked.constants
    if node.id not in known:
        known[node.id] = _computed(checked, node)
    return known[node.id]


def _computed(checked: Checked, node: Expr) -> Any:
    if type(node) is ListExpr and not node.optional_indices:
        values = [constant_of(checked, element) for element in node.elements]
        return MISSING if any(value is MISSING for value in values) else values
    if type(node) is MapExpr and not any(entry.optional for entry in node.entries):
        pairs = [(constant_of(checked, entry.key), constant_of(checked, entry.value)) for entry in node.entries]
        if any(key is MISSING or value is MISSING for key, value in pairs):
            return MISSING
        try:
            return make_map(pairs)
        except AbortedError:
            return MISSING
    if type(node) is Call and node.function in _CONVERSIONS and len(node.args) == 1 and node.target is None:
        return _converted(checked, node)
    if type(node) is Call and node.function == operators.IN:
        collection = node.args[1]
        return False if type(collection) is ListExpr and not collection.elements else MISSING
    return MISSING


def _converted(checked: Checked, node: Call) -> Any:
    from cel.evaluator.calls import implementation_of  # noqa: PLC0415 - few selectors convert

    value = constant_of(checked, node.args[0])
    if value is MISSING:
        return MISSING
    begin()
    try:
        return implementation_of(checked, node, 1)(value)
    except (EvaluationError, AbortedError) as error:
        return EvaluationError(str(error))


def instantiation_problem(checked: Checked) -> str | None:
    """Why cel-go could not make a program of a checked expression, or None.

    Kubernetes shows it as `program instantiation failed: ...`.
    """
    return with_room(_problem_below, checked, checked.expr)


def _problem_below(checked: Checked, node: Expr) -> str | None:
    """The first problem in cel-go's order: operands before what uses them."""
    for child in children(node):
        problem = _problem_below(checked, child)
        if problem is not None:
            return problem
    value = _folded(checked, node)
    if value.__class__ is EvaluationError:
        return str(value)
    if value.__class__ is TypeValue and value.name in VALUELESS_TYPES:
        return f"reference to undefined type: {value.name}"
    return _operand_problem(checked, node) if type(node) is Call else None


def _operand_problem(checked: Checked, node: Call) -> str | None:
    """What is wrong with a constant pattern or key."""
    operands = node.args if node.target is None else (node.target, *node.args)
    if node.function in MATCHING and len(operands) > 1:
        pattern = constant_of(checked, operands[1])
        return pattern_problem(checked, pattern) if isinstance(pattern, str) else None
    if node.function in (operators.INDEX, operators.OPTIONAL_INDEX):
        key = constant_of(checked, operands[1])
        if key is not MISSING and not isinstance(key, bool | int | float | str):
            return f"invalid qualifier type: {go_type(key)}"
    return None


def pattern_problem(checked: Checked, pattern: str) -> str | None:
    """Why a pattern is none, or None."""
    from cel.library.regex import RegexError, compiled  # noqa: PLC0415 - for expressions with literal patterns only

    try:
        compiled(checked.patterns, pattern)
    except RegexError as error:
        return str(error)
    return None
