"""Why a group has no place: the cause of the one pod that lacks one, said of all, or the label that no node has.

Not here: looking for the cause of a pod, and asking as if a change were made (`cause_search`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, structs

from scheduler.core.state.reservations import Reservations
from scheduler.core.state.store import Store
from scheduler.core.trying.attempt import Beside
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.diagnosis import Limits, labelling, with_spec
from scheduler.model.group import counts, declared_count, key_of_group
from scheduler.model.keys import NodeName
from scheduler.model.objects import Pod
from scheduler.model.owners import edited_object
from scheduler.model.pod_terms import PodTerm, Role, pod_terms, terms_of
from scheduler.why.reasons import Diagnosis, Fix, Reason
from scheduler.why.say import names

_OF_GROUP: Final = "group-unmet"
_PLANNED: Final = "planned"
"""The form of what the others of a group would have."""
_NO_LABEL: Final = "label-nowhere"


class UnplacedGroup(Struct, frozen=True):
    """A group of which one pod has no place beside the others.

    Args:
        group: Its name.
        fit: How many of its pods have a node, or a place beside the others.
        needed: How many must.
        topology_key: The label of which all its nodes must have one value, "" for none.
        beside: The places that the others had.
        others: Its pods that have no place either, of which more may be needed.
        nowhere: Why it may be on no node at all, where that is so.
    """

    group: str
    fit: int
    needed: int
    topology_key: str
    beside: Beside | None
    others: tuple[Pod, ...] = ()
    nowhere: Reason | None = None


def whole_group(pod: Pod, store: Store, view: ClusterView) -> UnplacedGroup | None:
    """The group of a pod that was not tried with the others: its own gate, or its claim, keeps it from that."""
    key = key_of_group(pod)
    if key is None:
        return None
    pods = [store.pods[uid] for uid in store.gangs.of(key)]
    nodes = [store.node_of(one.uid) for one in pods]
    others = [one for one, node in zip(pods, nodes, strict=True) if node is None and one.uid != pod.uid]
    others = [one for one in others if counts(one, is_placed=False)]
    group = view.pod_group(key.pod_group)
    needed = declared_count(key, store.gangs.size(key), group)
    placed = sum(node is not None for node in nodes)
    needed = placed + 1 + len(others) if needed == 0 else needed or 0
    return UnplacedGroup(str(key), placed, needed, group.topology_key or "" if group else "", None, tuple(others))


def labelled(nowhere: Reason, store: Store, limits: Limits) -> Reason:
    """With the label that a group needs on one of the nodes that lack it."""
    key, fixes, lacks = str(nowhere.fields["topology"]), list[Fix](), nowhere.fields.get("node")
    for name in [lacks] if lacks else store.node_order[: limits.nodes] if nowhere.form == _NO_LABEL else ():
        node = store.node_infos[NodeName(str(name))].node
        fixes.append(labelling(node, {key: node.name}))
    return structs.replace(nowhere, fixes=tuple(fixes))


def values_of(pod: Pod, group: UnplacedGroup, store: Store) -> frozenset[str | None] | None:
    """The values of the group's label on the nodes of its pods that have one; None where any node would do."""
    gang = key_of_group(pod) if group.topology_key else None
    if gang is None:
        return None
    nodes = {store.node_of(uid) for uid in store.gangs.of(gang)}
    infos = [store.node_infos[name] for name in nodes if name in store.node_infos]
    return frozenset([(one.node.metadata.labels or {}).get(group.topology_key) for one in infos])


@contextmanager
def as_edited(
    pod: Pod, change: Fix, group: UnplacedGroup, count: int, stakes: Reservations
) -> Iterator[tuple[list[Pod], list[NodeName]]]:
    """Others as they would be: those that the change edits, without their places; `count` without any; the places."""
    places = group.beside.by_pod.values() if group.beside is not None else ()
    lost = [one for one in places if _edited_with(pod, change.pod, one.queued.pod) is not one.queued.pod]
    others = [*(one.queued.pod for one in lost), *group.others[: max(0, count)]]
    for one in lost:
        stakes.release(one.queued.uid)
    try:
        yield [_edited_with(pod, change.pod, one) for one in others], [one.node for one in lost]
    finally:
        for one in lost:
            stakes.put(one.queued.uid, one.node, one.reserved)


def _edited_with(pod: Pod, changed: Pod | None, other: Pod) -> Pod:
    """Another pod of the same workload, edited as this one is; a gate is each pod's own."""
    if changed is None or edited_object(pod) != edited_object(other):
        return other
    before, edits = structs.asdict(pod.spec), structs.asdict(changed.spec)
    edits = {name: one for name, one in edits.items() if one != before[name] and name != "scheduling_gates"}
    return with_spec(other, **edits) if edits else other


def of_group(why: Diagnosis, group: UnplacedGroup, pod: Pod) -> Diagnosis:
    """That of the pod, as the group's."""
    near = next((one.topology_key for one in terms_of(pod_terms(pod), Role.REQUIRED_AFFINITY) if _means(one, pod)), "")
    fields = {"group": group.group, "fit": group.fit, "needed": group.needed, "topology": group.topology_key or near}
    places = group.beside.by_pod.values() if group.beside is not None else ()
    given = [one for place in places for held in place.reserved.held for one in held.allocation.device_ids()]
    planned = {"count": len(given), "devices": names(f"{one.pool}/{one.device}" for one in given)}

    def said(inner: Reason) -> Reason:
        if inner.form == _PLANNED:  # and where the others are
            inner = structs.replace(inner, fields={**inner.fields, **planned})
        return Reason(_OF_GROUP, {**fields, "pod": pod.key.name, "why": inner.sentence})

    reasons = [said(why.reasons[0]), *(why.reasons[1:] if why.reasons[0].form != _PLANNED else ())]
    fixes = [structs.replace(one, reason=said(one.reason or why.reasons[0])) for one in why.fixes[:1]]
    return structs.replace(why, reasons=tuple(reasons), fixes=(*fixes, *why.fixes[1:]))


def _means(term: PodTerm, pod: Pod) -> bool:
    return term.matches(pod.metadata.namespace, pod.metadata.labels or {}, {})
