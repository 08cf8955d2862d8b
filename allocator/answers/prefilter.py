"""Which nodes can never serve some claims: a bound from the slices alone, before any node is looked at.

Each request's need is compared with the devices that a node's own slices and the slices without a node name could
offer at best, whatever is in use. A node on which something could abort the pod is always worth asking about, so no
verdict changes.

Cost: the first call for a plan looks at every device once, in parts where the meter says so. A later call looks at the
slices that have changed since; where none has, it is a dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Final

from allocator.answers.inventory import Inventory
from allocator.answers.offers import Offer
from allocator.pools.node_match import NodeSelectorError
from allocator.requests.requests import Plan, RequestPlan
from allocator.values.features import Features
from allocator.values.model import Claim

_QUESTIONS_MAX: Final = 64
"""Answers kept: each may name every node."""
_PAIRS_MAX: Final = 100_000
"""Nodes times slots that are compared; where there are more, asking about each node is not much slower."""
_PAIR_WORK: Final = 3


def candidate_nodes(claims: Sequence[Claim], inventory: Inventory, features: Features) -> frozenset[str] | None:
    """Names of the nodes worth asking `allocate` about; None means any node.

    On every other node `allocate` would answer Unsatisfiable.

    Raises:
        PausedError: more work than `inventory.meter` allows; asked again, it goes on.
    """
    plan = inventory.plan([claim.spec for claim in claims], features)
    question = _question(plan)
    known = inventory.candidates.get(question)
    if known is not None and known[0] == inventory.revision:
        return known[1]
    nodes = _candidate_nodes(plan, inventory)
    if len(inventory.candidates) >= _QUESTIONS_MAX:
        del inventory.candidates[next(iter(inventory.candidates))]
    inventory.candidates[question] = (inventory.revision, nodes)
    return nodes


def _question(plan: Plan) -> Hashable:
    """Plans with the same selectors and counts share a bound, even if they name different classes."""
    if not plan.is_exact:
        return plan.serial
    return "candidates", tuple([tuple([(slot.key, slot.count) for slot in one.slots]) for one in plan.requests])


def _candidate_nodes(plan: Plan, inventory: Inventory) -> frozenset[str] | None:
    if not plan.requests:
        return None
    if not plan.is_exact:
        # All slots fail the pod where a pool is being updated; texts to fail with do so everywhere.
        has_only_all = all(not isinstance(check, str) for claim in plan.claims for check in claim.checks)
        if not has_only_all or inventory.has_shared_slices:
            return None
        return frozenset(inventory.nodes_with_own_slices)
    try:
        inventory.check_node_selectors()
    except NodeSelectorError:
        return None
    pairs = len(inventory.nodes_with_own_slices) * len(plan.slots)
    if pairs > _PAIRS_MAX:
        return None
    offers = [inventory.offer(slot) for slot in plan.slots]
    if any(offer.shared_doubtful or not offer.is_complete for offer in offers):
        return None
    if all(any(offers[slot.index].shared >= slot.count for slot in request.slots) for request in plan.requests):
        return None
    inventory.meter.spent += _PAIR_WORK * pairs
    return _could_serve(inventory.nodes_with_own_slices, plan.requests, offers)


def _could_serve(nodes: Collection[str], requests: Sequence[RequestPlan], offers: Sequence[Offer]) -> frozenset[str]:
    serving: set[str] | None = None
    for request in requests:
        if any(offers[slot.index].shared >= slot.count for slot in request.slots):
            continue
        enough: set[str] = set()
        for slot in request.slots:
            offer = offers[slot.index]
            missing = slot.count - offer.shared
            enough |= {node for node, usable in offer.own.items() if usable >= missing}
        serving = enough if serving is None else serving & enough
    if serving is None:
        return frozenset(nodes)
    doubtful: set[str] = set().union(*(offer.doubtful for offer in offers))
    return frozenset(serving | doubtful)
