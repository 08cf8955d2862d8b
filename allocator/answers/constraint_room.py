"""What constraints leave of a node's devices, each constraint by itself, before anything is picked.

A device that is left out here is in no solution; whether there is one is the search's to say.

Not here: the constraint's state during a search (`search.constraints`).

Cost: for each constraint O(candidates) for each kind of slot that it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from allocator.pools.attribute_index import AttributeIndex
from allocator.requests.requests import RequestPlan, Slot
from allocator.search.constraints import constraint_state
from allocator.search.matching import can_match
from allocator.search.problem import Problem
from allocator.values.masks import positions_of
from allocator.values.model import Constraint
from allocator.values.pool_attribute import Value


class Counted(Struct, frozen=True):
    """What one slot under a constraint could be given.

    Attributes:
        needed: How many devices.
        candidates, present: Masks of its devices, and of those that have the attribute.
        counts: How many of them have each value.
        index: The values of all of the slot's devices, published or derived.
    """

    slot: Slot
    needed: int
    candidates: int
    present: int
    counts: Mapping[Value, int]
    index: AttributeIndex


class Unmet(Struct, frozen=True):
    """A constraint that no devices satisfy, whichever are picked, or not as often as it is asked for.

    Attributes:
        claim: The claim's name with its namespace.
        index: Among the claim's constraints.
        counted: Of each request that it counts and that has enough devices, the slot with most of them.
        asked, possible: How many such groups of devices the pod asks for with constraints like this one, and how many
            there are at most.
    """

    claim: str
    claim_index: int
    index: int
    constraint: Constraint
    counted: tuple[Counted, ...]
    asked: int = 1
    possible: int = 0

    @property
    def attribute(self) -> str:
        return self.constraint.attribute

    @property
    def is_match(self) -> bool:
        return self.constraint.match_attribute is not None

    @property
    def needed(self) -> int:
        """How many devices must share a value, or differ in it."""
        return sum(one.needed for one in self.counted)


class ConstraintRoom:
    """What the constraints of a question leave.

    Attributes:
        room: By slot index: masks of devices.
        unmet: Constraints that leave some request too few.
    """

    def __init__(self, problem: Problem, room: Sequence[int]) -> None:
        self._problem: Final = problem
        self._before: Final = room
        self._counts: Final[dict[tuple[AttributeIndex, int], Mapping[Value, int]]] = {}
        self.room: Final = list(room)
        unmet: list[Unmet] = []
        groups: dict[object, list[Unmet]] = {}
        for claim in problem.plan.claims:
            for index, constraint in enumerate(claim.constraints):
                requests = [one for one in claim.requests if any(index in slot.constraints for slot in one.slots)]
                if not requests:
                    continue
                counted = tuple(
                    [self._counted(one, index, constraint) for one in requests if self._imposes(one, index)]
                )
                found = Unmet(str(problem.claims[claim.index]), claim.index, index, constraint, counted)
                if not self._narrow(requests, found):
                    unmet.append(found)
                elif found.is_match and found.needed > 1 and all(len(one.slots) == 1 for one in requests):
                    kinds = sorted((one.slot.key, one.needed, one.candidates) for one in counted)
                    groups.setdefault((found.attribute, tuple(kinds)), []).append(found)
        self.unmet: Final = (*unmet, *self._too_few(groups.values()))

    def _need(self, slot: Slot) -> int:
        return max(1, self._problem.count(slot))

    def _has_enough(self, slot: Slot) -> bool:
        return self._before[slot.index].bit_count() >= self._need(slot)

    def _imposes(self, request: RequestPlan, index: int) -> bool:
        """Whether devices of the request are under the constraint whichever alternative is taken."""
        able = [slot for slot in request.slots if self._has_enough(slot)]
        return bool(able) and all(index in slot.constraints for slot in able)

    def _counted(self, request: RequestPlan, index: int, constraint: Constraint) -> Counted:
        return max(
            [self._of_slot(slot, constraint) for slot in request.slots if self._has_enough(slot)],
            key=lambda one: (one.present.bit_count() >= one.needed, -one.needed),
        )

    def _of_slot(self, slot: Slot, constraint: Constraint) -> Counted:
        problem, candidates = self._problem, self._before[slot.index]
        state = constraint_state(constraint, problem)
        index, present = state.index_of(slot), state.allowed(slot, candidates)
        known = self._counts.get((index, present))
        if known is None:
            known = self._counts[index, present] = _count_values(index, present)
        return Counted(slot, self._need(slot), candidates, present, known, index)

    def _narrow(self, requests: Sequence[RequestPlan], unmet: Unmet) -> bool:
        """Take away what the constraint leaves out; whether each of its requests still has enough."""
        constraint, index = unmet.constraint, unmet.index
        slots = [slot for one in requests for slot in one.slots if index in slot.constraints and self._has_enough(slot)]
        of_slot = {slot.index: self._of_slot(slot, constraint) for slot in slots}
        if unmet.is_match:
            left = dict(self._matching(requests, index, of_slot))
        else:
            left = self._differing(requests, index, of_slot)
        for number, mask in left.items():
            self.room[number] &= mask
        return all(
            any(
                left.get(slot.index, self._before[slot.index]).bit_count() >= self._need(slot)
                for slot in one.slots
                if self._has_enough(slot)
            )
            for one in requests
            if self._imposes(one, index)
        )

    def _matching(
        self, requests: Sequence[RequestPlan], index: int, of_slot: Mapping[int, Counted]
    ) -> Iterator[tuple[int, int]]:
        """By slot the devices with a value of which every request has enough."""
        served = {
            number: {value for value, count in one.counts.items() if count >= one.needed}
            for number, one in of_slot.items()
        }
        by_request = {
            one.index: set[Value]().union(*[served[slot.index] for slot in one.slots if slot.index in served])
            for one in requests
            if self._imposes(one, index)
        }
        for number, one in of_slot.items():
            others = [values for request, values in by_request.items() if request != one.slot.request]
            if one.needed == 1 and not others:
                yield number, one.present  # a value of unknown kind passes, too
                continue
            values = served[number].intersection(*others)
            yield number, _with_values(one.index, one.present, values, len(one.counts))

    def _differing(self, requests: Sequence[RequestPlan], index: int, of_slot: Mapping[int, Counted]) -> dict[int, int]:
        """By slot the devices that have the attribute; none where there are too few values for all requests."""
        units = []
        numbers: dict[Value, int] = {}
        for request in requests:
            if not self._imposes(request, index):
                continue
            mask, least = 0, 0
            for slot in request.slots:
                if (one := of_slot.get(slot.index)) is not None:
                    mask |= one.index.values_among(one.present, numbers)
                    least = min(least or one.needed, one.needed)
            units.append((mask, least))
        if not can_match(units):
            return dict.fromkeys(of_slot, 0)
        left = {}
        for number, one in of_slot.items():
            values = one.index.values_among(one.present, numbers)
            left[number] = one.present if values.bit_count() >= one.needed else 0
        return left

    def _too_few(self, groups: Iterable[Sequence[Unmet]]) -> Iterator[Unmet]:
        """Groups of devices that are asked for more often than there are."""
        for alike in groups:
            first, asked = alike[0], len(alike)
            kinds: dict[tuple[AttributeIndex, int], tuple[Mapping[Value, int], int]] = {}
            for one in first.counted:
                counts, needed = kinds.get((one.index, one.present), (one.counts, 0))
                kinds[one.index, one.present] = counts, needed + one.needed
            is_shareable = any(one.present & self._problem.pools.shareable for one in first.counted)
            if asked == 1 or is_shareable or any(one.slot.is_admin for one in first.counted):
                continue
            values = set[Value]().union(*[counts for counts, _ in kinds.values()])
            possible = sum(min(counts.get(value, 0) // needed for counts, needed in kinds.values()) for value in values)
            if possible < asked:
                yield Unmet(
                    first.claim, first.claim_index, first.index, first.constraint, first.counted, asked, possible
                )


def _count_values(index: AttributeIndex, devices: int) -> dict[Value, int]:
    counts: dict[Value, int] = {}
    for position in positions_of(devices):
        for value in index.values_of(position):
            counts[value] = counts.get(value, 0) + 1
    return counts


def _with_values(index: AttributeIndex, devices: int, values: set[Value], known: int) -> int:
    """Those of the devices that have one of the values."""
    if not values:
        return 0
    if len(values) == known and not devices & index.unknown:
        return devices
    mask = 0
    for position in positions_of(devices):
        if not values.isdisjoint(index.values_of(position)):
            mask |= 1 << position
    return mask
