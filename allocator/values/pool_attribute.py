"""Values of one attribute in one pool: as its devices publish it, or as an expression gives it.

Values are scalars, unless DRAListTypeAttributes is on: then a device has a set of elements. From 1.38 on versions are
compared without their build, and what cannot be compared is an error for those who need it, before it was a value that
is like no other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeAlias

from allocator.values.features import Features
from allocator.values.model import Attribute, Device
from cel import Semver

Value: TypeAlias = Hashable
"""(kind, value) of a scalar or list element."""

NOTHING: Final[frozenset[Value]] = frozenset()
_SCALAR_KINDS: Final = ("string", "int", "bool", "version")
_KIND_OF_LIST: Final = {"strings": "string", "ints": "int", "bools": "bool", "versions": "version"}


def lookup_attribute(device: Device, name: str) -> Attribute | None:
    """A device's attribute by fully qualified name; the driver's own domain may be left out by the driver."""
    attribute = device.attributes.get(name)
    if attribute is not None:
        return attribute
    domain, slash, bare = name.partition("/")
    if not slash or domain != device.id.driver:
        return None
    return device.attributes.get(bare)


class PoolAttribute:
    """Values of one attribute in one pool: of the devices that were noted.

    Attributes:
        failed: Devices for which an expression should give the value, and fails; from 1.38 on also those whose value
            cannot be compared.
    """

    __slots__ = ("_features", "failed", "masks", "present", "unknown", "values")

    def __init__(self, features: Features) -> None:
        self._features: Final = features
        self.values: Final[dict[int, frozenset[Value]]] = {}
        self.masks: Final[dict[Value, int]] = {}
        self.present = 0
        self.unknown = 0
        self.failed = 0

    def note(self, index: int, attribute: Attribute) -> None:
        """The device with this index has the attribute."""
        bit = 1 << index
        values = _values(attribute, self._features)
        if not values and self._features.has_138_semantics:
            self.failed |= bit
            return
        self.present |= bit
        if not values:
            self.unknown |= bit
            return
        self.values[index] = values
        for value in values:
            self.masks[value] = self.masks.get(value, 0) | bit


def published(devices: Iterable[Device], name: str, features: Features) -> PoolAttribute:
    """What the devices of a pool say for themselves."""
    found = PoolAttribute(features)
    for index, device in enumerate(devices):
        attribute = lookup_attribute(device, name)
        if attribute is not None:
            found.note(index, attribute)
    return found


def _values(attribute: Attribute, features: Features) -> frozenset[Value]:
    kind: str = attribute.kind
    elements: tuple[object, ...] = (attribute.value,)
    if kind not in _SCALAR_KINDS:
        listed = attribute.value if features.list_type_attributes else None
        kind = _KIND_OF_LIST.get(kind, "")
        if not kind or not isinstance(listed, tuple):
            return NOTHING
        elements = listed
    if kind == "version" and features.has_138_semantics:
        return _versions([str(text) for text in elements])
    return frozenset((kind, element) for element in elements)


def _versions(texts: Sequence[str]) -> frozenset[Value]:
    """Without their builds; none where one of them is no version."""
    try:
        for text in texts:
            Semver.parse(text)
    except ValueError:
        return NOTHING
    return frozenset(("version", text.partition("+")[0]) for text in texts)
