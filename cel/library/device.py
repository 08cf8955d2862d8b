"""Devices as expressions see them.

Rules of this module
  1. A view is built once per device and never changed; any number of selectors read it.
  2. A device with a value that no selector may see has a `problem` instead. Every selector fails on it with that
     text, even a selector that reads other attributes (as upstream).
  3. `attributes` and `capacity` map domain → id → value; an unknown domain reads as an empty map.

Not here: how attributes come from the API (`decode_attribute` takes the one field that is set).

Source: k8s.io/dynamic-resource-allocation cel/compile.go (`DeviceMatches`, `getAttributeValue`,
`parseQualifiedName`) v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cel.errors import EvaluationError
from cel.library.values import DefaultMap, Optional, TypeValue
from cel.quantity import Quantity
from cel.semver import Semver

UNSUPPORTED_VALUE: Final = "unsupported attribute value"
_SCALAR_CLASSES: Final = frozenset((bool, int, str, Semver))
_ATTRIBUTE_CLASSES: Final = _SCALAR_CLASSES | {list}


class UnsupportedAttribute:
    """Stands for an attribute value that no selector may see; `problem` says why, in upstream's words."""

    __slots__ = ("problem",)

    def __init__(self, problem: str = UNSUPPORTED_VALUE) -> None:
        self.problem: Final = problem

    def __eq__(self, other: object) -> bool:
        return self.problem == other.problem if isinstance(other, UnsupportedAttribute) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.problem)

    def __repr__(self) -> str:
        return f"UnsupportedAttribute({self.problem!r})"


class DeviceView:
    """One device.

    driver: the driver's name.
    problem: why no selector can be evaluated on this device, or None.
    fields: the CEL map `device`; lists are Python lists.
    """

    __slots__ = (
        "_attributes",
        "_capacity",
        "_driver",
        "_multiple",
        "driver",
        "fields",
        "problem",
    )

    def __init__(
        self,
        driver: str,
        attributes: DefaultMap,
        capacity: DefaultMap,
        allow_multiple_allocations: bool,
        problem: str | None,
    ) -> None:
        self.driver: Final = driver
        self.problem: Final = problem
        self.fields: Final[dict[str, Any]] = {
            "driver": driver,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": allow_multiple_allocations,
        }
        if problem is None:
            # What generated code reads. A device with a problem has none of it, so that code fails and the
            # exact evaluator says why.
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
            of these, or an `UnsupportedAttribute`.
        capacity: By published name.
        allow_multiple_allocations: As published.
    """
    problem = None
    by_domain = DefaultMap()
    for name, value in attributes.items():
        decoded = [*value] if isinstance(value, tuple) else value  # CEL lists are lists
        if decoded.__class__ not in _ATTRIBUTE_CLASSES or not _are_scalars(decoded):
            reason = decoded.problem if isinstance(decoded, UnsupportedAttribute) else UNSUPPORTED_VALUE
            # Go reports the first it meets in a map's random order; the first by name is as good.
            text = f"attribute {name}: {reason}"
            problem = text if problem is None or text < problem else problem
            continue
        _put(by_domain, driver, name, decoded)
    amounts = DefaultMap()
    for name, amount in capacity.items():
        _put(amounts, driver, name, amount)
    return DeviceView(driver, by_domain, amounts, allow_multiple_allocations, problem)


def partial_view(
    driver: str,
    attributes: Iterable[tuple[str, str, object]],
    capacity: Iterable[tuple[str, str, Quantity]],
    allow_multiple_allocations: bool = False,
) -> DeviceView:
    """The view of a device for expressions that read nothing but these values, each with its domain and name.

    Values are bool, int, str or Semver, and the device has no other that `device_view` would find a problem with.
    """
    by_domain, amounts = DefaultMap(), DefaultMap()
    for domain, name, value in attributes:
        by_domain.setdefault(domain, {})[name] = value
    for domain, name, amount in capacity:
        amounts.setdefault(domain, {})[name] = amount
    return DeviceView(driver, by_domain, amounts, allow_multiple_allocations, None)


def _are_scalars(value: object) -> bool:
    return not isinstance(value, list) or all(element.__class__ in _SCALAR_CLASSES for element in value)


def _put(by_domain: DefaultMap, driver: str, name: str, value: object) -> None:
    domain, slash, identifier = name.partition("/")
    if not slash:
        domain, identifier = driver, name
    inner = by_domain.get(domain)
    if inner is None:
        by_domain[domain] = {identifier: value}
    else:
        inner[identifier] = value


_LIST_FIELDS: Final = ("ints", "bools", "strings", "versions")
_SCALAR_FIELDS: Final = ("int", "bool", "string", "version")


def decode_attribute(fields: Mapping[str, Any], *, is_list_enabled: bool = True) -> object:
    """The value of an API attribute: of its fields the one that is set, lists before scalars.

    Args:
        fields: As in the API, `{"string": "A100"}`; None counts as not set.
        is_list_enabled: Whether list values may be read (1.36: gate DRAListTypeAttributes; 1.37: always).

    Returns:
        bool, int, str, Semver or a tuple of these, or an `UnsupportedAttribute`.
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
    return UnsupportedAttribute()


def _versions(texts: list[str]) -> tuple[Semver, ...] | UnsupportedAttribute:
    try:
        return tuple(map(Semver.parse, texts))
    except ValueError as error:
        return UnsupportedAttribute(f"parse semantic version: {error}")


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
