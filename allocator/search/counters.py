"""Shared counters during one search: what is left in each pool, and what the picks took.

Available is the counter's value minus what allocated devices of the pool consume, devices in slices for other nodes
included; a device that several allocations share is charged once. It may be negative (overdrawn): then no device of
the pool that consumes counters can be picked, as upstream has it.

Keys are complete: positions of pools in the node's row, so pools of two drivers with equal names never mix
(upstream 0.36 keys by pool name alone, k/k issue 140434).

Compatibility groups go with the counters: `admits` asks whether the device may stand beside those that draw already.

Source: `checkAvailableCounters` of structured/internal/incubating/allocator_incubating.go v0.36.3.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeAlias

from allocator.pools.compatibility import ANY, GroupMasks, refusing
from allocator.pools.in_use import Ledger
from allocator.pools.node_pools import NodePools
from allocator.values.journal import Journal

Amounts: TypeAlias = tuple[tuple[int, int], ...]
"""(counter index in the pool, amount in units of 10^-9)."""


class CounterLedger:
    """Counters taken by the picks of one search."""

    def __init__(self, pools: NodePools, in_use: Ledger) -> None:
        self._pools: Final = pools
        self._in_use: Final = in_use
        self._available: Final[dict[int, tuple[int, ...] | None]] = {}
        self.used: Final[dict[int, list[int]]] = {}
        self._groups: Final[dict[int, dict[int, int]]] = {}

    def available(self, pool: int) -> tuple[int, ...] | None:
        """What is left without the picks; None when the pool is overdrawn."""
        if pool not in self._available:
            view, _ = self._pools.usable[pool]
            left = view.counters_left(self._in_use.pools.get(view.id))
            self._available[pool] = None if any(amount < 0 for amount in left) else left
        return self._available[pool]

    def fits(self, pool: int, amounts: Amounts) -> bool:
        """Whether a device with this consumption can be picked besides the others."""
        left = self.available(pool)
        if left is None:
            return False
        used = self.used.get(pool)
        if used is None:
            return all(amount <= left[counter] for counter, amount in amounts)
        return all(used[counter] + amount <= left[counter] for counter, amount in amounts)

    def admits(self, pool: int, groups: GroupMasks) -> bool:
        """Whether a device of these compatibility groups can be picked besides the others and what is held."""
        return refusing(self._common(pool), groups) is None

    def _common(self, pool: int) -> dict[int, int]:
        common = self._groups.get(pool)
        if common is None:
            view, _ = self._pools.usable[pool]
            common = self._groups[pool] = dict(view.groups_left(self._in_use.pools.get(view.id)))
        return common

    def take(self, pool: int, amounts: Amounts, groups: GroupMasks, journal: Journal) -> None:
        """Charge a device that `fits` and is admitted."""
        used = self.used.get(pool)
        if used is None:
            used = self.used[pool] = [0] * len(self._pools.usable[pool][0].counters)
        for counter, amount in amounts:
            used[counter] += amount
        before: list[tuple[int, int | None]] = []
        if groups:
            common = self._common(pool)
            for number, mask in groups:
                before.append((number, common.get(number)))
                common[number] = common.get(number, ANY) & mask
        journal.record(self, (pool, amounts, before))

    def undo(self, change: Any) -> None:
        pool, amounts, before = change
        for number, common in reversed(before):
            if common is None:
                del self._groups[pool][number]
            else:
                self._groups[pool][number] = common
        used = self.used[pool]
        for counter, amount in amounts:
            used[counter] -= amount

    def state(self, relevant: int) -> Hashable:
        """What the picks took of the pools of the relevant devices."""
        return tuple(
            (pool, tuple(used), tuple(sorted(self._groups.get(pool, {}).items())))
            for pool, used in sorted(self.used.items())
            if any(used) and self._pools.among(relevant, pool)
        )
