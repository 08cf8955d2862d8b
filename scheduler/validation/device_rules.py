"""The rules that claims, classes, slices and taint rules share: names, limits, selectors, tolerations.

Rules of this module
  1. Every function returns field errors, in the order and words of the real validation.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/resource/validation/validation.go; limits from
pkg/apis/resource/types.go.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import orjson

from cel.quantity import Quantity
from scheduler.model.api_rules import (
    BINDING_CONDITIONS_MAX,
    DRIVER_NAME_LENGTH_MAX,
    EXPRESSION_LENGTH_MAX,
    ID_LENGTH_MAX,
    PARAMETERS_LENGTH_MAX,
    POOL_NAME_LENGTH_MAX,
    SELECTORS_MAX,
    TAINT_EFFECTS,
)
from scheduler.validation.field_errors import (
    FieldError,
    Json,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from scheduler.validation.name_rules import (
    c_identifier,
    check_text,
    dns_label,
    dns_subdomain,
    label_key,
    label_value,
)
from scheduler.validation.selector_check import check_selector

"""Characters of the quantities that are remembered."""
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, "Gt", "Lt")

Check = Callable[[Json, str], list[FieldError]]


def check_items(items: Sequence[Json], limit: int | None, check: Check, path: str) -> list[FieldError]:
    """Check each item; with more than `limit` items only that is said."""
    if limit is not None and len(items) > limit:
        return [too_many(path, len(items), limit)]
    return [error for index, item in enumerate(items) for error in check(item, f"{path}[{index}]")]


def check_set(
    items: Sequence[Json], limit: int | None, check: Check, key: Callable[[Json], Json], path: str
) -> list[FieldError]:
    """As `check_items`, and no two items may have the same key."""
    if limit is not None and len(items) > limit:
        return [too_many(path, len(items), limit)]
    errors = check_items(items, None, check, path)
    seen: list[Json] = []
    for index, item in enumerate(items):
        this = key(item)
        if this in seen:
            errors.append(duplicate(f"{path}[{index}]", this))
        else:
            seen.append(this)
    return errors


def check_map(
    entries: Mapping[str, Json],
    limit: int | None,
    check_key: Callable[[str, str], list[FieldError]],
    check_value: Check,
    path: str,
) -> list[FieldError]:
    """Check keys (at the map's path) and values (at the key's path)."""
    if limit is not None and len(entries) > limit:
        return [too_many(path, len(entries), limit)]
    errors: list[FieldError] = []
    for key in sorted(entries):
        errors += check_key(key, path)
        errors += check_value(entries[key], f"{path}[{_shortened(key)}]")
    return errors


def _shortened(key: str) -> str:
    """With 96 characters at most, as the real one has it."""
    return key if len(key) <= 96 else f"{key[:47]}...{key[-46:]}"


def check_driver(name: Json, path: str) -> list[FieldError]:
    """A driver name."""
    if not name:
        return [required(path)]
    errors = [too_long(path, DRIVER_NAME_LENGTH_MAX)] if len(name) > DRIVER_NAME_LENGTH_MAX else []
    return errors + [invalid(path, name, problem) for problem in dns_subdomain(name.lower())]


def check_pool_name(name: Json, path: str) -> list[FieldError]:
    """A pool name: subdomains joined by slashes."""
    if not name:
        return [required(path)]
    errors = [too_long(path, POOL_NAME_LENGTH_MAX)] if len(name) > POOL_NAME_LENGTH_MAX else []
    for part in name.split("/"):
        errors += check_text(dns_subdomain, part, path)
    return errors


def check_device_name(name: Json, path: str) -> list[FieldError]:
    """A device name (also request and counter names): a DNS label."""
    return check_text(dns_label, name or "", path)


def check_qualified_id(name: str, path: str) -> list[FieldError]:
    """`[domain/]id` of an attribute or capacity."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        return _check_identifier(name, path)
    errors: list[FieldError] = []
    if "/" in identifier:
        return errors  # Accepted by the real server as well, see its TODO.
    errors += check_driver(domain, path) if domain else [invalid(path, "", "the domain must not be empty")]
    errors += _check_identifier(identifier, path) if identifier else [invalid(path, "", "the name must not be empty")]
    return errors


def _check_identifier(identifier: str, path: str) -> list[FieldError]:
    errors = [too_long(path, ID_LENGTH_MAX)] if len(identifier) > ID_LENGTH_MAX else []
    return errors + check_text(c_identifier, identifier, path)


def check_fully_qualified_id(name: str, path: str) -> list[FieldError]:
    """`domain/id`: the domain is mandatory."""
    errors = check_qualified_id(name, path)
    if "/" not in name:
        errors.append(invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"))
    return errors


def check_uid(uid: Json, path: str) -> list[FieldError]:
    """A lower-case RFC 4122 UUID."""
    if isinstance(uid, str) and _UUID.fullmatch(uid):
        return []
    detail = (
        "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
        "characters"
    )
    return [invalid(path, uid, detail)]


def read_quantity(value: Json) -> Quantity:
    """A quantity as it is stored; absent means 0."""
    text = "0" if value is None else str(value)
    return Quantity.parse(text)


def check_device_class(name: Json, path: str) -> list[FieldError]:
    """A reference to a DeviceClass."""
    return check_text(dns_subdomain, name, path) if name else [required(path)]


def check_selectors(selectors: Json, path: str) -> list[FieldError]:
    """CEL selectors of a class or request, compiled as new expressions."""
    return check_items(selectors or (), SELECTORS_MAX, _check_selector, path)


def _check_selector(selector: Json, path: str) -> list[FieldError]:
    cel = selector.get("cel")
    if cel is None:
        return [required(f"{path}.cel")]
    where = f"{path}.cel.expression"
    expression = cel.get("expression") or ""
    if len(expression.encode()) > EXPRESSION_LENGTH_MAX:
        return [too_long(where, EXPRESSION_LENGTH_MAX)]
    return check_selector(expression, where)


def check_opaque_config(config: Json, path: str) -> list[FieldError]:
    """The opaque parameters of one driver."""
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    errors = check_driver(opaque.get("driver"), f"{path}.opaque.driver")
    return errors + check_raw_object(opaque.get("parameters"), f"{path}.opaque.parameters")


def check_raw_object(value: Json, path: str) -> list[FieldError]:
    """A JSON object kept as raw bytes."""
    if value is None:
        return [required(path)]
    if len(orjson.dumps(value)) > PARAMETERS_LENGTH_MAX:
        return [too_long(path, PARAMETERS_LENGTH_MAX)]
    if not isinstance(value, dict):
        return [invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []


def check_toleration(toleration: Json, path: str) -> list[FieldError]:
    """A toleration of a request."""
    errors: list[FieldError] = []
    if toleration.get("key"):
        errors += check_text(label_key, toleration["key"], f"{path}.key")
    operator, value = toleration.get("operator"), toleration.get("value") or ""
    match operator:
        case "Exists":
            if value:
                errors.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
        case "Equal":
            errors += check_text(label_value, value, f"{path}.value")
        case None | "":
            errors.append(required(f"{path}.operator"))
        case _:
            errors.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    if toleration.get("effect") and toleration["effect"] not in TAINT_EFFECTS:
        errors.append(not_supported(f"{path}.effect", toleration["effect"], TAINT_EFFECTS))
    return errors


def check_taint(taint: Json, path: str) -> list[FieldError]:
    """A device taint."""
    errors = check_text(label_key, taint.get("key") or "", f"{path}.key")
    if taint.get("value"):
        errors += check_text(label_value, taint["value"], f"{path}.value")
    if not taint.get("effect"):
        errors.append(required(f"{path}.effect"))
    elif taint["effect"] not in TAINT_EFFECTS:
        errors.append(not_supported(f"{path}.effect", taint["effect"], TAINT_EFFECTS))
    return errors


def check_binding_conditions(holder: Mapping[str, Json], path: str) -> list[FieldError]:
    """bindingConditions and bindingFailureConditions: both or neither, no overlap."""
    names = ("bindingConditions", "bindingFailureConditions")
    wanted, failing = ((holder.get(name) or ()) for name in names)
    errors = [
        error
        for name, conditions in zip(names, (wanted, failing), strict=True)
        for error in check_items(conditions, BINDING_CONDITIONS_MAX, _check_condition, f"{path}.{name}")
    ]
    for name, conditions in zip(names, (wanted, failing), strict=True):
        for index, condition in enumerate(conditions):
            if condition in conditions[:index]:
                errors.append(duplicate(f"{path}.{name}[{index}]", condition))
            if name == "bindingFailureConditions" and condition in wanted:
                text = "bindingFailureConditions must not overlap with bindingConditions"
                errors.append(invalid(f"{path}.{name}[{index}]", condition, text))
    for name, other in (names, names[::-1]):
        if holder.get(other) and not holder.get(name):
            errors.append(invalid(f"{path}.{name}", holder.get(name), f"{name} are required to use {other}"))
    return errors


def _check_condition(condition: Json, path: str) -> list[FieldError]:
    return check_text(label_key, condition, path)


def check_node_selector(selector: Mapping[str, Json], path: str) -> list[FieldError]:
    """A v1.NodeSelector."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        where = f"{path}.nodeSelectorTerms[{index}]"
        for at, requirement in enumerate(term.get("matchExpressions") or ()):
            errors += _check_requirement(requirement, f"{where}.matchExpressions[{at}]", _NODE_OPERATORS)
        for at, requirement in enumerate(term.get("matchFields") or ()):
            errors += _check_node_field(requirement, f"{where}.matchFields[{at}]")
    return errors


def check_label_selector(selector: Mapping[str, Json], path: str) -> list[FieldError]:
    """metav1 ValidateLabelSelector."""
    errors: list[FieldError] = []
    for key, value in sorted((selector.get("matchLabels") or {}).items()):
        errors += check_text(label_key, key, f"{path}.matchLabels")
        errors += check_text(label_value, value, f"{path}.matchLabels")
    for at, requirement in enumerate(selector.get("matchExpressions") or ()):
        errors += _check_requirement(requirement, f"{path}.matchExpressions[{at}]", _LABEL_OPERATORS)
    return errors


def _check_requirement(requirement: Mapping[str, Json], path: str, operators: Sequence[str]) -> list[FieldError]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    errors: list[FieldError] = []
    if operator not in operators:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif operator in ("In", "NotIn") and not values:
        errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        errors.append(forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    elif operator in ("Gt", "Lt") and len(values) != 1:
        errors.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    errors += check_text(label_key, requirement.get("key") or "", f"{path}.key")
    for index, value in enumerate(values):
        errors += check_text(label_value, value, f"{path}.values[{index}]")
    return errors


def _check_node_field(requirement: Mapping[str, Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, key = (requirement.get(field) or "" for field in ("operator", "key"))
    values = requirement.get("values") or []
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        errors.append(
            required(
                f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
        )
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    return errors + check_items(values, None, lambda name, at: check_text(dns_subdomain, name, at), f"{path}.values")
