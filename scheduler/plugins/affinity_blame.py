"""Which pods keep a pod away from a node, or are missed there: what InterPodAffinity says of nodes that it refused.

Not here: the verdict (`inter_pod_affinity`); asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, edited_object, likeliest, pod_text
from scheduler.framework.pod_counts_view import PodQuestion
from scheduler.model.keys import NodeName
from scheduler.model.label_selectors import Selector
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Affinity, Pod
from scheduler.model.pod_terms import PodTerm, Role, pod_terms, terms_of
from scheduler.plugins.label_blame import requirement_text
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason

_PODS_MAX: Final = 4
_LOOKUPS_A_RULE: Final = 16
_LOOKUPS_A_POD: Final = 32
_REQUIREMENTS_SAID: Final = 3
_TERMS_MAX: Final = 64


class Rules(NamedTuple):
    """What a pod asks of other pods, and they of it.

    Args:
        near: One question for each label of required affinity; each counts pods that all its terms mean.
        far: One question for each term of required anti-affinity, in their order.
        unique: Labels of which no two nodes share a value.
        means_pod: Whether a term of a pod on a node means this pod.
    """

    near: Sequence[PodQuestion]
    far: Sequence[PodQuestion]
    unique: frozenset[str]
    means_pod: Callable[[PodTerm], bool]


def blame_for_pods(
    plugin: str, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits, *, rules: Rules
) -> Sequence[Reason]:
    """Of the first node that says: the pod's own rule that is broken there, or the pods that want to be alone."""
    looked_at = likeliest(nodes, view, limits)
    pod, changes = cycle.pod, _changes(cycle, looked_at, view, limits, rules)
    for node in looked_at:
        cycle.charge(_LOOKUPS_A_RULE * (min(_TERMS_MAX, len(rules.near)) + min(_TERMS_MAX, len(rules.far))))
        cycle.charge(_LOOKUPS_A_POD * len(node.pods))
        found = _near(pod, node, view, rules) or _far(pod, node, view, rules) or _alone(pod, node, limits, rules)
        if found:
            return (plain_reason("pod-affinity-unmet", found, (plugin, found), tuple(changes)),)
    return ()


def _near(pod: Pod, node: NodeInfo, view: ClusterView, rules: Rules) -> str:
    """The label of required affinity whose value on the node has no pod that is meant."""
    terms = terms_of(pod_terms(pod), Role.REQUIRED_AFFINITY)
    for question in rules.near[:_TERMS_MAX]:
        term = next(one for one in terms if one.topology_key == question.key)
        value, total = node.node.labels.get(question.key), view.pod_counts.count(question).total
        asks = f"the podAffinity of pod {pod.key}"
        if not total:
            return f"no pod {_meant(term)} runs, beside which {asks} wants it (by {question.key})"
        if value is None:
            return f"node {node.name} has no label {question.key}, by which {asks} looks for pods"
        if not _count(question, node, value, view, rules):
            return f"{question.key}={value} has no pod {_meant(term)}, which {asks} asks for; {total} run elsewhere"
    return ""


def _far(pod: Pod, node: NodeInfo, view: ClusterView, rules: Rules) -> str:
    terms = terms_of(pod_terms(pod), Role.REQUIRED_ANTI_AFFINITY)
    for term, question in zip(terms, rules.far[:_TERMS_MAX], strict=False):
        value = node.node.labels.get(question.key)
        count = _count(question, node, value, view, rules) if value is not None else 0
        if count:
            there = f"{count} {'pod' if count == 1 else 'pods'} {_meant(term)}"
            return f"{question.key}={value} has {there}, which the podAntiAffinity of pod {pod.key} rules out"
    return ""


def _count(question: PodQuestion, node: NodeInfo, value: str, view: ClusterView, rules: Rules) -> int:
    count = view.pod_counts.count(question)
    return count.on_node(node) if question.key in rules.unique else count.of_value(value)


def _meant(term: PodTerm) -> str:
    """Which pods a term means: `with app=db in namespace a`."""
    names = sorted(term.namespaces)
    where = f" in namespace {names[0]}" if len(names) == 1 and term.namespace_selector.requirements is None else ""
    return f"with {_selector(term.selector)}{where}"


def _selector(selector: Selector) -> str:
    requirements = selector.requirements
    if not requirements:
        return "any labels" if selector.is_empty else "no labels that can be (there is no selector)"
    shown = ",".join(map(requirement_text, requirements[:_REQUIREMENTS_SAID]))
    return shown + (",…" if len(requirements) > _REQUIREMENTS_SAID else "")


def _alone(pod: Pod, node: NodeInfo, limits: Limits, rules: Rules) -> str:
    found = _neighbours(node, rules)
    if not found:
        return ""
    who = ", ".join(pod_text(one, to=pod, limits=limits) for one in found[:_PODS_MAX])
    keeps = "keeps" if len(found) == 1 else "keep"
    return f"{who} on node {node.name} {keeps} pod {pod.key} away by required podAntiAffinity"


def _neighbours(node: NodeInfo, rules: Rules) -> list[Pod]:
    """Pods whose own anti-affinity keeps the pod away."""
    return [
        one
        for one in node.pods.values()
        if any(rules.means_pod(term) for term in terms_of(pod_terms(one), Role.REQUIRED_ANTI_AFFINITY))
    ]


# Changes


def _changes(cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits, rules: Rules) -> Sequence[Fix]:
    pod, on = cycle.pod, tuple([node.name for node in nodes])
    found = [*_relaxed(pod, on)]
    cycle.charge(_LOOKUPS_A_POD * sum(len(node.pods) for node in nodes))
    for node in nodes:
        keeping = _neighbours(node, rules) or _kept_away(pod, node, view, rules)
        if 0 < len(keeping) <= _PODS_MAX:
            who = ", ".join(pod_text(one, to=pod, limits=limits) for one in keeping)
            removed = tuple([one.uid for one in keeping])
            found.append(plain_fix(6, f"end {who} on node {node.name}", (node.name,), removed=removed))
    return found


def _kept_away(pod: Pod, node: NodeInfo, view: ClusterView, rules: Rules) -> list[Pod]:
    """Pods on the node that the pod's own anti-affinity means, where the node is a domain of its own."""
    terms = terms_of(pod_terms(pod), Role.REQUIRED_ANTI_AFFINITY)[:_TERMS_MAX]
    alone = [one for one in terms if one.topology_key in rules.unique]

    def is_meant(other: Pod) -> bool:
        namespace = view.namespace(other.metadata.namespace)
        labels = namespace.metadata.labels if namespace is not None else None
        return any(one.matches(other.metadata.namespace, other.metadata.labels or {}, labels or {}) for one in alone)

    return [one for one in node.pods.values() if is_meant(one)] if alone else []


def _relaxed(pod: Pod, on: tuple[NodeName, ...]) -> Iterator[Fix]:
    affinity, terms = pod.affinity, pod_terms(pod)
    if affinity is None:
        return
    for kind, role in (("podAffinity", Role.REQUIRED_AFFINITY), ("podAntiAffinity", Role.REQUIRED_ANTI_AFFINITY)):
        if terms_of(terms, role):
            relaxed = structs.replace(pod, spec=structs.replace(pod.spec, affinity=_without(affinity, role)))
            yield plain_fix(5, f"relax the required {kind} of {edited_object(pod)}", on, pod=relaxed)


def _without(affinity: Affinity, role: Role) -> Affinity:
    if role is Role.REQUIRED_AFFINITY and affinity.pod_affinity is not None:
        return structs.replace(affinity, pod_affinity=structs.replace(affinity.pod_affinity, required=None))
    if affinity.pod_anti_affinity is not None:
        return structs.replace(affinity, pod_anti_affinity=structs.replace(affinity.pod_anti_affinity, required=None))
    return affinity
