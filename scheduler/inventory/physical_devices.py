"""Physical devices of which drivers publish partitions, and which part of its device each partition takes.

Devices that consume counters of one set are parts of one physical device. Where its counters are parts themselves
(`memory-slice-0` to `memory-slice-7`), a partition lies where the parts are that it takes. Where they are amounts,
nothing says where it lies: partitions in use stand side by side, the others after them, each as wide as its share.

Rules of this module
  1. Counters are parts where each partition that takes one takes more than half of it, and takes neighbours. So two
     partitions in use never lie in one place.
  2. A partition that takes no part of its device, while others do, lies nowhere: it is a device by itself.

Cost: O(devices and what they consume), sorted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from allocator import Device, PoolId, ResourceSlice
from scheduler.inventory.partition_profiles import consumption, family_of

SetId: TypeAlias = tuple[PoolId, str]
_Counter: TypeAlias = tuple[str, str]
"""Counter set and counter, of one pool."""
_UNITS_MAX: Final = 64
"""Into so many parts an amount is divided at most."""
_DIGITS: Final = re.compile(r"([0-9]+)")


class PhysicalDevice(Struct, frozen=True, kw_only=True):
    """A device that is published in pieces, as columns: `devices[i]` takes `widths[i]` of `units` from `places[i]` on.

    Devices are positions in the list that was asked about. `whole` is the entry that takes everything, which is not
    among `devices`; -1: there is none.
    """

    units: int
    whole: int
    devices: list[int]
    places: list[int]
    widths: list[int]


def counter_sets(slices: Iterable[ResourceSlice]) -> dict[SetId, Mapping[str, int]]:
    """What each counter holds, in units of 10^-9; of the newest generation that has it."""
    by_age = sorted(slices, key=lambda one: (one.generation, one.name))
    return {
        (slice_.pool_id, each.name): {name: amount.nano for name, amount in each.counters}
        for slice_ in by_age
        for each in slice_.shared_counters
    }


def physical_devices(
    devices: Sequence[Device | None], in_use: Collection[int], sets: Mapping[SetId, Mapping[str, int]]
) -> list[PhysicalDevice]:
    """Those of which several devices are listed, in the order of the first of each.

    Args:
        devices: In the order of the list; None for what nobody publishes.
        in_use: Positions of those that claims hold.
        sets: The counter sets (`counter_sets`).
    """
    first_of: dict[SetId, SetId] = {}

    def root(one: SetId) -> SetId:
        while (above := first_of.setdefault(one, one)) != one:
            first_of[one] = one = first_of[above]
        return one

    named = [(index, device, _sets_of(device)) for index, device in enumerate(devices) if device is not None]
    for _, _, mine in named:
        for other in mine[1:]:
            first_of[root(other)] = root(mine[0])
    members: dict[SetId, dict[int, Mapping[_Counter, int]]] = {}
    for index, device, mine in named:
        if mine:
            members.setdefault(root(mine[0]), {})[index] = consumption(device)
    totals: dict[SetId, dict[_Counter, int]] = {}
    for one in first_of:
        held = {(one[1], counter): amount for counter, amount in sets.get(one, {}).items()}
        totals.setdefault(root(one), {}).update(held)
    laid = (_laid_out(taken, totals[one], in_use) for one, taken in members.items() if len(taken) > 1)
    return [one for one in laid if one.devices]


def _sets_of(device: Device) -> list[SetId]:
    return [(device.id.pool_id, one.counter_set) for one in device.consumes_counters]


def _laid_out(
    taken: Mapping[int, Mapping[_Counter, int]], totals: Mapping[_Counter, int], in_use: Collection[int]
) -> PhysicalDevice:
    """One physical device; `taken`: what each device takes."""
    full = {counter for counter, total in totals.items() if total > 0}
    everything = (index for index, mine in taken.items() if all(mine.get(one, 0) >= totals[one] for one in full))
    whole = next(everything, -1) if full else -1
    partitions = {index: mine for index, mine in taken.items() if index != whole}
    parts = _parts(taken.values(), totals)
    units, placed = _among_parts(partitions, parts) if parts else _side_by_side(partitions, totals, in_use)
    return PhysicalDevice(
        units=units,
        whole=whole,
        devices=[*placed],
        places=[place for place, _ in placed.values()],
        widths=[width for _, width in placed.values()],
    )


def _parts(taken: Collection[Mapping[_Counter, int]], totals: Mapping[_Counter, int]) -> Mapping[_Counter, int]:
    """The counters that are parts (rule 1), each with its place; empty where there are none."""
    families: dict[str, list[_Counter]] = {}
    for counter in totals:
        families.setdefault(family_of(counter[1]), []).append(counter)
    takings: dict[str, list[list[_Counter]]] = {}
    amounts_only: set[str] = set()
    for each in taken:
        mine: dict[str, list[_Counter]] = {}
        for counter, amount in each.items():
            if amount > 0 and counter in totals:
                name = family_of(counter[1])
                mine.setdefault(name, []).append(counter)
                if 2 * amount <= totals[counter]:
                    amounts_only.add(name)
        for name, counters in mine.items():
            takings.setdefault(name, []).append(counters)
    for name, counters in sorted(families.items(), key=lambda one: (-len(one[1]), one[0])):
        if len(counters) > 1 and name in takings.keys() - amounts_only:
            place = {counter: number for number, counter in enumerate(sorted(counters, key=_by_number))}
            places = [[place[one] for one in each] for each in takings[name]]
            if all(max(one) - min(one) < len(one) for one in places):
                return place
    return {}


def _by_number(counter: _Counter) -> list[tuple[str, int, str]]:
    """`memory-slice-10` is after `memory-slice-9`."""
    words = _DIGITS.split("\0".join(counter))
    return [(word, len(number), number) for word, number in zip(words[::2], [*words[1::2], ""], strict=True)]


def _among_parts(
    partitions: Mapping[int, Mapping[_Counter, int]], parts: Mapping[_Counter, int]
) -> tuple[int, dict[int, tuple[int, int]]]:
    placed = {}
    for index, mine in partitions.items():
        if places := [parts[one] for one, amount in mine.items() if amount > 0 and one in parts]:
            placed[index] = min(places), len(places)
    return len(parts), placed


def _side_by_side(
    partitions: Mapping[int, Mapping[_Counter, int]], totals: Mapping[_Counter, int], in_use: Collection[int]
) -> tuple[int, dict[int, tuple[int, int]]]:
    """By the counter of which each takes the largest share."""
    shares: dict[int, tuple[int, int]] = {}
    for index, mine in partitions.items():
        if amounts := [(amount, totals[one]) for one, amount in mine.items() if amount > 0 and totals.get(one, 0) > 0]:
            shares[index] = max(amounts, key=lambda one: one[0] / one[1])
    smallest = max((total // amount for amount, total in shares.values()), default=1)
    units = max(1, min(_UNITS_MAX, smallest))
    placed: dict[int, tuple[int, int]] = {}
    place = begin = 0
    for is_free, index in sorted((index not in in_use, index) for index in shares):
        amount, total = shares[index]
        width = min(units, max(1, amount * units // total))
        if place + width > units:
            place = min(begin, units - width)
        placed[index] = place, width
        place += width
        begin = begin if is_free else place
    return units, dict(sorted(placed.items()))
