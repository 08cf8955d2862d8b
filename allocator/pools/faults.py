"""What is wrong with a pool as it is published: slices that are missing, are older, or contradict each other.

Rules of this module
  1. A text is true of the slices that it names, and says nothing of what would help.
  2. One fault of a kind for a pool: the first case of it, and how many more there are.
  3. What follows from another fault is not said: of a pool from two nodes nobody says that its slices are too many.

Not here: what a node makes of the pool (`pools`), what is given out (`overdrawn`, `vanished`).

Cost: O(devices of the pool and what they consume).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from allocator.pools.overdrawn import newest_slices
from allocator.pools.pools import CounterId
from allocator.values.features import Features
from allocator.values.model import ResourceSlice
from cel.quantity import Quantity

FaultKind: TypeAlias = Literal[
    "two-nodes",
    "counts-disagree",
    "missing-slices",
    "surplus-slices",
    "device-twice",
    "counter-set-twice",
    "unknown-counter",
    "counter-too-small",
    "unknown-node",
    "unread-field",
    "unread-counters",
    "older-generation",
]
INCOMPLETE_FAULTS: Final = frozenset[FaultKind](("counts-disagree", "missing-slices", "surplus-slices"))
INVALID_FAULTS: Final = frozenset[FaultKind](
    ("device-twice", "counter-set-twice", "unknown-counter", "unread-counters")
)
"""No device of a pool is given out that has a fault of one of these kinds."""
_NAMED_MAX: Final = 3


class Fault(NamedTuple):
    """What is wrong, and the names of the slices (all of them) that make it so."""

    kind: FaultKind
    slices: tuple[str, ...]
    text: str


def pool_faults(
    slices: Iterable[ResourceSlice], nodes: Collection[str] | None, features: Features
) -> tuple[Fault, ...]:
    """The faults of one pool, those that keep its devices from everybody first.

    Args:
        slices: All of the pool's, of any generation.
        nodes: The names of all nodes; None where they are not known.
    """
    known = tuple(slices)
    current = newest_slices(known, features)
    if not current:
        return ()
    several = _from_several_nodes(known, features)
    if several is not None:
        return (several, *_unknown_nodes(known, nodes))
    sizes = tuple(_sizes(current))
    return (
        *sizes,
        *_devices_twice(current),
        *_counters(current, is_whole=not sizes),
        *_unread(current),
        *_unknown_nodes(current, nodes),
        *_older(known, current[0].generation),
    )


def listed_names(names: Sequence[str]) -> str:
    """`a, b, c and 4 more`."""
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


def _from_several_nodes(slices: Sequence[ResourceSlice], features: Features) -> Fault | None:
    """Slices of several nodes, each node's a whole pool by their own count: drivers that do not know of each other."""
    by_node: dict[str, list[ResourceSlice]] = {}
    for slice_ in slices:
        if slice_.node_name:
            by_node.setdefault(slice_.node_name, []).append(slice_)
    if len(by_node) < 2:
        return None
    whole: dict[str, tuple[ResourceSlice, ...]] = {}
    for node, own in sorted(by_node.items()):
        newest = newest_slices(own, features)
        if newest and all(slice_.resource_slice_count == len(newest) for slice_ in newest):
            whole[node] = newest
    if len(whole) < 2:
        return None
    names = tuple(slice_.name for newest in whole.values() for slice_ in newest)
    return Fault(
        "two-nodes",
        names,
        f"{len(whole)} nodes publish it, each as a whole pool: nodes {listed_names(tuple(whole))} in slices "
        f"{listed_names(names)}",
    )


def _sizes(current: Sequence[ResourceSlice]) -> Iterator[Fault]:
    by_count: dict[int, list[str]] = {}
    for slice_ in current:
        by_count.setdefault(slice_.resource_slice_count, []).append(slice_.name)
    names = tuple(slice_.name for slice_ in current)
    if len(by_count) > 1:
        said = "; ".join(f"{count} in {listed_names(those)}" for count, those in sorted(by_count.items())[:_NAMED_MAX])
        yield Fault("counts-disagree", names, f"its slices disagree about how many there are: {said}")
        return
    (count,) = by_count
    if len(current) < count:
        yield Fault("missing-slices", names, f"{len(current)} of {count} slices are there: {listed_names(names)}")
    elif len(current) > count:
        yield Fault(
            "surplus-slices", names, f"{len(current)} slices are there, and {count} should be: {listed_names(names)}"
        )


def _devices_twice(current: Sequence[ResourceSlice]) -> Iterator[Fault]:
    where: dict[str, str] = {}
    twice: dict[str, tuple[str, str]] = {}
    for slice_ in current:
        for device in slice_.devices:
            if device.name in where:
                twice.setdefault(device.name, (where[device.name], slice_.name))
            else:
                where[device.name] = slice_.name
    if twice:
        first, (one, other) = next(iter(twice.items()))
        places = f"slices {one} and {other}" if one != other else f"slice {one}, twice"
        yield Fault("device-twice", _names(twice.values()), f"device {first} is in {places}{_more(twice)}")


def _counters(current: Sequence[ResourceSlice], *, is_whole: bool) -> Iterator[Fault]:
    sets: dict[str, str] = {}
    amounts: dict[CounterId, Quantity] = {}
    twice: dict[str, tuple[str, str]] = {}
    for slice_ in current:
        for each in slice_.shared_counters:
            if each.name in sets:
                twice.setdefault(each.name, (sets[each.name], slice_.name))
                continue
            sets[each.name] = slice_.name
            amounts.update({(each.name, counter): amount for counter, amount in each.counters})
    if twice:
        first, (one, other) = next(iter(twice.items()))
        text = f"counter set {first} is in slices {one} and {other}{_more(twice)}"
        yield Fault("counter-set-twice", _names(twice.values()), text)
    unknown: dict[str, tuple[str]] = {}
    beyond: dict[str, tuple[str]] = {}
    for slice_ in current:
        for device in slice_.devices:
            for consumed in device.consumes_counters:
                name = consumed.counter_set
                if name not in sets:
                    text = f"device {device.name} consumes counter set {name}, which no slice of the pool has"
                    unknown.setdefault(text, (slice_.name,))
                    continue
                for counter, amount in consumed.counters:
                    there = amounts.get((name, counter))
                    if there is None:
                        text = f"device {device.name} consumes counter {counter}, which counter set {name} has not"
                        unknown.setdefault(text, (slice_.name,))
                    elif amount.nano > there.nano:
                        text = f"device {device.name} takes {amount} of counter {name}.{counter}, which has {there}"
                        beyond.setdefault(text, (slice_.name,))
    if unknown and is_whole:  # else a slice that is missing may have it
        yield Fault("unknown-counter", _names(unknown.values()), next(iter(unknown)) + _more(unknown))
    if beyond:
        yield Fault("counter-too-small", _names(beyond.values()), next(iter(beyond)) + _more(beyond))


def _unread(current: Sequence[ResourceSlice]) -> Iterator[Fault]:
    """Fields that nobody here acts on: of counters they keep the pool's devices from everybody, else their own."""
    counters, devices, where = list[str](), dict[str, str](), dict[str, str]()
    for slice_ in current:
        if slice_.unread and slice_.shared_counters:
            counters.append(slice_.name)
            continue
        for device in slice_.devices:
            if device.unread:
                devices[device.name] = device.unread[0]
                where.setdefault(slice_.name, device.unread[0])
    if counters:
        path = next(one.unread[0] for one in current if one.name == counters[0])
        text = f"slice {counters[0]} has the field {path}, which this scheduler does not know{_more(counters)}"
        yield Fault("unread-counters", tuple(counters), text)
    if devices:
        first, path = next(iter(devices.items()))
        text = f"device {first} has the field {path}, which this scheduler does not know{_more(devices)}"
        yield Fault("unread-field", tuple(where), text)


def _unknown_nodes(slices: Sequence[ResourceSlice], nodes: Collection[str] | None) -> Iterator[Fault]:
    if nodes is None:
        return
    unknown: dict[str, str] = {}
    for slice_ in slices:
        for name in (slice_.node_name, *(device.node_name for device in slice_.devices)):
            if name and name not in nodes:
                unknown.setdefault(name, slice_.name)
    if unknown:
        first, where = next(iter(unknown.items()))
        text = f"slice {where} names node {first}, and no Node is called so{_more(unknown)}"
        yield Fault("unknown-node", tuple(dict.fromkeys(unknown.values())), text)


def _older(slices: Sequence[ResourceSlice], generation: int) -> Iterator[Fault]:
    older = sorted((slice_ for slice_ in slices if slice_.generation < generation), key=lambda one: one.name)
    if older:
        names = tuple(slice_.name for slice_ in older)
        has = "has" if len(older) == 1 else "have"
        text = f"{listed_names(names)} {has} generation {older[0].generation}; generation {generation} counts"
        yield Fault("older-generation", names, text)


def _names(places: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in places for name in each))


def _more(cases: Collection[object]) -> str:
    return f" (and {len(cases) - 1} more)" if len(cases) > 1 else ""
