"""Looking up: what is under a key or an index, and what a list of constants contains.

Source: cel-go v0.26.0 and v0.29.2, interpreter/attributes.go (qualifiers), interpreter/interpretable.go
(evalSetMembership).
"""

from __future__ import annotations

from typing import Any, Final

from cel.errors import EvaluationError
from cel.integers import UInt
from cel.library.values import MAP_CLASSES, MISSING, go_type, list_index, map_find, to_text

KEY_CLASSES: Final = frozenset((str, int, UInt, bool, float))


def qualified(value: Any, key: Any, *, tests: bool) -> Any:
    """`value[key]`. Without such a key: MISSING if `tests` asks for presence, an error if not."""
    if key.__class__ not in KEY_CLASSES:
        raise EvaluationError(f"invalid qualifier type: {go_type(key)}")
    cls = value.__class__
    if cls in MAP_CLASSES:
        found = map_find(value, key)
        if found is not MISSING or tests:
            return found
    elif cls is list:
        index = list_index(key)
        if 0 <= index < len(value):
            return value[index]
        if not tests:
            raise EvaluationError(f"index out of bounds: {to_text(key)}")
        return MISSING
    elif tests:
        return MISSING
    raise EvaluationError(f"no such key: {to_text(key)}")


def member_set(constants: list[Any]) -> frozenset[tuple[type, Any]] | None:
    """The set that cel-go makes of a constant list after `in`, or None where it makes none.

    A number is in the set as each numeric type that it converts to. A value of another type is looked up as it is;
    one that Go cannot hash ends the evaluation.
    """
    members: set[tuple[type, Any]] = set()
    for constant in constants:
        cls = constant.__class__
        if cls not in KEY_CLASSES:
            return None
        members.add((cls, constant))
        if cls is int or cls is UInt:
            members.add((float, float(constant)))
            if cls is int and constant >= 0:
                members.add((UInt, UInt(constant)))
            elif cls is UInt and constant < 2**63:
                members.add((int, int(constant)))
        elif cls is float and constant.is_integer():
            if -(2.0**63) < constant < 2.0**63:
                members.add((int, int(constant)))
            if 0 <= constant < 2.0**64:
                members.add((UInt, UInt(int(constant))))
    return frozenset(members)
