"""DynamicResources: give pods the devices their ResourceClaims ask for.

Extension points: PreEnqueue, PreFilter, Filter, PostFilter, PreScore, Score, NormalizeScore, Reserve, PreBind, hints.
Reads: claims of the pod, slices, classes, devices in use, nodes and their pods.  Writes: claim finalizer and status.
Upstream: pkg/scheduler/framework/plugins/dynamicresources (same verdicts and reason texts; differences below).

The life of a claim here: Filter asks the allocator whether a node could serve the pod's unallocated claims. Reserve
asks again for the chosen node and returns the allocations, which the core holds from then on. PreBind compares what is
stored with what must be, claim by claim, until nothing is left to write (`pre_bind`). Unreserve takes the pod's
reservation back; an allocation that was stored stays, for this pod's next attempt or for PostFilter to free. What
somebody else has allocated instead, perhaps another process of our name for the same pod, is left alone.

Differs on purpose
  * The search is bounded by steps, not by time, and goes on in a later cycle when it takes more than one may. A node
    whose budget ran out is passed over, with upstream's words; upstream fails the whole attempt, but a retry would
    count the same steps again and other nodes may well do.
  * Results are kept per claim, so claims allocated before and claims allocated now cannot be mixed up.
  * PostFilter derives the unavailable claims from the verdicts (which may be remembered ones) and frees the first in
    pod order; upstream records them while filtering and frees a random one. A claim that a pod on a node is about to
    reserve is left alone.
  * A claim that can take no more consumers is refused in PreFilter; upstream tries again and again in PreBind.
  * A pod's special claim (extended resources) that an earlier attempt left is used if it fits (`special_slot`).
  * A device that vanished between Reserve and the write is not written.
  * What claims take of the node's own cpu and memory counts for claims that were allocated before, too
    (`node_allocatable`), and pods that wait for it wake when a pod leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from allocator import (
    INVALID_POOLS,
    Allocated,
    Allocation,
    AllocationError,
    BudgetExhausted,
    Claim,
    DeviceId,
    NodeSelectorError,
    NodeView,
    PausedError,
    Unfinished,
    Unsatisfiable,
    allocate_in_parts,
    candidate_nodes,
    check_node_selector,
    match_node_selector,
)
from scheduler.framework.api import (
    PRE_BIND_DONE,
    PRE_FILTER_SKIPPED,
    PRE_FILTERED,
    Action,
    ClusterEvent,
    ClusterView,
    Held,
    Hint,
    PostFilterResult,
    PreBindFailed,
    PreBindStep,
    PreBindWrite,
    PreFilterResult,
    ReserveResult,
    Resource,
)
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import Decision, WriteClaimStatus
from scheduler.framework.status import SKIP, SUCCESS, UNFINISHED, Status
from scheduler.model.api_rules import RESERVED_FOR_MAX
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.pod_group import group_key, is_for_group, is_reserved_for
from scheduler.plugins.dynamic_resources.binding_conditions import has_binding_conditions, is_given_up
from scheduler.plugins.dynamic_resources.binding_wait import await_binding_conditions, broken_off
from scheduler.plugins.dynamic_resources.claims_slot import ClaimsSlot, preference
from scheduler.plugins.dynamic_resources.hints import WAKES_ON, concerned_pods, hint_for
from scheduler.plugins.dynamic_resources.node_allocatable import (
    is_counted,
    is_usable_on,
    note_to_take_back,
    note_to_write,
    refuse_shared,
    shape_of_node,
    take_of_node,
)
from scheduler.plugins.dynamic_resources.pod_claims import group_of_claim, named_nodes, walk_claims
from scheduler.plugins.dynamic_resources.pre_bind import (
    ClaimGoal,
    ClaimLost,
    ClaimStored,
    is_of_another_attempt,
    next_step,
)
from scheduler.plugins.dynamic_resources.special_slot import REASON_STALE, find_special_claim, removal
from scheduler.plugins.normalize import normalize

NAME: Final = "DynamicResources"
REASON_NO_SOLUTION: Final = "cannot allocate all claims"
REASON_UNAVAILABLE: Final = "resourceclaim not available on the node"
_MANY_NODES: Final = 16


@dataclass(frozen=True, slots=True)
class DynamicResources:
    """Allocate, reserve and store devices for the claims of pods.

    Args:
        budget_steps: Largest number of (request, device) trials per node and attempt; the place of `filterTimeout`.
        binding_timeout_ms: How long a claim may take to meet its binding conditions (`bindingTimeout`), >= 1,000.
        slices: The option by which the inventory was narrowed, "" when it was not; named where no solution is found.
    """

    budget_steps: int = 200_000
    binding_timeout_ms: int = 600_000
    slices: str = ""
    weight: int = 2
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = WAKES_ON

    def pre_enqueue(self, pod: Pod, view: ClusterView) -> Status:
        problem = walk_claims(pod, view).problem if pod.spec.resource_claims else None
        return SUCCESS if problem is None else Status.unresolvable(problem)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        return hint_for(pod, change, view)

    def concerned(self, change: ClusterEvent, view: ClusterView) -> Iterable[PodUid] | None:
        return concerned_pods(change, view)

    # --- scheduling cycle ---------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        special = find_special_claim(cycle.pod, view)
        if not cycle.pod.spec.resource_claims and special is None:
            return PRE_FILTER_SKIPPED
        walk = walk_claims(cycle.pod, view)
        if walk.problem is not None:
            return PreFilterResult(Status.unresolvable(walk.problem))
        if isinstance(special, Status):
            return PreFilterResult(special)
        if not walk.claims and special is None:
            return PRE_FILTER_SKIPPED
        if special is not None and special.stored is not None and special.stored.allocation is not None:
            verdict = _refuse_allocated(special.stored, cycle.pod)
            if verdict is not None:
                return PreFilterResult(verdict)
            special.is_given_up = bool(self._given_up((special.stored,), cycle.now_ms, view))
        for claim in walk.claims:
            is_allocated = claim.allocation is not None
            verdict = _refuse_allocated(claim, cycle.pod) if is_allocated else _refuse_unallocated(claim, view)
            if verdict is not None:
                return PreFilterResult(verdict)
        unallocated = tuple([claim for claim in walk.claims if claim.allocation is None])
        wanted = tuple(
            [Claim(claim.key.namespace, claim.key.name, claim.spec) for claim in unallocated if claim.spec is not None]
        )
        cycle.put(
            ClaimsSlot(
                claims=walk.claims,
                unallocated=unallocated,
                wanted=wanted,
                given_up=self._given_up(walk.claims, cycle.now_ms, view),
                special=special,
                takes_of_nodes=is_counted(view),
            )
        )
        only_hope = named_nodes(walk.claims)
        return PRE_FILTERED if only_hope is None else PreFilterResult(SUCCESS, only_hope=only_hope)

    def shape(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        """The specs to allocate; of allocated claims which, where they can be used, and how much they please.

        Otherwise a verdict depends on the node alone. Devices that no single node owns are no exception: when they come
        into use, every node that sees them changes.
        """
        slot = cycle.get(ClaimsSlot)
        claims = tuple(
            claim.spec
            if claim.allocation is None
            else (
                claim.key,
                claim.uid,
                claim.allocation.node_selector,
                index in slot.given_up,
                preference(claim.spec, claim.allocation) if claim.spec is not None else 0,
            )
            for index, claim in enumerate(slot.claims)
        )
        if slot.takes_of_nodes:
            return (
                claims,
                slot.special.shape() if slot.special is not None else None,
                shape_of_node(cycle.pod, slot, view),
            )
        return claims if slot.special is None else (claims, slot.special.shape())

    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        slot = cycle.get(ClaimsSlot)
        host = node.host
        wanted = _wanted_on(slot, node)
        if isinstance(wanted, Status):
            return wanted
        if node.claim_users and view.features.node_allocatable_resources:
            for claim in slot.claims:
                if is_usable_on(claim.allocation, host) and (refusal := refuse_shared(claim.key, node)):
                    return refusal
        if wanted:
            # Even when another claim is unavailable here: freeing that one must not look helpful where this one fails.
            outcome = self._within_steps(self._ask, slot, wanted, host, view=view, cycle=cycle)
            if isinstance(outcome, Status):
                return outcome
        if slot.takes_of_nodes:
            of_node = take_of_node(slot, slot.found[node.name] if wanted else (), node, cycle.pod, view)
            if isinstance(of_node, Status):
                return of_node
        has_allocated = len(slot.unallocated) < len(slot.claims)
        if has_allocated and any(_is_unavailable(slot, index, host) for index in range(len(slot.claims))):
            return Status.unresolvable(REASON_UNAVAILABLE)
        return SUCCESS

    def post_filter(self, cycle: Cycle, verdicts: Mapping[NodeName, Status], view: ClusterView) -> PostFilterResult:
        slot = cycle.find(ClaimsSlot)
        if slot is None:
            return PostFilterResult(Status.unschedulable("no new claims to deallocate"))
        pod = cycle.pod
        for index, claim in enumerate(slot.claims):
            if (
                claim.allocation is not None
                and _is_ours_to_free(claim, pod, view)
                and _stands_in_the_way(slot, index, verdicts, view)
            ):
                free = WriteClaimStatus(claim.key, claim.uid, claim.revision, clear_allocation=True)
                return PostFilterResult(
                    Status.unschedulable("deallocation of ResourceClaim completed"), decisions=(free,)
                )
        for index, claim in enumerate(slot.claims):
            if _is_idle_groups(claim, pod, view) and _stands_in_the_way(slot, index, verdicts, view):
                others = tuple(consumer for consumer in claim.reserved_for if not is_for_group(consumer, pod))
                unreserve = WriteClaimStatus(claim.key, claim.uid, claim.revision, reserved_for=others)
                return PostFilterResult(
                    Status.unresolvable("ResourceClaim unreserved for PodGroup"), decisions=(unreserve,)
                )
        special = slot.special.stored if slot.special is not None else None
        if special is not None and any(REASON_STALE in status.reasons for status in verdicts.values()):
            removed = removal(special, pod)
            if removed:
                return PostFilterResult(Status.unschedulable("deletion of ResourceClaim completed"), decisions=removed)
        return PostFilterResult(Status.unschedulable("still not schedulable"))

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView) -> Status:
        slot = cycle.find(ClaimsSlot)
        if slot is None or not view.features.prioritized_list:
            return SKIP
        has_alternatives = any(request.first_available for claim in slot.wanted for request in claim.spec.requests)
        return SUCCESS if has_alternatives else SKIP

    def score(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> int:
        """How much the user prefers the alternatives this node would give; >= 0, 8 for a single first choice."""
        slot = cycle.get(ClaimsSlot)
        if node.name not in slot.found:
            # The verdict was remembered from another pod of this shape, so nothing was searched in this cycle.
            wanted = _wanted_on(slot, node)
            if not isinstance(wanted, Status):
                self._search(slot, wanted, node.host, view, _placeholder_share_ids())
        found = slot.found.get(node.name)
        if found is None:
            return 0
        fresh = zip(slot.wanted, found, strict=False)  # the special claim has no alternatives
        return sum(preference(claim.spec, allocation) for claim, allocation in fresh) + sum(
            preference(claim.spec, claim.allocation)
            for claim in slot.claims
            if claim.allocation is not None and claim.spec is not None
        )

    def normalize_score(self, cycle: Cycle, scores: dict[NodeName, int]) -> None:
        normalize(scores)

    def reserve(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> ReserveResult:
        slot = cycle.find(ClaimsSlot)
        if slot is None:
            return ReserveResult(SUCCESS)
        held: tuple[Held, ...] = ()
        found: tuple[Allocation, ...] = ()
        wanted = _wanted_on(slot, node)
        if isinstance(wanted, Status):
            return ReserveResult(Status.error(f"claim allocation not found for node: {wanted.message}"))
        if wanted:
            outcome = self._within_steps(self._take, slot, wanted, node.host, view=view, cycle=cycle)
            if outcome is UNFINISHED:
                return ReserveResult(UNFINISHED)
            if isinstance(outcome, Status):
                return ReserveResult(Status.error(f"claim allocation not found for node: {outcome.message}"))
            found = outcome.allocations
            held = tuple(
                [
                    Held(claim.key, claim.uid, allocation)
                    for claim, allocation in zip(slot.unallocated, found, strict=False)
                ]
            )
            if slot.special is not None and len(wanted) > len(slot.wanted):
                slot.special.planned = found[-1]
                held = (*held, Held(slot.special.key, slot.special.uid, found[-1]))
        if slot.takes_of_nodes:
            of_node = take_of_node(slot, found, node, cycle.pod, view)
            if isinstance(of_node, Status):
                return ReserveResult(Status.error(f"claim allocation not found for node: {of_node.message}"))
            slot.of_node = of_node
        if slot.special is not None:
            needed = slot.special.on(node)
            slot.special.chosen = needed.requests if not isinstance(needed, Status) else None
        slot.offered = (view.inventory.revision, node.host)
        planned = {one.uid: one.allocation for one in held}
        slot.goals = tuple(
            ClaimGoal(
                claim.key,
                claim.uid,
                planned.get(claim.uid),
                group.consumer if (group := group_of_claim(cycle.pod, claim.key, view)) is not None else None,
            )
            for claim in slot.claims
        )
        return ReserveResult(SUCCESS, held, slot.of_node)

    def unreserve(self, cycle: Cycle, node: NodeName, view: ClusterView) -> tuple[Decision, ...]:
        slot = cycle.find(ClaimsSlot)
        if slot is None:
            return ()
        decisions: list[Decision] = []
        for goal in slot.goals:
            stored = view.claim(goal.key)
            if stored is None or stored.uid != goal.uid or is_of_another_attempt(goal.planned, stored):
                continue
            if stored.is_reserved_for(cycle.pod.uid):
                others = tuple(consumer for consumer in stored.reserved_for if consumer.pod_uid != cycle.pod.uid)
                decisions.append(WriteClaimStatus(stored.key, stored.uid, stored.revision, reserved_for=others))
        if slot.special is not None:
            decisions.extend(slot.special.undo(view))
        decisions.extend(note_to_take_back(slot, cycle.pod.uid, view))
        return tuple(decisions)

    # --- binding cycle ------------------------------------------------------------------------------------------------

    def pre_bind(self, cycle: Cycle, node: NodeName, view: ClusterView) -> PreBindStep:
        slot = cycle.find(ClaimsSlot)
        if slot is None:
            return PRE_BIND_DONE
        assert len(slot.goals) == len(slot.claims), f"pod {cycle.pod.key}: PreBind without Reserve"
        info = view.node_infos.get(node)
        host = info.host if info is not None else NodeView(node)
        timestamp_ms = cycle.now_ms if view.features.device_binding_and_status else None
        writes: list[Decision] = []
        stored: list[ResourceClaim] = []
        for goal in slot.goals:
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
                    return PreBindFailed(Status.error(message), broken_off(slot, cycle, node, message))
                case ClaimStored(claim):
                    stored.append(claim)
                case _:
                    if refusal := _refusal(step, slot, host, view):
                        return PreBindFailed(refusal)
                    writes.append(step)
        if slot.special is not None:
            steps = slot.special.next_steps(view, host, timestamp_ms)
            if isinstance(steps, ClaimLost):
                return PreBindFailed(Status.error(steps.message))
            for write in steps.writes:
                if refusal := _refusal(write, slot, host, view):
                    return PreBindFailed(refusal)
                writes.append(write)
            if steps.stored is not None:
                stored.append(steps.stored)
        if slot.of_node or cycle.pod.status.node_allocatable_resource_claim_statuses:
            writes.extend(note_to_write(slot, writes, cycle.pod.uid, view))
        if writes:
            return PreBindWrite(tuple(writes), is_last=not [one for one in writes if type(one) is not WriteClaimStatus])
        if not view.features.device_binding_and_status:
            return PRE_BIND_DONE
        return await_binding_conditions(slot, stored, cycle, node, timeout_ms=self.binding_timeout_ms)

    # --- allocation ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _within_steps(
        ask: Callable[[ClaimsSlot, tuple[Claim, ...], NodeView, ClusterView], Allocated | Status],
        slot: ClaimsSlot,
        wanted: tuple[Claim, ...],
        host: NodeView,
        *,
        view: ClusterView,
        cycle: Cycle,
    ) -> Allocated | Status:
        """What `ask` answers, or UNFINISHED when the cycle's steps do not suffice; they are taken from it."""
        meter = view.inventory.meter
        before = meter.allow(cycle.steps_left if cycle.steps_left > 0 else 1)
        try:
            return ask(slot, wanted, host, view)
        except PausedError:
            return UNFINISHED
        finally:
            cycle.steps_left -= meter.allow_all(before)

    def _take(
        self, slot: ClaimsSlot, wanted: tuple[Claim, ...], host: NodeView, view: ClusterView
    ) -> Allocated | Status:
        """Reserve's question."""
        return self._search(slot, wanted, host, view, _share_ids(view))

    def _ask(
        self, slot: ClaimsSlot, wanted: tuple[Claim, ...], host: NodeView, view: ClusterView
    ) -> Allocated | Status:
        """Filter's question. Nodes that see the very same pools are given the answer of the first of them."""
        refusal = self._rule_out(slot, wanted, host, view)
        if refusal is not None:
            return refusal
        sight = view.inventory.shared_sight(host, view.features) if slot.special is None else None
        if sight is None:
            return self._search(slot, wanted, host, view, _placeholder_share_ids())
        outcome = slot.answers.get(sight)
        if outcome is None:
            outcome = self._search(slot, wanted, host, view, _placeholder_share_ids())
            if outcome is not UNFINISHED:
                slot.answers[sight] = outcome
        elif isinstance(outcome, Allocated):
            slot.found[NodeName(host.name)] = outcome.allocations
        return outcome

    def _search(
        self,
        slot: ClaimsSlot,
        wanted: tuple[Claim, ...],
        host: NodeView,
        view: ClusterView,
        share_ids: Iterator[str],
    ) -> Allocated | Status:
        """Ask the allocator about one node. What it finds is kept in the slot; a failure comes as a verdict."""
        try:
            outcome = allocate_in_parts(
                wanted,
                host,
                view.inventory,
                view.in_use,
                features=view.features,
                budget_steps=self.budget_steps,
                share_ids=share_ids,
            )
        except AllocationError as error:
            return Status.unresolvable(str(error)) if error.is_node_only else Status.error(str(error))
        match outcome:
            case Unfinished():
                return UNFINISHED
            case Allocated(allocations=allocations):
                slot.found[NodeName(host.name)] = allocations
                return outcome
            case BudgetExhausted():
                return Status.unresolvable(
                    f"timed out trying to allocate devices (search budget of {self.budget_steps} steps)"
                )
            case Unsatisfiable(invalid_pools=has_invalid):
                slot.refused_count += 1
                return Status.unresolvable(INVALID_POOLS) if has_invalid else self._no_solution()

    def _rule_out(
        self, slot: ClaimsSlot, wanted: tuple[Claim, ...], host: NodeView, view: ClusterView
    ) -> Status | None:
        """The allocator's refusal without asking it, for a node whose slices could never serve the claims; else None.

        Worth it for a shape that is new, when thousands of nodes refuse it, and neither for the few that changed nor
        where nodes that fit are found soon: it looks at every device of the cluster.
        """
        if slot.refused_count < _MANY_NODES:
            return None
        if wanted not in slot.candidates:
            slot.candidates[wanted] = candidate_nodes(wanted, view.inventory, view.features)
        candidates = slot.candidates[wanted]
        if candidates is None or host.name in candidates:
            return None
        has_invalid = view.inventory.node_pools(host, view.features).has_invalid
        return Status.unresolvable(INVALID_POOLS) if has_invalid else self._no_solution()

    def _no_solution(self) -> Status:
        where = f" from slices of --slices '{self.slices}'" if self.slices else ""
        return Status.unresolvable(REASON_NO_SOLUTION + where)

    def _given_up(self, claims: Sequence[ResourceClaim], now_ms: int, view: ClusterView) -> frozenset[int]:
        if not view.features.device_binding_and_status:
            return frozenset()
        return frozenset(
            [
                index
                for index, claim in enumerate(claims)
                if has_binding_conditions(claim) and is_given_up(claim, self.binding_timeout_ms, now_ms)
            ]
        )


def _refuse_allocated(claim: ResourceClaim, pod: Pod) -> Status | None:
    """Why no node needs to be asked about an allocated claim, or None."""
    if len(claim.reserved_for) >= RESERVED_FOR_MAX and not is_reserved_for(claim, pod):
        return Status.unresolvable(f"resourceclaim in use: {claim.key} has {len(claim.reserved_for)} consumers already")
    selector = claim.allocation.node_selector if claim.allocation is not None else None
    if selector is not None:
        try:
            check_node_selector(selector)
        except NodeSelectorError as error:
            return Status.error(f"claim {claim.key}: {error}")
    return None


def _refuse_unallocated(claim: ResourceClaim, view: ClusterView) -> Status | None:
    """Why no node needs to be asked about an unallocated claim, or None."""
    if view.is_held(claim.uid):
        return Status.unresolvable(f"resource claim {claim.key} is in the process of being allocated")
    if claim.spec is None:
        return Status.unresolvable(f"ResourceClaim {claim.key} cannot be read: it has no spec")
    for request in claim.spec.requests:
        if request.exactly is not None:
            refusal = _refuse_class(request.exactly.device_class_name, request.name, view)
            if refusal is not None:
                return refusal
        elif not request.first_available:
            return Status.unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
        elif not view.features.prioritized_list:
            return Status.unresolvable(
                f"resource claim {claim.key}, request {request.name}: has subrequests, but the DRAPrioritizedList "
                "feature is disabled"
            )
        for alternative in request.first_available if request.exactly is None else ():
            refusal = _refuse_class(alternative.device_class_name, f"{request.name}/{alternative.name}", view)
            if refusal is not None:
                return refusal
    return None


def _refuse_class(class_name: str, request: str, view: ClusterView) -> Status | None:
    if not class_name:
        return Status.error(f"request {request}: unsupported request type")
    if class_name not in view.inventory.classes:
        return Status.unresolvable(f"request {request}: device class {class_name} does not exist")
    return None


def _wanted_on(slot: ClaimsSlot, node: NodeInfo) -> tuple[Claim, ...] | Status:
    """What to allocate on `node`, or why its part of the special claim cannot be had there."""
    if slot.special is None:
        return slot.wanted
    needed = slot.special.on(node)
    if isinstance(needed, Status):
        return needed
    return slot.wanted if needed.wanted is None else (*slot.wanted, needed.wanted)


def _is_unavailable(slot: ClaimsSlot, index: int, host: NodeView) -> bool:
    """Whether an allocated claim cannot be used on this node (or, given up, on any)."""
    allocation = slot.claims[index].allocation
    if allocation is None:
        return False
    selector = allocation.node_selector
    return index in slot.given_up or (selector is not None and not match_node_selector(selector, host))


def _is_ours_to_free(claim: ResourceClaim, pod: Pod, view: ClusterView) -> bool:
    """Whether no other pod uses the claim, or is about to: on a node already, its reservation still under way."""
    if any(consumer.pod_uid != pod.uid for consumer in claim.reserved_for):
        return False
    others = [uid for uid in view.users_of(claim.key) if uid != pod.uid]
    return not any(uid in info.pods for uid in others for info in view.node_infos.values())


def _is_idle_groups(claim: ResourceClaim, pod: Pod, view: ClusterView) -> bool:
    """Whether an allocated claim is reserved for the pod's group, no pod of which is on a node."""
    key = group_key(pod)
    if key is None or claim.allocation is None or not any(is_for_group(one, pod) for one in claim.reserved_for):
        return False
    return not any(group_key(one) == key for info in view.node_infos.values() for one in info.pods.values())


def _stands_in_the_way(slot: ClaimsSlot, index: int, verdicts: Mapping[NodeName, Status], view: ClusterView) -> bool:
    """Whether the claim is why some node was refused that would otherwise do."""
    return any(
        status.plugin == NAME
        and REASON_UNAVAILABLE in status.reasons
        and (info := view.node_infos.get(name)) is not None
        and _is_unavailable(slot, index, info.host)
        for name, status in verdicts.items()
    )


def _refusal(write: Decision, slot: ClaimsSlot, host: NodeView, view: ClusterView) -> Status | None:
    """Why a write must not be sent: it would store an allocation of a device that is gone."""
    if not isinstance(write, WriteClaimStatus) or write.allocation is None:
        return None
    if slot.offered is not None and slot.offered[0] == view.inventory.revision and slot.offered[1] is host:
        return None  # neither slices nor node have changed since Reserve took the device
    gone = _unpublished(write.allocation, host, view)
    return Status.error(f"claim {write.claim}: device {gone} is not published any more") if gone else None


def _unpublished(allocation: Allocation, host: NodeView, view: ClusterView) -> DeviceId | None:
    """A device that no slice offers to this node any more. A pool that is being updated may still bring it back."""
    pools = view.inventory.node_pools(host, view.features)
    for device in allocation.device_ids():
        number = pools.number_of(device.pool_id)
        if number is not None:
            is_offered = pools.usable[number][0].index_of(device.device) is not None
        else:
            is_offered = any(pool.id == device.pool_id and not pool.is_usable for pool in pools.pools)
        if not is_offered:
            return device
    return None


def _placeholder_share_ids() -> Iterator[str]:
    """Share ids of allocations that nobody will store."""
    while True:
        yield ""


def _share_ids(view: ClusterView) -> Iterator[str]:
    while True:
        yield view.new_uid()
