"""How much is kept for each slot, so that it can be bounded by size.

A slot's verdicts are kept where they are used: masks with the pools, candidates with the nodes' pools, counted slices
and answers apart. Here they are counted.

Rules of this module
  1. An entry is one answer, or what is kept for one pool, node or slice: 150 to 500 bytes.
  2. Counts follow what is dropped for other reasons (a slice changes) closely, not exactly; they never fall below 0.
  3. What is forgotten is computed again when it is asked for: no answer depends on it.

Not here: when there is too much, and what is forgotten then (`remembered_plans`, `inventory`).
"""

from __future__ import annotations

from typing import Final, TypeAlias

SlotKey: TypeAlias = int
"""Names what a slot accepts; equal for slots that accept the same devices."""

ENTRIES_MAX: Final = 500_000
"""About 150 MB."""
ENTRY_WORDS: Final = 40
"""An entry, in words of 8 bytes."""


class EntryCount:
    """All entries of one inventory, those of answers included."""

    def __init__(self) -> None:
        self.entries = 0


class SlotRecord:
    """How much is kept for the slots that accept the same devices.

    Args:
        derived: How many attributes their request derives; each is kept with the masks and with the candidates.

    Attributes:
        key: Names them.
        users: Plans that have such a slot, unfinished ones included.
        masks, candidates, slices: Entries with pools, with nodes, and of counted slices.
    """

    def __init__(self, key: SlotKey, total: EntryCount, derived: int = 0) -> None:
        self.key: Final = key
        self._each: Final = 1 + derived
        self._total: Final = total
        self.users = 0
        self.masks = 0
        self.candidates = 0
        self.slices = 0

    def count_mask(self) -> None:
        self.masks += self._each
        self._total.entries += self._each

    def count_candidates(self) -> None:
        self.candidates += self._each
        self._total.entries += self._each

    def count_slice(self) -> None:
        self.slices += 1
        self._total.entries += 1

    def discount_mask(self) -> None:
        if self.masks:
            self.masks -= self._each
            self._total.entries -= self._each

    def discount_candidates(self, all_of_them: bool = False) -> None:
        gone = self.candidates if all_of_them else min(self._each, self.candidates)
        self.candidates -= gone
        self._total.entries -= gone

    @property
    def entries(self) -> int:
        return self.masks + self.candidates + self.slices

    def discount_all(self) -> None:
        self._total.entries -= self.entries
        self.masks = self.candidates = self.slices = 0
