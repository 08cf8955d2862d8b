"""Could some claims be served if devices were released? A quick "no", without a search.

Each request is compared with the devices that match it and that nobody would hold then. What it does not look at
(counters, shares, constraints) can only make the answer "no" more often, so a "no" is certain and a "yes" is not.

Cost: a few operations on masks for each request and released device.
"""

from __future__ import annotations

from collections.abc import Iterable

from allocator.answers.question import AllocationRequest
from allocator.pools.node_pools import NodePools
from allocator.requests.requests import RequestPlan
from allocator.values.masks import mask_of
from allocator.values.meter import PausedError
from allocator.values.model import Allocation


def could_serve(question: AllocationRequest, released: Iterable[Allocation]) -> bool:
    """Whether the search could find something if `released` were not in use.

    Raises:
        AllocationError: as `allocate`.
    """
    inventory, features = question.inventory, question.features
    pools = inventory.node_pools(question.node, features)
    dedicated = pools.use_of(question.in_use).dedicated & ~_mask_of(released, pools)
    union = need = 0
    try:
        for request in inventory.plan([claim.spec for claim in question.claims], features).requests:
            bound = _bound(request, pools, dedicated)
            if bound is None:
                return False
            union |= bound[0]
            need += bound[1]
    except PausedError:
        return True
    return bool(union & pools.shareable) or union.bit_count() >= need


def _bound(request: RequestPlan, pools: NodePools, dedicated: int) -> tuple[int, int] | None:
    """The devices that could serve the request and how many of them it takes at least, 0 if unknown; None: too few."""
    union, counts = 0, []
    for slot in request.slots:
        candidates = pools.candidates_for(slot)
        if slot.is_admin or slot.is_all or candidates.failed | candidates.unknown:
            return 0, 0
        usable = candidates.usable & ~dedicated
        if usable.bit_count() >= slot.count or usable & pools.shareable:
            union |= usable
            counts.append(slot.count)
    return (union, min(counts)) if counts else None if request.slots else (0, 0)


def _mask_of(allocations: Iterable[Allocation], pools: NodePools) -> int:
    positions = []
    for allocation in allocations:
        for device in allocation.device_ids():
            number = pools.number_of(device.pool_id)
            if number is not None:
                view, start = pools.usable[number]
                index = view.index_of(device.device)
                if index is not None:
                    positions.append(start + index)
    return mask_of(positions)
