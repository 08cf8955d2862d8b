"""Can several requests all get different devices? Augmenting paths over device masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Demand: TypeAlias = tuple[int, int]
"""Devices of which some are wanted, as a mask, and how many."""


def can_match(units: Sequence[Demand]) -> bool:
    """Whether every unit can get its devices, none given twice.

    Cost: O(units^2) mask operations per device needed at worst; usually one per unit.
    """
    owned = [0] * len(units)
    taken = 0
    for unit, (mask, need) in enumerate(units):
        if mask.bit_count() < need:
            return False
        free = mask & ~taken
        for _ in range(need):
            bit = free & -free
            if bit:
                free ^= bit
                owned[unit] |= bit
                taken |= bit
                continue
            gained = _augment(units, owned, taken, unit)
            if not gained:
                return False
            taken |= gained
    return True


def _augment(units: Sequence[Demand], owned: list[int], taken: int, start: int) -> int:
    """Give `start` one device more by moving devices between units; the newly taken device, 0 when impossible."""
    came_from = {start: start}
    queue = [start]
    for unit in queue:
        reach = units[unit][0] & ~owned[unit]
        for other, mine in enumerate(owned):
            if other in came_from or not mine & reach:
                continue
            came_from[other] = unit
            free = units[other][0] & ~taken
            if not free:
                queue.append(other)
                continue
            gained = free & -free
            _pass_on(units, owned, came_from, giver=other, start=start, bit=gained)
            return gained
    return 0


def _pass_on(
    units: Sequence[Demand], owned: list[int], came_from: dict[int, int], *, giver: int, start: int, bit: int
) -> None:
    """Along the path back to `start`, each unit takes `bit` and gives one of its own devices to the next."""
    while giver != start:
        taker = came_from[giver]
        moved = owned[giver] & units[taker][0] & ~owned[taker]
        moved &= -moved
        owned[giver] = (owned[giver] ^ moved) | bit
        bit = moved
        giver = taker
    owned[start] |= bit
