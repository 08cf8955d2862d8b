"""The allocator asked about one node after another, for one pod in one cycle.

Rules of this module
  1. What is found is kept per claim, in the order of `PodClaims.unallocated`, the special claim's last. Where nodes
     share an answer, its node selector may name another of them.
  2. A search takes at most the cycle's steps (and goes on in a later one), and at most `budget_steps` in all.

Cost: one entry in `found` for each node that Filter or Score asked about in this cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, field

from allocator import (
    INVALID_POOLS,
    NO_SHARE_IDS,
    Allocated,
    Allocation,
    AllocationError,
    AllocationRequest,
    BudgetExhausted,
    Claim,
    ClaimSpec,
    Ledger,
    NodePools,
    NodeView,
    PausedError,
    Unfinished,
    Unsatisfiable,
    allocate_in_parts,
    candidate_nodes,
    only_devices,
)
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import UNFINISHED, Status
from scheduler.framework.two_stacks import beside_plugins, stacks_on, stacks_seen
from scheduler.model.held import Held
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.plugins.dynamic_resources.resolved_claims import PodClaims

FIRST_AVAILABLE_MAX: Final = 8  # resource.k8s.io FirstAvailableDeviceRequestMaxSize
REASON_NO_SOLUTION: Final = "cannot allocate all claims"
_MANY_NODES: Final = 16


class NodeSearch(Struct):
    """The questions of one cycle to the allocator, and what it has answered.

    Attributes:
        slices: The option by which the inventory was narrowed, "" when it was not; named where no solution is found.
        found: What the allocator found, by node.
        answers: What the allocator said of the pools of nodes that have none of their own. It would say it again, but
            not of a search that used up its budget, and this is a look-up for each of thousands of nodes.
        refused_count: Nodes for which the allocator found nothing.
        candidates: The only nodes worth asking about, None for all, for each set of claims; computed when many nodes
            are asked about.
    """

    claims: PodClaims
    budget_steps: int
    slices: str
    found: dict[NodeName, tuple[Allocation, ...]] = field(default_factory=dict)
    answers: dict[NodePools, Allocated | Status] = field(default_factory=dict)
    refused_count: int = 0
    candidates: dict[tuple[Claim, ...], frozenset[str] | None] = field(default_factory=dict)

    def wanted_on(self, node: NodeInfo) -> tuple[Claim, ...] | Status:
        """What to allocate on `node`, or why its part of the special claim cannot be had there."""
        special, wanted = self.claims.special, self.claims.wanted
        if special is None:
            return wanted
        needed = special.on(node)
        if isinstance(needed, Status):
            return needed
        return wanted if needed.wanted is None else (*wanted, needed.wanted)

    @staticmethod
    def seen_from(node: NodeInfo, view: ClusterView, cycle: Cycle) -> ClusterView | Status:
        """What claims see of the cluster on `node`; UNFINISHED when the cycle's steps do not suffice."""
        stacks = stacks_seen(node, view, cycle)
        return UNFINISHED if stacks is None else beside_plugins(view, stacks)

    def ask(self, wanted: tuple[Claim, ...], host: NodeView, view: ClusterView, cycle: Cycle) -> Allocated | Status:
        """Filter's question."""
        return self._within_steps(self._answer, wanted, host, view, cycle)

    def take(
        self,
        wanted: tuple[Claim, ...],
        host: NodeView,
        view: ClusterView,
        cycle: Cycle,
        kept: Collection[Held] = (),
    ) -> Allocated | Status:
        """Reserve's question: the answer will be stored, so shares of devices have ids.

        Args:
            kept: Devices that were kept for the pod on this node: it is given these, or else any.
        """
        if kept:
            found = self._within_steps(partial(self._search_kept, kept), wanted, host, view, cycle)
            if isinstance(found, Allocated):
                return found
        return self._within_steps(self._search_to_store, wanted, host, view, cycle)

    def found_on(self, node: NodeInfo, view: ClusterView, cycle: Cycle) -> tuple[Allocation, ...] | None:
        """Score's question: what Filter found, searched now where its verdict was remembered from another pod."""
        if node.name not in self.found:
            wanted = self.wanted_on(node)
            if not isinstance(wanted, Status):
                self._search(wanted, node.host, beside_plugins(view, stacks_on(node, view, cycle.pod)))
        return self.found.get(node.name)

    def held(self, found: Sequence[Allocation]) -> list[Held]:
        """What was found, by claim."""
        claims, special = self.claims.unallocated, self.claims.special
        held = [Held(claim.key, claim.uid, allocation) for claim, allocation in zip(claims, found, strict=False)]
        if special is not None and len(found) > len(held):
            held.append(Held(special.key, special.uid, found[-1]))
        return held

    @staticmethod
    def _within_steps(
        search: Callable[[tuple[Claim, ...], NodeView, ClusterView], Allocated | Status],
        wanted: tuple[Claim, ...],
        host: NodeView,
        view: ClusterView,
        cycle: Cycle,
    ) -> Allocated | Status:
        """What `search` answers, or UNFINISHED when the cycle's steps do not suffice; they are taken from it."""
        # Not `within_steps`: this is asked for thousands of nodes, and a context manager costs more than a try.
        meter = view.inventory.meter
        before = meter.allow(cycle.steps_left if cycle.steps_left > 0 else 1)
        try:
            return search(wanted, host, view)
        except PausedError:
            return UNFINISHED
        finally:
            cycle.steps_left -= meter.allow_all(before)

    def _answer(self, wanted: tuple[Claim, ...], host: NodeView, view: ClusterView) -> Allocated | Status:
        """Nodes that see the very same pools are given the answer of the first of them."""
        refusal = self._rule_out(wanted, host, view)
        if refusal is not None:
            return refusal
        is_shared = self.claims.special is None and not view.in_use.is_supposed
        pools = view.inventory.shared_pools(host, view.features) if is_shared else None
        if pools is None:
            return self._search(wanted, host, view)
        outcome = self.answers.get(pools)
        if outcome is None:
            outcome = self._search(wanted, host, view)
            if outcome is not UNFINISHED:
                self.answers[pools] = outcome
        elif isinstance(outcome, Allocated):
            self.found[NodeName(host.name)] = outcome.allocations
        return outcome

    def _search_to_store(self, wanted: tuple[Claim, ...], host: NodeView, view: ClusterView) -> Allocated | Status:
        return self._search(wanted, host, view, iter(view.new_uid, None))

    def _search_kept(
        self, kept: Collection[Held], wanted: tuple[Claim, ...], host: NodeView, view: ClusterView
    ) -> Allocated | Status:
        """As `_search_to_store`, as if all other devices of the node were in use."""
        pools = view.inventory.node_pools(host, view.features)
        devices = [device.id for pool, _ in pools.usable for device in pool.devices]
        mine = {device for held in kept for device in held.allocation.device_ids()}
        return self._search(wanted, host, view, iter(view.new_uid, None), only_devices(view.in_use, devices, mine))

    def _search(
        self,
        wanted: tuple[Claim, ...],
        host: NodeView,
        view: ClusterView,
        share_ids: Iterator[str] = NO_SHARE_IDS,
        in_use: Ledger | None = None,
    ) -> Allocated | Status:
        """Ask the allocator about one node. A failure comes as a verdict."""
        try:
            outcome = allocate_in_parts(
                AllocationRequest(
                    wanted, host, view.inventory, in_use or view.in_use, view.features, self.budget_steps, share_ids
                )
            )
        except AllocationError as error:
            return Status.unschedulable(str(error)) if error.is_of_node else Status.error(str(error))
        match outcome:
            case Unfinished():
                return UNFINISHED
            case Allocated(allocations=allocations):
                self.found[NodeName(host.name)] = allocations
                return outcome
            case BudgetExhausted():
                return Status.unresolvable(
                    f"timed out trying to allocate devices (search budget of {self.budget_steps} steps)"
                )
            case Unsatisfiable(invalid_pools=has_invalid):
                self.refused_count += 1
                return self._no_solution(has_invalid)

    def _rule_out(self, wanted: tuple[Claim, ...], host: NodeView, view: ClusterView) -> Status | None:
        """The allocator's refusal without asking it, for a node whose slices could never serve the claims; else None.

        Worth it for a signature that is new, when thousands of nodes refuse it, and neither for the few that changed
        nor where nodes that fit are found soon: it looks at every device of the cluster.
        """
        if self.refused_count < _MANY_NODES:
            return None
        if wanted not in self.candidates:
            self.candidates[wanted] = candidate_nodes(wanted, view.inventory, view.features)
        candidates = self.candidates[wanted]
        if candidates is None or host.name in candidates:
            return None
        return self._no_solution(view.inventory.node_pools(host, view.features).has_invalid)

    def refuse(self, node: NodeInfo, view: ClusterView) -> Status:
        """Where it is known without a search that there is no solution."""
        return self._no_solution(view.inventory.node_pools(node.host, view.features).has_invalid)

    def _no_solution(self, has_invalid_pools: bool) -> Status:
        if has_invalid_pools:
            return Status.unresolvable(INVALID_POOLS)
        where = f" from slices of --slices '{self.slices}'" if self.slices else ""
        return Status.unresolvable(REASON_NO_SOLUTION + where)


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
