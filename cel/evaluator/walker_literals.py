"""Steps that build lists, maps and wrappers.

Rules of this module are those of `walker`.
"""

from __future__ import annotations

from typing import Any, Final

from cel.errors import EvaluationError
from cel.evaluator.walker_steps import Frame, Step
from cel.integers import UInt
from cel.library.values import (
    MISSING,
    Optional,
    hashable_key,
    make_map,
    map_find,
    no_such_overload,
    spend,
    to_text,
)

WRAPPER_DEFAULTS: Final[dict[str, Any]] = {
    "bool": False,
    "int": 0,
    "uint": UInt(0),
    "double": 0.0,
    "string": "",
    "bytes": b"",
}
WRAPPER_RANGES: Final = {
    "google.protobuf.Int32Value": (-(2**31), 2**31 - 1),
    "google.protobuf.UInt32Value": (0, 2**32 - 1),
}


def _content(value: Any, place: str, key: Any = MISSING) -> Any:
    """The value of an optional that initializes `place`, or MISSING when it has none."""
    if value.__class__ is not Optional:
        at = place if key is MISSING else f"{place} '{to_text(key)}'"
        raise EvaluationError(f"cannot initialize optional {at} from non-optional value {to_text(value)}")
    return value.value if value.has_value else MISSING


def list_builder(elements: list[tuple[Step, bool]]) -> Step:
    """`[a, ?b]`: what makes each element, and whether it is optional."""

    def build(frame: Frame) -> list[Any]:
        values: list[Any] = []
        for step, optional in elements:
            value = step(frame)
            if optional and (value := _content(value, "list element")) is MISSING:
                continue
            values.append(value)
        return values

    return build


def map_builder(entries: list[tuple[Step, Step, bool]]) -> Step:
    """`{k: v, ?l: w}`: what makes each key and value, and whether the entry is optional."""

    def build(frame: Frame) -> Any:
        pairs: dict[Any, tuple[Any, Any]] = {}
        for key_step, value_step, optional in entries:
            key = key_step(frame)
            value = value_step(frame)
            place = (key.__class__, hashable_key(key))
            if optional and (value := _content(value, "entry", key)) is MISSING:
                pairs.pop(place, None)
                continue
            pairs[place] = (key, value)
        return make_map(pairs.values())

    return build


def wrapper_builder(name: str, type_name: str, fields: list[tuple[Step, bool]]) -> Step:
    """A protobuf wrapper is the value in it; no other message exists here."""

    def build(frame: Frame) -> Any:
        result = WRAPPER_DEFAULTS.get(type_name)
        for step, optional in fields:
            value = step(frame)
            if optional and (value := _content(value, "entry", "value")) is MISSING:
                continue
            low, high = WRAPPER_RANGES.get(name, (None, None))
            if low is not None and high is not None and not low <= value <= high:
                raise EvaluationError("integer overflow" if low else "unsigned integer overflow")
            if value is not None:
                result = value
        return result

    return build


def append(elements: Any, added: list[Any]) -> Any:
    """`@result + [x]` of a list that is ours alone."""
    if elements.__class__ is not list:
        no_such_overload()
    elements += added
    return elements


def put(mapping: Any, *values: Any) -> Any:
    """`cel.@mapInsert(@result, ...)` of a map that is ours alone: a key and its value, or a map of entries."""
    spend(15 + 55 * (len(values[0]) if len(values) == 1 else 1))
    for key, value in values[0].items() if len(values) == 1 else (values,):
        if map_find(mapping, key) is not MISSING:
            raise EvaluationError(f"insert failed: key {to_text(key)} already exists")
        mapping.put(key, value)
    return mapping
