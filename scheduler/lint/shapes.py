"""Types of JSON values: what a field may hold, and what is said of a value that is of another type.

Not here: the table of fields (`scheduler.validation.api_fields`), walking an object along them (`schema`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from cel.quantity import Quantity
from scheduler.validation.api_fields import fields_of, required_of, type_of

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
    """Fields with their names; `type` as the API's table calls it, "" for none."""

    fields: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    type: str = ""


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


# --- the API's types ----------------------------------------------------------------------------------------

_SCALARS: Final[Mapping[str, Shape]] = {
    **dict.fromkeys("st", Scalar(text)),
    "i": Scalar(integer),
    "b": Scalar(boolean),
    "n": Scalar(number),
    "q": Scalar(quantity),
    "x": Scalar(number_or_text),
    "*": Anything(),
}


def shape_of(api_version: str, kind: str, minor: int | None = None) -> Object | None:
    """The fields of a kind in a release, None for any; None for kinds not in the table. A status is not looked into."""
    name = type_of(api_version, kind)
    if name is None:
        return None
    shape = shape_of_type(name, minor)
    fields = {field: MapOf(Anything()) if field == "status" else of for field, of in shape.fields.items()}
    return Object(fields, shape.required)


@cache
def shape_of_type(name: str, minor: int | None = None) -> Object:
    """The fields of one type of the table."""
    fields = {field: _shape(of, minor) for field, of in fields_of(name, minor).items()}
    return Object(fields, required_of(name, minor), name)


def _shape(of: str, minor: int | None) -> Shape:
    if of.startswith("["):
        return ListOf(_shape(of[1:-1], minor))
    if of.startswith("{"):
        return MapOf(_shape(of[1:-1], minor))
    return _SCALARS.get(of) or shape_of_type(of, minor)
