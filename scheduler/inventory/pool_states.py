"""Pools as their drivers publish them: newest generation, whether it is complete, what is left of its counters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from allocator import INCOMPLETE_FAULTS, INVALID_FAULTS, Fault, Inventory, PoolId, ResourceSlice
from scheduler.inventory.device_answer import CounterSummary, PoolSummary
from scheduler.inventory.partition_profiles import CounterId
from scheduler.inventory.users import amount_text


def pool_ids(inventory: Inventory) -> list[PoolId]:
    """All pools, by driver and name."""
    return sorted({slice_.pool_id for slice_ in inventory.slices.values()})


def newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of the newest generation, by name; also those of which this release's features say nothing."""
    known = sorted(slices, key=lambda slice_: slice_.name)
    generation = max((slice_.generation for slice_ in known), default=0)
    return [slice_ for slice_ in known if slice_.generation == generation]


def pool_summary(
    slices: Collection[ResourceSlice], faults: Iterable[Fault], counters: Mapping[CounterId, tuple[int, int]]
) -> PoolSummary:
    """A pool.

    Args:
        slices: All of it, of any generation.
        counters: What each holds, and what allocations leave of it.
    """
    current = newest(slices)
    state: Literal["complete", "incomplete", "invalid"] = "complete"
    reason = ""
    for fault in faults:
        if fault.kind in INCOMPLETE_FAULTS or fault.kind in INVALID_FAULTS:
            state, reason = "incomplete" if fault.kind in INCOMPLETE_FAULTS else "invalid", fault.text
            break
    pool = current[0].pool_id
    return PoolSummary(
        driver=pool.driver,
        pool=pool.pool,
        generation=current[0].generation,
        slices=len(current),
        expected=max(slice_.resource_slice_count for slice_ in current),
        superseded=len(slices) - len(current),
        state=state,
        reason=reason,
        nodes=tuple(sorted({slice_.node_name for slice_ in slices if slice_.node_name})),
        devices=sum(len(slice_.devices) for slice_ in current),
        counters=tuple(
            CounterSummary(counter_set=counter_set, counter=name, total=amount_text(total), left=amount_text(rest))
            for (counter_set, name), (total, rest) in sorted(counters.items())
        ),
    )
