"""CEL's integers: int is Python's, uint a class of its own; both have 64 bits."""

from __future__ import annotations

from typing import Final

INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
UINT_MAX: Final = 2**64 - 1


class UInt(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()
