"""`"...".format([...])`: cel-go's first formatter, with grouped thousands and superscript exponents.

`interpolate` reads the clauses and asks a callback for each text, so that the same reader serves the
evaluator (`format_string`) and the checker, which only looks at types.

Source: cel-go v0.26.0 and v0.29.2, ext/formatting.go; golang.org/x/text number formatting for locale en_US.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cel.errors import EvaluationError
from cel.gotext import format_double, quote
from cel.integers import UInt
from cel.library.timestamp_functions import format_duration, format_timestamp
from cel.library.values import (
    LIMIT_EXCEEDED,
    MAP_CLASSES,
    AbortedError,
    Duration,
    Timestamp,
    TypeValue,
    check_length,
    spend,
    type_name,
)

PRECISION_MAX: Final = 1000
"""Go has no limit here and writes as many zeros as it is asked for."""

_DIGITS: Final = frozenset("0123456789")
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_DEFAULT_PRECISION: Final = 6


class FormatError(ValueError):
    """A format string or argument that does not fit; the text is cel-go's."""


class Clause(NamedTuple):
    """One `%.2f`: the verb and the precision, None when not written."""

    verb: str
    precision: int | None


def interpolate(template: str, count: int, render: Callable[[int, Clause], str]) -> tuple[str, int]:
    """The text, and how many of the `count` arguments were used; `render` gives the text of one.

    Raises:
        FormatError: as cel-go; errors of `render` get "error during formatting: " put before them.
    """
    parts: list[str] = []
    length = 0
    used = 0
    position = 0
    while True:
        spend(8)
        percent = template.find("%", position)
        parts.append(template[position:] if percent < 0 else template[position:percent])
        length += len(parts[-1])
        if percent < 0:
            check_length(length)
            return "".join(parts), used
        if template.startswith("%%", percent):
            parts.append("%")
            position = percent + 2
            continue
        if used >= count:
            raise FormatError(f"index {used} out of range")
        if percent + 1 >= len(template):
            raise FormatError("unexpected end of string")
        try:
            clause, position = _read_clause(template, percent + 1)
        except FormatError as error:
            raise FormatError(f"could not parse formatting clause: {error}") from None
        spend(40 + (clause.precision or 0) // 2)
        try:
            parts.append(render(used, clause))
        except FormatError as error:
            raise type(error)(f"error during formatting: {error}", *error.args[1:]) from None
        length += len(parts[-1])
        check_length(length)
        used += 1


def _read_clause(template: str, position: int) -> tuple[Clause, int]:
    precision = None
    if template[position] == ".":
        start = position = position + 1
        while position < len(template) and template[position] in _DIGITS:
            position += 1
        if position == len(template):
            raise FormatError("error while parsing precision: could not find end of precision specifier")
        precision = _read_precision(template[start:position])
    verb = template[position]
    if verb not in "sdfebxXo":
        # cel-go looks at the first byte of the character.
        shown = chr(verb.encode("utf-8", "replace")[0])
        raise FormatError(f'unrecognized formatting clause "{shown}"')
    return Clause(verb, precision), position + 1


def _read_precision(digits: str) -> int:
    if not digits:
        raise FormatError(
            "error while parsing precision: error while converting precision to integer: "
            'strconv.Atoi: parsing "": invalid syntax'
        )
    if len(digits.lstrip("0")) > 4 or int(digits) > PRECISION_MAX:
        raise AbortedError(LIMIT_EXCEEDED)
    return int(digits)


def format_string(template: str, arguments: list[Any]) -> str:
    """`template.format(arguments)`; arguments left over are ignored."""
    spend(30)
    try:
        return interpolate(template, len(arguments), lambda i, clause: _render(arguments[i], clause))[0]
    except FormatError as error:
        raise EvaluationError(str(error)) from None


def _render(value: Any, clause: Clause) -> str:
    match clause.verb:
        case "s":
            return _text(value)
        case "d":
            return _decimal(value)
        case "f" | "e":
            return _float(value, clause)
        case "b":
            if value is True or value is False:
                return "1" if value else "0"
            return _integer(value, "b", "only integers and bools can be formatted as binary")
        case "o":
            return _integer(value, "o", "octal clause can only be used on integers")
        case _:
            return _hex(value, clause.verb)


def _integer(value: Any, verb: str, complaint: str) -> str:
    if value.__class__ is int or value.__class__ is UInt:
        return format(int(value), verb)
    raise FormatError(f"{complaint}, was given {type_name(value)}")


def _decimal(value: Any) -> str:
    return _integer(value, "d", "decimal clause can only be used on integers")


def _hex(value: Any, verb: str) -> str:
    if value.__class__ is str or value.__class__ is bytes:
        digits: str = (value.encode("utf-8", "replace") if isinstance(value, str) else value).hex()
        return digits.upper() if verb == "X" else digits
    return _integer(value, verb, "only integers, byte buffers, and strings can be formatted as hex")


def _float(value: Any, clause: Clause) -> str:
    if value.__class__ is str and value in ("NaN", "Infinity", "-Infinity"):
        value = float(value)
    if value.__class__ is not float:
        name = "fixed-point" if clause.verb == "f" else "scientific"
        raise FormatError(f"{name} clause can only be used on doubles, was given {type_name(value)}")
    precision = _DEFAULT_PRECISION if clause.precision is None else clause.precision
    width = precision if clause.verb == "e" else 0  # see below
    if math.isnan(value):
        return "NaN".rjust(width)
    if math.isinf(value):
        return ("∞" if value > 0 else "-∞").rjust(width)
    if value == 0:
        value = 0.0  # the locale formatter shows no sign of a negative zero
    if clause.verb == "f":
        return f"{value:,.{precision}f}"
    # cel-go hands its precision on as the width, so there are always six digits.
    mantissa, _, exponent = f"{value:.{_DEFAULT_PRECISION}e}".partition("e")
    power = int(exponent)
    text = f"{mantissa}×10{'⁻' if power < 0 else ''}{f'{abs(power):02d}'.translate(_SUPERSCRIPTS)}"
    return text.rjust(precision)


def _text(value: Any) -> str:
    cls = value.__class__
    spend(5)
    if cls is str:
        return value  # type: ignore[no-any-return]
    if cls is bool:
        return "true" if value else "false"
    if cls is int or cls is UInt:
        return str(int(value))
    if cls is float:
        return format_double(value)
    if value is None:
        return "null"
    if cls is list:
        spend(180)
        return "[" + ", ".join(map(_nested, value)) + "]"
    if cls in MAP_CLASSES:
        spend(180 + 10 * len(value))
        entries = sorted((_key(key), _nested(element)) for key, element in value.items())
        return "{" + ", ".join(f"{key}:{element}" for key, element in entries) + "}"
    if cls is bytes:
        try:
            return value.decode()  # type: ignore[no-any-return]
        except UnicodeDecodeError:
            raise FormatError(
                'could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string'
            ) from None
    if cls is Timestamp:
        spend(40)
        return format_timestamp(value)
    if cls is Duration:
        return format_duration(value)
    if cls is TypeValue:
        return value.name  # type: ignore[no-any-return]
    raise FormatError(
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
        f"and timestamps, was given {type_name(value)}"
    )


def _nested(value: Any) -> str:
    """An element of a list or map: as a CEL literal."""
    cls = value.__class__
    spend(6)
    if cls is str:
        spend(len(value) // 4)
        return quote(value)
    if cls is bytes:
        return f"b{quote(_text(value))}"
    if cls is float:
        if math.isfinite(value):
            return f"{value:.6f}"
        return '"NaN"' if math.isnan(value) else '"+Inf"' if value > 0 else '"-Inf"'
    if cls is Timestamp:
        spend(50)
        return f"timestamp({quote(format_timestamp(value))})"
    if cls is Duration:
        return f"duration({quote(format_duration(value))})"
    if cls in (bool, int, UInt, type(None), TypeValue, list) or cls in MAP_CLASSES:
        return _text(value)
    raise FormatError(f"no formatting function for {type_name(value)}")


def _key(key: Any) -> str:
    cls = key.__class__
    if cls is str:
        return quote(key)
    if cls in (bool, int, UInt):
        return _text(key)
    raise FormatError(f"no formatting function for map key of type {type_name(key)}")
