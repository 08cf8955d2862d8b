"""Which changes may let a pod in that terms of pod affinity or anti-affinity refused: its own or running pods'.

Not here: the verdict (`inter_pod_affinity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scheduler.framework.api import ClusterEvent
from scheduler.framework.cluster_view import ClusterView
from scheduler.model.objects import Namespace, Node, Pod
from scheduler.model.pod_terms import PodTerm, Role, pod_terms, terms_of

_NO_LABELS: Final[Mapping[str, str]] = {}


def _means_pod(term: PodTerm, pod: Pod, view: ClusterView) -> bool:
    meta = pod.metadata
    namespace = view.namespace(meta.namespace)
    of_namespace = (namespace.metadata.labels if namespace is not None else None) or _NO_LABELS
    return term.matches(meta.namespace, meta.labels or _NO_LABELS, of_namespace)


def pod_helps(
    pod: Pod, near: Sequence[PodTerm], far: Sequence[PodTerm], change: ClusterEvent, view: ClusterView
) -> bool:
    old, new = change.old, change.new
    if isinstance(new, Pod) and new.uid == pod.uid:
        return True  # its labels: other pods may keep away from it no more

    def is_near(other: object) -> bool:
        return isinstance(other, Pod) and bool(near) and all(_means_pod(term, other, view) for term in near)

    def is_far(other: object, term: PodTerm) -> bool:
        return isinstance(other, Pod) and _means_pod(term, other, view)

    if is_near(new) and not is_near(old):
        return True
    if any(is_far(old, term) and not is_far(new, term) for term in far):
        return True
    # With the last pod of its kind gone, or relabelled, the pod may be the first.
    if is_near(old) and not is_near(new) and all(_means_pod(term, pod, view) for term in near):
        return True
    if new is not None or not isinstance(old, Pod):
        return False
    refusing = terms_of(pod_terms(old), Role.REQUIRED_ANTI_AFFINITY)
    return any(_means_pod(term, pod, view) for term in refusing)


def node_helps(
    pod: Pod, near: Sequence[PodTerm], far: Sequence[PodTerm], change: ClusterEvent, view: ClusterView
) -> bool:
    old, new = change.old, change.new
    if not isinstance(new, Node):
        return False
    meaning = view.pod_counts.terms_meaning(pod.metadata.namespace, pod.metadata.labels or _NO_LABELS, 0)
    if meaning is None:
        return True  # it takes long to say, and PreFilter does it in parts
    info = view.node_infos.get(new.name)
    # A term whose label is gone from all nodes is still that of the pods on this one.
    on_node = [term for term in info.pod_terms if _means_pod(term, pod, view)] if info is not None else []
    refusing = terms_of((*meaning.terms, *on_node), Role.REQUIRED_ANTI_AFFINITY)
    keeping_away = {term.topology_key for term in (*far, *refusing)}
    if not isinstance(old, Node):
        return any(term.topology_key in new.labels for term in near) or not near or bool(far)
    before, after = old.labels, new.labels
    if any(after.get(term.topology_key) not in (None, before.get(term.topology_key)) for term in near):
        return True
    return any(before.get(key) not in (None, after.get(key)) for key in keeping_away)


def namespace_helps(pod: Pod, near: Sequence[PodTerm], far: Sequence[PodTerm], change: ClusterEvent) -> bool:
    old, new = (one if isinstance(one, Namespace) else None for one in (change.old, change.new))
    namespace = old or new
    if namespace is None:
        return False
    name = namespace.metadata.name
    if name == pod.metadata.namespace:
        return True  # terms of pods on nodes may not mean the pod any more, or it may be the first that its own mean
    before, after = ((one.metadata.labels if one is not None else None) or _NO_LABELS for one in (old, new))

    def is_meant(term: PodTerm, labels: Mapping[str, str]) -> bool:
        return name in term.namespaces or term.namespace_selector.matches(labels)

    # The last pods that it must be near may be meant no more, and then it may be the first.
    return any(is_meant(term, before) != is_meant(term, after) for term in near) or any(
        is_meant(term, before) and not is_meant(term, after) for term in far
    )
