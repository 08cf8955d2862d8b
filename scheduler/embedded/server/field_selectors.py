"""Field selectors as they stand in a request's query.

Rules of this module
  1. A selector that cannot be parsed, or a field that is not selectable, is a 400 that names it.
  2. A parsed selector is a predicate over one object; it never looks at another object.

Not here: label selectors (`scheduler.model.label_selectors`).

Source: k8s.io/apimachinery v0.36.3 pkg/fields/selector.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.embedded.server.statuses import bad_request
from scheduler.validation.field_errors import Json

ObjectPredicate = Callable[[Mapping[str, Json]], bool]


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
