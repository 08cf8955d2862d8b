"""Which devices the nearest node lacks, and who is to blame: counted by the allocator, request by request.

Rules of this module
  1. Nodes with slices of their own are looked at before others, `_NODES_MAX` and `_DEVICES_MAX` devices in all; the
     node that lacks the fewest devices is the nearest. Changes are tried on the nearest three.

Not here: asking as if a change were made (`core.causes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from allocator import AllocationError, PausedError, Question, Stage, Taint, explain, prevent_allocation
from allocator.answers.explain import Explanation, RequestExplanation
from allocator.values.model import Toleration
from cel.quantity import Quantity
from scheduler.framework.blame import Blame, Change, Limits, likeliest, pod_text, taint_text, toleration_text
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.held import Held
from scheduler.framework.status import Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.resources import counted_amounts
from scheduler.plugins.dynamic_resources.changed_claims import alternative_of, label_of, with_request
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.plugins.dynamic_resources.pool_blame import blame_unpublished
from scheduler.plugins.dynamic_resources.refused_claims import blame_claims, blame_pinned
from scheduler.plugins.dynamic_resources.selector_blame import blame_selector_errors
from scheduler.plugins.room_blame import less_in_container

_NODES_CHANGED: Final = 3
_NAMES_A_STEP: Final = 40
_NODE_STEPS: Final = 20
_DEVICE_STEPS: Final = 2
_SEARCH_STEPS: Final = 200
_CLAIMS_STEPS: Final = 100
"""Names of claims and classes are read and compared."""
_USERS_NAMED: Final = 4
_NANO: Final = 10**9


def blame_nodes(cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Blame]:
    """The node that lacks fewest devices, and what would make its devices do."""
    search = cycle.find(NodeSearch)
    if not nodes:
        cycle.charge(_CLAIMS_STEPS)
        return blame_claims(cycle.pod, view)
    if search is None:
        return ()
    if not search.claims.wanted and search.claims.special is None:
        return blame_pinned(search, nodes, view, limits)
    if found := blame_unpublished(search, cycle, nodes, view, limits):
        return found
    explained = list(_explained(search, cycle, nodes, view, limits))
    failing = [node for _, node, explanation in explained if _is_undecided(explanation)]
    if not explained or failing:
        return blame_selector_errors(search, cycle, [*failing, *likeliest(nodes, view)], view, limits)
    explained.sort(key=_rank)
    lacks, node, explanation = explained[0]
    changes = [
        change
        for _, near, why in explained[:_NODES_CHANGED]
        for change in _changes(cycle.pod, search, near, why, view, limits)
    ]
    if not lacks:  # what is in the way shows only while devices are picked
        explanation = _explain(search, cycle, node, view, limits, _SEARCH_STEPS) or explanation
    kind = tuple([(one.claim, one.request, *one.removed, *one.refused) for one in explanation.requests])
    return (Blame("devices-short", _worded(explanation), kind, tuple(changes)),)


def _is_undecided(explanation: Explanation) -> bool:
    """Whether a selector cannot be answered for a device: it is neither removed nor left."""
    return any(one.left + sum(one.removed.values()) < one.published for one in explanation.requests)


def _rank(explained: tuple[int, NodeInfo, Explanation]) -> tuple[int, int, str]:
    """The node that lacks fewest devices; of such nodes the one with most that the selectors let through."""
    lacks, node, explanation = explained
    unmatched = sum(
        one.removed.get(Stage.CLASS_SELECTOR, 0) + one.removed.get(Stage.REQUEST_SELECTOR, 0) - one.published
        for one in explanation.requests
    )
    return lacks, unmatched, node.name


def _worded(explanation: Explanation) -> str:
    requests = explanation.requests
    if len(requests) == 1 or any(one.left < max(one.wanted, 1) for one in requests):
        return str(explanation)
    wanted = "; ".join(map(str, requests))
    return f"node {explanation.node} has enough devices for each request, and not for all together: {wanted}"


def _explained(
    search: NodeSearch, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits
) -> Iterator[tuple[int, NodeInfo, Explanation]]:
    """Nodes with how many devices they lack."""
    own = view.inventory.nodes_with_own_slices
    having = [node for node in nodes if node.name in own] or nodes
    cycle.steps_left -= len(nodes) // _NAMES_A_STEP
    devices = 0
    for node in having[:: max(1, len(having) // limits.nodes)][: limits.nodes]:
        explanation = _explain(search, cycle, node, view, limits, 0)
        if explanation is None or not explanation.requests:
            return
        yield sum(max(0, max(one.wanted, 1) - one.left) for one in explanation.requests), node, explanation
        devices += len(explanation.requests) * explanation.requests[0].published
        if devices > limits.devices:
            return


def _explain(  # noqa: PLR0917
    search: NodeSearch, cycle: Cycle, node: NodeInfo, view: ClusterView, limits: Limits, search_steps: int
) -> Explanation | None:
    wanted = search.wanted_on(node)
    wanted = search.claims.wanted if isinstance(wanted, Status) else wanted
    meter = view.inventory.meter
    before = meter.allow(max(1, cycle.steps_left))
    try:
        devices = view.inventory.node_pools(node.host, view.features).size
        if not wanted or devices > limits.devices:
            return None
        cycle.steps_left -= _NODE_STEPS + devices * _DEVICE_STEPS * sum(len(claim.spec.requests) for claim in wanted)
        asked = Question(wanted, node.host, view.inventory, view.in_use, view.features, search.budget_steps)
        return explain(asked, search_steps=search_steps)
    except (AllocationError, PausedError):
        return None
    finally:
        cycle.steps_left -= meter.allow_all(before)


def _changes(  # noqa: PLR0917
    pod: Pod, search: NodeSearch, node: NodeInfo, explanation: Explanation, view: ClusterView, limits: Limits
) -> Iterator[Change]:
    claims = {str(claim.key): claim for claim in search.claims.unallocated}
    for one in explanation.requests:
        claim = claims.get(one.claim)
        if claim is not None:
            yield from _of_request(claim, f"request {one.request} of {label_of(claim, pod)}", one, node, view, limits)
    for claim in search.claims.unallocated:
        yield from _constraints(claim, label_of(claim, pod), node)
    if search.claims.special is not None:
        yield from _fewer_of_resources(pod, search.claims.special.requested, node, limits)
    if any(Stage.IN_USE in one.removed or Stage.CAPACITY in one.removed for one in explanation.requests):
        yield from _holders(pod, node, view, limits)


def _of_request(  # noqa: PLR0917
    claim: ResourceClaim, label: str, one: RequestExplanation, node: NodeInfo, view: ClusterView, limits: Limits
) -> Iterator[Change]:
    if Stage.TAINT in one.removed:
        for taint, names in _taints(one, claim, node, view).items():
            toleration = Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect, None)
            cause = f"{_some('device', names)} {'has' if len(names) == 1 else 'have'} the taint {taint_text(taint)}"
            yield Change(
                2,
                f"add the toleration {toleration_text(taint)} to {label}, or have the taint removed",
                (node.name,),
                cause=f"{cause}, which {label} does not tolerate",
                claims=(with_request(claim, one.request, tolerations=toleration),),
            )
    for less in range(min(one.wanted - 1, max(one.left, 0)), 0, -1)[: limits.counts]:
        yield Change(
            3,
            f"ask for {less} {'device' if less == 1 else 'devices'} instead of {one.wanted} in {label}",
            (node.name,),
            cause=f"{label} asks for {one.wanted} devices; on node {node.name} there are at most {less} that it could "
            "have together",
            claims=(with_request(claim, one.request, count=less),),
        )
    if Stage.CAPACITY in one.removed:
        yield from _less_capacity(claim, label, one, node, view, limits)
    if Stage.REQUEST_SELECTOR in one.removed:
        asked = alternative_of(claim, one.request)
        for selector in asked.selectors if asked is not None else ():
            left = tuple([other for other in asked.selectors if other is not selector])  # type: ignore[union-attr]
            yield Change(
                7,
                f"drop or relax the selector `{selector.expression}` of {label}",
                (node.name,),
                cause=f"{label}: the selector `{selector.expression}` leaves no device that would do",
                claims=(with_request(claim, one.request, selectors=left),),
            )


def _less_capacity(  # noqa: PLR0917
    claim: ResourceClaim, label: str, one: RequestExplanation, node: NodeInfo, view: ClusterView, limits: Limits
) -> Iterator[Change]:
    """What devices of the node have, and what is left of it beside what others consume, the most first."""
    asked = alternative_of(claim, one.request)
    requests = (asked.capacity_requests if asked is not None else None) or ()
    for place, (name, amount) in enumerate(requests):
        found: set[int] = set()
        for pool, _ in view.inventory.node_pools(node.host, view.features).usable:
            use = view.in_use.pools.get(pool.id)
            for device in pool.devices:
                if (capacity := device.capacity.get(name)) is not None:
                    consumed = use.consumed.get(device.name, {}).get(name, 0) if use is not None else 0
                    found |= {capacity.value.nano, capacity.value.nano - consumed}
        fewer = sorted((nano for nano in found if 0 < nano < amount.nano), reverse=True)
        for less in [Quantity.from_int(nano // _NANO, amount.format) for nano in fewer[: limits.counts]]:
            smaller = (*requests[:place], (name, less), *requests[place + 1 :])
            yield Change(
                3,
                f"ask for {name} {less} instead of {amount} in {label}",
                (node.name,),
                cause=f"{label} asks for {name} {amount}; no device of node {node.name} has that much left for it",
                claims=(with_request(claim, one.request, capacity_requests=smaller),),
            )


def _fewer_of_resources(pod: Pod, names: Sequence[str], node: NodeInfo, limits: Limits) -> Iterator[Change]:
    """Less of an extended resource that devices serve, the most first."""
    amounts = counted_amounts(pod).requests
    for name in names:
        wanted = amounts.get(name, 0)
        for excess in range(1, min(wanted, limits.counts + 1)):
            if (found := less_in_container(pod, name, excess)) is None:
                continue
            container, before, amount, smaller = found
            yield Change(
                3,
                f"ask for {amount} of {name} instead of {before} in container {container} of pod {pod.key}",
                (node.name,),
                cause=f"pod {pod.key} asks for {wanted} of {name}; node {node.name} has no more than "
                f"{wanted - excess} free",
                pod=smaller,
            )


def _taints(one: RequestExplanation, claim: ResourceClaim, node: NodeInfo, view: ClusterView) -> dict[Taint, list[str]]:
    """The taints that keep the request off devices, with these devices."""
    asked, found = alternative_of(claim, one.request), dict[Taint, list[str]]()
    tolerations = asked.tolerations if asked is not None else ()
    for pool, _ in view.inventory.node_pools(node.host, view.features).usable:
        for device in pool.devices:
            for taint in device.taints:
                if prevent_allocation((taint,), tolerations):
                    found.setdefault(taint, []).append(f"{device.id.pool}/{device.id.device}")
    return found


def _constraints(claim: ResourceClaim, label: str, node: NodeInfo) -> Iterator[Change]:
    for constraint in claim.spec.constraints if claim.spec is not None else ():
        assert claim.spec is not None
        is_match = constraint.match_attribute is not None
        what = "matchAttribute" if is_match else "distinctAttribute"
        attribute = constraint.match_attribute if is_match else constraint.distinct_attribute
        left = tuple([one for one in claim.spec.constraints if one is not constraint])
        yield Change(
            5,
            f"drop the constraint {what}: {attribute} of {label}",
            (node.name,),
            cause=f"{label}: not enough free devices have {'the same' if is_match else 'different'} {attribute}, "
            "which its constraint asks for",
            claims=(replace(claim, spec=replace(claim.spec, constraints=left)),),
        )


def _holders(pod: Pod, node: NodeInfo, view: ClusterView, limits: Limits) -> Iterator[Change]:
    """Claims whose pods are all on the node: those of the least important pods first."""
    found: dict[ClaimKey, tuple[int, ResourceClaim, list[PodUid]]] = {}
    for uid in node.pods:
        for key in view.claims_of(uid):
            claim, users = view.claim(key), list(view.users_of(key))
            if claim is None or not view.counted(claim.uid) or any(one not in node.pods for one in users):
                continue
            found[key] = max(node.pods[one].spec.priority or 0 for one in users), claim, users
    for _, claim, users in sorted(found.values(), key=lambda one: (one[0], one[1].key))[: limits.holders]:
        released = tuple([Held(claim.key, claim.uid, one) for one in view.counted(claim.uid)])
        names = ["/".join(one.device_id) for held in released for one in held.allocation.results]
        pods = ", ".join(dict.fromkeys(pod_text(node.pods[one], to=pod, limits=limits) for one in users[:_USERS_NAMED]))
        is_own = limits.names_others or claim.key.namespace == pod.metadata.namespace
        by = f"ResourceClaim {claim.key} ({pods})" if is_own else pods
        whose = f", whose ResourceClaim is {claim.key}" if is_own else ""
        yield Change(
            6,
            f"free {_some('device', names)}: end {pods}{whose}",
            (node.name,),
            cause=f"{_some('device', names)} {'is' if len(names) == 1 else 'are'} in use by {by}",
            removed=tuple(users),
            released=released,
        )


def _some(kind: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:3])}{more}"
