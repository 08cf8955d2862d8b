"""The entry point: claims, a node and what is in use, to devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from allocator.answers.paused_searches import PausedSearch
from allocator.answers.question import AllocationRequest
from allocator.answers.result import build_allocations, on_node
from allocator.pools.outcome import Allocated, AllocationResult, BudgetExhausted, LastAnswer, Unfinished, Unsatisfiable
from allocator.search.problem import Problem
from allocator.search.search import Search
from allocator.search.search_state import ExhaustedError
from allocator.values.features import ALL_SHORTCUTS, Shortcuts
from allocator.values.meter import PausedError
from allocator.values.model import AllocationError

ASK_WORK: Final = 120
SLOT_WORK: Final = 40
"""Asking about a node at all, and so much for each slot, its masks of devices besides."""


def allocate(question: AllocationRequest, *, shortcuts: Shortcuts = ALL_SHORTCUTS) -> AllocationResult:
    """Pick devices for all unallocated claims of one pod on one node.

    Args:
        shortcuts: For tests; answers do not depend on them.

    Returns:
        Allocated: one allocation per claim, same order; the caller must hold them before anything else allocates.
        Unsatisfiable: the whole tree was searched.
        BudgetExhausted: nothing is known.

    Raises:
        AllocationError: a selector failed, a class is missing, too many devices are asked for, …: the pod
            fails, not the node. The text is upstream's.

    Guarantees: equal arguments give equal outcomes, whatever PYTHONHASHSEED and whatever was asked before.
    Worst case: exponential in the number of devices asked for.

    Source: `Allocate` of structured/internal/incubating/allocator_incubating.go v0.36.3. Differences:
    docs/adr/0003-allocator-oddities.md.
    """
    outcome = _allocate(question, shortcuts, pause_after=None)
    assert not isinstance(outcome, Unfinished)
    return outcome


def allocate_in_parts(question: AllocationRequest, *, pause_after: int | None = None) -> AllocationResult | Unfinished:
    """As `allocate`, but a call ends where the inventory's meter allows no more; asked again, it goes on there.

    Gathering candidates goes on where it was, because what it finds is kept; a search does, because the search is.

    Args:
        pause_after: In addition, steps and refused picks of this call, > 0, whatever they take; one more move may
            follow. None: as the meter says.
    """
    try:
        return _allocate(question, ALL_SHORTCUTS, pause_after=pause_after or question.budget_steps + 1)
    except PausedError:
        return Unfinished(0)


def _allocate(
    question: AllocationRequest, shortcuts: Shortcuts, *, pause_after: int | None
) -> AllocationResult | Unfinished:
    claims, node, inventory = question.claims, question.node, question.inventory
    meter = inventory.meter
    pools = inventory.node_pools(node, question.features)
    plan = inventory.plan([claim.spec for claim in claims], question.features)
    meter.spent += ASK_WORK
    state = pools.use_of(question.in_use).state
    last = pools.last
    is_known = last is not None and last.question == (plan.serial, state) and last.node_name in (None, node.name)
    if last is not None and is_known and last.spent <= question.budget_steps and shortcuts.last_answer:
        return _with_new_ids(last.outcome, question.share_ids) if pools.shareable else last.outcome
    is_supposed = question.in_use.is_supposed
    paused = inventory.paused.take(plan, node.name, is_supposed=is_supposed) if pause_after is not None else None
    if paused is not None and paused.pools is pools and paused.state == state:
        search, spent_before = paused.search, paused.spent_before
        search.problem.claims = claims
    else:
        spent_before = 0 if paused is None else paused.spent
        budget = question.budget_steps - spent_before
        if budget <= 0:
            return BudgetExhausted(spent_before)
        meter.spent += (SLOT_WORK + pools.size // 64) * len(plan.slots)
        problem = Problem(claims, plan, pools, question.in_use)
        problem.look_ahead()
        search = Search(problem, budget_steps=budget, shortcuts=shortcuts, meter=meter)
    try:
        found = search.run() if pause_after is None else search.run(search.spent + pause_after)
    except ExhaustedError:
        return BudgetExhausted(search.steps)
    except AllocationError as error:
        error.steps = search.steps
        raise
    if found is None:
        is_kept = inventory.paused.keep(
            PausedSearch(plan, node.name, pools, state, search, spent_before, 0, is_supposed=is_supposed)
        )
        return Unfinished(search.steps) if is_kept else BudgetExhausted(search.steps)
    if not found:
        refused = Unsatisfiable(search.steps, pools.has_invalid)
        pools.last = LastAnswer((plan.serial, state), None, search.spent, refused)
        return refused
    allocations = build_allocations(search.problem, search.picks(), node.name, question.share_ids)
    allocated = Allocated(allocations, search.steps)
    names_node = any(one.node_selector == on_node(node.name) for one in allocations)
    pools.last = LastAnswer((plan.serial, state), node.name if names_node else None, search.spent, allocated)
    return allocated


def _with_new_ids(outcome: Allocated | Unsatisfiable, share_ids: Iterator[str]) -> Allocated | Unsatisfiable:
    """An answer that was found before: ids of shares are new for each, in the order of claims and results."""
    if isinstance(outcome, Unsatisfiable):
        return outcome
    allocations = [
        replace(
            one,
            results=tuple(
                [part if part.share_id is None else replace(part, share_id=next(share_ids)) for part in one.results]
            ),
        )
        for one in outcome.allocations
    ]
    return Allocated(tuple(allocations), outcome.steps)
