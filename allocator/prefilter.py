"""Which nodes can never serve some claims: a bound from the slices alone, before any node is looked at.

For every request it compares what it needs with how many devices a node's own slices and the slices without
a node name could offer at best, whatever is in use. Nodes on which something could abort the pod are kept,
so leaving the others out changes no verdict.

Cost: the first call for a plan looks at every device once; a call after no slice changed is a dictionary
look-up, and one after some changed looks at those slices only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from allocator.features import Features
from allocator.inventory import Inventory
from allocator.model import Claim, ResourceSlice
from allocator.node_match import NodeSelectorError
from allocator.requests import Plan, RequestPlan, Slot
from allocator.slot_masks import judge

_FAILURES_MAX: Final = 8
"""Slices with a device whose selectors fail, after which a slot gets no bound: such evaluations can take long."""


def candidate_nodes(claims: Sequence[Claim], inventory: Inventory, features: Features) -> frozenset[str] | None:
    """Names of the nodes worth asking `allocate` about; None means any node.

    On every other node `allocate` would answer Unsatisfiable.
    """
    plan = inventory.plan([claim.spec for claim in claims], features)
    question = _question(plan)
    known = inventory.derived.get(question)
    if known is not None and known[0] == inventory.revision:
        nodes: frozenset[str] | None = known[1]
        return nodes
    nodes = _candidate_nodes(plan, inventory)
    inventory.derived[question] = (inventory.revision, nodes)
    return nodes


def _question(plan: Plan) -> Hashable:
    """Equal for plans that ask for as many of the same devices: classes may be many, and what they select the same."""
    if not plan.is_exact:
        return plan
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
    offers = [_offer(slot, inventory) for slot in plan.slots]
    if any(offer.shared_doubtful or offer.failures > _FAILURES_MAX for offer in offers):
        return None
    if all(any(offers[slot.index].shared >= slot.count for slot in request.slots) for request in plan.requests):
        return None
    return frozenset(name for name in inventory.nodes_with_own_slices if _could_serve(name, plan.requests, offers))


def _could_serve(node: str, requests: Sequence[RequestPlan], offers: Sequence[_Offer]) -> bool:
    return any(node in offer.doubtful for offer in offers) or all(
        any(offers[slot.index].at_most(node) >= slot.count for slot in request.slots) for request in requests
    )


class _Offer:
    """How many devices of each node's own slices, and of the others, a slot accepts; kept current by slice."""

    __slots__ = ("_entries", "_position", "_slot", "doubtful", "failures", "own", "shared", "shared_doubtful")

    def __init__(self, slot: Slot) -> None:
        self._slot: Final = slot
        self._entries: Final[dict[str, tuple[str, int, int]]] = {}
        self._position = -1
        self.own: Final[dict[str, int]] = {}
        self.doubtful: Final[dict[str, int]] = {}
        self.failures = 0
        self.shared = 0
        self.shared_doubtful = 0

    def at_most(self, node: str) -> int:
        return self.shared + self.own.get(node, 0)

    def update(self, inventory: Inventory) -> None:
        self._position, names = inventory.slices_changed_since(self._position)
        for name in names:
            if self.failures > _FAILURES_MAX:
                return
            entry = self._entries.pop(name, None)
            if entry is not None:
                self._add(entry, -1)
            slice_ = inventory.slices.get(name)
            if slice_ is not None:
                entry = self._entries[name] = self._count(slice_)
                self._add(entry, 1)

    def _count(self, slice_: ResourceSlice) -> tuple[str, int, int]:
        """Node, devices accepted, devices that cannot be decided."""
        usable = doubtful = 0
        for device in slice_.devices:
            verdict = judge(self._slot, device)
            usable += verdict.is_usable
            if verdict.failure is not None:
                doubtful = 1
                self.failures += 1
                break
        return slice_.node_name or "", usable, doubtful

    def _add(self, entry: tuple[str, int, int], sign: int) -> None:
        node, usable, doubtful = entry
        if not node:
            self.shared += sign * usable
            self.shared_doubtful += sign * doubtful
            return
        for counts, change in ((self.own, usable), (self.doubtful, doubtful)):
            total = counts.get(node, 0) + sign * change
            if total:
                counts[node] = total
            else:
                counts.pop(node, None)


def _offer(slot: Slot, inventory: Inventory) -> _Offer:
    offer = inventory.derived.get(slot.key)
    if offer is None:
        offer = inventory.derived[slot.key] = _Offer(slot)
    assert isinstance(offer, _Offer)
    offer.update(inventory)
    return offer
