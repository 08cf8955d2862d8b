"""What the allocator is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final

from msgspec import Struct

from allocator.answers.inventory import Inventory
from allocator.pools.in_use import Ledger
from allocator.values.features import Features
from allocator.values.model import Claim, NodeView

NO_SHARE_IDS: Final = repeat("")
"""The share ids of allocations that nobody will store."""


class AllocationRequest(Struct, frozen=True, eq=False):
    """Which devices of this node could serve all unallocated claims of one pod?

    Attributes:
        claims: In pod-spec order, none allocated; each has 0..32 requests.
        inventory: Read; its caches may grow.
        in_use: What other allocations hold; read, its caches may grow.
        budget_steps: Largest number of steps plus refused picks, > 0. A count, not a time.
        share_ids: Gives a new id for each share of a device that several allocations may hold, in the order of claims
            and results; asked only when a solution was found.
    """

    claims: Sequence[Claim]
    node: NodeView
    inventory: Inventory
    in_use: Ledger
    features: Features
    budget_steps: int
    share_ids: Iterator[str] = NO_SHARE_IDS
