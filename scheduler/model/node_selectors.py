"""What a pod's spec asks of nodes' labels and names: its node selector, required and preferred node affinity.

Rules of this module
  1. Compiling never raises. A term that cannot be used matches no node; the other terms still count (upstream's lazy
     errors).
  2. An empty or missing term matches nothing.

Not here: how a term is checked and matched (`allocator.node_match`), and pod (anti-)affinity terms.

Cost: compiling is linear in the selector; matching in its requirements. Compiled selectors are cached by value, so the
thousand pods of one Deployment share one.

Source: k8s.io/component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go v0.36.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import allocator
from allocator.node_match import CompiledTerm, compile_term, named_nodes
from scheduler.model.keys import NodeName
from scheduler.model.objects import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
)


@dataclass(frozen=True, slots=True)
class PreferredTerms:
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


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """A pod's `nodeSelector` and required node affinity together; either may be absent (`terms` None)."""

    labels: tuple[tuple[str, str], ...]
    terms: tuple[CompiledTerm, ...] | None

    @property
    def size(self) -> int:
        """How many requirements there are."""
        return len(self.labels) + (sum([len(term.requirements) for term in self.terms]) if self.terms else 0)

    def matches(self, node: Node) -> bool:
        labels = node.labels
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        return self.terms is None or any(term.matches(node.name, labels) for term in self.terms)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with terms that match nothing, by paths within the list of terms."""
        terms = enumerate(self.terms or ())
        return tuple(f"[{index}].{problem}" for index, term in terms for problem in term.problems)


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity:
    """What `pod` demands of its node's labels and name."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    labels = tuple(sorted((pod.spec.node_selector or {}).items()))
    return RequiredNodeAffinity(labels, compile_selector(required) if required is not None else None)


def required_terms(selector: NodeSelector | None) -> RequiredNodeAffinity:
    """What a selector alone demands; None demands nothing."""
    return RequiredNodeAffinity((), compile_selector(selector) if selector is not None else None)


@lru_cache(maxsize=4096)
def required_node_names(selector: NodeSelector) -> frozenset[NodeName] | None:
    """The only nodes that `selector` can match, see `allocator.node_match.named_nodes`."""
    names = named_nodes(allocator.NodeSelector(tuple(map(_term, selector.node_selector_terms or ()))))
    return frozenset(map(NodeName, names)) if names is not None else None


@lru_cache(maxsize=4096)
def compile_preferred_terms(terms: tuple[PreferredSchedulingTerm, ...]) -> PreferredTerms:
    """Check and prepare the preferred terms. Empty ones and those of weight 0 are dropped unread."""
    weighted, problems = [], []
    for index, term in enumerate(terms):
        if term.weight != 0 and (term.preference.match_expressions or term.preference.match_fields):
            compiled = compile_term(_term(term.preference))
            weighted.append((term.weight, compiled))
            problems += [f"[{index}].{problem}" for problem in compiled.problems]
    return PreferredTerms(tuple(weighted), tuple(problems))


@lru_cache(maxsize=4096)
def compile_selector(selector: NodeSelector) -> tuple[CompiledTerm, ...]:
    """The terms, checked; a node matches when one of them does."""
    return tuple([compile_term(_term(term)) for term in selector.node_selector_terms or ()])


def _term(term: NodeSelectorTerm) -> allocator.NodeSelectorTerm:
    return allocator.NodeSelectorTerm(
        tuple(map(_requirement, term.match_expressions or ())), tuple(map(_requirement, term.match_fields or ()))
    )


def _requirement(one: NodeSelectorRequirement) -> allocator.NodeSelectorRequirement:
    return allocator.NodeSelectorRequirement(one.key, one.operator, one.values or ())
