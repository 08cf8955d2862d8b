"""Which devices the nearest node lacks, and who is to blame: counted by the allocator, request by request.

Rules of this module
  1. Nodes with slices of their own are looked at before others, `_NODES_MAX` and `_DEVICES_MAX` devices in all; the
     node that lacks the fewest devices is the nearest. Changes are tried on the nearest three.

Not here: asking as if a change were made (`core.causes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from allocator import AllocationError, PausedError, Question, Stage, Taint, explain, prevent_allocation
from allocator.explain import Explanation, RequestExplanation
from allocator.model import Request, RequestAlternative, Toleration
from scheduler.framework.blame import Blame, Change, likeliest, pod_text, taint_text, toleration_text
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.held import Held
from scheduler.framework.status import Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.plugins.dynamic_resources.pod_claims import nodes_named_by, walk_claims

_NODES_MAX: Final = 8
_NODES_CHANGED: Final = 3
_DEVICES_MAX: Final = 512
_NAMES_A_STEP: Final = 40
_NODE_STEPS: Final = 20
_DEVICE_STEPS: Final = 2
_SEARCH_STEPS: Final = 200
_COUNTS_MAX: Final = 4
_HOLDERS_MAX: Final = 4
_CLASSES_MAX: Final = 200


def blame_nodes(cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView) -> Blame | None:
    """The node that lacks fewest devices, and what would make its devices do."""
    search = cycle.find(NodeSearch)
    if not nodes:
        return _missing_class(cycle.pod, view)
    if search is None:
        return None
    if not search.claims.wanted and search.claims.special is None:
        return _pinned(search, nodes, view)
    explained = list(_explained(search, cycle, nodes, view))
    if not explained:
        return None
    explained.sort(key=_rank)
    lacks, node, explanation = explained[0]
    changes = [
        change for _, near, why in explained[:_NODES_CHANGED] for change in _changes(cycle.pod, search, near, why, view)
    ]
    if not lacks:  # what is in the way shows only while devices are picked
        explanation = _explain(search, cycle, node, view, _SEARCH_STEPS) or explanation
    kind = tuple([(one.claim, one.request, *one.removed, *one.refused) for one in explanation.requests])
    return Blame(_worded(explanation), kind, tuple(changes))


def _rank(explained: tuple[int, NodeInfo, Explanation]) -> tuple[int, int, str]:
    """The node that lacks fewest devices; of such nodes the one with most that the selectors let through."""
    lacks, node, explanation = explained
    unmatched = sum(
        one.removed.get(Stage.CLASS_SELECTOR, 0) + one.removed.get(Stage.REQUEST_SELECTOR, 0) - one.published
        for one in explanation.requests
    )
    return lacks, unmatched, node.name


def _missing_class(pod: Pod, view: ClusterView) -> Blame | None:
    """PreFilter refuses a request whose class is not there; the class that was probably meant."""
    known = sorted(view.inventory.classes)
    on = tuple([node.name for node in likeliest(list(view.node_infos.values()), view)])
    for claim in walk_claims(pod, view).claims:
        for name in _requests(claim) if claim.allocation is None else ():
            asked = _alternative(claim, name)
            if asked is None or asked.device_class_name in known:
                continue
            label, wrong = f"request {name} of {_label(claim, pod)}", asked.device_class_name
            few = known if len(known) <= _CLASSES_MAX else []
            close = get_close_matches(wrong, few, 1) or (few if len(few) == 1 else [])
            more = f" and {len(known) - 3} more" if len(known) > 3 else ""
            there = f"there are: {', '.join(known[:3]) or 'none'}{more}"
            cause = f"{label} names DeviceClass {wrong}, which does not exist; {there}"
            changes = [
                Change(
                    1,
                    cause,
                    f"write deviceClassName: {meant} instead of {wrong} in {label}",
                    on,
                    claims=(_with(claim, name, device_class_name=meant),),
                )
                for meant in close
            ]
            return Blame(cause, ("class", wrong), tuple(changes))
    return None


def _requests(claim: ResourceClaim) -> Iterator[str]:
    """Requests and their alternatives, as `req` and `req/sub`."""
    for one in claim.spec.requests if claim.spec is not None else ():
        yield from [one.name] if one.exactly is not None else [f"{one.name}/{sub.name}" for sub in one.first_available]


def _pinned(search: NodeSearch, nodes: Sequence[NodeInfo], view: ClusterView) -> Blame | None:
    """Claims that are allocated where these nodes are not."""
    on, changes = tuple([node.name for node in likeliest(nodes, view)]), []
    for index, claim in enumerate(search.claims.claims):
        if not search.claims.is_unavailable(index, nodes[0].host) or claim.allocation is None:
            continue
        where = sorted(nodes_named_by([claim]) or ())
        users = ", ".join(f"{one.resource[:-1]} {one.name}" for one in claim.reserved_for[:_HOLDERS_MAX]) or "no pod"
        place = f" on node {', '.join(where[:3])}" if where else ""
        cause = f"ResourceClaim {claim.key} is allocated{place}, so the pod can run nowhere else"
        text = f"release ResourceClaim {claim.key} (used by {users}), or give the pod a claim of its own"
        without = replace(claim, allocation=None, reserved_for=())
        released = tuple([Held(claim.key, claim.uid, one) for one in view.counted(claim.uid)])
        changes.append(Change(6, cause, text, on, claims=(without,), released=released))
    return Blame(changes[0].cause, ("pinned", changes[0].cause), tuple(changes)) if changes else None


def _worded(explanation: Explanation) -> str:
    requests = explanation.requests
    if len(requests) == 1 or any(one.left < max(one.wanted, 1) for one in requests):
        return str(explanation)
    wanted = "; ".join(map(str, requests))
    return f"node {explanation.node} has enough devices for each request, and not for all together: {wanted}"


def _explained(
    search: NodeSearch, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView
) -> Iterator[tuple[int, NodeInfo, Explanation]]:
    """Nodes with how many devices they lack."""
    own = view.inventory.nodes_with_own_slices
    having = [node for node in nodes if node.name in own] or nodes
    cycle.steps_left -= len(nodes) // _NAMES_A_STEP
    devices = 0
    for node in having[:: max(1, len(having) // _NODES_MAX)][:_NODES_MAX]:
        explanation = _explain(search, cycle, node, view, 0)
        if explanation is None or not explanation.requests:
            return
        yield sum(max(0, max(one.wanted, 1) - one.left) for one in explanation.requests), node, explanation
        devices += len(explanation.requests) * explanation.requests[0].published
        if devices > _DEVICES_MAX:
            return


def _explain(
    search: NodeSearch, cycle: Cycle, node: NodeInfo, view: ClusterView, search_steps: int
) -> Explanation | None:
    wanted = search.wanted_on(node)
    wanted = search.claims.wanted if isinstance(wanted, Status) else wanted
    meter = view.inventory.meter
    before = meter.allow(max(1, cycle.steps_left))
    try:
        devices = view.inventory.node_pools(node.host, view.features).size
        if not wanted or devices > _DEVICES_MAX:
            return None
        cycle.steps_left -= _NODE_STEPS + devices * _DEVICE_STEPS * sum(len(claim.spec.requests) for claim in wanted)
        asked = Question(wanted, node.host, view.inventory, view.in_use, view.features, search.budget_steps)
        return explain(asked, search_steps=search_steps)
    except (AllocationError, PausedError):
        return None
    finally:
        cycle.steps_left -= meter.allow_all(before)


def _changes(
    pod: Pod, search: NodeSearch, node: NodeInfo, explanation: Explanation, view: ClusterView
) -> Iterator[Change]:
    claims = {str(claim.key): claim for claim in search.claims.unallocated}
    for one in explanation.requests:
        claim = claims.get(one.claim)
        if claim is not None:
            yield from _of_request(claim, f"request {one.request} of {_label(claim, pod)}", one, node, view)
    for claim in search.claims.unallocated:
        yield from _constraints(claim, _label(claim, pod), node)
    if any(Stage.IN_USE in one.removed or Stage.CAPACITY in one.removed for one in explanation.requests):
        yield from _holders(pod, node, view)


def _label(claim: ResourceClaim, pod: Pod) -> str:
    """A claim by its name and, where it was made from one, by its template's, which is what a person edits."""
    made = {one.resource_claim_name: one.name for one in pod.status.resource_claim_statuses or ()}
    entry = made.get(claim.key.name)
    for one in pod.spec.resource_claims or ():
        if one.name == entry and one.resource_claim_template_name:
            return f"ResourceClaim {claim.key} (made from template {one.resource_claim_template_name})"
    return f"ResourceClaim {claim.key}"


def _of_request(
    claim: ResourceClaim, label: str, one: RequestExplanation, node: NodeInfo, view: ClusterView
) -> Iterator[Change]:
    if Stage.TAINT in one.removed:
        for taint, names in _taints(one, claim, node, view).items():
            toleration = Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect, None)
            cause = f"{_some('device', names)} {'has' if len(names) == 1 else 'have'} the taint {taint_text(taint)}"
            yield Change(
                2,
                f"{cause}, which {label} does not tolerate",
                f"add the toleration {toleration_text(taint)} to {label}, or have the taint removed",
                (node.name,),
                claims=(_with(claim, one.request, tolerations=toleration),),
            )
    for less in range(min(one.wanted - 1, max(one.left, 0)), 0, -1)[:_COUNTS_MAX]:
        yield Change(
            3,
            f"{label} asks for {one.wanted} devices; on node {node.name} there are at most {less} that it could have "
            "together",
            f"ask for {less} {'device' if less == 1 else 'devices'} instead of {one.wanted} in {label}",
            (node.name,),
            claims=(_with(claim, one.request, count=less),),
        )
    if Stage.REQUEST_SELECTOR in one.removed:
        asked = _alternative(claim, one.request)
        for selector in asked.selectors if asked is not None else ():
            left = tuple([other for other in asked.selectors if other is not selector])  # type: ignore[union-attr]
            yield Change(
                7,
                f"{label}: the selector `{selector.expression}` leaves no device that would do",
                f"drop or relax the selector `{selector.expression}` of {label}",
                (node.name,),
                claims=(_with(claim, one.request, selectors=left),),
            )


def _alternative(claim: ResourceClaim, request: str) -> RequestAlternative | None:
    name, _, sub = request.partition("/")
    for one in claim.spec.requests if claim.spec is not None else ():
        if one.name == name:
            return next((other for other in one.first_available if other.name == sub), None) if sub else one.exactly
    return None


def _with(claim: ResourceClaim, request: str, **fields: object) -> ResourceClaim:
    """The claim with another request; a toleration is added to those there are."""
    assert claim.spec is not None
    name, _, sub = request.partition("/")

    def changed(asked: RequestAlternative) -> RequestAlternative:
        if (toleration := fields.get("tolerations")) is not None:
            return replace(asked, tolerations=(*asked.tolerations, toleration))  # type: ignore[arg-type]
        return replace(asked, **fields)  # type: ignore[arg-type]

    def of(one: Request) -> Request:
        if one.name != name:
            return one
        if not sub:
            return replace(one, exactly=changed(one.exactly)) if one.exactly is not None else one
        subs = tuple([changed(other) if other.name == sub else other for other in one.first_available])
        return replace(one, first_available=subs)

    return replace(claim, spec=replace(claim.spec, requests=tuple(map(of, claim.spec.requests))))


def _taints(one: RequestExplanation, claim: ResourceClaim, node: NodeInfo, view: ClusterView) -> dict[Taint, list[str]]:
    """The taints that keep the request off devices, with these devices."""
    asked, found = _alternative(claim, one.request), dict[Taint, list[str]]()
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
            f"{label}: not enough free devices have {'the same' if is_match else 'different'} {attribute}, which its "
            "constraint asks for",
            f"drop the constraint {what}: {attribute} of {label}",
            (node.name,),
            claims=(replace(claim, spec=replace(claim.spec, constraints=left)),),
        )


def _holders(pod: Pod, node: NodeInfo, view: ClusterView) -> Iterator[Change]:
    """Claims whose pods are all on the node: those of the least important pods first."""
    found: dict[ClaimKey, tuple[int, ResourceClaim, list[PodUid]]] = {}
    for uid in node.pods:
        for key in view.claims_of(uid):
            claim, users = view.claim(key), list(view.users_of(key))
            if claim is None or not view.counted(claim.uid) or any(one not in node.pods for one in users):
                continue
            found[key] = max(node.pods[one].spec.priority or 0 for one in users), claim, users
    for _, claim, users in sorted(found.values(), key=lambda one: (one[0], one[1].key))[:_HOLDERS_MAX]:
        released = tuple([Held(claim.key, claim.uid, one) for one in view.counted(claim.uid)])
        names = ["/".join(one.device_id) for held in released for one in held.allocation.results]
        pods = ", ".join(dict.fromkeys(pod_text(node.pods[one], to=pod) for one in users[:_HOLDERS_MAX]))
        is_own = claim.key.namespace == pod.metadata.namespace
        by = f"ResourceClaim {claim.key} ({pods})" if is_own else pods
        whose = f", whose ResourceClaim is {claim.key}" if is_own else ""
        yield Change(
            6,
            f"{_some('device', names)} {'is' if len(names) == 1 else 'are'} in use by {by}",
            f"free {_some('device', names)}: end {pods}{whose}",
            (node.name,),
            removed=tuple(users),
            released=released,
        )


def _some(kind: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:3])}{more}"
