"""Devices that are kept for pods for which room is being made: nobody less important, or as important, gets them.

What is kept is what the dry run gave the pod on the node it is nominated for (`Preemption.given`). Until the victims'
claims are released, both count: what is there still is not free, and what will be there is kept.

Rules of this module
  1. A pod sees what is kept for pods of its priority or a higher one, never for itself.
  2. Devices that other nodes see too are kept on every node (*wide*); all others on the record's node.
  3. What is outstanding counts as long as it is allocated, or held, as recorded.

Not here: the records (`nominations.preempting`, written by `preemption_records`); how a pod finds its own devices again
(DynamicResources' Reserve).

Cost: O(records) for each cycle of a pod with claims while there are records; on a node O(records of that node).

Source: none upstream; see docs/adr/0026-preemption.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from msgspec import Struct

from allocator import (
    Allocation,
    AllocationError,
    SupposedUse,
    newest_slices,
    overdrawn_capacities,
    overdrawn_counters,
)
from scheduler.core.state.claim_overlay import ClaimOverlay, is_same_taking
from scheduler.core.state.store import Store
from scheduler.core.state.supposition import AS_THEY_ARE, SupposedDevices
from scheduler.framework.cycle import Cycle
from scheduler.framework.preemption import Preemption
from scheduler.model.held import Held
from scheduler.model.keys import ClaimUid, NodeName
from scheduler.model.objects import Pod
from scheduler.model.special_claim import asks_extended_resources


class _Wide(Struct, frozen=True):
    """In a cycle: the records that concern the pod on every node."""

    records: tuple[Preemption, ...]


_NONE: Final = _Wide(())


class KeptDevices:
    """What pods must leave to others."""

    def __init__(self, store: Store, overlay: ClaimOverlay) -> None:
        self._store: Final = store
        self._overlay: Final = overlay
        # By the identity of the record, with the revision of the inventory for which that was found out.
        self._is_wide: Final[dict[int, tuple[Preemption, int, bool]]] = {}

    def everywhere(self, cycle: Cycle) -> tuple[Preemption, ...]:
        """For whom devices that every node sees are kept from the cycle's pod."""
        return self._wide(cycle).records if self._store.nominations.preempting else ()

    def is_taken(self, record: Preemption) -> bool:
        """Whether not all that is kept will be there when what is outstanding is released: somebody has taken of it."""
        later = SupposedUse(
            self._overlay.in_use,
            taken=[held.allocation for held in record.given],
            released=list(self._outstanding([record])),
        )
        store = self._store
        pools = {result.device_id.pool_id for held in record.given for result in held.allocation.results}
        for pool in pools:
            use = later.pools.get(pool)
            if use is not None:
                newest = newest_slices(store.inventory.slices_of_pool(pool).values(), store.features)
                if (
                    any(count > 1 or device in use.shares for device, count in use.dedicated.items())
                    or overdrawn_counters(newest, use)
                    or any(overdrawn_capacities(newest, device, use) for device in use.consumed)
                ):
                    return True
        return False

    def from_pod(
        self, cycle: Cycle, node: NodeName, ahead: Iterable[Pod], released: Collection[Held] = ()
    ) -> SupposedDevices:
        """Devices on `node` that this pod must leave to nominated pods, assuming the claims in `released` are free.

        Args:
            ahead: Pods nominated for the node that are at least as important.
        """
        preempting = self._store.nominations.preempting
        if not preempting:
            return _only(released)
        records = [one for pod in ahead if (one := preempting.get(pod.uid)) is not None and one.node == node]
        records += [one for one in self._wide(cycle).records if one.node != node]
        taken = tuple([held.allocation for record in records for held in record.given])
        if not taken:
            return _only(released)
        freed = {held.uid for held in released}
        until = self._outstanding([record for record in records if record.given], but=freed)
        return SupposedDevices(taken, tuple([held.allocation for held in released]), tuple(until))

    def _outstanding(self, records: Iterable[Preemption], but: Collection[ClaimUid] = ()) -> Iterator[Allocation]:
        """What is still allocated, or held, as recorded; each claim once."""
        seen: set[ClaimUid] = set(but)
        for record in records:
            for held in record.released:
                claim = self._store.claim(held.claim)
                uid = claim.uid if claim is not None else held.uid
                if uid not in seen:
                    seen.add(uid)
                    for counted in self._overlay.counted.get(uid, ()):
                        if is_same_taking(counted, held.allocation):
                            yield counted

    def _wide(self, cycle: Cycle) -> _Wide:
        found = cycle.find(_Wide)
        if found is None:
            found = _Wide(self._find_wide(cycle.pod)) if _wants_devices(cycle.pod) else _NONE
            cycle.put(found)
        return found

    def _find_wide(self, pod: Pod) -> tuple[Preemption, ...]:
        store, priority = self._store, pod.spec.priority or 0
        if len(self._is_wide) > 2 * len(store.nominations.preempting) + 64:
            self._is_wide.clear()
        found = []
        for uid, record in store.nominations.preempting.items():
            is_waiting = store.nominations.node_of(uid) is not None  # else it has them already
            if uid != pod.uid and record.given and is_waiting and self._sees_every_node(record):
                other = store.pods.get(uid)
                if other is not None and (other.spec.priority or 0) >= priority:
                    found.append(record)
        return tuple(found)

    def _sees_every_node(self, record: Preemption) -> bool:
        inventory = self._store.inventory
        known = self._is_wide.get(id(record))
        if known is None or known[1] != inventory.revision:
            known = self._is_wide[id(record)] = record, inventory.revision, not self._is_of_node(record)
        return known[2]

    def _is_of_node(self, record: Preemption) -> bool:
        """Whether all that is kept are devices of the record's node alone."""
        info = self._store.node_infos.get(record.node)
        if info is None:
            return True
        try:
            pools = self._store.inventory.node_pools(info.host, self._store.features)
        except AllocationError:
            return True
        return all(
            result.admin_access or pools.is_own(result.device_id, record.node)
            for held in record.given
            for result in held.allocation.results
        )


def _only(released: Collection[Held]) -> SupposedDevices:
    return SupposedDevices(released=tuple([held.allocation for held in released])) if released else AS_THEY_ARE


def _wants_devices(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or asks_extended_resources(pod)
