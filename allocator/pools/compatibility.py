"""Compatibility groups: which devices of a pool may draw on one counter set at the same time.

Rules of this module
  1. Devices that draw on a counter set together must have a group of that set in common, all of them.
  2. A device that names no group goes with devices that name none.

A set of groups is a mask; "names none" is a group of its own, so both rules are one intersection. Held devices that
contradict each other have none: then nothing more is given of that counter set. Upstream's answer depends on the order
of its list then.

Source: structured/internal/experimental/compatibility_groups.go v0.37.2 (KEP-5963, DRADeviceCompatibilityGroups).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Final, TypeAlias

from allocator.values.masks import positions_of
from allocator.values.model import Device

GroupMasks: TypeAlias = tuple[tuple[int, int], ...]
"""(number of the counter set, mask of the groups that the device names for it); a counter set may come twice."""
ANY: Final = -1
_NONE_NAMED: Final = 1
_NAMED_MAX: Final = 3


class PoolGroups:
    """The groups of a pool's devices.

    Attributes:
        of: By position in the pool; empty where no device of the pool names a group.
        elsewhere: By name, of the devices in slices for other nodes.
    """

    __slots__ = ("_names", "_sets", "elsewhere", "of")

    def __init__(self, devices: Iterable[Device], elsewhere: Iterable[Device]) -> None:
        self.of: Mapping[int, GroupMasks] = {}
        self.elsewhere: Mapping[str, list[GroupMasks]] = {}
        here, others = list(devices), list(elsewhere)
        if not any(consumed.groups for device in (*here, *others) for consumed in device.consumes_counters):
            return
        self._sets: dict[str, int] = {}
        self._names: dict[tuple[int, str], int] = {}
        self.of = {index: masks for index, device in enumerate(here) if (masks := self._masks(device))}
        found: dict[str, list[GroupMasks]] = {}
        for device in others:
            found.setdefault(device.name, []).append(self._masks(device))
        self.elsewhere = found

    def _masks(self, device: Device) -> GroupMasks:
        masks = []
        for consumed in device.consumes_counters:
            number = self._sets.setdefault(consumed.counter_set, len(self._sets))
            bits = (
                1 << self._names.setdefault((number, name), 1 + len(self._names))
                for name in dict.fromkeys(consumed.groups)
            )
            masks.append((number, reduce(or_, bits, 0) or _NONE_NAMED))
        return tuple(masks)

    def common(self, names: Iterable[str], index_of: Callable[[str], int | None]) -> dict[int, int]:
        """By counter set: the groups that the devices of these names have in common."""
        left: dict[int, int] = {}
        for name in names:
            index = index_of(name)
            held = [self.of.get(index, ())] if index is not None else []
            for masks in (*held, *self.elsewhere.get(name, ())):
                for number, mask in masks:
                    left[number] = left.get(number, ANY) & mask
        return left

    def text(self, number: int, mask: int) -> str:
        """The groups of a mask, in the order in which they were published, the first few by name."""
        names = [name for (of, name), bit in self._names.items() if of == number and mask >> bit & 1]
        if not names:
            return "no compatibility group"
        more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
        return f"compatibility group{'s' if len(names) > 1 else ''} {', '.join(names[:_NAMED_MAX])}{more}"

    def set_name(self, number: int) -> str:
        return next(name for name, known in self._sets.items() if known == number)


def refusing(left: Mapping[int, int], masks: GroupMasks) -> tuple[int, int] | None:
    """The counter set on which a device of these groups may not draw, and its groups there; None where there is none.

    Args:
        left: By counter set, what the devices that draw on it have in common.
    """
    seen: dict[int, int] = {}
    for number, mask in masks:
        seen[number] = seen.get(number, left.get(number, ANY)) & mask
        if not seen[number]:
            return number, mask
    return None


def most_together(masks: Iterable[GroupMasks]) -> int:
    """At most so many of these devices fit together; those that draw on several counter sets count for the first."""
    members: dict[int, Counter[int]] = {}
    for (number, mask), *_ in masks:
        members.setdefault(number, Counter()).update(positions_of(mask))
    return sum(max(counts.values()) for counts in members.values())
