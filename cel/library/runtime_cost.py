"""What a call costs while it runs, by the sizes it met.

Source: cel-go v0.26.0 and v0.29.2, interpreter/runtimecost.go, ext/lists.go and ext/sets.go (trackers);
k8s.io/apiserver v0.36.3 and v0.37.2, pkg/cel/library/cost.go (`CallCost`). Only the limit depends on it: see `walker`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cel.library.values import MAP_CLASSES, ComputedQuantity, Optional, spend
from cel.quantity import Quantity
from cel.semver import Semver


def _validation(values: list[Any], result: Any) -> int:
    """A pattern as long as the format says."""
    pattern_cost: int = -(-getattr(values[0], "size", 1) // 4)
    return tenth(1 + actual_size(values[1])) * pattern_cost


def _contains_ip(values: list[Any], result: Any) -> int:
    text = tenth(actual_size(values[1])) if values[1].__class__ is str else 0
    return tenth(2 * actual_size(values[0])) + text


def _contains_cidr(values: list[Any], result: Any) -> int:
    return _contains_ip(values, result) + tenth(actual_size(values[0])) + 1


CallCost = Callable[[list[Any], Any], int]

_UNIT: Final = frozenset(
    ("kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL", "kubernetes.NamedFormat", "net.IP", "net.CIDR")
)


def actual_size(value: Any) -> int:
    """Code points, bytes, elements or entries; 1 for everything else."""
    cls = value.__class__
    if cls is str or cls is list or cls is bytes or cls in MAP_CLASSES:
        return len(value)
    if cls is Optional and value.has_value:
        return actual_size(value.value)
    size: int = getattr(value, "size_bytes", 1)
    return size


def tenth(size: int) -> int:
    """ceil(0.1 * size)."""
    return -(-size // 10)


def equality_cost(left: Any, right: Any) -> int:
    """Of `left == right`."""
    cls = left.__class__
    if cls is int and right.__class__ is int:
        return 1
    if cls in (Quantity, ComputedQuantity, Semver) or getattr(cls, "CEL_TYPE", None) in _UNIT:
        return 1
    return tenth(min(actual_size(left), actual_size(right)))


def _pattern(values: list[Any], result: Any) -> int:
    return tenth(1 + actual_size(values[0])) * -(-actual_size(values[1]) // 4)


def _first(factor: int) -> CallCost:
    return lambda values, result: -(-actual_size(values[0]) * factor // 10)


def _traversal(value: Any) -> int:
    cls = value.__class__
    if cls is str:
        return len(value.encode("utf-8", "replace")) // 10
    if cls is bytes:
        return len(value) // 10
    if cls is list:
        spend(4 * len(value))
        return sum(map(_traversal, value))
    if cls in MAP_CLASSES:
        spend(10 * len(value))
        return sum(_traversal(key) + _traversal(element) for key, element in value.items())
    return 1


def _elements(values: list[Any], result: Any) -> int:
    return _traversal(values[0])


def _sets(factor: int) -> CallCost:
    return lambda values, result: 1 + factor * actual_size(values[0]) * actual_size(values[1])


def _allocating(values: list[Any], result: Any) -> int:
    return 11 + actual_size(result)


def _flattening(values: list[Any], result: Any) -> int:
    return 11 + actual_size(values[0]) * (values[1] if len(values) == 2 else 1)


def _quadratic(values: list[Any], result: Any) -> int:
    return 11 + 2 * actual_size(values[0]) ** 2


OVERLOAD_COSTS: Final[dict[str, CallCost]] = {
    "starts_with_string": lambda values, result: tenth(actual_size(values[1])),
    "ends_with_string": lambda values, result: tenth(actual_size(values[1])),
    "contains_string": lambda values, result: tenth(actual_size(values[0])) * tenth(actual_size(values[1])),
    "string_to_bytes": _first(1),
    "bytes_to_string": _first(1),
    "strings_quote": _first(1),
    "string_format": _first(1),
    "add_string": lambda values, result: tenth(actual_size(values[0]) + actual_size(values[1])),
    "add_bytes": lambda values, result: tenth(actual_size(values[0]) + actual_size(values[1])),
    "matches": _pattern,
    "matches_string": _pattern,
    **{
        f"{name}_{type_}": lambda values, result: tenth(min(actual_size(values[0]), actual_size(values[1])))
        for name in ("less", "less_equals", "greater", "greater_equals")
        for type_ in ("string", "bytes")
    },
}
"""By overload id, when the checker found exactly one."""

FUNCTION_COSTS: Final[dict[str, CallCost]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _elements),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _first(1)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _first(1)),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first(2)),
    **dict.fromkeys(("find", "findAll"), _pattern),
    "ip": _first(1),
    "join": lambda values, result: -(-actual_size(result) * 2 // 10),
    "validate": _validation,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    **dict.fromkeys(("slice", "reverse", "lists.range"), _allocating),
    "flatten": _flattening,
    **dict.fromkeys(("sort", "distinct", "@sortByAssociatedKeys"), _quadratic),
}
"""By function, whatever the overload."""
