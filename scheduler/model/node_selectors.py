"""What a pod's spec asks of nodes' labels and names: its node selector, required and preferred node affinity.

Rules of this module
  1. Compiling never raises. A term that cannot be used matches no node; the other terms still count (upstream's lazy
     errors).
  2. An empty or missing term matches nothing.

Not here: how a term is checked and matched (`allocator.pools.node_match`), and pod (anti-)affinity terms.

Cost: compiling is linear in the selector; matching in its requirements. Compiled selectors are cached by value, so the
thousand pods of one Deployment share one.

Source: k8s.io/component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

import allocator
from allocator.pools.node_match import CompiledTerm, check_term, named_nodes
from scheduler.model.keys import NodeName
from scheduler.model.objects import (
    Node,
    NodeAffinityTerms,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
)
from scheduler.model.sized_cache import SizedCache

HOSTNAME: Final = "kubernetes.io/hostname"


class PreferredTerms(Struct, frozen=True):
    """The weighted terms of a pod's preferred node affinity."""

    weighted: tuple[tuple[int, CompiledTerm], ...]
    problems: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many requirements there are."""
        return sum([len(term.requirements) for _, term in self.weighted]) if self.weighted else 0

    def score(self, node: Node) -> int:
        """The sum of the weights of the terms that match `node`."""
        name, labels = node.name, node.labels
        return sum(weight for weight, term in self.weighted if term.matches(name, labels))

    def after(self, others: PreferredTerms) -> PreferredTerms:
        """The terms of both."""
        return PreferredTerms(others.weighted + self.weighted, others.problems + self.problems)


class RequiredNodeAffinity(Struct, frozen=True):
    """A pod's `nodeSelector` and required node affinity together; either may be absent (`terms` None)."""

    labels: tuple[tuple[str, str], ...]
    terms: tuple[CompiledTerm, ...] | None

    @property
    def size(self) -> int:
        """How many requirements there are."""
        return len(self.labels) + (sum([len(term.requirements) for term in self.terms]) if self.terms else 0)

    @property
    def hosts(self) -> frozenset[NodeName]:
        """The nodes that it names by their host's name; none where it does not."""
        if selected := [NodeName(value) for key, value in self.labels if key == HOSTNAME]:
            return frozenset(selected)
        named = [
            [host for one in term.requirements if (one.key, one.operator) == (HOSTNAME, "In") for host in one.values]
            for term in self.terms or ()
        ]
        return frozenset(NodeName(host) for hosts in named for host in hosts) if all(named) else frozenset()

    def matches(self, node: Node) -> bool:
        labels = node.labels
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        return self.matches_term(node)

    def matches_term(self, node: Node) -> bool:
        """Whether one of the terms matches, or there are none."""
        return self.terms is None or any(term.matches(node.name, node.labels) for term in self.terms)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with terms that match nothing, by paths within the list of terms."""
        terms = enumerate(self.terms or ())
        return tuple(f"[{index}].{problem}" for index, term in terms for problem in term.problems)


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity:
    """What `pod` demands of its node's labels and name."""
    required = node_affinity_of(pod).required
    labels = tuple(sorted((pod.spec.node_selector or {}).items()))
    return RequiredNodeAffinity(labels, compile_selector(required) if required is not None else None)


def required_terms(selector: NodeSelector | None) -> RequiredNodeAffinity:
    """What a selector alone demands; None demands nothing."""
    return RequiredNodeAffinity((), compile_selector(selector) if selector is not None else None)


_KEPT_MAX: Final = 30_000
"""Of `_size`. Without: 23 % more CPU for a pod that prefers nodes (benchmarks.deciding --workload
preferred-node-affinity), 15 % for one with required terms, 7 % for one that names its node (benchmarks.deciding_rows
--table scheduler-perf-others --row perf-node-affinity, perf-daemonset)."""
_NAMES: Final[SizedCache[NodeSelector, tuple[frozenset[NodeName] | None]]] = SizedCache(_KEPT_MAX)
_PREFERRED: Final[SizedCache[tuple[PreferredSchedulingTerm, ...], PreferredTerms]] = SizedCache(_KEPT_MAX)
_REQUIRED: Final[SizedCache[NodeSelector, tuple[CompiledTerm, ...]]] = SizedCache(_KEPT_MAX)
_PACKED: Final[SizedCache[bytes, NodeAffinityTerms]] = SizedCache(_KEPT_MAX)
_NO_TERMS: Final = NodeAffinityTerms()


def node_affinity_of(pod: Pod) -> NodeAffinityTerms:
    """A pod's node affinity; of one that is packed it is remembered for a while."""
    affinity = pod.spec.affinity
    if affinity is None:
        return _NO_TERMS
    packed = pod.packed_affinity
    if packed is None:
        return affinity.node_affinity or _NO_TERMS
    found = _PACKED.get(packed.nodes)
    if found is None:
        found = _PACKED.put(packed.nodes, packed.node_affinity or _NO_TERMS, packed.size // 100)
    return found


def required_node_names(selector: NodeSelector) -> frozenset[NodeName] | None:
    """The only nodes that `selector` can match, see `allocator.pools.node_match.named_nodes`."""
    found = _NAMES.get(selector)
    if found is None:
        names = named_nodes(allocator.NodeSelector(tuple(map(_term, selector.node_selector_terms or ()))))
        found = (frozenset(map(NodeName, names)) if names is not None else None,)
        _NAMES.put(selector, found, _size(selector.node_selector_terms or ()))
    return found[0]


def compile_preferred_terms(terms: tuple[PreferredSchedulingTerm, ...]) -> PreferredTerms:
    """Check and prepare the preferred terms. Empty ones and those of weight 0 are dropped unread."""
    found = _PREFERRED.get(terms)
    if found is None:
        found = _PREFERRED.put(terms, _compile_preferred(terms), _size(term.preference for term in terms))
    return found


def _compile_preferred(terms: tuple[PreferredSchedulingTerm, ...]) -> PreferredTerms:
    weighted, problems = [], []
    for index, term in enumerate(terms):
        if term.weight != 0 and (term.preference.match_expressions or term.preference.match_fields):
            compiled = check_term(_term(term.preference))
            weighted.append((term.weight, compiled))
            problems += [f"[{index}].{problem}" for problem in compiled.problems]
    return PreferredTerms(tuple(weighted), tuple(problems))


def compile_selector(selector: NodeSelector) -> tuple[CompiledTerm, ...]:
    """The terms, checked; a node matches when one of them does."""
    found = _REQUIRED.get(selector)
    if found is None:
        terms = selector.node_selector_terms or ()
        found = _REQUIRED.put(selector, tuple([check_term(_term(term)) for term in terms]), _size(terms))
    return found


def _size(terms: Iterable[NodeSelectorTerm]) -> int:
    """In requirements and values, which take some 300 and 100 bytes: of all selectors together a few megabytes."""
    both = [(*(term.match_expressions or ()), *(term.match_fields or ())) for term in terms]
    return 7 + sum([3 + len(one.values or ()) for term in both for one in term])


def _term(term: NodeSelectorTerm) -> allocator.NodeSelectorTerm:
    return allocator.NodeSelectorTerm(
        tuple(map(_requirement, term.match_expressions or ())), tuple(map(_requirement, term.match_fields or ()))
    )


def _requirement(one: NodeSelectorRequirement) -> allocator.NodeSelectorRequirement:
    return allocator.NodeSelectorRequirement(one.key, one.operator, one.values or ())
