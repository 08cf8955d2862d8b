"""Partitions by profile: how many of each there are, how many are free, how many could still be given together.

A profile is what partitions of one size have alike: their driver and what they consume of counters, whichever counter
sets these are in. Counters that differ in a last number only (`memory-slice-0`, `memory-slice-1`) say which part a
partition takes, not how large it is, so they count as one.

Rules of this module
  1. `together` is never less than what claims could be given one after the other, and `is_exact` only where partitions
     that fit together, one by one, are as many.

Cost: O(partitions and what they consume), sorted; nothing is searched.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from allocator import Device, PoolId
from scheduler.inventory.device_answer import ProfileSummary, State, count_states
from scheduler.inventory.parts import Parts
from scheduler.inventory.users import amount_text

CounterId: TypeAlias = tuple[str, str]
Left: TypeAlias = Mapping[PoolId, Mapping[CounterId, int]]
"""What allocations leave of each counter, in units of 10^-9."""

_PART: Final = 50
"""Partitions that are looked at in one part, some 1 ms."""
_NUMBER: Final = re.compile(r"[-_.]?[0-9]+$")
_NAMES: Final = frozenset({"profile", "partitionprofile"})
"""Attributes (the last part of their names) in which drivers publish what they call a profile."""


class Partition(NamedTuple):
    """A device that consumes counters; `has_paid`: a share of it is held, so another takes no counters."""

    device: Device
    state: State
    has_paid: bool


class _Profile(NamedTuple):
    driver: str
    name: str
    counters: tuple[tuple[tuple[str, int], ...], ...]


class Bounds(NamedTuple):
    """So many fit together at least, and at most."""

    least: int
    most: int


def profile_summaries(partitions: Iterable[Partition], left: Left) -> Parts[tuple[ProfileSummary, ...]]:
    """Of each profile, by driver and size."""
    by_profile: dict[_Profile, list[Partition]] = {}
    for number, one in enumerate(partitions, 1):
        by_profile.setdefault(_profile_of(one.device), []).append(one)
        if not number % _PART:
            yield
    summaries = []
    for profile, members in sorted(by_profile.items(), key=lambda item: _order(item[0])):
        bounds = yield from _together(members, left)
        states = count_states(one.state for one in members)
        summaries.append(
            ProfileSummary(
                driver=profile.driver,
                profile=profile.name,
                counters={name: amount_text(amount) for name, amount in _total(profile).items()},
                devices=len(members),
                free=states.free + states.shared,
                states=states,
                together=bounds.most,
                is_exact=bounds.least == bounds.most,
            )
        )
    return tuple(summaries)


def _together(members: Iterable[Partition], left: Left) -> Parts[Bounds]:
    by_pool: dict[PoolId, list[Mapping[CounterId, int]]] = {}
    paid = 0
    for number, one in enumerate(members, 1):
        if not number % _PART:
            yield
        if one.state in ("free", "shared"):
            if one.has_paid:
                paid += 1
            else:
                by_pool.setdefault(one.device.id.pool_id, []).append(_consumption(one.device))
    least = most = paid
    for pool, costs in by_pool.items():
        bounds = together(costs, left.get(pool, {}))
        least, most = least + bounds.least, most + bounds.most
        yield
    return Bounds(least, most)


def together(costs: Sequence[Mapping[CounterId, int]], left: Mapping[CounterId, int]) -> Bounds:
    """How many of these partitions fit together.

    Args:
        costs: What each consumes.
        left: What there is.
    """
    smallest_first = sorted(costs, key=lambda cost: sum(cost.values()))
    least = max(_one_by_one(costs, left), _one_by_one(smallest_first, left))
    by_sets: dict[frozenset[str], list[Mapping[CounterId, int]]] = {}
    for cost in costs:
        by_sets.setdefault(frozenset(name for name, _ in cost), []).append(cost)
    return Bounds(least, sum(_at_most(group, left) for group in by_sets.values()))


def _one_by_one(costs: Iterable[Mapping[CounterId, int]], left: Mapping[CounterId, int]) -> int:
    rest = dict(left)
    count = 0
    for cost in costs:
        if all(amount <= rest.get(counter, 0) for counter, amount in cost.items()):
            count += 1
            for counter, amount in cost.items():
                rest[counter] -= amount
    return count


def _at_most(costs: Collection[Mapping[CounterId, int]], left: Mapping[CounterId, int]) -> int:
    """No more fit into any counter, nor into all counters that count as one."""
    by_counter: dict[CounterId, list[int]] = {}
    by_family: dict[CounterId, list[int]] = {}
    for cost in costs:
        families: Counter[CounterId] = Counter()
        for (name, counter), amount in cost.items():
            by_counter.setdefault((name, counter), []).append(amount)
            families[name, _family(counter)] += amount
        for family, amount in families.items():
            by_family.setdefault(family, []).append(amount)
    family_left: Counter[CounterId] = Counter()
    for name, counter in by_counter:
        family_left[name, _family(counter)] += max(left.get((name, counter), 0), 0)
    rooms = [(amounts, left.get(counter, 0)) for counter, amounts in by_counter.items()]
    rooms += [(amounts, family_left[family]) for family, amounts in by_family.items()]
    return min((_fitting(amounts, room) + len(costs) - len(amounts) for amounts, room in rooms), default=len(costs))


def _fitting(amounts: list[int], room: int) -> int:
    count = 0
    for amount in sorted(amounts):
        room -= amount
        if room < 0:
            break
        count += 1
    return count


def _consumption(device: Device) -> Mapping[CounterId, int]:
    total: Counter[CounterId] = Counter()
    for consumed in device.consumes_counters:
        for name, amount in consumed.counters:
            total[consumed.counter_set, name] += amount.nano
    return total


def _profile_of(device: Device) -> _Profile:
    sets: dict[str, Counter[str]] = {}
    for (name, counter), amount in _consumption(device).items():
        sets.setdefault(name, Counter())[_family(counter)] += amount
    counters = tuple(sorted(tuple(sorted(one.items())) for one in sets.values()))
    name = next(
        (str(one.value) for key, one in device.attributes.items() if one.kind == "string" and _is_name(key)), ""
    )
    return _Profile(device.id.driver, name, counters)


def _total(profile: _Profile) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for one in profile.counters:
        for name, amount in one:
            total[name] += amount
    return total


def _order(profile: _Profile) -> tuple[object, ...]:
    """Small ones first."""
    return profile.driver, sum(_total(profile).values()), profile.counters, profile.name


@lru_cache(maxsize=4096)
def _family(counter: str) -> str:
    return _NUMBER.sub("", counter) or counter


@lru_cache(maxsize=4096)
def _is_name(attribute: str) -> bool:
    return attribute.rpartition("/")[2].lower() in _NAMES
