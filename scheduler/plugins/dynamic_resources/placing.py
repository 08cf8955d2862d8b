"""`placement`: which devices and which node, by rank, for one pod in one cycle.

Rules of this module
  1. Whether a node fits is the allocator's answer. A rank chooses devices where it is known that some fit; what it
     finds for one request without constraints is itself proof that they do.
  2. What is remembered (`PlacementMemory`) is a machine's; it follows from its inputs, in their order.
  3. The workload changes at few moments; its generation is part of the shape, so scores of one workload are compared.
  4. What claims take of a node's own cpu may depend on the device: where that counts, first fit's devices are kept.

Not here: ranks and devices (`allocator.placement`), which nodes are compared (`core.ranking`).

Source: none upstream; docs/adr/0031-placement.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, field

from allocator import Allocation, AllocationError, AllocationRequest, Claim, NodePools, PausedError
from allocator.placement.choice import NO_ROOM, Chooser, Placement, Situation, allocate_picks, only_slot, picks_of
from allocator.placement.pieces import NodePieces
from allocator.placement.ranks import SCORE_MAX, Rank, Ranks, Strategy, is_absolute_rank
from allocator.placement.workload import PodShape, Workload
from allocator.requests.requests import Plan, Slot
from allocator.search.problem import Problem
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import UNFINISHED, Status
from scheduler.framework.steps import within_steps
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.resources import CPU, counted_amounts
from scheduler.plugins.dynamic_resources.bound_pods import BoundPods
from scheduler.plugins.dynamic_resources.device_equivalence import DeviceLikeness
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.plugins.dynamic_resources.resolved_claims import PodClaims
from scheduler.plugins.normalize import normalize

_SEEN_MAX: Final = 65_536
_FREED_AT_ONCE: Final = 512
_STEPS_OF_WASTE: Final = 25
"""About half of what it takes: a namespace whose pods are all of new shapes is soon at its share of the thread."""
_STEPS_OF_RANK: Final = 2
_SIMPLE_STEPS: Final = 1_000
"""A search for one request takes a step for each of its 32 devices at most: with this budget it never runs out."""
_PREFERENCE: Final = 1 << 60
_ABSOLUTE: Final = 1 << 59
_ZERO: Final = 1 << 58


def empty_some(full: list[dict[Any, Any]]) -> None:
    """Free a few entries: all of 65,536 at once takes 50 ms."""
    left = _FREED_AT_ONCE
    while full and left:
        last = full[-1]
        count = min(left, len(last))
        for _ in range(count):
            last.popitem()
        left -= count
        if not last:
            full.pop()


class PlacementMemory:
    """The workload as it is learnt, ranks for it, and the pieces of nodes that it tells apart."""

    def __init__(self, strategy: Strategy, workload: Workload | None = None) -> None:
        """`workload`: known beforehand."""
        self.strategy: Final = strategy
        self.workload: Final = workload or Workload()
        self.likeness: Final = DeviceLikeness()
        self._bound: Final = BoundPods()
        self._seen: Final[dict[PodUid, None]] = {}
        self._chooser: Chooser | None = None
        self._given_up: Final[list[dict[Any, Any]]] = []
        self._made_of: tuple[object, ...] = ()
        self._pieces: dict[NodeName, NodePieces] = {}
        self._former: dict[NodeName, NodePieces] = {}

    def catch_up(self, cycle: Cycle, view: ClusterView) -> None:
        """Count some more of the pods that ran before the first cycle, and free some of what was given up."""
        if self._chooser is not None:
            empty_some(self._chooser.ranks.full)
        if len(self._pieces) > 2 * len(view.node_infos):
            gone = self._pieces.keys() - view.node_infos.keys()
            self._given_up.append({name: self._pieces.pop(name) for name in gone})
        empty_some(self._given_up)
        if self.strategy is not Strategy.BEST_FIT:
            for uid, shape in self._bound.some(cycle, view):
                self.observe(uid, shape)

    def observe(self, uid: PodUid, shape: PodShape) -> None:
        """Count a pod that is pending, once, for ranks that look ahead."""
        if uid in self._seen or self.strategy is Strategy.BEST_FIT:
            return
        if len(self._seen) >= _SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[uid] = None
        self.workload.observe(shape)

    def chooser(self, view: ClusterView) -> Chooser:
        """For the workload in use. Raises PausedError."""
        made_of = (self.workload.generation, view.inventory.classes_revision, view.features)
        if self._chooser is None or self._made_of != made_of:
            ranks = Ranks(self.strategy, self.workload.in_use, view.inventory, view.features)
            if self._chooser is not None:
                self._given_up.extend(self._chooser.remembered())
            self._chooser, self._made_of = Chooser(ranks), made_of
            # Those that were not looked at since the last workload are forgotten: perhaps their nodes are gone.
            self._pieces, self._former = {}, self._pieces
        return self._chooser

    def pieces(self, node: NodeName, pools: NodePools, chooser: Chooser) -> NodePieces:
        """For the chooser given last. Raises PausedError."""
        pieces = self._pieces.get(node)
        if pieces is None or pieces.pools is not pools:
            former = self._former.pop(node, None)
            if former is not None and former.pools is not pools:
                former = None
            pieces = self._pieces[node] = NodePieces(pools, chooser.ranks.kinds, former)
        return pieces


class Placing(Struct):
    """The ranks of one cycle.

    Attributes:
        asked: Milli-cpu that the pod asks for.
        keeps_devices: First fit's devices are kept, and only nodes are ranked.
        ranked: What was chosen, by node.
        planned: The claims that were asked about last, their plan, and its only slot.
        leaves_choice: Whether the user orders alternatives; None when nobody has asked yet.
    """

    memory: PlacementMemory
    asked: int
    budget_steps: int
    keeps_devices: bool
    ranked: dict[NodeName, Placement] = field(default_factory=dict)
    planned: tuple[tuple[Claim, ...], Plan, Slot | None] | None = None
    leaves_choice: bool | None = None

    def fits_simply(self, wanted: tuple[Claim, ...], node: NodeInfo, view: ClusterView, cycle: Cycle) -> bool | None:
        """Whether there are devices, found without a search, which are ranked then; None: a search must say it."""
        if self.keeps_devices or self.budget_steps < _SIMPLE_STEPS or view.in_use.is_supposed:
            return None
        if self._within_steps(wanted, node, None, view, cycle) is not None:
            return None
        placement = self.ranked.get(node.name)
        if placement is NO_ROOM:
            del self.ranked[node.name]
            return False
        return None if placement is None else True

    def rank(
        self,
        wanted: tuple[Claim, ...],
        node: NodeInfo,
        found: Sequence[Allocation],
        view: ClusterView,
        cycle: Cycle,
    ) -> Status | None:
        """Choose among the devices of a node that fits; UNFINISHED when no steps are left.

        Args:
            found: First fit's devices, one allocation for each of `wanted`.
        """
        if view.in_use.is_supposed:
            return None
        return self._within_steps(wanted, node, found, view, cycle)

    def _within_steps(
        self,
        wanted: tuple[Claim, ...],
        node: NodeInfo,
        found: Sequence[Allocation] | None,
        view: ClusterView,
        cycle: Cycle,
    ) -> Status | None:
        try:
            with within_steps(cycle, view):
                self._choose(wanted, node, found, view, cycle)
        except PausedError:
            return UNFINISHED
        except AllocationError:
            pass  # the search says it, with its words
        return None

    def _choose(
        self,
        wanted: tuple[Claim, ...],
        node: NodeInfo,
        found: Sequence[Allocation] | None,
        view: ClusterView,
        cycle: Cycle,
    ) -> None:
        chooser = self.memory.chooser(view)
        pools = view.inventory.node_pools(node.host, view.features)
        pieces = self.memory.pieces(node.name, pools, chooser)
        use = pools.use_of(view.in_use)
        cpu_left = node.allocatable.get(CPU, 0) - node.requested.get(CPU, 0)
        at = Situation(pieces, pieces.states(use), cpu_left, self.asked)
        evaluations = chooser.ranks.evaluations
        placement: Placement | None = None
        if not wanted:
            placement = chooser.rank_without_devices(at)
        else:
            if self.planned is None or self.planned[0] is not wanted:
                plan = view.inventory.plan([claim.spec for claim in wanted], view.features)
                self.planned = wanted, plan, only_slot(plan)
            _, plan, slot = self.planned
            if slot is not None and not self.keeps_devices:
                placement = chooser.choose_simply(slot, at, use)
            if placement is None and found is not None:
                first = picks_of(plan, pools, found)
                if first is not None and self.keeps_devices:
                    placement = chooser.rank_picks(first, at)
                elif first is not None:
                    placement = chooser.choose(lambda: Problem(wanted, plan, pools, view.in_use), at, first)
        cycle.steps_left -= _STEPS_OF_RANK + _STEPS_OF_WASTE * (chooser.ranks.evaluations - evaluations)
        if placement is not None:
            self.ranked[node.name] = placement

    def take(
        self, wanted: tuple[Claim, ...], node: NodeInfo, search: NodeSearch, view: ClusterView, cycle: Cycle
    ) -> tuple[Allocation, ...] | None:
        """Reserve's question: allocations of the best devices; None where they are first fit's."""
        if self.keeps_devices:
            return None
        if node.name not in self.ranked and not self.fits_simply(wanted, node, view, cycle):
            found = search.found_on(node, view, cycle)
            if found is None or self.rank(wanted, node, found, view, cycle) is not None:
                return None
        placement = self.ranked.get(node.name)
        if placement is None or placement.picks is None:
            return None
        ids = iter(view.new_uid, None)
        question = AllocationRequest(
            wanted, node.host, view.inventory, view.in_use, view.features, self.budget_steps, ids
        )
        try:
            return allocate_picks(question, placement.picks)
        except AllocationError:
            return None

    def score(self, node: NodeName, preferred: int) -> int:
        """The raw score: how much the user prefers the alternatives, then the first element of the rank."""
        placement = self.ranked.get(node)
        if placement is None or not placement.rank:
            return preferred * _PREFERENCE + _ZERO
        is_absolute = is_absolute_rank(self.memory.strategy, is_counted=placement.is_counted)
        first = max(-_ZERO, min(_ZERO - 1, -placement.rank[0]))
        return preferred * _PREFERENCE + is_absolute * _ABSOLUTE + _ZERO + first

    def rank_of(self, node: NodeName) -> Rank:
        placement = self.ranked.get(node)
        return placement.rank if placement is not None else ()


def normalize_ranks(scores: dict[NodeName, int]) -> None:
    """Raw scores to 0..100: by the alternatives where they differ, else by the first element of the rank."""
    preferred = {raw // _PREFERENCE for raw in scores.values()}
    if len(preferred) > 1:
        for node, raw in scores.items():
            scores[node] = raw // _PREFERENCE
        normalize(scores)
        return
    firsts = {node: raw % _ABSOLUTE - _ZERO for node, raw in scores.items()}
    if all(raw & _ABSOLUTE for raw in scores.values()):
        for node, first in firsts.items():
            scores[node] = max(0, min(SCORE_MAX, first))
        return
    best, worst = max(firsts.values()), min(firsts.values())
    for node, first in firsts.items():
        scores[node] = SCORE_MAX - SCORE_MAX * (best - first) // (best - worst) if best > worst else SCORE_MAX


def begin_placing(
    memory: PlacementMemory, budget_steps: int, claims: PodClaims | None, cycle: Cycle, view: ClusterView
) -> Placing:
    """Count the pod, and be ready to rank nodes for it."""
    memory.catch_up(cycle, view)
    asked = counted_amounts(cycle.pod).requests.get(CPU, 0)
    specs = tuple([claim.spec for claim in claims.wanted]) if claims is not None else ()
    memory.observe(cycle.pod.uid, PodShape(asked, specs))
    return Placing(memory, asked, budget_steps, claims is not None and claims.takes_of_nodes)
