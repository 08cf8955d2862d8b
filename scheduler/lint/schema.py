"""Fields that do not exist, and values of a wrong type: an object against the fields its kind has in v1.

Not here: the fields (`api_fields`), limits and formats (`server_rules`), expressions (`selectors`), rules across
fields (`claim_rules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from scheduler.lint.api_fields import shape_of
from scheduler.lint.findings import FieldPath, Severity
from scheduler.lint.shapes import Anything, ListOf, MapOf, Object, Scalar, Shape, type_name
from scheduler.lint.view import V1, View, mapping, text

_FINDINGS_MAX: Final = 100
"""Of one object; what has more is of another kind altogether."""


def check_fields(view: View) -> None:
    """Compare a claim, template, class, slice, taint rule or workload with what its kind has."""
    shape = shape_of(V1 if view.is_dra else text(view.obj.get("apiVersion")), view.kind)
    if shape is None:
        return
    # What was told already (an old shape that has no equivalent) is not told again as an unknown field.
    told = frozenset(each.place.line for each in view.findings if each.is_error and not each.converted)
    _Walk(view, told).object((), view.obj, shape)
    metadata = mapping(view.obj.get("metadata"))
    if view.is_dra and not metadata.get("name") and not metadata.get("generateName"):
        view.error("missing-field", ("metadata",), "metadata has no name", "name: ...")


_NAMES_MAX: Final = 12
_LINES: Final = {"containers": "containers: [{name: main, image: ...}]"}
"""What to paste for fields whose shape is not plain."""


class _Walk:
    def __init__(self, view: View, told_lines: frozenset[int]) -> None:
        self.view = view
        self.told_lines = told_lines
        self.count = 0

    def report(self, code: str, path: FieldPath, message: str, fix: str = "", *, key: bool = False) -> None:
        place = self.view.document.place(self.view.origin(path), key=key)
        if self.count < _FINDINGS_MAX and not (key and place.line in self.told_lines):
            self.view.report(code, Severity.ERROR, path, message, fix, key=key)
        self.count += 1

    def walk(self, path: FieldPath, value: Any, shape: Shape) -> None:
        match shape:
            case Anything():
                pass
            case Scalar():
                if problem := shape.check(value):
                    message, _, fix = problem.partition("; ")
                    self.report("invalid-value", path, message, fix)
            case ListOf():
                self.list(path, value, shape)
            case MapOf():
                self.map(path, value, shape)
            case Object():
                self.object(path, value, shape)

    def list(self, path: FieldPath, value: Any, shape: ListOf) -> None:
        if not isinstance(value, list):
            hint = "put '- ' before it" if isinstance(value, dict | str) else ""
            self.report("invalid-value", path, f"must be a list, not {type_name(value)}", hint)
            return
        for index, item in enumerate(value):
            self.walk((*path, index), item, shape.item)

    def map(self, path: FieldPath, value: Any, shape: MapOf) -> None:
        if not isinstance(value, dict):
            self.report("invalid-value", path, f"must be an object, not {type_name(value)}")
            return
        for name, item in value.items():
            self.walk((*path, name), item, shape.value)

    def object(self, path: FieldPath, value: Any, shape: Object) -> None:
        if not isinstance(value, dict):
            self.report("invalid-value", path, f"must be an object, not {type_name(value)}")
            return
        for name, item in value.items():
            known = shape.fields.get(name)
            if known is None:
                self.unknown(path, name, shape)
            elif item is not None:
                self.walk((*path, name), item, known)
        for name in shape.required:
            if _is_missing(value.get(name)):
                if (name, path) == ("selector", ("spec",)) and not self.view.is_dra:
                    continue  # told by `workloads`, with what it would be
                fix = next((f"{alias} is called {name}" for alias in value if _ALIASES.get(alias) == name), "")
                self.report("missing-field", path, f"{name} is missing", fix or _LINES.get(name, f"{name}: ..."))

    def unknown(self, path: FieldPath, name: str, shape: Object) -> None:
        meant = _meant(name, shape.fields)
        where = _where(name) if self.view.is_dra else ""
        fix = f"did you mean {meant}?" if meant else where or _known(shape.fields)
        self.report("unknown-field", (*path, name), f"there is no field {name} here", fix, key=True)


def _known(fields: Mapping[str, Any]) -> str:
    names = list(fields)
    more = len(names) - _NAMES_MAX
    return f"known here: {', '.join(names[:_NAMES_MAX])}" + (f" and {more} more" if more > 0 else "")


def _is_missing(value: Any) -> bool:
    return value is None or value in ("", [])


def _meant(name: str, fields: Mapping[str, Any]) -> str:
    if _ALIASES.get(name) in fields:
        return _ALIASES[name]
    by_lower = {field.lower(): field for field in fields}
    close = get_close_matches(name.lower(), by_lower, 1, 0.75)
    return by_lower[close[0]] if close else ""


_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("deviceClass", "class", "className", "resourceClassName"), "deviceClassName"),
    **{"selector": "selectors", "toleration": "tolerations", "mode": "allocationMode", "exact": "exactly"},
    **dict.fromkeys(("quantity", "amount"), "count"),
    **dict.fromkeys(("firstOf", "oneOf"), "firstAvailable"),
}
"""What people call fields."""
_PLACES: Final[Mapping[str, str]] = {
    "requests": "spec.devices.requests",
    "constraints": "spec.devices.constraints",
    "config": "spec.devices.config",
    "deviceClassName": "spec.devices.requests[].exactly.deviceClassName",
    "selectors": "spec.devices.requests[].exactly.selectors",
    "count": "spec.devices.requests[].exactly.count",
    "devices": "spec.devices (in a template: spec.spec.devices)",
    "expression": "selectors[].cel.expression",
    "parameters": "config[].opaque.parameters",
    "driver": "config[].opaque.driver",
    "attributes": 'a selector: device.attributes["<domain>"].<name> == ...',
}


def _where(name: str) -> str:
    return f"it belongs to {_PLACES[name]}" if name in _PLACES else ""
