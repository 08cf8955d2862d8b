"""What the API server refuses since Kubernetes 1.38 and took before; asked beside the rules that are older.

What is stored is not looked at again: devices of a slice that did not change, an allocation.

Source: k8s.io/kubernetes v1.38.0-beta.0 pkg/apis/resource/validation/validation.go, k8s.io/api resource/v1/types.go.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.validation.device_rules import check_map, check_qualified_id, read_quantity
from scheduler.validation.field_errors import FieldError, Json, invalid

SINCE: Final = 38
_AMOUNTS_MAX: Final = 32
_DIGITS_MAX: Final = 18


def refused_claim_spec(spec: Mapping[str, Json], path: str) -> Iterator[FieldError]:
    """Of a claim's spec, in a claim or in a template: amounts of capacity, and names in constraints."""
    devices, where = spec.get("devices") or {}, f"{path}.devices"
    for index, request in enumerate(devices.get("requests") or ()):
        parts = {f"firstAvailable[{at}]": one for at, one in enumerate(request.get("firstAvailable") or ())}
        for field, part in ({"exactly": request.get("exactly") or {}} | parts).items():
            amounts = (part.get("capacity") or {}).get("requests")
            yield from _amounts(amounts, f"{where}.requests[{index}].{field}.capacity.requests")
    for index, constraint in enumerate(devices.get("constraints") or ()):
        for field in ("matchAttribute", "distinctAttribute"):
            yield from _slashes(constraint.get(field) or "", f"{where}.constraints[{index}].{field}")


def refused_results(status: Mapping[str, Json]) -> Iterator[FieldError]:
    """Of a claim's status: what a new allocation takes of capacities."""
    for index, result in enumerate(((status.get("allocation") or {}).get("devices") or {}).get("results") or ()):
        yield from _amounts(
            result.get("consumedCapacity"), f"status.allocation.devices.results[{index}].consumedCapacity"
        )


def refused_devices(spec: Mapping[str, Json], old: Mapping[str, Json] | None) -> Iterator[FieldError]:
    """Of a slice's spec: names, versions and nodes of its devices."""
    devices = spec.get("devices") or ()
    for index, device in enumerate(devices if old is None or devices != old.get("devices") else ()):
        path, attributes = f"spec.devices[{index}]", device.get("attributes") or {}
        for holder, names in (("attributes", attributes), ("capacity", device.get("capacity") or {})):
            for name in sorted(names):
                yield from _slashes(name, f"{path}.{holder}")
        for name, attribute in sorted(attributes.items()):
            versions = {f"versions[{at}]": one for at, one in enumerate(attribute.get("versions") or ())}
            for field, version in (versions | {"version": attribute.get("version") or ""}).items():
                core, _, pre_release = version.partition("+")[0].partition("-")
                parts = (*core.split("."), *pre_release.split("."))
                if any(part.isdecimal() and len(part) > _DIGITS_MAX for part in parts):
                    detail = "must be a string compatible with semver.org spec 2.0.0, with at most 18 digits in numbers"
                    yield invalid(f"{path}.attributes[{name}].{field}", version, detail)
        terms = (device.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            yield invalid(f"{path}.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term")


def _amounts(amounts: Mapping[str, Json] | None, path: str) -> list[FieldError]:
    def check_name(name: str, at: str) -> list[FieldError]:
        return check_qualified_id(name, at) + _slashes(name, at)

    def check_amount(amount: Json, at: str) -> list[FieldError]:
        is_negative = read_quantity(amount).sign() < 0
        return [invalid(at, str(amount), "must be greater than or equal to 0")] if is_negative else []

    return check_map(amounts or {}, _AMOUNTS_MAX, check_name, check_amount, path)


def _slashes(name: str, path: str) -> list[FieldError]:
    return [invalid(path, name, "must not contain more than one slash")] if name.count("/") > 1 else []
