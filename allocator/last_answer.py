"""The last devices found on a node, to be found again without a search as long as nothing changed there.

A scheduler asks twice: whether a node fits, and a moment later which devices to hold. The second answer is the first
one when the plan and the node's pools are the same objects and the ledger says of these pools what it said then.

Rules of this module
  1. What is compared is everything the search reads: plan (classes and specs), pools (slices), and `NodeUse.state`,
     which changes when the ledger's entry of one of the node's pools changes.
  2. Only solutions are kept. Share ids are new for each allocation, in the order of claims and results.
  3. Nodes that share their pools share the answer, unless it names the node.

Cost: one answer a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from allocator.node_pools import NodePools
from allocator.outcome import Allocated
from allocator.problem import Problem
from allocator.requests import Plan

_KEY: Final = "last answer"


class _Last(NamedTuple):
    plan: int  # its serial: nodes would keep plans that nobody uses any more
    node_name: str | None
    state: tuple[int, int]
    spent: int
    has_shares: bool
    outcome: Allocated


def last_answer(
    pools: NodePools, plan: Plan, state: tuple[int, int], node_name: str, *, budget_steps: int, share_ids: Iterator[str]
) -> Allocated | None:
    """What was found for this plan, if it would be found again within the budget; `state` is that of `NodeUse`."""
    last = pools.derived.get(_KEY)
    if last is None or last.plan != plan.serial or last.spent > budget_steps:
        return None
    if last.node_name is not None and last.node_name != node_name:
        return None
    assert isinstance(last, _Last)
    if state != last.state:
        return None
    return _with_new_ids(last.outcome, share_ids) if last.has_shares else last.outcome


def _with_new_ids(outcome: Allocated, share_ids: Iterator[str]) -> Allocated:
    allocations = tuple(
        replace(
            allocation,
            results=tuple(
                [
                    result if result.share_id is None else replace(result, share_id=next(share_ids))
                    for result in allocation.results
                ]
            ),
        )
        for allocation in outcome.allocations
    )
    return Allocated(allocations, outcome.steps)


def remember_answer(
    problem: Problem, state: tuple[int, int], node_name: str, outcome: Allocated, *, spent: int
) -> None:
    """Keep a solution that took `spent` of the budget."""
    has_shares = any(result.share_id is not None for allocation in outcome.allocations for result in allocation.results)
    # The only thing a node has that its pools have not is its name. A slice may ask for a name itself: no harm done.
    names_node = any(
        field.key == "metadata.name"
        for allocation in outcome.allocations
        for term in (allocation.node_selector.terms if allocation.node_selector is not None else ())
        for field in term.match_fields
    )
    own_name = node_name if names_node else None
    problem.pools.derived[_KEY] = _Last(problem.plan.serial, own_name, state, spent, has_shares, outcome)
