"""How much of each device class is given out: of its devices, or of their capacity where that is consumed.

A device that is given out whole counts as one; of one that claims share counts the capacity of which most is consumed.
Partitions overlap, so their physical device counts instead, by its counter set: the share of its unit counters (those
of 1 or less: slices of it) that are consumed, or else of the counter of which most is.

Rules of this module
  1. A device counts where a claim could be given it at all: its pool is usable and the class's selectors match.
  2. Whoever a device was given to, through whatever class, it is not free for the others.

Cost: O(nodes * their pools) for each class.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple

from allocator.answers.class_usage import one_device
from allocator.answers.inventory import Inventory
from allocator.pools.in_use import Ledger
from allocator.pools.pools import NOTHING_HELD, HeldDevices, PoolView
from allocator.values.masks import positions_of
from allocator.values.model import PoolId
from scheduler.core.machine import Machine

_UNIT_NANO: Final = 10**9


class Utilization(NamedTuple):
    """Of one class.

    Attributes:
        devices: How many there are.
        used: How many of them are given out.
        scattered: How many are free on nodes that have given out some of theirs. A device belongs to the first node, as
            the machine knows them, that sees it.
    """

    devices: int
    used: Fraction
    scattered: Fraction = Fraction(0)

    @property
    def share(self) -> Fraction:
        """From 0 to 1; 0 where there are no devices."""
        return self.used / self.devices if self.devices else Fraction(0)

    @property
    def fragmentation(self) -> Fraction:
        """The share of all devices that is scattered: free, and not on a node that is free as a whole."""
        return self.scattered / self.devices if self.devices else Fraction(0)


class _CounterSet(NamedTuple):
    """Of one set the number of its node and the counters that partitions consume; what its pool has, and has left."""

    node: int
    counters: set[int]
    whole: tuple[int, ...]
    left: tuple[int, ...]


class _Pieces:
    """What of one class was counted so far."""

    def __init__(self) -> None:
        self._of_nodes: list[tuple[int, Fraction]] = []  # of each node devices, and how many are given out
        # Devices of pools that several nodes see, and counter sets, each counted once.
        self._counted: set[tuple[PoolId, str]] = set()
        self._sets: dict[tuple[PoolId, str], _CounterSet] = {}

    def add_node(self) -> None:
        """What is added next is seen by another node."""
        self._of_nodes.append((0, Fraction(0)))

    def add(self, view: PoolView, mask: int, held: HeldDevices, left: tuple[int, ...]) -> None:
        for index in positions_of(mask):
            device = view.devices[index]
            if index in view.consumption:
                name = device.consumes_counters[0].counter_set
                there = _CounterSet(len(self._of_nodes) - 1, set(), view.counters, left)
                counters = self._sets.setdefault((view.id, name), there).counters
                counters.update(counter for counter, _ in view.consumption[index])
                continue
            if (view.id, device.name) in self._counted:
                continue
            self._counted.add((view.id, device.name))
            self._count(-1, _used_of(view, index, held))

    def _count(self, node: int, used: Fraction) -> None:
        devices, before = self._of_nodes[node]
        self._of_nodes[node] = devices + 1, before + used

    def utilization(self) -> Utilization:
        for one in self._sets.values():
            self._count(one.node, _used_of_set(one.counters, one.whole, one.left))
        devices, used = (sum(column) for column in zip((0, Fraction(0)), *self._of_nodes, strict=True))
        return Utilization(
            int(devices), Fraction(used), sum((there - taken for there, taken in self._of_nodes if taken), Fraction(0))
        )


def _used_of(view: PoolView, index: int, held: HeldDevices) -> Fraction:
    if held.dedicated >> index & 1:
        return Fraction(1)
    if not held.sharing >> index & 1:
        return Fraction(0)
    consumed, capacity = held.consumed[index], view.devices[index].capacity
    shares = [
        Fraction(amount, capacity[name].value.nano)
        for name, amount in consumed.items()
        if name in capacity and capacity[name].value.nano > 0
    ]
    return min(max(shares, default=Fraction(1)), Fraction(1))


def _used_of_set(counters: set[int], whole: tuple[int, ...], left: tuple[int, ...]) -> Fraction:
    there = [counter for counter in counters if whole[counter] > 0]
    units = [counter for counter in there if whole[counter] <= _UNIT_NANO]
    if len(units) > 1:
        return 1 - Fraction(sum(max(left[one], 0) for one in units), sum(whole[one] for one in units))
    return max((1 - Fraction(max(left[one], 0), whole[one]) for one in there), default=Fraction(0))


def utilization(machine: Machine) -> dict[str, Utilization]:
    """Of each class that is served, by name, as the machine knows the cluster."""
    classes = machine.store.inventory.classes
    return {name: _of_class(machine, name) for name in sorted(classes) if not classes[name].unread}


def _of_class(machine: Machine, name: str) -> Utilization:
    store = machine.store
    inventory: Inventory = store.inventory
    in_use: Ledger = machine.overlay.in_use
    (slot,) = inventory.plan([one_device(name)], store.features).slots
    pieces = _Pieces()
    for info in store.node_infos.values():
        pieces.add_node()
        pools = inventory.node_pools(info.host, store.features)
        matched = pools.candidates_for(slot).fits
        for number in pools.numbers_among(matched):
            view, _ = pools.usable[number]
            entry = in_use.pools.get(view.id)
            held = view.held(entry, store.features) if entry is not None else NOTHING_HELD
            pieces.add(view, pools.among(matched, number), held, view.counters_left(entry))
    return pieces.utilization()
