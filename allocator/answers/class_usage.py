"""How much of a device class a node has, and how much of that is held: for scores and for people, not for verdicts.

A device counts where a claim could be given it at all (its selectors match, whatever its taints are). One of which a
share is held counts as held, as a device; of its capacity only what the shares consume.

Cost: for devices O(pools of the node); for a capacity O(devices of the class on the node). The class's selectors are
answered once for each device, whoever asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from allocator.answers.inventory import Inventory
from allocator.pools.compatibility import refusing
from allocator.pools.in_use import Ledger
from allocator.pools.node_pools import NodePools
from allocator.pools.pools import NOTHING_HELD, HeldDevices, PoolView
from allocator.search.problem import Problem
from allocator.values.decode_claims import decode_claim_spec
from allocator.values.features import Features
from allocator.values.masks import positions_of
from allocator.values.model import Claim, ClaimSpec, DeviceId, DeviceResult, NodeView


class ClassUsage(NamedTuple):
    """In one unit: all there is, what is held, and what is about to be taken."""

    total: int
    used: int
    taken: int


NO_USAGE: Final = ClassUsage(0, 0, 0)


class FreeDevices(NamedTuple):
    """A node's devices of a class, as masks over `pools`.

    Attributes:
        matched: All of them, whatever their taints and whoever has them.
        free: Those that a claim for one device could be given now, each by itself: partitions of one device overlap.
    """

    pools: NodePools
    matched: int
    free: int


def free_devices(
    device_class: str, node: NodeView, *, inventory: Inventory, in_use: Ledger, features: Features
) -> FreeDevices:
    """The devices of a class that a node has, and those that are free there.

    Raises:
        AllocationError: there is no such class, or a slice's node selector cannot be parsed.
        PausedError: as `allocate`.
    """
    plan = inventory.plan([one_device(device_class)], features)
    pools = inventory.node_pools(node, features)
    problem = Problem((Claim("", "", one_device(device_class)),), plan, pools, in_use)
    (slot,) = plan.slots
    free = problem.usable[slot.index]
    for number in pools.numbers_among(free & pools.counting):
        view, start = pools.usable[number]
        for index in positions_of(pools.among(free, number) & lacking(view, in_use, features)):
            free &= ~(1 << (start + index))
    return FreeDevices(pools, pools.candidates_for(slot).fits, free)


def lacking(view: PoolView, in_use: Ledger, features: Features) -> int:
    """Mask of a pool's devices that nothing can be given of, for the counters that allocations leave.

    A device of which a share is held has paid for its counters. In a pool that is overdrawn none can pay.
    """
    entry = in_use.pools.get(view.id)
    left, common = view.counters_left(entry), view.groups_left(entry)
    paid = view.shareable & view.held(entry, features).sharing if entry and features.consumable_capacity else 0
    is_overdrawn = any(amount < 0 for amount in left)
    mask = 0
    for index, consumption in view.consumption.items():
        if (
            is_overdrawn
            or any(amount > left[counter] for counter, amount in consumption)
            or refusing(common, view.groups.of.get(index, ())) is not None
        ):
            mask |= 1 << index
    return mask & ~paid


def class_usage(
    resource: str,
    node: NodeView,
    *,
    inventory: Inventory,
    in_use: Ledger,
    features: Features,
    taken: Mapping[DeviceId, DeviceResult],
) -> ClassUsage:
    """What a node has of `resource`.

    Args:
        resource: The name of a DeviceClass, for devices; or `CLASS/CAPACITY`, for a capacity of them by the name under
            which it is published.
        taken: Devices that are about to be taken there, and are not in use.

    Raises:
        AllocationError: a slice's node selector cannot be parsed.
        PausedError: as `allocate`.
    """
    device_class, _, capacity = resource.partition("/")
    known = inventory.classes.get(device_class)
    if known is None or known.unread:  # no request of it is served
        return NO_USAGE
    (slot,) = inventory.plan([one_device(device_class)], features).slots
    pools = inventory.node_pools(node, features)
    matched = pools.candidates_for(slot).fits
    total = used = about = 0
    for number in pools.numbers_among(matched):
        view, _ = pools.usable[number]
        mask, entry = pools.among(matched, number), in_use.pools.get(view.id)
        held = view.held(entry, features) if entry is not None else NOTHING_HELD
        results = {
            index: result
            for device, result in taken.items()
            if device[:2] == view.id and (index := view.index_of(device.device)) is not None and mask >> index & 1
        }
        if not capacity:
            total += mask.bit_count()
            used += (mask & (held.dedicated | held.sharing)).bit_count()
            about += len(results)
            continue
        for index in positions_of(mask):
            whole, of_held, of_taken = _of_capacity(capacity, view, index, held, results.get(index))
            total += whole
            used += of_held
            about += of_taken
    return ClassUsage(total, used, about)


def _of_capacity(
    capacity: str, view: PoolView, index: int, held: HeldDevices, result: DeviceResult | None
) -> tuple[int, int, int]:
    found = view.devices[index].capacity.get(capacity)
    if found is None:
        return 0, 0, 0
    whole = found.value.nano
    used = taken = 0
    if held.dedicated >> index & 1:
        used = whole
    elif held.sharing >> index & 1:
        used = held.consumed[index].get(capacity, 0)
    if result is not None:
        taken = whole
        if view.devices[index].allow_multiple_allocations:
            consumed = dict(result.consumed_capacity).get(capacity)
            taken = consumed.nano if consumed is not None else 0
    return whole, used, taken


@lru_cache(maxsize=1024)
def one_device(device_class: str) -> ClaimSpec:
    """A claim for one device of the class, equal ones for equal classes."""
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    return decode_claim_spec({"devices": {"requests": [{"name": "device", "exactly": exactly}]}})
