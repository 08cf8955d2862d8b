"""Label selectors and node selectors, checked once and then only matched.

Rules of this module
  1. Compiling never raises. What is wrong is kept as a sentence with its field path in `problems`.
  2. A node selector term with a problem matches no node; the other terms still count (upstream's lazy errors).
  3. An empty or missing node selector term matches nothing; a label selector without requirements matches everything.

Not here: what an allocation's node selector means (the allocator knows those), and pod (anti-)affinity terms.

Cost: compiling is linear in the selector; `matches` in its requirements. Compiled node selectors are cached by value,
so the thousand pods of one Deployment share one.

Source: k8s.io/component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go, k8s.io/apimachinery
pkg/labels/selector.go v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from allocator.names import is_label_key, is_label_value
from allocator.node_match import parse_int64
from scheduler.model.keys import NodeName
from scheduler.model.objects import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
    Record,
)

_NODE_NAME_FIELD: Final = "metadata.name"
_SET_OPERATORS: Final = frozenset({"In", "NotIn"})
_EXISTENCE_OPERATORS: Final = frozenset({"Exists", "DoesNotExist"})
_ORDER_OPERATORS: Final = frozenset({"Gt", "Lt"})
_NODE_OPERATORS: Final = _SET_OPERATORS | _EXISTENCE_OPERATORS | _ORDER_OPERATORS
_LABEL_OPERATORS: Final = _SET_OPERATORS | _EXISTENCE_OPERATORS


class LabelSelectorRequirement(Record, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelector(Record, frozen=True):
    """metav1.LabelSelector as decoded: all of `match_labels` and all of `match_expressions` must hold."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One checked requirement on labels. `bound` is the number of Gt and Lt, 0 otherwise."""

    key: str
    operator: str
    values: frozenset[str]
    bound: int = 0

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:  # Gt, Lt
                return self._is_beyond_bound(value)

    def _is_beyond_bound(self, value: str | None) -> bool:
        number = parse_int64(value) if value is not None else None
        if number is None:
            return False
        return number > self.bound if self.operator == "Gt" else number < self.bound


@dataclass(frozen=True, slots=True)
class CompiledLabelSelector:
    """Matches labels that meet every requirement; nothing at all when `problems` is not empty."""

    requirements: tuple[Requirement, ...]
    problems: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.problems and all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class CompiledTerm:
    """One term of a node selector: requirements on labels and on fields, ANDed. Broken when it has problems.

    `fields` holds (field, value, wanted): the field must (or must not) have the value.
    """

    requirements: tuple[Requirement, ...]
    fields: tuple[tuple[str, str, bool], ...]
    problems: tuple[str, ...] = ()

    def matches(self, node: Node) -> bool:
        if self.problems:
            return False
        labels = node.labels
        return all(requirement.matches(labels) for requirement in self.requirements) and all(
            ((node.name if field == _NODE_NAME_FIELD else "") == value) is wanted
            for field, value, wanted in self.fields
        )


@dataclass(frozen=True, slots=True)
class CompiledNodeSelector:
    """Matches nodes that at least one sound term matches."""

    terms: tuple[CompiledTerm, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(problem for term in self.terms for problem in term.problems)

    def matches(self, node: Node) -> bool:
        return any(term.matches(node) for term in self.terms)


@dataclass(frozen=True, slots=True)
class PreferredTerms:
    """The weighted terms of a pod's preferred node affinity."""

    weighted: tuple[tuple[int, CompiledTerm], ...]

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(problem for _, term in self.weighted for problem in term.problems)

    def score(self, node: Node) -> int:
        """The sum of the weights of the terms that match `node`."""
        return sum(weight for weight, term in self.weighted if term.matches(node))


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """A pod's `nodeSelector` and required node affinity together; either may be absent."""

    labels: tuple[tuple[str, str], ...]
    selector: CompiledNodeSelector | None

    @property
    def problems(self) -> tuple[str, ...]:
        return self.selector.problems if self.selector is not None else ()

    def matches(self, node: Node) -> bool:
        labels = node.labels
        return all(labels.get(key) == value for key, value in self.labels) and (
            self.selector is None or self.selector.matches(node)
        )


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity:
    """What `pod` demands of its node's labels and name."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    return RequiredNodeAffinity(
        labels=tuple(sorted((pod.spec.node_selector or {}).items())),
        selector=compile_node_selector(required) if required is not None else None,
    )


def required_node_names(selector: NodeSelector) -> frozenset[NodeName] | None:
    """The only nodes that `selector` can match; None when a term does not name nodes (`metadata.name In […]`).

    An empty set: the terms contradict themselves, no node can match.
    """
    names: frozenset[NodeName] = frozenset()
    terms = selector.node_selector_terms or ()
    for term in terms:
        term_names: frozenset[NodeName] | None = None
        for field in term.match_fields or ():
            if field.key == _NODE_NAME_FIELD and field.operator == "In":
                values = frozenset(NodeName(value) for value in field.values or ())
                term_names = values if term_names is None else term_names & values
        if term_names is None:
            return None
        names |= term_names
    return names if terms else None


@lru_cache(maxsize=4096)
def compile_node_selector(selector: NodeSelector) -> CompiledNodeSelector:
    """Check and prepare `selector`. Empty terms are dropped: they match nothing."""
    return CompiledNodeSelector(
        tuple(
            _compile_term(term, f"nodeSelectorTerms[{index}]")
            for index, term in enumerate(selector.node_selector_terms or ())
            if not _is_empty(term)
        )
    )


@lru_cache(maxsize=4096)
def compile_preferred_terms(terms: tuple[PreferredSchedulingTerm, ...]) -> PreferredTerms:
    """Check and prepare the preferred terms. Empty ones and those of weight 0 are dropped unread."""
    return PreferredTerms(
        tuple(
            (term.weight, _compile_term(term.preference, f"[{index}].preference"))
            for index, term in enumerate(terms)
            if term.weight != 0 and not _is_empty(term.preference)
        )
    )


def compile_label_selector(selector: LabelSelector, path: str = "labelSelector") -> CompiledLabelSelector:
    """Check and prepare a metav1.LabelSelector."""
    requirements: list[Requirement] = []
    problems: list[str] = []
    for key, value in sorted((selector.match_labels or {}).items()):
        problems += _key_and_value_problems(key, (value,), f"{path}.matchLabels")
        requirements.append(Requirement(key, "In", frozenset({value})))
    for index, expression in enumerate(selector.match_expressions or ()):
        checked = _check(expression, _LABEL_OPERATORS, f"{path}.matchExpressions[{index}]", problems)
        if checked is not None:
            requirements.append(checked)
    return CompiledLabelSelector(tuple(requirements), tuple(problems))


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _compile_term(term: NodeSelectorTerm, path: str) -> CompiledTerm:
    problems: list[str] = []
    requirements: list[Requirement] = []
    for index, expression in enumerate(term.match_expressions or ()):
        checked = _check(expression, _NODE_OPERATORS, f"{path}.matchExpressions[{index}]", problems)
        if checked is not None:
            requirements.append(checked)
    fields = [
        (field.key, (field.values or ("",))[0], field.operator == "In")
        for index, field in enumerate(term.match_fields or ())
        if _is_sound_field(field, f"{path}.matchFields[{index}]", problems)
    ]
    return CompiledTerm(tuple(requirements), tuple(fields), tuple(problems))


def _is_sound_field(field: NodeSelectorRequirement, path: str, problems: list[str]) -> bool:
    if field.operator not in _SET_OPERATORS:
        problems.append(_unsupported(path, field.operator, _SET_OPERATORS))
        return False
    if len(field.values or ()) != 1:
        problems.append(f"{path}.values: Invalid value: {_quoted(field.values or ())}: must have one element")
        return False
    return True


def _check(
    expression: NodeSelectorRequirement | LabelSelectorRequirement,
    operators: frozenset[str],
    path: str,
    problems: list[str],
) -> Requirement | None:
    """The requirement, or None after adding what is wrong with it to `problems`."""
    key, operator, values = expression.key, expression.operator, expression.values or ()
    if operator not in operators:
        problems.append(_unsupported(path, operator, operators))
        return None
    found = _key_and_value_problems(key, values, path)
    bound = parse_int64(values[0]) if operator in _ORDER_OPERATORS and len(values) == 1 else None
    wrong = f"{path}.values: Invalid value: {_quoted(values)}: "
    if operator in _SET_OPERATORS and not values:
        found.append(wrong + "for 'in', 'notin' operators, values set can't be empty")
    elif operator in _EXISTENCE_OPERATORS and values:
        found.append(wrong + "values set must be empty for exists and does not exist")
    elif operator in _ORDER_OPERATORS and len(values) != 1:
        found.append(wrong + "for 'Gt', 'Lt' operators, exactly one value is required")
    elif operator in _ORDER_OPERATORS and bound is None:
        found.append(wrong + "for 'Gt', 'Lt' operators, the value must be an integer")
    if found:
        problems += found
        return None
    return Requirement(key, operator, frozenset(values), bound or 0)


def _key_and_value_problems(key: str, values: Sequence[str], path: str) -> list[str]:
    problems = []
    if not is_label_key(key):
        problems.append(
            f'{path}.key: Invalid value: "{key}": not a label key: an optional DNS prefix and "/", then at most 63 '
            "characters of letters, digits, '-', '_' or '.', first and last a letter or digit"
        )
    problems += [
        f'{path}.values[{index}]: Invalid value: "{value}": not a label value: at most 63 characters of letters, '
        "digits, '-', '_' or '.', first and last a letter or digit"
        for index, value in enumerate(values)
        if not is_label_value(value)
    ]
    return problems


def label_problems(key: str, values: Sequence[str]) -> list[str]:
    """What is wrong with a label key and values that somebody typed."""
    return [problem.partition("Invalid value: ")[2] for problem in _key_and_value_problems(key, values, "")]


def _unsupported(path: str, operator: str, operators: frozenset[str]) -> str:
    return f'{path}.operator: Unsupported value: "{operator}": supported values: {", ".join(sorted(operators))}'


def _quoted(values: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"
