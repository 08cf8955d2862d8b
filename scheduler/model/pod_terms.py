"""The terms of pod affinity and anti-affinity, checked and prepared: which pods they mean.

Rules of this module
  1. A term's namespaces are its list and what its `namespaceSelector` matches; its pod's own where it has neither.
  2. A selector that cannot be read matches nothing.
  3. `matchLabelKeys` and `mismatchLabelKeys` are not read: the API server has merged them into the selector.

  4. Preparing the terms of a pod that has many of them pauses (`prepare`), and goes on where it was. What was prepared
     lately is kept, as far as `_KEPT_BYTES_MAX` goes: without that they are prepared with each question about the pod,
     50 us a term.

Cost: equal terms are one object while somebody has it, so that a thousand pods of one Deployment have one.

Source: framework/types.go of k8s.io/kube-scheduler v0.36.3 (AffinityTerm, GetAffinityTerms).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from scheduler.model.label_selectors import Selector, compile_label_selector
from scheduler.model.objects import Affinity, Pod, PodAffinity, PodAffinityTerm
from scheduler.model.sized_cache import SizedCache


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


_PART: Final = 10  # terms
_STEPS_PER_PART: Final = 150  # preparing a term takes 40 to 70 us, a step 4
_KEPT_BYTES_MAX: Final = 6_000_000
_BYTES_MIN: Final = 2_500
_BYTES_A_CHARACTER: Final = 7

_KNOWN: Final[WeakValueDictionary[_Value, PodTerm]] = WeakValueDictionary()
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class _Prepared:
    """The terms of pods of one namespace with the same affinity, as far as they were asked for."""

    __slots__ = ("_begun", "_left", "terms")

    def __init__(self, namespace: str, affinity: Affinity) -> None:
        self._left = _compiled(namespace, affinity)
        self._begun: Final[list[PodTerm]] = []
        self.terms: tuple[PodTerm, ...] | None = None

    def go_on(self, count: int | None) -> tuple[PodTerm, ...] | None:
        """Prepare so many more, None: all of them. Returns them when none is left."""
        if self.terms is None:
            before = len(self._begun)
            self._begun.extend(islice(self._left, count))
            if count is None or len(self._begun) < before + count:
                self.terms = tuple(self._begun)
                self._begun.clear()
                self._left = iter(())
        return self.terms


_KEPT: Final[SizedCache[tuple[str, bytes], _Prepared]] = SizedCache(_KEPT_BYTES_MAX)


def pod_terms(pod: Pod) -> tuple[PodTerm, ...]:
    """All terms of a pod: its required affinity and anti-affinity, then preferred ones."""
    affinity = pod.spec.affinity
    if affinity is None:
        return ()
    if pod.packed_affinity is None and affinity.pod_affinity is None and affinity.pod_anti_affinity is None:
        return ()
    prepared = _prepared(pod)
    terms = prepared.terms or prepared.go_on(None)
    assert terms is not None
    return terms


def prepare(pod: Pod, steps_max: int) -> tuple[bool, int]:
    """Prepare a pod's terms, some at least.

    Returns:
        Whether `pod_terms` has them at once now, and the steps that this took.
    """
    if pod.packed_affinity is None:
        return True, 0  # few
    prepared, steps = _prepared(pod), 0
    while prepared.terms is None:
        if steps and steps + _STEPS_PER_PART > steps_max:
            return False, steps
        prepared.go_on(_PART)
        steps += _STEPS_PER_PART
    return True, steps


def are_prepared(pod: Pod) -> bool:
    """Whether `pod_terms` has the terms at once."""
    packed = pod.packed_affinity
    if packed is None:
        return True
    prepared = _KEPT.get((pod.metadata.namespace, packed.pods))
    return prepared is not None and prepared.terms is not None


def _prepared(pod: Pod) -> _Prepared:
    namespace, affinity, packed = pod.metadata.namespace, pod.spec.affinity, pod.packed_affinity
    assert affinity is not None
    if packed is None:
        text = _ENCODER.encode((affinity.pod_affinity, affinity.pod_anti_affinity))
        size = len(text)
    else:
        text, size = packed.pods, packed.size
    prepared = _KEPT.get((namespace, text))
    if prepared is None:
        whole = packed.unpacked() if packed is not None else affinity
        prepared = _KEPT.put((namespace, text), _Prepared(namespace, whole), _BYTES_MIN + _BYTES_A_CHARACTER * size)
    return prepared


def terms_of(terms: Iterable[PodTerm], role: Role) -> tuple[PodTerm, ...]:
    return tuple(term for term in terms if term.role is role)


class _Shared(NamedTuple):
    """Parts that most terms of a pod have alike, so that they are there once: a set takes 216 bytes."""

    namespaces: dict[tuple[str, ...], frozenset[str]]
    topology_keys: dict[str, str]


def _compiled(namespace: str, affinity: Affinity) -> Iterator[PodTerm]:
    shared = _Shared({}, {})
    near, far = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
    for term in near.required or ():
        yield _term(shared, namespace, term, Role.REQUIRED_AFFINITY, 0)
    for term in far.required or ():
        yield _term(shared, namespace, term, Role.REQUIRED_ANTI_AFFINITY, 0)
    for sign, preferred in ((1, near.preferred), (-1, far.preferred)):
        for weighted in preferred or ():
            yield _term(shared, namespace, weighted.pod_affinity_term, Role.PREFERRED, sign * weighted.weight)


def _term(shared: _Shared, namespace: str, term: PodAffinityTerm, role: Role, weight: int) -> PodTerm:
    names = term.namespaces or (() if term.namespace_selector is not None else (namespace,))
    selectors = compile_label_selector(term.namespace_selector), compile_label_selector(term.label_selector)
    namespaces = shared.namespaces.get(names)
    if namespaces is None:
        namespaces = shared.namespaces[names] = frozenset(names)
    topology_key = shared.topology_keys.setdefault(term.topology_key, term.topology_key)
    value = _Value(role, weight, topology_key, namespaces, *selectors)
    known = _KNOWN.get(value)
    if known is None:
        known = _KNOWN[value] = PodTerm(value)
    return known
