"""Which devices the nearest node lacks, and why: read off the funnels of its requests.

Rules of this module
  1. Nodes with slices of their own come first, up to `Limits.nodes` nodes and `Limits.devices` devices. The nearest
     node has devices that would do for most requests; of several the one with most of them free.
  2. Where no device that is published would do, whatever is in use, `pool_reasons` speaks.
  3. The stage that ends a request's funnel gives the reason (`_of_funnel`); where each request has enough, what they
     are short of together.

Not here: asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import structs

from allocator import AllocationError, AllocationRequest, Explanation, Funnel, PausedError, Stage, explain
from allocator.requests.selectors import OPTIONAL_HINT
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, likeliest
from scheduler.framework.status import Status
from scheduler.framework.steps import within_steps
from scheduler.framework.two_stacks import beside_plugins, stacks_on
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.resources import counted_amounts
from scheduler.plugins.dynamic_resources.constraint_reasons import diagnose_several, diagnose_unmet
from scheduler.plugins.dynamic_resources.counter_reasons import diagnose_groups, diagnose_partitions
from scheduler.plugins.dynamic_resources.device_reasons import (
    diagnose_capacity,
    diagnose_features,
    diagnose_holders,
    diagnose_operations,
    diagnose_taints,
    diagnose_unread,
    diagnose_unrounded,
)
from scheduler.plugins.dynamic_resources.holder_reasons import diagnose_stale
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.plugins.dynamic_resources.pool_reasons import diagnose_unpublished
from scheduler.plugins.dynamic_resources.refused_claims import diagnose_claims, diagnose_pinned, pin_of
from scheduler.plugins.dynamic_resources.selector_reasons import diagnose_selector_errors
from scheduler.plugins.dynamic_resources.survey import Survey, surveyed
from scheduler.plugins.dynamic_resources.together_reasons import diagnose_all
from scheduler.plugins.room_reasons import less_in_container
from scheduler.why.reasons import Fix, Reason, removing
from scheduler.why.say import EVERYBODY, Sentence, names

_PLACES: Final = ("first", "second", "third")
_NAMES_A_STEP: Final = 40
_NODE_STEPS: Final = 20
_DEVICE_STEPS: Final = 2
_CLAIMS_STEPS: Final = 100
"""Names of claims and classes are read and compared."""


def diagnose_nodes(cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
    """What keeps the pod from the node that lacks least, and what would make its devices do."""
    search = cycle.find(NodeSearch)
    if not nodes:
        cycle.charge(_CLAIMS_STEPS)
        return diagnose_claims(cycle.pod, view)
    if search is None:
        return ()
    is_pinned_elsewhere = (pin := pin_of(search)) is not None and nodes[0].name not in pin.nodes
    if is_pinned_elsewhere or (not search.claims.wanted and search.claims.special is None):
        return diagnose_pinned(search, cycle.pod, nodes, view, limits)
    if unpublished := surveyed(search, cycle, nodes, view, limits, ask=diagnose_unpublished):
        return unpublished
    explained = list(_explained(search, cycle, nodes, view, limits))
    failing = [one.node for one in explained if _is_undecided(one.explanation)]
    if not explained or failing:
        near = [*failing, *likeliest(nodes, view)]
        return surveyed(search, cycle, near, view, limits, ask=_undecided)
    explained.sort(key=_rank)
    reasons = _of_node(explained[0])
    others = [
        removing(change, reason) for found in explained[1:] for reason in _of_node(found) for change in reason.fixes
    ]
    return [structs.replace(reasons[0], fixes=(*reasons[0].fixes, *others)), *reasons[1:]] if reasons else ()


def _undecided(looked: Survey) -> Iterable[Reason]:
    return [*diagnose_selector_errors(looked)] or diagnose_unrounded(looked)


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
        yield NearNode(search, cycle, view, limits, explanation.problem.plan, (node.name,), node, explanation)
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
            in_use = beside_plugins(view, stacks_on(node, view, cycle.pod)).in_use
            return explain(
                AllocationRequest(wanted, node.host, view.inventory, in_use, view.features, search.budget_steps)
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
    reasons: list[tuple[int, Reason]] = []
    for funnels in found.explanation.by_request():
        if any(not one.lacks for one in funnels):
            continue
        if len(funnels) > 1:
            reasons.append((len(Stage), _of_alternatives(found, funnels)))
            continue
        (funnel,) = funnels
        end = funnel.end
        if end is not None and end.stage is Stage.CONSTRAINT and funnel.slot.claim in unmet:
            continue
        reasons += [(end.stage.depth if end is not None else -1, _of_funnel(found, funnel)), *_besides(found, funnel)]
    said = [reason for _, reason in sorted(reasons, key=lambda one: one[0])]
    said += [diagnose_unmet(found, one) for one in found.explanation.unmet]
    if not said:
        together = diagnose_all(found)
        known = {one.same for one in together.fixes}
        offered = [fix for one in found.explanation.requests for fix in _let_by(found, one, Stage.CONSTRAINT)]
        more = [one for one in offered if one.same not in known]
        said = [structs.replace(together, fixes=(*together.fixes, *more))]
    if found.search.claims.special is not None:
        said[0] = structs.replace(said[0], fixes=(*said[0].fixes, *_fewer_of_resources(found)))
    return said


def _of_funnel(found: NearNode, funnel: Funnel) -> Reason:
    """Why there are too few devices: the stage that ends the funnel chooses who speaks."""
    end = funnel.end
    if end is None:
        return _too_few(found, funnel)
    if end.stage in _SPEAKS:
        reason = _of_stage(found, funnel, end.stage)
        return structs.replace(reason, fixes=(*reason.fixes, *_let_by(found, funnel, end.stage)))
    if end.stage is Stage.CONSTRAINT:
        return diagnose_several(found, funnel)
    return (_of_selectors if end.stage.depth <= Stage.REQUEST_SELECTOR.depth else _too_few)(found, funnel)


def _of_alternatives(found: NearNode, funnels: Sequence[Funnel]) -> Reason:
    """What keeps each alternative of a prioritized list from the node, in a few words; equal ones together."""
    slot, ways = funnels[0].slot, dict[str, tuple[Sentence, list[str]]]()
    fields: dict[str, object] = {"of": (funnels[0].claim, slot.base), "request": slot.base, "node": found.node.name}
    fixes = tuple([fix for one in funnels for fix in _of_funnel(found, one).fixes])
    if all(one.end is not None and one.end.stage is Stage.IN_USE for one in funnels):
        taken = [ids_of(one.devices(one.step(Stage.IN_USE).removed)) for one in funnels]
        devices = dict.fromkeys(itertools.chain(*taken))
        fields |= {"every": "" if any(one.left for one in funnels) else "all ", "count": len(devices)}
        fields |= {"alternatives": len(funnels), "pods": found.users(devices)}
        return Reason("alternatives-unmet", fields, "taken", fixes)
    for one in funnels:
        why = _in_short(found, one)
        ways.setdefault(why.said(EVERYBODY), (why, []))[1].append(one.slot.name)
    said = [Sentence("{names}: {why}", {"names": names(some, len(some)), "why": why}) for why, some in ways.values()]
    fields |= dict(itertools.zip_longest(_PLACES, said[: len(_PLACES)])) | {"more": len(said[len(_PLACES) :])}
    return Reason("alternatives-unmet", fields, fixes=fixes)


def _in_short(found: NearNode, funnel: Funnel) -> Sentence:
    if (end := funnel.end) is None:
        return Sentence("{there} of {needed} devices are there", {"there": funnel.left, "needed": funnel.needed})
    if end.stage is Stage.UNDECIDED:
        failure = found.explanation.failure_of(funnel).rpartition("error: ")[2].removesuffix(OPTIONAL_HINT)
        return Sentence("its selector fails: {failure}", {"failure": failure})
    fields: dict[str, object] = {"gone": end.removed.bit_count(), "all": funnel.before(end.stage).bit_count()}
    users = found.users(ids_of(funnel.devices(end.removed))) if end.stage is Stage.IN_USE else ""
    return Sentence("{gone} of {all} {stage}[ by {pods}]", {**fields, "stage": end.stage, "pods": users})


def _of_stage(found: NearNode, funnel: Funnel, stage: Stage) -> Reason:
    reason = _SPEAKS[stage](found, funnel)
    if stage.depth >= Stage.IN_USE.depth and (stale := diagnose_stale(found, funnel)):
        return structs.replace(stale, fixes=(*stale.fixes, *[removing(one, reason) for one in reason.fixes]))
    return reason


def _besides(found: NearNode, funnel: Funnel) -> Iterator[tuple[int, Reason]]:
    """What has to be lifted as well."""
    for stage in [step.stage for step in funnel.besides if step.stage in _SPEAKS]:
        reason = _of_stage(found, funnel, stage)
        yield stage.depth, structs.replace(reason, fixes=tuple(_not_fewer(reason)))


def _let_by(found: NearNode, funnel: Funnel, end: Stage) -> Iterator[Fix]:
    """Fixes of earlier stages: the devices that they refused would do as well."""
    for stage in (Stage.TAINT, Stage.IN_USE, Stage.CAPACITY):
        if stage in funnel.removed and stage.depth < end.depth:
            earlier = _of_stage(found, funnel, stage)
            yield from (removing(one, earlier) for one in _not_fewer(earlier))


def _not_fewer(reason: Reason) -> Iterator[Fix]:
    """Without those that another reason of the same request offers."""
    return (one for one in reason.fixes if one.kind != "ask-for-fewer")


def _of_selectors(found: NearNode, funnel: Funnel) -> Reason:
    """Some devices match, and too few; or those that do are of other nodes."""
    slot, fixes = funnel.slot, list[Fix]()
    for selector in slot.details.selectors if Stage.REQUEST_SELECTOR in funnel.removed else ():
        rest = tuple([one for one in slot.details.selectors if one is not selector])
        fixes += found.asking(slot, "drop-selector", {"selector": selector.expression}, selectors=rest)
    if funnel.step(Stage.REQUEST_SELECTOR).left:
        return _too_few(found, funnel, tuple(fixes))
    return structs.replace(_elsewhere(found, funnel), fixes=tuple(fixes))


def _elsewhere(found: NearNode, funnel: Funnel) -> Reason:
    """The node has none that would do; where others have, what they lack in turn."""
    nodes, fields = _offering(found, [funnel]), found.facts(funnel)
    others = (one[0].slot for one in found.explanation.by_request() if not _offering(found, one) & nodes)
    other = next(others, None) if nodes else None
    fields = {**fields, "nodes": names(sorted(nodes)), "other": found.named(other) if other is not None else ""}
    return Reason("devices-short", fields, "elsewhere")


def _offering(found: NearNode, alternatives: Sequence[Funnel]) -> set[NodeName]:
    """Nodes with devices of their own that the request accepts, in one of these ways."""
    nodes: set[NodeName] = set()
    try:
        with within_steps(found.cycle, found.view):
            for one in alternatives:
                own = found.view.inventory.offer(one.slot).own
                found.cycle.charge(len(own))
                nodes |= found.view.node_infos.keys() & own.keys()
    except (AllocationError, PausedError):
        return set()
    return nodes


def _too_few(found: NearNode, funnel: Funnel, fixes: tuple[Fix, ...] = ()) -> Reason:
    """Too few devices are published. Where none is left, asking for fewer helps only beside another fix."""
    fewer = list(found.fewer(funnel.slot, funnel.left or funnel.step(Stage.UNREAD).left.bit_count()))
    if not funnel.left:
        fewer = [structs.replace(one, reason=None) for one in fewer]  # the node can give none
    return structs.replace(_counted(found, funnel), fixes=(*fewer, *fixes))


def _counted(found: NearNode, funnel: Funnel) -> Reason:
    """How many devices are left, and what took the others."""
    known = funnel.pools.candidates_for(funnel.slot)  # a selector that fails says of none that it would do
    would = (funnel.step(Stage.UNREAD).left & ~known.failed & ~known.unknown).bit_count()
    fields = {
        **found.facts(funnel),
        "wants": "all that there are" if funnel.slot.is_all else funnel.slot.count,
        "would": would,
        "left": funnel.left or "no",
        "counts": str(funnel),
    }
    if not would:
        return Reason("devices-short", fields, "counts" if funnel.published else "nothing")
    return Reason("devices-short", fields, "" if funnel.left == would else "left")


def _fewer_of_resources(found: NearNode) -> Iterator[Fix]:
    """Less of an extended resource that devices serve: as many as are left, then fewer."""
    pod, special = found.pod, found.search.claims.special
    amounts = counted_amounts(pod).requests
    for name in special.requested if special is not None else ():
        short = [one for one in found.explanation.requests if found.resource(one.slot) == name and one.lacks]
        first = max([1, *[one.lacks for one in short]])
        for excess in range(first, amounts.get(name, 0))[: found.limits.counts]:
            if (less := less_in_container(pod, name, excess, found.node.name)) is not None:
                yield removing(less, _counted(found, short[0])) if short else less


_SPEAKS: Final[Mapping[Stage, Callable[[NearNode, Funnel], Reason]]] = {
    Stage.FEATURE: diagnose_features,
    Stage.OPERATIONS: diagnose_operations,
    Stage.SIZE: diagnose_capacity,
    Stage.UNREAD: diagnose_unread,
    Stage.TAINT: diagnose_taints,
    Stage.IN_USE: diagnose_holders,
    Stage.CAPACITY: diagnose_capacity,
    Stage.GROUPS: diagnose_groups,
    Stage.COUNTERS: diagnose_partitions,
}
"""Who speaks of the devices that a stage took."""
