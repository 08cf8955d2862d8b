"""Which nodes can never serve some claims: a bound from the slices alone, before any node is looked at.

For every request it compares what it needs with how many devices a node's own slices and the slices without
a node name could offer at best, whatever is in use. Nodes on which something could abort the pod are kept,
so leaving the others out changes no verdict.

Cost: the first call for a plan looks at every device once, in parts where the meter says so; a call after no slice
changed is a dictionary look-up, and one after some changed looks at those slices only.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Final

from allocator.features import Features
from allocator.inventory import Inventory
from allocator.meter import Meter
from allocator.model import Claim, ResourceSlice
from allocator.node_match import NodeSelectorError
from allocator.requests import Plan, RequestPlan, Slot
from allocator.slot_masks import JUDGE_WORK, judge

_QUESTIONS_MAX: Final = 64
"""Answers kept: each may name every node."""
_PAIRS_MAX: Final = 100_000
"""Nodes times slots that are compared; where there are more, asking about each node is not much slower."""
_PAIR_WORK: Final = 3
_FAILURES_MAX: Final = 8
"""Slices with a device whose selectors fail, after which a slot gets no bound: such evaluations can take long."""


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
    """Equal for plans that ask for as many of the same devices: classes may be many, and what they select the same."""
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
    offers = [_offer(slot, inventory) for slot in plan.slots]
    if any(offer.shared_doubtful or offer.failures > _FAILURES_MAX for offer in offers):
        return None
    if all(any(offers[slot.index].shared >= slot.count for slot in request.slots) for request in plan.requests):
        return None
    inventory.meter.spent += _PAIR_WORK * pairs
    return _could_serve(inventory.nodes_with_own_slices, plan.requests, offers)


def _could_serve(nodes: Collection[str], requests: Sequence[RequestPlan], offers: Sequence[_Offer]) -> frozenset[str]:
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


class _Offer:
    """How many devices of each node's own slices, and of the others, a slot accepts; kept current by slice."""

    __slots__ = (
        "_entries",
        "_pending",
        "_position",
        "_slot",
        "doubtful",
        "failures",
        "own",
        "shared",
        "shared_doubtful",
    )

    def __init__(self, slot: Slot) -> None:
        self._slot: Final = slot
        self._entries: Final[dict[str, tuple[str, int, int]]] = {}
        self._pending: Final[dict[str, None]] = {}
        self._position = -1
        self.own: Final[dict[str, int]] = {}
        self.doubtful: Final[dict[str, int]] = {}
        self.failures = 0
        self.shared = 0
        self.shared_doubtful = 0

    def update(self, inventory: Inventory) -> None:
        """Count the slices that changed. Raises PausedError; those that were counted stay so."""
        self._position, names = inventory.slices_changed_since(self._position)
        pending = self._pending
        if names:
            pending.update(dict.fromkeys(names))
        while pending:
            if self.failures > _FAILURES_MAX:
                return
            name = next(iter(pending))
            slice_ = inventory.slices.get(name)
            counted = self._count(slice_, inventory.meter) if slice_ is not None else None
            inventory.meter.is_fresh = False
            del pending[name]
            entry = self._entries.pop(name, None)
            if entry is not None:
                self._add(entry, -1)
            if counted is not None:
                self._entries[name] = counted
                if entry is None:
                    self._slot.remembered.note_slice()
                self._add(counted, 1)

    def _count(self, slice_: ResourceSlice, meter: Meter) -> tuple[str, int, int]:
        """Node, devices accepted, devices that cannot be decided."""
        usable = doubtful = 0
        for device in slice_.devices:
            if meter.spent >= meter.stop_at:
                meter.check()
            verdict = judge(self._slot, device)
            meter.spent += JUDGE_WORK
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
