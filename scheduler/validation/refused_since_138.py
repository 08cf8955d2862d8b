"""What the API server refuses since Kubernetes 1.38 and took before; asked beside the rules that are older.

What is stored is not looked at again: devices of a slice that did not change, an allocation.

Source: k8s.io/kubernetes v1.38.0-beta.0 pkg/apis/resource/validation/validation.go,
pkg/apis/resource/v1/zz_generated.validations.go.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.validation.device_rules import check_map, check_qualified_id, read_quantity
from scheduler.validation.field_errors import FieldError, Json, invalid

SINCE: Final = 38
_AMOUNTS_MAX: Final = 32
_DIGITS_MAX: Final = 18


def refused_claim_spec(spec: Mapping[str, Json], path: str) -> Iterator[FieldError]:
    """Of a claim's spec, in a claim or in a template: amounts of capacity, and names of constraints."""
    devices, where = spec.get("devices") or {}, f"{path}.devices"
    for index, request in enumerate(devices.get("requests") or ()):
        at = f"{where}.requests[{index}]"
        alternatives = enumerate(request.get("firstAvailable") or ())
        for there, part in (
            (f"{at}.exactly", request.get("exactly") or {}),
            *((f"{at}.firstAvailable[{number}]", each) for number, each in alternatives),
        ):
            yield from _amounts((part.get("capacity") or {}).get("requests"), f"{there}.capacity.requests")
    for index, constraint in enumerate(devices.get("constraints") or ()):
        for field in ("matchAttribute", "distinctAttribute"):
            yield from _slashes(constraint.get(field) or "", f"{where}.constraints[{index}].{field}")


def refused_results(status: Mapping[str, Json], old_status: Mapping[str, Json]) -> Iterator[FieldError]:
    """Of a claim's status: what is taken of capacities."""
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    for index, result in enumerate(results if old_status.get("allocation") is None else ()):
        path = f"status.allocation.devices.results[{index}].consumedCapacity"
        yield from _amounts(result.get("consumedCapacity"), path)


def refused_devices(spec: Mapping[str, Json], old: Mapping[str, Json] | None) -> Iterator[FieldError]:
    """Of a slice's spec: names, versions and nodes of its devices."""
    devices = spec.get("devices") or ()
    for index, device in enumerate(devices if old is None or devices != old.get("devices") else ()):
        path = f"spec.devices[{index}]"
        for holder in ("attributes", "capacity"):
            for name in sorted(device.get(holder) or ()):
                yield from _slashes(name, f"{path}.{holder}")
        for name, attribute in sorted((device.get("attributes") or {}).items()):
            where = f"{path}.attributes[{name}]"
            for field, value in (
                ("version", attribute.get("version")),
                *((f"versions[{at}]", each) for at, each in enumerate(attribute.get("versions") or ())),
            ):
                core, _, pre_release = (value or "").partition("+")[0].partition("-")
                numbers = (part for part in (*core.split("."), *pre_release.split(".")) if part.isdecimal())
                if any(len(part) > _DIGITS_MAX for part in numbers):
                    detail = "must be a string compatible with semver.org spec 2.0.0, with at most 18 digits in numbers"
                    yield invalid(f"{where}.{field}", value, detail)
        terms = (device.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            detail = "must have exactly one node selector term"
            yield invalid(f"{path}.nodeSelector.nodeSelectorTerms", terms, detail)


def _amounts(amounts: Mapping[str, Json] | None, path: str) -> list[FieldError]:
    return check_map(amounts or {}, _AMOUNTS_MAX, _check_name, _check_amount, path)


def _check_name(name: str, path: str) -> list[FieldError]:
    return check_qualified_id(name, path) + _slashes(name, path)


def _check_amount(amount: Json, path: str) -> list[FieldError]:
    is_negative = read_quantity(amount).sign() < 0
    return [invalid(path, str(amount), "must be greater than or equal to 0")] if is_negative else []


def _slashes(name: str, path: str) -> list[FieldError]:
    return [invalid(path, name, "must not contain more than one slash")] if name.count("/") > 1 else []
