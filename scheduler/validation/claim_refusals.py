"""The rules of ResourceClaims: what a spec and a status may be.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/resource/validation/validation.go, pkg/apis/resource/v1/defaults.go.
"""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from allocator import RESULTS_MAX
from scheduler.model.api_rules import (
    ALLOCATION_MODES,
    CONDITIONS_MAX,
    CONFIG_MAX,
    CONSTRAINTS_MAX,
    REQUESTS_MAX,
    RESERVED_FOR_MAX,
    SUB_REQUESTS_MAX,
)
from scheduler.validation.api_fields import NEWEST
from scheduler.validation.derived import check_derived_attributes
from scheduler.validation.device_rules import (
    check_binding_conditions,
    check_device_class,
    check_device_name,
    check_driver,
    check_fully_qualified_id,
    check_items,
    check_node_selector,
    check_opaque_config,
    check_pool_name,
    check_raw_object,
    check_selectors,
    check_set,
    check_toleration,
    check_uid,
)
from scheduler.validation.field_errors import (
    FieldError,
    Json,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from scheduler.validation.refused_since_138 import SINCE, refused_claim_spec, refused_results

_REFERENCE_TEXT: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

RequestNames = Mapping[str, frozenset[str]]
DeviceKey = tuple[str, str, str, str]


# -- defaults --------------------------------------------------------------------------------------


def quantities_of_claim(spec: Mapping[str, Json]) -> Iterator[Json]:
    """Whatever is a quantity in a claim's spec."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        for part in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
            yield from ((part.get("capacity") or {}).get("requests") or {}).values()


def default_claim_spec(spec: dict[str, Json]) -> None:
    """allocationMode ExactCount, count 1, toleration operator Equal."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        for part in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if part is None:
                continue
            part["allocationMode"] = part.get("allocationMode") or "ExactCount"
            if part["allocationMode"] == "ExactCount" and not part.get("count"):
                part["count"] = 1
            for toleration in part.get("tolerations") or ():
                toleration["operator"] = toleration.get("operator") or "Equal"


# -- spec ------------------------------------------------------------------------------------------


def request_names(spec: Mapping[str, Json]) -> dict[str, frozenset[str]]:
    """Request name -> the names of its sub-requests."""
    return {
        request.get("name", ""): frozenset(sub.get("name", "") for sub in request.get("firstAvailable") or ())
        for request in (spec.get("devices") or {}).get("requests") or ()
    }


def validate_claim_spec(spec: Mapping[str, Json], path: str, minor: int = NEWEST) -> list[FieldError]:
    """A claim's spec, in a claim or in a template."""
    devices = spec.get("devices") or {}
    where = f"{path}.devices"
    names = request_names(spec)
    errors = check_set(
        devices.get("requests") or (), REQUESTS_MAX, _check_request, lambda r: r.get("name", ""), f"{where}.requests"
    )
    errors += check_items(
        devices.get("constraints") or (),
        CONSTRAINTS_MAX,
        lambda constraint, at: _check_constraint(constraint, at, names),
        f"{where}.constraints",
    )
    errors += check_derived_attributes(devices, where)
    errors += check_items(
        devices.get("config") or (),
        CONFIG_MAX,
        lambda config, at: _check_references(config, at, names) + check_opaque_config(config, at),
        f"{where}.config",
    )
    return [*errors, *(refused_claim_spec(spec, path) if minor >= SINCE else ())]


def _check_request(request: Json, path: str) -> list[FieldError]:
    errors = check_device_name(request.get("name"), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is not None and alternatives:
        detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        errors.append(invalid(path, None, detail))
    elif alternatives:
        errors += check_set(
            alternatives,
            SUB_REQUESTS_MAX,
            lambda sub, at: check_device_name(sub.get("name"), f"{at}.name") + _check_exact(sub, at),
            lambda sub: sub.get("name", ""),
            f"{path}.firstAvailable",
        )
    elif exactly is not None:
        errors += _check_exact(exactly, f"{path}.exactly")
    else:
        errors.append(required(path, "exactly one of `exactly` or `firstAvailable` is required"))
    return errors


def _check_exact(request: Mapping[str, Json], path: str) -> list[FieldError]:
    errors = check_device_class(request.get("deviceClassName"), f"{path}.deviceClassName")
    errors += check_selectors(request.get("selectors"), f"{path}.selectors")
    mode, count = request.get("allocationMode"), request.get("count") or 0
    if mode == "All":
        if count != 0:
            errors.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount":
        if count <= 0:
            errors.append(invalid(f"{path}.count", count, "must be greater than zero"))
    else:
        errors.append(not_supported(f"{path}.allocationMode", mode, ALLOCATION_MODES))
    # Of `capacity` no limit, and no rule for names: the API documents both, its server checks them since 1.38.
    return errors + check_items(request.get("tolerations") or (), None, check_toleration, f"{path}.tolerations")


def _check_constraint(constraint: Json, path: str, names: RequestNames) -> list[FieldError]:
    errors = _check_references(constraint, path, names)
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None and distinct is not None:
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        errors.append(invalid(path, None, detail))
    elif match is not None:
        errors += check_fully_qualified_id(match, f"{path}.matchAttribute")
    elif distinct is not None:
        errors += check_fully_qualified_id(distinct, f"{path}.distinctAttribute")
    else:
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        errors.append(required(path, detail))
    return errors


def _check_references(holder: Mapping[str, Json], path: str, names: RequestNames) -> list[FieldError]:
    return check_set(
        holder.get("requests") or (),
        REQUESTS_MAX,
        lambda reference, at: _check_reference(reference, at, names),
        lambda reference: reference,
        f"{path}.requests",
    )


def _check_reference(reference: Json, path: str, names: RequestNames) -> list[FieldError]:
    parts = (reference or "").split("/")
    if len(parts) > 2:
        return [invalid(path, reference, _REFERENCE_TEXT)]
    errors = [error for part in parts for error in check_device_name(part, path)]
    is_known = parts[0] in names and (len(parts) == 1 or parts[1] in names[parts[0]])
    return errors if is_known else [*errors, invalid(path, reference, _REFERENCE_TEXT)]


# -- status ----------------------------------------------------------------------------------------


def results_of(status: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    results: Sequence[Mapping[str, Json]] = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return results


def device_key(entry: Mapping[str, Json]) -> DeviceKey:
    return (entry.get("driver", ""), entry.get("pool", ""), entry.get("device", ""), entry.get("shareID") or "")


def _device_text(key: DeviceKey) -> str:
    driver, pool, device, share = key
    return f"{driver}/{pool}/{device}" + (f"/{share}" if share else "")


def validate_claim_status(
    status: Mapping[str, Json], old_status: Mapping[str, Json], names: RequestNames, minor: int, *, is_deleted: bool
) -> list[FieldError]:
    reserved, allocation = status.get("reservedFor") or [], status.get("allocation")
    errors = check_set(
        reserved, RESERVED_FOR_MAX, _check_consumer, lambda entry: entry.get("uid", ""), "status.reservedFor"
    )
    allocated = {device_key(result) for result in results_of(status)}
    errors += check_set(
        status.get("devices") or (),
        None,
        lambda entry, at: _check_device_status(entry, at, allocated),
        lambda entry: _device_text(device_key(entry)),
        "status.devices",
    )
    if reserved and allocation is None:
        errors.append(forbidden("status.reservedFor", "may not be specified when `allocated` is not set"))
    elif reserved and is_deleted and any(entry not in (old_status.get("reservedFor") or []) for entry in reserved):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden("status.reservedFor", detail))
    old_allocation = old_status.get("allocation")
    if old_allocation is not None and allocation is not None:
        if allocation != old_allocation:
            errors.append(invalid("status.allocation", allocation, "field is immutable"))
    elif allocation is not None:
        errors += (*_check_allocation(allocation, names), *(refused_results(status) if minor >= SINCE else ()))
    return errors


def _check_consumer(entry: Json, path: str) -> list[FieldError]:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not entry.get(field)]


def _check_allocation(allocation: Mapping[str, Json], names: RequestNames) -> list[FieldError]:
    path = "status.allocation"
    devices = allocation.get("devices") or {}
    errors = check_items(
        devices.get("results") or (),
        RESULTS_MAX,
        lambda result, at: _check_result(result, at, names),
        f"{path}.devices.results",
    )
    errors += check_items(
        devices.get("config") or (),
        2 * CONFIG_MAX,
        lambda config, at: _check_allocated_config(config, at, names),
        f"{path}.devices.config",
    )
    if allocation.get("nodeSelector") is not None:
        errors += check_node_selector(allocation["nodeSelector"], f"{path}.nodeSelector")
    return errors


def _check_result(result: Json, path: str, names: RequestNames) -> list[FieldError]:
    errors = _check_reference(result.get("request"), f"{path}.request", names)
    errors += check_driver(result.get("driver"), f"{path}.driver")
    errors += check_pool_name(result.get("pool"), f"{path}.pool")
    errors += check_device_name(result.get("device"), f"{path}.device")
    errors += check_binding_conditions(result, path)
    if result.get("shareID") is not None:
        errors += check_uid(result["shareID"], f"{path}.shareID")
    return errors


def _check_allocated_config(config: Json, path: str, names: RequestNames) -> list[FieldError]:
    source = config.get("source")
    errors: list[FieldError] = []
    if not source:
        errors.append(required(f"{path}.source"))
    elif source not in ("FromClaim", "FromClass"):
        errors.append(not_supported(f"{path}.source", source, ("FromClaim", "FromClass")))
    return errors + _check_references(config, path, names) + check_opaque_config(config, path)


def _check_device_status(entry: Json, path: str, allocated: set[DeviceKey]) -> list[FieldError]:
    errors = check_driver(entry.get("driver"), f"{path}.driver")
    errors += check_pool_name(entry.get("pool"), f"{path}.pool")
    errors += check_device_name(entry.get("device"), f"{path}.device")
    if entry.get("shareID") is not None:
        errors += check_uid(entry["shareID"], f"{path}.shareID")
    key = device_key(entry)
    if key not in allocated:
        errors.append(invalid(path, _device_text(key), "must be an allocated device in the claim"))
    conditions = entry.get("conditions") or []
    if len(conditions) > CONDITIONS_MAX:
        errors.append(too_many(f"{path}.conditions", len(conditions), CONDITIONS_MAX))
    if entry.get("data") is not None:
        errors += check_raw_object(entry["data"], f"{path}.data")
    return errors + _check_network(entry.get("networkData") or {}, f"{path}.networkData")


def _check_network(network: Mapping[str, Json], path: str) -> list[FieldError]:
    errors = [
        too_long(f"{path}.{field}", limit)
        for field, limit in (("interfaceName", 256), ("hardwareAddress", 128))
        if len((network.get(field) or "").encode()) > limit
    ]
    return errors + check_set(network.get("ips") or (), 16, _check_address, lambda address: address, f"{path}.ips")


def _check_address(address: Json, path: str) -> list[FieldError]:
    try:
        if "/" not in address:
            raise ValueError(address)
        ipaddress.ip_interface(address)
    except ValueError:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [invalid(path, address, detail)]
    return []
