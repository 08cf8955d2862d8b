"""For which pods room is being made, and what of it is not there yet.

Rules of this module
  1. A pod has at most one record, and with it a nomination for the record's node (`store.nominations`).
  2. Room for the pods of a group is one: what is outstanding for one of them is for all, and all must be nominated.
  3. `nominations.preempting` says of each what is outstanding: the victims that are still on the node, and the claims
     that are still allocated, or held, as recorded.

Not here: what happens to them (`preemptions`).

Cost: O(victims and claims of the record) for each that is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from allocator import PoolId
from scheduler.core.ground.indexes import drop
from scheduler.core.ground.inputs import WriteRejected
from scheduler.core.state.claim_overlay import ClaimOverlay, is_same_taking
from scheduler.core.state.store import Store
from scheduler.framework.preemption import Preemption
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.objects import Pod
from scheduler.model.special_claim import is_provisional


class Record(Struct, eq=False):
    """One pod for which room is being made on `node`.

    Args:
        pod: The preemptor, as it was when that was decided.
        victims: Those that are not gone from the node yet.
        claims: Those that are not released yet.
        given: The devices reserved for the preemptor.
        elsewhere: The nodes of victims that are not on `node`.
        group: All pods of its group for which room is made at once, itself too; empty for a pod by itself.
        placed_on: Where the pod has been placed before the room was there; it is not bound yet.
        is_stored: The API server has stored the nomination, so victims may be removed.
        is_recovered: The reservation lapsed for a while (a restart, or the pod was assumed elsewhere), so finding the
            devices taken is not counted as a failure.
        asked: Victims whose removal was asked for.
        awaited: How many of these removals are not settled.
        freeing: Claims that are being taken back, as nobody else would free them.
        refusal: Why a victim could not be removed.
    """

    pod: Pod
    node: NodeName
    victims: dict[PodUid, Pod]
    claims: dict[ClaimKey, Held]
    given: tuple[Held, ...]
    elsewhere: dict[PodUid, NodeName] = {}
    group: frozenset[PodUid] = frozenset()
    placed_on: NodeName | None = None
    is_stored: bool = False
    is_recovered: bool = False
    conflicts: int = 0
    asked: dict[PodUid, None] = {}
    awaited: int = 0
    freeing: dict[ClaimKey, None] = {}
    refusal: str = ""
    refused: WriteRejected | None = None

    @property
    def uid(self) -> PodUid:
        return self.pod.uid

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @property
    def is_outstanding(self) -> bool:
        """Whether something of the room on its node is not there yet."""
        return bool(self.victims or self.claims)


class PreemptionRecords:
    """All of them, by pod, by victim, by claim, and by pool of which something is kept."""

    def __init__(self, store: Store, overlay: ClaimOverlay) -> None:
        self._store: Final = store
        self._overlay: Final = overlay
        self._records: Final[dict[PodUid, Record]] = {}
        self._by_victim: Final = store.nominations.victims
        self._by_claim: Final = store.nominations.awaited
        self._by_pool: Final[dict[PoolId, dict[PodUid, Record]]] = {}

    def __bool__(self) -> bool:
        return bool(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def get(self, uid: PodUid) -> Record | None:
        return self._records.get(uid)

    def is_current(self, record: Record) -> bool:
        return self._records.get(record.uid) is record

    def of_group(self, record: Record) -> list[Record]:
        """The records of its group that are left, itself too; itself alone for a pod by itself."""
        if not record.group:
            return [record]
        return [
            one for uid in record.group if (one := self._records.get(uid)) is not None and one.group == record.group
        ]

    def is_stored(self, record: Record) -> bool:
        """Whether all of its group are nominated, so that victims may be removed."""
        return all(one.is_stored for one in self.of_group(record))

    def is_outstanding(self, record: Record) -> bool:
        """Whether something of the room for its group is not there yet."""
        return any(one.is_outstanding for one in self.of_group(record))

    def of_victim(self, uid: PodUid) -> tuple[Record, ...]:
        """The records of which the pod is a victim that is still there."""
        return tuple([self._records[one] for one in self._by_victim.get(uid, ())])

    def of_claim(self, key: ClaimKey) -> tuple[Record, ...]:
        """The records that wait for the claim's release."""
        return tuple([self._records[one] for one in self._by_claim.get(key, ())])

    def keeping_of(self, held: Iterable[Held]) -> tuple[Record, ...]:
        """The records that keep something of the pools of these allocations."""
        found = [record for pool in _pools(held) for record in self._by_pool.get(pool, {}).values()]
        return tuple({record.uid: record for record in found}.values())

    def add(self, record: Record) -> None:
        """The record's pod is nominated from here on."""
        assert record.uid not in self._records, f"pod {record.pod.key} has a record already"
        self._records[record.uid] = record
        for victim in record.victims:
            self._by_victim.setdefault(victim, {})[record.uid] = None
        for claim in record.claims:
            self._by_claim.setdefault(claim, {})[record.uid] = None
        for pool in _pools(record.given):
            self._by_pool.setdefault(pool, {})[record.uid] = record
        self._tell(record)

    def remove(self, record: Record) -> None:
        del self._records[record.uid]
        for victim in record.victims:
            drop(self._by_victim, victim, record.uid)
        for claim in record.claims:
            drop(self._by_claim, claim, record.uid)
        for pool in _pools(record.given):
            drop(self._by_pool, pool, record.uid)
        del self._store.nominations.preempting[record.uid]
        self._store.renominate(record.uid)

    def keep_nothing(self, record: Record) -> None:
        """What is kept for the record's pod is for everybody from here on."""
        for pool in _pools(record.given):
            drop(self._by_pool, pool, record.uid)
        record.given = ()
        self._tell(record)

    def victim_over(self, record: Record, uid: PodUid) -> None:
        """The victim is not on the node any more."""
        del record.victims[uid]
        drop(self._by_victim, uid, record.uid)
        self._tell(record)

    def claim_over(self, record: Record, key: ClaimKey) -> None:
        """The claim's recorded devices are free, or somebody else's."""
        del record.claims[key]
        drop(self._by_claim, key, record.uid)
        self._tell(record)

    def is_released(self, record: Record, held: Held) -> bool:
        """Whether the claim neither has the recorded allocation nor is about to get it, for those that are removed."""
        claim = self._store.claim(held.claim)
        if claim is not None and self.is_as_recorded(held):
            return any(self._stays(record, consumer.pod_uid) for consumer in claim.reserved_for)
        uids = {held.uid} if claim is None else {held.uid, claim.uid}
        holds = [hold for uid in uids if (hold := self._overlay.holds.get(uid)) is not None]
        return not any(
            is_same_taking(hold.held.allocation, held.allocation) and hold.pod in record.victims for hold in holds
        )

    def is_as_recorded(self, held: Held) -> bool:
        """Whether the claim still has what was recorded of it."""
        claim = self._store.claim(held.claim)
        return (
            claim is not None
            and claim.allocation is not None
            and (claim.uid == held.uid or is_provisional(held.uid))
            and is_same_taking(claim.allocation, held.allocation)
        )

    def _stays(self, record: Record, uid: PodUid | None) -> bool:
        """Whether a user of a claim is nobody who leaves, so that the claim is not released."""
        if uid is None:
            return True
        pod = self._store.pods.get(uid)
        return uid not in record.victims and pod is not None and not pod.is_deleting and not pod.is_terminal

    def _tell(self, record: Record) -> None:
        self._store.nominations.preempting[record.uid] = Preemption(
            record.node, tuple(record.victims.values()), 0, tuple(record.claims.values()), record.given
        )
        self._store.renominate(record.uid)


def _pools(helds: Iterable[Held]) -> dict[PoolId, None]:
    """The pools of which something is taken."""
    return {
        result.device_id.pool_id: None
        for held in helds
        for result in held.allocation.results
        if not result.admin_access
    }
