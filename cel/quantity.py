"""Kubernetes quantities: `80Gi`, `1500m`, `1e3`, with exact arithmetic.

Rules of this module
  1. A `Quantity` is never changed; `add` and `sub` give new ones.
  2. `nano` (exact, in units of 10^-9) is the value: equality, order and hash look at nothing else.
  3. What users see depends on *representation* too (`isInteger` of `1000m` is false, `16Ei` is capped),
     so a quantity also knows whether Go would keep it as int64 * 10^scale or as a big decimal.

Printing is Go's, oddities included: a text already in canonical form is kept (`1.5Gi` is not, `+5` is),
and a decimal quantity of 10^21 or more prints without its suffix when it is computed.

Source: k8s.io/apimachinery pkg/api/resource (quantity.go, amount.go, suffix.go, math.go) v0.36.3.
Differs on purpose: a decimal exponent above `EXPONENT_MAX` is refused as an unknown suffix, and a text longer than
`LENGTH_MAX` as one without a number. Go computes with 10^2147483647 until memory ends; no object means such a number.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Format: TypeAlias = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

FORMAT_ERROR: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC_ERROR: Final = "unable to parse numeric part of quantity"
SUFFIX_ERROR: Final = "unable to parse quantity's suffix"
INTEGER_ERROR: Final = "cannot convert value to integer"

EXPONENT_MAX: Final = 1000
LENGTH_MAX: Final = 1000
"""Characters of a text. Reading digits costs their number squared: an object full of them held a turn for minutes."""

_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_NANO: Final = -9
_DIGITS: Final = frozenset("0123456789")
_SUFFIX_LETTERS: Final = frozenset("eEinumkKMGTP")
_DECIMAL_EXPONENT: Final = {
    "": 0,
    "n": -9,
    "u": -6,
    "m": -3,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY_EXPONENT: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENT.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY_EXPONENT.items()}


class Quantity:
    """An exact amount with the format it was written in.

    `nano` is the value in units of 10^-9, `format` one of "DecimalSI", "BinarySI", "DecimalExponent".
    Build one with `parse` or `from_int`. Compares, sorts and hashes by value; unequal to anything else.
    """

    __slots__ = ("_is_big", "_scale", "_text", "_unscaled", "format", "nano")

    def __init__(self, unscaled: int, scale: int, is_big: bool, format: Format, text: str = "") -> None:
        """`unscaled * 10**scale`, scale >= -9; `text` is the canonical text when it is known."""
        self._unscaled: Final = unscaled
        self._scale: Final = scale
        self._is_big: Final = is_big
        self._text = text
        self.format: Final[Format] = format
        self.nano: Final[int] = unscaled * _ten_to(scale - _NANO)

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity as Go's `resource.ParseQuantity`.

        Raises:
            ValueError: with upstream's text (`FORMAT_ERROR`, `NUMERIC_ERROR` or `SUFFIX_ERROR`).
        """
        if not text:
            raise ValueError(FORMAT_ERROR)
        if len(text) > LENGTH_MAX:
            raise ValueError(NUMERIC_ERROR)
        is_negative, value, whole, fraction, suffix = _split(text)
        base, exponent, format_ = _interpret(suffix)
        if base == 2:
            if not fraction and 15 - len(whole) - exponent * 3 // 10 - 1 >= 0:
                mantissa = int(whole)
                unscaled = mantissa << exponent
                if unscaled <= _INT64_MAX:
                    kept = text if mantissa & 7 else ""
                    return cls(-unscaled if is_negative else unscaled, 0, False, format_, kept)
        elif len(whole) + len(fraction) <= 18 and (scale := exponent - len(fraction)) >= _NANO:
            shifted = whole + fraction
            unscaled = int(shifted)
            is_canonical = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
            return cls(-unscaled if is_negative else unscaled, scale, False, format_, text if is_canonical else "")
        return cls._parse_big(is_negative, value, base, exponent, format_)

    @classmethod
    def _parse_big(cls, is_negative: bool, value: str, base: int, exponent: int, format_: Format) -> Quantity:
        """What does not fit int64 * 10^scale: rounded away from zero to 1n, binary ones capped at int64."""
        digits, _, fraction = value.lstrip("+-").partition(".")
        if not digits and not fraction:
            raise ValueError(NUMERIC_ERROR)
        unscaled = int(digits + fraction)
        scale = -len(fraction)
        if base == 2:
            unscaled <<= exponent
        else:
            scale += exponent
        if unscaled == 0:
            return cls(0, max(scale, _NANO), True, format_)
        nano = _scaled_away_from_zero(unscaled, scale - _NANO)
        if base == 2 and nano > _INT64_MAX * 10**9:
            return cls(-_INT64_MAX if is_negative else _INT64_MAX, 0, True, format_)
        if base == 2 and nano < 10**9:
            format_ = "DecimalSI"
        return cls(-nano if is_negative else nano, _NANO, True, format_)

    @property
    def representation(self) -> tuple[int, int, bool, Format]:
        """Equal for quantities that nothing tells apart; equal amounts can differ in it (rule 3)."""
        return self._unscaled, self._scale, self._is_big, self.format

    @classmethod
    def from_int(cls, value: int, format: Format = "DecimalSI") -> Quantity:
        """The integer `value`, as Go's `resource.NewQuantity`."""
        return cls(value, 0, not _INT64_MIN <= value <= _INT64_MAX, format)

    def add(self, other: Quantity) -> Quantity:
        """The sum. The format is the receiver's, or the argument's when the receiver is zero."""
        return self._plus(other, other._unscaled)

    def sub(self, other: Quantity) -> Quantity:
        """The difference; formats as with `add`."""
        return self._plus(other, -other._unscaled)

    def _plus(self, other: Quantity, addend: int) -> Quantity:
        format_ = self.format if self._unscaled else other.format
        if not self._is_big and not other._is_big:
            # Go negates in 64 bits before it subtracts, and the smallest number is its own negative.
            small = addend if _is_int64(addend) else -addend
            if small == 0:
                return Quantity(self._unscaled, self._scale, False, format_)
            if self._unscaled == 0:
                return Quantity(small, other._scale, False, format_)
            scale = min(self._scale, other._scale)
            left = self._unscaled * _ten_to(self._scale - scale)
            right = small * _ten_to(other._scale - scale)
            if _is_int64(left) and _is_int64(right) and _is_int64(left + right):
                return Quantity(left + right, scale, False, format_)
        scale = min(self._scale, other._scale)
        total = self._unscaled * _ten_to(self._scale - scale) + addend * _ten_to(other._scale - scale)
        return Quantity(total, scale, True, format_)

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.nano > 0) - (self.nano < 0)

    def compare_to(self, other: Quantity) -> int:
        """-1, 0 or 1, by value."""
        return (self.nano > other.nano) - (self.nano < other.nano)

    def is_integer(self) -> bool:
        """Whether `as_integer` gives a value: a question about representation, `1000m` says no."""
        return not self._is_big and self._scale >= 0 and _is_int64(self._unscaled * _ten_to(self._scale))

    def as_integer(self) -> int:
        """The value as an int64.

        Raises:
            ValueError: `INTEGER_ERROR`, when `is_integer` is false.
        """
        if not self.is_integer():
            raise ValueError(INTEGER_ERROR)
        return self._unscaled * _ten_to(self._scale)

    def as_approximate_float(self) -> float:
        """The value as Go's `AsApproximateFloat64`, rounding errors and infinities included."""
        try:
            base = float(self._unscaled)
        except OverflowError:
            base = float("inf") if self._unscaled > 0 else float("-inf")
        return base if self._scale == 0 else base * _pow10(self._scale)

    def ceil_int(self) -> int:
        """Go's `Value()`: rounded up (int64 representation: away from zero); overflow as in Go."""
        if self._scale >= 0:
            value = self._unscaled * _ten_to(self._scale)
            if _is_int64(value):
                return value
            # Go gives up with 0 on its fast path and keeps the low 64 bits on the other one.
            return (value + 2**63) % 2**64 - 2**63 if self._is_big else 0
        quotient, remainder = divmod(abs(self._unscaled), _ten_to(-self._scale))
        if self._unscaled < 0:
            if not remainder:
                return -quotient
            # The big-decimal path adds one after truncating, whatever the sign.
            return -quotient + 1 if self._is_big else -quotient - 1
        return quotient + 1 if remainder else quotient

    def __str__(self) -> str:
        """Canonical text, as the API server would print it."""
        if not self._text:
            self._text = self._canonical()
        return self._text

    def _canonical(self) -> str:
        if self.nano == 0:
            return "0"
        if self.format == "BinarySI" and abs(self.nano) >= 1024 * 10**9 and self.nano % 10**9 == 0:
            amount, exponent = self.nano // 10**9, 0
            while amount % 1024 == 0:
                amount //= 1024
                exponent += 10
            return str(amount) + _BINARY_SUFFIX.get(exponent, "")
        amount, exponent = self.nano, _NANO
        while amount % 1000 == 0:
            amount //= 1000
            exponent += 3
        if self.format == "DecimalExponent":
            return str(amount) + (f"e{exponent}" if exponent else "")
        return str(amount) + _DECIMAL_SUFFIX.get(exponent, "")

    def __repr__(self) -> str:
        return f"Quantity.parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.nano < other.nano if isinstance(other, Quantity) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.nano <= other.nano if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nano)


def _split(text: str) -> tuple[bool, str, str, str, str]:
    """Sign, the numeric text with sign, digits before the point (without leading zeros), after it, suffix.

    As permissive as Go's scanner: `-`, `.` and `5.` are numbers.
    """
    end = len(text)
    position = 1 if text[0] in "+-" else 0
    is_negative = text[0] == "-"
    while position < end and text[position] == "0":
        position += 1
    if position == end:
        return False, "0", "0", "", ""
    start = position
    position = _skip_digits(text, position)
    whole = text[start:position] or "0"
    fraction = ""
    if position < end and text[position] == ".":
        start = position + 1
        position = _skip_digits(text, start)
        fraction = text[start:position]
    value = text[:position]
    start = position
    while position < end and text[position] in _SUFFIX_LETTERS:
        position += 1
    if position < end and text[position] in "+-":
        position += 1
    if _skip_digits(text, position) < end:
        raise ValueError(FORMAT_ERROR)
    return is_negative, value, whole, fraction, text[start:]


def _skip_digits(text: str, position: int) -> int:
    while position < len(text) and text[position] in _DIGITS:
        position += 1
    return position


def _interpret(suffix: str) -> tuple[int, int, Format]:
    """Base (2 or 10), exponent and format of a suffix."""
    exponent = _DECIMAL_EXPONENT.get(suffix)
    if exponent is not None:
        return 10, exponent, "DecimalSI"
    exponent = _BINARY_EXPONENT.get(suffix)
    if exponent is not None:
        return 2, exponent, "BinarySI"
    digits = suffix[1:]
    if suffix[0] not in "eE" or not digits.lstrip("+-") or not digits.lstrip("+-").isdecimal():
        raise ValueError(SUFFIX_ERROR)
    parsed = int(digits)
    if not _is_int64(parsed):
        raise ValueError(SUFFIX_ERROR)
    exponent = (parsed + 2**31) % 2**32 - 2**31  # Go truncates the exponent to 32 bits
    if exponent > EXPONENT_MAX:
        raise ValueError(SUFFIX_ERROR)
    return 10, exponent, "DecimalExponent"


def _scaled_away_from_zero(unscaled: int, scale: int) -> int:
    """`unscaled * 10**scale` for unscaled > 0, a remainder counts as one."""
    if scale >= 0:
        return unscaled * _ten_to(scale)
    # 10 to the bit length exceeds the number, so a far smaller scale than asked for gives the same 1.
    scale = max(scale, -unscaled.bit_length() - 1)
    return -(-unscaled // _ten_to(-scale))


def _ten_to(exponent: int) -> int:
    power: int = 10**exponent
    return power


def _is_int64(value: int) -> bool:
    return _INT64_MIN <= value <= _INT64_MAX


def _pow10(exponent: int) -> float:
    """Go's `math.Pow10`: two table entries multiplied or divided, so the last bit can differ from 1eN."""
    if exponent > 308:
        return float("inf")
    if exponent < -323:
        return 0.0
    if exponent >= 0:
        return float(f"1e{exponent // 32 * 32}") * float(f"1e{exponent % 32}")
    return float(f"1e-{-exponent // 32 * 32}") / float(f"1e{-exponent % 32}")
