"""Fields that do not exist, and values of a wrong type: an object against the fields its kind has in v1.

Not here: the fields (`shapes`), limits and formats (`server_rules`), expressions (`selector_rules`), rules across
fields (`claim_rules`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from scheduler.lint.findings import FieldPath
from scheduler.lint.shapes import Anything, ListOf, MapOf, Object, Scalar, Shape, shape_of, type_name
from scheduler.lint.view import V1, View, mapping, text
from scheduler.model.nearest import near, some
from scheduler.validation.api_fields import BETA, NEWEST, OLDEST, members_of

_FINDINGS_MAX: Final = 100
"""Of one object; what has more is of another kind altogether."""


def check_fields(view: View, minor: int) -> None:
    """Compare a claim, template, class, slice, taint rule, group or workload with what its kind has in a release."""
    shape = shape_of(V1 if view.is_dra else text(view.obj.get("apiVersion")), view.kind, minor)
    if shape is None:
        _check_outline(view)
        return
    # A line with an old shape that has no equivalent is reported already: not once more as an unknown field.
    reported = frozenset(each.place.line for each in view.findings if each.is_error and not each.converted)
    for problem in islice(problems(view.obj, shape), _FINDINGS_MAX):
        if (problem.path, problem.fix) == (("spec",), "selector: ...") and not view.is_dra:
            continue  # `workload_rules` says what it would be
        place = view.document.place(view.origin(problem.path), key=problem.key)
        if not (problem.key and place.line in reported):
            fix = problem.fix
            if view.is_dra and problem.key and fix.startswith(_KNOWN):
                fix = _where(str(problem.path[-1])) or fix
            view.error(problem.code, problem.path, problem.message, fix, key=problem.key)
    metadata = mapping(view.obj.get("metadata"))
    if view.is_dra and not metadata.get("name") and not metadata.get("generateName"):
        view.error("missing-field", ("metadata",), "metadata has no name", "name: ...")


def _check_outline(view: View) -> None:
    """What all objects have in common, of a kind whose fields are not known here; of others' kinds metadata only."""
    group = text(view.obj.get("apiVersion")).rpartition("/")[0]
    is_own = not group.partition(".")[2] or group.endswith(".k8s.io")
    for name in ("metadata", "spec", "status") if is_own else ("metadata",):
        value = view.obj.get(name)
        if value is not None and not isinstance(value, dict):
            view.error("invalid-value", (name,), f"must be an object, not {type_name(value)}")


_NAMES_MAX: Final = 12
_KNOWN: Final = "known here: "
_LINES: Final = {"containers": "containers: [{name: main, image: ...}]"}
"""What to paste for fields whose shape is not plain."""


class FieldProblem(NamedTuple):
    """What is wrong with the value at `path`, or with the name of the field (`key`)."""

    code: str
    path: FieldPath
    message: str
    fix: str = ""
    key: bool = False


def problems(value: Any, shape: Shape, path: FieldPath = ()) -> Iterator[FieldProblem]:
    """What is wrong with a value of this shape, from the outside in."""
    match shape:
        case Anything():
            pass
        case Scalar():
            if problem := shape.check(value):
                yield FieldProblem("invalid-value", path, problem)
        case ListOf():
            if isinstance(value, list):
                for index, item in enumerate(value):
                    yield from problems(item, shape.item, (*path, index))
            else:
                hint = "put '- ' before it" if isinstance(value, dict | str) else ""
                yield FieldProblem("invalid-value", path, f"must be a list, not {type_name(value)}", hint)
        case _ if not isinstance(value, dict):
            yield FieldProblem("invalid-value", path, f"must be an object, not {type_name(value)}")
        case MapOf():
            for name, item in value.items():
                yield from problems(item, shape.value, (*path, name))
        case Object():
            yield from _object_problems(value, shape, path)


def _object_problems(value: dict[str, Any], shape: Object, path: FieldPath) -> Iterator[FieldProblem]:
    misspelt = set()
    for name, item in value.items():
        known = shape.fields.get(name)
        if known is None:
            meant = _meant(name, shape.fields)
            misspelt.add(meant)
            fix = _other_release(shape.type, name) or (f"did you mean {meant}?" if meant else _known(shape.fields))
            yield FieldProblem("unknown-field", (*path, name), f"there is no field {name} here", fix, key=True)
        elif item is not None:
            yield from problems(item, known, (*path, name))
    for name in shape.required:
        if _is_missing(value.get(name)) and name not in misspelt:
            yield FieldProblem("missing-field", path, f"{name} is missing", _LINES.get(name, f"{name}: ..."))


def _other_release(of: str, name: str) -> str:
    """Which releases have a field, where it is one; it is none in the release that is meant."""
    member = members_of(of).get(name) if of else None
    if member is None:
        return ""
    gate = f", with the feature gate {member.gate}" if member.gate else ""
    since = f"since Kubernetes 1.{member.since}" if member.since > OLDEST else "in older releases"
    until = f" until 1.{member.until}" if member.until < BETA else ""
    return f"it is there {since}{until}{gate}: lint --kubernetes 1.{max(member.since, min(member.until, NEWEST))}"


def _known(fields: Mapping[str, Any]) -> str:
    return f"{_KNOWN}{some([*fields], _NAMES_MAX)}"


def _is_missing(value: Any) -> bool:
    return value is None or value in ("", [])


def _meant(name: str, fields: Mapping[str, Any]) -> str:
    if _ALIASES.get(name) in fields:
        return _ALIASES[name]
    by_lower = {field.lower(): field for field in fields}
    lower = name.lower()
    return by_lower.get(lower) or by_lower.get(near(lower, by_lower, 0.75), "")


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
