"""The terms of pod affinity and anti-affinity, checked and prepared: which pods they mean.

Rules of this module
  1. A term's namespaces are its list and what its `namespaceSelector` matches; its pod's own where it has neither.
  2. A selector that cannot be read matches nothing.
  3. `matchLabelKeys` and `mismatchLabelKeys` are not read: the API server has merged them into the selector.

Cost: equal terms are one object while somebody has it, so that a thousand pods of one Deployment have one.

Source: framework/types.go of k8s.io/kube-scheduler v0.36.3 (AffinityTerm, GetAffinityTerms).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from scheduler.model.label_selectors import Selector, compile_label_selector
from scheduler.model.objects import Affinity, Pod, PodAffinity, PodAffinityTerm


class Role(Enum):
    """What a term does."""

    REQUIRED_AFFINITY = "required affinity"
    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    PREFERRED = "preferred"

    __hash__ = object.__hash__


class _Value(NamedTuple):
    role: Role
    weight: int
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector


class PodTerm:
    """One term, told apart by identity.

    Attributes:
        weight: Of a preferred term, negative for anti-affinity; 0 for required ones.
        namespaces: Those named, or its pod's own; `namespace_selector` adds those whose labels it matches.
    """

    __slots__ = ("__weakref__", "namespace_selector", "namespaces", "role", "selector", "topology_key", "weight")

    def __init__(self, value: _Value) -> None:
        self.role: Final = value.role
        self.weight: Final = value.weight
        self.topology_key: Final = value.topology_key
        self.namespaces: Final = value.namespaces
        self.namespace_selector: Final = value.namespace_selector
        self.selector: Final = value.selector

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether it means a pod of this namespace and labels."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


_KNOWN: Final[WeakValueDictionary[_Value, PodTerm]] = WeakValueDictionary()
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def pod_terms(pod: Pod) -> tuple[PodTerm, ...]:
    """All terms of a pod: its required affinity and anti-affinity, then preferred ones."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return ()
    return _terms(pod.metadata.namespace, _ENCODER.encode((affinity.pod_affinity, affinity.pod_anti_affinity)))


def terms_of(terms: Iterable[PodTerm], role: Role) -> tuple[PodTerm, ...]:
    return tuple(term for term in terms if term.role is role)


@lru_cache(maxsize=4096)
def _terms(namespace: str, encoded: bytes) -> tuple[PodTerm, ...]:
    near, far = msgspec.json.decode(encoded, type=tuple[PodAffinity | None, PodAffinity | None])
    return tuple(_compiled(namespace, Affinity(pod_affinity=near, pod_anti_affinity=far)))


def _compiled(namespace: str, affinity: Affinity) -> Iterator[PodTerm]:
    near, far = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
    for term in near.required or ():
        yield _term(namespace, term, Role.REQUIRED_AFFINITY, 0)
    for term in far.required or ():
        yield _term(namespace, term, Role.REQUIRED_ANTI_AFFINITY, 0)
    for sign, preferred in ((1, near.preferred), (-1, far.preferred)):
        for weighted in preferred or ():
            yield _term(namespace, weighted.pod_affinity_term, Role.PREFERRED, sign * weighted.weight)


def _term(namespace: str, term: PodAffinityTerm, role: Role, weight: int) -> PodTerm:
    names = term.namespaces or (() if term.namespace_selector is not None else (namespace,))
    selectors = compile_label_selector(term.namespace_selector), compile_label_selector(term.label_selector)
    value = _Value(role, weight, term.topology_key, frozenset(names), *selectors)
    known = _KNOWN.get(value)
    if known is None:
        known = _KNOWN[value] = PodTerm(value)
    return known
