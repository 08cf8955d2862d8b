"""Cost formulas of single functions.

`BY_OVERLOAD` (cel-go's lists and sets libraries) is asked first, then `BY_FUNCTION` (Kubernetes'
libraries), then `STANDARD`; what none of them knows costs 1. Costs are without those of receiver and
arguments.

Source: cel-go v0.26.0 and v0.29.2, checker/cost.go, ext/lists.go, ext/sets.go; k8s.io/apiserver v0.36.3 and v0.37.2,
pkg/cel/library/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from cel.checker.declarations import BYTES_KIND, OPAQUE_KIND, STRING_KIND, STRUCT_KIND, Type
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
from cel.parser import syntax
from cel.parser.syntax import Literal

_FORMAT_SIZE: Final = 64
_FORMAT_REGEX_SIZE: Final = 128

Formula: TypeAlias = Callable[[str, Operand | None, list[Operand]], CallCost | None]
"""(overload id, receiver, arguments) -> cost and size of the result, or None for "not this form"."""

# Formulas by overload: cel-go's lists and sets libraries.


def _whole_number(operand: Operand, default: int) -> int:
    """The value of an int literal, not below 0; `default` for anything else."""
    value = operand.expr.value if type(operand.expr) is Literal else None
    return max(value, 0) if type(value) is int else default


def _allocating(factor: float, size: Size) -> CallCost:
    return CallCost(plus(scaled(size, factor), CostEstimate(1 + LIST_BASE, 1 + LIST_BASE)), size)


def _square(size: Size) -> Size:
    return Size(*times(size, size))


def _slice(_overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    assert target is not None
    start = _whole_number(args[0], 0)
    end = _whole_number(args[1], target.known_size().max)
    size = (end - start) & MAXIMUM
    return _allocating(1, Size(size, size))


def _range(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    size = _whole_number(args[0], MAXIMUM)
    return _allocating(1, Size(size, size))


def _reverse(_overload: str, target: Operand | None, _args: list[Operand]) -> CallCost | None:
    assert target is not None
    return _allocating(1, target.known_size())


def _flatten(_overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    assert target is not None
    return _allocating(float(_whole_number(args[0], MAXIMUM) if args else 1), target.known_size())


def _distinct(_overload: str, target: Operand | None, _args: list[Operand]) -> CallCost | None:
    assert target is not None
    return _allocating(2.0, _square(target.known_size()))


def _sort(factor: float, *, by_keys: bool) -> Formula:
    def formula(_overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
        sorted_by = args[0] if by_keys else target
        assert sorted_by is not None
        return _allocating(factor, _square(sorted_by.known_size()))

    return formula


def _sets(factor: float) -> Formula:
    def formula(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
        product = times(args[0].known_size(), args[1].known_size())
        return CallCost(plus(scaled(product, factor), ONE))

    return formula


BY_OVERLOAD: Final[dict[str, Formula]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
} | {
    f"list_{name}_{function}": _sort(
        2.0 + (STRING_FACTOR if name in ("string", "bytes") else 0.0), by_keys=function != "sort"
    )
    for name in (
        "int",
        "uint",
        "double",
        "bool",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "string",
        "bytes",
    )
    for function in ("sort", "sortByAssociatedKeys")
}


# Formulas by function: Kubernetes' libraries.


def _constant(cost: int) -> Formula:
    def formula(_overload: str, _target: Operand | None, _args: list[Operand]) -> CallCost | None:
        return CallCost(CostEstimate(cost, cost))

    return formula


def _argument(factor: float, *, sized: bool = False) -> Formula:
    """Proportional to the first argument."""

    def formula(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
        if not args:
            return None
        size = args[0].known_size()
        return CallCost(scaled(size, factor), size if sized else None)

    return formula


def _transform(_overload: str, target: Operand | None, _args: list[Operand]) -> CallCost | None:
    if target is None:
        return None
    size = target.known_size()
    return CallCost(scaled(size, STRING_FACTOR), size)


def _selector(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    size = args[0].known_size()
    requirements = scaled(scaled(size, 0.5), float(LIST_BASE + STRUCT_BASE))
    return CallCost(plus(plus(CostEstimate(LIST_BASE, LIST_BASE), scaled(size, STRING_FACTOR)), requirements))


def _element(target: Operand) -> tuple[Type, Size] | None:
    """Type and size of a list's elements; None when the target has no parameters (it is a string or dynamic)."""
    if not target.type.parameters:
        return None
    names = target.path.names()
    declared = declared_size(Path([*names, "@items"], len(names) + 1))
    return target.type.parameters[0], UNKNOWN if declared is None else declared


def _traverse(overload: str, target: Operand | None, _args: list[Operand]) -> CallCost | None:
    if target is None:
        return None
    size = target.known_size()
    each = ONE
    element = _element(target)
    if element is not None:
        type_, element_size = element
        if type_.kind in (STRING_KIND, BYTES_KIND):
            each = plus(each, scaled(element_size, STRING_FACTOR))
        return CallCost(times(size, each))
    if overload == "list_includes_dyn_dyn":
        return CallCost(times(size, each))
    return CallCost(scaled(size, STRING_FACTOR))


def _replace(_overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.known_size(), args[0].known_size(), args[1].known_size()
    most, kept_most = _replacements(size.max, old.min, is_shorter=new.max <= old.min)
    least, kept_least = _replacements(size.min, old.max, is_shorter=old.max <= new.min)
    result = Size(saturate(saturate(least * new.min) + kept_least), saturate(saturate(most * new.max) + kept_most))
    return CallCost(scaled(size, 2 * STRING_FACTOR), result)


def _replacements(length: int, old: int, *, is_shorter: bool) -> tuple[int, int]:
    """How often a text of this length can be replaced in, and how much of it stays beside that."""
    if old == 0:
        return saturate(length + 1), length
    if is_shorter:
        return 0, length
    return math.ceil(float(length) / float(old)), 0


def _split(_overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if target is None:
        return None
    size = target.known_size()
    most = size.max
    if len(args) > 1 and type(limit := args[1].expr) is Literal and type(limit.value) is int:
        most = limit.value & MAXIMUM
    return CallCost(scaled(size, 2 * STRING_FACTOR), Size(0, most))


def _join(_overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if target is None:
        return None
    count = target.known_size()
    size = Size(0, 0)
    if (element := _element(target)) is not None:
        size = Size(*times(count, element[1]))
    if args:
        separators = Size(max(count.min - 1, 0), max(count.max - 1, 0))
        size = sum_sizes(size, Size(*times(args[0].known_size(), separators)))
    return CallCost(scaled(size, STRING_FACTOR), size)


def _regex_cost(text: Size, pattern: Size) -> CostEstimate:
    return times(scaled(sum_sizes(text, Size(1, 1)), STRING_FACTOR), scaled(pattern, REGEX_FACTOR))


def _find(_overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if target is None or not args:
        return None
    size = target.known_size()
    return CallCost(_regex_cost(size, args[0].known_size()), Size(0, size.max))


def _ip(overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    if overload == "cidr_ip":
        return CallCost(ONE)
    return CallCost(scaled(args[0].known_size(), STRING_FACTOR)) if args else None


_ADDRESS: Final = Size(4, 16)
"""Bytes of an IP address."""


def _contains_address(overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    cost = scaled(sum_sizes(_ADDRESS, _ADDRESS), STRING_FACTOR)
    if overload.startswith("cidr_contains_cidr"):
        cost = plus(plus(cost, scaled(_ADDRESS, STRING_FACTOR)), ONE)
    if overload.endswith("_string"):
        cost = plus(cost, scaled(args[0].known_size(), STRING_FACTOR))
    return CallCost(cost)


def _validate(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    cost = scaled(args[0].known_size(), STRING_FACTOR)
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


def _equals(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    left, right = args
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
    "url": _argument(STRING_FACTOR, sized=True),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "ip": _ip,
    "ip.isCanonical": _argument(2 * STRING_FACTOR),
    "containsIP": _contains_address,
    "containsCIDR": _contains_address,
    "validate": _validate,
    syntax.EQUALS: _equals,
}
BY_FUNCTION.update(dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _traverse))
BY_FUNCTION.update(dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _transform))
BY_FUNCTION.update(
    dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _argument(STRING_FACTOR))
)


# Formulas by overload: the standard library.


def _format(_overload: str, target: Operand | None, _args: list[Operand]) -> CallCost | None:
    assert target is not None
    return CallCost(scaled(target.known_size(), STRING_FACTOR))


def _to_bytes(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    size = args[0].known_size()
    return CallCost(scaled(size, STRING_FACTOR), Size(size.min, size.max * 4 & MAXIMUM))


def _to_text(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    size = args[0].known_size()
    return CallCost(scaled(size, STRING_FACTOR), Size(size.min // 4, size.max))


def _quote(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    size = args[0].known_size()
    return CallCost(scaled(size, STRING_FACTOR), Size(size.min + 2 & MAXIMUM, size.max * 2 + 2 & MAXIMUM))


def _affix(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(scaled(args[0].known_size(), STRING_FACTOR))


def _in_list(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(scaled(args[1].known_size(), 1))


def _matches(_overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if target is not None:
        return CallCost(_regex_cost(target.known_size(), args[0].known_size()))
    return CallCost(_regex_cost(args[0].known_size(), args[1].known_size()))


def _contains(_overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    assert target is not None
    return CallCost(times(scaled(target.known_size(), STRING_FACTOR), scaled(args[0].known_size(), STRING_FACTOR)))


def _concatenate(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    size = sum_sizes(args[0].known_size(), args[1].known_size())
    return CallCost(scaled(size, STRING_FACTOR), size)


def _append(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    concatenated = _concatenate(overload, target, args)
    assert concatenated is not None
    return CallCost(ONE, concatenated.size)


def _compare(_overload: str, _target: Operand | None, args: list[Operand]) -> CallCost | None:
    shorter = min(args[0].known_size().max, args[1].known_size().max)
    return CallCost(scaled(Size(1 if shorter > 0 else 0, shorter), STRING_FACTOR))


STANDARD: Final[dict[str, Formula]] = {
    "string_format": _format,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_text,
    "strings_quote": _quote,
    "starts_with_string": _affix,
    "ends_with_string": _affix,
    "in_list": _in_list,
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
