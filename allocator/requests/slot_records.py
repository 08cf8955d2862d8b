"""How much is kept for each slot, so that it can be bounded by size.

A slot's verdicts are kept where they are used: masks with the pools, candidates with the nodes' pools, counted slices
and answers apart. Here they are counted.

Rules of this module
  1. An entry is one answer, or what is kept for one pool, node or slice: `ENTRY_BYTES` on average.
  2. Counts follow what is dropped for other reasons (a slice changes) closely, not exactly; they never fall below 0.
  3. What is forgotten is computed again when it is asked for: no answer depends on it.

Not here: when there is too much (`allocator.values.remembered`), and how it is forgotten (`remembered_plans`).
"""

from __future__ import annotations

from typing import Final, TypeAlias

SlotKey: TypeAlias = int
"""Names what a slot accepts; equal for slots that accept the same devices."""

ENTRY_BYTES: Final = 160


class SlotRecord:
    """How much is kept for the slots that accept the same devices.

    Args:
        derived: How many attributes their request derives; each is kept with the masks and with the candidates.

    Attributes:
        key: Names them.
        users: Plans that have such a slot, unfinished ones included.
        masks, candidates, slices: Entries with pools, with nodes, and of counted slices.
    """

    def __init__(self, key: SlotKey, derived: int = 0) -> None:
        self.key: Final = key
        self._each: Final = 1 + derived
        self.users = 0
        self.masks = 0
        self.candidates = 0
        self.slices = 0

    def count_mask(self) -> None:
        self.masks += self._each

    def count_candidates(self) -> None:
        self.candidates += self._each

    def count_slice(self) -> None:
        self.slices += 1

    def discount_mask(self) -> None:
        self.masks = max(0, self.masks - self._each)

    def discount_candidates(self, all_of_them: bool = False) -> None:
        self.candidates = 0 if all_of_them else max(0, self.candidates - self._each)

    @property
    def entries(self) -> int:
        return self.masks + self.candidates + self.slices
