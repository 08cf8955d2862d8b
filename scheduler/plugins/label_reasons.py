"""Which label nodes lack: what NodeAffinity says of nodes that it refused.

The nearest node is the one that lacks fewest requirements of a term. Of these the reason names one that no node meets,
with the values that nodes have.

Not here: the verdict (`node_affinity`); asking as if a change were made (`core.reports.cause_search`).

Cost: O(requirements), `_REQUIREMENTS_MAX` of them at most, on `limits.nodes` nodes; O(nodes) for one label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Final, NamedTuple

from msgspec import structs

from allocator.pools.node_match import Requirement
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, labelling, likeliest, with_spec
from scheduler.model.keys import NodeName
from scheduler.model.nearest import near
from scheduler.model.node_info import NodeInfo
from scheduler.model.node_selectors import HOSTNAME, node_affinity_of, required_node_affinity
from scheduler.model.objects import Affinity, Node, NodeAffinityTerms, NodeSelector, NodeSelectorRequirement, Pod
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import Fields, names

_REQUIREMENTS_MAX: Final = 256
_LOOKUPS_A_REQUIREMENT: Final = 4
_LOOKUPS_A_NODE: Final = 2
_LOOKUPS_A_NAME: Final = 100
"""Comparing two names, to find the one that was meant."""
_NODES_OF_KEYS: Final = 64
"""Nodes whose labels may be what was meant."""
_LABELS_COUNTED: Final = 2
_LABELS_SET: Final = 3
_GIVEN: Final = ("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type")
_GIVEN_DOMAIN: Final = "topology.kubernetes.io/"
"""Labels that the kubelet or the cloud sets, and sets back: they say what the node is. Nobody is to write them."""
_VALUES_SAID: Final = 3
_VALUES_COMPARED: Final = 200


class _Unmet(NamedTuple):
    """A requirement that a node does not meet, and where it stands: the index of its term, None for nodeSelector."""

    requirement: Requirement
    term: int | None

    @property
    def where(self) -> str:
        return "nodeSelector" if self.term is None else "nodeAffinity"


class _Miss(NamedTuple):
    """What one node lacks, of the selector and of the term that it is nearest to."""

    node: NodeInfo
    unmet: tuple[_Unmet, ...]


class _Found(NamedTuple):
    """What the nodes that were looked at lack, what is said of it, and on how many nodes its label has each value.

    `meant` is the value that is there, or, where no node has the label, the label that is; "" where nothing is like it.
    `is_choice`: it is a node that is there and that the pod names.
    """

    misses: Sequence[_Miss]
    said: _Unmet
    counts: Counter[str]
    meant: str
    nodes: Sequence[NodeInfo]
    is_choice: bool

    def having(self, key: str, value: str | None = None) -> tuple[NodeName, ...]:
        """Nodes with a label, of those that were looked at; else the first other one."""

        def has(node: NodeInfo) -> bool:
            own = node.node.labels.get(key)
            return own is not None and value in (None, own)

        looked_at = tuple([one.node.name for one in self.misses if has(one.node)])
        return looked_at or tuple(islice((one.name for one in self.nodes if has(one)), 1))


def diagnose_labels(cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
    """What the nearest nodes lack; without `nodes`: the pod names nodes that are not there."""
    if not nodes:
        return _named(cycle.pod, view)
    half = cycle.steps_left - limits.steps // 2  # the other half is for the values that there are
    asked = (_miss(cycle, node) for node in likeliest(nodes, view, limits))
    misses = [miss for miss in takewhile(lambda _: cycle.steps_left > half, asked) if miss.unmet]
    if not misses:
        return ()
    nearest = min(misses, key=lambda one: len(one.unmet))
    lacking = sorted(nearest.unmet, key=lambda one: one.requirement.key != HOSTNAME)
    counts = {one: _counts(cycle, one.requirement.key, view) for one in lacking[:_LABELS_COUNTED]}
    nowhere = (one for one in counts if not _is_met_somewhere(cycle, one.requirement, counts[one]))
    said = next(nowhere, lacking[0])
    meant = _value_like(cycle, said.requirement, counts[said]) if counts[said] else _label_like(cycle, said, view)
    is_in = (said.requirement.key, said.requirement.operator) == (HOSTNAME, "In")
    is_choice = is_in and _is_met_somewhere(cycle, said.requirement, counts[said])
    found = _Found(misses, said, counts[said], meant, nodes, is_choice)
    form, fields = _fact(cycle, nearest.node.node, found, view)
    fields = {**fields, "key": said.requirement.key, "where": said.where, "pod": cycle.pod.key}
    return (Reason("node-affinity-unmet", fields, form, tuple(_fixes(cycle, found, limits))),)


def _miss(cycle: Cycle, node: NodeInfo) -> _Miss:
    """Looks at the first requirements of a pod that has very many."""
    required, labels = required_node_affinity(cycle.pod), node.node.labels
    selector = [Requirement(key, "In", (value,)) for key, value in required.labels[:_REQUIREMENTS_MAX]]
    looked_at = len(selector)
    lacking = [_Unmet(one, None) for one in selector if not one.matches(labels)]
    best: list[_Unmet] | None = None
    for index, term in enumerate(required.terms or ()):
        if looked_at > _REQUIREMENTS_MAX:
            break
        looked_at += 1 + len(term.requirements)
        if term.problems or not term.requirements:
            continue
        unmet = [_Unmet(one, index) for one in term.requirements[:_REQUIREMENTS_MAX] if not one.matches(labels)]
        if unmet and (best is None or len(unmet) < len(best)):
            best = unmet
    has_term = bool(lacking) and required.matches_term(node.node)
    cycle.charge(_LOOKUPS_A_REQUIREMENT * (1 + looked_at + has_term * len(required.terms or ())))
    return _Miss(node, tuple(lacking if has_term else [*lacking, *(best or ())]))


def _counts(cycle: Cycle, key: str, view: ClusterView) -> Counter[str]:
    """On how many nodes a label has each value."""
    cycle.charge(_LOOKUPS_A_NODE * len(view.node_infos))
    found = (info.node.labels.get(key) for info in view.node_infos.values())
    return Counter([value for value in found if value is not None])


def _is_met_somewhere(cycle: Cycle, one: Requirement, counts: Counter[str]) -> bool:
    if one.operator == "In":
        return any(value in counts for value in one.values)
    cycle.charge(_LOOKUPS_A_REQUIREMENT * len(counts))
    return one.operator == "DoesNotExist" or any(one.matches({one.key: value}) for value in counts)


def _fact(cycle: Cycle, node: Node, found: _Found, view: ClusterView) -> tuple[str, Fields]:
    requirement, counts = found.said.requirement, found.counts
    key, asked = requirement.key, requirement_text(requirement)
    if not counts:
        count = sum(_counts(cycle, found.meant, view).values()) if found.meant else 0
        return "nowhere", {"asked": asked if asked != key else "", "meant": found.meant, "count": count}
    if found.is_choice:
        return "chosen", {"nodes": tuple(sorted(requirement.values))}
    if not _is_met_somewhere(cycle, requirement, counts):
        first = _nearest_first(cycle, found, _VALUES_SAID)
        values = tuple([f"{value} ({count} node{'s' * (count != 1)})" for value, count in first])
        return "value", {"asked": asked, "values": values, "more": len(counts) - len(values)}
    has = node.labels.get(key)
    return "lacks" if has is None else "", {"node": node.name, "asked": asked, "has": has}


def requirement_text(one: Requirement) -> str:
    """As kubectl writes it, with the first of many values."""
    values = sorted(one.values)[:_VALUES_SAID]
    shown = ", ".join(values) + (", …" if len(one.values) > _VALUES_SAID else "")
    match one.operator:
        case "In":
            return f"{one.key}={shown}" if len(one.values) == 1 else f"{one.key} in ({shown})"
        case "NotIn":
            return f"{one.key} not in ({shown})"
        case "Exists":
            return one.key
        case "DoesNotExist":
            return f"no label {one.key}"
        case _:
            return f"{one.key} {'>' if one.operator == 'Gt' else '<'} {one.bound}"


def _label_like(cycle: Cycle, one: _Unmet, view: ClusterView) -> str:
    """A label that some node has and that is written nearly so, or under another prefix."""
    infos = islice(view.node_infos.values(), _NODES_OF_KEYS)
    known = [*dict.fromkeys(key for info in infos for key in info.node.labels)][:_VALUES_COMPARED]
    cycle.charge(3 * len(known))
    return _like(cycle, one.requirement.key, known, lambda key: key.rpartition("/")[2])


def _value_like(cycle: Cycle, one: Requirement, counts: Counter[str]) -> str:
    is_one_meant = one.operator == "In" and len(counts) <= _VALUES_COMPARED
    return _like(cycle, min(one.values), [*counts], str.lower) if is_one_meant else ""


def _like(cycle: Cycle, name: str, known: Sequence[str], part: Callable[[str], str]) -> str:
    """The one of which the part that matters is the same; else one that is written nearly so."""
    same = next((one for one in known if part(one) == part(name)), None)
    cycle.charge(0 if same is not None else _LOOKUPS_A_NAME * len(known))
    return same if same is not None else near(name, known)


def _nearest_first(cycle: Cycle, found: _Found, count: int) -> list[tuple[str, int]]:
    """So many values: the one that was probably meant, then those of most nodes."""
    counts, meant = found.counts, found.meant
    cycle.charge(_LOOKUPS_A_NODE * len(counts))
    first = [(meant, counts[meant])] if meant in counts else []
    return [*first, *(one for one in counts.most_common(count + 1) if one[0] != meant)][:count]


# Fixes


def _fixes(cycle: Cycle, found: _Found, limits: Limits) -> Iterator[Fix]:
    """The value there is; the rule dropped; a node labelled. Each on all nodes that are looked at."""
    pod, misses = cycle.pod, found.misses
    on = tuple([one.node.name for one in misses])
    yield from _written(cycle, found, limits)
    selector = pod.spec.node_selector or {}
    keys = dict.fromkeys([one.requirement.key for miss in misses for one in miss.unmet if one.term is None])
    cycle.charge(len(selector) * min(len(keys), limits.changes))
    for key in islice(keys, limits.changes):
        rest = {name: other for name, other in selector.items() if name != key}
        yield Fix("label-dropped", {"label": f"{key}: {selector[key]}"}, on, pod=with_spec(pod, node_selector=rest))
    if node_affinity_of(pod).required is not None:
        yield Fix("rule-relaxed", {"rule": "required nodeAffinity"}, on, pod=_with_affinity(pod, None))
    for miss in misses:
        yield from _labelled(miss)


def _written(cycle: Cycle, found: _Found, limits: Limits) -> Iterator[Fix]:
    """Another value of the label, or another label, that the nodes have."""
    said, like = found.said, found.meant
    key, values = said.requirement.key, said.requirement.values
    fields = {"where": said.where}
    if not found.counts and like and (having := found.having(like)):
        edited = _edited(cycle.pod, said, like, None)
        yield Fix("written", {**fields, "written": like, "wrong": key}, having, pod=edited)
    for value, _ in _nearest_first(cycle, found, limits.counts) if said.requirement.operator == "In" else ():
        cycle.charge(_LOOKUPS_A_NODE * (len(found.misses) + len(found.nodes)))
        if having := found.having(key, value):
            written = {**fields, "written": f"{key}: {value}", "wrong": names(sorted(values))}
            more, edited = 1 if value == like else 2, _edited(cycle.pod, said, key, value)
            yield Fix("written", written, having, more=more, pod=edited)


def _labelled(miss: _Miss) -> Iterator[Fix]:
    """The node with the labels that it lacks."""
    labels: dict[str, str] = {}
    if len(miss.unmet) > _LABELS_SET:
        return
    for requirement, _ in miss.unmet:
        key = requirement.key
        if requirement.operator not in ("In", "Exists") or key in _GIVEN or key.startswith(_GIVEN_DOMAIN):
            return
        labels.setdefault(key, min(requirement.values, default=""))
    yield labelling(miss.node.node, labels)


def _edited(pod: Pod, unmet: _Unmet, key: str, value: str | None) -> Pod:
    """The pod whose rule asks for this value of this label; None: for the values that it asked for."""
    if unmet.term is None:
        selector = dict(pod.spec.node_selector or {})
        written = selector.pop(unmet.requirement.key)
        selector[key] = written if value is None else value
        return with_spec(pod, node_selector=selector)
    required = node_affinity_of(pod).required
    assert required is not None
    terms = list(required.node_selector_terms or ())
    old = unmet.requirement

    def edit(one: NodeSelectorRequirement) -> NodeSelectorRequirement:
        if (one.key, one.operator) != (old.key, old.operator) or {*(one.values or ())} != {*old.values}:
            return one
        return structs.replace(one, key=key, values=one.values if value is None else (value,))

    term = terms[unmet.term]
    terms[unmet.term] = structs.replace(term, match_expressions=tuple(map(edit, term.match_expressions or ())))
    return _with_affinity(pod, NodeSelector(tuple(terms)))


def _with_affinity(pod: Pod, required: NodeSelector | None) -> Pod:
    affinity = pod.affinity or Affinity()
    terms = structs.replace(affinity.node_affinity or NodeAffinityTerms(), required=required)
    return with_spec(pod, affinity=structs.replace(affinity, node_affinity=terms))


# Nodes by name


def _named(pod: Pod, view: ClusterView) -> Sequence[Reason]:
    """The only nodes that the pod's nodeAffinity takes, by their names, of which there are none."""
    required = node_affinity_of(pod).required
    terms = required.node_selector_terms or () if required is not None else ()
    given = sorted({name for term in terms for one in term.match_fields or () for name in one.values or ()})
    absent = [name for name in given if name not in view.node_infos]
    fields = {"pod": pod.key, "nodes": tuple(given), "node": absent[0] if absent else ""}
    return (Reason("node-affinity-unmet", fields, "gone" if absent else "several"),) if given else ()
