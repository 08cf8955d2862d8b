"""The pools of a node as one row of devices: positions, masks over all pools, devices that name their node.

Devices are numbered through all usable pools in the order upstream tries them: pools without binding
conditions before pools with, each group by driver and pool name. A mask over a node is the masks of its
pools side by side.

Source: end of `GatherPools`, structured/internal/incubating/pools_incubating.go v0.36.3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from allocator.pools.attribute_index import AttributeIndex
from allocator.pools.in_use import Ledger
from allocator.pools.node_match import NodeSelectorError, match_node
from allocator.pools.node_use import NodeUse
from allocator.pools.outcome import LastAnswer
from allocator.pools.pools import PoolView
from allocator.requests.requests import Slot
from allocator.requests.slot_records import SlotKey
from allocator.values.features import Features
from allocator.values.model import Device, DeviceId, NodeView, PoolId

GATHER_WORK: Final = 20
VIEW_WORK: Final = 10
"""Gathering a slot's candidates, and so much for each pool."""
_FEW_POOLS: Final = 4
_SUPPOSED_MAX: Final = 4
"""Supposed ledgers that are remembered: two for each question of preemption, with nominated pods and without."""


class Candidates(NamedTuple):
    """Devices of a node by a slot's verdict, whatever is in use (see SlotMask)."""

    usable: int
    fits: int
    failed: int
    unknown: int
    derived: Mapping[str, AttributeIndex]
    """The attributes that the slot's request derives, of its usable devices."""


class NodePools:
    """Pools in order, for one set of features. Immutable, but it keeps what readers compute from it.

    Attributes:
        pools: All of them, also those that nothing may be taken from.
        usable: (view, position of its first device) of the others, in order.
        size: Number of devices; positions are 0..size-1.
        has_invalid: Whether a pool is left out because its slices contradict each other.
        elsewhere: Mask of devices that selected other nodes themselves.
        inoperable: Mask of devices for which the kubelet is to skip calls of the driver, where it cannot.
        undecided: Position -> why a device's node selector cannot be parsed.
        counting, shareable: Masks of devices that consume counters, and that several allocations may hold.
        candidates: What is known of slots' candidates, by slot key; `candidates_for` makes it.
        last: Kept by `allocate`: Reserve asks what Filter has just asked.
    """

    def __init__(self, views: Iterable[PoolView], node: NodeView, features: Features) -> None:
        self._features: Final = features
        self.pools: Final = tuple(sorted(views, key=lambda view: (view.has_binding_conditions, view.id)))
        usable: list[tuple[PoolView, int]] = []
        size = 0
        for view in self.pools:
            if view.is_usable and view.devices:
                usable.append((view, size))
                size += len(view.devices)
        self.usable: Final = tuple(usable)
        self.size: Final = size
        self.has_invalid: Final = any(view.invalid_reason for view in self.pools)
        self.undecided: Final[dict[int, str]] = {}
        self.elsewhere: Final = self._gather_elsewhere(node)
        can_skip = node.can_skip_operations and features.optional_node_operations
        self.inoperable: Final = 0 if can_skip else self._gather_inoperable()
        counting = shareable = 0
        for view, start in usable:
            if view.counting:
                counting |= view.counting << start
            if view.shareable and features.consumable_capacity:
                shareable |= view.shareable << start
        self.counting: Final = counting
        self.shareable: Final = shareable
        self.most_consumers: Final = max((len(view.consumption) for view, _ in usable), default=0)
        """The largest number of devices of one pool that consume counters."""
        self.candidates: Final[dict[SlotKey, Candidates]] = {}
        self.last: LastAnswer | None = None
        self._attributes: Final[dict[str, AttributeIndex]] = {}
        self._use: NodeUse | None = None
        self._supposed: Final[dict[int, NodeUse]] = {}
        self._starts: Final = [start for _, start in usable]
        self._numbers: dict[PoolId, int] | None = None

    def _gather_elsewhere(self, node: NodeView) -> int:
        mask = 0
        for view, start in self.usable:
            if not view.has_per_device_selection:
                continue
            for index, (device, slice_) in enumerate(zip(view.devices, view.slices, strict=True)):
                if not slice_.per_device_node_selection:
                    continue
                try:
                    if not match_node(node, device.node_name, device.all_nodes, device.node_selector):
                        mask |= 1 << (start + index)
                except NodeSelectorError as error:
                    self.undecided[start + index] = str(error)
        return mask

    def _gather_inoperable(self) -> int:
        """Source: `allocateDevice` of structured/internal/experimental v0.37.2."""
        mask = 0
        for view, start in self.usable:
            if view.skipping:
                mask |= view.skipping << start
        return mask

    def number_of(self, pool: PoolId) -> int | None:
        """Index into `usable` of a pool, None when nothing may be taken from it here."""
        if self._numbers is None:
            self._numbers = {view.id: number for number, (view, _) in enumerate(self.usable)}
        return self._numbers.get(pool)

    def locate(self, position: int) -> tuple[int, PoolView, int]:
        """Index into `usable`, the view, and the device's index in it."""
        index = bisect_right(self._starts, position) - 1
        view, start = self.usable[index]
        return index, view, position - start

    def among(self, mask: int, number: int) -> int:
        """The part of a mask over the node that is devices of one pool, as a mask over the pool."""
        view, start = self.usable[number]
        return mask >> start & ((1 << len(view.devices)) - 1)

    def numbers_among(self, mask: int) -> Iterator[int]:
        """Indices into `usable` of the pools that have devices in the mask, in order."""
        while mask:
            number = bisect_right(self._starts, (mask & -mask).bit_length() - 1) - 1
            yield number
            view, start = self.usable[number]
            end = start + len(view.devices)
            mask = mask >> end << end

    def device(self, position: int) -> Device:
        """The device at a position."""
        _, view, index = self.locate(position)
        return view.devices[index]

    def candidates_for(self, slot: Slot) -> Candidates:
        """The slot's verdicts on all devices of the node.

        Raises:
            PausedError: not all are known, and not to be found out now.
        """
        known = self.candidates.get(slot.key)
        if known is not None:
            return known
        slot.matcher.meter.spent += GATHER_WORK + VIEW_WORK * len(self.usable)
        usable = fits = failed = unknown = 0
        for view, start in self.usable:
            if failed:
                # Upstream stops at the failure, and an evaluation that fails can be the most expensive of all.
                unknown |= ((1 << len(view.devices)) - 1) << start
                continue
            mask = view.mask_for(slot)
            if mask.fits:
                usable |= mask.usable << start
                fits |= mask.fits << start
            if mask.failed or mask.unknown:
                failed |= mask.failed << start
                unknown |= mask.unknown << start
        if self.elsewhere:
            usable &= ~self.elsewhere
            fits &= ~self.elsewhere
        if self.inoperable:
            usable &= ~self.inoperable  # they count where all devices are asked for: upstream finds out too late
        for position in self.undecided:
            _, view, index = self.locate(position)
            if view.mask_for(slot).selectable >> index & 1:
                usable &= ~(1 << position)
                failed |= 1 << position
        candidates = self.candidates[slot.key] = Candidates(usable, fits, failed, unknown, self._derived(slot))
        slot.record.count_candidates()
        return candidates

    def _derived(self, slot: Slot) -> Mapping[str, AttributeIndex]:
        features = self._features
        return {
            name: AttributeIndex([(view.mask_for(slot).derived[name], start) for view, start in self.usable], features)
            for name in slot.derivations
        }

    def attribute(self, name: str) -> AttributeIndex:
        """The devices' values of an attribute."""
        known = self._attributes.get(name)
        if known is None:
            features = self._features
            known = AttributeIndex([(view.attribute(name, features), start) for view, start in self.usable], features)
            self._attributes[name] = known
        return known

    def is_own(self, device: DeviceId, node: str) -> bool:
        """Whether slices for `node` alone, whose pools these are, publish the device: no other node sees it."""
        number = self.number_of(device.pool_id)
        view = self.usable[number][0] if number is not None else None
        index = view.index_of(device.device) if view is not None else None
        if view is None or index is None:
            return False
        slice_ = view.slices[index]
        return node == (view.devices[index].node_name if slice_.per_device_node_selection else slice_.node_name)

    def use_of(self, in_use: Ledger) -> NodeUse:
        """The ledger's entries for the node. Kept: a further call looks at what changed since."""
        use = self._use
        if use is None or use.serial != in_use.serial:
            use = self._other_use(in_use)
        if use.position != in_use.revision:
            changed = None
            if len(self.usable) > _FEW_POOLS:
                _, changed = in_use.changed_since(use.position)
            use.position = in_use.revision
            if changed is None or len(changed) >= len(self.usable):
                for number, pool in enumerate(self.usable):
                    use.observe(number, pool, in_use.pools.get(pool[0].id), self._features)
            else:
                for pool_id in changed:
                    numbered = self.number_of(pool_id)
                    if numbered is not None:
                        use.observe(numbered, self.usable[numbered], in_use.pools.get(pool_id), self._features)
        return use

    def _other_use(self, in_use: Ledger) -> NodeUse:
        """For another ledger than last. What is supposed for a question does not displace what is."""
        if not in_use.is_supposed:
            use = self._use = NodeUse(in_use.serial)
            return use
        known = self._supposed.get(in_use.serial)
        if known is None:
            if len(self._supposed) >= _SUPPOSED_MAX:
                del self._supposed[next(iter(self._supposed))]
            known = self._supposed[in_use.serial] = NodeUse(in_use.serial)
        return known
