"""Values of one attribute in one pool: as its devices publish it, or as an expression gives it.

Values are scalars, unless `lists` is on (DRAListTypeAttributes): then a device has a set of elements.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, TypeAlias

from allocator.values.model import Attribute, Device

Value: TypeAlias = Hashable
"""(kind, value) of a scalar or list element."""

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
        failed: Devices for which an expression should give the value, and fails.
    """

    __slots__ = ("_lists", "failed", "masks", "present", "unknown", "values")

    def __init__(self, lists: bool) -> None:
        self._lists: Final = lists
        self.values: Final[dict[int, frozenset[Value]]] = {}
        self.masks: Final[dict[Value, int]] = {}
        self.present = 0
        self.unknown = 0
        self.failed = 0

    def note(self, index: int, attribute: Attribute) -> None:
        """The device with this index has the attribute."""
        bit = 1 << index
        self.present |= bit
        values = _values(attribute, self._lists)
        if not values:
            self.unknown |= bit
            return
        self.values[index] = values
        for value in values:
            self.masks[value] = self.masks.get(value, 0) | bit


def published(devices: Iterable[Device], name: str, lists: bool) -> PoolAttribute:
    """What the devices of a pool say for themselves."""
    found = PoolAttribute(lists)
    for index, device in enumerate(devices):
        attribute = lookup_attribute(device, name)
        if attribute is not None:
            found.note(index, attribute)
    return found


def _values(attribute: Attribute, lists: bool) -> frozenset[Value]:
    if attribute.kind in _SCALAR_KINDS:
        return frozenset(((attribute.kind, attribute.value),))
    kind = _KIND_OF_LIST.get(attribute.kind)
    if lists and kind is not None and isinstance(attribute.value, tuple):
        return frozenset((kind, element) for element in attribute.value)
    return frozenset()


NOTHING: Final[frozenset[Value]] = frozenset()
