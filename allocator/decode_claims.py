"""Classes, claim specs and allocations from API JSON; rules as in `decode`.

Equal claim specs are one object: claims are compared far more often than they are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from allocator.decode_node_selector import node_selector
from allocator.json_fields import (
    FieldError,
    Json,
    bool_at,
    child,
    decode_object,
    each,
    int_at,
    name_of,
    optional_text,
    quantity_at,
    text_at,
    texts_at,
)
from allocator.model import (
    Allocation,
    AllocationConfig,
    ClaimConfig,
    ClaimSpec,
    Constraint,
    DecodeError,
    DeviceClass,
    DeviceResult,
    DeviceSelector,
    Request,
    RequestAlternative,
    Toleration,
)

_specs: Final[WeakValueDictionary[str, ClaimSpec]] = WeakValueDictionary()
_texts: Final[WeakKeyDictionary[ClaimSpec, str]] = WeakKeyDictionary()


def decode_class(obj: Json) -> DeviceClass:
    """Read a DeviceClass. Raises DecodeError."""
    decoded = decode_object("DeviceClass", obj, _class)
    created = (child(obj, "metadata") or {}).get("creationTimestamp")
    return replace(decoded, creation_timestamp=created) if isinstance(created, str) else decoded


def decode_claim_spec(spec: Json) -> ClaimSpec:
    """Read a ResourceClaim's `spec`; equal specs (as JSON) give the same object. Raises DecodeError."""
    if not isinstance(spec, Mapping):
        raise DecodeError("ResourceClaim", "", "spec", f"expected an object, got {name_of(spec)}")
    key = json.dumps(spec, sort_keys=True, separators=(",", ":"), default=str)
    known = _specs.get(key)
    if known is None:
        try:
            known = _claim_spec(spec)
        except FieldError as error:
            bad = error.below("spec")
            raise DecodeError("ResourceClaim", "", bad.path, bad.problem) from None
        _specs[key] = known
        _texts[known] = key
    return known


def claim_spec_text(spec: ClaimSpec) -> str:
    """The JSON for which `decode_claim_spec` gives this object. Raises KeyError for one that is not from there."""
    return _texts[spec]


def decode_allocation(obj: Json) -> Allocation:
    """Read a claim's `status.allocation`. Raises DecodeError."""
    if not isinstance(obj, Mapping):
        raise DecodeError("ResourceClaim", "", "status.allocation", f"expected an object, got {name_of(obj)}")
    try:
        return _allocation(obj)
    except FieldError as error:
        bad = error.below("status.allocation")
        raise DecodeError("ResourceClaim", "", bad.path, bad.problem) from None


def _class(name: str, spec: Json) -> DeviceClass:
    return DeviceClass(
        name=name,
        selectors=each(spec, "selectors", _selector),
        config=each(spec, "config", _configuration),
        extended_resource_name=optional_text(spec, "extendedResourceName"),
    )


def _selector(obj: Json) -> DeviceSelector:
    cel = child(obj, "cel")
    return DeviceSelector(None if cel is None else text_at(cel, "expression"))


def _configuration(obj: Json) -> Mapping[str, Any]:
    return {"opaque": obj["opaque"]} if obj.get("opaque") is not None else {}


def _claim_spec(spec: Json) -> ClaimSpec:
    devices = child(spec, "devices") or {}
    try:
        return ClaimSpec(
            requests=each(devices, "requests", _request),
            constraints=each(devices, "constraints", _constraint),
            config=each(devices, "config", _claim_config),
        )
    except FieldError as error:
        raise error.below("devices") from None


def _request(obj: Json) -> Request:
    name = text_at(obj, "name")
    exactly = child(obj, "exactly")
    if exactly is None and "deviceClassName" in obj:
        raise FieldError(
            "deviceClassName", "resource.k8s.io/v1 has it below `exactly`; convert the object from v1beta1"
        )
    try:
        alternative = None if exactly is None else _alternative(exactly, name)
    except FieldError as error:
        raise error.below("exactly") from None
    return Request(name, alternative, each(obj, "firstAvailable", lambda sub: _alternative(sub, text_at(sub, "name"))))


def _alternative(obj: Json, name: str) -> RequestAlternative:
    admin_access = obj.get("adminAccess")
    capacity = child(obj, "capacity")
    capacity_requests = None
    if capacity is not None:
        requests = []
        for capacity_name, value in (child(capacity, "requests") or {}).items():
            try:
                requests.append((capacity_name, quantity_at(value)))
            except FieldError as error:
                raise error.below(f"capacity.requests[{capacity_name}]") from None
        capacity_requests = tuple(sorted(requests, key=lambda request: request[0]))
    return RequestAlternative(
        name=name,
        device_class_name=text_at(obj, "deviceClassName"),
        selectors=each(obj, "selectors", _selector),
        allocation_mode=text_at(obj, "allocationMode"),
        count=int_at(obj, "count"),
        admin_access=None if admin_access is None else bool_at(obj, "adminAccess"),
        tolerations=each(obj, "tolerations", _toleration),
        capacity_requests=capacity_requests,
        has_derived_attributes=bool(obj.get("derivedAttributes")),
    )


def _toleration(obj: Json) -> Toleration:
    seconds = obj.get("tolerationSeconds")
    return Toleration(
        text_at(obj, "key"),
        text_at(obj, "operator"),
        text_at(obj, "value"),
        text_at(obj, "effect"),
        None if seconds is None else int_at(obj, "tolerationSeconds"),
    )


def _constraint(obj: Json) -> Constraint:
    return Constraint(
        texts_at(obj, "requests"), optional_text(obj, "matchAttribute"), optional_text(obj, "distinctAttribute")
    )


def _claim_config(obj: Json) -> ClaimConfig:
    return ClaimConfig(texts_at(obj, "requests"), _configuration(obj))


def _allocation(obj: Json) -> Allocation:
    devices = child(obj, "devices") or {}
    selector = child(obj, "nodeSelector")
    try:
        results = each(devices, "results", _result)
        config = each(devices, "config", _allocation_config)
    except FieldError as error:
        raise error.below("devices") from None
    try:
        usable_on = None if selector is None else node_selector(selector)
    except FieldError as error:
        raise error.below("nodeSelector") from None
    return Allocation(results, config, usable_on, optional_text(obj, "allocationTimestamp"))


def _result(obj: Json) -> DeviceResult:
    admin_access = obj.get("adminAccess")
    consumed = []
    for name, value in (child(obj, "consumedCapacity") or {}).items():
        try:
            consumed.append((name, quantity_at(value)))
        except FieldError as error:
            raise error.below(f"consumedCapacity[{name}]") from None
    return DeviceResult(
        request=text_at(obj, "request"),
        driver=text_at(obj, "driver"),
        pool=text_at(obj, "pool"),
        device=text_at(obj, "device"),
        admin_access=None if admin_access is None else bool_at(obj, "adminAccess"),
        tolerations=each(obj, "tolerations", _toleration),
        binding_conditions=texts_at(obj, "bindingConditions"),
        binding_failure_conditions=texts_at(obj, "bindingFailureConditions"),
        share_id=optional_text(obj, "shareID"),
        consumed_capacity=tuple(sorted(consumed, key=lambda capacity: capacity[0])),
    )


def _allocation_config(obj: Json) -> AllocationConfig:
    return AllocationConfig(text_at(obj, "source"), texts_at(obj, "requests"), _configuration(obj))
