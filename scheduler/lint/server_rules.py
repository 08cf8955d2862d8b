"""What the API server would refuse where nothing else was found wrong: its own rules, asked last.

The other modules say in plain words what people get wrong, and how to write it. All other rules, such as limits,
formats of names, node selectors and request policies, are those of `scheduler.validation`, in the API server's words.

Not here: expressions (`selector_rules`); what needs the cluster (admin access, objects of the same name).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from scheduler.lint.findings import FieldPath, Finding, field_text
from scheduler.lint.view import View, mapping
from scheduler.validation.claim_refusals import default_claim_spec, validate_claim_spec
from scheduler.validation.field_errors import FieldError
from scheduler.validation.name_rules import validate_metadata
from scheduler.validation.slice_rules import validate_class_spec, validate_rule_spec, validate_slice_spec

_WRONG_TYPES: Final = frozenset({"invalid-value", "broken-yaml"})
"""What the rules, which are for objects that could be decoded, are not asked about."""
_TRUE: Final = [{"cel": {"expression": "true"}}]
_NAME: Final = re.compile(r'Invalid value: "([^"]*)": ')
_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def check_server_rules(view: View, minor: int) -> None:
    """Ask the API server's rules about an object whose fields have the right types."""
    check = _BY_KIND.get(view.kind) if view.is_dra else None
    spec = view.obj.get("spec")
    wrong = [finding for finding in view.findings if finding.is_error and not finding.converted]
    if check is None or not isinstance(spec, dict) or any(finding.code in _WRONG_TYPES for finding in wrong):
        return
    for error in check(deepcopy(spec), minor):
        path, key = _place(view.obj, error)
        field = field_text(view.origin(path))
        if not any(_is_said(error, error.field, each) or _is_said(error, field, each) for each in wrong):
            view.error("refused", path, f"the API server says: {error.body}", key=key)


def _is_said(error: FieldError, field: str, found: Finding) -> bool:
    """Whether a finding says the same in plainer words: in this field, around it, or of a field that is missing."""
    if found.code == "missing-field":
        return error.reason == "FieldValueRequired" and field.startswith(found.field)
    return field.startswith(found.field) or found.field.startswith(field)


def _claim(spec: dict[str, Any], minor: int, path: str = "spec") -> list[FieldError]:
    default_claim_spec(spec)
    return validate_claim_spec(_without_expressions(spec), path, minor)


def _template(spec: dict[str, Any], minor: int) -> list[FieldError]:
    written = mapping(spec.get("metadata"))
    metadata = {"name": "x", **{field: written.get(field) for field in ("labels", "annotations", "finalizers")}}
    errors = validate_metadata(metadata, namespaced=True, rule=lambda name: [])
    nested = [FieldError(error.reason, f"spec.{error.field}", error.body) for error in errors]
    return nested + _claim(mapping(spec.get("spec")), minor, "spec.spec")


def _without_expressions(spec: dict[str, Any]) -> dict[str, Any]:
    """Compiling takes long, and `selector_rules` has done it; `claim_rules` has looked at parameters."""
    devices = mapping(spec.get("devices"))
    _without_parameters(devices)
    for request in devices.get("requests") or ():
        for part in (mapping(request.get("exactly")), *(request.get("firstAvailable") or ())):
            part["selectors"] = _TRUE * len(part.get("selectors") or ())
    return spec


def _without_parameters(holder: dict[str, Any]) -> None:
    for entry in holder.get("config") or ():
        opaque = mapping(entry.get("opaque"))
        if opaque.get("parameters") is not None:
            opaque["parameters"] = {}


def _class(spec: dict[str, Any], minor: int) -> list[FieldError]:
    _without_parameters(spec)
    return validate_class_spec({**spec, "selectors": _TRUE * len(spec.get("selectors") or ())}, {})


_BY_KIND: Final[Mapping[str, Callable[[dict[str, Any], int], list[FieldError]]]] = {
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "DeviceClass": _class,
    "ResourceSlice": lambda spec, minor: validate_slice_spec(spec, None, minor),
    "DeviceTaintRule": lambda spec, minor: validate_rule_spec(spec),
}


def _place(obj: Mapping[str, Any], error: FieldError) -> tuple[FieldPath, bool]:
    """`spec.devices[0].capacity[a.b/c].value` as far as the object has it; whether the name of a field is meant."""
    here: Any = obj
    path: list[str | int] = []
    for found in _STEP.finditer(error.field):
        step: str | int = found[1] if found[1] is not None else found[2]
        if isinstance(here, list) and isinstance(step, str) and step.isdecimal() and int(step) < len(here):
            step = int(step)
        elif not (isinstance(here, dict) and step in here):
            break
        here = here[step]
        path.append(step)
    refused = _NAME.match(error.body) if isinstance(here, dict) else None
    if refused is not None:
        # Of `domain/id` the refused part is quoted.
        path += [name for name in here if refused[1] in (name, *name.split("/"))][:1]
        return tuple(path), True
    return tuple(path), False
