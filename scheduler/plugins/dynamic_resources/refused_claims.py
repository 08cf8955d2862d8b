"""Claims for which no node needs to be asked, or that are bound to other nodes: who is to blame, and what would help.

Not here: devices (`device_causes`), the refusals themselves (`pre_filter`, `resolved_claims`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from allocator import OPTIONAL_NODE_OPERATIONS
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.diagnosis import NODES_NAMED, Limits, Pin, likeliest
from scheduler.model.api_rules import RESERVED_FOR_MAX
from scheduler.model.claim import ResourceClaim, is_usable_on
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.pod_group import is_reserved_for
from scheduler.model.selector_mistakes import near
from scheduler.plugins.dynamic_resources.changed_claims import alternative_of, label_of, requests_of, with_request
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.plugins.dynamic_resources.resolved_claims import nodes_named_by, walk_claims
from scheduler.why.reasons import Reason, plain_fix, plain_reason

_USERS_NAMED: Final = 4
_NAMES_MAX: Final = 200


def blame_claims(pod: Pod, view: ClusterView) -> Sequence[Reason]:
    """Why no node was asked: the pod's claim is not there, is full, or names a class that is not there."""
    walk = walk_claims(pod, view)
    if walk.problem is not None:
        found = _missing_claim(pod, view)
    else:
        found = _full_claim(walk.claims, pod, view) or _missing_class(walk.claims, pod, view)
    return (found,) if found is not None else ()


def _anywhere(view: ClusterView) -> tuple[NodeName, ...]:
    return tuple([node.name for node in likeliest(list(view.node_infos.values()), view)])


def _missing_claim(pod: Pod, view: ClusterView) -> Reason | None:
    entries, namespace = pod.spec.resource_claims or (), pod.metadata.namespace
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses or ()}
    for place, entry in enumerate(entries):
        if entry.resource_claim_template_name and entry.name not in made:
            cause = (
                f"no ResourceClaim has been made from ResourceClaimTemplate {namespace}/"
                f"{entry.resource_claim_template_name} yet; where it cannot be made, an event of the pod says why"
            )
            return plain_reason("claim-not-made", cause, "template")
        name = entry.resource_claim_name
        name = name or made.get(entry.name) or ""
        claim = view.claim(ClaimKey(namespace, name))
        if claim is not None and claim.is_deleting:
            return _deleting_claim(claim, pod, view)
        if claim is not None and claim.problem is not None:
            return plain_reason(
                "field-unread", f"ResourceClaim {claim.key} cannot be read: {claim.problem}", ("claim", name)
            )
        if not name or claim is not None:
            continue
        known = sorted(view.claim_names(namespace))
        cause = f"ResourceClaim {namespace}/{name}, which pod {pod.key} names, does not exist; {_there(known)}"
        changes = []
        for meant in _meant(name, known):
            other = structs.replace(entry, resource_claim_name=meant)
            spec = structs.replace(pod.spec, resource_claims=(*entries[:place], other, *entries[place + 1 :]))
            text = f"in pod {pod.key} write resourceClaimName: {meant} instead of {name}"
            changes.append(plain_fix(1, text, _anywhere(view), pod=structs.replace(pod, spec=spec)))
        return plain_reason("claim-missing", cause, ("claim", name), tuple(changes))
    return None


def _deleting_claim(claim: ResourceClaim, pod: Pod, view: ClusterView) -> Reason:
    """No pod is given a claim that goes; asked as if it had gone and were made anew."""
    users = [consumer.name for consumer in claim.reserved_for]
    kept = [f"finalizer {one}" for one in claim.finalizers]
    kept += [f"pod {', '.join(users[:_USERS_NAMED])}" for _ in users[:1]]
    keeps = f" (kept by {', '.join(kept)})" if kept else ""
    cause = f"ResourceClaim {claim.key}, which pod {pod.key} names, is being deleted{keeps}"
    is_generated = label_of(claim, pod) != f"ResourceClaim {claim.key}"
    maker = "kube-controller-manager makes it anew" if is_generated else f"make ResourceClaim {claim.key} anew"
    anew = replace(claim, deletion_timestamp=None, allocation=None, reserved_for=())
    released = tuple([Held(claim.key, claim.uid, one) for one in view.counted(claim.uid)])
    change = plain_fix(2, f"once it is gone, {maker}", _anywhere(view), claims=(anew,), released=released)
    return plain_reason("claim-deleting", cause, ("deleting", claim.key), (change,))


def _full_claim(claims: Iterable[ResourceClaim], pod: Pod, view: ClusterView) -> Reason | None:
    for claim in claims:
        users = len(claim.reserved_for)
        if claim.allocation is not None and users >= RESERVED_FOR_MAX and not is_reserved_for(claim, pod):
            cause = (
                f"ResourceClaim {claim.key} is full: {users} pods use it, and no claim can have more than "
                f"{RESERVED_FOR_MAX}"
            )
            text = f"give the pod a claim of its own, or wait until one of the {users} pods of {claim.key} ends"
            one_less = replace(claim, reserved_for=claim.reserved_for[: RESERVED_FOR_MAX - 1])
            return plain_reason("claim-full", cause, "full", (plain_fix(4, text, _anywhere(view), claims=(one_less,)),))
    return None


def _missing_class(claims: Iterable[ResourceClaim], pod: Pod, view: ClusterView) -> Reason | None:
    known = sorted(view.inventory.classes)
    for claim in claims:
        for name in requests_of(claim) if claim.allocation is None else ():
            asked = alternative_of(claim, name)
            if asked is None:
                continue
            label, wrong = f"request {name} of {label_of(claim, pod)}", asked.device_class_name
            if (there := view.inventory.classes.get(wrong)) is not None:
                if not there.unread:
                    continue
                has = f"has the field {there.unread[0]}, which this scheduler does not know"
                return plain_reason(
                    "field-unread", f"DeviceClass {wrong}, which {label} names, {has}", ("class", wrong)
                )
            cause = f"{label} names DeviceClass {wrong}, which does not exist; {_there(known)}"
            changes = [
                plain_fix(
                    1,
                    f"write deviceClassName: {meant} instead of {wrong} in {label}",
                    _anywhere(view),
                    claims=(with_request(claim, name, device_class_name=meant),),
                )
                for meant in _meant(wrong, known)
            ]
            return plain_reason("class-missing", cause, ("class", wrong), tuple(changes))
    return None


def _meant(wrong: str, known: Sequence[str]) -> list[str]:
    """The name that was probably meant: one like it, or the only one there is."""
    close = near(wrong, known) if len(known) <= _NAMES_MAX else ""
    return [close] if close else [*known] if len(known) == 1 else []


def _there(known: Sequence[str]) -> str:
    more = f" and {len(known) - 3} more" if len(known) > 3 else ""
    return f"there are: {', '.join(known[:3]) or 'none'}{more}"


def pin_of(search: NodeSearch) -> Pin | None:
    """The first of the pod's claims whose devices are on few nodes."""
    for index, claim in enumerate(search.claims.claims):
        nodes = nodes_named_by([claim]) if index not in search.claims.given_up else None
        if nodes is not None:
            names = sorted(nodes)
            more = f" and {len(names) - NODES_NAMED} more" if len(names) > NODES_NAMED else ""
            where = f"node{'s' if len(names) > 1 else ''} {', '.join(names[:NODES_NAMED])}{more}"
            return Pin("claim-pinned", f"ResourceClaim {claim.key} has devices on {where}", nodes)
    return None


def blame_pinned(search: NodeSearch, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
    """Claims that are allocated where these nodes are not."""
    on, changes = tuple([node.name for node in likeliest(nodes, view, limits)]), []
    for index, claim in enumerate(search.claims.claims):
        if not search.claims.is_unavailable(index, nodes[0].host) or claim.allocation is None:
            continue
        where = sorted(nodes_named_by([claim]) or ())
        users = ", ".join(f"{one.resource[:-1]} {one.name}" for one in claim.reserved_for[:_USERS_NAMED]) or "no pod"
        place = f" on node {', '.join(where[:3])}" if where else ""
        cause = f"ResourceClaim {claim.key} is allocated{place}, so the pod can run nowhere else"
        if is_usable_on(claim.allocation, nodes[0].host) and index not in search.claims.given_up:
            cause = (
                f"ResourceClaim {claim.key} is allocated for a node that declares {OPTIONAL_NODE_OPERATIONS} "
                f"(skipNodeOperations of its devices), and node {nodes[0].name} does not"
            )
        text = f"release ResourceClaim {claim.key} (used by {users}), or give the pod a claim of its own"
        without = replace(claim, allocation=None, reserved_for=())
        released = tuple([Held(claim.key, claim.uid, one) for one in view.counted(claim.uid)])
        changes.append(plain_fix(6, text, on, cause=cause, claims=(without,), released=released))
    if not changes:
        return ()
    reason = changes[0].reason
    assert reason is not None
    return (structs.replace(reason, kind="claim-pinned", fixes=tuple(changes)),)
