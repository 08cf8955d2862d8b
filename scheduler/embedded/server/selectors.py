"""Label and field selectors as they stand in a request's query.

Rules of this module
  1. A selector that cannot be parsed, or a field that is not selectable, is a 400 that names it.
  2. A parsed selector is a predicate over one object; it never looks at another object.

Not here: LabelSelector objects inside specs of workloads (`match_label_selector` turns one into a
predicate, but what it is for is said in `workloads`).

Source: k8s.io/apimachinery v0.36.3 pkg/labels/selector.go, pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from scheduler.embedded.server.statuses import bad_request
from scheduler.validation.field_errors import Json

Labels = Mapping[str, str]
LabelPredicate = Callable[[Labels], bool]
ObjectPredicate = Callable[[Mapping[str, Json]], bool]

_TERM: Final = re.compile(
    r"""\s*(?:
        (?P<not_exists>!)\s*(?P<absent>[^\s!=<>,()]+)
      | (?P<set_key>[^\s!=<>,()]+)\s+(?P<set_op>in|notin)\s*\((?P<set_values>[^()]*)\)
      | (?P<key>[^\s!=<>,()]+)\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s!=<>,()]*)
      | (?P<exists>[^\s!=<>,()]+)
    )\s*(?:,|$)""",
    re.VERBOSE,
)


def parse_label_selector(text: str) -> LabelPredicate | None:
    """Parse `a=b,c!=d,e in (f,g),!h`; None when `text` is empty and everything matches.

    Raises:
        ApiError: 400, the text is not a label selector.
    """
    if not text.strip():
        return None
    terms: list[LabelPredicate] = []
    position = 0
    while position < len(text):
        found = _TERM.match(text, position)
        if found is None or found.end() == position:
            raise bad_request(f'unable to parse requirement: found "{text[position:]}" in label selector "{text}"')
        terms.append(_label_term(found, text))
        position = found.end()
    if len(terms) == 1:
        return terms[0]
    return lambda labels: all(term(labels) for term in terms)


def _label_term(found: re.Match[str], text: str) -> LabelPredicate:
    if (absent := found["absent"]) is not None:
        return lambda labels: absent not in labels
    if (exists := found["exists"]) is not None:
        return lambda labels: exists in labels
    if (set_key := found["set_key"]) is not None:
        values = frozenset(value.strip() for value in found["set_values"].split(","))
        if found["set_op"] == "in":
            return lambda labels: labels.get(set_key) in values
        return lambda labels: labels.get(set_key) not in values
    key, operator, value = found["key"], found["op"], found["value"]
    if operator in ("=", "=="):
        return lambda labels: labels.get(key) == value
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    try:
        bound = int(value)
    except ValueError:
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise bad_request(f'label selector "{text}": {key}: Invalid value: "{value}": {why}') from None
    return lambda labels: _compare_integer(labels.get(key), operator, bound)


def _compare_integer(label: str | None, operator: str, bound: int) -> bool:
    try:
        number = int(label or "")
    except ValueError:
        return False
    return number > bound if operator == ">" else number < bound


def read_path(obj: Mapping[str, Json], path: str) -> Json:
    """The value at a dotted path (`spec.nodeName`), or None where a step is missing."""
    value: Json = obj
    for step in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def parse_field_selector(text: str, path_by_label: Mapping[str, str]) -> ObjectPredicate | None:
    """Parse `spec.nodeName=n1,status.phase!=Failed` against the selectable fields of one kind.

    Args:
        path_by_label: Selectable field -> dotted path in the stored object.

    Raises:
        ApiError: 400, not a field selector, or a field that is not selectable.
    """
    if not text.strip():
        return None
    terms: list[tuple[str, bool, str]] = []
    for part in text.split(","):
        if not part.strip():
            continue
        if "!=" in part:
            label, value = part.split("!=", 1)
            equal = False
        elif "=" in part:
            label, value = part.split("=", 1)
            value = value.removeprefix("=")
            equal = True
        else:
            raise bad_request(f'invalid field selector "{text}": "{part}" has no operator, write field=value')
        if label not in path_by_label:
            raise bad_request(f"field label not supported: {label}")
        terms.append((path_by_label[label], equal, value))
    if not terms:
        return None

    def matches(obj: Mapping[str, Json]) -> bool:
        return all((_field_text(read_path(obj, path)) == value) is equal for path, equal, value in terms)

    return matches


def _field_text(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def match_label_selector(selector: Mapping[str, Json] | None, labels: Labels) -> bool:
    """Whether `labels` satisfy a LabelSelector object; None selects nothing, `{}` everything.

    Unknown operators select nothing, as they would have been refused at creation.
    """
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_match_expression(term, labels) for term in selector.get("matchExpressions") or ())


def _match_expression(term: Mapping[str, Json], labels: Labels) -> bool:
    key, values = term.get("key", ""), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
