"""One call's question, prepared for the search: candidates of each slot given what is in use.

Everything here is fixed during a search. What depends only on the node's pools is kept with them, what
depends on a pool's entry in the ledger with that entry, so a further call for the same node costs a few
dictionary look-ups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from allocator.capacity import NOTHING, CapacityError, Consumption
from allocator.features import Features
from allocator.in_use import InUse, PoolUse
from allocator.masks import mask_of, positions_of
from allocator.model import AllocationError, Claim
from allocator.node_pools import NodePools
from allocator.pools import PoolView
from allocator.requests import Plan, Slot, SlotKey, claim_error, count_problem
from allocator.slot_masks import SlotMask, decide_late, slot_mask


class Candidates(NamedTuple):
    """Devices of a node by a slot's verdict, whatever is in use (see SlotMask)."""

    usable: int
    fits: int
    failed: int
    unknown: int


class StaticMasks(NamedTuple):
    """Devices of a node that need more than a bit when they are picked."""

    counting: int
    shareable: int


class ViewUse(NamedTuple):
    """What the ledger says about the devices of a pool view, as long as its entry is this one in this version."""

    dedicated: int
    sharing: int
    consumed: Mapping[int, Mapping[str, int]]
    entry: PoolUse | None
    version: int


_UNUSED: Final = ViewUse(0, 0, {}, None, 0)
GATHER_WORK: Final = 20
VIEW_WORK: Final = 10
"""Gathering a slot's candidates, and so much for each pool."""
_FEW_POOLS: Final = 4
_CHANGES_MAX: Final = 1024
_EXHAUSTED_MAX: Final = 64


def view_use(view: PoolView, use: PoolUse, features: Features) -> ViewUse:
    """Masks of a pool's devices that are held; kept until the pool's entry changes."""
    key = "use 1.37" if features.is_137 else "use"
    known = view.derived.get(key)
    if known is None or known.entry is not use or known.version != use.version:
        sharing = 0
        consumed: dict[int, Mapping[str, int]] = {}
        dedicated = mask_of(_held_positions(view, use.dedicated))
        # 1.36 forgets that a share without consumption is a share; 1.37 looks at the share ids, too.
        shared = {*use.consumers, *use.shares} if features.is_137 else use.consumers
        for index in _held_positions(view, shared) if shared else ():
            sharing |= 1 << index
            consumed[index] = use.consumed.get(view.devices[index].name, {})
        known = view.derived[key] = ViewUse(dedicated, sharing, consumed, use, use.version)
    assert isinstance(known, ViewUse)
    return known


def _held_positions(view: PoolView, held: Collection[str]) -> list[int]:
    """Positions of the held devices that the view shows; a pool may be far larger than a node's view of it."""
    if len(held) > len(view.devices):
        return [index for index, device in enumerate(view.devices) if device.name in held]
    return [index for name in held if (index := view.index_of(name)) is not None]


def gather_candidates(slot: Slot, pools: NodePools) -> Candidates:
    """The slot's verdicts on all devices of the node.

    Raises:
        PausedError: not all are known, and not to be found out now.
    """
    known = pools.derived.get(slot.key)
    if known is not None:
        assert isinstance(known, Candidates)
        return known
    slot.matcher.meter.spent += GATHER_WORK + VIEW_WORK * len(pools.usable)
    usable = fits = failed = unknown = 0
    for view, start in pools.usable:
        if failed:
            # Upstream would stop at the failure, and evaluations that fail can be the most expensive ones.
            unknown |= ((1 << len(view.devices)) - 1) << start
            continue
        mask = slot_mask(slot, view)
        if mask.fits:
            usable |= mask.usable << start
            fits |= mask.fits << start
        if mask.failed or mask.unknown:
            failed |= mask.failed << start
            unknown |= mask.unknown << start
    if pools.elsewhere:
        usable &= ~pools.elsewhere
        fits &= ~pools.elsewhere
    for position in pools.undecided:
        _, view, index = pools.locate(position)
        if slot_mask(slot, view).selectable >> index & 1:
            usable &= ~(1 << position)
            failed |= 1 << position
    candidates = pools.derived[slot.key] = Candidates(usable, fits, failed, unknown)
    slot.remembered.note_candidates()
    return candidates


def static_masks(pools: NodePools, features: Features) -> StaticMasks:
    """Which devices consume counters, and which several allocations may hold."""
    known = pools.derived.get("static")
    if known is None:
        counting = shareable = 0
        for view, start in pools.usable:
            if view.counting:
                counting |= view.counting << start
            if view.shareable and features.consumable_capacity:
                shareable |= view.shareable << start
        known = pools.derived["static"] = StaticMasks(counting, shareable)
    assert isinstance(known, StaticMasks)
    return known


class NodeUse:
    """What the ledger says about a node's devices: per pool (by index into `usable`), and as masks over all.

    `version` grows by one with each change of a pool's part of it.
    """

    __slots__ = ("_changes", "_exhausted", "dedicated", "position", "serial", "sharing", "used", "version")

    def __init__(self, serial: int) -> None:
        self._changes: Final[list[int]] = []
        self._exhausted: Final[dict[SlotKey, tuple[int, int]]] = {}
        self.serial: Final = serial
        self.position = -1
        self.version = 0
        self.used: Final[dict[int, ViewUse]] = {}
        self.dedicated = 0
        self.sharing = 0

    @property
    def state(self) -> tuple[int, int]:
        """Two numbers that change when the ledger says something else."""
        return self.serial, self.version

    def note(self, number: int) -> None:
        """A pool's part has changed."""
        if len(self._changes) >= _CHANGES_MAX:
            self._changes.clear()
        self.version += 1
        self._changes.append(number)

    def exhausted(self, slot: Slot, pools: NodePools) -> int:
        """Devices whose recorded consumption leaves too little for the slot; only pools that changed are looked at."""
        version, mask = self._exhausted.get(slot.key, (-1, 0))
        if version == self.version:
            return mask
        first = version - self.version + len(self._changes)
        is_followed = version >= 0 and first >= 0
        if not is_followed:
            mask = 0
        for number in set(self._changes[first:]) if is_followed else self.used:
            view, start = pools.usable[number]
            mask &= ~(((1 << len(view.devices)) - 1) << start)
            use = self.used.get(number)
            if use is not None and use.consumed:
                consumption = slot_mask(slot, view).consumption
                for index, consumed in use.consumed.items():
                    wanted = consumption.get(index)
                    if wanted is not None and not wanted.fits(consumed):
                        mask |= 1 << (start + index)
        if len(self._exhausted) >= _EXHAUSTED_MAX:
            self._exhausted.clear()
        self._exhausted[slot.key] = self.version, mask
        return mask


def gather_use(pools: NodePools, in_use: InUse, features: Features) -> NodeUse:
    """The ledger's entries for the node. Kept with the node: a further call looks at what changed since."""
    known = pools.derived.get("use")
    if known is None or known.serial != in_use.serial:
        known = pools.derived["use"] = NodeUse(in_use.serial)
    assert isinstance(known, NodeUse)
    if known.position != in_use.revision:
        changed = None
        if len(pools.usable) > _FEW_POOLS:
            _, changed = in_use.changed_since(known.position)
        known.position = in_use.revision
        if changed is None or len(changed) >= len(pools.usable):
            for number in range(len(pools.usable)):
                _update_use(known, pools, number, in_use, features)
        else:
            for pool_id in changed:
                numbered = pools.number_of(pool_id)
                if numbered is not None:
                    _update_use(known, pools, numbered, in_use, features)
    return known


def _update_use(node_use: NodeUse, pools: NodePools, number: int, in_use: InUse, features: Features) -> None:
    view, start = pools.usable[number]
    entry = in_use.pools.get(view.id)
    old = node_use.used.pop(number, _UNUSED)
    new = _UNUSED
    if entry is not None:
        new = node_use.used[number] = view_use(view, entry, features)
    if new is old:
        return
    node_use.note(number)
    node_use.dedicated ^= (old.dedicated ^ new.dedicated) << start
    node_use.sharing ^= (old.sharing ^ new.sharing) << start


class Problem:
    """The question.

    Attributes:
        usable: By slot index: devices that can be picked as long as nothing else is picked.
        reachable: By slot index: usable, failed and unknown ones; what the search looks at.
        doubtful: By slot index: failed and unknown ones that are not in use.
        listed: By slot index: the devices of an All slot, in order.
        sharing: Devices of which allocations already hold shares.
    """

    __slots__ = (
        "_node_use",
        "claims",
        "doubtful",
        "features",
        "in_use",
        "listed",
        "plan",
        "pools",
        "reachable",
        "sharing",
        "static",
        "usable",
        "used",
    )

    def __init__(self, claims: Sequence[Claim], plan: Plan, pools: NodePools, in_use: InUse) -> None:
        self.claims = claims  # a search that goes on later does so for another pod of the same plan
        self.plan: Final = plan
        self.pools: Final = pools
        self.in_use: Final = in_use
        self.features: Final = plan.features
        self.static: Final = static_masks(pools, plan.features)
        node_use = gather_use(pools, in_use, plan.features)
        self._node_use: Final = node_use
        self.used: Final = node_use.used
        dedicated = node_use.dedicated
        sharing = node_use.sharing
        self.sharing: Final = sharing
        self.listed: Final[dict[int, tuple[int, ...]]] = {}
        if not plan.is_exact:
            self._check()
        self.usable: Final[list[int]] = []
        self.reachable: Final[list[int]] = []
        self.doubtful: Final[list[int]] = []
        for slot in plan.slots:
            candidates = gather_candidates(slot, pools)
            usable = candidates.usable
            doubtful = candidates.failed | candidates.unknown
            if not slot.is_admin:
                usable &= ~dedicated
                doubtful &= ~dedicated
            # 1.37 lists devices for an All slot whatever is consumed; the search then finds them too full.
            if sharing and not (slot.is_all and self.features.is_137):
                usable &= ~self._exhausted(slot)
            self.usable.append(usable)
            self.doubtful.append(0 if slot.is_all else doubtful)
            self.reachable.append(usable | doubtful)

    def look_ahead(self) -> None:
        """Decide what a search may ask for in the middle of a move, where it cannot pause: consumption of shares.

        Raises:
            PausedError: not now.
        """
        if self.static.shareable | self.sharing:
            for slot in self.plan.slots:
                if self.doubtful[slot.index]:
                    for view, _ in self.pools.usable:
                        slot_mask(slot, view)

    def _exhausted(self, slot: Slot) -> int:
        """Devices whose recorded consumption leaves too little for the slot."""
        return self._node_use.exhausted(slot, self.pools) if self.features.consumable_capacity else 0

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
                raise claim_error(
                    claim,
                    f", request {slot.name}: asks for all devices, but resource pool {view.id} is currently {state}",
                )
            number = pools.number_of(view.id)
            if number is not None:
                self._evaluate_all(slot, claim, number)
        fits = gather_candidates(slot, pools).fits
        if not self.features.is_137:
            fits &= ~self._exhausted(slot)
        return tuple(positions_of(fits))

    def _evaluate_all(self, slot: Slot, claim: Claim, number: int) -> None:
        """Evaluate a pool's devices in order; raises the first failure."""
        view, start = self.pools.usable[number]
        mask = slot_mask(slot, view)
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
        return slot_mask(slot, view), view, index

    def is_candidate(self, slot: Slot, position: int) -> bool:
        """Decide a doubtful device that the search has reached. Raises AllocationError when it fails."""
        mask, view, index = self.mask_at(slot, position)
        if mask.unknown >> index & 1:
            late = decide_late(slot, view, mask, index)
            failed, selectable, usable = late.failure is not None, late.is_selectable, late.is_usable
        else:
            failed, selectable, usable = (
                bool(verdicts >> index & 1) for verdicts in (mask.failed, mask.selectable, mask.usable)
            )
        bit = 1 << position
        if failed or (position in self.pools.undecided and selectable):
            raise self.failure(slot, position)
        if not usable or self.pools.elsewhere & bit:
            return False
        return not bit & self.sharing or self.has_room(slot, position)

    def failure(self, slot: Slot, position: int) -> AllocationError:
        """The error for a device that a slot cannot decide."""
        mask, view, index = self.mask_at(slot, position)
        claim = self.claims[slot.claim]
        device = view.devices[index]
        failure = mask.failures.get(index)
        if failure is None:
            return AllocationError(self.pools.undecided[position])
        if isinstance(failure, CapacityError):
            where = device.name if slot.is_all else device.id
            return claim_error(claim, f", request {slot.name}: checking capacity for device {where}: {failure}")
        return AllocationError(failure.message(slot.device_class.name, claim, device.id))

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
