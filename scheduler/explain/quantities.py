"""Amounts as people write them, for proposals: `80Gi` to a number and back."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

_UNITS: Final = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_FACTORS: Final = {
    **{name: Fraction(size) for name, size in _UNITS},
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1_000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
}


def exact(amount: Any) -> Fraction | None:
    """The number, or None where it is none that is written in the usual way."""
    return _exact(str(amount))


@lru_cache(maxsize=4_096)  # a cluster's nodes have the same few amounts
def _exact(text: str) -> Fraction | None:
    suffix = next((name for name in _FACTORS if text.endswith(name)), "")
    try:
        return Fraction(text.removesuffix(suffix)) * _FACTORS.get(suffix, 1)
    except (ValueError, ZeroDivisionError):
        return None


def written(number: Fraction | int) -> str:
    """An amount that says the number: thousandths where it is no whole one."""
    number = Fraction(number)
    if number.denominator != 1:
        return f"{number * 1_000 // 1}m"
    for name, size in _UNITS:
        if number and number % size == 0:
            return f"{number // size}{name}"
    return str(number)
