"""DynamicResources: give pods the devices their ResourceClaims ask for.

Extension points: PreEnqueue, PreFilter, Filter, PostFilter, PreScore, Score, NormalizeScore, Reserve, PreBind, hints.
Reads: claims of the pod, slices, classes, devices in use, nodes and their pods.  Writes: claim finalizer and status.
Upstream: pkg/scheduler/framework/plugins/dynamicresources (same verdicts and reason texts; differences below).

The life of a claim: Filter asks the allocator whether a node could serve the pod's unallocated claims (`node_search`).
Reserve asks again for the chosen node and returns the allocations, which the core holds from then on. PreBind compares
each stored claim with what it must be, until nothing is left to write (`pre_bind`). Unreserve takes the pod's
reservation back; a stored allocation stays, for this pod's next attempt or for PostFilter to free (`deallocation`).
Unreserve does not touch an allocation that somebody else made, for example another process with our scheduler name.

Differs on purpose
  * The search is bounded by steps, not by time, and goes on in a later cycle when it takes more than one cycle may. A
    node whose budget ran out is passed over, with upstream's words. Upstream fails the whole attempt; but a retry would
    count the same steps again, and other nodes may fit.
  * Results are kept per claim, so claims allocated before and claims allocated now cannot be mixed up.
  * PostFilter derives the unavailable claims from the verdicts, which may be remembered, and frees the first in pod
    order; upstream records them while filtering and frees a random one. PostFilter never frees a claim that a pod on a
    node is about to reserve.
  * Pods of lower priority are preempted for devices (`releasing`), unless `preempts_for_devices` is off. While it is
    on, an attempt that frees a claim of the pod itself preempts nobody; upstream does both at once.
  * A claim that can take no more consumers is refused in PreFilter; upstream tries again and again in PreBind.
  * A special claim (extended resources) from an earlier attempt is used if it fits (`special_claim_step`).
  * A device that vanished between Reserve and the write is not written.
  * Claims that were allocated before also count for the node's own cpu and memory (`node_allocatable`), and pods that
    wait for these wake when a pod leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from allocator import Allocation, NodeView
from allocator.placement.ranks import Strategy
from scheduler.framework.api import (
    PRE_BIND_DONE,
    PRE_FILTER_SKIPPED,
    PRE_FILTERED,
    Action,
    ClusterEvent,
    Hint,
    PostFilterResult,
    PreBindFailed,
    PreBindStep,
    PreBindWrite,
    PreFilterResult,
    ReserveResult,
    Resource,
)
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import Decision, WriteClaimStatus
from scheduler.framework.diagnosis import Limits, Pin
from scheduler.framework.preemption import DryRun
from scheduler.framework.status import SKIP, SUCCESS, UNFINISHED, Status
from scheduler.framework.two_stacks import resources_on
from scheduler.model.claim import ResourceClaim
from scheduler.model.held import Held
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.plugins.dynamic_resources.binding_wait import await_binding_conditions, broken_off
from scheduler.plugins.dynamic_resources.deallocation import REASON_UNAVAILABLE, free_a_claim, nothing_to_free
from scheduler.plugins.dynamic_resources.device_causes import diagnose_nodes
from scheduler.plugins.dynamic_resources.fullness import fullness, has_alternatives, strategy_argument_errors
from scheduler.plugins.dynamic_resources.hints import WAKES_ON, concerned_pods, hint_for
from scheduler.plugins.dynamic_resources.node_allocatable import (
    note_to_take_back,
    note_to_write,
    refuse_shared,
    shape_of_node,
    take_of_node,
)
from scheduler.plugins.dynamic_resources.node_search import NodeSearch, preference
from scheduler.plugins.dynamic_resources.placing import PlacementMemory, Placing, begin_placing, normalize_ranks
from scheduler.plugins.dynamic_resources.pre_bind import (
    ClaimGoal,
    ClaimLost,
    ClaimStored,
    is_of_another_attempt,
    next_step,
)
from scheduler.plugins.dynamic_resources.pre_filter import gather_claims
from scheduler.plugins.dynamic_resources.refused_claims import pin_of
from scheduler.plugins.dynamic_resources.releasing import could_be_released, released_claims
from scheduler.plugins.dynamic_resources.reserved import Reserved
from scheduler.plugins.dynamic_resources.resolved_claims import (
    PodClaims,
    group_of_claim,
    nodes_named_by,
    walk_claims,
)
from scheduler.plugins.normalize import NODE_SCORE_MAX, normalize
from scheduler.plugins.scoring_strategies import ScoringStrategy
from scheduler.validation.field_errors import FieldError
from scheduler.why.reasons import Reason

NAME: Final = "DynamicResources"


@dataclass(frozen=True, slots=True)
class DynamicResources:
    """Allocate, reserve and store devices for the claims of pods.

    Args:
        budget_steps: Largest number of (request, device) trials per node and attempt; the place of `filterTimeout`.
        binding_timeout_ms: How long a claim may take to meet its binding conditions (`bindingTimeout`), >= 1,000.
        slices: The option `--slices`, "" without it; named in the refusal of a node.
        preempts_for_devices: Whether pods of lower priority may be removed for the devices of their claims. Off, a node
            without enough devices is no candidate, and no devices are kept for a pod that waits for others to go.
        scoring_strategy: How full nodes of the pod's devices may be; resources are device classes (`CLASS`) and
            capacities of their devices (`CLASS/CAPACITY`). None: nodes are scored by the pod's alternatives alone.
        placement: How devices and nodes are chosen among those that fit; then `scoring_strategy` is not looked at.
        memory: What placement remembers; a machine's own.
    """

    budget_steps: int = 200_000
    binding_timeout_ms: int = 600_000
    slices: str = ""
    preempts_for_devices: bool = True
    scoring_strategy: ScoringStrategy | None = None
    placement: Strategy = Strategy.FIRST_FIT
    weight: int = 2
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = WAKES_ON
    memory: PlacementMemory | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.ranks and self.memory is None:
            object.__setattr__(self, "memory", PlacementMemory(self.placement))

    @property
    def ranks(self) -> bool:
        return self.placement is not Strategy.FIRST_FIT

    def pre_enqueue(self, pod: Pod, view: ClusterView) -> Status:
        problem = walk_claims(pod, view).problem if pod.spec.resource_claims else None
        return SUCCESS if problem is None else Status.unresolvable(problem)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        return hint_for(pod, change, view)

    def concerned(self, change: ClusterEvent, view: ClusterView) -> Iterable[PodUid] | None:
        return concerned_pods(change, view)

    # --- scheduling cycle ---------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        cycle.put(_ASKED)
        claims = gather_claims(cycle.pod, view, now_ms=cycle.now_ms, binding_timeout_ms=self.binding_timeout_ms)
        if self.memory is not None and not isinstance(claims, Status) and not view.inventory.is_supposed:
            cycle.put(begin_placing(self.memory, self.budget_steps, claims, cycle, view))
            if claims is None:
                return PRE_FILTERED
        if claims is None:
            return PRE_FILTER_SKIPPED
        if isinstance(claims, Status):
            return PreFilterResult(claims)
        cycle.put(claims)
        cycle.put(NodeSearch(claims, self.budget_steps, self.slices))
        named = nodes_named_by(claims.claims)
        return PRE_FILTERED if named is None else PreFilterResult(SUCCESS, possible_nodes=named)

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        """The specs to allocate; of each allocated claim its identity, its nodes, and the user's preference for it.

        All else that a verdict depends on belongs to the node. That includes devices that no single node owns: when
        they come into use, every node that sees them changes.
        """
        placing = cycle.find(Placing)
        if placing is None:
            return self._shape_of_claims(cycle.get(PodClaims), cycle, view)
        found = cycle.find(PodClaims)
        claims = self._shape_of_claims(found, cycle, view) if found is not None else None
        return claims, placing.asked, placing.memory.workload.generation

    @staticmethod
    def _shape_of_claims(pod_claims: PodClaims, cycle: Cycle, view: ClusterView) -> Hashable:
        claims = tuple(
            claim.spec
            if claim.allocation is None
            else (
                claim.key,
                claim.uid,
                claim.allocation.node_selector,
                claim.allocation.skips_operations,
                index in pod_claims.given_up,
                preference(claim.spec, claim.allocation) if claim.spec is not None else 0,
            )
            for index, claim in enumerate(pod_claims.claims)
        )
        special = pod_claims.special.signature() if pod_claims.special is not None else None
        if pod_claims.takes_of_nodes:
            return claims, special, shape_of_node(cycle.pod, pod_claims, view)
        return claims if special is None else (claims, special)

    def knows_likeness(self, cycle: Cycle, view: ClusterView) -> bool:
        """Unless claims are bound to nodes already, or take of a node's own resources."""
        claims = cycle.find(PodClaims)
        if self.memory is None or (claims is None and cycle.find(NodeSearch) is not None):
            return False
        return claims is None or not (
            claims.special is not None or claims.takes_of_nodes or len(claims.unallocated) < len(claims.claims)
        )

    def likeness(self, node: NodeInfo, view: ClusterView) -> Hashable | None:
        if self.memory is None or node.claim_users or resources_on(node, view):
            return None
        return self.memory.likeness.of(node.host, view)

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        placing = cycle.find(Placing)
        search = cycle.find(NodeSearch)
        if search is None:
            return placing.rank((), node, (), view, cycle) or SUCCESS if placing is not None else SUCCESS
        claims = search.claims
        host = node.host
        wanted = search.wanted_on(node)
        if isinstance(wanted, Status):
            return wanted
        seen = search.seen_from(node, view, cycle) if wanted else view
        if isinstance(seen, Status):
            return seen
        if refusal := refuse_shared(claims, cycle.pod, node, view):
            return refusal
        is_ranked = placing.fits_simply(wanted, node, seen, cycle) if placing is not None and wanted else None
        if is_ranked is False:
            return search.refuse(node, view)
        if wanted and not is_ranked:
            # Also when an allocated claim is unavailable: freeing it must not look helpful where this search fails.
            outcome = search.ask(wanted, host, seen, cycle)
            if isinstance(outcome, Status):
                return outcome
        if claims.takes_of_nodes:
            takes = take_of_node(claims, search.found[node.name] if wanted else (), node, cycle.pod, view)
            if isinstance(takes, Status):
                return takes
        has_allocated = len(claims.unallocated) < len(claims.claims)
        if has_allocated and any(claims.is_unavailable(index, host) for index in range(len(claims.claims))):
            return Status.unresolvable(REASON_UNAVAILABLE)
        if placing is not None and not is_ranked:
            return placing.rank(wanted, node, search.found.get(node.name, ()), seen, cycle) or SUCCESS
        return SUCCESS

    def post_filter(
        self, cycle: Cycle, verdicts: Mapping[NodeName, Status], view: ClusterView, dry_run: DryRun
    ) -> PostFilterResult:
        if cycle.find(_Asked) is None:
            # A plugin before this one refused all nodes. Upstream's words for that, which end PostFilter.
            return PostFilterResult(Status.error("not found"))
        claims = cycle.find(PodClaims)
        if claims is None:
            return nothing_to_free(view, Status.unschedulable("no new claims to deallocate"))
        freed = free_a_claim(claims, cycle.pod, verdicts, view)
        if freed.decisions and self.preempts_for_devices:
            # Perhaps that suffices: no pod should go before it was tried.
            return replace(freed, status=Status.unresolvable(*freed.status.reasons))
        return freed

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        return diagnose_nodes(cycle, nodes, view, limits)

    def pin(self, cycle: Cycle) -> Pin | None:
        search = cycle.find(NodeSearch)
        return pin_of(search) if search is not None else None

    @property
    def releases(self) -> bool:
        return self.preempts_for_devices

    def may_help(self, cycle: Cycle, node: NodeInfo, status: Status, view: ClusterView) -> bool:
        return could_be_released(cycle, node, status, view)

    def released(self, pod: Pod, node: NodeInfo, removed: Collection[PodUid], view: ClusterView) -> tuple[Held, ...]:
        return released_claims(pod, node, removed, view)

    def given(self, cycle: Cycle, node: NodeInfo) -> tuple[Held, ...]:
        search = cycle.find(NodeSearch)
        return tuple(search.held(search.found.get(node.name, ()))) if search is not None else ()

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView) -> Status:
        claims = cycle.find(PodClaims)
        if self.ranks:
            return SUCCESS
        if claims is None:
            return SKIP
        return SUCCESS if self.scoring_strategy is not None or has_alternatives(claims, view) else SKIP

    def score(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> int:
        """How much the user prefers the alternatives this node would give; >= 0, 8 for a single first choice.

        With a strategy: its score, 0..100, which decides between nodes whose alternatives are equally good.
        """
        placing = cycle.find(Placing)
        if placing is not None:
            if placing.leaves_choice is None:
                claims_of_pod = cycle.find(PodClaims)
                placing.leaves_choice = claims_of_pod is not None and has_alternatives(claims_of_pod, view)
            return placing.score(node.name, self._preferred(cycle, node, view) if placing.leaves_choice else 0)
        search = cycle.get(NodeSearch)
        found = search.found_on(node, view, cycle)
        if found is None:
            return 0
        preferred = self._preferred(cycle, node, view)
        if self.scoring_strategy is None:
            return preferred
        return preferred * (NODE_SCORE_MAX + 1) + fullness(self.scoring_strategy, node, view, found)

    @staticmethod
    def _preferred(cycle: Cycle, node: NodeInfo, view: ClusterView) -> int:
        search = cycle.get(NodeSearch)
        found = search.found_on(node, view, cycle)
        if found is None:
            return 0
        claims = search.claims
        fresh = zip(claims.wanted, found, strict=False)  # the special claim has no alternatives
        return sum(preference(claim.spec, allocation) for claim, allocation in fresh) + sum(
            preference(claim.spec, claim.allocation)
            for claim in claims.claims
            if claim.allocation is not None and claim.spec is not None
        )

    def rank(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> tuple[int, ...]:
        return cycle.get(Placing).rank_of(node.name)

    def normalize_score(self, cycle: Cycle, scores: dict[NodeName, int]) -> None:
        if self.ranks:
            normalize_ranks(scores)
            return
        # The score of a strategy means something by itself, as NodeResourcesFit's.
        if max(scores.values(), default=0) > NODE_SCORE_MAX or self.scoring_strategy is None:
            normalize(scores)

    def reserve(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> ReserveResult:
        search = cycle.find(NodeSearch)
        if search is None:
            return ReserveResult(SUCCESS)
        claims = search.claims
        special = claims.special
        wanted = search.wanted_on(node)
        if isinstance(wanted, Status):
            return _not_found(wanted)
        found: tuple[Allocation, ...] = ()
        if wanted:
            seen = search.seen_from(node, view, cycle)
            if isinstance(seen, Status):
                return ReserveResult(seen)
            preemption = view.preemption_of(cycle.pod.uid)
            kept = preemption.given if preemption is not None and preemption.node == node.name else ()
            placing = cycle.find(Placing)
            chosen = placing.take(wanted, node, search, seen, cycle) if placing is not None and not kept else None
            if chosen is None:
                outcome = search.take(wanted, node.host, seen, cycle, kept)
                if outcome is UNFINISHED:
                    return ReserveResult(UNFINISHED)
                if isinstance(outcome, Status):
                    return _not_found(outcome)
                chosen = outcome.allocations
            found = chosen
        held = search.held(found)
        planned = {one.uid: one.allocation for one in held}
        special_planned = found[-1] if len(found) > len(claims.unallocated) else None
        takes = take_of_node(claims, found, node, cycle.pod, view) if claims.takes_of_nodes else ()
        if isinstance(takes, Status):
            return _not_found(takes)
        cycle.put(
            Reserved(
                goals=tuple(
                    [
                        ClaimGoal(
                            claim.key,
                            claim.uid,
                            planned.get(claim.uid),
                            group.consumer
                            if (group := group_of_claim(cycle.pod, claim.key, view)) is not None
                            else None,
                        )
                        for claim in claims.claims
                    ]
                ),
                special=special.goal_on(node, special_planned) if special is not None else None,
                takes=takes,
                node=node.host,
                inventory_revision=view.inventory.revision,
            )
        )
        return ReserveResult(SUCCESS, tuple(held), takes)

    def unreserve(self, cycle: Cycle, node: NodeName, view: ClusterView) -> tuple[Decision, ...]:
        reserved = cycle.find(Reserved)
        if reserved is None:
            return ()
        decisions: list[Decision] = []
        for goal in reserved.goals:
            stored = view.claim(goal.key)
            if stored is None or stored.uid != goal.uid or is_of_another_attempt(goal.planned, stored):
                continue
            if stored.is_reserved_for(cycle.pod.uid):
                others = tuple(consumer for consumer in stored.reserved_for if consumer.pod_uid != cycle.pod.uid)
                decisions.append(WriteClaimStatus(stored.key, stored.uid, stored.revision, reserved_for=others))
        if reserved.special is not None:
            decisions.extend(reserved.special.undo(view))
        decisions.extend(note_to_take_back(cycle, view))
        return tuple(decisions)

    # --- binding cycle ------------------------------------------------------------------------------------------------

    def pre_bind(self, cycle: Cycle, node: NodeName, view: ClusterView) -> PreBindStep:
        if cycle.find(PodClaims) is None:
            return PRE_BIND_DONE
        reserved = cycle.get(Reserved)
        info = view.node_infos.get(node)
        host = info.host if info is not None else NodeView(node)
        timestamp_ms = cycle.now_ms if view.features.device_binding_and_status else None
        writes: list[Decision] = []
        stored: list[ResourceClaim] = []
        for goal in reserved.goals:
            step = next_step(
                goal,
                view.claim(goal.key),
                cycle.pod,
                host,
                is_held=view.is_held(goal.uid),
                allocation_timestamp_ms=timestamp_ms,
            )
            match step:
                case ClaimLost(message):
                    return PreBindFailed(Status.error(message), broken_off(cycle, node, message))
                case ClaimStored(claim):
                    stored.append(claim)
                case _:
                    writes.append(step)
        if reserved.special is not None:
            steps = reserved.special.next_steps(view, host, timestamp_ms)
            if isinstance(steps, ClaimLost):
                return PreBindFailed(Status.error(steps.message))
            writes.extend(steps.writes)
            if steps.stored is not None:
                stored.append(steps.stored)
        for write in writes:
            if refusal := reserved.refuse(write, host, view):
                return PreBindFailed(refusal)
        if reserved.takes or cycle.pod.status.node_allocatable_resource_claim_statuses:
            writes.extend(note_to_write(cycle, reserved.takes, writes, view))
        if writes:
            return PreBindWrite(tuple(writes), is_last=not [one for one in writes if type(one) is not WriteClaimStatus])
        if not view.features.device_binding_and_status:
            return PRE_BIND_DONE
        return await_binding_conditions(stored, cycle, node, timeout_ms=self.binding_timeout_ms)


class _Asked:
    """PreFilter was called."""


_ASKED: Final = _Asked()


def argument_errors(plugin: DynamicResources) -> list[FieldError]:
    """What is wrong with the plugin's arguments, by paths within them."""
    return strategy_argument_errors(plugin.scoring_strategy)


def _not_found(refusal: Status) -> ReserveResult:
    return ReserveResult(Status.error(f"claim allocation not found for node: {refusal.message}"))
