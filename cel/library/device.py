"""Devices as expressions see them.

Rules of this module
  1. A view is built once per device and never changed; any number of selectors read it.
  2. A value that nobody can read fails the expressions that ask for it, and no others (as 1.38, whatever the release).
  3. `attributes` and `capacity` map domain → id → value; an unknown domain reads as an empty map.

Not here: how attributes come from the API (`decode_attribute` takes the one field that is set).

Source: k8s.io/dynamic-resource-allocation cel/compile.go (`DeviceMatches`, `getAttributeValue`,
`parseQualifiedName`) v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cel.errors import EvaluationError
from cel.library.values import DefaultMap, Optional, PartlyRead, TypeValue
from cel.quantity import Quantity
from cel.semver import Semver

UNREADABLE: Final = object()
"""Stands for the value of an attribute that nobody can read: of a newer kind, or a version that is none."""


class DeviceView:
    """One device.

    driver: the driver's name.
    fields: the CEL map `device`; lists are Python lists. The rest is what generated code reads of it.
    """

    __slots__ = ("_attributes", "_capacity", "_driver", "_multiple", "driver", "fields")

    def __init__(
        self, driver: str, attributes: DefaultMap, capacity: DefaultMap, allow_multiple_allocations: bool
    ) -> None:
        self.driver: Final = driver
        self.fields: Final[dict[str, Any]] = {
            "driver": driver,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": allow_multiple_allocations,
        }
        self._driver: Final = driver
        self._attributes: Final = attributes
        self._capacity: Final = capacity
        self._multiple: Final = allow_multiple_allocations


def device_view(
    driver: str,
    attributes: Mapping[str, object],
    capacity: Mapping[str, Quantity],
    allow_multiple_allocations: bool = False,
) -> DeviceView:
    """The view of a device.

    Args:
        driver: Name of the driver; also the domain of names without one.
        attributes: By published name (`model` or `domain/model`): bool, int, str, Semver, a tuple or list
            of these, or UNREADABLE.
        capacity: By published name.
        allow_multiple_allocations: As published.
    """
    return partial_view(
        driver,
        [(*_split(driver, name), value) for name, value in attributes.items()],
        [(*_split(driver, name), amount) for name, amount in capacity.items()],
        allow_multiple_allocations,
    )


def partial_view(
    driver: str,
    attributes: Iterable[tuple[str, str, object]],
    capacity: Iterable[tuple[str, str, Quantity]],
    allow_multiple_allocations: bool = False,
) -> DeviceView:
    """The view of a device for expressions that read nothing but these values, each with its domain and name."""
    by_domain, amounts = DefaultMap(), DefaultMap()
    for domain, name, value in attributes:
        inner = by_domain.setdefault(domain, {})
        if value is UNREADABLE:
            if inner.__class__ is dict:
                inner = by_domain[domain] = PartlyRead(inner)
            inner.pop(name, None)
            inner.hidden.add(name)
            continue
        inner[name] = [*value] if isinstance(value, tuple) else value  # CEL lists are lists
        if inner.__class__ is PartlyRead:
            inner.hidden.discard(name)
    for domain, name, amount in capacity:
        amounts.setdefault(domain, {})[name] = amount
    return DeviceView(driver, by_domain, amounts, allow_multiple_allocations)


def _split(driver: str, name: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


_LIST_FIELDS: Final = ("ints", "bools", "strings", "versions")
_SCALAR_FIELDS: Final = ("int", "bool", "string", "version")


def decode_attribute(fields: Mapping[str, Any], *, is_list_enabled: bool = True) -> object:
    """The value of an API attribute: of its fields the one that is set, lists before scalars.

    Args:
        fields: As in the API, `{"string": "A100"}`; None counts as not set.
        is_list_enabled: Whether list values may be read (1.36: gate DRAListTypeAttributes; 1.37: always).

    Returns:
        bool, int, str, Semver or a tuple of these, or UNREADABLE.
    """
    if is_list_enabled:
        for name in _LIST_FIELDS:
            values = fields.get(name)
            if values is None:
                continue
            if name != "versions":
                return tuple(values)
            return _versions(values)
    for name in _SCALAR_FIELDS:
        value = fields.get(name)
        if value is None:
            continue
        if name != "version":
            return value
        versions = _versions([value])
        return versions[0] if isinstance(versions, tuple) else versions
    return UNREADABLE


def _versions(texts: list[str]) -> object:
    try:
        return tuple(map(Semver.parse, texts))
    except ValueError:
        return UNREADABLE


_KINDS: Final = {bool: "bool", int: "int", str: "string", Semver: "version"}
_GO_TYPES: Final = {
    "bool": "bool",
    "int": "int64",
    "str": "string",
    "Semver": "semver.Version",
    "UInt": "uint64",
    "float": "float64",
    "bytes": "[]uint8",
    "list": "[]ref.Val",
    "dict": "map[ref.Val]ref.Val",
    "DefaultMap": "map[string]interface {}",
    "NoneType": "structpb.NullValue",
    "Optional": "<nil>",
    "Quantity": "*resource.Quantity",
    "Duration": "time.Duration",
    "Timestamp": "time.Time",
    "URL": "*url.URL",
    "IP": "netip.Addr",
    "CIDR": "netip.Prefix",
    "Format": "cel.Format",
}
"""Go's types of what expressions give, by the name of ours; for error messages."""
_ELEMENTS: Final = {"int": "int", "bool": "bool", "string": "string", "version": "semver"}


def attribute_of(value: object) -> tuple[str, object]:
    """What an expression gave, as an attribute: the API's field, and its value; texts for versions, tuples for lists.

    Raises:
        EvaluationError: no attribute has such a value; in upstream's words.

    Source: `valToDeviceAttribute` of cel/compile.go v0.37.2.
    """
    value = _inner(value)
    if not isinstance(value, list):
        kind = _KINDS.get(value.__class__)
        if kind is None:
            raise EvaluationError(f"unsupported CEL return type: {_go_type(value)}")
        return kind, _plain(value)
    elements = [*map(_inner, value)]
    if not elements:
        return "strings", ()
    kind = _KINDS.get(elements[0].__class__)
    if kind is None:
        raise EvaluationError(f"unsupported list element type: {_go_type(elements[0])}")
    for index, element in enumerate(elements):
        if _KINDS.get(element.__class__) != kind:
            raise EvaluationError(
                f"expected list element at index {index} to be {_ELEMENTS[kind]}, got {_go_type(element)}"
            )
    return f"{kind}s", tuple(map(_plain, elements))


def _inner(value: object) -> object:
    """What Go's `Value()` gives: an optional's value, a type's name."""
    while isinstance(value, Optional) and value.has_value:
        value = value.value
    return value.name if isinstance(value, TypeValue) else value


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Semver) else value


def _go_type(value: object) -> str:
    name = type(value).__name__
    return _GO_TYPES.get(name, name)
