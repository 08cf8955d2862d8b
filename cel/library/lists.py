"""The lists and sets libraries of cel-go and Kubernetes.

Source: cel-go v0.26.0 and v0.29.2, ext/lists.go (version 3), ext/sets.go; k8s.io/apiserver v0.36.3
pkg/cel/library/lists.go and k8s.io/dynamic-resource-allocation v0.37.2 cel/compile.go (`includesFunc`).
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any, Final

from cel.errors import EvaluationError
from cel.library.arithmetic import add
from cel.library.values import (
    MISSING,
    NONE,
    Optional,
    common_class,
    compare,
    contains,
    equal_or_false,
    is_comparable,
    no_such_overload,
    operand_error,
    spend,
    to_text,
    type_name,
)

RANGE_MAX: Final = 1_000_000
INCLUDES_MAX_136: Final = 48


def is_sorted(elements: list[Any]) -> bool:
    previous = MISSING
    spend(4 * len(elements))
    for element in elements:
        if not is_comparable(element):
            no_such_overload()
        if previous is not MISSING and _order(previous, element) == 1:
            return False
        previous = element
    return True


def _order(left: Any, right: Any) -> int | None:
    """`compare`, or None where it fails: the library asks only for one outcome."""
    try:
        return compare(left, right)
    except EvaluationError:
        return None


def total(elements: list[Any], zero: Any) -> Any:
    """The sum, starting from the zero of the list's type."""
    spend(3 * len(elements))
    for element in elements:
        zero = add(zero, element)
    return zero


def smallest(elements: list[Any]) -> Any:
    return _extreme("min", 1, elements)


def largest(elements: list[Any]) -> Any:
    return _extreme("max", -1, elements)


def _extreme(name: str, replaces: int, elements: list[Any]) -> Any:
    best = MISSING
    spend(4 * len(elements))
    for element in elements:
        if not is_comparable(element):
            no_such_overload()
        if best is MISSING or _order(best, element) == replaces:
            best = element
    if best is MISSING:
        raise EvaluationError(f"{name} called on empty list")
    return best


def index_of(elements: list[Any], item: Any) -> int:
    spend(2 + len(elements))
    if common_class(elements) is item.__class__:
        return elements.index(item) if item in elements else -1
    spend(4 * len(elements))
    return next((i for i, element in enumerate(elements) if equal_or_false(element, item)), -1)


def last_index_of(elements: list[Any], item: Any) -> int:
    spend(4 * len(elements))
    return next((i for i in range(len(elements) - 1, -1, -1) if equal_or_false(elements[i], item)), -1)


def includes(target: Any, item: Any) -> bool:
    if target.__class__ is list:
        spend(2 + len(target))
        if common_class(target) is item.__class__:
            return item in target
        spend(4 * len(target))
        return any(equal_or_false(element, item) for element in target)
    return equal_or_false(target, item)


def includes_before_137(target: Any, item: Any) -> bool:
    """The DRA library's own function: a list longer than an attribute can be is an error."""
    if target.__class__ is not list:
        return equal_or_false(target, item)
    spend(5 * len(target[:INCLUDES_MAX_136]))
    if any(equal_or_false(element, item) for element in target[:INCLUDES_MAX_136]):
        return True
    if len(target) > INCLUDES_MAX_136:
        raise EvaluationError(f"'includes' function cannot be applied to lists longer than {INCLUDES_MAX_136} values")
    return False


def slice_(elements: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(elements) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(elements)}")
    spend(5 + (end - start) // 32)
    return elements[start:end]


def _shown_type(value: Any) -> str:
    """A type as Go prints it."""
    name = type_name(value)
    return {"list": "list(dyn)", "map": "map(dyn, dyn)"}.get(name, name)


def flatten(elements: Any, *depths: Any) -> list[Any]:
    depth = depths[0] if depths else 1
    if elements.__class__ is not list or depth.__class__ is not int:
        arguments = ", ".join(map(_shown_type, depths))
        raise EvaluationError(f"no such overload: {_shown_type(elements)}.flatten({arguments})")
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    spend(4 + (3 + depth) * len(elements))
    if depth == 0 or not any(element.__class__ is list for element in elements):
        return elements
    flat: list[Any] = []
    for element in elements:
        if element.__class__ is list:
            flat += flatten(element, depth - 1)
            spend(len(flat) // 256)
        else:
            flat.append(element)
    return flat


def distinct(elements: list[Any]) -> list[Any]:
    spend(len(elements) ** 2)
    if common_class(elements) is not None:
        return [*dict.fromkeys(elements)]
    spend(3 * len(elements))
    unique: list[Any] = []
    seen: set[str] = set()
    for element in elements:
        # Texts equal only texts; the quadratic search is kept for the rest.
        if element.__class__ is str:
            if element not in seen:
                seen.add(element)
                unique.append(element)
        else:
            spend(6 + 6 * len(unique))
            if not any(equal_or_false(element, other) for other in unique):
                unique.append(element)
    return unique


def reverse(elements: list[Any]) -> list[Any]:
    spend(len(elements) // 32)
    return elements[::-1]


def range_(count: int) -> list[int]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > RANGE_MAX:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({RANGE_MAX})")
    spend(4 * count)
    return [*range(count)]


def range_before_137(count: int) -> list[int]:
    """cel-go before 0.29 took negative sizes for 0 and knew no maximum."""
    spend(4 * max(count, 0))
    return [*range(count)]


def sort(elements: Any) -> list[Any]:
    if elements.__class__ is not list:
        operand_error("sort", elements)
    return sort_by_keys(elements, elements)


def sort_by_keys(elements: Any, keys: Any) -> list[Any]:
    """`elements` in the order of `keys`; stable, which upstream does not promise."""
    if elements.__class__ is not list:
        raise EvaluationError("no such overload: @sortByAssociatedKeys")
    if keys.__class__ is not list:
        no_such_overload()
    if len(elements) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(elements)} and {len(keys)} elements respectively"
        )
    if not elements:
        return []
    spend(len(elements) ** 2)
    if not is_comparable(keys[0]):
        raise EvaluationError("list elements must be comparable")
    if len(keys) == 1:
        return elements
    cls = keys[0].__class__
    if any(key.__class__ is not cls for key in keys):
        raise EvaluationError("list elements must have the same type")
    spend(10 + 4 * len(keys))
    order = [*range(len(keys))]
    if cls in (bool, int, str, bytes) or (cls is float and all(key == key for key in keys)):  # noqa: PLR0124 - NaN
        pairs: list[tuple[Any, int]] = [*zip(keys, order, strict=True)]
        pairs.sort(key=lambda pair: pair[0])
        order = [i for _, i in pairs]
    else:
        spend(4 * len(keys) * len(keys).bit_length())

        def by_key(i: int, j: int) -> int:
            """A comparison that fails (NaN) counts as "not less"."""
            return _order(keys[i], keys[j]) or 0

        order.sort(key=cmp_to_key(by_key))
    return [elements[i] for i in order]


def first(elements: list[Any]) -> Optional:
    return Optional(elements[0]) if elements else NONE


def last(elements: list[Any]) -> Optional:
    return Optional(elements[-1]) if elements else NONE


def unwrap(elements: list[Any]) -> list[Any]:
    """The values of those optionals that have one."""
    unwrapped = []
    spend(len(elements))
    for element in elements:
        if element.__class__ is not Optional:
            raise EvaluationError(f"value {to_text(element)} is not optional")
        if element.has_value:
            unwrapped.append(element.value)
    return unwrapped


def sets_contains(elements: list[Any], wanted: list[Any]) -> bool:
    spend(10 + 2 * (len(elements) + len(wanted)) + len(elements) * len(wanted) // 2)
    cls = common_class(elements)
    if cls is not None and common_class(wanted) is cls:
        return {*elements}.issuperset(wanted)
    return all(contains(element, elements) for element in wanted)


def sets_equivalent(left: list[Any], right: list[Any]) -> bool:
    return sets_contains(left, right) and sets_contains(right, left)


def sets_intersects(left: list[Any], right: list[Any]) -> bool:
    spend(10 + 2 * (len(left) + len(right)) + len(left) * len(right) // 2)
    cls = common_class(left)
    if cls is not None and common_class(right) is cls:
        return not {*left}.isdisjoint(right)
    return any(contains(element, right) for element in left)
