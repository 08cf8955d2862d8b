"""Pools that publish partitions in the place of devices that are still in use: their hardware is given out twice.

Nothing in the API says that partition gpu-0-half-0 is part of what device gpu-0 was. A claim that has gpu-0 keeps it,
the partitions are given to others, and every scheduler does so. All that can be done is to report it.

Rules of this module
  1. Reported once for each claim while it lasts: on claims that have a device which is gone from a pool of partitions,
     and on claims that have a partition of that pool meanwhile.
  2. Reported when a pod of ours uses at least one of these claims.
  3. Only complete pools count, as for the allocator; and not before everything has been listed.

Not here: what counts as gone (`allocator.vanished_devices`); devices that two claims have under one name
(`device_conflicts`).

Cost: a slice of a pool in use without counters O(slices of the pool), with counters O(its devices); an allocation O(its
devices), and O(devices of the pool) where one is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import Final

from allocator import DeviceId, PoolId, ResourceSlice, newest_slices, vanished_devices
from scheduler.core.state.ground import Ground, Part
from scheduler.framework.blame import told
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimUid

REASON: Final = "DeviceRepartitioned"


class RepartitionedPools(Part):
    """Finds them, and reports on the claims concerned."""

    def __init__(self, ground: Ground, scheduler_names: Container[str]) -> None:
        super().__init__(ground)
        self._scheduler_names: Final = scheduler_names
        self._is_listed = False
        self._pools: Final[dict[PoolId, None]] = {}  # in which a device is gone
        self._reported: Final[dict[ClaimUid, PoolId]] = {}

    @property
    def reported(self) -> Collection[ClaimUid]:
        """Claims that were reported on and are still concerned."""
        return self._reported.keys()

    def all_listed(self) -> None:
        """Everything that exists has been observed."""
        if not self._is_listed:
            self._is_listed = True
            for pool in self._overlay.in_use.pools:
                self._review(pool)

    def slice_changed(self, *slices: ResourceSlice | None) -> None:
        """A slice has come, gone, or taken the place of another."""
        if self._is_listed:
            for pool in {slice_.pool_id: None for slice_ in slices if slice_ is not None}:
                self._review(pool)

    def allocation_changed(self, old: ResourceClaim | None, new: ResourceClaim | None, *, is_foreign: bool) -> None:
        """A claim has been allocated, given its devices back, or is gone. Others may allocate what is gone."""
        if not self._is_listed or not (is_foreign or self._pools):
            return
        for claim in (old, new):
            allocation = claim.allocation if claim is not None else None
            pools = {device.pool_id: None for device in allocation.device_ids()} if allocation is not None else {}
            for pool in pools:
                if pool in self._pools or is_foreign:
                    self._review(pool)

    def _review(self, pool: PoolId) -> None:
        use = self._overlay.in_use.pools.get(pool)
        held = use.held() if use is not None else set()
        slices = newest_slices(self._store.inventory.slices_of_pool(pool).values(), self._store.features)
        gone = vanished_devices(slices, held)
        if gone is None:
            return
        if not gone:
            if self._pools.pop(pool, pool) is None:
                self._forget(pool, ())
            return
        self._pools[pool] = None
        partitions = [
            device.name
            for slice_ in slices
            for device in slice_.devices
            if device.consumes_counters and device.name in held
        ]
        losers, takers = self._holders(pool, gone), self._holders(pool, partitions)
        concerned = {**losers, **takers}
        self._forget(pool, concerned)
        if not any(self._is_ours(claim) for claim in concerned):
            return
        for uid, device in losers.items():
            self._report(pool, uid, _of_whole(device))
        for uid, device in takers.items():
            other, lost = next(iter(losers.items()))
            which = told("claim", self._store.claims[other].key, to=self._store.claims[uid].key.namespace)
            self._report(pool, uid, _of_partition(device, which, lost))

    def _holders(self, pool: PoolId, names: Iterable[str]) -> dict[ClaimUid, DeviceId]:
        """The stored claims that have one of these devices, each with the first of them."""
        found: dict[ClaimUid, DeviceId] = {}
        for name in names:
            device = DeviceId(*pool, name)
            for claim in self._overlay.double_allocations.holders.get(device, ()):
                stored = self._store.claims.get(claim)
                if stored is not None and stored.allocation is not None:
                    found.setdefault(claim, device)
        return found

    def _forget(self, pool: PoolId, concerned: Container[ClaimUid]) -> None:
        for claim in [one for one, where in self._reported.items() if where == pool and one not in concerned]:
            del self._reported[claim]

    def _is_ours(self, claim: ClaimUid) -> bool:
        key = self._store.claims[claim].key
        return any(pod.spec.scheduler_name in self._scheduler_names for pod in self._store.pods_using(key))

    def _report(self, pool: PoolId, claim: ClaimUid, note: str) -> None:
        if claim not in self._reported:
            self._reported[claim] = pool
            self._outbox.report_on_claim(self._store.claims[claim], REASON, "Scheduling", note)


def _of_whole(device: DeviceId) -> str:
    return (
        f"device {device}, which this claim has, is not published any more, and its pool publishes partitions: no "
        "scheduler knows which of them are this device, so its hardware can be given to other claims too. Change what "
        "a pool publishes only while its devices are idle (drain the node), or end the pods of this claim."
    )


def _of_partition(device: DeviceId, other: str, lost: DeviceId) -> str:
    return (
        f"this claim has {device}, and {other} still has {lost.device}, which the pool does not publish any more: both "
        "may be the same hardware. End the pods of one of them."
    )
