"""Shares of multi-allocatable devices during one search.

Source: `allocatingCapacity` of structured/internal/incubating/allocator_incubating.go v0.36.3. There a device's entry
also means "already shared", so that a further share is not charged counters again; here that is a count of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from allocator.requests.capacity import Consumption
from allocator.values.journal import Journal

_NONE: Final[Mapping[str, int]] = {}


class ShareLedger:
    """Shares picked so far, by position of the device."""

    def __init__(self) -> None:
        self.counts: Final[dict[int, int]] = {}
        self.used: Final[dict[int, dict[str, int]]] = {}
        self.shared = 0
        """Mask of devices with at least one share."""

    def used_of(self, position: int) -> Mapping[str, int]:
        """What the shares of a device consume, capacity name -> 10^-9."""
        return self.used.get(position, _NONE)

    def take(self, position: int, consumption: Consumption, journal: Journal) -> None:
        """Add a share."""
        self.counts[position] = self.counts.get(position, 0) + 1
        self.shared |= 1 << position
        used = self.used.setdefault(position, {})
        for name, amount, _ in consumption.nanos:
            used[name] = used.get(name, 0) + amount
        journal.record(self, (position, consumption))

    def undo(self, change: Any) -> None:
        position, consumption = change
        used = self.used[position]
        for name, amount, _ in consumption.nanos:
            used[name] -= amount
        self.counts[position] -= 1
        if not self.counts[position]:
            del self.counts[position], self.used[position]
            self.shared &= ~(1 << position)

    def state(self, relevant: int) -> Hashable:
        """What the shares of the relevant devices consume."""
        return tuple(
            (position, tuple(self.used[position].values()))
            for position in sorted(self.counts)
            if relevant >> position & 1
        )
