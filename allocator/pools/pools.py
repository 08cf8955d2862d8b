"""Slices of one pool, seen from a node: which generation, complete or not, valid or not, in which order.

A `PoolView` depends only on which slices of the pool are relevant for a node, so nodes for which the same
slices are relevant share it, together with everything computed from it (masks, selector answers).

Order of devices: slices by name, devices in slice order. Order of pools is the inventory's.

Source: structured/internal/incubating/pools_incubating.go (`GatherPools`, `buildPool`) v0.36.3, and
v0.37.2 for what `Features.has_137_semantics` switches. Differs on purpose: where upstream's verdict would depend on the
order of its list, because relevant slices disagree about `resourceSliceCount`, the pool is incomplete (k/k
issue 141117).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from allocator.pools.compatibility import ANY, PoolGroups
from allocator.pools.in_use import PoolUse
from allocator.requests.capacity import own_names
from allocator.requests.requests import Slot
from allocator.requests.slot_masks import SlotMask
from allocator.requests.slot_records import SlotKey
from allocator.values.features import Features
from allocator.values.masks import mask_of
from allocator.values.model import Device, PoolId, ResourceSlice
from allocator.values.pool_attribute import PoolAttribute, published

CounterId: TypeAlias = tuple[str, str]
"""Counter set and counter, within a pool."""


class HeldDevices(NamedTuple):
    """What the ledger says about the devices of a pool view, as long as its entry is this one in this version.

    Attributes:
        dedicated, sharing: Masks of devices that are held whole, and of which shares are held.
        consumed: Device index -> what its shares consume.
    """

    dedicated: int
    sharing: int
    consumed: Mapping[int, Mapping[str, int]]
    entry: PoolUse | None
    version: int


NOTHING_HELD: Final = HeldDevices(0, 0, {}, None, 0)


class _CountersLeft(NamedTuple):
    """What was left when the pool's entry in the ledger had this version."""

    entry: PoolUse
    version: int
    amounts: tuple[int, ...]
    groups: Mapping[int, int]


class CounterCosts(NamedTuple):
    """One counter of a pool: devices that consume it, and what each consumes (amount and position), cheapest first."""

    counter: int
    consumers: int
    by_amount: tuple[tuple[int, int], ...]

    def paid(self, left: int, devices: int, most: int) -> int:
        """How many of these devices the counter pays for when so much is left, the cheapest first; `most` at most."""
        paid = 0
        for amount, position in self.by_amount:
            if devices >> position & 1:
                left -= amount
                if left < 0 or paid == most:
                    break
                paid += 1
        return paid


class PoolView:
    """A pool as a node sees it, for one set of features. Immutable, but it keeps what readers compute from it.

    Attributes:
        id: The pool.
        is_incomplete: Slices are missing or too many; there are no devices then.
        invalid_reason: Empty, or why nothing may be allocated from the pool.
        devices: Candidates, in order; empty when incomplete or invalid.
        slices: The slice of each device.
        has_binding_conditions: Whether the pool is tried after those without (a present list counts).
        has_per_device_selection: Whether devices carry node selections of their own.
        counting, shareable: Masks of the devices that consume counters, and that several allocations may hold.
        skipping: Mask of the devices for which the kubelet is to skip calls of the driver.
        counters: What each counter of the pool holds, in units of 10^-9, in a fixed order; `counter_ids` names them.
        consumption: Device index -> (counter index, amount) pairs; only devices that consume.
        elsewhere: Device name -> the same, for devices in slices for other nodes.
        groups: The devices' compatibility groups.
        masks: The verdicts of slots, by slot key.
    """

    __slots__ = (
        "__weakref__",
        "_attributes",
        "_costs",
        "_held",
        "_index",
        "_left",
        "consumption",
        "counter_ids",
        "counters",
        "counting",
        "devices",
        "elsewhere",
        "groups",
        "has_binding_conditions",
        "has_per_device_selection",
        "id",
        "invalid_reason",
        "is_incomplete",
        "masks",
        "shareable",
        "skipping",
        "slices",
    )

    def __init__(
        self,
        id: PoolId,
        *,
        is_incomplete: bool = False,
        invalid_reason: str = "",
        slices: Sequence[ResourceSlice] = (),
        elsewhere: Sequence[ResourceSlice] = (),
        counters: Mapping[CounterId, int] | None = None,
    ) -> None:
        self.id: Final = id
        self.is_incomplete: Final = is_incomplete
        self.invalid_reason: Final = invalid_reason
        self.devices: Final = tuple(device for slice_ in slices for device in slice_.devices)
        self.slices: Final = tuple(slice_ for slice_ in slices for _ in slice_.devices)
        self.has_binding_conditions: Final = any(device.binding_conditions is not None for device in self.devices)
        self.has_per_device_selection: Final = any(slice_.per_device_node_selection for slice_ in slices)
        self.masks: Final[dict[SlotKey, SlotMask]] = {}
        self._attributes: Final[dict[tuple[str, Features], PoolAttribute]] = {}
        self._costs: tuple[CounterCosts, ...] | None = None
        self._held = NOTHING_HELD
        self._left: _CountersLeft | None = None
        self._index: dict[str, int] | None = None
        known = counters or {}
        self.counters: Final = tuple(known.values())
        self.counter_ids: Final = tuple(known)
        position = {counter: index for index, counter in enumerate(known)}
        self.consumption: Final[dict[int, tuple[tuple[int, int], ...]]] = {
            index: _consumption(device, position)
            for index, device in enumerate(self.devices)
            if device.consumes_counters and position
        }
        self.counting: Final = mask_of(self.consumption)
        self.shareable: Final = sum(
            1 << index for index, device in enumerate(self.devices) if device.allow_multiple_allocations
        )
        self.skipping: Final = (
            mask_of(index for index, slice_ in enumerate(self.slices) if slice_.skip_node_operations)
            if any(slice_.skip_node_operations for slice_ in slices)
            else 0
        )
        self.elsewhere: Final[dict[str, list[tuple[tuple[int, int], ...]]]] = {}
        others = [device for slice_ in elsewhere for device in slice_.devices if device.consumes_counters and position]
        for device in others:
            self.elsewhere.setdefault(device.name, []).append(_consumption(device, position))
        self.groups: Final = PoolGroups(self.devices if position else (), others)

    def index_of(self, device: str) -> int | None:
        """Position of the device with this name, None when it is not among the candidates."""
        if self._index is None:
            self._index = {device.name: index for index, device in enumerate(self.devices)}
        return self._index.get(device)

    def mask_for(self, slot: Slot) -> SlotMask:
        """The slot's verdicts, evaluated up to the first failure.

        Raises:
            PausedError: not now; those that were reached are kept.
        """
        mask = self.masks.get(slot.key)
        if mask is None:
            mask = self.masks[slot.key] = SlotMask(slot, len(self.devices))
            slot.record.count_mask()
        if not mask.is_done:
            mask.decide(slot, self.devices)
        return mask

    def attribute(self, name: str, features: Features) -> PoolAttribute:
        """The devices' values of an attribute."""
        known = self._attributes.get((name, features))
        if known is None:
            known = self._attributes[name, features] = published(self.devices, name, features)
        return known

    def held(self, use: PoolUse, features: Features) -> HeldDevices:
        """Masks of the devices that are held; kept until the pool's entry in the ledger changes."""
        if self._held.entry is not use or self._held.version != use.version:
            sharing = 0
            consumed: dict[int, Mapping[str, int]] = {}
            dedicated = mask_of(self._positions_of(use.dedicated))
            if features.consumable_capacity and (use.shares or use.consumers):
                # A device whose driver shares it no more is not free while a share of it lives.
                dedicated |= mask_of(self._positions_of({*use.consumers, *use.shares})) & ~self.shareable
            # 1.36 forgets that a share without consumption is a share; 1.37 looks at the share ids, too.
            shared = {*use.consumers, *use.shares} if features.has_137_semantics else use.consumers
            for index in self._positions_of(shared) if shared else ():
                sharing |= 1 << index
                consumed[index] = self._as_spelled(index, use.consumed.get(self.devices[index].name, {}))
            if use.least is not None:
                least = self.held(use.least, features)
                dedicated |= least.dedicated
                sharing |= least.sharing
                consumed = _larger(consumed, least.consumed)
            self._held = HeldDevices(dedicated, sharing, consumed, use, use.version)
        return self._held

    def _as_spelled(self, index: int, amounts: Mapping[str, int]) -> Mapping[str, int]:
        """Amounts by the names that the device has for its capacities."""
        device = self.devices[index]
        spelled = own_names(device.id.driver, device.capacity)
        return {spelled.get(name, name): amount for name, amount in amounts.items()}

    def _positions_of(self, names: Collection[str]) -> list[int]:
        """Of the devices that the view shows; a pool may be far larger than a node's view of it."""
        if len(names) > len(self.devices):
            return [index for index, device in enumerate(self.devices) if device.name in names]
        return [index for name in names if (index := self.index_of(name)) is not None]

    def counters_left(self, use: PoolUse | None) -> tuple[int, ...]:
        """What allocations leave of each counter, in the order of `counters`; kept until the pool's entry changes."""
        return self.counters if use is None or not self.counters else self._left_by(use).amounts

    def groups_left(self, use: PoolUse | None) -> Mapping[int, int]:
        """By counter set on which held devices draw: the compatibility groups that all of them have."""
        return {} if use is None or not self.groups.of else self._left_by(use).groups

    def _left_by(self, use: PoolUse) -> _CountersLeft:
        if self._left is None or self._left.entry is not use or self._left.version != use.version:
            left = list(self.counters)
            for name in use.held():
                index = self.index_of(name)
                charges = [self.consumption.get(index, ())] if index is not None else []
                for amounts in (*charges, *self.elsewhere.get(name, ())):
                    for counter, amount in amounts:
                        left[counter] -= amount
            groups = self.groups.common(use.held(), self.index_of) if self.groups.of else {}
            if use.least is not None:
                least = self._left_by(use.least)
                left = list(map(min, left, least.amounts))
                groups = {
                    number: groups.get(number, ANY) & least.groups.get(number, ANY)
                    for number in {**groups, **least.groups}
                }
            self._left = _CountersLeft(use, use.version, tuple(left), groups)
        return self._left

    @property
    def counter_costs(self) -> tuple[CounterCosts, ...]:
        """By counter."""
        if self._costs is None:
            amounts: dict[int, list[tuple[int, int]]] = {}
            for index, consumption in self.consumption.items():
                for counter, amount in consumption:
                    amounts.setdefault(counter, []).append((amount, index))
            self._costs = tuple(
                CounterCosts(counter, mask_of(index for _, index in entries), tuple(sorted(entries)))
                for counter, entries in amounts.items()
            )
        return self._costs

    @property
    def is_usable(self) -> bool:
        return not (self.is_incomplete or self.invalid_reason)

    def __repr__(self) -> str:
        state = "incomplete" if self.is_incomplete else self.invalid_reason or f"{len(self.devices)} devices"
        return f"PoolView({self.id}: {state})"


def _larger(
    one: Mapping[int, Mapping[str, int]], other: Mapping[int, Mapping[str, int]]
) -> dict[int, Mapping[str, int]]:
    """By device and name the larger of two amounts."""
    larger = dict(one)
    for index, amounts in other.items():
        mine = one.get(index, {})
        larger[index] = {name: max(mine.get(name, 0), amounts.get(name, 0)) for name in {**mine, **amounts}}
    return larger


def _consumption(device: Device, position: Mapping[CounterId, int]) -> tuple[tuple[int, int], ...]:
    """Amounts by counter index; a counter named twice counts twice, unknown ones are skipped."""
    total: dict[int, int] = {}
    for consumed in device.consumes_counters:
        for name, amount in consumed.counters:
            index = position.get((consumed.counter_set, name))
            if index is not None:
                total[index] = total.get(index, 0) + amount.nano
    return tuple(sorted(total.items()))


def is_ignored(slice_: ResourceSlice, features: Features) -> bool:
    """Whether a slice does not exist for this set of features."""
    if not features.partitionable_devices and (slice_.per_device_node_selection is not None or slice_.shared_counters):
        return True
    return not features.compatibility_groups and _has_groups(slice_)


def _has_groups(slice_: ResourceSlice) -> bool:
    """1.37 leaves such slices out while the gate of compatibility groups is off, so their pool is incomplete."""
    return any(consumed.groups for device in slice_.devices for consumed in device.consumes_counters)


def gather_pool(
    pool_id: PoolId, relevant: Iterable[ResourceSlice], pool_slices: Iterable[ResourceSlice], features: Features
) -> PoolView | None:
    """A pool from the slices that matter for a node.

    Args:
        relevant: Slices of the pool whose node selection matches, of any generation, at least one.
        pool_slices: All slices of the pool in the cluster.

    Returns:
        None when the pool is obsolete: what is relevant here is being replaced elsewhere.
    """
    slices = sorted(relevant, key=lambda slice_: slice_.name)
    generation = max(slice_.generation for slice_ in slices)
    slices = [slice_ for slice_ in slices if slice_.generation == generation]
    counts = {slice_.resource_slice_count for slice_ in _first_listed(slices, features)}
    count = min(counts)
    if len(counts) == 1 and len(slices) == count:
        return _build(pool_id, slices, (), features)
    same_generation = []
    for slice_ in sorted(pool_slices, key=lambda slice_: slice_.name):
        if slice_.generation > generation:
            return None
        if slice_.generation == generation:
            same_generation.append(slice_)
    if not features.compatibility_groups:
        same_generation = [slice_ for slice_ in same_generation if not _has_groups(slice_)]
    if len(counts) > 1 or len(same_generation) != count:
        return PoolView(pool_id, is_incomplete=True)
    names = {slice_.name for slice_ in slices}
    elsewhere = [slice_ for slice_ in same_generation if slice_.name not in names]
    return _build(pool_id, slices, elsewhere, features)


def _first_listed(slices: Sequence[ResourceSlice], features: Features) -> Sequence[ResourceSlice]:
    """Slices of which upstream's list could begin with any: it takes the pool's size from the first.

    A node's own slices come before slices that name no node.
    """
    own = [
        slice_ for slice_ in slices if slice_.node_name and (features.has_137_semantics or not slice_.shared_counters)
    ]
    return own or slices


def _build(
    pool_id: PoolId, slices: Sequence[ResourceSlice], elsewhere: Sequence[ResourceSlice], features: Features
) -> PoolView:
    if not features.partitionable_devices:
        reason = _duplicate_device(slices)
        return PoolView(pool_id, invalid_reason=reason) if reason else PoolView(pool_id, slices=slices)
    with_devices = [slice_ for slice_ in slices if not slice_.shared_counters]
    with_counters = [slice_ for slice_ in slices if slice_.shared_counters]
    consumers = slices
    if features.has_137_semantics:
        with_counters += [slice_ for slice_ in elsewhere if slice_.shared_counters]
        elsewhere = [slice_ for slice_ in elsewhere if not slice_.shared_counters]
        consumers = with_devices
    counter_sets: dict[str, dict[str, int]] = {}
    reason = (
        _duplicate_device(with_devices)
        or _read_counters(with_counters, counter_sets)
        or _unknown_counter(consumers, counter_sets)
        or _unknown_counter(elsewhere, counter_sets)
    )
    if reason:
        return PoolView(pool_id, invalid_reason=reason)
    counters = {(name, counter): nano for name, known in counter_sets.items() for counter, nano in known.items()}
    return PoolView(pool_id, slices=with_devices, elsewhere=elsewhere, counters=counters)


def _duplicate_device(slices: Iterable[ResourceSlice]) -> str:
    seen = set()
    for slice_ in slices:
        for device in slice_.devices:
            if device.name in seen:
                return f"duplicate device name {device.name}"
            seen.add(device.name)
    return ""


def _read_counters(slices: Iterable[ResourceSlice], counter_sets: dict[str, dict[str, int]]) -> str:
    """Fill `counter_sets`; returns what is wrong, if anything."""
    for slice_ in slices:
        if slice_.unread:
            return f"counters with unknown field {slice_.unread[0]}"
        for counter_set in slice_.shared_counters:
            if counter_set.name in counter_sets:
                return f"duplicate counter set name {counter_set.name}"
            counter_sets[counter_set.name] = {name: amount.nano for name, amount in counter_set.counters}
    return ""


def _unknown_counter(slices: Iterable[ResourceSlice], counter_sets: Mapping[str, Mapping[str, int]]) -> str:
    for slice_ in slices:
        for device in slice_.devices:
            for consumed in device.consumes_counters:
                known = counter_sets.get(consumed.counter_set)
                if known is None:
                    return f"counter set {consumed.counter_set} not found"
                for name, _ in consumed.counters:
                    if name not in known:
                        return f"counter {name} not found in counter set {consumed.counter_set}"
    return ""
