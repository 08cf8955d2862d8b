"""Masks of positions, one bit each, and the positions themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def positions_of(mask: int) -> Iterator[int]:
    """The positions in a mask, in order."""
    while mask:
        bit = mask & -mask
        mask ^= bit
        yield bit.bit_length() - 1


def mask_of(positions: Iterable[int]) -> int:
    """The mask of some positions."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask
