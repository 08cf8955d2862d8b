"""Does a node match: by name, by "all nodes", or by a node selector, of which each term is checked once.

Source: k8s.io/component-helpers scheduling/corev1/nodeaffinity, k8s.io/apimachinery pkg/labels, and
structured/internal/incubating/pools_incubating.go (`NodeMatches`), all 0.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct

from allocator.values.model import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, NodeView
from allocator.values.names import is_label_key, is_label_value

_LABEL_OPERATORS: Final = {name: name for name in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")}
"""By name; what was decoded has a text of its own for each requirement."""
_SUPPORTED: Final = ", ".join(f'"{operator}"' for operator in _LABEL_OPERATORS)
_ORDER: Final = ("Gt", "Lt")
_NAME_FIELD: Final = "metadata.name"


_FEW_VALUES: Final = 4
Values: TypeAlias = tuple[str, ...] | frozenset[str]
"""Values of a requirement. Equal for the same ones in any order: a few sorted, a quarter of a set's memory."""


def values_of(values: Collection[str]) -> Values:
    if len(values) == 1:
        return (*values,)
    distinct = frozenset(values)
    return tuple(sorted(distinct)) if len(distinct) <= _FEW_VALUES else distinct


class NodeSelectorError(ValueError):
    """A node selector cannot be used. The API server refuses such selectors; a newer one may not."""


class Requirement(Struct, frozen=True):
    """One checked requirement on labels. `values` are of `values_of`; `bound` is the number of Gt and Lt, else 0."""

    key: str
    operator: str
    values: Values
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
                number = None if value is None else parse_int64(value)
                if number is None:
                    return False
                return number > self.bound if self.operator == "Gt" else number < self.bound


class CompiledTerm(Struct, frozen=True):
    """One term of a node selector, checked. It matches nothing when it is empty or has `problems`.

    Attributes:
        fields: (field, value, wanted): the field must (or must not) have the value.
        problems: Sentences in upstream's words that begin with a path within the term.
    """

    requirements: tuple[Requirement, ...]
    fields: tuple[tuple[str, str, bool], ...]
    problems: tuple[str, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node of that name and labels meets all requirements."""
        if self.problems or not (self.requirements or self.fields):
            return False
        for requirement in self.requirements:
            if not requirement.matches(labels):
                return False
        # A node has one selectable field; any other counts as empty.
        return all(((name if key == _NAME_FIELD else "") == value) is wanted for key, value, wanted in self.fields)


def check_term(term: NodeSelectorTerm) -> CompiledTerm:
    """Check and prepare a term; never raises. For those who remember it themselves: a term can be of any size."""
    problems = []
    for kind, requirements, problem_of in (
        ("matchExpressions", term.match_expressions, _label_problem),
        ("matchFields", term.match_fields, _field_problem),
    ):
        for position, requirement in enumerate(requirements):
            if problem := problem_of(requirement):
                problems.append(f"{kind}[{position}].{problem}")
    if problems:
        return CompiledTerm((), (), tuple(problems))
    return CompiledTerm(
        tuple(
            Requirement(
                key,
                _LABEL_OPERATORS[operator],
                values_of(values),
                (parse_int64(values[0]) or 0) if operator in _ORDER else 0,
            )
            for key, operator, values in term.match_expressions
        ),
        tuple((key, values[0], operator == "In") for key, operator, values in term.match_fields),
        (),
    )


compile_term: Final = lru_cache(maxsize=4096)(check_term)
"""The same, remembered: to match a node takes 1 us instead of 9, once for each node and slice with a selector."""


def match_node(node: NodeView, node_name: str | None, all_nodes: bool, selector: NodeSelector | None) -> bool:
    """The node selection of a slice or of a device: the name decides, then "all nodes", then the selector.

    Raises:
        NodeSelectorError: the selector decides and cannot be parsed.
    """
    if node_name:
        return node.name == node_name
    if all_nodes:
        return True
    if selector is None:
        return False
    check_node_selector(selector)
    return match_node_selector(selector, node)


def match_node_selector(selector: NodeSelector, node: NodeView) -> bool:
    """Whether the node matches one of the terms. Terms that cannot be parsed match nothing."""
    return any(compile_term(term).matches(node.name, node.labels) for term in selector.terms)


def named_nodes(selector: NodeSelector) -> frozenset[str] | None:
    """The only nodes that the selector can match; None when a term does not name nodes (`metadata.name In […]`).

    An empty set: the terms contradict themselves, no node can match.
    """
    names: frozenset[str] = frozenset()
    for term in selector.terms:
        named = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == _NAME_FIELD and field.operator == "In"
        ]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return names if selector.terms else None


def check_node_selector(selector: NodeSelector) -> None:
    """Raise NodeSelectorError, with upstream's text, when any term cannot be parsed."""
    problems = [
        f"nodeSelectorTerms[{index}].{problem}"
        for index, term in enumerate(selector.terms)
        for problem in compile_term(term).problems
    ]
    if problems:
        text = problems[0] if len(problems) == 1 else "[" + ", ".join(dict.fromkeys(problems)) + "]"
        raise NodeSelectorError(f"failed to parse node selector {_go_string(selector)}: {text}")


def _label_problem(requirement: NodeSelectorRequirement) -> str:
    """The part of upstream's text behind the requirement's path, empty when the requirement can be used."""
    values = requirement.values
    operator = requirement.operator
    if operator not in _LABEL_OPERATORS:
        return f'operator: Unsupported value: "{operator}": supported values: {_SUPPORTED}'
    if not is_label_key(requirement.key):
        return f'key: Invalid value: "{requirement.key}": a valid label key must be a qualified name'
    if operator in ("In", "NotIn") and not values:
        return "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    if operator in ("Exists", "DoesNotExist") and values:
        return f"values: Invalid value: {_go_list(values)}: values set must be empty for exists and does not exist"
    if operator in _ORDER:
        if len(values) != 1:
            return f"values: Invalid value: {_go_list(values)}: for 'Gt', 'Lt' operators, exactly one value is required"
        if parse_int64(values[0]) is None:
            return f"values[0]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value must be an integer"
    for index, value in enumerate(values):
        if not is_label_value(value):
            return f'values[{index}][{requirement.key}]: Invalid value: "{value}": not a valid label value'
    return ""


def _field_problem(requirement: NodeSelectorRequirement) -> str:
    if requirement.operator not in ("In", "NotIn"):
        return f'operator: Unsupported value: "{requirement.operator}": supported values: "In", "NotIn"'
    if len(requirement.values) != 1:
        return f"values: Invalid value: {_go_list(requirement.values)}: must have one element"
    return ""


def parse_int64(text: str) -> int | None:
    """Go's `strconv.ParseInt(text, 10, 64)`: an optional sign and ASCII digits within 64 bits, else None."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()):
        return None
    value = int(text) if len(digits) < 100 else 2**63
    return value if -(2**63) <= value < 2**63 else None


def _go_list(values: tuple[str, ...]) -> str:
    return "[" + ",".join(f'"{value}"' for value in values) + "]"


def _go_string(selector: NodeSelector) -> str:
    terms = "".join(
        "NodeSelectorTerm{MatchExpressions:[]NodeSelectorRequirement{"
        + "".join(_go_requirement(requirement) for requirement in term.match_expressions)
        + "},MatchFields:[]NodeSelectorRequirement{"
        + "".join(_go_requirement(requirement) for requirement in term.match_fields)
        + "},},"
        for term in selector.terms
    )
    return "&NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{" + terms + "},}"


def _go_requirement(requirement: NodeSelectorRequirement) -> str:
    values = " ".join(requirement.values)
    return f"NodeSelectorRequirement{{Key:{requirement.key},Operator:{requirement.operator},Values:[{values}],}},"
