"""The rules of `derivedAttributes`, a claim's expressions that stand for attributes in its constraints.

Source: k8s.io/kubernetes v1.37.2 pkg/apis/resource/validation/validation.go (validateDeviceDerivedAttribute).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.model.api_rules import EXPRESSION_LENGTH_MAX
from scheduler.validation.device_rules import check_fully_qualified_id, check_set
from scheduler.validation.field_errors import FieldError, Json, forbidden, invalid, required, too_long, too_many
from scheduler.validation.selector_check import check_derived, is_too_complex

DERIVED_MAX: Final = 32
"""Of a request."""
_UNUSED: Final = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)
_TOO_COMPLEX: Final = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"


def check_derived_attributes(devices: Mapping[str, Json], path: str) -> list[FieldError]:
    """`devices`: of a claim's spec, which is at `path`."""
    used = [
        (frozenset(one.get("requests") or ()), one.get("matchAttribute") or one.get("distinctAttribute"))
        for one in devices.get("constraints") or ()
    ]
    errors: list[FieldError] = []
    total = 0

    def check(attribute: Json, at: str, names: frozenset[str]) -> list[FieldError]:
        nonlocal total
        name, expression = attribute.get("name"), attribute.get("expression")
        found = check_fully_qualified_id(name, f"{at}.name") if name else [required(f"{at}.name")]
        if name and not any(of == name and (not asked or asked & names) for asked, of in used):
            found.append(invalid(f"{at}.name", name, _UNUSED))
        where = f"{at}.expression"
        if not expression:
            return [*found, required(where)]
        if len(expression.encode()) > EXPRESSION_LENGTH_MAX:
            return [*found, too_long(where, EXPRESSION_LENGTH_MAX)]
        wrong, cost = check_derived(expression, where)
        total += cost
        return found + wrong

    for request, at, names in _requests(devices, path):
        attributes, where = request.get("derivedAttributes") or (), f"{at}.derivedAttributes"
        if len(attributes) > DERIVED_MAX:
            errors.append(too_many(where, len(attributes), DERIVED_MAX))
        errors += check_set(
            attributes,
            None,
            lambda attribute, place, names=names: check(attribute, place, names),  # type: ignore[misc]
            lambda attribute: attribute.get("name"),
            where,
        )
    return [*errors, forbidden(path, _TOO_COMPLEX)] if total and is_too_complex(total) else errors


def _requests(devices: Mapping[str, Json], path: str) -> Iterator[tuple[Mapping[str, Json], str, frozenset[str]]]:
    """Each request or alternative, its place, and by which names constraints mean it."""
    for index, request in enumerate(devices.get("requests") or ()):
        at, name = f"{path}.requests[{index}]", request.get("name", "")
        if request.get("exactly") is not None:
            yield request["exactly"], f"{at}.exactly", frozenset({name})
        for number, sub in enumerate(request.get("firstAvailable") or ()):
            yield sub, f"{at}.firstAvailable[{number}]", frozenset({name, f"{name}/{sub.get('name', '')}"})
