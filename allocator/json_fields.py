"""Fields of JSON objects, read with care: types are checked, null means absent, errors know their path.

Used by the decoders only. An error travels up as `FieldError`; every level puts its own part of the path in
front, so the path costs nothing while all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from allocator.model import DecodeError
from cel.quantity import Quantity

T = TypeVar("T")
Json: TypeAlias = Mapping[str, Any]

SHARED_MAX: Final = 65536
"""Entries per table of shared values; a full table is emptied, which costs memory and nothing else."""

_quantities: Final[dict[str, Quantity]] = {}


class FieldError(Exception):
    """A problem at a path below the value being read; each level puts its own part in front."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def below(self, prefix: str) -> FieldError:
        separator = "." if self.path and not self.path.startswith("[") else ""
        return FieldError(prefix + separator + self.path, self.problem)


def decode_object(kind: str, obj: Json, read: Callable[[str, Json], T]) -> T:
    """A whole object: its name and what `read` makes of its spec. Raises DecodeError."""
    if not isinstance(obj, Mapping):
        raise DecodeError(kind, "", "object", f"expected an object, got {name_of(obj)}")
    name = ""
    try:
        metadata = child(obj, "metadata") or {}
        name = text_at(metadata, "name")
        spec = child(obj, "spec")
        if spec is None:
            raise FieldError("", "missing")
        return read(name, spec)
    except FieldError as error:
        bad = error.below("spec") if name or error.path not in ("metadata", "name") else error
        raise DecodeError(kind, name, bad.path, bad.problem) from None


TYPE_NAMES: Final[Mapping[type, str]] = {str: "a string", int: "an integer", bool: "true or false"}


def name_of(value: Any) -> str:
    """A value in words, for messages."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return f"{TYPE_NAMES.get(type(value), type(value).__name__)} ({value!r})"


def child(obj: Json, key: str) -> Json | None:
    """An object below, None when absent."""
    value = obj.get(key)
    if value is not None and not isinstance(value, Mapping):
        raise FieldError(key, f"expected an object, got {name_of(value)}")
    return value


def list_at(obj: Json, key: str) -> Sequence[Any]:
    """A list, empty when absent."""
    value = obj.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise FieldError(key, f"expected a list, got {name_of(value)}")
    return value


def each(obj: Json, key: str, read: Callable[[Json], T]) -> tuple[T, ...]:
    """What `read` makes of each entry of a list of objects."""
    values = list_at(obj, key)
    if not values:
        return ()
    result = []
    for index, value in enumerate(values):
        try:
            if not isinstance(value, Mapping):
                raise FieldError("", f"expected an object, got {name_of(value)}")
            result.append(read(value))
        except FieldError as error:
            raise error.below(f"{key}[{index}]") from None
    return tuple(result)


def text_at(obj: Json, key: str) -> str:
    """A string, empty when absent."""
    value = obj.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FieldError(key, f"expected a string, got {name_of(value)}")
    return value


def optional_text(obj: Json, key: str) -> str | None:
    """A string or None."""
    value = obj.get(key)
    if value is not None and not isinstance(value, str):
        # YAML reads an unquoted time stamp as a date; it means the text.
        if hasattr(value, "isoformat"):
            return str(value.isoformat())
        raise FieldError(key, f"expected a string, got {name_of(value)}")
    return value


def texts_at(obj: Json, key: str) -> tuple[str, ...]:
    """A list of strings."""
    values = list_at(obj, key)
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise FieldError(f"{key}[{index}]", f"expected a string, got {name_of(value)}")
    return tuple(values)


def int_at(obj: Json, key: str) -> int:
    """An integer, 0 when absent."""
    value = obj.get(key)
    if value is None:
        return 0
    if type(value) is not int:
        raise FieldError(key, f"expected an integer, got {name_of(value)}")
    return value


def bool_at(obj: Json, key: str) -> bool:
    """A bool, False when absent."""
    value = obj.get(key)
    if value is None:
        return False
    if type(value) is not bool:
        raise FieldError(key, f"expected true or false, got {name_of(value)}")
    return value


def optional_quantity(obj: Json, key: str) -> Quantity | None:
    """A quantity or None."""
    value = obj.get(key)
    if value is None:
        return None
    try:
        return quantity_at(value)
    except FieldError as error:
        raise error.below(key) from None


def quantity_at(value: Any) -> Quantity:
    """A quantity from a JSON value."""
    if type(value) is str:
        return quantity(value)
    # The API takes numbers, too, and YAML users write them: 2 and 0.5 mean "2" and "0.5".
    if type(value) in (int, float):
        return quantity(str(value))
    raise FieldError("", f"expected a quantity like 10Gi, got {name_of(value)}")


def quantity(text: str) -> Quantity:
    """A quantity from its text; equal texts share one."""
    known = _quantities.get(text)
    if known is None:
        try:
            known = Quantity.parse(text)
        except ValueError as error:
            raise FieldError("", f"{text!r} is not a quantity: {error}") from None
        if len(_quantities) >= SHARED_MAX:
            _quantities.clear()
        _quantities[text] = known
    return known
