"""Values of one attribute over a node's devices, as masks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from allocator.values.features import Features
from allocator.values.masks import positions_of
from allocator.values.pool_attribute import NOTHING, PoolAttribute, Value

_MASKS_MAX: Final = 1024
"""Masks kept per attribute and node; a device of a large inventory can have a value of its own.

Without them a pod takes 6 % more CPU or more, without `_LargeGroups` 3 % (benchmarks.deciding --workload numa-four
--everywhere)."""

_CHANGES_MAX: Final = 8
"""Up to so many changed candidates a count is corrected; up to an eighth of the pools where that is more."""


class _LargeGroups:
    """What `in_large_groups` found last for one need.

    Attributes:
        candidates: Those it was asked about; all have the attribute.
        counts: How many of them have each value.
        result: Those with a value of enough of them.
    """

    __slots__ = ("candidates", "counts", "result")

    def __init__(self) -> None:
        self.candidates = 0
        self.counts: Final[dict[Value, int]] = {}
        self.result = 0


class AttributeIndex:
    """Values of one attribute over a node's devices.

    Attributes:
        present: Devices that have the attribute.
        unknown: Those whose value has no kind this version can compare.
        failed: Those for which it fails (`PoolAttribute`).
    """

    def __init__(self, parts: Sequence[tuple[PoolAttribute, int]], features: Features) -> None:
        """`parts`: of each pool, and the position of its first device."""
        self._lists: Final = features.list_type_attributes
        self._parts: Final = parts
        self._starts: Final = [start for _, start in parts]
        self._masks: Final[dict[Value, int]] = {}
        present = unknown = failed = 0
        for index, start in parts:
            present |= index.present << start
            unknown |= index.unknown << start
            failed |= index.failed << start
        self.present: Final = present
        self.unknown: Final = unknown
        self.failed: Final = failed
        self._seen_in: dict[Value, list[int]] | None = None
        self._groups: Final[dict[int, _LargeGroups]] = {}

    def values_of(self, position: int) -> frozenset[Value]:
        """The values of a device: one, several with lists, none when unknown."""
        index, start = self._parts[bisect_right(self._starts, position) - 1]
        return index.values.get(position - start, NOTHING)

    def mask_of(self, value: Value) -> int:
        """Devices with this value."""
        mask = self._masks.get(value)
        if mask is None:
            mask = 0
            for number in self._pools_with(value):
                index, start = self._parts[number]
                mask |= index.masks[value] << start
            if len(self._masks) >= _MASKS_MAX:
                self._masks.clear()
            self._masks[value] = mask
        return mask

    def _pools_with(self, value: Value) -> Sequence[int]:
        """Numbers of the pools that have a device with this value."""
        if self._seen_in is None:
            self._seen_in = {}
            for number, (index, _) in enumerate(self._parts):
                for known in index.masks:
                    self._seen_in.setdefault(known, []).append(number)
        return self._seen_in.get(value, ())

    def alike(self, position: int) -> int:
        """Devices with the same values; for a device without any, those that have or lack the attribute as it does."""
        values = self.values_of(position)
        if not values:
            return self.unknown if self.unknown >> position & 1 else ~self.present
        mask = -1
        for value in values:
            mask &= self.mask_of(value)
        if self._lists:
            for other in positions_of(mask):
                if self.values_of(other) != values:
                    mask ^= 1 << other
        return mask

    def mask_of_any(self, values: frozenset[Value]) -> int:
        """Devices that share a value with `values`."""
        mask = 0
        for value in values:
            mask |= self.mask_of(value)
        return mask

    def in_large_groups(self, candidates: int, need: int) -> int:
        """The candidates that share a value with at least `need - 1` others.

        Counted by value: with thousands of pools a mask per value would be too much. The last count is kept, and
        corrected where only a few candidates have changed.
        """
        if need <= 1:
            return candidates & self.present
        groups = self._groups.get(need)
        if groups is None:
            groups = self._groups[need] = _LargeGroups()
        candidates &= self.present
        changed = groups.candidates ^ candidates
        if changed:
            if changed.bit_count() > max(_CHANGES_MAX, len(self._parts) // 8):
                self._count_groups(groups, candidates, need)
            else:
                self._recount_groups(groups, candidates, need, changed)
            groups.candidates = candidates
        return groups.result

    def _count_groups(self, groups: _LargeGroups, candidates: int, need: int) -> None:
        groups.counts.clear()
        counts = groups.counts
        parts: list[tuple[PoolAttribute, int, int]] = []
        for index, start in self._parts:
            part = candidates >> start & index.present
            if part:
                parts.append((index, start, part))
                for value, mask in index.masks.items():
                    count = (mask & part).bit_count()
                    if count:
                        counts[value] = counts.get(value, 0) + count
        large = {value for value, count in counts.items() if count >= need}
        result = 0
        for index, start, part in parts:
            enough = 0
            for value, mask in index.masks.items():
                if value in large:
                    enough |= mask & part
            result |= enough << start
        groups.result = result

    def _recount_groups(self, groups: _LargeGroups, candidates: int, need: int, changed: int) -> None:
        """Only groups of the changed candidates can have become large or small."""
        counts = groups.counts
        before: dict[Value, int] = {}
        for position in positions_of(changed):
            step = 1 if candidates >> position & 1 else -1
            for value in self.values_of(position):
                count = counts.get(value, 0)
                before.setdefault(value, count)
                counts[value] = count + step
        doubtful = changed
        for value, count in before.items():
            if (count >= need) != (counts[value] >= need):
                doubtful |= self.mask_of(value)
        result = groups.result & ~doubtful
        for position in positions_of(doubtful & candidates):
            if any(counts[value] >= need for value in self.values_of(position)):
                result |= 1 << position
        groups.result = result

    def values_among(self, candidates: int, numbers: dict[Value, int]) -> int:
        """The candidates' values as a mask, each value a bit of its own; one more bit for all unknown ones.

        Args:
            numbers: Of the bits; new values are added.
        """
        mask = 1 if candidates & self.unknown else 0
        for index, start in self._parts:
            part = candidates >> start & index.present
            if part:
                for value, devices in index.masks.items():
                    if devices & part:
                        mask |= 2 << numbers.setdefault(value, len(numbers))
        return mask
