"""Devices of one node for several pods, chosen together.

Pod by pod, the first takes what it likes best, as a whole device where a half would do, and leaves nothing to the next.
Asked about the claims of all of them at once, the allocator takes choices back across pods.

Not here: which pods are asked about, and placing them (`group_cycles`).

Cost: one search, bounded by `_STEPS` and by what its caller allows; it is not continued.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from allocator import (
    Allocated,
    Allocation,
    AllocationError,
    AllocationRequest,
    AllocationResult,
    Claim,
    PausedError,
    Unfinished,
    allocate_in_parts,
)
from scheduler.core.state.ground import Ground
from scheduler.framework.two_stacks import beside_plugins, stacks_on
from scheduler.model.keys import ClaimKey, PodUid
from scheduler.model.node_info import NodeInfo

_STEPS: Final = 5_000


def choose_jointly(
    ground: Ground, node: NodeInfo, pods: Sequence[PodUid], given: Container[ClaimKey], steps_max: int
) -> tuple[list[tuple[Allocation, ...]] | None, int]:
    """For each of `pods` what its claims could have on `node` beside those of the others, and what that took.

    Args:
        given: Claims that count as allocated. One that several of the pods use is the first one's.
        steps_max: Steps of the meter. Where they do not suffice, or no solution is found, the answer is None.
    """
    view = ground.view
    claims: list[Claim] = []
    counts: list[int] = []
    seen: set[ClaimKey] = set()
    for uid in pods:
        before = len(claims)
        for key in ground.store.claims_of(uid):
            claim = ground.store.claim(key)
            is_open = claim is not None and claim.allocation is None and claim.spec is not None
            if is_open and key not in seen and key not in given:
                assert claim is not None
                assert claim.spec is not None
                seen.add(key)
                claims.append(Claim(key.namespace, key.name, claim.spec))
        counts.append(len(claims) - before)
    outcome: AllocationResult | Unfinished | None
    ids = iter(view.new_uid, None)
    meter = view.inventory.meter
    before = meter.allow(max(1, steps_max))
    try:
        in_use = beside_plugins(view, stacks_on(node, view)).in_use
        question = AllocationRequest(tuple(claims), node.host, view.inventory, in_use, view.features, _STEPS, ids)
        outcome = allocate_in_parts(question)
    except (AllocationError, PausedError):
        outcome = None
    taken = meter.allow_all(before)
    if not isinstance(outcome, Allocated):
        return None, taken
    rest = list(outcome.allocations)
    chosen: list[tuple[Allocation, ...]] = []
    for count in counts:
        chosen.append(tuple(rest[:count]))
        del rest[:count]
    return chosen, taken
