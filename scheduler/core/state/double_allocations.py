"""Double allocations: devices, counters or capacity that two claims were given and only one of them can have.

Two of our own allocations are never in conflict: Reserve sees everything that is allocated or held. But the API server
does not check, so a scheduler beside ours that decides at the same moment can give away what ours gives away.

Rules of this module
  1. A claim's rivals follow from what the overlay counts (and, for counters and capacity, from the slices) alone.
     Results with admin access count for nothing, so they have no rivals.
  2. The rivals of a claim with a whole device are all other claims on it. The rivals of a share are the claims with the
     whole device, and all sharers when they consume more capacity than there is. The rivals of a partition are all
     claims that consume a counter which is overdrawn.
  3. Counters and capacity are checked only in pools in which an allocation of somebody else was found to overdraw
     (`review`), so that ordinary work costs nothing.

Not here: what follows from it (`device_conflicts`).

Cost: `recount` and `rivals` O(devices of the claim); `review` also O(devices of the pool) where that has counters.

See docs/adr/0010-several-schedulers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from allocator import (
    Allocation,
    DeviceId,
    InUse,
    PoolId,
    ResourceSlice,
    newest_slices,
    overdrawn_capacities,
    overdrawn_counters,
)
from scheduler.core.ground.indexes import drop
from scheduler.core.state.store import Store
from scheduler.model.keys import ClaimUid


class Rival(Struct, frozen=True):
    """Another claim that was given the same.

    Args:
        kind: "device", "counter" or "capacity", for metrics.
        what: The same for people, such as "device gpu.example.com/node-1/gpu-0".
    """

    claim: ClaimUid
    kind: str
    what: str


class DoubleAllocations:
    """Who holds which device, and who holds too much."""

    def __init__(self, store: Store, in_use: InUse) -> None:
        self._store: Final = store
        self._in_use: Final = in_use
        # For each device its claims, and whether one has it as a whole.
        self._holders: Final[dict[DeviceId, dict[ClaimUid, bool]]] = {}
        self._devices: Final[dict[ClaimUid, dict[DeviceId, bool]]] = {}
        self._suspects: Final[dict[PoolId, None]] = {}

    @property
    def holders(self) -> Mapping[DeviceId, Mapping[ClaimUid, bool]]:
        return self._holders

    def recount(self, claim: ClaimUid, allocations: Iterable[Allocation]) -> None:
        """Take note of all that `claim` counts now."""
        for device in self._devices.pop(claim, ()):
            drop(self._holders, device, claim)
        devices = held_devices(allocations, has_shares=self._store.features.consumable_capacity)
        if devices:
            self._devices[claim] = devices
            for device, is_whole in devices.items():
                self._holders.setdefault(device, {})[claim] = is_whole

    def rivals(self, claim: ClaimUid) -> tuple[Rival, ...]:
        """The claims that were given what this one was given, each once, in the order of its devices."""
        found: dict[ClaimUid, Rival] = {}
        for device, is_whole in self._devices.get(claim, {}).items():
            for other, is_other_whole in self._holders[device].items():
                if other != claim and (is_whole or is_other_whole):
                    found.setdefault(other, Rival(other, "device", f"device {device}"))
            if device.pool_id in self._suspects:
                for rival in self._overdrawing(claim, device):
                    found.setdefault(rival.claim, rival)
        return tuple(found.values())

    def review(self, claims: Sequence[ClaimUid]) -> None:
        """Check the pools of these claims, allocated by somebody else: is anything overdrawn there?"""
        pools = {device.pool_id: None for claim in claims for device in self._devices.get(claim, ())}
        for pool in {**pools, **self._suspects}:
            if self._is_overdrawn(pool):
                self._suspects[pool] = None
            else:
                self._suspects.pop(pool, None)

    def _is_overdrawn(self, pool: PoolId) -> bool:
        use = self._in_use.pools.get(pool)
        if use is None:
            return False
        slices = self._slices(pool)
        if any(overdrawn_capacities(slices, device, use) for device in use.consumed):
            return True
        return any(slice_.shared_counters for slice_ in slices) and bool(overdrawn_counters(slices, use))

    def _overdrawing(self, claim: ClaimUid, device: DeviceId) -> Iterator[Rival]:
        """Who, with `claim`, overdraws the device's capacity, or the pool's counters by its part of the device."""
        pool = device.pool_id
        use = self._in_use.pools.get(pool)
        if use is None:
            return
        slices = self._slices(pool)
        for capacity in overdrawn_capacities(slices, device.device, use):
            for other in self._holders[device]:
                if other != claim:
                    yield Rival(other, "capacity", f"capacity {capacity} of device {device}")
        for (counter_set, counter), consumers in overdrawn_counters(slices, use).items():
            if device.device not in consumers:
                continue
            what = f"counter {counter} of {counter_set} in pool {pool.driver}/{pool.pool}"
            for name in consumers:
                for other in self._holders.get(DeviceId(pool.driver, pool.pool, name), ()):
                    if other != claim:
                        yield Rival(other, "counter", what)

    def _slices(self, pool: PoolId) -> tuple[ResourceSlice, ...]:
        return newest_slices(self._store.inventory.slices_of_pool(pool).values(), self._store.features)


def held_devices(allocations: Iterable[Allocation], *, has_shares: bool) -> dict[DeviceId, bool]:
    """The devices that are held, and whether as a whole, in the order of the results."""
    devices: dict[DeviceId, bool] = {}
    for allocation in allocations:
        for result in allocation.results:
            if not result.admin_access:
                is_whole = result.share_id is None or not has_shares
                devices[result.device_id] = devices.get(result.device_id, False) or is_whole
    return devices
