"""Which devices the nearest node lacks, and who is to blame: read off the funnels of its requests.

Rules of this module
  1. Nodes with slices of their own are looked at before others, `Limits.nodes` and `Limits.devices` in all; the node
     whose devices would do for most is the nearest, and of such nodes the one where most are free.
  2. Where no device that is published would do, whatever is in use, `pool_blame` speaks.
  3. The stage that ends a request's funnel says what is blamed (`_of_funnel`); where each request has enough, what they
     are short of together.

Not here: asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from allocator import AllocationError, AllocationRequest, Explanation, Funnel, PausedError, Stage, explain
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, likeliest
from scheduler.framework.status import Status
from scheduler.model.node_info import NodeInfo
from scheduler.model.resources import counted_amounts
from scheduler.plugins.dynamic_resources.changed_claims import with_request
from scheduler.plugins.dynamic_resources.constraint_blame import blame_several, blame_unmet
from scheduler.plugins.dynamic_resources.counter_blame import blame_groups, blame_partitions
from scheduler.plugins.dynamic_resources.device_blame import (
    blame_capacity,
    blame_holders,
    blame_operations,
    blame_taints,
    blame_unread,
)
from scheduler.plugins.dynamic_resources.holder_blame import blame_stale
from scheduler.plugins.dynamic_resources.list_blame import blame_alternatives
from scheduler.plugins.dynamic_resources.near_node import NearNode
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.plugins.dynamic_resources.pool_blame import blame_unpublished
from scheduler.plugins.dynamic_resources.refused_claims import blame_claims, blame_pinned
from scheduler.plugins.dynamic_resources.selector_blame import blame_selector_errors
from scheduler.plugins.dynamic_resources.survey import within_steps
from scheduler.plugins.dynamic_resources.together_blame import blame_all
from scheduler.plugins.room_blame import less_in_container
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason, removing

_NAMES_A_STEP: Final = 40
_NODE_STEPS: Final = 20
_DEVICE_STEPS: Final = 2
_CLAIMS_STEPS: Final = 100
"""Names of claims and classes are read and compared."""


def blame_nodes(cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
    """What keeps the pod from the node that lacks least, and what would make its devices do."""
    search = cycle.find(NodeSearch)
    if not nodes:
        cycle.charge(_CLAIMS_STEPS)
        return blame_claims(cycle.pod, view)
    if search is None:
        return ()
    if not search.claims.wanted and search.claims.special is None:
        return blame_pinned(search, cycle.pod, nodes, view, limits)
    if unpublished := blame_unpublished(search, cycle, nodes, view, limits):
        return unpublished
    explained = list(_explained(search, cycle, nodes, view, limits))
    failing = [one.node for one in explained if _is_undecided(one.explanation)]
    if not explained or failing:
        return blame_selector_errors(search, cycle, [*failing, *likeliest(nodes, view)], view, limits)
    explained.sort(key=_rank)
    blames = _of_node(explained[0])
    others = [removing(change, blame) for found in explained[1:] for blame in _of_node(found) for change in blame.fixes]
    return [structs.replace(blames[0], fixes=(*blames[0].fixes, *others)), *blames[1:]] if blames else ()


# Nodes


def _explained(
    search: NodeSearch, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits
) -> Iterator[NearNode]:
    """Nodes with their funnels."""
    own = view.inventory.nodes_with_own_slices
    having = [node for node in nodes if node.name in own] or nodes
    cycle.steps_left -= len(nodes) // _NAMES_A_STEP
    devices = 0
    for node in having[:: max(1, len(having) // limits.nodes)][: limits.nodes]:
        explanation = _explain(search, cycle, node, view, limits)
        if explanation is None or not explanation.requests:
            return
        yield NearNode(search, cycle, node, view, limits, explanation)
        devices += len(explanation.requests) * explanation.requests[0].published
        if devices > limits.devices:
            return


def _explain(search: NodeSearch, cycle: Cycle, node: NodeInfo, view: ClusterView, limits: Limits) -> Explanation | None:
    wanted = search.wanted_on(node)
    wanted = search.claims.wanted if isinstance(wanted, Status) else wanted
    try:
        with within_steps(cycle, view):
            devices = view.inventory.node_pools(node.host, view.features).size
            if not wanted or devices > limits.devices:
                return None
            slots = sum(len(request.alternatives) for claim in wanted for request in claim.spec.requests)
            constraints = sum(len(claim.spec.constraints) for claim in wanted)
            cycle.steps_left -= _NODE_STEPS + devices * _DEVICE_STEPS * (slots + constraints)
            return explain(
                AllocationRequest(wanted, node.host, view.inventory, view.in_use, view.features, search.budget_steps)
            )
    except (AllocationError, PausedError):
        return None


def _is_undecided(explanation: Explanation) -> bool:
    """Whether a request's selector cannot be answered for a device; a list's alternatives are each named."""
    return any(Stage.UNDECIDED in funnels[0].removed for funnels in explanation.by_request() if len(funnels) == 1)


def _rank(found: NearNode) -> tuple[int, int, int, str]:
    """The node whose devices would do for most requests, then the one that lacks fewest of those that are free."""
    lasting = lacks = depth = 0
    for funnels in found.explanation.by_request():
        best = min(funnels, key=lambda one: one.lacks)
        lasting += min(max(0, one.needed - one.step(Stage.UNREAD).left.bit_count()) for one in funnels)
        lacks += best.lacks
        depth -= best.end.stage.depth if best.end is not None else 0
    return lasting, lacks, depth, found.node.name


# Causes


def _of_node(found: NearNode) -> list[Reason]:
    """Each request that has too few devices by itself, the lasting reasons first; or what is short together."""
    unmet = {one.claim_index for one in found.explanation.unmet}
    blames: list[tuple[int, Reason]] = []
    for funnels in found.explanation.by_request():
        if any(not one.lacks for one in funnels):
            continue
        if len(funnels) > 1:
            blames.append((len(Stage), blame_alternatives(found, funnels, _of_funnel)))
            continue
        (funnel,) = funnels
        end = funnel.end
        if end is not None and end.stage is Stage.CONSTRAINT and funnel.slot.claim in unmet:
            continue
        blames.append((end.stage.depth if end is not None else -1, _of_funnel(found, funnel)))
    said = [blame for _, blame in sorted(blames, key=lambda one: one[0])]
    said += [blame_unmet(found, one) for one in found.explanation.unmet]
    if not said:
        together = blame_all(found)
        more = [change for one in found.explanation.requests for change in _let_by(found, one, together.fixes)]
        said = [structs.replace(together, fixes=(*together.fixes, *more))]
    if found.search.claims.special is not None:
        said[0] = structs.replace(said[0], fixes=(*said[0].fixes, *_fewer_of_resources(found)))
    return said


def _of_funnel(found: NearNode, funnel: Funnel) -> Reason:
    """What is blamed for too few devices: the stage that ends the funnel chooses who speaks."""
    end = funnel.end
    match end.stage if end is not None else None:
        case Stage.CLASS_SELECTOR | Stage.REQUEST_SELECTOR:
            return _of_selectors(found, funnel)
        case Stage.SIZE | Stage.CAPACITY:
            blame = blame_capacity(found, funnel)
        case Stage.OPERATIONS:
            blame = blame_operations(found, funnel)
        case Stage.UNREAD:
            blame = blame_unread(found, funnel)
        case Stage.TAINT:
            blame = blame_taints(found, funnel)
        case Stage.IN_USE:
            blame = blame_holders(found, funnel)
        case Stage.GROUPS:
            blame = blame_groups(found, funnel)
        case Stage.COUNTERS:
            blame = blame_partitions(found, funnel)
        case Stage.CONSTRAINT:
            return blame_several(found, funnel)
        case _:
            return _too_few(found, funnel)
    if stale := blame_stale(found, funnel):
        others = [removing(one, blame) for one in blame.fixes]
        blame = structs.replace(stale, fixes=(*stale.fixes, *others))
    return structs.replace(blame, fixes=(*blame.fixes, *_let_by(found, funnel)))


def _let_by(found: NearNode, funnel: Funnel, offered: Sequence[Fix] = ()) -> Iterator[Fix]:
    """Changes for what stages before the last took: these devices would do as well, once the stage lets them."""
    end, texts = funnel.end, {change.text for change in offered}
    for stage, speaks in ((Stage.TAINT, blame_taints), (Stage.IN_USE, blame_holders), (Stage.CAPACITY, blame_capacity)):
        if stage in funnel.removed and (end is None or stage.depth < end.stage.depth):
            earlier = speaks(found, funnel)
            yield from (removing(change, earlier) for change in earlier.fixes if change.text not in texts)


def _of_selectors(found: NearNode, funnel: Funnel) -> Reason:
    """Some devices match, and too few; or those that do are of other nodes."""
    claim, slot, changes = found.claim(funnel.slot), funnel.slot, list[Fix]()
    for selector in slot.details.selectors if Stage.REQUEST_SELECTOR in funnel.removed else ():
        if claim is None:
            break
        rest = tuple([one for one in slot.details.selectors if one is not selector])
        text = f"drop or relax the selector `{selector.expression}` of {found.label(slot)}"
        changes.append(
            plain_fix(7, text, (found.node.name,), claims=(with_request(claim, funnel.request, selectors=rest),))
        )
    if funnel.step(Stage.REQUEST_SELECTOR).left:
        return _too_few(found, funnel, tuple(changes))
    about = ("selectors", funnel.claim, funnel.request)
    return plain_reason("devices-short", f"node {found.node.name}: {funnel}", about, tuple(changes))


def _too_few(found: NearNode, funnel: Funnel, changes: tuple[Fix, ...] = ()) -> Reason:
    """Not as many devices are published."""
    name, node, published = found.named(funnel.slot), found.node.name, funnel.published
    about = ("too few", funnel.claim, funnel.request)
    lasting = funnel.step(Stage.SIZE).left.bit_count()
    if not published:
        cause = f"node {node} has no devices; {name} asks for {_count(funnel)}"
    elif lasting or not funnel.removed:
        devices = f"{lasting or published} {'device' if lasting == 1 else 'devices'}"
        cause = f"node {node} has {devices} that would do for {name}, which asks for {_count(funnel)}"
    else:
        cause = f"node {node}: {funnel}"
    return plain_reason("devices-short", cause, about, (*found.fewer(funnel.slot, funnel.left), *changes))


def _count(funnel: Funnel) -> str:
    return "all that there are" if funnel.slot.is_all else str(funnel.slot.count)


def _fewer_of_resources(found: NearNode) -> Iterator[Fix]:
    """Less of an extended resource that devices serve, the most first."""
    pod, special = found.pod, found.search.claims.special
    amounts = counted_amounts(pod).requests
    for name in special.requested if special is not None else ():
        for excess in range(1, min(amounts.get(name, 0), found.limits.counts + 1)):
            if (less := less_in_container(pod, name, excess)) is None:
                continue
            text, smaller = less
            yield plain_fix(3, text, (found.node.name,), pod=smaller)
