"""What DynamicResources keeps of one cycle: the pod's claims as PreFilter found them, and what was found for them.

Rules of this module
  1. The slot is put at the end of a PreFilter that found claims; a cycle without it has nothing to do with devices.
  2. Results are kept per claim, in the order of `unallocated`. Where nodes share an answer, its node selector may name
     another of them.

Cost: one entry in `found` for each node that Filter (or Score) asked the allocator about in this cycle.
"""

from __future__ import annotations

from msgspec import Struct, field

from allocator import Allocated, Allocation, Claim, ClaimSpec, NodeView
from scheduler.framework.status import Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import NodeName
from scheduler.model.objects import NodeAllocatableClaim
from scheduler.plugins.dynamic_resources.pre_bind import ClaimGoal
from scheduler.plugins.dynamic_resources.special_slot import SpecialClaim

FIRST_AVAILABLE_MAX = 8  # resource.k8s.io FirstAvailableDeviceRequestMaxSize


class ClaimsSlot(Struct):
    """One pod's claims in one cycle.

    Attributes:
        claims: All, in pod order, each once.
        unallocated: Those this cycle has to allocate, and `wanted` the same for the allocator.
        given_up: Keys' positions in `claims` whose binding conditions failed or took too long.
        special: The claim behind the pod's extended resources; None when it asks for none that devices could serve.
        takes_of_nodes: Some devices take of their nodes' own resources, so what is found has to be weighed.
        found: What the allocator found per node, in the order of `unallocated`, the special claim's last.
        answers: What the allocator said of nodes without devices of their own, by what they see.
        refused_count: Nodes for which the allocator found nothing.
        candidates: The only nodes worth asking about, None for all, for each set of claims; computed when many nodes
            are asked about.
        goals: What PreBind has to bring about; set by Reserve.
        of_node: What the claims take of the reserved node's own resources; the pod's status must say it.
        has_noted: Such a note was written, or may have been.
        offered: The inventory's revision and the node as Reserve saw them: what it took was published then.
        waiting_since_ms: When PreBind began to wait for binding conditions.
        waiting_drivers: The driver of each device it began to wait for.
        has_waited: The wait's end has been told.
    """

    claims: tuple[ResourceClaim, ...]
    unallocated: tuple[ResourceClaim, ...]
    wanted: tuple[Claim, ...]
    given_up: frozenset[int]
    special: SpecialClaim | None = None
    takes_of_nodes: bool = False
    found: dict[NodeName, tuple[Allocation, ...]] = field(default_factory=dict)
    answers: dict[object, Allocated | Status] = field(default_factory=dict)
    refused_count: int = 0
    candidates: dict[tuple[Claim, ...], frozenset[str] | None] = field(default_factory=dict)
    goals: tuple[ClaimGoal, ...] = ()
    offered: tuple[int, NodeView] | None = None
    of_node: tuple[NodeAllocatableClaim, ...] = ()
    has_noted: bool = False
    waiting_since_ms: int | None = None
    waiting_drivers: tuple[str, ...] = ()
    has_waited: bool = False


def preference(spec: ClaimSpec, allocation: Allocation) -> int:
    """How much the user prefers the alternatives that `allocation` chose.

    For each request with alternatives 8 for the first, … 1 for the eighth; exact requests add nothing.
    """
    chosen = {result.request for result in allocation.results}
    return sum(
        FIRST_AVAILABLE_MAX - index
        for request in spec.requests
        for index, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in chosen
    )
