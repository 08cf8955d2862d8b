"""What a call of `allocate` can end in: three outcomes, never two, besides an `AllocationError`."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from msgspec import Struct

from allocator.values.model import Allocation

INVALID_POOLS = "invalid resource pools were encountered"
"""Upstream's text for a node where nothing fits and a pool is broken."""


class Allocated(Struct, frozen=True):
    """Devices were found: one allocation per claim, in the order of the claims.

    The caller must hold them before anything else may allocate.
    """

    allocations: tuple[Allocation, ...]
    steps: int


class Unsatisfiable(Struct, frozen=True):
    """No combination of the devices of this node serves the claims: the whole tree was searched.

    `invalid_pools`: a broken pool was left out. Upstream answers with an error for the node then (`INVALID_POOLS`).
    """

    steps: int
    invalid_pools: bool = False


class BudgetExhausted(Struct, frozen=True):
    """The search ended before an answer: nothing is known, and "does not fit" must not be concluded."""

    steps: int


class Unfinished(Struct, frozen=True):
    """`allocate_in_parts` has not come to an outcome yet: ask again with the same arguments."""

    steps: int


AllocationResult: TypeAlias = Allocated | Unsatisfiable | BudgetExhausted


class LastAnswer(NamedTuple):
    """What was found last for a node's pools.

    Attributes:
        question: The serial of the plan (pools would keep plans that nobody uses any more), and the state of the
            `NodeUse` that was read.
        node_name: The node that allocations name; None when none does, so all nodes with these pools have this answer.
        spent: How much of the budget it took.
    """

    question: tuple[int, tuple[int, int]]
    node_name: str | None
    spent: int
    outcome: Allocated | Unsatisfiable
