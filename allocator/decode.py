"""API JSON to model values.

Input is what a JSON or YAML parser gives: mappings, lists, strings, ints, bools, None. A null means the
same as an absent field, unknown fields are ignored (a newer API server may send them), a wrong type is a
`DecodeError` that names the object and the field. Limits are the API server's business and not checked.

Cost: about 10 us a device. Attribute values, capacities and taints that are equal are shared, because
fleets repeat them: 80,000 devices must fit into a gigabyte.

Not here: model to JSON (`encode`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast
from weakref import WeakValueDictionary

from allocator.model import (
    Allocation,
    AllocationConfig,
    Attribute,
    AttributeKind,
    AttributeValue,
    ClaimConfig,
    ClaimSpec,
    Constraint,
    CounterConsumption,
    CounterSet,
    DecodeError,
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceId,
    DeviceResult,
    DeviceSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Request,
    RequestAlternative,
    RequestPolicy,
    ResourceSlice,
    Taint,
    Toleration,
    ValidRange,
)
from cel.quantity import Quantity
from cel.semver import Semver

T = TypeVar("T")
Json = Mapping[str, Any]

_SHARED_MAX: Final = 65536
"""Entries per table of shared values; a full table is emptied, which costs memory and nothing else."""

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
_quantities: Final[dict[str, Quantity]] = {}
_taints: Final[dict[tuple[Taint, ...], tuple[Taint, ...]]] = {}
_specs: Final[WeakValueDictionary[str, ClaimSpec]] = WeakValueDictionary()


class _BadError(Exception):
    """A problem at a path below the value being read; each level puts its own part in front."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def below(self, prefix: str) -> _BadError:
        separator = "." if self.path and not self.path.startswith("[") else ""
        return _BadError(prefix + separator + self.path, self.problem)


def decode_slice(obj: Json) -> ResourceSlice:
    """Read a ResourceSlice (`resource.k8s.io/v1`).

    Raises:
        DecodeError: names the slice and the field.
    """
    return _decode("ResourceSlice", obj, _slice)


def decode_class(obj: Json) -> DeviceClass:
    """Read a DeviceClass. Raises DecodeError."""
    decoded = _decode("DeviceClass", obj, _class)
    created = (_child(obj, "metadata") or {}).get("creationTimestamp")
    return replace(decoded, creation_timestamp=created) if isinstance(created, str) else decoded


def decode_claim_spec(spec: Json) -> ClaimSpec:
    """Read a ResourceClaim's `spec`; equal specs (as JSON) give the same object. Raises DecodeError."""
    if not isinstance(spec, Mapping):
        raise DecodeError("ResourceClaim", "", "spec", f"expected an object, got {_name_of(spec)}")
    key = json.dumps(spec, sort_keys=True, separators=(",", ":"), default=str)
    known = _specs.get(key)
    if known is None:
        try:
            known = _claim_spec(spec)
        except _BadError as error:
            bad = error.below("spec")
            raise DecodeError("ResourceClaim", "", bad.path, bad.problem) from None
        _specs[key] = known
    return known


def decode_allocation(obj: Json) -> Allocation:
    """Read a claim's `status.allocation`. Raises DecodeError."""
    if not isinstance(obj, Mapping):
        raise DecodeError("ResourceClaim", "", "status.allocation", f"expected an object, got {_name_of(obj)}")
    try:
        return _allocation(obj)
    except _BadError as error:
        bad = error.below("status.allocation")
        raise DecodeError("ResourceClaim", "", bad.path, bad.problem) from None


def decode_node_selector(obj: Json) -> NodeSelector:
    """Read a core/v1 NodeSelector. Raises DecodeError."""
    try:
        return _node_selector(obj)
    except _BadError as error:
        raise DecodeError("NodeSelector", "", error.path or "selector", error.problem) from None


def _decode(kind: str, obj: Json, read: Callable[[str, Json], T]) -> T:
    if not isinstance(obj, Mapping):
        raise DecodeError(kind, "", "object", f"expected an object, got {_name_of(obj)}")
    name = ""
    try:
        metadata = _child(obj, "metadata") or {}
        name = _text(metadata, "name")
        spec = _child(obj, "spec")
        if spec is None:
            raise _BadError("", "missing")
        return read(name, spec)
    except _BadError as error:
        bad = error.below("spec") if name or error.path not in ("metadata", "name") else error
        raise DecodeError(kind, name, bad.path, bad.problem) from None


# --- slices ---------------------------------------------------------------------------------------------


def _slice(name: str, spec: Json) -> ResourceSlice:
    driver = _text(spec, "driver")
    pool = _child(spec, "pool") or {}
    pool_name = _text(pool, "name")
    per_device = spec.get("perDeviceNodeSelection")
    devices = []
    for index, obj in enumerate(_list(spec, "devices")):
        try:
            devices.append(_device(driver, pool_name, obj))
        except _BadError as error:
            raise error.below(f"devices[{index}]") from None
    return ResourceSlice(
        name=name,
        driver=driver,
        pool=pool_name,
        generation=_int(pool, "generation"),
        resource_slice_count=_int(pool, "resourceSliceCount"),
        node_name=_optional_text(spec, "nodeName"),
        node_selector=_optional_node_selector(spec),
        all_nodes=_bool(spec, "allNodes"),
        per_device_node_selection=None if per_device is None else _bool(spec, "perDeviceNodeSelection"),
        devices=tuple(devices),
        shared_counters=_each(spec, "sharedCounters", _counter_set),
    )


def _device(driver: str, pool: str, obj: Json) -> Device:
    if not isinstance(obj, Mapping):
        raise _BadError("", f"expected an object, got {_name_of(obj)}")
    if obj.get("attributes") is None and "basic" in obj:
        raise _BadError("basic", "resource.k8s.io/v1 has no such field; convert the object from v1beta1")
    get = obj.get
    conditions = get("bindingConditions")
    failures = get("bindingFailureConditions")
    taints = get("taints")
    attributes, has_odd_attributes = _device_attributes(obj)
    return Device(
        id=DeviceId(driver, pool, _text(obj, "name")),
        attributes=attributes,
        has_odd_attributes=has_odd_attributes,
        capacity=_device_capacity(obj),
        allow_multiple_allocations=_bool(obj, "allowMultipleAllocations"),
        consumes_counters=_each(obj, "consumesCounters", _consumption) if get("consumesCounters") else (),
        node_name=_optional_text(obj, "nodeName"),
        node_selector=_optional_node_selector(obj) if get("nodeSelector") is not None else None,
        all_nodes=_bool(obj, "allNodes"),
        taints=_shared_taints(_each(obj, "taints", _taint)) if taints else (),
        binds_to_node=_bool(obj, "bindsToNode"),
        binding_conditions=None if conditions is None else _texts(obj, "bindingConditions"),
        binding_failure_conditions=None if failures is None else _texts(obj, "bindingFailureConditions"),
        node_allocatable_resource_mappings=_child(obj, "nodeAllocatableResourceMappings"),
    )


def _device_attributes(obj: Json) -> tuple[Mapping[str, Attribute], bool]:
    """The attributes, and whether any is odd: only plain ones are shared."""
    raw = _child(obj, "attributes")
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
        except _BadError as error:
            raise error.below(f"attributes[{name}]") from None
        if (attribute.kind, attribute.value) not in shared:
            has_odd = True
    return attributes, has_odd


def _attribute(obj: Any) -> Attribute:
    if obj is None:
        return _UNKNOWN
    if not isinstance(obj, Mapping):
        raise _BadError("", f"expected an object like {{string: value}}, got {_name_of(obj)}")
    for kind, expected in _SCALARS:
        value = obj.get(kind)
        if value is not None:
            if type(value) is not expected:
                raise _BadError(kind, f"expected {_TYPE_NAMES[expected]}, got {_name_of(value)}")
            attribute = Attribute(kind, cast(AttributeValue, value))
            return attribute if kind == "version" and not _is_version(str(value)) else _share_attribute(attribute)
    for kind, expected in _LISTS:
        values = obj.get(kind)
        if values:
            if not isinstance(values, Sequence) or isinstance(values, str):
                raise _BadError(kind, f"expected a list, got {_name_of(values)}")
            for index, value in enumerate(values):
                if type(value) is not expected:
                    raise _BadError(f"{kind}[{index}]", f"expected {_TYPE_NAMES[expected]}, got {_name_of(value)}")
            return Attribute(kind, cast(AttributeValue, tuple(values)))
    return _UNKNOWN


def _is_version(text: str) -> bool:
    try:
        Semver.parse(text)
    except ValueError:
        return False
    return True


def _share_attribute(attribute: Attribute) -> Attribute:
    if len(_attributes) >= _SHARED_MAX:
        _attributes.clear()
    return _attributes.setdefault((attribute.kind, attribute.value), attribute)


def _device_capacity(obj: Json) -> Mapping[str, DeviceCapacity]:
    raw = _child(obj, "capacity")
    if not raw:
        return _NO_CAPACITY
    capacity: dict[str, DeviceCapacity] = {}
    for name, value in raw.items():
        try:
            if not isinstance(value, Mapping):
                raise _BadError("", f"expected an object with a value, got {_name_of(value)}")
            amount = _optional_quantity(value, "value")
            policy = _child(value, "requestPolicy")
            capacity[name] = DeviceCapacity(
                amount if amount is not None else _quantity("0"),
                None if policy is None else _request_policy(policy),
            )
        except _BadError as error:
            raise error.below(f"capacity[{name}]") from None
    return capacity


def _request_policy(obj: Json) -> RequestPolicy:
    valid_range = _child(obj, "validRange")
    try:
        return RequestPolicy(
            default=_optional_quantity(obj, "default"),
            valid_values=tuple(_quantity_at(value) for value in _list(obj, "validValues")),
            valid_range=None
            if valid_range is None
            else ValidRange(
                _optional_quantity(valid_range, "min"),
                _optional_quantity(valid_range, "max"),
                _optional_quantity(valid_range, "step"),
            ),
        )
    except _BadError as error:
        raise error.below("requestPolicy") from None


def _consumption(obj: Json) -> CounterConsumption:
    return CounterConsumption(_text(obj, "counterSet"), _counters(obj), bool(obj.get("compatibilityGroups")))


def _counter_set(obj: Json) -> CounterSet:
    return CounterSet(_text(obj, "name"), _counters(obj))


def _counters(obj: Json) -> tuple[tuple[str, Quantity], ...]:
    counters = []
    for name, value in (_child(obj, "counters") or {}).items():
        try:
            amount = _optional_quantity(value, "value") if isinstance(value, Mapping) else None
            if amount is None:
                raise _BadError("value", "missing")
        except _BadError as error:
            raise error.below(f"counters[{name}]") from None
        counters.append((name, amount))
    return tuple(sorted(counters, key=lambda counter: counter[0]))


def _taint(obj: Json) -> Taint:
    return Taint(_text(obj, "key"), _text(obj, "value"), _text(obj, "effect"), _optional_text(obj, "timeAdded"))


def _shared_taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    if len(_taints) >= _SHARED_MAX:
        _taints.clear()
    return _taints.setdefault(taints, taints)


# --- classes and claims ---------------------------------------------------------------------------------


def _class(name: str, spec: Json) -> DeviceClass:
    return DeviceClass(
        name=name,
        selectors=_each(spec, "selectors", _selector),
        config=_each(spec, "config", _configuration),
        extended_resource_name=_optional_text(spec, "extendedResourceName"),
    )


def _selector(obj: Json) -> DeviceSelector:
    cel = _child(obj, "cel")
    return DeviceSelector(None if cel is None else _text(cel, "expression"))


def _configuration(obj: Json) -> Mapping[str, Any]:
    return {"opaque": obj["opaque"]} if obj.get("opaque") is not None else {}


def _claim_spec(spec: Json) -> ClaimSpec:
    devices = _child(spec, "devices") or {}
    try:
        return ClaimSpec(
            requests=_each(devices, "requests", _request),
            constraints=_each(devices, "constraints", _constraint),
            config=_each(devices, "config", _claim_config),
        )
    except _BadError as error:
        raise error.below("devices") from None


def _request(obj: Json) -> Request:
    name = _text(obj, "name")
    exactly = _child(obj, "exactly")
    if exactly is None and "deviceClassName" in obj:
        raise _BadError("deviceClassName", "resource.k8s.io/v1 has it below `exactly`; convert the object from v1beta1")
    try:
        alternative = None if exactly is None else _alternative(exactly, name)
    except _BadError as error:
        raise error.below("exactly") from None
    return Request(name, alternative, _each(obj, "firstAvailable", lambda sub: _alternative(sub, _text(sub, "name"))))


def _alternative(obj: Json, name: str) -> RequestAlternative:
    admin_access = obj.get("adminAccess")
    capacity = _child(obj, "capacity")
    capacity_requests = None
    if capacity is not None:
        requests = []
        for capacity_name, value in (_child(capacity, "requests") or {}).items():
            try:
                requests.append((capacity_name, _quantity_at(value)))
            except _BadError as error:
                raise error.below(f"capacity.requests[{capacity_name}]") from None
        capacity_requests = tuple(sorted(requests, key=lambda request: request[0]))
    return RequestAlternative(
        name=name,
        device_class_name=_text(obj, "deviceClassName"),
        selectors=_each(obj, "selectors", _selector),
        allocation_mode=_text(obj, "allocationMode"),
        count=_int(obj, "count"),
        admin_access=None if admin_access is None else _bool(obj, "adminAccess"),
        tolerations=_each(obj, "tolerations", _toleration),
        capacity_requests=capacity_requests,
        has_derived_attributes=bool(obj.get("derivedAttributes")),
    )


def _toleration(obj: Json) -> Toleration:
    seconds = obj.get("tolerationSeconds")
    return Toleration(
        _text(obj, "key"),
        _text(obj, "operator"),
        _text(obj, "value"),
        _text(obj, "effect"),
        None if seconds is None else _int(obj, "tolerationSeconds"),
    )


def _constraint(obj: Json) -> Constraint:
    return Constraint(
        _texts(obj, "requests"), _optional_text(obj, "matchAttribute"), _optional_text(obj, "distinctAttribute")
    )


def _claim_config(obj: Json) -> ClaimConfig:
    return ClaimConfig(_texts(obj, "requests"), _configuration(obj))


def _allocation(obj: Json) -> Allocation:
    devices = _child(obj, "devices") or {}
    selector = _child(obj, "nodeSelector")
    try:
        results = _each(devices, "results", _result)
        config = _each(devices, "config", _allocation_config)
    except _BadError as error:
        raise error.below("devices") from None
    try:
        node_selector = None if selector is None else _node_selector(selector)
    except _BadError as error:
        raise error.below("nodeSelector") from None
    return Allocation(results, config, node_selector, _optional_text(obj, "allocationTimestamp"))


def _result(obj: Json) -> DeviceResult:
    admin_access = obj.get("adminAccess")
    consumed = []
    for name, value in (_child(obj, "consumedCapacity") or {}).items():
        try:
            consumed.append((name, _quantity_at(value)))
        except _BadError as error:
            raise error.below(f"consumedCapacity[{name}]") from None
    return DeviceResult(
        request=_text(obj, "request"),
        driver=_text(obj, "driver"),
        pool=_text(obj, "pool"),
        device=_text(obj, "device"),
        admin_access=None if admin_access is None else _bool(obj, "adminAccess"),
        tolerations=_each(obj, "tolerations", _toleration),
        binding_conditions=_texts(obj, "bindingConditions"),
        binding_failure_conditions=_texts(obj, "bindingFailureConditions"),
        share_id=_optional_text(obj, "shareID"),
        consumed_capacity=tuple(sorted(consumed, key=lambda capacity: capacity[0])),
    )


def _allocation_config(obj: Json) -> AllocationConfig:
    return AllocationConfig(_text(obj, "source"), _texts(obj, "requests"), _configuration(obj))


# --- node selectors -------------------------------------------------------------------------------------


def _optional_node_selector(obj: Json) -> NodeSelector | None:
    selector = _child(obj, "nodeSelector")
    if selector is None:
        return None
    try:
        return _node_selector(selector)
    except _BadError as error:
        raise error.below("nodeSelector") from None


def _node_selector(obj: Json) -> NodeSelector:
    if not isinstance(obj, Mapping):
        raise _BadError("", f"expected an object, got {_name_of(obj)}")
    return NodeSelector(_each(obj, "nodeSelectorTerms", _node_selector_term))


def _node_selector_term(obj: Json) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        _each(obj, "matchExpressions", _node_selector_requirement),
        _each(obj, "matchFields", _node_selector_requirement),
    )


def _node_selector_requirement(obj: Json) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(_text(obj, "key"), _text(obj, "operator"), _texts(obj, "values"))


# --- JSON values ----------------------------------------------------------------------------------------

_TYPE_NAMES: Final[Mapping[type, str]] = {str: "a string", int: "an integer", bool: "true or false"}


def _name_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return f"{_TYPE_NAMES.get(type(value), type(value).__name__)} ({value!r})"


def _child(obj: Json, key: str) -> Json | None:
    value = obj.get(key)
    if value is not None and not isinstance(value, Mapping):
        raise _BadError(key, f"expected an object, got {_name_of(value)}")
    return value


def _list(obj: Json, key: str) -> Sequence[Any]:
    value = obj.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise _BadError(key, f"expected a list, got {_name_of(value)}")
    return value


def _each(obj: Json, key: str, read: Callable[[Json], T]) -> tuple[T, ...]:
    values = _list(obj, key)
    if not values:
        return ()
    result = []
    for index, value in enumerate(values):
        try:
            if not isinstance(value, Mapping):
                raise _BadError("", f"expected an object, got {_name_of(value)}")
            result.append(read(value))
        except _BadError as error:
            raise error.below(f"{key}[{index}]") from None
    return tuple(result)


def _text(obj: Json, key: str) -> str:
    value = obj.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _BadError(key, f"expected a string, got {_name_of(value)}")
    return value


def _optional_text(obj: Json, key: str) -> str | None:
    value = obj.get(key)
    if value is not None and not isinstance(value, str):
        # YAML reads an unquoted time stamp as a date; it means the text.
        if hasattr(value, "isoformat"):
            return str(value.isoformat())
        raise _BadError(key, f"expected a string, got {_name_of(value)}")
    return value


def _texts(obj: Json, key: str) -> tuple[str, ...]:
    values = _list(obj, key)
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise _BadError(f"{key}[{index}]", f"expected a string, got {_name_of(value)}")
    return tuple(values)


def _int(obj: Json, key: str) -> int:
    value = obj.get(key)
    if value is None:
        return 0
    if type(value) is not int:
        raise _BadError(key, f"expected an integer, got {_name_of(value)}")
    return value


def _bool(obj: Json, key: str) -> bool:
    value = obj.get(key)
    if value is None:
        return False
    if type(value) is not bool:
        raise _BadError(key, f"expected true or false, got {_name_of(value)}")
    return value


def _optional_quantity(obj: Json, key: str) -> Quantity | None:
    value = obj.get(key)
    if value is None:
        return None
    try:
        return _quantity_at(value)
    except _BadError as error:
        raise error.below(key) from None


def _quantity_at(value: Any) -> Quantity:
    if type(value) is str:
        return _quantity(value)
    # The API takes numbers, too, and YAML users write them: 2 and 0.5 mean "2" and "0.5".
    if type(value) in (int, float):
        return _quantity(str(value))
    raise _BadError("", f"expected a quantity like 10Gi, got {_name_of(value)}")


def _quantity(text: str) -> Quantity:
    known = _quantities.get(text)
    if known is None:
        try:
            known = Quantity.parse(text)
        except ValueError as error:
            raise _BadError("", f"{text!r} is not a quantity: {error}") from None
        if len(_quantities) >= _SHARED_MAX:
            _quantities.clear()
        _quantities[text] = known
    return known
