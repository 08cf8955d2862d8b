"""Texts as Go prints them: quoted strings and floating-point numbers, in error messages and `string()`.

Source: Go 1.26, strconv (`Quote`, `FormatFloat`), fmt (`%v`, `%q`, `%g`).
"""

from __future__ import annotations

import math
from typing import Final

ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def quote(text: str) -> str:
    """`text` as a Go string literal (`%q`): what is not printable is escaped."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_quoted_character, text)) + '"'


def _quoted_character(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    code = ord(character)
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xD800 <= code < 0xE000:
        return "\ufffd"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def format_double(value: float) -> str:
    """Shortest text that reads back the same: `%g` and `%v`.

    Exponents from -5 down and 6 up are written as such, with at least two digits.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = shortest_digits(value)
    if exponent < -4 or exponent >= 6:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + _positional(digits, exponent)


def shortest_decimal(value: float) -> str:
    """Shortest text that reads back the same, without an exponent."""
    sign, digits, exponent = shortest_digits(value)
    return sign + _positional(digits, exponent)


def _positional(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def shortest_digits(value: float) -> tuple[str, str, int]:
    """Sign, shortest significant digits and the decimal exponent of the first one, of a finite number."""
    text = repr(value)
    sign = ""
    if text[0] == "-":
        sign, text = "-", text[1:]
    mantissa, _, exponent_text = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    exponent = len(whole) - 1 + (int(exponent_text) if exponent_text else 0)
    digits = whole + fraction
    stripped = digits.lstrip("0")
    exponent -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0")
    return (sign, stripped, exponent) if stripped else (sign, "0", 0)
