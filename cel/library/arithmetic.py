"""CEL arithmetic: int64 and uint64 overflow, division as Go divides, timestamps and durations.

Rules of this module are those of `values`.

Source: cel-go v0.26.0 and v0.29.2, common/types.
"""

from __future__ import annotations

from typing import Any, Final

from cel import operators
from cel.errors import EvaluationError
from cel.integers import INT_MAX, INT_MIN, UINT_MAX, UInt
from cel.library.values import (
    MAX_UNIX_SECONDS,
    MIN_UNIX_SECONDS,
    NUMBERS,
    Duration,
    Timestamp,
    check_length,
    no_such_overload,
    operand_error,
    spend,
)


def checked_int(value: int) -> int:
    """`value` if it is an int64.

    Raises:
        EvaluationError: "integer overflow".
    """
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def checked_uint(value: int) -> UInt:
    """`value` if it is a uint64.

    Raises:
        EvaluationError: "unsigned integer overflow".
    """
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def add(left: Any, right: Any) -> Any:
    cls = left.__class__
    if cls is right.__class__:
        if cls is int:
            return checked_int(left + right)
        spend(14)
        if cls is float:
            return left + right
        if cls is str or cls is bytes or cls is list:
            if not left or not right:
                return left or right
            # cel-go joins lists without copying and charges next to nothing: names bound to sums double fast.
            length = len(left) + len(right)
            check_length(length * (5 if cls is list else 1))
            spend(length // 16)
            return left + right
        if cls is UInt:
            return checked_uint(int(left) + int(right))
        if cls is Duration:
            return Duration(checked_int(left.nanos + right.nanos))
    elif cls is Timestamp and right.__class__ is Duration:
        return _shifted(left, right.nanos)
    elif cls is Duration and right.__class__ is Timestamp:
        return _shifted(right, left.nanos)
    spend(30)
    if cls in _ADDERS:
        no_such_overload()
    operand_error(operators.ADD, left)


def subtract(left: Any, right: Any) -> Any:
    cls = left.__class__
    if cls is right.__class__:
        if cls is int:
            return checked_int(left - right)
        spend(14)
        if cls is float:
            return left - right
        if cls is UInt:
            return checked_uint(int(left) - int(right))
        if cls is Duration or cls is Timestamp:
            return Duration(checked_int(left.nanos - right.nanos))
    elif cls is Timestamp and right.__class__ is Duration:
        return _shifted(left, checked_int(-right.nanos))
    spend(30)
    if cls in _SUBTRACTORS:
        no_such_overload()
    operand_error(operators.SUBTRACT, left)


def multiply(left: Any, right: Any) -> Any:
    cls = left.__class__
    if cls is right.__class__:
        if cls is int:
            return checked_int(left * right)
        spend(14)
        if cls is float:
            return left * right
        if cls is UInt:
            return checked_uint(int(left) * int(right))
    spend(30)
    if cls in NUMBERS:
        no_such_overload()
    operand_error(operators.MULTIPLY, left)


def divide(left: Any, right: Any) -> Any:
    cls = left.__class__
    if cls is right.__class__:
        if cls is int or cls is UInt:
            if right == 0:
                raise EvaluationError("division by zero")
            # Truncated, where Python's // floors.
            spend(0 if cls is int else 14)
            quotient = abs(left) // abs(right)
            return checked_int(quotient if (left < 0) == (right < 0) else -quotient) if cls is int else UInt(quotient)
        if cls is float:
            spend(14)
            return _divide_floats(left, right)
    spend(30)
    if cls in NUMBERS:
        no_such_overload()
    operand_error(operators.DIVIDE, left)


def modulo(left: Any, right: Any) -> Any:
    cls = left.__class__
    if cls is right.__class__ and (cls is int or cls is UInt):
        if right == 0:
            raise EvaluationError("modulus by zero")
        if cls is UInt:
            spend(14)
            return UInt(int(left) % int(right))
        if left == INT_MIN and right == -1:
            raise EvaluationError("integer overflow")
        remainder = abs(left) % abs(right)
        return -remainder if left < 0 else remainder
    spend(30)
    if cls is int or cls is UInt:
        no_such_overload()
    operand_error(operators.MODULO, left)


def negate(value: Any) -> Any:
    cls = value.__class__
    if cls is int:
        return checked_int(-value)
    if cls is float:
        return -value
    if cls is Duration:
        return Duration(checked_int(-value.nanos))
    if cls is bool:
        no_such_overload()
    operand_error(operators.NEGATE, value)


def logical_not(value: Any) -> bool:
    if value is True or value is False:
        return not value
    no_such_overload()


_ADDERS: Final = frozenset({int, UInt, float, str, bytes, list, Timestamp, Duration})
_SUBTRACTORS: Final = frozenset({int, UInt, float, Timestamp, Duration})


def _divide_floats(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left != left or left == 0:  # noqa: PLR0124
        return float("nan")
    is_negative = (str(left)[0] == "-") != (str(right)[0] == "-")
    return float("-inf") if is_negative else float("inf")


def _shifted(moment: Timestamp, nanos: int) -> Timestamp:
    shifted = moment.nanos + nanos
    if not MIN_UNIX_SECONDS <= shifted // 10**9 <= MAX_UNIX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(shifted, moment.offset)
