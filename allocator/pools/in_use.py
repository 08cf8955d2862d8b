"""The ledger of what allocations hold: devices, shares of devices, consumed capacity.

Rules of this module
  1. `remove(a)` after `add(a)` leaves a ledger that compares equal to the one before.
  2. Results with admin access hold nothing.
  3. Keys are complete: driver, pool and device.

Readers compute masks and available counters from a pool's entry and keep them until its version changes, so a search
never copies the ledger, and never visits a pool of which nothing is held.

Cost: `add` and `remove` O(results). Not here: what a search picks (`search`).

Source: k8s.io/kubernetes dynamicresources/allocateddevices.go (`foreachAllocatedDevice`) 1.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import Final, Protocol

from allocator.requests.capacity import own_amounts
from allocator.values.model import Allocation, DeviceId, DeviceResult, PoolId
from cel.quantity import Quantity

_LOG_MAX: Final = 4096
"""Changes that are remembered; a reader that has fallen further behind looks at everything again."""

_SERIALS: Final = count()


def next_serial() -> int:
    """Of a ledger; given once."""
    return next(_SERIALS)


class PoolUse:
    """What is held of one pool. Read it; only `InUse` changes it.

    Attributes:
        dedicated: Device name -> how many allocations hold the whole device (more than 1 is a conflict).
        shares: Device name -> share id -> how many allocations hold that share.
        consumed: Device name -> capacity name, without its driver's -> sum of what shares consume, in units of 10^-9.
        consumers: Device name -> number of shares that recorded a consumption.
        version: Grows with every change of this entry.
        least: What counts as held at least, whatever this entry says; see `supposed_use`.
    """

    __slots__ = ("consumed", "consumers", "dedicated", "least", "shares", "version")

    def __init__(self) -> None:
        self.dedicated: Final[dict[str, int]] = {}
        self.shares: Final[dict[str, dict[str, int]]] = {}
        self.consumed: Final[dict[str, dict[str, int]]] = {}
        self.consumers: Final[dict[str, int]] = {}
        self.version = 0
        self.least: PoolUse | None = None

    def holds(self, device: str) -> bool:
        """Whether any allocation holds the device or a share of it (IsDeviceAllocated)."""
        return device in self.dedicated or device in self.shares or device in self.consumers

    def held(self) -> set[str]:
        """Names of the devices of which anything is held."""
        return {*self.dedicated, *self.shares, *self.consumers}

    def _is_empty(self) -> bool:
        return not (self.dedicated or self.shares or self.consumers)

    def _state(self) -> tuple[object, ...]:
        return self.dedicated, self.shares, self.consumed, self.consumers


class Ledger(Protocol):
    """What searches read.

    Attributes:
        serial: Tells ledgers apart, for caches.
        revision: Grows by one with every change.
        is_supposed: Whether it says what is, or what is supposed for a question (`supposed_use`).
    """

    @property
    def serial(self) -> int: ...
    @property
    def revision(self) -> int: ...
    @property
    def is_supposed(self) -> bool: ...
    @property
    def consumable_capacity(self) -> bool: ...
    @property
    def pools(self) -> Mapping[PoolId, PoolUse]:
        """What is held, by pool; pools of which nothing is held are absent."""
        ...

    def changed_since(self, revision: int) -> tuple[int, Collection[PoolId] | None]:
        """The present revision, and the pools that changed since an earlier one; None when that is forgotten."""
        ...

    def is_dedicated(self, device: DeviceId) -> bool:
        """Whether an allocation holds the whole device."""
        ...


class InUse:
    """Devices held by allocations. Compares by content.

    With `consumable_capacity` off a result with a share id holds the whole device, as upstream has it.
    """

    is_supposed: Final = False

    def __init__(self, allocations: Iterable[Allocation] = (), *, consumable_capacity: bool = True) -> None:
        self.consumable_capacity: Final = consumable_capacity
        self._pools: Final[dict[PoolId, PoolUse]] = {}
        self._log: Final[list[PoolId]] = []
        self._log_start = 0
        self.serial: Final = next_serial()
        self.revision = 0
        for allocation in allocations:
            self.add(allocation)

    def add(self, allocation: Allocation) -> tuple[DeviceId, ...]:
        """Take note of an allocation.

        Returns:
            Devices that another allocation already holds as a whole: a double allocation that happened
            elsewhere. They are counted all the same, so `remove` stays exact.
        """
        conflicts = []
        for result in allocation.results:
            if result.admin_access:
                continue
            if self._is_share(result):
                self.add_share(result.device_id, result.share_id or "", result.consumed_capacity)
            elif not self.add_device(result.device_id):
                conflicts.append(result.device_id)
        return tuple(conflicts)

    def remove(self, allocation: Allocation) -> None:
        """Take back an `add` of an equal allocation.

        Raises:
            ValueError: the allocation was never added; the ledger would lie from here on.
        """
        for result in allocation.results:
            if result.admin_access:
                continue
            if self._is_share(result):
                self.remove_share(result.device_id, result.share_id or "", result.consumed_capacity)
            else:
                self.remove_device(result.device_id)

    def _is_share(self, result: DeviceResult) -> bool:
        return self.consumable_capacity and result.share_id is not None

    def add_device(self, device: DeviceId) -> bool:
        """Hold a whole device; False when something else holds the whole device already."""
        pool = self._changing(device.pool_id)
        count = pool.dedicated.get(device.device, 0) + 1
        pool.dedicated[device.device] = count
        return count == 1

    def remove_device(self, device: DeviceId) -> None:
        """Take back `add_device`. Raises ValueError when it is not held."""
        pool = self._changing(device.pool_id)
        try:
            _decrement(pool.dedicated, device.device, device)
        finally:
            self._forget_if_empty(device.pool_id, pool)

    def add_share(self, device: DeviceId, share_id: str, consumed: Iterable[tuple[str, Quantity]] = ()) -> None:
        """Hold a share of a device and what it consumes; the whole device where an amount is below zero.

        Nobody knows then what is left of it.
        """
        amounts = own_amounts(device.driver, consumed)
        if any(amount.nano < 0 for amount in amounts.values()):
            self.add_device(device)
            return
        pool = self._changing(device.pool_id)
        shares = pool.shares.setdefault(device.device, {})
        shares[share_id] = shares.get(share_id, 0) + 1
        if amounts:
            pool.consumers[device.device] = pool.consumers.get(device.device, 0) + 1
            total = pool.consumed.setdefault(device.device, {})
            for name, amount in amounts.items():
                _add_amount(total, name, amount.nano)

    def remove_share(self, device: DeviceId, share_id: str, consumed: Iterable[tuple[str, Quantity]] = ()) -> None:
        """Take back `add_share` with the same arguments. Raises ValueError when it is not held."""
        amounts = own_amounts(device.driver, consumed)
        if any(amount.nano < 0 for amount in amounts.values()):
            self.remove_device(device)
            return
        pool = self._changing(device.pool_id)
        shares = pool.shares.get(device.device, {})
        try:
            _decrement(shares, share_id, device)
            if not shares:
                del pool.shares[device.device]
        finally:
            self._forget_if_empty(device.pool_id, pool)
        if amounts:
            _decrement(pool.consumers, device.device, device)
            total = pool.consumed[device.device]
            for name, amount in amounts.items():
                _add_amount(total, name, -amount.nano)
            if device.device not in pool.consumers:
                del pool.consumed[device.device]
            self._forget_if_empty(device.pool_id, pool)

    def _changing(self, pool_id: PoolId) -> PoolUse:
        self.revision += 1
        if len(self._log) >= _LOG_MAX:
            self._log_start += len(self._log)
            self._log.clear()
        self._log.append(pool_id)
        pool = self._pools.get(pool_id)
        if pool is None:
            pool = self._pools[pool_id] = PoolUse()
        pool.version += 1
        return pool

    def _forget_if_empty(self, pool_id: PoolId, pool: PoolUse) -> None:
        if pool._is_empty():
            self._pools.pop(pool_id, None)

    def changed_since(self, revision: int) -> tuple[int, Collection[PoolId] | None]:
        """The present revision, and the pools that changed since an earlier one; None when that is forgotten."""
        if revision < self._log_start:
            return self.revision, None
        return self.revision, set(self._log[revision - self._log_start :])

    @property
    def pools(self) -> Mapping[PoolId, PoolUse]:
        """What is held, by pool; pools of which nothing is held are absent."""
        return self._pools

    def is_dedicated(self, device: DeviceId) -> bool:
        """Whether an allocation holds the whole device."""
        pool = self._pools.get(device.pool_id)
        return pool is not None and device.device in pool.dedicated

    def holds(self, device: DeviceId) -> bool:
        """Whether any allocation holds the device or a share of it."""
        pool = self._pools.get(device.pool_id)
        return pool is not None and pool.holds(device.device)

    def devices(self) -> Iterator[DeviceId]:
        """Every device of which anything is held, sorted."""
        for pool_id in sorted(self._pools):
            for name in sorted(self._pools[pool_id].held()):
                yield DeviceId(pool_id.driver, pool_id.pool, name)

    def copy(self) -> InUse:
        """An independent ledger with the same content; O(held devices)."""
        other = InUse(consumable_capacity=self.consumable_capacity)
        for pool_id, pool in self._pools.items():
            other.put_copy(pool_id, pool)
        return other

    def put_copy(self, pool_id: PoolId, pool: PoolUse) -> None:
        """Hold of a pool, of which nothing is held yet, what another ledger says."""
        twin = self._pools[pool_id] = PoolUse()
        twin.least = pool.least
        twin.dedicated.update(pool.dedicated)
        twin.consumers.update(pool.consumers)
        for name, shares in pool.shares.items():
            twin.shares[name] = dict(shares)
        for name, amounts in pool.consumed.items():
            twin.consumed[name] = dict(amounts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InUse):
            return NotImplemented
        return self._pools.keys() == other._pools.keys() and all(
            pool._state() == other._pools[pool_id]._state() for pool_id, pool in self._pools.items()
        )

    __hash__ = None  # type: ignore[assignment]  # a ledger changes


def _add_amount(total: dict[str, int], name: str, nano: int) -> None:
    """Zero is the same as absent, so that adding and removing leaves no trace."""
    amount = total.get(name, 0) + nano
    if amount:
        total[name] = amount
    else:
        total.pop(name, None)


def _decrement(counts: dict[str, int], key: str, device: DeviceId) -> None:
    count = counts.get(key, 0)
    if count == 0:
        raise ValueError(f"device {device}: {key!r} is not held, it cannot be released")
    if count == 1:
        del counts[key]
    else:
        counts[key] = count - 1
