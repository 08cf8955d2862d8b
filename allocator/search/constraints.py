"""matchAttribute and distinctAttribute as masks of devices that may still be added.

A constraint's state says which candidates it leaves (`allowed`), takes note of a
device (`add`, through the journal) and describes itself (`state`).

Contract: `add` is called with a device that `allowed` leaves, and undone in reverse order.

With lists (`attribute_index`) match means a common element of all devices, distinct no common element of any two.

Source: `matchAttributeConstraint` and constraint.go of structured/internal/incubating and experimental
v0.36.3. Differs on purpose: distinct remembers every device (upstream one per request, so a, b, a could
pass), and undoing restores the running intersection of lists.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeAlias

from allocator.pools.attribute_index import NOTHING, AttributeIndex
from allocator.pools.node_pools import NodePools
from allocator.values.features import Features
from allocator.values.journal import Journal
from allocator.values.masks import positions_of
from allocator.values.model import Constraint


class MatchState:
    """All devices must have one value (with lists: one element) in common."""

    __slots__ = ("_count", "_lists", "_values", "index")

    is_match: Final = True

    def __init__(self, index: AttributeIndex, lists: bool) -> None:
        self.index: Final = index
        self._lists: Final = lists
        self._count = 0
        self._values = NOTHING

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

    def __init__(self, index: AttributeIndex, lists: bool, has_137_semantics: bool) -> None:
        self.index: Final = index
        self._count = 0
        self._taken = 0
        self._unknown_first: Final = not (lists and has_137_semantics)

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


def constraint_state(constraint: Constraint, pools: NodePools, features: Features) -> ConstraintState:
    """The state of a constraint that counts no device yet."""
    lists = features.list_type_attributes
    if constraint.match_attribute is not None:
        return MatchState(pools.attribute(constraint.match_attribute), lists)
    assert constraint.distinct_attribute is not None
    return DistinctState(pools.attribute(constraint.distinct_attribute), lists, features.has_137_semantics)
