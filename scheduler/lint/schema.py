"""Fields that do not exist, and values of a wrong type: an object against the fields its kind has in v1.

Not here: the table of fields (`scheduler.validation.api_fields`), limits and formats (`server_rules`), expressions
(`selector_rules`), rules across fields (`claim_rules`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from cel.quantity import Quantity
from scheduler.lint.findings import FieldPath
from scheduler.lint.view import V1, View, mapping, text
from scheduler.model.nearest import near, some
from scheduler.validation.api_fields import BETA, NEWEST, OLDEST, fields_of, members_of, required_of, type_of

_INT64: Final = 2**63
_SCALARS: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    **dict.fromkeys("st", ("a text", (str,))),
    "i": ("a whole number", (int,)),
    "b": ("true or false", (bool,)),
    "n": ("a number", (int, float)),
    "q": ("a quantity like 80Gi", (str, int, float)),
    "x": ("a whole number", (str, int)),
}
"""What a type of the table is called here, and what it takes."""
_FINDINGS_MAX: Final = 100
"""Of one object; what has more is of another kind altogether."""


def check_fields(view: View, minor: int) -> None:
    """Compare a claim, template, class, slice, taint rule, group or workload with what its kind has in a release."""
    of = type_of(V1 if view.is_dra else text(view.obj.get("apiVersion")), view.kind)
    if of is None:
        _check_outline(view)
        return
    # A line with an old shape that has no equivalent is reported already: not once more as an unknown field.
    reported = frozenset(each.place.line for each in view.findings if each.is_error and not each.converted)
    for problem in islice(_object_problems(view.obj, of, minor, ()), _FINDINGS_MAX):
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


def problems(value: Any, of: str, minor: int | None = None, path: FieldPath = ()) -> Iterator[FieldProblem]:
    """What is wrong with a value of a type as the table writes it, from the outside in; None: of any release."""
    if of in _SCALARS:
        if problem := _scalar_problem(value, of):
            yield FieldProblem("invalid-value", path, problem)
    elif of == "*":
        pass
    elif of.startswith("["):
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from problems(item, of[1:-1], minor, (*path, index))
        else:
            hint = "put '- ' before it" if isinstance(value, dict | str) else ""
            yield FieldProblem("invalid-value", path, f"must be a list, not {type_name(value)}", hint)
    elif not isinstance(value, dict):
        yield FieldProblem("invalid-value", path, f"must be an object, not {type_name(value)}")
    elif of.startswith("{"):
        for name, item in value.items():
            yield from problems(item, of[1:-1], minor, (*path, name))
    else:
        yield from _object_problems(value, of, minor, path)


def _scalar_problem(value: Any, of: str) -> str:
    wanted, types = _SCALARS[of]
    if not isinstance(value, types) or isinstance(value, bool) is not (bool in types):
        return f"must be {wanted}, not {type_name(value)}"
    if of in "ix" and isinstance(value, int):
        return "" if -_INT64 <= value < _INT64 else "must fit into 64 bits"
    try:
        if of == "q":
            Quantity.parse(str(value))
    except ValueError:
        return f"must be a quantity like 80Gi or 500m, not {value!r}"
    return ""


def type_name(value: Any) -> str:
    """The JSON type of a value, for messages."""
    if value is None:
        return "nothing"
    names = {bool: "true or false", str: "a text", list: "a list", dict: "an object"}
    names |= dict.fromkeys((int, float), "a number")
    return names.get(type(value), type(value).__name__)


def _object_problems(value: dict[str, Any], of: str, minor: int | None, path: FieldPath) -> Iterator[FieldProblem]:
    """Of an object of a named type. The status of a kind's object (no path) is not looked into."""
    fields, misspelt = fields_of(of, minor), set()
    for name, item in value.items():
        known = fields.get(name)
        if known is None:
            meant = _meant(name, fields)
            misspelt.add(meant)
            fix = _other_release(of, name) or (f"did you mean {meant}?" if meant else _known(fields))
            yield FieldProblem("unknown-field", (*path, name), f"there is no field {name} here", fix, key=True)
        elif item is not None:
            yield from problems(item, known if path or name != "status" else "{*}", minor, (*path, name))
    for name in required_of(of, minor):
        if _is_missing(value.get(name)) and name not in misspelt:
            yield FieldProblem("missing-field", path, f"{name} is missing", _LINES.get(name, f"{name}: ..."))


def _other_release(of: str, name: str) -> str:
    """Which releases have a field, where it is one; it is none in the release that is meant."""
    member = members_of(of).get(name)
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
