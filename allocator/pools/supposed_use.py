"""A ledger as if some allocations were gone and others were there, for a question. The ledger itself is not touched.

Rules of this module
  1. Pools of which nothing is supposed are the ledger's own entries, so what readers keep for them holds.
  2. It says what the ledger says at that time: when one of the pools of which something is supposed changes, the next
     question needs another (`is_current`).
  3. `until`: allocations that are there still and will be gone, in whose place others will be. Each device, capacity
     and counter counts as much as it does with the old or with the new ones, whichever is more: what goes is not free
     before it is gone, and what comes is kept from now on.

Cost: O(held devices of the pools of which something is supposed).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from allocator.pools.in_use import InUse, Ledger, PoolUse, next_serial
from allocator.values.model import Allocation, DeviceId, DeviceResult, PoolId


class SupposedUse:
    """Satisfies `in_use.Ledger`."""

    is_supposed: Final = True

    def __init__(
        self,
        ledger: Ledger,
        *,
        taken: Collection[Allocation] = (),
        released: Collection[Allocation] = (),
        until: Collection[Allocation] = (),
    ) -> None:
        """Each of `released` and `until` must be in the ledger, and none may be in both."""
        self._ledger: Final = ledger
        self.consumable_capacity: Final = ledger.consumable_capacity
        self.serial: Final = next_serial()
        concerned = {
            PoolId(result.driver, result.pool)
            for allocation in chain(taken, released, until)
            for result in allocation.results
        }
        self._seen: Final = {pool: _state(ledger.pools.get(pool)) for pool in concerned}
        before = _copy(ledger, concerned)
        for allocation in released:
            before.remove(allocation)
        after = before
        if until:
            after = _copy(before, concerned)
            for allocation in until:
                after.remove(allocation)
        for allocation in taken:
            after.add(allocation)
        entries: dict[PoolId, PoolUse | None] = {}
        for pool in concerned:
            entry = after.pools.get(pool)
            if until and (least := before.pools.get(pool)) is not None:
                entry = entry or PoolUse()
                entry.least = least
            entries[pool] = entry
        self.pools: Final = _Instead(ledger.pools, entries)

    @property
    def revision(self) -> int:
        return self._ledger.revision

    def changed_since(self, revision: int) -> tuple[int, Collection[PoolId] | None]:
        return self._ledger.changed_since(revision)

    def is_dedicated(self, device: DeviceId) -> bool:
        pool = self.pools.get(device.pool_id)
        return pool is not None and device.device in pool.dedicated

    def is_current(self) -> bool:
        """Whether the ledger still says of the pools concerned what it said."""
        pools = self._ledger.pools
        return all(_state(pools.get(pool)) == state for pool, state in self._seen.items())


class _Instead(Mapping[PoolId, PoolUse]):
    """A mapping with some entries replaced, or (None) without them."""

    def __init__(self, pools: Mapping[PoolId, PoolUse], instead: Mapping[PoolId, PoolUse | None]) -> None:
        self._pools: Final = pools
        self._instead: Final = instead

    def __getitem__(self, pool: PoolId) -> PoolUse:
        entry = self._instead[pool] if pool in self._instead else self._pools[pool]
        if entry is None:
            raise KeyError(pool)
        return entry

    def __iter__(self) -> Iterator[PoolId]:
        yield from (pool for pool in self._pools if pool not in self._instead)
        yield from (pool for pool, entry in self._instead.items() if entry is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def only_devices(ledger: Ledger, devices: Iterable[DeviceId], wanted: Collection[DeviceId]) -> SupposedUse:
    """The ledger as if everything of `devices` but what is `wanted` were in use."""
    others = tuple(DeviceResult("", *device) for device in devices if device not in wanted)
    return SupposedUse(ledger, taken=(Allocation(others),))


def _state(entry: PoolUse | None) -> tuple[PoolUse | None, int]:
    """Compares by identity: entries have no equality of their own."""
    return entry, entry.version if entry is not None else 0


def _copy(ledger: Ledger, pools: Iterable[PoolId]) -> InUse:
    copy = InUse(consumable_capacity=ledger.consumable_capacity)
    for pool in pools:
        entry = ledger.pools.get(pool)
        if entry is not None:
            copy.put_copy(pool, entry)
    return copy
