"""Does a node match: by name, by "all nodes", or by a node selector.

Source: k8s.io/component-helpers scheduling/corev1/nodeaffinity, k8s.io/apimachinery pkg/labels, and
structured/internal/incubating/pools_incubating.go (`NodeMatches`), all 0.36.3.
"""

from __future__ import annotations

from typing import Final

from allocator.model import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, NodeView
from allocator.names import is_label_key, is_label_value

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_SUPPORTED: Final = ", ".join(f'"{operator}"' for operator in _LABEL_OPERATORS)
_NAME_FIELD: Final = "metadata.name"


class NodeSelectorError(ValueError):
    """A node selector cannot be used. The API server refuses such selectors; a newer one may not."""


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
    return any(_match_term(term, node) for term in selector.terms)


def _match_term(term: NodeSelectorTerm, node: NodeView) -> bool:
    if not (term.match_expressions or term.match_fields):
        return False
    if any(
        _label_problem(requirement) or not _match_label(requirement, node) for requirement in term.match_expressions
    ):
        return False
    return not any(
        _field_problem(requirement) or not _match_field(requirement, node) for requirement in term.match_fields
    )


def _match_label(requirement: NodeSelectorRequirement, node: NodeView) -> bool:
    value = node.labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            actual = None if value is None else parse_int64(value)
            bound = parse_int64(requirement.values[0])
            if actual is None or bound is None:
                return False
            return actual > bound if requirement.operator == "Gt" else actual < bound


def _match_field(requirement: NodeSelectorRequirement, node: NodeView) -> bool:
    # A node has one selectable field; any other counts as empty.
    value = node.name if requirement.key == _NAME_FIELD else ""
    return (value == requirement.values[0]) == (requirement.operator == "In")


def check_node_selector(selector: NodeSelector) -> None:
    """Raise NodeSelectorError, with upstream's text, when any term cannot be parsed."""
    problems = []
    for index, term in enumerate(selector.terms):
        path = f"nodeSelectorTerms[{index}]"
        for kind, requirements, problem_of in (
            ("matchExpressions", term.match_expressions, _label_problem),
            ("matchFields", term.match_fields, _field_problem),
        ):
            for position, requirement in enumerate(requirements):
                problem = problem_of(requirement)
                if problem:
                    problems.append(f"{path}.{kind}[{position}].{problem}")
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
    if operator in ("Gt", "Lt"):
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
