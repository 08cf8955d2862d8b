"""The rules of ResourceSlices, DeviceClasses and DeviceTaintRules: what their specs may be.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/resource/validation/validation.go.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from cel.quantity import Quantity
from scheduler.model.api_rules import (
    ADVANCED_DEVICES_MAX,
    ATTRIBUTE_VALUE_LENGTH_MAX,
    ATTRIBUTE_VALUES_MAX,
    ATTRIBUTES_AND_CAPACITIES_MAX,
    CONFIG_MAX,
    CONSUMPTIONS_MAX,
    COUNTER_SETS_MAX,
    COUNTERS_MAX,
    DEVICES_MAX,
    LIST_ATTRIBUTES,
    SCALAR_ATTRIBUTES,
    TAINTS_MAX,
    VALID_VALUES_MAX,
)
from scheduler.validation.api_fields import NEWEST
from scheduler.validation.device_rules import (
    check_binding_conditions,
    check_device_name,
    check_driver,
    check_items,
    check_map,
    check_node_selector,
    check_opaque_config,
    check_pool_name,
    check_qualified_id,
    check_selectors,
    check_set,
    check_taint,
    read_quantity,
)
from scheduler.validation.field_errors import (
    FieldError,
    Json,
    forbidden,
    invalid,
    not_found_value,
    required,
    too_long,
)
from scheduler.validation.name_rules import check_text, dns_subdomain, label_key
from scheduler.validation.refused_since_138 import SINCE, refused_devices

# Not cel.semver: the API server checks the text by this expression, which allows numbers that CEL cannot hold.
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_NODE_RESOURCES_136: Final = re.compile(r"cpu|memory|ephemeral-storage|hugepages-.+")
NODE_RESOURCES: Final = re.compile(r"cpu|memory|hugepages-.*")
_NODE_AMOUNTS: Final = ("capacityMultiplier", "deviceMultiplier", "perPod", "perContainer")


# -- slices ----------------------------------------------------------------------------------------


def validate_slice_spec(
    spec: Mapping[str, Json], old: Mapping[str, Json] | None, minor: int = NEWEST
) -> list[FieldError]:
    pool = spec.get("pool") or {}
    errors = check_driver(spec.get("driver"), "spec.driver")
    errors += check_pool_name(pool.get("name"), "spec.pool.name")
    if (pool.get("resourceSliceCount") or 0) <= 0:
        count = pool.get("resourceSliceCount") or 0
        errors.append(invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    if (pool.get("generation") or 0) < 0:
        errors.append(invalid("spec.pool.generation", pool["generation"], "must be greater than or equal to zero"))
    if old is not None:
        for path, new_value, old_value in (
            ("spec.pool.name", pool.get("name"), (old.get("pool") or {}).get("name")),
            ("spec.driver", spec.get("driver"), old.get("driver")),
            ("spec.nodeName", spec.get("nodeName"), old.get("nodeName")),
        ):
            if new_value != old_value:
                errors.append(invalid(path, new_value, "field is immutable"))
    errors += _check_slice_nodes(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        errors.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    per_device = bool(spec.get("perDeviceNodeSelection"))
    devices = spec.get("devices") or []
    limit = ADVANCED_DEVICES_MAX if any(map(_is_advanced, devices)) else DEVICES_MAX
    errors += check_set(
        devices,
        limit,
        lambda device, path: _check_device(device, path, per_device=per_device),
        lambda device: device.get("name", ""),
        "spec.devices",
    )
    errors += check_set(
        spec.get("sharedCounters") or (),
        COUNTER_SETS_MAX,
        _check_counter_set,
        lambda counters: counters.get("name", ""),
        "spec.sharedCounters",
    )
    return [*errors, *(refused_devices(spec, old) if minor >= SINCE else ())]


def _is_advanced(device: Mapping[str, Json]) -> bool:
    return bool(
        device.get("taints")
        or device.get("consumesCounters")
        or any(
            attribute.get(member) is not None
            for attribute in (device.get("attributes") or {}).values()
            for member in LIST_ATTRIBUTES
        )
    )


def _check_slice_nodes(spec: Mapping[str, Json]) -> list[FieldError]:
    errors, named = _check_node_choice(spec, "spec", "must be either unset or set to a non-empty string")
    selector = spec.get("nodeSelector")
    if selector is not None and len(selector.get("nodeSelectorTerms") or ()) != 1:
        errors.append(
            invalid(
                "spec.nodeSelector.nodeSelectorTerms",
                selector.get("nodeSelectorTerms"),
                "must have exactly one node selector term",
            )
        )
    if spec.get("perDeviceNodeSelection") is not None:
        if spec["perDeviceNodeSelection"]:
            named.append("`perDeviceNodeSelection`")
        else:
            errors.append(invalid("spec.perDeviceNodeSelection", False, "must be either unset or set to true"))
    wanted = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not named:
        errors.append(required("spec", wanted))
    elif len(named) > 1:
        errors.append(invalid("spec", f"{{{', '.join(named)}}}", f"{wanted}, but multiple fields are set"))
    return errors


def _check_node_choice(holder: Mapping[str, Json], path: str, empty_text: str) -> tuple[list[FieldError], list[str]]:
    """nodeName, nodeSelector, allNodes: errors, and which of them are set."""
    errors: list[FieldError] = []
    named: list[str] = []
    node = holder.get("nodeName")
    if node is not None:
        if node:
            named.append("`nodeName`")
            errors += check_text(dns_subdomain, node, f"{path}.nodeName")
        else:
            errors.append(invalid(f"{path}.nodeName", node, empty_text))
    if holder.get("nodeSelector") is not None:
        named.append("`nodeSelector`")
        errors += check_node_selector(holder["nodeSelector"], f"{path}.nodeSelector")
    if holder.get("allNodes") is not None:
        if holder["allNodes"]:
            named.append("`allNodes`")
        else:
            errors.append(invalid(f"{path}.allNodes", False, "must be either unset or set to true"))
    return errors, named


def _check_counter_set(counters: Json, path: str) -> list[FieldError]:
    name = counters.get("name")
    errors = check_device_name(name, f"{path}.name") if name else [required(f"{path}.name")]
    return errors + _check_counters(counters.get("counters") or {}, f"{path}.counters")


def _check_counters(counters: Mapping[str, Json], path: str) -> list[FieldError]:
    if not counters:
        return [required(path)]
    return check_map(counters, COUNTERS_MAX, check_device_name, lambda counter, at: [], path)


# -- devices ---------------------------------------------------------------------------------------


def _check_device(device: Json, path: str, *, per_device: bool) -> list[FieldError]:
    errors = check_device_name(device.get("name"), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    errors += _check_sizes(attributes, capacity, path)
    errors += check_map(attributes, None, check_qualified_id, _check_attribute, f"{path}.attributes")
    is_shared = bool(device.get("allowMultipleAllocations"))
    check_capacity: Callable[[Json, str], list[FieldError]] = (
        _check_shared_capacity if is_shared else _check_dedicated_capacity
    )
    errors += check_map(capacity, None, check_qualified_id, check_capacity, f"{path}.capacity")
    errors += check_items(device.get("taints") or (), TAINTS_MAX, check_taint, f"{path}.taints")
    errors += check_set(
        device.get("consumesCounters") or (),
        CONSUMPTIONS_MAX,
        _check_consumption,
        lambda entry: entry.get("counterSet", ""),
        f"{path}.consumesCounters",
    )
    errors += _check_device_nodes(device, path, per_device=per_device)
    errors += check_binding_conditions(device, path)
    mappings = device.get("nodeAllocatableResourceMappings") or {}
    errors += _check_mappings_136(mappings, capacity, f"{path}.nodeAllocatableResourceMappings")
    resources = device.get("nodeAllocatableResources") or {}
    return errors + _check_node_resources(resources, capacity, f"{path}.nodeAllocatableResources")


def _check_sizes(attributes: Mapping[str, Json], capacity: Mapping[str, Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    entries = len(attributes) + len(capacity)
    if entries > ATTRIBUTES_AND_CAPACITIES_MAX:
        detail = f"the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES_MAX}"
        errors.append(invalid(path, entries, detail))
    values = sum(
        sum(len(attribute.get(member) or ()) for member in LIST_ATTRIBUTES) or 1 for attribute in attributes.values()
    )
    if values > ATTRIBUTE_VALUES_MAX:
        detail = f"the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX}"
        errors.append(invalid(path, values, detail))
    return errors


def _check_attribute(attribute: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if attribute.get("string") is not None:
        errors += _check_string(attribute["string"], f"{path}.string")
    if attribute.get("version") is not None:
        errors += _check_version(attribute["version"], f"{path}.version")
    for member in LIST_ATTRIBUTES:
        values = attribute.get(member)
        if values is None:
            continue
        if not values:
            errors.append(invalid(f"{path}.{member}", values, "must not be empty if specified"))
        check = {"strings": _check_string, "versions": _check_version}.get(member)
        if check is not None:
            errors += check_items(values, None, check, f"{path}.{member}")
    named = [member for member in (*SCALAR_ATTRIBUTES, *LIST_ATTRIBUTES) if attribute.get(member) is not None]
    if len(named) != 1:
        errors.append(invalid(path, attribute if named else "", "exactly one value must be specified"))
    return errors


def _check_string(value: Json, path: str) -> list[FieldError]:
    is_long = len(value.encode()) > ATTRIBUTE_VALUE_LENGTH_MAX
    return [too_long(path, ATTRIBUTE_VALUE_LENGTH_MAX)] if is_long else []


def _check_version(value: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not _SEMVER.fullmatch(value):
        errors.append(invalid(path, value, "must be a string compatible with semver.org spec 2.0.0"))
    return errors + _check_string(value, path)


def _check_consumption(entry: Json, path: str) -> list[FieldError]:
    name = entry.get("counterSet")
    errors = check_device_name(name, f"{path}.counterSet") if name else [required(f"{path}.counterSet")]
    return errors + _check_counters(entry.get("counters") or {}, f"{path}.counters")


def _check_device_nodes(device: Mapping[str, Json], path: str, *, per_device: bool) -> list[FieldError]:
    if not per_device:
        if any(device.get(field) is not None for field in ("nodeName", "nodeSelector", "allNodes")):
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
                "in the ResourceSlice spec"
            )
            return [invalid(path, None, detail)]
        return []
    errors, named = _check_node_choice(device, path, "must not be empty")
    detail = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
        "true in the ResourceSlice spec"
    )
    if not named:
        errors.append(required(path, detail))
    elif len(named) > 1:
        errors.append(invalid(path, f"{{{', '.join(named)}}}", detail))
    return errors


def _check_node_resources(resources: Mapping[str, Json], capacity: Mapping[str, Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in sorted(resources):
        where, said = f"{path}[{name}]", resources[name] or {}
        if not NODE_RESOURCES.fullmatch(name):
            errors.append(invalid(where, name, "must be a node allocatable resource name"))
        mapping, overhead = said.get("mapping"), said.get("overhead")
        if mapping is None and overhead is None:
            errors.append(required(where, "at least one of mapping or overhead must be set"))
        if mapping is not None:
            errors += _check_mapping(mapping, capacity, f"{where}.mapping")
        if overhead is not None:
            errors += check_overhead(overhead, f"{where}.overhead")
    return errors


def _check_mapping(mapping: Mapping[str, Json], capacity: Mapping[str, Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    key, multiplier = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    if key == "":
        errors.append(invalid(f"{path}.capacityKey", "", "capacityKey must not be an empty string"))
    elif key is not None and key not in capacity:
        errors.append(not_found_value(f"{path}.capacityKey", key))
    if key is not None and multiplier is None:
        detail = "capacityMultiplier is required when capacityKey is set"
        errors.append(required(f"{path}.capacityMultiplier", detail))
    for field, amount in (("capacityMultiplier", multiplier), ("deviceMultiplier", mapping.get("deviceMultiplier"))):
        # Without capacityKey the API server looks at no capacityMultiplier.
        if (
            amount is not None
            and (field != "capacityMultiplier" or key is not None)
            and read_quantity(amount).sign() <= 0
        ):
            errors.append(invalid(f"{path}.{field}", amount, "must be positive"))
    if multiplier is not None and key is None:
        errors.append(required(f"{path}.capacityKey", "capacityKey is required when capacityMultiplier is set"))
    return errors


def check_overhead(overhead: Mapping[str, Json], path: str) -> list[FieldError]:
    """What devices, or a pod's claims, take for each pod and each container (1.37)."""
    amounts = [(field, overhead.get(field)) for field in ("perPod", "perContainer")]
    if all(amount is None for _, amount in amounts):
        return [invalid(path, "", "at least one of perPod or perContainer must be set")]
    return [
        invalid(f"{path}.{field}", amount, "must be non-negative")
        for field, amount in amounts
        if amount is not None and read_quantity(amount).sign() < 0
    ]


def _check_mappings_136(mappings: Mapping[str, Json], capacity: Mapping[str, Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in sorted(mappings):
        where, mapping = f"{path}[{name}]", mappings[name]
        if not _NODE_RESOURCES_136.fullmatch(name):
            errors.append(invalid(where, name, "must be a node allocatable resource name"))
        if read_quantity(mapping.get("allocationMultiplier", "1")).sign() <= 0:
            errors.append(
                invalid(f"{where}.allocationMultiplier", mapping.get("allocationMultiplier"), "must be positive")
            )
        key = mapping.get("capacityKey")
        if key == "":
            errors.append(invalid(f"{where}.capacityKey", "", "capacityKey must not be an empty string"))
        elif key is not None and key not in capacity:
            errors.append(not_found_value(f"{where}.capacityKey", key))
    return errors


# -- capacity --------------------------------------------------------------------------------------


def quantities_of(spec: Mapping[str, Json]) -> Iterator[Json]:
    """Whatever is a quantity in a slice."""
    devices = spec.get("devices") or ()
    for holder in (*(spec.get("sharedCounters") or ()), *(c for d in devices for c in d.get("consumesCounters") or ())):
        yield from ((counter or {}).get("value") for counter in (holder.get("counters") or {}).values())
    for device in devices:
        for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
            yield mapping.get("allocationMultiplier")
        for said in (device.get("nodeAllocatableResources") or {}).values():
            for part in filter(None, (said.get("mapping"), said.get("overhead"))):
                yield from (part.get(field) for field in _NODE_AMOUNTS)
        for capacity in (device.get("capacity") or {}).values():
            yield capacity.get("value")
            if policy := capacity.get("requestPolicy"):
                yield from (policy.get("default"), *(policy.get("validValues") or ()))
                yield from ((policy.get("validRange") or {}).get(field) for field in ("min", "max", "step"))


def _check_dedicated_capacity(capacity: Json, path: str) -> list[FieldError]:
    is_sound = capacity.get("requestPolicy") is None
    return [] if is_sound else [forbidden(f"{path}.requestPolicy", "allowMultipleAllocations must be true")]


def _check_shared_capacity(capacity: Json, path: str) -> list[FieldError]:
    policy = capacity.get("requestPolicy") or {}
    where = f"{path}.requestPolicy"
    values, valid_range = policy.get("validValues") or [], policy.get("validRange")
    if values and valid_range is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden(where, detail)]
    if not values and valid_range is None:
        return []
    if policy.get("default") is None:
        return [required(f"{where}.default", f"required when {'validValues' if values else 'validRange'} is defined")]
    default, maximum = read_quantity(policy["default"]), read_quantity(capacity.get("value"))
    if valid_range is None:
        return _check_valid_values(default, maximum, [read_quantity(value) for value in values], f"{where}.validValues")
    return _check_valid_range(default, maximum, valid_range, f"{where}.validRange")


def _check_valid_values(default: Quantity, maximum: Quantity, values: list[Quantity], path: str) -> list[FieldError]:
    errors = [
        invalid(f"{path}[{index}]", str(value), "values must be sorted in ascending order")
        for index, value in enumerate(values)
        if index and values[index - 1] > value
    ]

    def check_value(value: Quantity, at: str) -> list[FieldError]:
        text = f"option is larger than capacity value: {maximum}"
        return [invalid(at, str(value), text)] if value > maximum else []

    errors += check_set(values, VALID_VALUES_MAX, check_value, lambda value: str(value.ceil_int()), path)
    if len(values) > VALID_VALUES_MAX or all(value.compare_to(default) != 0 for value in values):
        errors.append(invalid(path, str(default), "default value is not valid according to the requestPolicy"))
    return errors


def _check_valid_range(
    default: Quantity, maximum: Quantity, valid_range: Mapping[str, Json], path: str
) -> list[FieldError]:
    if valid_range.get("min") is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    errors: list[FieldError] = []
    low = read_quantity(valid_range["min"])
    high = None if valid_range.get("max") is None else read_quantity(valid_range["max"])
    if low > maximum:
        errors.append(invalid(f"{path}.min", str(low), f"min is larger than capacity value: {maximum}"))
    if default < low:
        errors.append(invalid(f"{path}.default", str(default), f"default is less than min: {low}"))
    if high is not None:
        if low > high:
            errors.append(invalid(f"{path}.max", str(low), f"min is larger than max: {high}"))
        if high > maximum:
            errors.append(invalid(f"{path}.max", str(high), f"max is larger than capacity value: {maximum}"))
        if default > high:
            errors.append(invalid(f"{path}.max", str(default), f"default is more than max: {high}"))
    if valid_range.get("step") is not None:
        step = read_quantity(valid_range["step"])
        first = low.add(step)
        if first > maximum:
            text = f"one step {first} is larger than capacity value: {maximum}"
            errors.append(invalid(f"{path}.step", str(step), text))
        for value in (default,) if high is None else (default, high):
            # The real server divides by a step of 0 and falls; here it is a step that no value is a multiple of.
            if step.ceil_int() == 0 or (value.ceil_int() - low.ceil_int()) % step.ceil_int() != 0:
                text = f"value is not a multiple of a given step ({step}) from ({low})"
                errors.append(invalid(f"{path}.step", str(value), text))
    return errors


# -- classes ---------------------------------------------------------------------------------------


def validate_class_spec(spec: Mapping[str, Json], old: Mapping[str, Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    # Unchanged selectors are stored expressions: they are not compiled again.
    if spec.get("selectors") != old.get("selectors"):
        errors += check_selectors(spec.get("selectors"), "spec.selectors")
    errors += check_items(spec.get("config") or (), CONFIG_MAX, check_opaque_config, "spec.config")
    extended = spec.get("extendedResourceName")
    if extended is not None and not _is_extended_resource(extended):
        errors.append(invalid("spec.extendedResourceName", extended, "must be a valid extended resource name"))
    return errors


def _is_extended_resource(name: str) -> bool:
    is_native = "/" not in name or "kubernetes.io/" in name
    return not is_native and not name.startswith("requests.") and not label_key(f"requests.{name}")


# -- taint rules -----------------------------------------------------------------------------------


def warnings_of_rule(spec: Mapping[str, Json]) -> list[str]:
    """What 1.38 says of a DeviceTaintRule whose selector says nothing; one without a selector taints no device."""
    selector = spec.get("deviceSelector")
    if selector is None or any(selector.get(field) is not None for field in ("driver", "pool", "device")):
        return []
    return ["spec.deviceSelector: an empty selector matches every device from every driver in the cluster"]


def validate_rule_spec(spec: Mapping[str, Json]) -> list[FieldError]:
    """The spec of a DeviceTaintRule."""
    selector = spec.get("deviceSelector") or {}
    errors: list[FieldError] = []
    for field, check in (("driver", check_driver), ("pool", check_pool_name), ("device", check_device_name)):
        if selector.get(field) is not None:
            errors += check(selector[field], f"spec.deviceSelector.{field}")
    return errors + check_taint(spec.get("taint") or {}, "spec.taint")
