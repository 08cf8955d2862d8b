"""The standard functions: conversions, sizes, texts, times, optionals.

`IMPLEMENTATIONS` maps overload ids to functions of the arguments (a receiver is the first). Which overload
a call gets is the evaluator's business: these functions may rely on the declared argument types, except
those in `SINGLETONS`, which cel-go calls with anything.

Source: cel-go v0.26.0 and v0.29.2, common/stdlib/standard.go, common/types, cel/library.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cel import operators
from cel.errors import EvaluationError
from cel.gotext import format_double
from cel.integers import INT_MAX, INT_MIN, UINT_MAX, UInt
from cel.library import lists, strings, timestamp_functions
from cel.library.arithmetic import (
    add,
    checked_int,
    checked_uint,
    divide,
    logical_not,
    modulo,
    multiply,
    negate,
    subtract,
)
from cel.library.values import (
    MAX_UNIX_SECONDS,
    MIN_UNIX_SECONDS,
    MISSING,
    NONE,
    Duration,
    Map,
    Optional,
    Timestamp,
    TypeValue,
    contains,
    greater,
    greater_equals,
    is_zero,
    less,
    less_equals,
    make_map,
    map_find,
    no_such_overload,
    size,
    spend,
    to_text,
    type_name,
)

Implementation = Callable[..., Any]


def conversion_failed(value: Any, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{target}'")


# --- conversions


def string_to_bool(text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise conversion_failed(text, "bool")


def string_to_int(text: str) -> int:
    return _integer(text, "int", INT_MIN, INT_MAX)


def string_to_uint(text: str) -> UInt:
    if text[:1] in ("+", "-"):
        raise conversion_failed(text, "uint")
    return UInt(_integer(text, "uint", 0, UINT_MAX))


def _integer(text: str, target: str, smallest: int, largest: int) -> int:
    """Go's ParseInt and ParseUint, base 10: a sign and ASCII digits."""
    spend(8 + len(text) // 4)
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= 20:
        value = int(digits.lstrip("0") or "0")
        value = -value if text[0] == "-" else value
        if smallest <= value <= largest:
            return value
    raise conversion_failed(text, target)


def string_to_double(text: str) -> float:
    """Go's ParseFloat: decimal and hexadecimal, `_` only after a base prefix, `inf` and `nan` in any case."""
    spend(20 + len(text) // 32)
    value = parse_double(text)
    if value is None:
        raise conversion_failed(text, "double")
    return value


def parse_double(text: str) -> float | None:
    """The double a text means, or None: not a number, or too large (Go reports the range as an error)."""
    body = text[1:] if text[:1] in ("+", "-") else text
    sign = -1.0 if text[:1] == "-" else 1.0
    lowered = body.lower()
    if lowered in ("inf", "infinity"):
        return sign * float("inf")
    if lowered == "nan":
        return float("nan") if body == text else None
    if not body.isascii() or body[:1] not in set("0123456789.") or body.strip() != body:
        return None
    try:
        if lowered.startswith("0x"):
            return _hexadecimal(lowered, sign)
        value = float(body) if "_" not in body else None
    except (ValueError, OverflowError):
        return None
    return None if value is None or value == float("inf") else sign * value


def _hexadecimal(text: str, sign: float) -> float | None:
    digits = text[2:]
    if "p" not in digits:  # Go demands an exponent
        return None
    if "_" in digits:
        mantissa = digits.partition("p")[0]
        if mantissa in ("", "_") or "__" in digits or "_" in digits.partition("p")[2]:
            return None
        digits = digits.replace("_", "")
    value = float.fromhex("0x" + digits)
    return None if value == float("inf") else sign * value


def double_to_int(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(value)


def double_to_uint(value: float) -> UInt:
    if not 0 <= value < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(int(value))


def string_to_duration(text: str) -> Duration:
    spend(25 + 12 * len(text))
    try:
        return timestamp_functions.parse_duration(text)
    except ValueError:
        raise conversion_failed(text, "google.protobuf.Duration") from None


def string_to_timestamp(text: str) -> Timestamp:
    spend(70 + len(text) // 16)
    try:
        return timestamp_functions.parse_timestamp(text)
    except ValueError as error:
        if str(error) == "timestamp overflow":
            raise EvaluationError("timestamp overflow") from None
        raise conversion_failed(text, "google.protobuf.Timestamp") from None


def int_to_timestamp(seconds: int) -> Timestamp:
    if not MIN_UNIX_SECONDS <= seconds <= MAX_UNIX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(seconds * 10**9)


def bytes_to_string(value: bytes) -> str:
    spend(len(value) // 16)
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def double_to_string(value: float) -> str:
    spend(25)
    return format_double(value)


def duration_to_string(span: Duration) -> str:
    spend(30)
    return timestamp_functions.format_duration(span)


def timestamp_to_string(moment: Timestamp) -> str:
    spend(40)
    return timestamp_functions.format_timestamp(moment)


def bytes_of_text(text: str) -> bytes:
    spend(len(text) // 16)
    return text.encode("utf-8", "replace")


def _identity(value: Any) -> Any:
    return value


def type_of(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


# --- optionals


def optional_value(value: Optional) -> Any:
    if not value.has_value:
        raise EvaluationError("optional.none() dereference")
    return value.value


def optional_of_non_zero(value: Any) -> Optional:
    return NONE if is_zero(value) else Optional(value)


# --- maps of two-variable comprehensions


def map_insert(mapping: dict[str, Any] | Map, key: Any, value: Any) -> dict[str, Any] | Map:
    return map_merge(mapping, make_map([(key, value)]))


def map_merge(mapping: dict[str, Any] | Map, update: dict[str, Any] | Map) -> dict[str, Any] | Map:
    for key in update:
        if map_find(mapping, key) is not MISSING:
            raise EvaluationError(f"insert failed: key {to_text(key)} already exists")
    return make_map([*mapping.items(), *update.items()])


# --- tables


def _matches(text: Any, pattern: Any) -> bool:
    if text.__class__ is not str:
        if text.__class__ in (Timestamp, Duration):
            no_such_overload()
        raise EvaluationError("no such overload: matches")
    if pattern.__class__ is not str:
        no_such_overload()
    from cel.library.regex import RegexError, regex_at_run_time  # noqa: PLC0415 - many selectors have no pattern

    try:
        regex = regex_at_run_time(pattern)
    except RegexError as error:
        raise EvaluationError(str(error)) from None
    return regex.search(text)


SINGLETONS: Final[dict[str, Implementation]] = {
    operators.ADD: add,
    operators.SUBTRACT: subtract,
    operators.MULTIPLY: multiply,
    operators.DIVIDE: divide,
    operators.MODULO: modulo,
    operators.NEGATE: negate,
    operators.LOGICAL_NOT: logical_not,
    operators.LESS: less,
    operators.LESS_EQUALS: less_equals,
    operators.GREATER: greater,
    operators.GREATER_EQUALS: greater_equals,
    operators.IN: contains,
    "size": size,
    "type": type_of,
    "dyn": _identity,
    "matches": _matches,
    "contains": strings.contains,
    "startsWith": strings.starts_with,
    "endsWith": strings.ends_with,
    "sort": lists.sort,
    "@sortByAssociatedKeys": lists.sort_by_keys,
    "flatten": lists.flatten,
}
"""By function name: bound once for all overloads, or called without looking at argument types."""

IMPLEMENTATIONS: Final[dict[str, Implementation]] = {
    "bool_to_bool": _identity,
    "string_to_bool": string_to_bool,
    "bytes_to_bytes": _identity,
    "string_to_bytes": bytes_of_text,
    "double_to_double": _identity,
    "int64_to_double": float,
    "string_to_double": string_to_double,
    "uint64_to_double": float,
    "duration_to_duration": _identity,
    "string_to_duration": string_to_duration,
    "int64_to_duration": Duration,
    "double_to_int64": double_to_int,
    "duration_to_int64": lambda span: span.nanos,
    "int64_to_int64": _identity,
    "string_to_int64": string_to_int,
    "timestamp_to_int64": lambda moment: moment.nanos // 10**9,
    "uint64_to_int64": lambda value: checked_int(int(value)),
    "bool_to_string": lambda value: "true" if value else "false",
    "bytes_to_string": bytes_to_string,
    "double_to_string": double_to_string,
    "duration_to_string": duration_to_string,
    "int64_to_string": str,
    "string_to_string": _identity,
    "timestamp_to_string": timestamp_to_string,
    "uint64_to_string": lambda value: str(int(value)),
    "int64_to_timestamp": int_to_timestamp,
    "string_to_timestamp": string_to_timestamp,
    "timestamp_to_timestamp": _identity,
    "double_to_uint64": double_to_uint,
    "int64_to_uint64": checked_uint,
    "string_to_uint64": string_to_uint,
    "uint64_to_uint64": _identity,
    "optional_none": lambda: NONE,
    "optional_of": Optional,
    "optional_ofNonZeroValue": optional_of_non_zero,
    "optional_value": optional_value,
    "optional_hasValue": lambda value: value.has_value,
    "optional_unwrap": lists.unwrap,
    "optional_unwrapOpt": lists.unwrap,
    "list_first": lists.first,
    "list_last": lists.last,
    "@mapInsert_map_key_value": map_insert,
    "@mapInsert_map_map": map_merge,
}

for _suffix, (_of_timestamp, _of_duration) in timestamp_functions.GETTERS.items():
    IMPLEMENTATIONS[f"timestamp_to_{_suffix}"] = _of_timestamp
    IMPLEMENTATIONS[f"timestamp_to_{_suffix}_with_tz"] = _of_timestamp
    IMPLEMENTATIONS[f"timestamp_to_{_suffix}_tz"] = _of_timestamp  # upstream's name for seconds
    if _of_duration is not None:
        IMPLEMENTATIONS[f"duration_to_{_suffix}"] = _of_duration
