"""Devices in use that their pool does not publish any more, where what it publishes now may be the same hardware.

A driver that turns a whole device into partitions (or partitions it anew) publishes other devices in a new generation
of the pool. A claim that has one of the old devices keeps it, but the counters that partitions share know nothing of
it: they are consumed by published devices only. So the hardware is given out again, by upstream's allocator too.

Not here: devices that a pool without partitions withdraws: nothing is given out in their place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from allocator.values.model import ResourceSlice


def vanished_devices(slices: Sequence[ResourceSlice], held: Collection[str]) -> tuple[str, ...] | None:
    """Names of held devices that a pool of partitions does not have any more, sorted.

    Args:
        slices: Those of one pool, as `newest_slices` gives them.

    Returns:
        None while slices are missing: nothing is given out then, and nothing is known.
    """
    if not held:
        return ()
    if not slices or any(slice_.resource_slice_count != len(slices) for slice_ in slices):
        return None
    if not any(slice_.shared_counters for slice_ in slices):
        return ()
    published = {device.name for slice_ in slices for device in slice_.devices}
    return tuple(sorted(name for name in held if name not in published))
