"""Which pods keep a pod away from a node, or are missed there: what InterPodAffinity says of nodes that it refused.

Not here: the verdict (`inter_pod_affinity`); asking as if a change were made (`core.causes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import structs

from scheduler.framework.blame import Blame, Change, Limits, likeliest, pod_text
from scheduler.framework.cluster_view import ClusterView
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Affinity, Pod
from scheduler.model.pod_terms import PodTerm, Role, pod_terms, terms_of

_PODS_MAX: Final = 4


def blame_for_pods(
    plugin: str,
    pod: Pod,
    nodes: Sequence[NodeInfo],
    view: ClusterView,
    limits: Limits,
    *,
    means_pod: Callable[[PodTerm], bool],
) -> Sequence[Blame]:
    """The pod's own rules, which might be relaxed, and the pods on the likeliest nodes that want to be alone.

    Args:
        means_pod: Whether a term of a pod on a node means this pod.
    """
    near = likeliest(nodes, view, limits)
    if not near:
        return ()
    changes = [*_rules(pod, tuple([node.name for node in near])), *_neighbours(pod, near, limits, means_pod)]
    return (
        (Blame("pod-affinity-unmet", changes[0].cause, (plugin, changes[0].size), tuple(changes)),) if changes else ()
    )


def _rules(pod: Pod, on: tuple[NodeName, ...]) -> Iterator[Change]:
    affinity, terms = pod.affinity, pod_terms(pod)
    if affinity is None:
        return
    for kind, role in (("podAffinity", Role.REQUIRED_AFFINITY), ("podAntiAffinity", Role.REQUIRED_ANTI_AFFINITY)):
        required = terms_of(terms, role)
        if required:
            keys = ", ".join(dict.fromkeys(one.topology_key for one in required))
            yield Change(
                5,
                f"relax the required {kind} of pod {pod.key}",
                on,
                cause=f"no node that would do satisfies the required {kind} of pod {pod.key} (by {keys})",
                pod=structs.replace(pod, spec=structs.replace(pod.spec, affinity=_without(affinity, role))),
            )


def _without(affinity: Affinity, role: Role) -> Affinity:
    if role is Role.REQUIRED_AFFINITY and affinity.pod_affinity is not None:
        return structs.replace(affinity, pod_affinity=structs.replace(affinity.pod_affinity, required=None))
    if affinity.pod_anti_affinity is not None:
        return structs.replace(affinity, pod_anti_affinity=structs.replace(affinity.pod_anti_affinity, required=None))
    return affinity


def _neighbours(
    pod: Pod, nodes: Sequence[NodeInfo], limits: Limits, means_pod: Callable[[PodTerm], bool]
) -> Iterator[Change]:
    """Pods whose own anti-affinity keeps the pod away."""
    for node in nodes:
        found = [
            one
            for one in node.pods.values()
            if any(means_pod(term) for term in terms_of(pod_terms(one), Role.REQUIRED_ANTI_AFFINITY))
        ]
        if 0 < len(found) <= _PODS_MAX:
            who = ", ".join(pod_text(one, to=pod, limits=limits) for one in found)
            yield Change(
                6,
                f"end {who} on node {node.name}",
                (node.name,),
                cause=f"{who} on node {node.name} {'keeps' if len(found) == 1 else 'keep'} pod {pod.key} away by "
                "required podAntiAffinity",
                removed=tuple([one.uid for one in found]),
            )
