"""Answers of earlier searches, found again without one.

Two questions of a plan have one answer when a search would read the same for both. There are two ways to know that:

  The same pools in the same state of the ledger: everything a search reads. Reserve asks what Filter has just asked,
  and all nodes without devices of their own share their pools. One answer is kept with each node's pools.

  The same candidates, where the problem is plain: nodes of one kind differ in names, and in nothing else that a search
  reads. What searches ended with is kept with the plan.

Rules of this module
  1. A problem is plain when its answer follows from `Problem.usable` alone: no constraint, no All request, no counters,
     no device that several allocations may hold, no device that cannot be decided.
  2. What is kept is what a search ended with, a "no" as well as devices, and only for budgets that would have sufficed.
  3. Share ids are new for each allocation, in the order of claims and results; a node selector that binds an allocation
     to its node names the node that asks.

Cost: one answer for each node's pools; `_PICKS_MAX` answers for each plan, and about `_PICKS_BYTES_MAX` of masks.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from allocator.answers.question import Question
from allocator.answers.result import on_node
from allocator.pools.node_pools import NodePools
from allocator.pools.outcome import Allocated, LastAnswer, Unsatisfiable
from allocator.requests.requests import Picks, Plan
from allocator.search.problem import Problem
from allocator.values.model import Allocation

_PICKS_MAX: Final = 4096
_PICKS_BYTES_MAX: Final = 2_000_000


def last_answer(
    pools: NodePools, plan: Plan, state: tuple[int, int], question: Question
) -> Allocated | Unsatisfiable | None:
    """What was found for these pools and this plan; `state` is that of their `NodeUse`."""
    last = pools.last
    if last is None or last.plan != plan.serial or last.state != state or last.spent > question.budget_steps:
        return None
    outcome = last.outcome
    is_elsewhere = last.node_name is not None and last.node_name != question.node.name
    if isinstance(outcome, Allocated) and (last.has_shares or is_elsewhere):
        return Allocated(tuple([_renewed(one, last, question) for one in outcome.allocations]), outcome.steps)
    return outcome


def _renewed(allocation: Allocation, last: LastAnswer, question: Question) -> Allocation:
    results = allocation.results
    if last.has_shares:
        results = tuple(
            [one if one.share_id is None else replace(one, share_id=next(question.share_ids)) for one in results]
        )
    selector = allocation.node_selector
    if last.node_name is not None and selector == on_node(last.node_name):
        # No slice asked for the name: nodes that a slice names do not share their pools.
        selector = on_node(question.node.name)
    return replace(allocation, results=results, node_selector=selector)


def keep_answer(
    pools: NodePools,
    plan: Plan,
    state: tuple[int, int],
    node_name: str,
    outcome: Allocated | Unsatisfiable,
    *,
    spent: int,
) -> None:
    """Keep an answer that took `spent` of the budget."""
    has_shares = names_node = False
    if isinstance(outcome, Allocated):
        has_shares = any(one.share_id is not None for allocation in outcome.allocations for one in allocation.results)
        here = on_node(node_name)
        names_node = any(allocation.node_selector == here for allocation in outcome.allocations)
    pools.last = LastAnswer(plan.serial, state, spent, node_name if names_node else None, has_shares, outcome)


def is_plain(problem: Problem) -> bool:
    """Whether the answer follows from the candidates alone (rule 1)."""
    pools = problem.pools
    return problem.plan.is_unconstrained and not (
        pools.counting or pools.shareable or problem.sharing or any(problem.doubtful)
    )


def known_picks(problem: Problem) -> Picks | None:
    """What a search ended with for a plain problem with these candidates."""
    return problem.plan.picks.get(tuple(problem.usable))


def keep_picks(problem: Problem, found: Picks) -> None:
    """Keep what a search for a plain problem ended with."""
    known = problem.plan.picks
    key = tuple(problem.usable)
    if len(known) >= min(_PICKS_MAX, 1 + _PICKS_BYTES_MAX // ((len(key) or 1) * (problem.pools.size // 8 + 32))):
        known.clear()
    known[key] = found
