"""What is given out more often than there is of it: counters and capacities that allocations exceed.

Our search never overdraws anything. Two schedulers that do not know of each other can, and so can a driver that
publishes less than before.

Only slices of a pool's newest generation count; a device that is in none of them cannot be charged.

Cost: O(devices of the pool). Not here: whole devices given twice, the ledger counts those (`in_use`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allocator.pools.in_use import PoolUse
from allocator.pools.pools import CounterId, is_ignored
from allocator.values.features import Features
from allocator.values.model import Device, ResourceSlice


def newest_slices(slices: Iterable[ResourceSlice], features: Features) -> tuple[ResourceSlice, ...]:
    """The slices of the newest generation, by name."""
    known = [slice_ for slice_ in slices if not is_ignored(slice_, features)]
    generation = max((slice_.generation for slice_ in known), default=0)
    return tuple(
        sorted((slice_ for slice_ in known if slice_.generation == generation), key=lambda slice_: slice_.name)
    )


def overdrawn_counters(slices: Sequence[ResourceSlice], use: PoolUse) -> dict[CounterId, tuple[str, ...]]:
    """Counters of which held devices consume more than there is, each with the devices that do, in slice order.

    Args:
        slices: Those of one pool, as `newest_slices` gives them.
    """
    left = {
        (counter_set.name, name): amount.nano
        for slice_ in slices
        for counter_set in slice_.shared_counters
        for name, amount in counter_set.counters
    }
    if not left:
        return {}
    consumers: dict[CounterId, dict[str, None]] = {}
    for slice_ in slices:
        for device in slice_.devices:
            if device.consumes_counters and use.holds(device.name):
                for consumed in device.consumes_counters:
                    for name, amount in consumed.counters:
                        counter = consumed.counter_set, name
                        if amount.nano and counter in left:
                            left[counter] -= amount.nano
                            consumers.setdefault(counter, {})[device.name] = None
    return {counter: tuple(devices) for counter, devices in consumers.items() if left[counter] < 0}


def overdrawn_capacities(slices: Sequence[ResourceSlice], device_name: str, use: PoolUse) -> tuple[str, ...]:
    """Capacities of a device of which its shares consume more than there is."""
    consumed = use.consumed.get(device_name)
    device = _device(slices, device_name) if consumed else None
    if consumed is None or device is None:
        return ()
    return tuple(name for name, capacity in device.capacity.items() if consumed.get(name, 0) > capacity.value.nano)


def _device(slices: Sequence[ResourceSlice], name: str) -> Device | None:
    return next((device for slice_ in slices for device in slice_.devices if device.name == name), None)
