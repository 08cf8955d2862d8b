"""Cost formulas of single functions.

`BY_OVERLOAD` (cel-go's lists and sets libraries) is asked first, then `BY_FUNCTION` (Kubernetes'
libraries), then `STANDARD`; a function in none of them costs 1. The costs of receiver and arguments are not included.

Source: cel-go v0.26.0 and v0.29.2, checker/cost.go, ext/lists.go, ext/sets.go; k8s.io/apiserver v0.36.3 and v0.37.2,
pkg/cel/library/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from cel import operators
from cel.checker.declarations import BYTES_KIND, DURATION, OPAQUE_KIND, STRING_KIND, STRUCT_KIND, TIMESTAMP, Type
from cel.cost.units import (
    LIST_BASE,
    MAXIMUM,
    ONE,
    REGEX_FACTOR,
    STRING_FACTOR,
    STRUCT_BASE,
    UNKNOWN,
    CallCost,
    CostEstimate,
    Operand,
    Path,
    Size,
    declared_size,
    plus,
    saturate,
    scaled,
    sum_sizes,
    times,
)
from cel.parser.syntax import Literal

_FORMAT_SIZE: Final = 64
_FORMAT_REGEX_SIZE: Final = 128

Formula: TypeAlias = Callable[[list[Operand]], CallCost | None]
"""Operands, the receiver first -> cost and size of the result, or None for "not this form"."""


def _constant(cost: int) -> Formula:
    return lambda operands: CallCost(CostEstimate(cost, cost))


def _proportional(factor: float, position: int = 0, *, is_kept: bool = False) -> Formula:
    """By the length of an operand, which the result may have too."""

    def formula(operands: list[Operand]) -> CallCost | None:
        size = operands[position].known_size()
        return CallCost(scaled(size, factor), size if is_kept else None)

    return formula


# Formulas by overload: cel-go's lists and sets libraries.


def _whole_number(operand: Operand, default: int) -> int:
    """The value of an int literal, not below 0; `default` for anything else."""
    value = operand.expr.value if type(operand.expr) is Literal else None
    return max(value, 0) if type(value) is int else default


def _allocating(factor: float, size: Size) -> CallCost:
    return CallCost(plus(scaled(size, factor), CostEstimate(1 + LIST_BASE, 1 + LIST_BASE)), size)


def _square(size: Size) -> Size:
    return Size(*times(size, size))


def _slice(operands: list[Operand]) -> CallCost | None:
    start = _whole_number(operands[1], 0)
    end = _whole_number(operands[2], operands[0].known_size().max)
    size = (end - start) & MAXIMUM
    return _allocating(1, Size(size, size))


def _range(operands: list[Operand]) -> CallCost | None:
    size = _whole_number(operands[0], MAXIMUM)
    return _allocating(1, Size(size, size))


def _flatten(operands: list[Operand]) -> CallCost | None:
    depth = _whole_number(operands[1], MAXIMUM) if len(operands) > 1 else 1
    return _allocating(float(depth), operands[0].known_size())


def _quadratic(factor: float, position: int = 0) -> Formula:
    return lambda operands: _allocating(factor, _square(operands[position].known_size()))


def _sets(factor: float) -> Formula:
    def formula(operands: list[Operand]) -> CallCost | None:
        product = times(operands[0].known_size(), operands[1].known_size())
        return CallCost(plus(scaled(product, factor), ONE))

    return formula


_ADDRESS: Final = Size(4, 16)
"""Bytes of an IP address."""


def _contains_address(*, is_block: bool, is_text: bool) -> Formula:
    cost = scaled(sum_sizes(_ADDRESS, _ADDRESS), STRING_FACTOR)
    if is_block:
        cost = plus(plus(cost, scaled(_ADDRESS, STRING_FACTOR)), ONE)

    def formula(operands: list[Operand]) -> CallCost | None:
        return CallCost(plus(cost, scaled(operands[1].known_size(), STRING_FACTOR)) if is_text else cost)

    return formula


def _element(target: Operand) -> tuple[Type, Size] | None:
    """Type and size of a list's elements; None when the target has no parameters (it is a string or dynamic)."""
    if not target.type.parameters:
        return None
    names = target.path.names()
    declared = declared_size(Path([*names, "@items"], len(names) + 1))
    return target.type.parameters[0], UNKNOWN if declared is None else declared


def _traverse(operands: list[Operand]) -> CallCost | None:
    size = operands[0].known_size()
    element = _element(operands[0])
    if element is None:
        return CallCost(scaled(size, STRING_FACTOR))
    each = ONE
    if element[0].kind in (STRING_KIND, BYTES_KIND):
        each = plus(each, scaled(element[1], STRING_FACTOR))
    return CallCost(times(size, each))


def _includes(operands: list[Operand]) -> CallCost | None:
    return _traverse(operands) if operands[0].type.parameters else CallCost(times(operands[0].known_size(), ONE))


BY_OVERLOAD: Final[dict[str, Formula]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": lambda operands: _allocating(1, operands[0].known_size()),
    "list_distinct": _quadratic(2.0),
    "list_includes_dyn_dyn": _includes,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "cidr_ip": _constant(1),
    "cidr_contains_ip_ip": _contains_address(is_block=False, is_text=False),
    "cidr_contains_ip_string": _contains_address(is_block=False, is_text=True),
    "cidr_contains_cidr": _contains_address(is_block=True, is_text=False),
    "cidr_contains_cidr_string": _contains_address(is_block=True, is_text=True),
}
for _name in ("int", "uint", "double", "bool", DURATION.name, TIMESTAMP.name, "string", "bytes"):
    _factor = 2.0 + (STRING_FACTOR if _name in ("string", "bytes") else 0.0)
    BY_OVERLOAD[f"list_{_name}_sort"] = _quadratic(_factor)
    BY_OVERLOAD[f"list_{_name}_sortByAssociatedKeys"] = _quadratic(_factor, 1)


# Formulas by function: Kubernetes' libraries.


def _selector(operands: list[Operand]) -> CallCost | None:
    size = operands[1].known_size()
    requirements = scaled(scaled(size, 0.5), float(LIST_BASE + STRUCT_BASE))
    return CallCost(plus(plus(CostEstimate(LIST_BASE, LIST_BASE), scaled(size, STRING_FACTOR)), requirements))


def _replace(operands: list[Operand]) -> CallCost | None:
    size, old, new = (operand.known_size() for operand in operands[:3])
    most, kept_most = _replacements(size.max, old.min, is_shorter=new.max <= old.min)
    least, kept_least = _replacements(size.min, old.max, is_shorter=old.max <= new.min)
    result = Size(saturate(saturate(least * new.min) + kept_least), saturate(saturate(most * new.max) + kept_most))
    return CallCost(scaled(size, 2 * STRING_FACTOR), result)


def _replacements(length: int, old: int, *, is_shorter: bool) -> tuple[int, int]:
    """How many replacements fit into a text of this length, and how many of its characters remain."""
    if old == 0:
        return saturate(length + 1), length
    if is_shorter:
        return 0, length
    return math.ceil(float(length) / float(old)), 0


def _split(operands: list[Operand]) -> CallCost | None:
    size = operands[0].known_size()
    most = size.max
    if len(operands) > 2 and type(limit := operands[2].expr) is Literal and type(limit.value) is int:
        most = limit.value & MAXIMUM
    return CallCost(scaled(size, 2 * STRING_FACTOR), Size(0, most))


def _join(operands: list[Operand]) -> CallCost | None:
    count = operands[0].known_size()
    size = Size(0, 0)
    if (element := _element(operands[0])) is not None:
        size = Size(*times(count, element[1]))
    if len(operands) > 1:
        separators = Size(max(count.min - 1, 0), max(count.max - 1, 0))
        size = sum_sizes(size, Size(*times(operands[1].known_size(), separators)))
    return CallCost(scaled(size, STRING_FACTOR), size)


def _matches(operands: list[Operand]) -> CallCost | None:
    text = scaled(sum_sizes(operands[0].known_size(), Size(1, 1)), STRING_FACTOR)
    return CallCost(times(text, scaled(operands[1].known_size(), REGEX_FACTOR)))


def _find(operands: list[Operand]) -> CallCost | None:
    matched = _matches(operands)
    assert matched is not None
    return CallCost(matched.cost, Size(0, operands[0].known_size().max))


def _validate(operands: list[Operand]) -> CallCost | None:
    cost = scaled(operands[1].known_size(), STRING_FACTOR)
    return CallCost(scaled(cost, _FORMAT_REGEX_SIZE * REGEX_FACTOR))


_CHEAP_TO_EQUATE: Final = frozenset(
    (
        "net.IP",
        "net.CIDR",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    )
)


def _equals(operands: list[Operand]) -> CallCost | None:
    left, right = operands
    if left.type.name != right.type.name or left.type.kind not in (OPAQUE_KIND, STRUCT_KIND):
        return None
    name = left.type.name
    if name in _CHEAP_TO_EQUATE:
        return CallCost(ONE)
    if name == "kubernetes.NamedFormat":
        return CallCost(scaled(Size(1, _FORMAT_SIZE), STRING_FACTOR))
    if name == "kubernetes.URL":
        longest = 1 if right.size is None else right.size.max
        return CallCost(scaled(Size(1, longest), STRING_FACTOR))
    return None


BY_FUNCTION: Final[dict[str, Formula]] = {
    "check": _constant(350_000),
    "fieldSelector": _selector,
    "labelSelector": _selector,
    "url": _proportional(STRING_FACTOR, is_kept=True),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "ip.isCanonical": _proportional(2 * STRING_FACTOR),
    "validate": _validate,
    operators.EQUALS: _equals,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _traverse),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _proportional(STRING_FACTOR, is_kept=True)),
    **dict.fromkeys(
        ("ip", "cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _proportional(STRING_FACTOR)
    ),
}


# Formulas by overload: the standard library.


def _to_bytes(operands: list[Operand]) -> CallCost | None:
    size = operands[0].known_size()
    return CallCost(scaled(size, STRING_FACTOR), Size(size.min, size.max * 4 & MAXIMUM))


def _to_text(operands: list[Operand]) -> CallCost | None:
    size = operands[0].known_size()
    return CallCost(scaled(size, STRING_FACTOR), Size(size.min // 4, size.max))


def _quote(operands: list[Operand]) -> CallCost | None:
    size = operands[0].known_size()
    return CallCost(scaled(size, STRING_FACTOR), Size(size.min + 2 & MAXIMUM, size.max * 2 + 2 & MAXIMUM))


def _contains(operands: list[Operand]) -> CallCost | None:
    text, part = (scaled(operand.known_size(), STRING_FACTOR) for operand in operands)
    return CallCost(times(text, part))


def _concatenate(operands: list[Operand]) -> CallCost | None:
    size = sum_sizes(operands[0].known_size(), operands[1].known_size())
    return CallCost(scaled(size, STRING_FACTOR), size)


def _append(operands: list[Operand]) -> CallCost | None:
    return CallCost(ONE, sum_sizes(operands[0].known_size(), operands[1].known_size()))


def _compare(operands: list[Operand]) -> CallCost | None:
    shorter = min(operands[0].known_size().max, operands[1].known_size().max)
    return CallCost(scaled(Size(1 if shorter > 0 else 0, shorter), STRING_FACTOR))


STANDARD: Final[dict[str, Formula]] = {
    "string_format": _proportional(STRING_FACTOR),
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_text,
    "strings_quote": _quote,
    "starts_with_string": _proportional(STRING_FACTOR, 1),
    "ends_with_string": _proportional(STRING_FACTOR, 1),
    "in_list": _proportional(1, 1),
    "matches": _matches,
    "matches_string": _matches,
    "contains_string": _contains,
    "add_string": _concatenate,
    "add_bytes": _concatenate,
    "add_list": _append,
    "equals": _compare,
    "not_equals": _compare,
} | {
    f"{name}_{type_}": _compare
    for name in ("less", "less_equals", "greater", "greater_equals")
    for type_ in ("string", "bytes")
}
