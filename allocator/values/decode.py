"""ResourceSlices from API JSON.

Input is what a JSON or YAML parser gives: mappings, lists, strings, ints, bools, None. A null means the
same as an absent field, a wrong type is a `DecodeError` that names the object and the field. Limits are the API
server's business and not checked.

A field that is neither read nor harmless (a newer API server may send it) makes its device `unread`, one outside of the
devices all devices of the slice: they are there and counted, and given to nobody.

Cost: about 5 us a device. Attribute values and capacities that are equal are shared, because fleets repeat
them: 80,000 devices must fit into a gigabyte.

Not here: classes and claims (`decode_claims`), node selectors (`decode_node_selector`), JSON (`encode`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from allocator.values.decode_node_selector import read_node_selector
from allocator.values.json_fields import (
    BOOL,
    INT,
    OBJECT,
    OPTIONAL_BOOL,
    OPTIONAL_TEXT,
    QUANTITY,
    SHARED_MAX,
    TEXT,
    TEXTS,
    Field,
    FieldError,
    Json,
    Read,
    UnreadFieldError,
    check_object,
    decode_object,
    entries,
    fields,
    like,
    many,
    name_of,
    quantity,
    quantity_at,
    read_entries,
    record,
    without_unread,
)
from allocator.values.model import (
    Attribute,
    AttributeKind,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceId,
    DeviceTaint,
    RequestPolicy,
    ResourceSlice,
    ValidRange,
)
from cel.quantity import Quantity

_UNKNOWN: Final = Attribute("unknown", None)
_NO_ATTRIBUTES: Final[Mapping[str, Attribute]] = {}
_NO_CAPACITY: Final[Mapping[str, DeviceCapacity]] = {}

_attributes: Final[dict[tuple[str, Any], Attribute]] = {}
_capacities: Final[dict[tuple[Any, ...], Mapping[str, DeviceCapacity]]] = {}

_KINDS: Final[Mapping[AttributeKind, Read[Any]]] = {
    "string": TEXT.read,
    "int": INT.read,
    "bool": BOOL.read,
    "version": TEXT.read,
    "ints": many(INT.read).read,
    "bools": many(BOOL.read).read,
    "strings": TEXTS.read,
    "versions": TEXTS.read,
}


def decode_slice(obj: Json) -> ResourceSlice:
    """Read a ResourceSlice (`resource.k8s.io/v1`).

    Raises:
        DecodeError: names the slice and the field.
    """
    return decode_object("ResourceSlice", obj, _slice)


def _slice(name: str, spec: Json) -> ResourceSlice:
    unread: tuple[str, ...] = ()
    try:
        values = _slice_fields(spec)
    except UnreadFieldError:
        spec, unread = without_unread(_slice_fields, spec)
        values, unread = _slice_fields(spec), tuple([f"spec.{path}" for path in unread])
    driver, (pool, generation, slices), devices, shared_counters, skip_node_operations, *selection = values
    if unread:
        devices = [(*device[:-1], (*unread, *device[-1])) for device in devices]
    node_name, node_selector, all_nodes, per_device = selection
    return ResourceSlice(
        name,
        driver,
        pool,
        generation,
        slices,
        node_name,
        node_selector,
        all_nodes,
        per_device,
        tuple([Device(DeviceId(driver, pool, device), attributes, *others) for device, attributes, *others in devices]),
        shared_counters,
        skip_node_operations,
        unread,
    )


def _device_values(obj: Any) -> list[Any]:
    """The fields of a device, and the paths of those in it that are not read."""
    unread: tuple[str, ...] = ()
    try:
        values = _device_fields(obj)
    except UnreadFieldError:
        if "basic" in obj:
            raise FieldError("basic", "resource.k8s.io/v1 has no such field; convert the object from v1beta1") from None
        known, unread = without_unread(_device_fields, obj)
        values = _device_fields(known)
    if below_zero := _below_zero(values):
        # Somebody may hold it all the same: then it takes nothing, and makes no room for others.
        values[4] = tuple(
            [
                one._replace(counters=tuple([(name, max(amount, _ZERO)) for name, amount in one.counters]))
                for one in values[4]
            ]
        )
    values.append(unread + below_zero)
    return values


def _below_zero(values: list[Any]) -> tuple[str, ...]:
    """Amounts that would make room where there is none; nobody is given such a device."""
    paths: tuple[str, ...] = ()
    for name, one in values[2].items():
        if one.value.nano < 0:
            paths += (f"capacity[{name}].value below zero",)
    for place, consumption in enumerate(values[4]):
        for name, amount in consumption.counters:
            if amount.nano < 0:
                paths += (f"consumesCounters[{place}].counters[{name}].value below zero",)
    return paths


def _attributes_of(raw: Json) -> Mapping[str, Attribute]:
    """The attributes; equal scalars are shared."""
    check_object(raw)
    attributes: dict[str, Attribute] = {}
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
            attributes[name] = _attribute(value)
        except FieldError as error:
            raise error.below(f"[{name}]") from None
    return attributes


def _attribute(obj: Any) -> Attribute:
    if obj is None:
        return _UNKNOWN
    if not isinstance(obj, Mapping):
        raise FieldError("", f"expected an object like {{string: value}}, got {name_of(obj)}")
    for kind, read in _KINDS.items():
        content = obj.get(kind)
        if content is None:
            continue
        try:
            attribute = Attribute(kind, read(content))
        except FieldError as error:
            raise error.below(kind) from None
        if attribute.value == ():
            continue  # an empty list is as good as none
        return attribute if isinstance(attribute.value, tuple) else _share_attribute(attribute)
    return _UNKNOWN


def _share_attribute(attribute: Attribute) -> Attribute:
    if len(_attributes) >= SHARED_MAX:
        _attributes.clear()
    return _attributes.setdefault((attribute.kind, attribute.value), attribute)


def _counter(obj: Any) -> Quantity:
    (amount,) = _counter_fields(obj)
    if amount is None:
        raise FieldError("value", "missing")
    return cast(Quantity, amount)


def _shared_capacity(raw: Any) -> Mapping[str, DeviceCapacity]:
    """One object for devices whose capacities are written alike, so that what a request takes is worked out once."""
    capacity = read_entries(raw, _capacity)
    # By identity: quantities of one text are one object, and those of equal value may be written in two ways.
    key = tuple([(name, id(one.value), _policy_key(one.policy)) for name, one in capacity.items()])
    if len(_capacities) >= SHARED_MAX:
        _capacities.clear()
    return _capacities.setdefault(key, capacity)


def _policy_key(policy: RequestPolicy | None) -> tuple[int, ...]:
    if policy is None:
        return ()
    valid = policy.valid_range
    among = (id(valid.min), id(valid.max), id(valid.step)) if valid is not None else ()
    return id(policy.default), len(among), *among, *map(id, policy.valid_values)


_ZERO: Final = quantity("0")
_counter_fields: Final = fields(value=QUANTITY)
_counters: Final = entries(like(_counter_fields, _counter))
_range: Final = record(ValidRange, min=QUANTITY, max=QUANTITY, step=QUANTITY)
_policy: Final = record(RequestPolicy, default=QUANTITY, valid_values=many(quantity_at), valid_range=Field(_range))
_capacity: Final = record(
    DeviceCapacity, value=QUANTITY._replace(absent=_ZERO), policy=Field(_policy, name="requestPolicy")
)
_consumption: Final = record(
    CounterConsumption,
    counter_set=TEXT,
    counters=_counters,
    groups=TEXTS._replace(name="compatibilityGroups"),
)
_read_capacity: Final = like(entries(_capacity).read, _shared_capacity)
_device_fields: Final = fields(
    name=TEXT,
    attributes=Field(_attributes_of, _NO_ATTRIBUTES),
    capacity=Field(_read_capacity, _NO_CAPACITY),
    allow_multiple_allocations=BOOL,
    consumes_counters=many(_consumption),
    node_name=OPTIONAL_TEXT,
    node_selector=Field(read_node_selector),
    all_nodes=BOOL,
    taints=many(record(DeviceTaint, key=TEXT, value=TEXT, effect=TEXT, time_added=OPTIONAL_TEXT)),
    binds_to_node=BOOL,
    binding_conditions=TEXTS._replace(absent=None),
    binding_failure_conditions=TEXTS._replace(absent=None),
    node_allocatable_resource_mappings=OBJECT,
    node_allocatable_resources=OBJECT,
)
_slice_fields: Final = fields(
    # It says how to summarize partitions by type; what may be given out does not depend on it (KEP-5677).
    harmless=frozenset(("partitionTypeAttribute",)),
    driver=TEXT,
    pool=Field(fields(name=TEXT, generation=INT, resource_slice_count=INT), ("", 0, 0)),
    devices=many(_device_values),
    shared_counters=many(record(CounterSet, name=TEXT, counters=_counters)),
    skip_node_operations=TEXTS,
    node_name=OPTIONAL_TEXT,
    node_selector=Field(read_node_selector),
    all_nodes=BOOL,
    per_device_node_selection=OPTIONAL_BOOL,
)
