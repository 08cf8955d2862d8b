"""Types of JSON values: what a field may hold, and what is said of a value that is of another type.

Not here: the fields of each kind (`api_fields`), walking an object along them (`schema`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cel.quantity import Quantity

_INT64: Final = 2**63

Check: TypeAlias = Callable[[Any], str]
"""What is wrong with a value, as the end of a sentence; empty when nothing is."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts."""

    check: Check


@dataclass(frozen=True, slots=True)
class Anything:
    """What is not looked into."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """Items of one shape."""

    item: Shape


@dataclass(frozen=True, slots=True)
class MapOf:
    """Any names, and values of one shape."""

    value: Shape


@dataclass(frozen=True, slots=True)
class Object:
    """`one_of`: fields of which one is set."""

    fields: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()


Shape: TypeAlias = Scalar | Anything | ListOf | MapOf | Object


# --- values -------------------------------------------------------------------------------------------------


def type_name(value: Any) -> str:
    """The JSON type of a value, for messages."""
    if value is None:
        return "nothing"
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)


def text(value: Any) -> str:
    return "" if isinstance(value, str) else f"must be a text, not {type_name(value)}"


def boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else f"must be true or false, not {type_name(value)}"


def integer(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"must be a whole number, not {type_name(value)}"
    return "" if -_INT64 <= value < _INT64 else "must fit into 64 bits"


def number(value: Any) -> str:
    return (
        ""
        if isinstance(value, int | float) and not isinstance(value, bool)
        else f"must be a number, not {type_name(value)}"
    )


def number_or_text(value: Any) -> str:
    return "" if isinstance(value, str) else integer(value)


def quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return f"must be a quantity like 80Gi, not {type_name(value)}"
    try:
        Quantity.parse(str(value))
    except ValueError:
        return f"must be a quantity like 80Gi or 500m, not {value!r}"
    return ""
