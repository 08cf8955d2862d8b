"""ResourceSlices from API JSON.

Input is what a JSON or YAML parser gives: mappings, lists, strings, ints, bools, None. A null means the
same as an absent field, unknown fields are ignored (a newer API server may send them), a wrong type is a
`DecodeError` that names the object and the field. Limits are the API server's business and not checked.

Cost: about 10 us a device. Attribute values, capacities and taints that are equal are shared, because
fleets repeat them: 80,000 devices must fit into a gigabyte.

Not here: classes and claims (`decode_claims`), node selectors (`decode_node_selector`), JSON (`encode`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from allocator.decode_node_selector import optional_node_selector
from allocator.json_fields import (
    SHARED_MAX,
    TYPE_NAMES,
    FieldError,
    Json,
    bool_at,
    child,
    decode_object,
    each,
    int_at,
    list_at,
    name_of,
    optional_quantity,
    optional_text,
    quantity,
    quantity_at,
    text_at,
    texts_at,
)
from allocator.model import (
    Attribute,
    AttributeKind,
    AttributeValue,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceId,
    RequestPolicy,
    ResourceSlice,
    Taint,
    ValidRange,
)
from cel.quantity import Quantity
from cel.semver import Semver

_SCALARS: Final[tuple[tuple[AttributeKind, type], ...]] = (
    ("string", str),
    ("int", int),
    ("bool", bool),
    ("version", str),
)
_LISTS: Final[tuple[tuple[AttributeKind, type], ...]] = (
    ("ints", int),
    ("bools", bool),
    ("strings", str),
    ("versions", str),
)
_UNKNOWN: Final = Attribute("unknown", None)
_NO_ATTRIBUTES: Final[Mapping[str, Attribute]] = {}
_NO_CAPACITY: Final[Mapping[str, DeviceCapacity]] = {}

_attributes: Final[dict[tuple[str, Any], Attribute]] = {}
_taints: Final[dict[tuple[Taint, ...], tuple[Taint, ...]]] = {}


def decode_slice(obj: Json) -> ResourceSlice:
    """Read a ResourceSlice (`resource.k8s.io/v1`).

    Raises:
        DecodeError: names the slice and the field.
    """
    return decode_object("ResourceSlice", obj, _slice)


def _slice(name: str, spec: Json) -> ResourceSlice:
    driver = text_at(spec, "driver")
    pool = child(spec, "pool") or {}
    pool_name = text_at(pool, "name")
    per_device = spec.get("perDeviceNodeSelection")
    devices = []
    for index, obj in enumerate(list_at(spec, "devices")):
        try:
            devices.append(_device(driver, pool_name, obj))
        except FieldError as error:
            raise error.below(f"devices[{index}]") from None
    return ResourceSlice(
        name=name,
        driver=driver,
        pool=pool_name,
        generation=int_at(pool, "generation"),
        resource_slice_count=int_at(pool, "resourceSliceCount"),
        node_name=optional_text(spec, "nodeName"),
        node_selector=optional_node_selector(spec),
        all_nodes=bool_at(spec, "allNodes"),
        per_device_node_selection=None if per_device is None else bool_at(spec, "perDeviceNodeSelection"),
        devices=tuple(devices),
        shared_counters=each(spec, "sharedCounters", _counter_set),
    )


def _device(driver: str, pool: str, obj: Json) -> Device:
    if not isinstance(obj, Mapping):
        raise FieldError("", f"expected an object, got {name_of(obj)}")
    if obj.get("attributes") is None and "basic" in obj:
        raise FieldError("basic", "resource.k8s.io/v1 has no such field; convert the object from v1beta1")
    get = obj.get
    conditions = get("bindingConditions")
    failures = get("bindingFailureConditions")
    taints = get("taints")
    attributes, has_odd_attributes = _device_attributes(obj)
    return Device(
        id=DeviceId(driver, pool, text_at(obj, "name")),
        attributes=attributes,
        has_odd_attributes=has_odd_attributes,
        capacity=_device_capacity(obj),
        allow_multiple_allocations=bool_at(obj, "allowMultipleAllocations"),
        consumes_counters=each(obj, "consumesCounters", _consumption) if get("consumesCounters") else (),
        node_name=optional_text(obj, "nodeName"),
        node_selector=optional_node_selector(obj) if get("nodeSelector") is not None else None,
        all_nodes=bool_at(obj, "allNodes"),
        taints=_shared_taints(each(obj, "taints", _taint)) if taints else (),
        binds_to_node=bool_at(obj, "bindsToNode"),
        binding_conditions=None if conditions is None else texts_at(obj, "bindingConditions"),
        binding_failure_conditions=None if failures is None else texts_at(obj, "bindingFailureConditions"),
        node_allocatable_resource_mappings=child(obj, "nodeAllocatableResourceMappings"),
    )


def _device_attributes(obj: Json) -> tuple[Mapping[str, Attribute], bool]:
    """The attributes, and whether any is odd: only plain ones are shared."""
    raw = child(obj, "attributes")
    if not raw:
        return _NO_ATTRIBUTES, False
    attributes: dict[str, Attribute] = {}
    has_odd = False
    shared = _attributes
    for name, value in raw.items():
        try:
            if len(value) == 1:
                ((kind, content),) = value.items()
                known = shared.get((kind, content))
                if known is not None and type(known.value) is type(content):
                    attributes[name] = known
                    continue
        except (AttributeError, TypeError, ValueError):
            pass  # lists and everything odd: read with care below
        try:
            attribute = attributes[name] = _attribute(value)
        except FieldError as error:
            raise error.below(f"attributes[{name}]") from None
        if (attribute.kind, attribute.value) not in shared:
            has_odd = True
    return attributes, has_odd


def _attribute(obj: Any) -> Attribute:
    if obj is None:
        return _UNKNOWN
    if not isinstance(obj, Mapping):
        raise FieldError("", f"expected an object like {{string: value}}, got {name_of(obj)}")
    for kind, expected in _SCALARS:
        value = obj.get(kind)
        if value is not None:
            if type(value) is not expected:
                raise FieldError(kind, f"expected {TYPE_NAMES[expected]}, got {name_of(value)}")
            attribute = Attribute(kind, cast(AttributeValue, value))
            return attribute if kind == "version" and not _is_version(str(value)) else _share_attribute(attribute)
    for kind, expected in _LISTS:
        values = obj.get(kind)
        if values:
            if not isinstance(values, Sequence) or isinstance(values, str):
                raise FieldError(kind, f"expected a list, got {name_of(values)}")
            for index, value in enumerate(values):
                if type(value) is not expected:
                    raise FieldError(f"{kind}[{index}]", f"expected {TYPE_NAMES[expected]}, got {name_of(value)}")
            return Attribute(kind, cast(AttributeValue, tuple(values)))
    return _UNKNOWN


def _is_version(text: str) -> bool:
    try:
        Semver.parse(text)
    except ValueError:
        return False
    return True


def _share_attribute(attribute: Attribute) -> Attribute:
    if len(_attributes) >= SHARED_MAX:
        _attributes.clear()
    return _attributes.setdefault((attribute.kind, attribute.value), attribute)


def _device_capacity(obj: Json) -> Mapping[str, DeviceCapacity]:
    raw = child(obj, "capacity")
    if not raw:
        return _NO_CAPACITY
    capacity: dict[str, DeviceCapacity] = {}
    for name, value in raw.items():
        try:
            if not isinstance(value, Mapping):
                raise FieldError("", f"expected an object with a value, got {name_of(value)}")
            amount = optional_quantity(value, "value")
            policy = child(value, "requestPolicy")
            capacity[name] = DeviceCapacity(
                amount if amount is not None else quantity("0"),
                None if policy is None else _request_policy(policy),
            )
        except FieldError as error:
            raise error.below(f"capacity[{name}]") from None
    return capacity


def _request_policy(obj: Json) -> RequestPolicy:
    valid_range = child(obj, "validRange")
    try:
        return RequestPolicy(
            default=optional_quantity(obj, "default"),
            valid_values=tuple(quantity_at(value) for value in list_at(obj, "validValues")),
            valid_range=None
            if valid_range is None
            else ValidRange(
                optional_quantity(valid_range, "min"),
                optional_quantity(valid_range, "max"),
                optional_quantity(valid_range, "step"),
            ),
        )
    except FieldError as error:
        raise error.below("requestPolicy") from None


def _consumption(obj: Json) -> CounterConsumption:
    return CounterConsumption(text_at(obj, "counterSet"), _counters(obj), bool(obj.get("compatibilityGroups")))


def _counter_set(obj: Json) -> CounterSet:
    return CounterSet(text_at(obj, "name"), _counters(obj))


def _counters(obj: Json) -> tuple[tuple[str, Quantity], ...]:
    counters = []
    for name, value in (child(obj, "counters") or {}).items():
        try:
            amount = optional_quantity(value, "value") if isinstance(value, Mapping) else None
            if amount is None:
                raise FieldError("value", "missing")
        except FieldError as error:
            raise error.below(f"counters[{name}]") from None
        counters.append((name, amount))
    return tuple(sorted(counters, key=lambda counter: counter[0]))


def _taint(obj: Json) -> Taint:
    return Taint(text_at(obj, "key"), text_at(obj, "value"), text_at(obj, "effect"), optional_text(obj, "timeAdded"))


def _shared_taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    if len(_taints) >= SHARED_MAX:
        _taints.clear()
    return _taints.setdefault(taints, taints)
