"""Pools as their drivers publish them: newest generation, whether it is complete, what is left of its counters."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from allocator import Inventory, Ledger, PoolId, ResourceSlice
from allocator.pools.pools import PoolView
from scheduler.inventory.answer import Counter, PoolSummary
from scheduler.inventory.users import amount_text


def pool_ids(inventory: Inventory) -> list[PoolId]:
    """All pools, by driver and name."""
    return sorted({slice_.pool_id for slice_ in inventory.slices.values()})


def newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of the newest generation, by name."""
    known = sorted(slices, key=lambda slice_: slice_.name)
    generation = max(slice_.generation for slice_ in known)
    return [slice_ for slice_ in known if slice_.generation == generation]


def pool_summary(inventory: Inventory, pool: PoolId, views: Collection[PoolView], in_use: Ledger) -> PoolSummary:
    """A pool, with what nodes make of it.

    Args:
        views: The pool as nodes see it; none where no node does.
    """
    slices = inventory.slices_of_pool(pool).values()
    current = newest(slices)
    counts = {slice_.resource_slice_count for slice_ in current}
    state: Literal["complete", "incomplete", "invalid"] = "complete"
    reason = next((view.invalid_reason for view in views if view.invalid_reason), "")
    if reason:
        state = "invalid"
    elif len(counts) > 1:
        state, reason = "incomplete", f"its slices disagree about how many there are: {sorted(counts)}"
    elif len(current) != min(counts):
        state, reason = "incomplete", f"{len(current)} of {min(counts)} slices are there"
    counters = {}
    for view in views:
        left = view.counters_left(in_use.pools.get(pool))
        for (counter_set, name), total, rest in zip(view.counter_ids, view.counters, left, strict=True):
            counters[counter_set, name] = (total, rest)
    return PoolSummary(
        driver=pool.driver,
        pool=pool.pool,
        generation=current[0].generation,
        slices=len(current),
        expected=max(counts),
        superseded=len(slices) - len(current),
        state=state,
        reason=reason,
        nodes=tuple(sorted({slice_.node_name for slice_ in slices if slice_.node_name})),
        devices=sum(len(slice_.devices) for slice_ in current),
        counters=tuple(
            Counter(counter_set=counter_set, counter=name, total=amount_text(total), left=amount_text(rest))
            for (counter_set, name), (total, rest) in sorted(counters.items())
        ),
    )
