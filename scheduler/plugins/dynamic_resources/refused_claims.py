"""Claims for which no node needs to be asked, or that are bound to other nodes: why, and what would help.

Not here: devices (`device_causes`), the refusals themselves (`pre_filter`, `resolved_claims`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from allocator import OPTIONAL_NODE_OPERATIONS
from allocator.values.model import RequestAlternative
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.diagnosis import Limits, Pin, likeliest, with_spec
from scheduler.model.api_rules import RESERVED_FOR_MAX
from scheduler.model.claim import ResourceClaim, is_usable_on, template_of
from scheduler.model.keys import ClaimKey, NodeName
from scheduler.model.nearest import near
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.owners import controller_of, edited_object
from scheduler.model.pod_group import is_reserved_for
from scheduler.plugins.dynamic_resources.changed_claims import (
    alternative_of,
    held_by,
    label_of,
    requests_of,
    with_request,
    without_alternative,
)
from scheduler.plugins.dynamic_resources.class_reasons import class_made
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.plugins.dynamic_resources.resolved_claims import nodes_named_by, walk_claims
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import Fields, Names, names

_USERS_NAMED: Final = 4


def diagnose_claims(pod: Pod, view: ClusterView) -> Sequence[Reason]:
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
            template = ClaimKey(namespace, entry.resource_claim_template_name)
            return Reason("claim-not-made", {"template": template})
        name = entry.resource_claim_name or made.get(entry.name) or ""
        key = ClaimKey(namespace, name)
        claim = view.claim(key)
        if claim is not None and claim.is_deleting:
            return _deleting_claim(claim, pod, view)
        if claim is not None and claim.problem is not None:
            return Reason("field-unread", {"claim": key, "problem": claim.problem}, "claim")
        if not name or claim is not None:
            continue
        known, changes = sorted(view.claim_names(namespace)), []
        for meant in _meant(name, known):
            other = structs.replace(entry, resource_claim_name=meant)
            renamed = with_spec(pod, resource_claims=(*entries[:place], other, *entries[place + 1 :]))
            fields = {"key": "resourceClaimName", "meant": meant, "name": name}
            changes.append(Fix("claim-name", fields, _anywhere(view), pod=renamed))
        return Reason("claim-missing", {"claim": key, "pod": pod.key, "known": _there(known)}, fixes=tuple(changes))
    return None


def _deleting_claim(claim: ResourceClaim, pod: Pod, view: ClusterView) -> Reason:
    """No pod is given a claim that goes; asked as if it had gone and were made anew."""
    keepers = [f"finalizer {one}" for one in claim.finalizers]
    fields = {"claim": claim.key, "pod": pod.key, "keepers": names([*keepers, *_users(claim).names], _USERS_NAMED)}
    maker = "kube-controller-manager" if template_of(claim, pod) else ""
    anew = replace(claim, deletion_timestamp=None, allocation=None, reserved_for=())
    change = Fix(
        "claim-anew",
        {"claim": None if maker else claim.key, "maker": maker},
        _anywhere(view),
        claims=(anew,),
        released=held_by(claim, view),
    )
    return Reason("claim-deleting", fields, fixes=(change,))


def _users(claim: ResourceClaim) -> Names:
    """Who is to use it: `pod a`, `podgroup b`."""
    return names([f"{one.resource[:-1]} {one.name}" for one in claim.reserved_for], _USERS_NAMED)


def _full_claim(claims: Iterable[ResourceClaim], pod: Pod, view: ClusterView) -> Reason | None:
    for claim in claims:
        users = len(claim.reserved_for)
        if claim.allocation is not None and users >= RESERVED_FOR_MAX and not is_reserved_for(claim, pod):
            fields = {"claim": claim.key, "users": users, "most": RESERVED_FOR_MAX}
            one_less = replace(claim, reserved_for=claim.reserved_for[: RESERVED_FOR_MAX - 1])
            change = Fix("claim-user-gone", fields, _anywhere(view), claims=(one_less,))
            return Reason("claim-full", fields, fixes=(change,))
    return None


def _missing_class(claims: Iterable[ResourceClaim], pod: Pod, view: ClusterView) -> Reason | None:
    known = sorted(view.inventory.classes)
    for claim in claims:
        for name in requests_of(claim) if claim.allocation is None else ():
            asked = alternative_of(claim, name)
            if asked is None:
                continue
            label = label_of(claim, pod)
            fields = {"request": f"request {name} of {label}", "of": label, "class": asked.device_class_name}
            if (there := view.inventory.classes.get(asked.device_class_name)) is None:
                changes = tuple(_other_classes(claim, name, asked, fields, view))
                return Reason("class-missing", {**fields, "known": _there(known)}, fixes=changes)
            if there.unread:
                return Reason("field-unread", {**fields, "field": there.unread[0]}, "class")
    return None


def _other_classes(
    claim: ResourceClaim, name: str, asked: RequestAlternative, fields: Fields, view: ClusterView
) -> Iterator[Fix]:
    """The class that was meant; else the list without this alternative, or the class with its driver."""
    on, (request, _, alternative) = _anywhere(view), name.partition("/")
    if meant := near(asked.device_class_name, view.inventory.classes):
        changed = with_request(claim, name, device_class_name=meant)
        yield Fix("class-name", {**fields, "meant": meant}, on, claims=(changed,))
    elif alternative:
        fields = {**fields, "alternative": alternative, "request": request}
        yield Fix("alternative-dropped", fields, on, claims=(without_alternative(claim, name),))
    else:
        yield class_made(asked, on, view)


def _meant(wrong: str, known: Sequence[str]) -> list[str]:
    """The name that was probably meant: one like it, or the only one there is."""
    close = near(wrong, known)
    return [close] if close else [*known] if len(known) == 1 else []


def _there(known: Sequence[str]) -> Names:
    return names(known or ("none",))


def pin_of(search: NodeSearch) -> Pin | None:
    """The first of the pod's claims whose devices are on few nodes."""
    for index, claim in enumerate(search.claims.claims):
        nodes = nodes_named_by([claim]) if index not in search.claims.given_up else None
        if nodes is not None:
            pinned = Reason("claim-pinned", {"claim": claim.key, "nodes": names(sorted(nodes))}, "pin")
            return Pin(pinned.kind, pinned.sentence, nodes)
    return None


def diagnose_pinned(
    search: NodeSearch, pod: Pod, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits
) -> Sequence[Reason]:
    """Claims that are allocated where these nodes are not."""
    on, reasons = tuple([node.name for node in likeliest(nodes, view, limits)]), list[Reason]()
    for index, claim in enumerate(search.claims.claims):
        if not search.claims.is_unavailable(index, nodes[0].host) or claim.allocation is None:
            continue
        fields: Fields = {"claim": claim.key, "nodes": names(sorted(nodes_named_by([claim]) or ()))}
        reason = Reason("claim-pinned", fields)
        if is_usable_on(claim.allocation, nodes[0].host) and index not in search.claims.given_up:
            fields = {"claim": claim.key, "operations": OPTIONAL_NODE_OPERATIONS, "node": nodes[0].name}
            reason = Reason("claim-pinned", fields, "operations")
        users, anew = _users(claim), (replace(claim, allocation=None, reserved_for=()),)
        owner = edited_object(pod) if controller_of(pod) is not None else ""
        fields = {"claim": claim.key, "users": users or "no pod", "owner": owner, "pod": None if owner else pod.key}
        is_shared = users and not template_of(claim, pod)
        own = [Fix("claim-own", fields, on, reason=reason, claims=anew)] if is_shared else []
        released = Fix("claim-released", fields, on, reason=reason, claims=anew, released=held_by(claim, view))
        reasons.append(structs.replace(reason, fixes=(*own, released)))
    fixes = tuple([fix for reason in reasons for fix in reason.fixes])
    return (structs.replace(reasons[0], fixes=fixes),) if reasons else ()
