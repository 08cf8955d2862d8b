"""One call's question, prepared for the search: candidates of each slot given what is in use.

Everything here is fixed during a search. What depends only on the node's pools is kept with them (`node_pools`), what
depends on their entries in the ledger too (`node_use`), so a further call for the same node costs a few look-ups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from allocator.pools.attribute_index import AttributeIndex
from allocator.pools.in_use import Ledger
from allocator.pools.node_pools import NodePools
from allocator.pools.pools import PoolView
from allocator.requests.capacity import NOTHING, CapacityError, Consumption
from allocator.requests.requests import Plan, Slot, claim_error, count_problem
from allocator.requests.selectors import Failure
from allocator.requests.slot_masks import SlotMask
from allocator.values.masks import positions_of
from allocator.values.model import AllocationError, Claim


class Problem:
    """The question.

    Attributes:
        derived: By slot index: the attributes that the slot's request derives.
        usable: By slot index: devices that can be picked as long as nothing else is picked.
        reachable: By slot index: the devices that the search looks at; usable, failed and unknown.
        doubtful: By slot index: failed and unknown devices that are not in use.
        listed: By slot index: the devices of an All slot, in order.
        sharing: Devices of which allocations already hold shares.
    """

    def __init__(self, claims: Sequence[Claim], plan: Plan, pools: NodePools, in_use: Ledger) -> None:
        self.claims = claims  # a search that goes on later does so for another pod of the same plan
        self.plan: Final = plan
        self.pools: Final = pools
        self.in_use: Final = in_use
        self.features: Final = plan.features
        node_use = pools.use_of(in_use)
        self._node_use: Final = node_use
        self.used: Final = node_use.used
        dedicated = node_use.dedicated
        sharing = node_use.sharing
        self.sharing: Final = sharing
        self.listed: Final[dict[int, tuple[int, ...]]] = {}
        if not plan.is_exact:
            self._check()
        self.derived: Final[dict[int, Mapping[str, AttributeIndex]]] = {}
        self.usable: Final[list[int]] = []
        self.reachable: Final[list[int]] = []
        self.doubtful: Final[list[int]] = []
        for slot in plan.slots:
            candidates = pools.candidates_for(slot)
            usable = candidates.usable
            doubtful = candidates.failed | candidates.unknown
            if not slot.is_admin:
                usable &= ~dedicated
                doubtful &= ~dedicated
            # Kubernetes 1.37 includes full devices in an All request; the search rejects them later.
            if sharing and not (slot.is_all and self.features.has_137_semantics):
                usable &= ~self._exhausted(slot)
            if candidates.derived:
                self.derived[slot.index] = candidates.derived
            if slot.constraints and not slot.is_all:
                failed = usable & self.incomparable(slot)
                usable, doubtful = usable ^ failed, doubtful | failed
            self.usable.append(usable)
            self.doubtful.append(0 if slot.is_all else doubtful)
            self.reachable.append(usable | doubtful)

    def derived_as(self, name: str) -> dict[int, AttributeIndex]:
        """By slot index the values of an attribute, of slots whose request derives it."""
        return {number: by_name[name] for number, by_name in self.derived.items() if name in by_name}

    def compared(self, slot: Slot) -> Iterator[tuple[str, AttributeIndex]]:
        """The attributes that the slot's constraints compare, with what they see of the slot's devices."""
        derived = self.derived.get(slot.index, {})
        for number in slot.constraints:
            name = self.plan.claims[slot.claim].constraints[number].attribute
            yield name, derived[name] if name in derived else self.pools.attribute(name)

    def incomparable(self, slot: Slot) -> int:
        """Devices of which a constraint of the slot asks for a value that cannot be had, or not be compared."""
        mask = 0
        for _, index in self.compared(slot):
            mask |= index.failed
        return mask

    def look_ahead(self) -> None:
        """Work out now what a search asks for in the middle of a move, where it cannot pause: consumption of shares.

        Raises:
            PausedError: not now.
        """
        if self.pools.shareable | self.sharing:
            for slot in self.plan.slots:
                if self.doubtful[slot.index]:
                    for view, _ in self.pools.usable:
                        view.mask_for(slot)

    def _exhausted(self, slot: Slot) -> int:
        """Devices whose recorded consumption leaves too little for the slot."""
        return self._node_use.exhausted(slot, self.pools.usable) if self.features.consumable_capacity else 0

    # --- checks before the search -----------------------------------------------------------------------

    def _check(self) -> None:
        """Do the plan's checks in order; raises AllocationError."""
        for claim_plan in self.plan.claims:
            claim = self.claims[claim_plan.index]
            for check in claim_plan.checks:
                if isinstance(check, Slot):
                    self.listed[check.index] = self._list(check, claim)
                    continue
                problem = check
                if problem is None:
                    problem = count_problem(
                        [
                            (request.name, [self.count(slot) for slot in request.slots])
                            for request in claim_plan.requests
                            if request.slots
                            and all(not slot.is_all or slot.index in self.listed for slot in request.slots)
                        ],
                        self.features,
                    )
                if problem:
                    raise claim_error(claim, problem)

    def count(self, slot: Slot) -> int:
        """How many devices the slot needs."""
        return len(self.listed[slot.index]) if slot.is_all else slot.count

    def _list(self, slot: Slot, claim: Claim) -> tuple[int, ...]:
        """All devices of the node that match: a fixed list, before anything is picked."""
        pools = self.pools
        for view in pools.pools:
            if not view.is_usable:
                state = "being updated" if view.is_incomplete else "invalid"
                error = claim_error(
                    claim,
                    f", request {slot.name}: asks for all devices, but resource pool {view.id} is currently {state}",
                )
                error.is_of_node = True
                raise error
            number = pools.number_of(view.id)
            if number is not None:
                self._evaluate_all(slot, claim, number)
        fits = pools.candidates_for(slot).fits
        if not self.features.has_137_semantics:
            fits &= ~self._exhausted(slot)
        return tuple(positions_of(fits))

    def _evaluate_all(self, slot: Slot, claim: Claim, number: int) -> None:
        """Evaluate a pool's devices in order; raises the first failure."""
        view, start = self.pools.usable[number]
        mask = view.mask_for(slot)
        undecided = [position for position in self.pools.undecided if start <= position < start + len(view.devices)]
        if not (mask.failed or undecided):
            return
        for index in range(len(view.devices)):
            bit = 1 << index
            if mask.failed & bit or (start + index in undecided and mask.selectable & bit):
                raise self.failure(slot, start + index)

    # --- single devices ---------------------------------------------------------------------------------

    def mask_at(self, slot: Slot, position: int) -> tuple[SlotMask, PoolView, int]:
        """The slot's verdicts on the device's pool, the pool, and the device's index in it."""
        _, view, index = self.pools.locate(position)
        return view.mask_for(slot), view, index

    def is_candidate(self, slot: Slot, position: int) -> bool:
        """Decide a doubtful device that the search has reached. Raises AllocationError when it fails."""
        mask, view, index = self.mask_at(slot, position)
        if mask.unknown >> index & 1:
            late = mask.decide_late(slot, view.devices[index], index)
            failed, selectable, usable = late.failure is not None, late.is_selectable, late.is_usable
        else:
            failed, selectable, usable = (
                bool(verdicts >> index & 1) for verdicts in (mask.failed, mask.selectable, mask.usable)
            )
        bit = 1 << position
        if failed or (position in self.pools.undecided and selectable):
            raise self.failure(slot, position)
        if not usable or (self.pools.elsewhere | self.pools.inoperable) & bit:
            return False
        return not bit & self.sharing or self.has_room(slot, position)

    def failure(self, slot: Slot, position: int) -> AllocationError:
        """The error for a device that a slot cannot decide."""
        mask, view, index = self.mask_at(slot, position)
        claim = self.claims[slot.claim]
        device = view.devices[index]
        failure = mask.failures.get(index)
        if failure is None and position in self.pools.undecided:
            return AllocationError(self.pools.undecided[position])
        if failure is None:
            names = (name for name, one in self.compared(slot) if one.failed & 1 << position)
            return self.attribute_failure(slot, position, next(names))
        if isinstance(failure, CapacityError):
            where = device.name if slot.is_all else device.id
            return claim_error(claim, f", request {slot.name}: checking capacity for device {where}: {failure}")
        return AllocationError(failure.message(slot.device_class.name, claim, device.id))

    def attribute_failure(self, slot: Slot, position: int, name: str) -> AllocationError:
        """The error for a device whose value of an attribute a constraint cannot have, or not compare."""
        device = self.pools.device(position)
        found = slot.derivations[name].value(device) if name in slot.derivations else None
        if isinstance(found, Failure):
            return AllocationError(found.message_of_attribute(name, device.id))
        text = f", request {slot.name}: device {device.id}: unsupported attribute value for {name}"
        return claim_error(self.claims[slot.claim], text)

    def consumption(self, slot: Slot, position: int) -> Consumption:
        """What a share for the slot consumes of the device."""
        mask, _, index = self.mask_at(slot, position)
        return mask.consumption.get(index, NOTHING)

    def consumed(self, position: int) -> Mapping[str, int]:
        """What recorded shares consume of the device."""
        number, _, index = self.pools.locate(position)
        use = self.used.get(number)
        return use.consumed.get(index, {}) if use is not None else {}

    def has_room(self, slot: Slot, position: int) -> bool:
        """Whether what shares consume of a device leaves what the slot wants."""
        return not self.features.consumable_capacity or self.consumption(slot, position).fits(self.consumed(position))
