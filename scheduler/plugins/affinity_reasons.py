"""Which pods keep a pod away from a node, or are missed there: what InterPodAffinity says of nodes that it refused.

Not here: the verdict (`inter_pod_affinity`); asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, likeliest, with_spec
from scheduler.framework.pod_counts_view import PodQuestion
from scheduler.model.keys import NodeName
from scheduler.model.label_selectors import Selector
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.pod_terms import PodTerm, Role, pod_terms, terms_of
from scheduler.plugins.ended_reasons import ending, is_one_of_a_group
from scheduler.plugins.label_reasons import requirement_text
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import Fields, Pods, Sentence

_PODS_MAX: Final = 4
_LOOKUPS_A_RULE: Final = 16
_LOOKUPS_A_POD: Final = 32
_REQUIREMENTS_SAID: Final = 3
_TERMS_MAX: Final = 64
_RULES: Final = (
    ("podAffinity", "pod_affinity", Role.REQUIRED_AFFINITY),
    ("podAntiAffinity", "pod_anti_affinity", Role.REQUIRED_ANTI_AFFINITY),
)


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


def diagnose_pods(
    cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits, *, rules: Rules
) -> Sequence[Reason]:
    """Of the first node that says: the pod's own rule that is broken there, or the pods that want to be alone."""
    looked_at = likeliest(nodes, view, limits)
    pod = cycle.pod
    for node in looked_at:
        cycle.charge(_LOOKUPS_A_RULE * (min(_TERMS_MAX, len(rules.near)) + min(_TERMS_MAX, len(rules.far))))
        cycle.charge(_LOOKUPS_A_POD * len(node.pods))
        if found := next(_broken(pod, node, view, rules), None):
            form, fields = found
            fixes = tuple(_fixes(cycle, looked_at, view, rules))
            return (Reason("pod-affinity-unmet", {**fields, "node": node.name, "pod": pod.key}, form, fixes),)
    return ()


def _broken(pod: Pod, node: NodeInfo, view: ClusterView, rules: Rules) -> Iterator[tuple[str, Fields]]:
    """The pod's own rules that do not hold on the node, then the pods there that keep it away."""
    near, far = (terms_of(pod_terms(pod), one) for one in (Role.REQUIRED_AFFINITY, Role.REQUIRED_ANTI_AFFINITY))
    for question in rules.near[:_TERMS_MAX]:
        key, value = question.key, node.node.labels.get(question.key)
        total = view.pod_counts.count(question).total
        which = _meant(next(one for one in near if one.topology_key == key))
        fields = {"key": key, "value": value, "which": which, "total": total}
        if not total:
            yield "nowhere", fields
        elif value is None:
            yield "lacks", fields
        elif not _count(question, node, value, view, rules):
            yield "", fields
    for term, question in zip(far, rules.far[:_TERMS_MAX], strict=False):
        value = node.node.labels.get(question.key)
        count = _count(question, node, value, view, rules) if value is not None else 0
        if count:
            yield "ruled-out", {"key": question.key, "value": value, "which": _meant(term), "count": count}
    if found := _neighbours(node, rules):
        yield "kept-away", {"pods": Pods.of(found)}


def _count(question: PodQuestion, node: NodeInfo, value: str, view: ClusterView, rules: Rules) -> int:
    count = view.pod_counts.count(question)
    return count.on_node(node) if question.key in rules.unique else count.of_value(value)


def _meant(term: PodTerm) -> Sentence:
    """Which pods a term means."""
    is_one = len(term.namespaces) == 1 and term.namespace_selector.requirements is None
    fields = {"labels": _selector(term.selector), "namespace": min(term.namespaces) if is_one else ""}
    return Sentence("with {labels}[ in namespace {namespace}]", fields)


def _selector(selector: Selector) -> str:
    requirements = selector.requirements
    if not requirements:
        return "any labels" if selector.is_empty else "no labels that can be (there is no selector)"
    shown = ",".join(map(requirement_text, requirements[:_REQUIREMENTS_SAID]))
    return shown + (",…" if len(requirements) > _REQUIREMENTS_SAID else "")


def _neighbours(node: NodeInfo, rules: Rules) -> list[Pod]:
    """Pods whose own anti-affinity keeps the pod away."""
    return [
        one
        for one in node.pods.values()
        if any(rules.means_pod(term) for term in terms_of(pod_terms(one), Role.REQUIRED_ANTI_AFFINITY))
    ]


# Fixes


def _fixes(cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, rules: Rules) -> Iterator[Fix]:
    pod = cycle.pod
    yield from _relaxed(pod, tuple([node.name for node in nodes]))
    cycle.charge(_LOOKUPS_A_POD * sum(len(node.pods) for node in nodes))
    for node in nodes:
        keeping = _neighbours(node, rules) or _ruled_out(pod, node, view, rules)
        if 0 < len(keeping) <= _PODS_MAX:
            yield ending(pod, keeping, [node.name])


def _ruled_out(pod: Pod, node: NodeInfo, view: ClusterView, rules: Rules) -> list[Pod]:
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
    if affinity is None or is_one_of_a_group(pod):
        return
    for kind, field, role in _RULES:
        if terms_of(terms, role):
            soft = structs.replace(getattr(affinity, field), required=None)
            relaxed = with_spec(pod, affinity=structs.replace(affinity, **{field: soft}))
            yield Fix("rule-relaxed", {"rule": f"required {kind}"}, on, pod=relaxed)
