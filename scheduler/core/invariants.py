"""Invariants: what must hold between any two inputs, checked over the whole state.

Checked are
  1. node sums equal a recount of the pods that are bound or assumed;
  2. what each claim counts equals what its observed allocation and its hold say; `in_use` and the index of claims by
     device equal a rebuild;
  3. every hold and every assumed pod belongs to a binding cycle, or (assumed only) to a binding the server accepted;
     volumes and claims are seen as they are held;
  4. every pod of ours that is not bound is in one place of the queue, and in a binding cycle exactly when in flight;
  5. every indexed waiting pod is where its index says, and can be woken;
  6. remembered verdicts are filed where they are looked for;
  7. every binding cycle waits for something that will come;
  8. who is being made room for waits, is nominated there, and is tried once all the room is there; what is outstanding
     is so, and no nomination is kept that no record knows.

Cost: O(state). Not here: comparing remembered verdicts with fresh ones (`feasibility`, `is_paranoid`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from allocator import DeviceId, InUse
from scheduler.core.binding.binding import Stage
from scheduler.core.binding.binding_cycle import BindingCycles
from scheduler.core.counting.question_counts import PodCount
from scheduler.core.counting.term_counts import TermCount
from scheduler.core.ground.fair_places import FairPlaces
from scheduler.core.preempting.preemption_records import Record
from scheduler.core.preempting.preemptions import Preemptions
from scheduler.core.queue.queued_pod import Place
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.state.double_allocations import held_devices
from scheduler.core.state.ground import Ground, Part
from scheduler.core.state.store import Store, claims_of
from scheduler.core.trying.feasibility import Feasibility
from scheduler.core.trying.signature_record import SignatureRecord
from scheduler.core.writes.claim_writes import ClaimWrites
from scheduler.model.device_taint_rules import with_rule_taints
from scheduler.model.keys import ClaimKey, ClaimUid, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.special_claim import is_provisional


class InvariantError(AssertionError):
    """The state contradicts itself; the text lists how."""


class Invariants(Part):
    """Looks at every part of the core and changes nothing."""

    def __init__(
        self,
        ground: Ground,
        *,
        queue: SchedulingQueue,
        binding_cycles: BindingCycles,
        preemptions: Preemptions,
        writes: ClaimWrites,
        feasibility: Feasibility,
        places: FairPlaces,
        scheduler_names: frozenset[str],
    ) -> None:
        super().__init__(ground)
        self._queue: Final = queue
        self._bindings: Final = binding_cycles.bindings
        self._waits: Final = binding_cycles.waits
        self._records: Final = preemptions.records
        self._writes: Final = writes
        self._feasibility: Final = feasibility
        self._places: Final = places
        self._scheduler_names: Final = scheduler_names

    def check(self) -> None:
        """Raise InvariantError with everything that is wrong."""
        problems = [
            *self._node_problems(),
            *self._count_problems(),
            *self._claim_problems(),
            *self._pod_problems(),
            *self._slice_problems(),
            *self._queue_problems(),
            *self._binding_problems(),
            *self._volume_problems(),
            *self._place_problems(),
            *self._preemption_problems(),
        ]
        for _, record in self._feasibility.records():
            problems.extend(_record_problems(record, self._store))
        if problems:
            raise InvariantError("\n".join(problems))

    def _place_problems(self) -> Iterator[str]:
        held, taken = self._outbox.places_held(), self._places.taken()
        if held != taken:
            yield f"places are taken by {taken}, requests are under way for {dict(held)}"

    def _node_problems(self) -> Iterator[str]:
        store = self._store
        for name, info in store.node_infos.items():
            rebuilt = NodeInfo(info.node)
            for uid, pod in store.pods.items():
                if not pod.is_terminal and (pod.node_name or store.assumed.get(uid)) == name:
                    rebuilt.add_pod(store.as_counted(pod))
            if rebuilt.pods != info.pods:
                yield f"node {name}: counts pods {sorted(info.pods)}, should be {sorted(rebuilt.pods)}"
            if rebuilt.likenesses != info.likenesses or rebuilt.pod_terms != info.pod_terms:
                yield f"node {name}: counts other labels or terms than its pods have"
            if rebuilt.used_ports != info.used_ports:
                yield f"node {name}: counts ports {info.used_ports}, should be {rebuilt.used_ports}"
            if rebuilt.claim_users != info.claim_users:
                yield f"node {name}: counts users of claims {info.claim_users}, should be {rebuilt.claim_users}"
            if rebuilt.requested != info.requested or rebuilt.scoring_requested != info.scoring_requested:
                yield f"node {name}: requested {info.requested}, should be {rebuilt.requested}"
        placed = [pod.priority for uid, pod in store.pods.items() if store.node_of(uid) is not None]
        if store.priorities.lowest != min(placed, default=None):
            yield f"the lowest priority is {store.priorities.lowest}, should be {min(placed, default=None)}"
        if list(store.node_order) != sorted(store.node_infos):
            yield "node_order is not the sorted node names"

    def _count_problems(self) -> Iterator[str]:
        store = self._store
        answers: tuple[PodCount | TermCount, ...] = (*store.pod_counts.answers(), store.pod_counts.terms())
        for answer in answers:
            versions = itertools.count()
            fresh = PodCount(answer.question, versions) if isinstance(answer, PodCount) else TermCount(versions)
            for name, info in store.node_infos.items():
                fresh.recount(name, info)
            if fresh.counted != answer.counted:
                yield f"pod counts: {answer.counted}, should be {fresh.counted}"

    def _slice_problems(self) -> Iterator[str]:
        store = self._store
        rules = store.tainted.rules.values()
        for name, slice_ in store.inventory.slices.items():
            rebuilt = with_rule_taints(store.tainted.published(name), rules)
            if [device.taints for device in rebuilt.devices] != [device.taints for device in slice_.devices]:
                yield f"slice {name}: its devices are not tainted as the rules {sorted(store.tainted.rules)} say"

    def _claim_problems(self) -> Iterator[str]:
        store, overlay = self._store, self._overlay
        for uid in {**store.claims, **overlay.holds, **overlay.counted}:
            counted, wanted = overlay.counted.get(uid, ()), overlay.wanted(uid)
            if [tuple(one.device_ids()) for one in counted] != [tuple(one.device_ids()) for one in wanted]:
                yield f"claim {uid}: counts {counted}, should be {wanted}"
        rebuilt = InUse(
            (allocation for allocations in overlay.counted.values() for allocation in allocations),
            consumable_capacity=store.features.consumable_capacity,
        )
        if rebuilt != overlay.in_use:
            yield "in_use differs from a rebuild"
        holders: dict[DeviceId, dict[ClaimUid, bool]] = {}
        for uid, allocations in overlay.counted.items():
            for device, is_whole in held_devices(allocations, has_shares=store.features.consumable_capacity).items():
                holders.setdefault(device, {})[uid] = is_whole
        if holders != overlay.double_allocations.holders:
            yield "the index of claims by device differs from a rebuild"
        for uid, hold in overlay.holds.items():
            if hold.pod not in self._bindings:
                yield f"claim {uid} is held for pod {hold.pod}, which is not being bound"
            if uid not in store.claims and not is_provisional(uid):
                yield f"claim {uid} is held but gone"
        users = {key: set(pods) for key, pods in store.claim_users().items()}
        expected: dict[object, set[object]] = {}
        for pod_uid, pod in store.pods.items():
            for key in claims_of(pod):
                expected.setdefault(key, set()).add(pod_uid)
        if users != expected:
            yield "the index of pods by claim differs from a rebuild"

    def _volume_problems(self) -> Iterator[str]:
        yield from self._volumes.problems()
        for key, hold in self._volumes.holds.items():
            if hold.pod not in self._bindings:
                yield f"{type(hold.held).__name__} {key} is held for pod {hold.pod}, which is not being bound"

    def _pod_problems(self) -> Iterator[str]:
        store, queue, bindings = self._store, self._queue, self._bindings
        for uid, pod in store.pods.items():
            is_ours = pod.spec.scheduler_name in self._scheduler_names and pod.node_name is None
            is_wanted = is_ours and not pod.is_terminal and not pod.is_deleting
            if is_wanted and uid not in queue and uid not in store.assumed:
                yield f"pod {pod.key} is lost: neither queued nor assumed"
        for uid in store.assumed:
            if uid not in store.pods:
                yield f"pod {uid} is assumed but gone"
            elif uid in queue and uid not in bindings:
                yield f"pod {uid} is assumed and queued, but not being bound"
        for queued in queue.all():
            is_flying = queued.place is Place.IN_FLIGHT
            if is_flying != (queued.uid in bindings):
                yield f"pod {queued.pod.key} is {queued.place.value}, being bound: {queued.uid in bindings}"
            if queued.uid not in store.pods and not is_flying:
                yield f"pod {queued.pod.key} is queued but gone"

    def _queue_problems(self) -> Iterator[str]:
        for queued in self._queue.all():
            waits = queued.place in (Place.UNSCHEDULABLE, Place.GATED)
            if waits and not self._queue.waiting.can_be_woken(queued):
                yield f"pod {queued.pod.key} waits and nothing can wake it"
        for group in self._queue.waiting.groups():
            if not group.members and group.leader is None:
                yield f"group {group.signature} is empty"
            if group.members and group.first() is None:
                yield f"group {group.signature} has members but none to wake"
            leader = group.leader
            if leader is not None and (leader.group is not group or self._queue.find(leader.uid) is not leader):
                yield f"group {group.signature} is led by {leader.pod.key}, which does not know or is gone"
            if leader is not None and leader.place in (Place.UNSCHEDULABLE, Place.GATED):
                yield f"group {group.signature} is led by {leader.pod.key}, which waits itself"

    def _binding_problems(self) -> Iterator[str]:
        awakened = self._waits.by_claim()
        for binding in self._bindings.values():
            key = binding.pod.key
            if binding.awaited < 0:
                yield f"pod {key}: {binding.awaited} answers awaited"
            waits = (
                binding.awaited
                or binding.timer is not None
                or binding.awakened_by
                or binding.awaits_revision is not None
            )
            if not waits and binding.stage is not Stage.BIND:
                yield f"pod {key}: binding cycle in {binding.stage.value} waits for nothing"
            for claim in binding.awakened_by:
                if binding.pod.uid not in awakened.get(claim, {}):
                    yield f"pod {key}: waits for claim {claim}, which does not know"
        for write in self._writes.pending():
            for owner, _ in write.senders:
                if owner is not None and owner not in self._bindings:
                    yield f"write on {write.decision.claim} belongs to pod {owner}, which is not being bound"

    def _preemption_problems(self) -> Iterator[str]:
        store, nominations = self._store, self._store.nominations
        if nominations.preempting.keys() != {record.uid for record in self._records}:
            yield "preemption: what is reported of it is not what is recorded"
        yield from self._awaited_problems()
        for record in self._records:
            key, queued = record.pod.key, self._queue.find(record.uid)
            is_placed = record.uid in self._bindings or record.uid in store.assumed
            if record.placed_on is not None:
                if not is_placed or not record.is_outstanding or record.given:
                    yield f"preemption: the record for pod {key}, which was placed on {record.placed_on}, is not over"
            elif queued is None or is_placed:
                yield f"preemption: room is being made for pod {key}, which does not wait"
            elif nominations.node_of(record.uid) != record.node:
                yield f"preemption: pod {key} is nominated for {nominations.node_of(record.uid)}, not {record.node}"
            elif self._is_ready(record) and all(
                one is None or one.place in (Place.UNSCHEDULABLE, Place.GATED)
                for one in map(self._queue.find, record.group or (record.uid,))
            ):
                yield f"preemption: the room for pod {key} is there, and it is not tried"
            reported = nominations.preempting.get(record.uid)
            if reported is not None and {one.uid for one in reported.victims} != record.victims.keys():
                yield f"preemption: of the victims for pod {key} others are reported than recorded"
            for uid in record.victims:
                victim = store.pods.get(uid)
                node = None if victim is None or victim.is_terminal else victim.node_name or store.assumed.get(uid)
                expected = record.elsewhere.get(uid, record.node)
                if node != expected and uid not in self._bindings and record.is_stored:
                    yield f"preemption: victim {uid} for pod {key} is on {node}, not {expected}"
            for held in record.claims.values():
                if record.is_stored and self._records.is_released(record, held):
                    yield f"preemption: claim {held.claim} for pod {key} is released"

    def _is_ready(self, record: Record) -> bool:
        return self._records.is_stored(record) and not self._records.is_outstanding(record)

    def _awaited_problems(self) -> Iterator[str]:
        nominations, records = self._store.nominations, self._records
        awaited = {key: set(waiting) for key, waiting in nominations.awaited.items()}
        recorded: dict[ClaimKey, set[PodUid]] = {}
        for record in records:
            for claim in record.claims:
                recorded.setdefault(claim, set()).add(record.uid)
        if awaited != recorded:
            yield "preemption: of who waits for which claim something else is reported than recorded"
        for held in nominations.given_away.values():
            if not records.is_as_recorded(held):
                yield f"preemption: claim {held.claim} has lost what it was waited for"


def _record_problems(record: SignatureRecord, store: Store) -> Iterator[str]:
    filed = {
        name: (facts, vector)
        for facts, group in record.groups.items()
        for vector, bucket in group.buckets.items()
        for name in bucket
    }
    if filed != {name: (fit.facts, fit.vector) for name, fit in record.fits.items()}:
        yield "remembered: buckets differ from the nodes that fit"
    behind = {
        name: facts for facts, group in record.groups.items() for name in (*group.aside, *group.rejected.statuses)
    }
    if behind != record.behind:
        yield "remembered: nodes set aside or rejected late are not where they are looked for"
    if len({**record.fits, **record.behind, **record.rejected.statuses}) != record.size:
        yield "remembered: a node is in two places"
    for facts, group in record.groups.items():
        if not group.size or group.fits != sum(map(len, group.buckets.values())):
            yield f"remembered: the group of {facts} counts {group.fits} nodes that fit"
    for rejections in (record.rejected, *(group.rejected for group in record.groups.values())):
        reasons: dict[str, int] = {}
        for status in rejections.statuses.values():
            for reason in status.reasons:
                reasons[reason] = reasons.get(reason, 0) + 1
        if reasons != rejections.reasons:
            yield f"remembered: reasons {rejections.reasons}, should be {reasons}"
    if record.position > store.changes.position:
        yield "remembered: has read more changes than there are"
