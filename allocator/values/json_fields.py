"""Fields of JSON objects, declared: which Python value a field of the API becomes, and what it is when absent.

`fields` and `record` make readers of objects from such declarations. Types are checked, null and an empty list mean
absent. An error travels up as `FieldError`; every level puts its own part of the path in front, so the path costs
nothing while all is well.

A field that is not declared is never ignored: it is an `UnreadFieldError`, unless the declaration names it as harmless.
Whoever can do without a part of an object takes the fields out of it (`without_unread`) and leaves that part out.

Why not msgspec: its errors have no keys of maps (`attributes[...]`), so nobody would find a device's bad attribute; it
refuses null where a field may be absent, and cannot share equal values, which most attributes and quantities are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from allocator.values.model import DecodeError
from cel.quantity import Quantity

T = TypeVar("T")
Json: TypeAlias = Mapping[str, Any]
Read: TypeAlias = Callable[[Any], T]
"""Makes a value of what a JSON parser gave, which is not None. Raises FieldError."""

SHARED_MAX: Final = 65536
"""Entries per table of shared values; a full table is emptied, which costs memory and nothing else.

To read a dump takes 14 % longer without quantities (`dra-scheduler explain`, 6,400 devices)."""

UNREAD_MAX: Final = 8
"""Of one object's fields that are not read so many are named; others are taken out as well."""
_NAME_MAX: Final = 63
_SHORT: Final = 64
_NOT_OF_NAMES: Final = re.compile(r"[^\w./-]")

_quantities: Final[dict[str, Quantity]] = {}


class FieldError(Exception):
    """A problem at a path below the value being read; each level puts its own part in front."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def below(self, prefix: str) -> FieldError:
        separator = "." if self.path and not self.path.startswith("[") else ""
        return type(self)(prefix + separator + self.path, self.problem)


class UnreadFieldError(FieldError):
    """A field is set that nobody here acts on."""


class Field(NamedTuple):
    """One field: how it is read, its value when absent, and its JSON name where that is not the Python one's."""

    read: Read[Any]
    absent: Any = None
    name: str = ""


class Parts(NamedTuple):
    """What a reader looks into: an object's fields, each with its reader, or what all items or values are read with.

    `harmless`: fields that are not read and may be set.
    """

    fields: Mapping[str, Read[Any]] | None = None
    harmless: Collection[str] = ()
    items: Read[Any] | None = None
    values: Read[Any] | None = None


_parts: Final[dict[Read[Any], Parts]] = {}
_NO_PARTS: Final = Parts()


def parts_of(read: Read[Any]) -> Parts:
    """Nothing for a reader of values without parts."""
    return _parts.get(read, _NO_PARTS)


def like(read: Read[Any], own: Read[T]) -> Read[T]:
    """`own`, which looks into the same parts as `read`."""
    _parts[own] = parts_of(read)
    return own


def fields(*, harmless: Collection[str] = (), **declared: Field) -> Read[list[Any]]:
    """A reader of objects: the values of these fields, in this order.

    Args:
        harmless: Other fields that may be set, as `Parts.harmless`.
    """
    rows = [(field.name or camel_case(name), field.read, field.absent) for name, field in declared.items()]
    known = {key: (index, read_value) for index, (key, read_value, _) in enumerate(rows)}
    all_absent = [absent for _, _, absent in rows]

    def read(obj: Any) -> list[Any]:
        check_object(obj)
        values = all_absent.copy()
        try:
            for key, value in obj.items():  # of the fields that there may be, few are there
                if value is not None:
                    try:
                        index, read_value = known[key]
                    except KeyError:
                        if key not in harmless and value != []:
                            raise _unread(key) from None
                    else:
                        values[index] = read_value(value)
        except FieldError:
            raise first_wrong(obj) from None
        return values

    def first_wrong(obj: Any) -> FieldError:
        """Of several fields that are wrong the first declared, wherever it stands."""
        for key, read_value, _ in rows:
            try:
                if (value := obj.get(key)) is not None:
                    read_value(value)
            except FieldError as error:
                return error.below(key)
        return _unread(next(_unread_keys(obj, known, harmless)))

    _parts[read] = Parts(fields={key: read_value for key, read_value, _ in rows}, harmless=harmless)
    return read


def shown(name: object) -> str:
    """A name that somebody made up, for messages: bounded, and no part of it can be taken for the message's own."""
    text = _NOT_OF_NAMES.sub("?", str(name)[: _NAME_MAX + 1]) or "?"
    return text if len(text) <= _NAME_MAX else f"{text[: _NAME_MAX - 1]}…"


def _unread(key: Any) -> UnreadFieldError:
    return UnreadFieldError(shown(key), "this scheduler does not know the field, so it cannot honour it")


def _unread_keys(obj: Json, known: Collection[str], harmless: Collection[str]) -> Iterator[str]:
    for key, value in obj.items():
        if value is not None and value != [] and key not in known and key not in harmless:
            yield key


def without_unread(read: Read[Any], value: Any) -> tuple[Any, tuple[str, ...]]:
    """A value without the fields that are not read, and the paths of the first UNREAD_MAX of these.

    Wrong types stay for `read` to find.

    Cost: O(size of the value).
    """
    unread: list[str] = []
    return _cleaned(read, value, "", unread), tuple(unread)


def _cleaned(read: Read[Any], value: Any, path: str, unread: list[str]) -> Any:
    known, harmless, items, values = parts_of(read)
    if known is not None and isinstance(value, Mapping):
        bad = dict.fromkeys(_unread_keys(value, known, harmless))
        start = f"{path}." if path else ""
        unread += [f"{start}{shown(key)}" for key in islice(bad, UNREAD_MAX - len(unread))]
        return {
            key: _cleaned(known[key], each, f"{start}{key}", unread) if key in known else each
            for key, each in value.items()
            if key not in bad
        }
    if items is not None and isinstance(value, list | tuple):
        return [_cleaned(items, each, f"{path}[{index}]", unread) for index, each in enumerate(value)]
    if values is not None and isinstance(value, Mapping):
        return {key: _cleaned(values, each, f"{path}[{shown(key)}]", unread) for key, each in value.items()}
    return value


def record(make: Callable[..., T], *, harmless: Collection[str] = (), **declared: Field) -> Read[T]:
    """A reader of objects: what `make` makes of the values of these fields, which are its arguments in order."""
    read = fields(harmless=harmless, **declared)
    return like(read, lambda obj: make(*read(obj)))


def only(field: Field, name: str, *, harmless: Collection[str] = ()) -> Read[Any]:
    """A reader of objects of which one field matters."""
    read = fields(harmless=harmless, **{name: field})
    return like(read, lambda obj: read(obj)[0])


def many(read: Read[T], name: str = "") -> Field:
    """A list, empty when absent."""

    def read_all(values: Any) -> tuple[T, ...]:
        if not isinstance(values, list | tuple):
            raise FieldError("", f"expected a list, got {name_of(values)}")
        result: list[T] = []
        try:
            for value in values:
                result.append(read(value))  # noqa: PERF401 - how far it came is the index of the one that is wrong
        except FieldError as error:
            raise error.below(f"[{len(result)}]") from None
        return tuple(result)

    _parts[read_all] = Parts(items=read)
    return Field(read_all, (), name)


def entries(read: Read[T], name: str = "") -> Field:
    """A map, as pairs sorted by key; empty when absent."""

    def read_all(values: Any) -> tuple[tuple[str, T], ...]:
        return tuple(sorted(read_entries(values, read).items(), key=lambda entry: entry[0]))

    _parts[read_all] = Parts(values=read)
    return Field(read_all, (), name)


def read_entries(values: Any, read: Read[T]) -> dict[str, T]:
    """A map."""
    check_object(values)
    result: dict[str, T] = {}
    key = ""
    try:
        for key, value in values.items():
            result[key] = read(value)
    except FieldError as error:
        raise error.below(f"[{key}]") from None
    return result


def decode_object(kind: str, obj: Json, read: Callable[[str, Any], T]) -> T:
    """A whole object: what `read` makes of its name and its spec. Raises DecodeError."""
    if not isinstance(obj, Mapping):
        raise DecodeError(kind, "", "object", f"expected an object, got {name_of(obj)}")
    name, path = "", ""
    try:
        metadata, spec = obj.get("metadata"), obj.get("spec")
        path = "metadata"
        name = _name_in(metadata) if metadata is not None else ""
        path = "spec"
        if spec is None:
            raise FieldError("", "missing")
        return read(name, spec)
    except FieldError as error:
        bad = error.below(path)
        raise DecodeError(kind, name, bad.path, bad.problem) from None


def _name_in(metadata: Any) -> str:
    check_object(metadata)
    try:
        return _text(metadata["name"]) if metadata.get("name") is not None else ""
    except FieldError as error:
        raise error.below("name") from None


def decode_part(kind: str, path: str, obj: Any, read: Read[T]) -> T:
    """Part of an object, at this path. Raises DecodeError."""
    try:
        return read(obj)
    except FieldError as error:
        bad = error.below(path)
        raise DecodeError(kind, "", bad.path, bad.problem) from None


def camel_case(name: str) -> str:
    """A field's name in the API."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


_TYPE_NAMES: Final[Mapping[type, str]] = {str: "a string", int: "an integer", bool: "true or false"}


def name_of(value: Any) -> str:
    """A value in words, for messages."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return f"{_TYPE_NAMES.get(type(value), type(value).__name__)} ({repr(value)[:_SHORT]})"


def check_object(value: Any) -> None:
    """Raises FieldError for what is no object."""
    if type(value) is not dict and not isinstance(value, Mapping):
        raise FieldError("", f"expected an object, got {name_of(value)}")


def _of_type(expected: type[T]) -> Read[T]:
    def read(value: Any) -> T:
        if type(value) is expected:
            return value
        raise FieldError("", f"expected {_TYPE_NAMES[expected]}, got {name_of(value)}")

    return read


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise FieldError("", f"expected a string, got {name_of(value)}")


def _object(value: Any) -> Json:
    check_object(value)
    return value  # type: ignore[no-any-return]


def _text_or_date(value: Any) -> str:
    # YAML reads an unquoted time stamp as a date; it means the text.
    return str(value.isoformat()) if hasattr(value, "isoformat") else _text(value)


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
            raise FieldError("", f"{text[:_SHORT]!r} is not a quantity: {error}") from None
        if len(text) <= _SHORT:  # as all that an API server stores are
            if len(_quantities) >= SHARED_MAX:
                _quantities.clear()
            _quantities[text] = known
    return known


TEXT: Final = Field(_text, "")
OPTIONAL_TEXT: Final = Field(_text_or_date)
TEXTS: Final = many(_text)
INT: Final = Field(_of_type(int), 0)
OPTIONAL_INT: Final = Field(_of_type(int))
BOOL: Final = Field(_of_type(bool), False)
OPTIONAL_BOOL: Final = Field(_of_type(bool))
QUANTITY: Final = Field(quantity_at)
OBJECT: Final = Field(_object)
