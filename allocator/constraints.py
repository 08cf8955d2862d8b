"""matchAttribute and distinctAttribute as masks of devices that may still be added.

An `AttributeIndex` answers for one attribute of a node's devices: the value of a device, and the mask of
devices with a value. A constraint's state says which candidates it leaves (`allowed`), takes note of a
device (`add`, through the journal) and describes itself (`state`).

Contract: `add` is called with a device that `allowed` leaves, and undone in reverse order.

Values are scalars, unless `lists` is on (DRAListTypeAttributes): then a device has a set of elements, match
means a common element of all devices, distinct means no common element of any two.

Source: `matchAttributeConstraint` and constraint.go of structured/internal/incubating and experimental
v0.36.3. Differs on purpose: distinct remembers every device (upstream one per request, so a, b, a could
pass), and undoing restores the running intersection of lists.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, TypeAlias

from allocator.journal import Journal
from allocator.masks import positions_of
from allocator.model import Attribute, Constraint, Device
from allocator.node_pools import NodePools
from allocator.pools import PoolView

Value: TypeAlias = Hashable
"""(kind, value) of a scalar or list element."""

_SCALAR_KINDS: Final = ("string", "int", "bool", "version")
_MASKS_MAX: Final = 1024
"""Masks kept per attribute and node; a device of a large inventory can have a value of its own."""

_CHANGES_MAX: Final = 8
"""So many changed candidates are counted again one by one; more only where there are many pools."""

_KIND_OF_LIST: Final = {"strings": "string", "ints": "int", "bools": "bool", "versions": "version"}


def lookup_attribute(device: Device, name: str) -> Attribute | None:
    """A device's attribute by fully qualified name; the driver's own domain may be left out by the driver."""
    attribute = device.attributes.get(name)
    if attribute is not None:
        return attribute
    domain, slash, bare = name.partition("/")
    if not slash or domain != device.id.driver:
        return None
    return device.attributes.get(bare)


class _ViewIndex:
    """Values of one attribute in one pool."""

    __slots__ = ("masks", "present", "unknown", "values")

    def __init__(self, view: PoolView, name: str, lists: bool) -> None:
        self.values: Final[dict[int, frozenset[Value]]] = {}
        self.masks: Final[dict[Value, int]] = {}
        self.present = 0
        self.unknown = 0
        for index, device in enumerate(view.devices):
            attribute = lookup_attribute(device, name)
            if attribute is None:
                continue
            bit = 1 << index
            self.present |= bit
            values = _values(attribute, lists)
            if not values:
                self.unknown |= bit
                continue
            self.values[index] = values
            for value in values:
                self.masks[value] = self.masks.get(value, 0) | bit


def _values(attribute: Attribute, lists: bool) -> frozenset[Value]:
    if attribute.kind in _SCALAR_KINDS:
        return frozenset(((attribute.kind, attribute.value),))
    kind = _KIND_OF_LIST.get(attribute.kind)
    if lists and kind is not None and isinstance(attribute.value, tuple):
        return frozenset((kind, element) for element in attribute.value)
    return frozenset()


_NOTHING: Final[frozenset[Value]] = frozenset()


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
    """

    __slots__ = ("_groups", "_lists", "_masks", "_numbers", "_pools", "_seen_in", "_views", "present", "unknown")

    def __init__(self, pools: NodePools, name: str, lists: bool) -> None:
        self._pools: Final = pools
        self._lists: Final = lists
        self._views: Final[list[tuple[_ViewIndex, int]]] = []
        self._masks: Final[dict[Value, int]] = {}
        self._numbers: Final[dict[Value, int]] = {}
        present = unknown = 0
        for view, start in pools.usable:
            key = ("attribute", name, lists)
            index = view.derived.get(key)
            if index is None:
                index = view.derived[key] = _ViewIndex(view, name, lists)
            self._views.append((index, start))
            present |= index.present << start
            unknown |= index.unknown << start
        self.present: Final = present
        self.unknown: Final = unknown
        self._seen_in: dict[Value, list[int]] | None = None
        self._groups: Final[dict[int, _LargeGroups]] = {}

    def values_of(self, position: int) -> frozenset[Value]:
        """The values of a device: one, several with lists, none when unknown."""
        number, _, index = self._pools.locate(position)
        return self._views[number][0].values.get(index, _NOTHING)

    def mask_of(self, value: Value) -> int:
        """Devices with this value."""
        mask = self._masks.get(value)
        if mask is None:
            mask = 0
            for number in self._pools_with(value):
                index, start = self._views[number]
                mask |= index.masks[value] << start
            if len(self._masks) >= _MASKS_MAX:
                self._masks.clear()
            self._masks[value] = mask
        return mask

    def _pools_with(self, value: Value) -> Sequence[int]:
        """Numbers of the pools that have a device with this value."""
        if self._seen_in is None:
            self._seen_in = {}
            for number, (index, _) in enumerate(self._views):
                for known in index.masks:
                    self._seen_in.setdefault(known, []).append(number)
        return self._seen_in.get(value, ())

    def alike(self, position: int) -> int:
        """Devices that have the same values as this one, or as it none; and like it the attribute or not."""
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
        brought up to date where the candidates are nearly the same.
        """
        if need <= 1:
            return candidates & self.present
        groups = self._groups.get(need)
        if groups is None:
            groups = self._groups[need] = _LargeGroups()
        candidates &= self.present
        changed = groups.candidates ^ candidates
        if changed:
            if changed.bit_count() > max(_CHANGES_MAX, len(self._views) // 8):
                self._count_groups(groups, candidates, need)
            else:
                self._recount_groups(groups, candidates, need, changed)
            groups.candidates = candidates
        return groups.result

    def _count_groups(self, groups: _LargeGroups, candidates: int, need: int) -> None:
        groups.counts.clear()
        counts = groups.counts
        parts: list[tuple[_ViewIndex, int, int]] = []
        for index, start in self._views:
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

    def values_among(self, candidates: int) -> int:
        """The candidates' values as a mask, each value a bit of its own; one more bit for all unknown ones."""
        mask = 1 if candidates & self.unknown else 0
        for index, start in self._views:
            part = candidates >> start & index.present
            if part:
                for value, devices in index.masks.items():
                    if devices & part:
                        mask |= 2 << self._numbers.setdefault(value, len(self._numbers))
        return mask


def attribute_index(pools: NodePools, name: str, lists: bool) -> AttributeIndex:
    """The index, made once per node's pools."""
    key = ("attribute", name, lists)
    index = pools.derived.get(key)
    if index is None:
        index = pools.derived[key] = AttributeIndex(pools, name, lists)
    assert isinstance(index, AttributeIndex)
    return index


class MatchState:
    """All devices must have one value (with lists: one element) in common."""

    __slots__ = ("_count", "_lists", "_values", "index")

    is_match: Final = True

    def __init__(self, index: AttributeIndex, lists: bool) -> None:
        self.index: Final = index
        self._lists: Final = lists
        self._count = 0
        self._values = _NOTHING

    @property
    def is_fixed(self) -> bool:
        return self._count > 0

    def allowed(self, candidates: int) -> int:
        if self._count == 0:
            # Without lists a value of unknown kind passes as the only device.
            return candidates & self.index.present & (~self.index.unknown if self._lists else -1)
        return candidates & self.index.mask_of_any(self._values)

    def add(self, position: int, journal: Journal) -> None:
        change = (self._count, self._values)
        values = self.index.values_of(position)
        self._values = values if self._count == 0 else self._values & values
        self._count += 1
        journal.record(self, change)

    def undo(self, change: Any) -> None:
        self._count, self._values = change

    def state(self) -> Hashable:
        return self._values if self._count else None

    def accepts_all(self, mask: int) -> bool:
        """Whether these devices, and no others, satisfy the constraint; may say no when it is hard to tell."""
        first = (mask & -mask).bit_length() - 1
        values = self.index.values_of(first)
        return len(values) == 1 and not mask & ~self.index.mask_of_any(values)


class DistinctState:
    """No two devices may have a value (with lists: an element) in common."""

    __slots__ = ("_count", "_lists", "_taken", "_unknown_first", "index")

    is_match: Final = False
    is_fixed: Final = False

    def __init__(self, index: AttributeIndex, lists: bool, is_137: bool) -> None:
        self.index: Final = index
        self._count = 0
        self._taken = 0
        self._unknown_first: Final = not (lists and is_137)

    def allowed(self, candidates: int) -> int:
        mask = candidates & self.index.present & ~self._taken
        # A value of unknown kind passes as the first device only.
        if self._count or not self._unknown_first:
            mask &= ~self.index.unknown
        return mask

    def add(self, position: int, journal: Journal) -> None:
        change = (self._count, self._taken)
        self._taken |= self.index.mask_of_any(self.index.values_of(position))
        self._count += 1
        journal.record(self, change)

    def undo(self, change: Any) -> None:
        self._count, self._taken = change

    def state(self) -> Hashable:
        return (self._taken, self._count > 0) if self._count else None

    def accepts_all(self, mask: int) -> bool:
        """As for MatchState."""
        taken = 0
        for position in positions_of(mask):
            values = self.index.values_of(position)
            if not values or taken >> position & 1:
                return False
            taken |= self.index.mask_of_any(values)
        return True


ConstraintState: TypeAlias = MatchState | DistinctState


def in_reach(state: ConstraintState, candidates: int, need: int) -> int:
    """The candidates without those that cannot be among `need` devices which satisfy the constraint together.

    Args:
        candidates: Devices that `state.allowed` leaves.
    """
    if state.is_match:
        return candidates if state.is_fixed else state.index.in_large_groups(candidates, need)
    return candidates if need <= 1 or state.index.values_among(candidates).bit_count() >= need else 0


def constraint_state(constraint: Constraint, pools: NodePools, *, lists: bool, is_137: bool) -> ConstraintState:
    """The state of a constraint that counts no device yet."""
    if constraint.match_attribute is not None:
        return MatchState(attribute_index(pools, constraint.match_attribute, lists), lists)
    assert constraint.distinct_attribute is not None
    return DistinctState(attribute_index(pools, constraint.distinct_attribute, lists), lists, is_137)
