"""Fields of an object that the struct it is decoded to does not have: found, named, and taken out.

Rules of this module
  1. A struct with `forbid_unknown_fields` declares all that may be set. What is read has its type; what is harmless to
     ignore is declared as `Harmless`. Any other field that is set is *unread*: whoever decodes says what follows.
  2. Null and an empty list mean absent.
  3. Only an object that msgspec refuses is looked at here, so the others cost nothing.

Not here: slices, classes and claims (`allocator.values.json_fields` does the same for them).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias, TypeVar, get_args

import msgspec
import orjson

from allocator.values.json_fields import UNREAD_MAX, shown

T = TypeVar("T")
Harmless: TypeAlias = Any
"""The type of a field that may be set and is not looked at."""
UNREAD: Final = "this scheduler does not know the field, so it cannot honour it"


def decode_read(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw) -> tuple[T, tuple[str, ...]]:
    """The object, and the paths of the first UNREAD_MAX of its fields that are not read.

    Raises:
        msgspec.ValidationError: Something else is wrong.
    """
    try:
        return decoder.decode(raw), ()
    except msgspec.ValidationError:
        unread: list[str] = []
        known = _cleaned(decoder.type, orjson.loads(bytes(raw)), "", unread)
        return decoder.decode(orjson.dumps(known)), tuple(unread)


def _cleaned(of: Any, value: Any, path: str, unread: list[str]) -> Any:
    struct, item = next(_structs(of), None), next(_items(of), None)
    if isinstance(value, list) and item is not None:
        return [_cleaned(item, each, f"{path}[{index}]", unread) for index, each in enumerate(value)]
    if not isinstance(value, dict) or struct is None:
        return value
    fields = {one.encode_name: one.type for one in msgspec.structs.fields(struct)}
    start = f"{path}." if path else ""
    known = {}
    for key, each in value.items():
        if key in fields:
            known[key] = _cleaned(fields[key], each, f"{start}{key}", unread)
        elif not struct.__struct_config__.forbid_unknown_fields:
            known[key] = each
        elif each is not None and each != [] and len(unread) < UNREAD_MAX:
            unread.append(f"{start}{shown(key)}")
    return known


def _structs(of: Any) -> Iterator[type[msgspec.Struct]]:
    """The struct that objects of a type become: the type itself, or a member of a union."""
    for one in (of, *get_args(of)):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            yield one


def _items(of: Any) -> Iterator[Any]:
    """What the items of a `tuple[T, ...]` are, the type itself or a member of a union."""
    for one in (of, *get_args(of)):
        if getattr(one, "__origin__", None) is tuple:
            yield get_args(one)[0]
