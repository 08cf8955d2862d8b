"""The strings library: positions are code points, as in cel-go ext/strings.go (version 2).

Raises `EvaluationError` with cel-go's text. Not here: `format` (`formatting`), `matches` and `find` (`regex`).

Bounded on purpose: a result above `values.LENGTH_MAX` ends the evaluation like the cost limit would; cel-go
charges `replace` and `join` only after having built the text.
"""

from __future__ import annotations

from typing import Any, Final

from cel.errors import EvaluationError
from cel.gotext import ESCAPES
from cel.library.values import check_length, no_such_overload, spend, to_text, type_name

_GO_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_QUOTED: Final = str.maketrans(ESCAPES)
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def contains(text: Any, part: Any) -> bool:
    if text.__class__ is not str or part.__class__ is not str:
        no_such_overload()
    spend(len(text) // 32 + len(text) * len(part) // 256)
    return part in text


def starts_with(text: Any, prefix: Any) -> bool:
    if text.__class__ is not str or prefix.__class__ is not str:
        no_such_overload()
    spend(len(prefix) // 16)
    is_prefix: bool = text.startswith(prefix)
    return is_prefix


def ends_with(text: Any, suffix: Any) -> bool:
    if text.__class__ is not str or suffix.__class__ is not str:
        no_such_overload()
    spend(len(suffix) // 16)
    is_suffix: bool = text.endswith(suffix)
    return is_suffix


def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    spend(len(text) // 32)
    return text.find(part, offset) if offset < len(text) else -1


def index_of_before_137(text: str, part: str, offset: int = 0) -> int:
    """cel-go before 0.29 gave back any offset for the empty text."""
    return index_of(text, part, offset) if part else offset


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    spend(len(text) // 8)
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def last_index_of_before_137(text: str, part: str, offset: int | None = None) -> int:
    return last_index_of(text, part, offset) if part or offset is None else offset


def lower_ascii(text: str) -> str:
    spend(len(text) // 8)
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    spend(len(text) // 8)
    return text.translate(_UPPER)


def trim(text: str) -> str:
    spend(len(text) // 8)
    return text.strip(_GO_SPACE)


def quote(text: str) -> str:
    spend(len(text) // 8)
    return '"' + text.translate(_QUOTED) + '"'


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    spend(5 + len(text) // 4)
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    length = len(text) + count * (len(new) - len(old))
    check_length(length)
    spend(length // 64)
    return text.replace(old, new, count)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    spend(3 + len(text) // 8)
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1) if limit > 0 else text.split(separator)
    if limit < 0 or limit >= len(text):
        return [*text]
    return [*text[: limit - 1], text[limit - 1 :]]


def substring(text: str, start: int, end: int | None = None) -> str:
    spend(len(text) // 16)
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is not None and not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def join(parts: list[Any], separator: str = "") -> str:
    length = 0
    spend(15 + 2 * len(parts))
    for part in parts:
        if part.__class__ is not str:
            raise EvaluationError(f"join: invalid input: {to_text(part)}")
        length += len(part) + len(separator)
    check_length(length)
    spend(length // 8)
    return separator.join(parts)


_UNQUOTED: Final = {"bool": "bool", "double": "Double", "bytes": "Bytes", "list": "list", "map": "map"}
_SHORT: Final = {
    "google.protobuf.Timestamp": "Timestamp",
    "google.protobuf.Duration": "Duration",
    "kubernetes.Quantity": "Quantity",
    "kubernetes.Semver": "Semver",
    "kubernetes.URL": "URL",
    "kubernetes.NamedFormat": "Format",
    "net.IP": "IP",
    "net.CIDR": "CIDR",
}


def conversion_error(value: Any, target: str) -> str:
    """cel-go's text when a value cannot become Go's `bool` or `string`."""
    name = type_name(value)
    if name in ("int", "uint"):
        return f"unsupported type conversion from '{name}' to {target}"
    if name == "string":
        return f"unsupported native conversion from string to '{target}'"
    if name == "type":
        return "type conversion not supported for 'type'"
    if name == "optional_type":
        return conversion_error(value.value, target) if value.has_value else "optional.none() dereference"
    if name in _UNQUOTED:
        return f"type conversion error from {_UNQUOTED[name]} to '{target}'"
    return f"type conversion error from '{_SHORT.get(name, name)}' to '{target}'"
