"""matchAttribute and distinctAttribute as masks of devices that may still be added.

A constraint's state says which candidates of a slot it leaves (`allowed`), takes note of a device that was picked for
a slot (`add`, through the journal) and describes itself (`state`). A slot whose request derives the attribute has
values of its own; where that is so, values of one slot's devices are looked for among those of the others.

Contract: `add` is called with a device that `allowed` leaves, and undone in reverse order.

With lists (`pool_attribute`) match means a common element of all devices, distinct no common element of any two.

Source: `matchAttributeConstraint`, `lookupAttribute` and constraint.go of structured/internal/incubating v0.36.3 and
experimental v0.37.2. Differs on purpose: distinct remembers every device (upstream one per request, so a, b, a could
pass), and undoing restores the running intersection of lists.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeAlias

from allocator.pools.attribute_index import AttributeIndex
from allocator.requests.requests import Slot
from allocator.search.problem import Problem
from allocator.values.journal import Journal
from allocator.values.masks import positions_of
from allocator.values.model import Constraint
from allocator.values.pool_attribute import NOTHING, Value


class _Indexed:
    """The values that a constraint compares.

    Attributes:
        index: As devices publish them.
        derived: By slot index, of slots that derive them.
    """

    __slots__ = ("_numbers", "derived", "index")

    def __init__(self, index: AttributeIndex, derived: Mapping[int, AttributeIndex]) -> None:
        self.index: Final = index
        self.derived: Final = derived
        self._numbers: Final[dict[Value, int]] = {}

    def index_of(self, slot: Slot) -> AttributeIndex:
        """What the constraint sees of the slot's devices."""
        return self.derived.get(slot.index, self.index) if self.derived else self.index

    def values_among(self, slot: Slot, candidates: int) -> int:
        """The values of a slot's candidates as a mask; equal values have one bit, whichever slot has them."""
        return self.index_of(slot).values_among(candidates, self._numbers)

    def alike(self, position: int) -> int:
        """Devices that the constraint cannot tell from this one, whichever slot they are for."""
        mask = self.index.alike(position)
        for index in self.derived.values():
            mask &= index.alike(position)
        return mask


class MatchState(_Indexed):
    """All devices must have one value (with lists: one element) in common."""

    __slots__ = ("_count", "_lists", "_values")

    is_match: Final = True

    def __init__(self, index: AttributeIndex, derived: Mapping[int, AttributeIndex], lists: bool) -> None:
        super().__init__(index, derived)
        self._lists: Final = lists
        self._count = 0
        self._values = NOTHING

    @property
    def is_fixed(self) -> bool:
        return self._count > 0

    def allowed(self, slot: Slot, candidates: int) -> int:
        index = self.index_of(slot)
        if self._count == 0:
            # Without lists a value of unknown kind passes as the only device.
            return candidates & index.present & (~index.unknown if self._lists else -1)
        return candidates & index.mask_of_any(self._values)

    def add(self, slot: Slot, position: int, journal: Journal) -> None:
        change = (self._count, self._values)
        values = self.index_of(slot).values_of(position)
        self._values = values if self._count == 0 else self._values & values
        self._count += 1
        journal.record(self, change)

    def undo(self, change: Any) -> None:
        self._count, self._values = change

    def state(self) -> Hashable:
        return self._values if self._count else None

    def accepts_all(self, slot: Slot, mask: int) -> bool:
        """Whether these devices, and no others, satisfy the constraint; may say no when it is hard to tell."""
        first = (mask & -mask).bit_length() - 1
        index = self.index_of(slot)
        values = index.values_of(first)
        return len(values) == 1 and not mask & ~index.mask_of_any(values)


class DistinctState(_Indexed):
    """No two devices may have a value (with lists: an element) in common."""

    __slots__ = ("_count", "_lists", "_taken", "_taken_derived", "_unknown_first")

    is_match: Final = False
    is_fixed: Final = False

    def __init__(
        self, index: AttributeIndex, derived: Mapping[int, AttributeIndex], lists: bool, has_137_semantics: bool
    ) -> None:
        super().__init__(index, derived)
        self._count = 0
        self._taken = 0
        self._taken_derived = dict.fromkeys(derived, 0)
        self._unknown_first: Final = not (lists and has_137_semantics)

    def allowed(self, slot: Slot, candidates: int) -> int:
        index = self.index_of(slot)
        mask = candidates & index.present & ~self._taken_derived.get(slot.index, self._taken)
        # A value of unknown kind passes as the first device only.
        if self._count or not self._unknown_first:
            mask &= ~index.unknown
        return mask

    def add(self, slot: Slot, position: int, journal: Journal) -> None:
        change = (self._count, self._taken, self._taken_derived)
        values = self.index_of(slot).values_of(position)
        self._taken |= self.index.mask_of_any(values)
        if self.derived:
            self._taken_derived = {
                number: taken | self.derived[number].mask_of_any(values)
                for number, taken in self._taken_derived.items()
            }
        self._count += 1
        journal.record(self, change)

    def undo(self, change: Any) -> None:
        self._count, self._taken, self._taken_derived = change

    def state(self) -> Hashable:
        return (self._taken, *self._taken_derived.values(), self._count > 0) if self._count else None

    def accepts_all(self, slot: Slot, mask: int) -> bool:
        """As for MatchState."""
        index = self.index_of(slot)
        taken = 0
        for position in positions_of(mask):
            values = index.values_of(position)
            if not values or taken >> position & 1:
                return False
            taken |= index.mask_of_any(values)
        return True


ConstraintState: TypeAlias = MatchState | DistinctState


def in_reach(state: ConstraintState, slot: Slot, candidates: int, need: int) -> int:
    """The candidates without those that cannot be among `need` devices which satisfy the constraint together.

    Args:
        candidates: Devices that `state.allowed` leaves.
    """
    if state.is_match:
        return candidates if state.is_fixed else state.index_of(slot).in_large_groups(candidates, need)
    return candidates if need <= 1 or state.values_among(slot, candidates).bit_count() >= need else 0


def constraint_state(constraint: Constraint, problem: Problem) -> ConstraintState:
    """The state of a constraint that counts no device yet."""
    features = problem.features
    lists = features.list_type_attributes
    name = constraint.attribute
    index, derived = problem.pools.attribute(name), problem.derived_as(name)
    if constraint.match_attribute is not None:
        return MatchState(index, derived, lists)
    return DistinctState(index, derived, lists, features.has_137_semantics)
