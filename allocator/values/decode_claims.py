"""Classes, claim specs and allocations from API JSON; rules as in `decode`.

A field that is neither read nor harmless makes a class `unread`; of a claim it is a `DecodeError`.

Equal claim specs are one object: claims are compared far more often than they are read.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final
from weakref import WeakValueDictionary

from allocator.values.decode_node_selector import read_node_selector
from allocator.values.json_fields import (
    INT,
    OPTIONAL_BOOL,
    OPTIONAL_INT,
    OPTIONAL_TEXT,
    TEXT,
    TEXTS,
    Field,
    FieldError,
    Json,
    UnreadFieldError,
    decode_object,
    decode_part,
    entries,
    fields,
    like,
    many,
    only,
    quantity_at,
    record,
    without_unread,
)
from allocator.values.model import (
    Allocation,
    AllocationConfig,
    ClaimConfig,
    ClaimSpec,
    Constraint,
    DerivedAttribute,
    DeviceClass,
    DeviceResult,
    DeviceSelector,
    DeviceToleration,
    Request,
    RequestAlternative,
)

_specs: Final[WeakValueDictionary[str, ClaimSpec]] = WeakValueDictionary()


def decode_class(obj: Json) -> DeviceClass:
    """Read a DeviceClass. Raises DecodeError."""
    decoded = decode_object("DeviceClass", obj, _class)
    created = (obj.get("metadata") or {}).get("creationTimestamp")
    return replace(decoded, creation_timestamp=created) if isinstance(created, str) else decoded


def decode_claim_spec(spec: Json) -> ClaimSpec:
    """Read a ResourceClaim's `spec`; equal specs (as JSON) give the same object. Raises DecodeError."""
    key = json.dumps(spec, sort_keys=True, separators=(",", ":"), default=str)
    known = _specs.get(key)
    if known is None:
        known = _specs[key] = decode_part("ResourceClaim", "spec", spec, _claim_spec)
    return known


def decode_allocation(obj: Json) -> Allocation:
    """Read a claim's `status.allocation`. Raises DecodeError."""
    return decode_part("ResourceClaim", "status.allocation", obj, _allocation)


def _class(name: str, spec: Json) -> DeviceClass:
    try:
        return DeviceClass(name, *_class_fields(spec))
    except UnreadFieldError:
        known, unread = without_unread(_class_fields, spec)
        made = DeviceClass(name, *_class_fields(known))
        return replace(made, unread=tuple([f"spec.{path}" for path in unread]))


def _request(obj: Any) -> Request:
    try:
        name, exactly, alternatives = _request_fields(obj)
    except UnreadFieldError:
        if "deviceClassName" in obj:
            raise FieldError(
                "deviceClassName", "resource.k8s.io/v1 has it below `exactly`; convert the object from v1beta1"
            ) from None
        raise
    return Request(name, replace(exactly, name=name) if exactly is not None else None, alternatives)


_selector: Final = record(DeviceSelector, expression=Field(only(TEXT, "expression"), name="cel"))
_configuration: Final = Field(lambda opaque: {"opaque": opaque}, {}, "opaque")
_class_fields: Final = fields(
    selectors=many(_selector), config=many(only(_configuration, "opaque")), extended_resource_name=OPTIONAL_TEXT
)
_toleration: Final = record(
    DeviceToleration, key=TEXT, operator=TEXT, value=TEXT, effect=TEXT, toleration_seconds=OPTIONAL_INT
)
_alternative: Final = record(
    RequestAlternative,
    name=TEXT,
    device_class_name=TEXT,
    selectors=many(_selector),
    allocation_mode=TEXT,
    count=INT,
    admin_access=OPTIONAL_BOOL,
    tolerations=many(_toleration),
    capacity_requests=Field(only(entries(quantity_at), "requests"), name="capacity"),
    derived=many(record(DerivedAttribute, name=TEXT, expression=TEXT), "derivedAttributes"),
)
_request_fields: Final = fields(name=TEXT, exactly=Field(_alternative), first_available=many(_alternative))
_constraint: Final = record(Constraint, requests=TEXTS, match_attribute=OPTIONAL_TEXT, distinct_attribute=OPTIONAL_TEXT)
_devices_asked: Final = record(
    ClaimSpec,
    requests=many(like(_request_fields, _request)),
    constraints=many(_constraint),
    config=many(record(ClaimConfig, requests=TEXTS, configuration=_configuration)),
)
_claim_spec: Final = record(lambda devices: devices or ClaimSpec((), (), ()), devices=Field(_devices_asked))
_result: Final = record(
    DeviceResult,
    request=TEXT,
    driver=TEXT,
    pool=TEXT,
    device=TEXT,
    admin_access=OPTIONAL_BOOL,
    tolerations=many(_toleration),
    binding_conditions=TEXTS,
    binding_failure_conditions=TEXTS,
    share_id=OPTIONAL_TEXT._replace(name="shareID"),
    consumed_capacity=entries(quantity_at),
    skip_node_operations=TEXTS,
)
_devices_given: Final = fields(
    results=many(_result),
    config=many(record(AllocationConfig, source=TEXT, requests=TEXTS, configuration=_configuration)),
)
_allocation: Final = record(
    lambda devices, *others: Allocation(*devices, *others),
    devices=Field(_devices_given, ((), ())),
    node_selector=Field(read_node_selector),
    allocation_timestamp=OPTIONAL_TEXT,
)
