"""The claim overlay: which devices are in use, by what the API server stores and by our own writes under way.

*Held* devices belong to an allocation that Reserve decided and that is not observed yet. A hold is *doubtful* while the
outcome of a write that carries it is unknown. In use is what is allocated or held.

Rules of this module
  1. What a claim counts follows from its observed allocation and its hold alone; nothing is added or taken by hand, so
     `in_use` equals a rebuild at any time (`invariants` checks it).
  2. An allocation that is observed and held counts once; when the observed one differs from the held one, both count.
  3. A hold ends when its allocation is observed, or when its pod gives up and no write that carries it can land any
     more (`claim_writes` and `binding_cycle` know when).
  4. All claims of the cluster count, whoever allocated them.
  5. Devices for a special claim that does not exist yet are held under its provisional uid. The hold goes over to the
     real uid in the step in which the claim is first observed; it counts all the time.

Cost: O(devices of the claim) for each change.

See docs/adr/0005-held-and-doubtful-writes.md, docs/adr/0014-hold-before-uid.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from allocator import Allocation, DeviceId, InUse, PoolId
from scheduler.core.ground.indexes import drop
from scheduler.core.state.double_allocations import DoubleAllocations
from scheduler.core.state.store import Store
from scheduler.model.claim import ResourceClaim
from scheduler.model.held import Held
from scheduler.model.keys import ClaimUid, PodUid
from scheduler.model.special_claim import stands_for

Footprint: TypeAlias = tuple[tuple[DeviceId, str | None], ...]


class Hold(Struct, frozen=True):
    """Devices of `held.allocation` are kept for `pod`."""

    held: Held
    pod: PodUid


class ClaimOverlay:
    """Devices in use, from observed claims and from holds."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self.in_use: Final = InUse(consumable_capacity=store.features.consumable_capacity)
        self.double_allocations: Final = DoubleAllocations(store, self.in_use)
        self._hold_by_claim: Final[dict[ClaimUid, Hold]] = {}
        self._holds_by_pod: Final[dict[PodUid, dict[ClaimUid, None]]] = {}
        self._counted: Final[dict[ClaimUid, tuple[Allocation, ...]]] = {}

    @property
    def holds(self) -> Mapping[ClaimUid, Hold]:
        return self._hold_by_claim

    @property
    def counted(self) -> Mapping[ClaimUid, tuple[Allocation, ...]]:
        return self._counted

    def is_held(self, claim: ClaimUid) -> bool:
        return claim in self._hold_by_claim

    def is_held_for(self, claim: ClaimUid, pod: PodUid, allocation: Allocation) -> bool:
        """Whether exactly this allocation is held for `pod`, so that it may be written."""
        hold = self._hold_by_claim.get(claim)
        return hold is not None and hold.pod == pod and is_same_taking(hold.held.allocation, allocation)

    def hold(self, pod: PodUid, helds: Iterable[Held]) -> None:
        """Count these allocations until they are observed or released. No claim may be held already."""
        for held in helds:
            assert held.uid not in self._hold_by_claim, f"claim {held.claim} is held twice"
            self._hold_by_claim[held.uid] = Hold(held, pod)
            self._holds_by_pod.setdefault(pod, {})[held.uid] = None
            self._count(held.uid)

    def release(self, pod: PodUid) -> tuple[Held, ...]:
        """End the holds of `pod`; devices that were held and are not allocated are free now."""
        released = []
        for claim in tuple(self._holds_by_pod.get(pod, ())):
            released.append(self._hold_by_claim[claim].held)
            self._drop(claim)
            self._count(claim)
        return tuple(released)

    def observe(self, claim: ResourceClaim) -> bool:
        """Bring the count in line with a claim that the store has just taken over.

        Returns:
            Whether the claim takes devices that were not counted for it before: somebody else allocated it.
        """
        self._take_over_provisional(claim)
        hold = self._hold_by_claim.get(claim.uid)
        allocation = claim.allocation
        if allocation is None:
            if claim.uid not in self._counted:
                return False
        elif hold is not None and is_same_taking(allocation, hold.held.allocation):
            self._drop(claim.uid)
        return self._count(claim.uid)

    def _take_over_provisional(self, claim: ResourceClaim) -> None:
        """A claim that was held before it had a uid has one now."""
        provisional = stands_for(claim) if self._hold_by_claim else None
        if provisional is None:
            return
        hold = self._hold_by_claim.get(provisional)
        if hold is None or hold.held.claim != claim.key:
            return
        self._drop(provisional)
        self._hold_by_claim[claim.uid] = Hold(Held(hold.held.claim, claim.uid, hold.held.allocation), hold.pod)
        self._holds_by_pod.setdefault(hold.pod, {})[claim.uid] = None
        # What is counted stays counted; `observe` brings it in line with what the claim says itself.
        self._counted[claim.uid] = self._counted.pop(provisional) + self._counted.get(claim.uid, ())
        self.double_allocations.recount(provisional, ())
        self.double_allocations.recount(claim.uid, self._counted[claim.uid])

    def forget(self, claim: ClaimUid) -> None:
        """The claim is gone from the store: nothing can be written to it any more."""
        if claim in self._hold_by_claim:
            self._drop(claim)
        self._count(claim)

    def wanted(self, claim: ClaimUid) -> tuple[Allocation, ...]:
        """What the claim should count, from store and hold alone."""
        observed = self._store.claims.get(claim)
        stored = observed.allocation if observed is not None else None
        hold = self._hold_by_claim.get(claim)
        if hold is None:
            return () if stored is None else (stored,)
        held = hold.held.allocation
        if stored is None:
            return (held,)
        return (stored,) if is_same_taking(stored, held) else (stored, held)

    def _drop(self, claim: ClaimUid) -> None:
        drop(self._holds_by_pod, self._hold_by_claim.pop(claim).pod, claim)

    def _count(self, claim: ClaimUid) -> bool:
        """Bring the count in line; whether the claim counts what it did not count before."""
        before = self._counted.get(claim, ())
        after = self.wanted(claim)
        if not before and not after:
            return False
        if len(before) == len(after) and all(map(is_same_taking, before, after)):
            return False
        if after:
            self._counted[claim] = after
        else:
            del self._counted[claim]
        for allocation in before:
            self.in_use.remove(allocation)
        for allocation in after:
            self.in_use.add(allocation)
        pools = {
            (result.driver, result.pool): None for allocation in (*before, *after) for result in allocation.results
        }
        for driver, pool in pools:
            self._store.touch_pool(PoolId(driver, pool))
        self.double_allocations.recount(claim, after)
        if not before:
            return True
        known = [footprint(allocation) for allocation in before]
        return any(footprint(allocation) not in known for allocation in after)


def is_same_taking(one: Allocation, other: Allocation) -> bool:
    """Whether both take the same devices and shares."""
    return one is other or footprint(one) == footprint(other)


def footprint(allocation: Allocation) -> Footprint:
    """What an allocation takes; two with the same footprint are the same taking, however they are written down."""
    return tuple((result.device_id, result.share_id) for result in allocation.results if not result.admin_access)
