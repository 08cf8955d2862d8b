"""The places that a search has found for the pods of a gang, and how they outlast a pause.

Rules of this module
  1. Between two inputs nothing is held. A pause gives everything back and keeps only where each pod had its place; the
     next turn takes these places again.
  2. A place is taken again only where the node has not changed since, for whatever a plugin reads of it.
  3. Assuming and releasing the same place between two reads leaves the node's id unchanged (`change_log`), so other
     pods' remembered verdicts stay valid.
  4. Room that others would have to leave is kept as the room of a pod that preempts is (`nominations`), within a turn.
  5. What pods elsewhere decide (spread, affinity) is judged once more when the search has ended well (`contradicted`).

Not here: finding places (`group_attempt`).

Cost: `take_again`, `pause` O(pods that have a place, and victims).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeAlias

from msgspec import Struct

from scheduler.core.queue.queued_pod import QueuedPod
from scheduler.core.state.ground import Ground
from scheduler.core.trying.attempt import NOWHERE, Placed
from scheduler.framework.api import ReserveResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.preemption import Preemption
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.objects import Pod
from scheduler.model.storage import volume_claims

_NOTHING: Final = ReserveResult(SUCCESS)
VolumesSeen: TypeAlias = tuple[tuple[str, int] | None, ...]


class Room(Struct, frozen=True):
    """A pod could have this place if others went.

    Args:
        place: With what it would be given.
    """

    place: Placed
    preemption: Preemption


class GroupPlaces:
    """Where the pods of one gang are, for one search.

    Attributes:
        by_pod: Pods that have a place, in the order in which they got it.
        rooms: Pods that could have a place if others went.
        shared: Claims that several pods use and one of these was given, as they will be.
        has_population_changed: Whether pods came or went in any pause.
        undone: Pods that had a place and lost it again, or that Reserve refused, each as it was last: what plugins
            have reserved for one that gets no place in the end is theirs to undo.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground: Final = ground
        self._store: Final = ground.store
        self._stakes: Final = ground.stakes
        self.by_pod: Final[dict[PodUid, Placed]] = {}
        self.rooms: Final[dict[PodUid, Room]] = {}
        self.shared: Final[dict[ClaimKey, ResourceClaim]] = {}
        self.undone: Final[dict[PodUid, Placed]] = {}
        self._volumes: Final[dict[PodUid, VolumesSeen]] = {}  # claims for them, as they were when a pod got its place
        self._begun = self._paused = self._given_back = (0, 0)
        self.has_population_changed = False

    # Turns

    def take_again(self) -> list[Placed]:
        """A turn begins. Gives the pods that have lost their place, or the room that others would leave."""
        self._begun = self._positions()
        if not (self.by_pod or self.rooms):
            return []
        noted = self._store.changes.since(self._given_back[0])
        changed = frozenset(noted) if noted is not None else None
        self.has_population_changed |= self._begun[1] != self._given_back[1]
        lost = [one for one in self.by_pod.values() if changed is None or not self._is_as_it_was(one, changed)]
        lost += self._that_rely_on(lost)
        is_void = changed is None or self.has_shared(lost)
        missed = [one.place for one in self.rooms.values() if is_void or not self._is_there(one, changed or NOWHERE)]
        for one in lost:
            self._forget(one)
            self.undone[one.queued.uid] = one
        for one in self.by_pod.values():
            self._stakes.put(one.queued.uid, one.node, one.reserved)
        for one in missed:
            self._forget_room(one.queued.uid)
        for room in self.rooms.values():
            self._nominate(room)
        here = {one.node for one in self.by_pod.values()} | {room.place.node for room in self.rooms.values()}
        self._note_revert(self._paused, here - {one.node for one in (*lost, *missed)})
        return lost + missed

    def _is_there(self, room: Room, changed: Container[NodeName]) -> bool:
        """Whether nothing has changed that decided about the room."""
        nodes = [self._store.node_of(one.uid) for one in room.preemption.victims]
        return self._is_as_it_was(room.place, changed) and all(node and node not in changed for node in nodes)

    def copied(self) -> GroupPlaces:
        """The same places, for questions after the search (`held`)."""
        copied = GroupPlaces(self._ground)
        copied.by_pod.update(self.by_pod)
        copied.shared.update(self.shared)
        copied._volumes.update(self._volumes)
        copied._paused, copied._given_back = self._positions(), self._begun
        return copied

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Meanwhile the pods have their places again; False: not all of them, as the cluster has changed."""
        lost = self.take_again()
        try:
            with self._ground.suppositions.claims(self._ground.view, tuple(self.shared.values())):
                yield not lost
        finally:
            self.pause()

    def _that_rely_on(self, lost: Sequence[Placed]) -> list[Placed]:
        """The others that may use a claim, or a volume, which one of these was given."""
        lost_pods = {one.queued.uid for one in lost}
        have_shared, have_volumes = self.has_shared(lost), any(one.reserved.volumes for one in lost)
        return [
            one
            for uid, one in self.by_pod.items()
            if uid not in lost_pods
            and (
                (have_shared and not self.shared.keys().isdisjoint(self._store.claims_of(uid)))
                or (have_volumes and one.queued.pod.spec.volumes)
            )
        ]

    def pause(self) -> None:
        """The turn is over: give everything back until the next."""
        self._paused = self._positions()
        for uid in self.by_pod:
            self._stakes.release(uid)
        for uid in self.rooms:
            self._withdraw(uid)
        self._note_revert(self._begun)
        self._given_back = self._positions()

    def end(self) -> None:
        """The search has ended, and nothing is held."""
        self._note_revert(self._begun)

    def _positions(self) -> tuple[int, int]:
        return self._store.changes.position, self._store.population.position

    def _note_revert(self, since: tuple[int, int], nodes: Container[NodeName] | None = None) -> None:
        for log, position in zip((self._store.changes, self._store.population), since, strict=True):
            log.revert(position, nodes)

    def _is_as_it_was(self, one: Placed, changed: Container[NodeName]) -> bool:
        pod, before = one.queued.pod, one.cycle.pod
        if one.node in changed or self._volumes_of(pod) != self._volumes[pod.uid]:
            return False
        if pod is not before and (
            pod.spec != before.spec
            or pod.metadata.labels != before.metadata.labels
            or pod.status.resource_claim_statuses != before.status.resource_claim_statuses
        ):
            return False
        if not all(map(self._ground.volumes.may_hold_again, one.reserved.volumes)):
            return False
        return not any(self._ground.overlay.is_held(held.uid) for held in one.reserved.held) and all(
            claim is None or (claim.uid == held.uid and claim.allocation is None)
            for held in one.reserved.held
            for claim in (self._store.claim(held.claim),)
        )

    def _volumes_of(self, pod: Pod) -> VolumesSeen:
        if not pod.spec.volumes:
            return ()
        claims = [self._store.storage.persistent_volume_claim(*key) for key in volume_claims(pod)]
        return tuple((one.metadata.uid, one.revision) if one is not None else None for one in claims)

    # Places

    def put(self, one: Placed) -> None:
        """The pod has a place that it had before."""
        self._stakes.put(one.queued.uid, one.node, one.reserved)
        self.add(one)

    def add(self, one: Placed) -> None:
        """The pod has been given this place."""
        self.by_pod[one.queued.uid] = one
        self._share(one)

    def make_room(self, room: Room) -> None:
        """The pod could have this place."""
        self.rooms[room.place.queued.uid] = room
        self._share(room.place)
        self._nominate(room)

    def _share(self, one: Placed) -> None:
        self._volumes[one.queued.uid] = self._volumes_of(one.queued.pod)
        for held in one.reserved.held:
            claim = self._store.claim(held.claim)
            if claim is not None and len(self._store.users_of(held.claim)) > 1:
                self.shared[held.claim] = replace(claim, allocation=held.allocation)

    def undo(self, ones: Iterable[Placed]) -> None:
        """These pods have no place any more."""
        for one in tuple(ones):
            self._stakes.release(one.queued.uid)
            self._forget(one)
            self.undone[one.queued.uid] = one

    def undo_all(self) -> None:
        """No pod has a place, or room, any more."""
        self.undo(self.by_pod.values())
        for uid in tuple(self.rooms):
            self._withdraw(uid)
            self._forget_room(uid)

    def _nominate(self, room: Room) -> None:
        uid = room.place.queued.uid
        self._store.nominations.preempting[uid] = room.preemption
        self._store.renominate(uid)

    def _withdraw(self, uid: PodUid) -> None:
        del self._store.nominations.preempting[uid]
        self._store.renominate(uid)

    def refused(self, queued: QueuedPod, cycle: Cycle, node: NodeName) -> None:
        """Reserve refused the pod there; plugins that were asked before may have reserved."""
        self.undone[queued.uid] = Placed(queued, cycle, node, _NOTHING)

    def on(self, node: NodeName) -> list[Placed]:
        """The pods that have a place on a node."""
        return [one for one in self.by_pod.values() if one.node == node]

    def has_shared(self, ones: Iterable[Placed]) -> bool:
        """Whether one of them was given a claim that others use too."""
        return any(held.claim in self.shared for one in ones for held in one.reserved.held)

    def _forget(self, one: Placed) -> None:
        del self.by_pod[one.queued.uid]
        self._unshare(one)

    def _forget_room(self, uid: PodUid) -> None:
        self._unshare(self.rooms.pop(uid).place)

    def _unshare(self, one: Placed) -> None:
        for held in one.reserved.held:
            self.shared.pop(held.claim, None)

    # What other nodes' pods decide

    def contradicted(self) -> Placed | None:
        """A pod whose place pods elsewhere do not allow any more; they came or went in a pause."""
        if not self.has_population_changed:
            return None
        begun = self._positions()
        for uid, one in self.by_pod.items():
            self._stakes.release(uid)
            passes = self._passes(one)
            self._stakes.put(uid, one.node, one.reserved)
            if not passes:
                return one
        self._note_revert(begun)
        return None

    def _passes(self, one: Placed) -> bool:
        """Whether what the pod's plugins read of other nodes allows its place, beside all others of the gang."""
        runner, view, node = one.queued.runner, self._ground.view, self._store.node_infos[one.node]
        cycle = Cycle(one.queued.pod, self._ground.timers.wall_ms)
        own = {held.claim for held in one.reserved.held}
        shared = tuple(claim for key, claim in self.shared.items() if key not in own)
        with self._ground.suppositions.claims(view, shared):
            filtered = runner.pre_filter(cycle, view)
            plan = runner.plan(cycle, view, filtered) if filtered.status is SUCCESS else filtered.status
            if isinstance(plan, Status):
                return False
            if not plan.fact_filters:
                return True
            facts = runner.facts(plan, cycle, node, view)
            return not isinstance(facts, Status) and all(
                runner.filter_fact(plugin, cycle, facts[place], view) is SUCCESS for place, plugin in plan.fact_filters
            )
