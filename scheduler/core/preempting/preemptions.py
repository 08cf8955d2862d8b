"""Preemption, carried out: the nomination, then the victims, and what is kept until the room is there and taken.

    decided ──> nomination stored ──> victims removed ──> gone, claims released ──> tried again ──> placed
       └────────────────┴─────────────────────┴──── dropped: gone, bound elsewhere, moved, refused, overtaken

Rules of this module
  1. The pod is nominated in memory at once. No victim is touched before the API server has stored the nomination,
     provided that the pod was still as it was observed: so a restart finds out for whom a victim was removed, and of
     two processes of one name only one goes on.
  2. Never a second set: while a victim is on the node (one on another node: not terminating yet), or a claim allocated
     as recorded, the pod preempts nobody. There is no time-out that leads to new victims. So a record that has victims
     outlasts the pod's being placed elsewhere, which may be undone; what was kept for the pod is free then, and no
     further victim is removed meanwhile.
  3. A victim of ours that is not bound yet gives up in memory, through the normal undo. It is over when nothing of it
     can land any more. Recorded allocations that are left without reservations, which nobody else would free, are taken
     back. A recorded claim that another pod has been given meanwhile is lost, and not waited for; until its allocation
     ends nobody is removed for it any more, or a controller's pods could be removed for it for ever.
  4. When the last of it is there the pod is tried, whatever its backoff. When it does not fit then, the room was taken:
     the record is dropped and counted, and the pod may preempt again after its backoff, not before.
  5. A removal that is refused ends the preemption: what was not sent is not sent, and the pod backs off.
  6. A pod of higher priority takes what is kept; then the record of the other one is dropped, and that pod tried again.
  7. Of a group all are nominated, those too that others need not leave for, before any victim is touched; it is tried
     when all of the room is there. If one cannot be nominated, none is; one that ends later leaves the rest as it is.
  8. What ends with a record is put to waiting pods as if a pod, and its devices, had left the node.

Not here: whom to remove (the plugin DefaultPreemption), the requests that remove a pod (`pod_removals`), records of an
earlier process (`preemption_recovery`), what is kept of devices (`dry_run`, the plugin DynamicResources).

Cost: O(victims and claims of one record) for each observation of one of them; nothing for other pods and claims.

Source: pkg/scheduler/framework/preemption/executor.go v1.36.3. Differs on purpose: rules 1, 2 (upstream: for
terminating pods, not for claims), 3 (claims) and 4, see docs/adr/0026-preemption.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from scheduler.core.binding.aftermath import Aftermath
from scheduler.core.binding.binding import Stage
from scheduler.core.binding.binding_cycle import BindingCycles
from scheduler.core.ground.core_settings import CONFIGURATION_RETRY_MS
from scheduler.core.ground.inputs import WriteRejected
from scheduler.core.ground.outbox import WriteAnswer
from scheduler.core.preempting.preemption_records import PreemptionRecords, Record
from scheduler.core.preempting.preemption_texts import announcement, given_up, preempted, refused
from scheduler.core.queue.queued_pod import Place
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.reports.pod_conditions import SCHEDULER_ERROR, PodConditions, Refusal
from scheduler.core.state.claim_overlay import footprint
from scheduler.core.state.ground import Ground, Part
from scheduler.core.writes.pending_writes import WriteOutcome, may_have_landed
from scheduler.core.writes.writers import Writers
from scheduler.framework.decisions import Decision, PatchPodStatus, WriteClaimStatus
from scheduler.framework.preemption import Preemption
from scheduler.framework.status import Status
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.objects import Pod


class Preemptions(Part):
    """All preemptions under way."""

    def __init__(
        self,
        ground: Ground,
        writers: Writers,
        *,
        queue: SchedulingQueue,
        binding_cycles: BindingCycles,
        conditions: PodConditions,
        aftermath: Aftermath,
    ) -> None:
        super().__init__(ground)
        self._queue: Final = queue
        self._bindings: Final = binding_cycles.bindings
        self._binding_cycles: Final = binding_cycles
        self._pod_writes: Final = writers.pods
        self._removals: Final = writers.removals
        self._writes: Final = writers.claims
        self._taking_back: Final = writers.taking_back
        self._conditions: Final = conditions
        self._aftermath: Final = aftermath
        self._tallies: Final = queue.tallies.preemptions
        self.records: Final = PreemptionRecords(ground.store, ground.overlay)

    # Beginning

    def begin(self, rooms: Iterable[tuple[Pod, Preemption]], why: Refusal) -> None:
        """Make room for a pod, or for those of a group, unless room is being made for one of them already (rule 2)."""
        rooms = tuple(rooms)
        group = frozenset([pod.uid for pod, _ in rooms])
        if any(self.records.get(uid) is not None for uid in group):
            return
        begun = [
            Record(
                pod,
                preemption.node,
                {one.uid: one for one in preemption.victims},
                {one.claim: one for one in preemption.released},
                preemption.given,
                elsewhere=self._elsewhere(preemption),
                group=group if len(group) > 1 else frozenset(),
            )
            for pod, preemption in rooms
        ]
        for record in begun:
            self.records.add(record)
        victims = {one.uid for _, preemption in rooms for one in preemption.victims}
        self._tallies.begun(len(victims), has_devices=any(preemption.released for _, preemption in rooms))
        for record in begun:
            if not self.records.is_current(record):
                continue  # the group has ended
            self._outbox.report_on_pod(record.pod, "Warning", "FailedScheduling", "Scheduling", why.message)
            self._clear_lower(record)
            self._nominate(record, why)

    def _elsewhere(self, preemption: Preemption) -> dict[PodUid, NodeName]:
        """Where the victims are that are on other nodes: pods of a gang that goes as a whole."""
        nodes = {one.uid: self._store.node_of(one.uid) for one in preemption.victims}
        return {uid: node for uid, node in nodes.items() if node is not None and node != preemption.node}

    def recover(self, record: Record) -> None:
        """Go on with what an earlier process has begun."""
        self.records.add(record)

    def _clear_lower(self, record: Record) -> None:
        """Pods of ours with lower priority that are nominated for the node may not fit any more: they look again."""
        for pod in self._store.nominations.behind(record.pod, record.node):
            if pod.uid not in self._queue:
                continue  # another scheduler's
            lower = self.records.get(pod.uid)
            if lower is not None:
                self._end(lower)
            else:
                self._clear(pod)
            self._queue.activate(pod.uid, self._timers.now_ms)

    def _nominate(self, record: Record, why: Refusal) -> None:
        pod = self._store.pods[record.uid]
        self._conditions.expect(pod.uid, why)
        nomination = PatchPodStatus(
            pod.key,
            pod.uid,
            why.reason,
            why.message,
            record.node,
            expect_revision=pod.metadata.revision,
            generation=pod.metadata.generation,
        )
        self._pod_writes.send(nomination, partial(self._nominated, record, why))

    def _nominated(self, record: Record, why: Refusal, outcome: WriteOutcome) -> None:
        if not self.records.is_current(record):
            return
        nominated = self._store.pods[record.uid].status.nominated_node_name
        if may_have_landed(outcome) and nominated == record.node:
            record.is_stored = True
            for one in self.records.of_group(record) if self.records.is_stored(record) else ():
                for uid in tuple(one.victims):
                    self._look(one, uid)
                self._look_if_current(one)
        elif isinstance(outcome, WriteRejected):
            self._fail(record, refused(record.pod, "nominated", outcome, to=record.pod.key.namespace), outcome)
        elif not nominated and record.conflicts < self._settings.conflicts_max:
            record.conflicts += 1
            self._nominate(record, why)
        else:  # by another process of our name, or whoever else nominates; or before, for what holds no more
            self._end(record, is_moved=True)
            self._queue.activate(record.uid, self._timers.now_ms)

    # Victims

    def _look(self, record: Record, uid: PodUid) -> None:
        """Do what is to be done with a victim, as it is now."""
        if not self.records.is_current(record) or uid not in record.victims:
            return
        pod, binding = self._store.pods.get(uid), self._bindings.get(uid)
        if binding is not None and binding.stage is not Stage.BIND:
            if (
                record.placed_on is None
                and self.records.is_stored(record)
                and not binding.is_given_up
                and not record.refusal
            ):
                self._give_up(record, binding.pod)
        elif pod is None or self._is_over(record, pod):
            self._victim_over(record, uid)
        elif (
            record.placed_on is None
            and self.records.is_stored(record)
            and not pod.is_deleting
            and uid not in record.asked
            and not record.refusal
        ):
            record.asked[uid] = None
            record.awaited += 1
            self._removals.remove(
                pod,
                announcement(record.pod),
                partial(self._is_wanted, record, uid),
                partial(self._removed, record, pod, self._note(record, pod)),
            )

    def _is_over(self, record: Record, pod: Pod) -> bool:
        """Whether a victim needs no more to be done or waited for. On another node it is enough that it is leaving."""
        elsewhere = record.elsewhere.get(pod.uid)
        is_there = (pod.node_name or self._store.assumed.get(pod.uid)) == (elsewhere or record.node)
        return pod.is_terminal or not is_there or (elsewhere is not None and pod.is_deleting)

    def _is_wanted(self, record: Record, uid: PodUid) -> bool:
        is_due = record.placed_on is None and not record.refusal
        return is_due and self.records.is_current(record) and uid in record.victims

    def _give_up(self, record: Record, pod: Pod) -> None:
        """A victim of ours that is not bound yet (rule 3)."""
        self._report(record, pod, self._note(record, pod, is_in_memory=True))
        self._tallies.removed["given up"] += 1
        failure = Status.unschedulable(given_up(record.pod, record.node, to=pod.key.namespace))
        self._binding_cycles.give_up_if_unsent(pod.uid, failure)

    def _removed(self, record: Record, pod: Pod, note: str, outcome: WriteOutcome) -> None:
        """By now the pod may be seen to be gone, and its place taken: `note` was made when it was still there."""
        record.awaited -= 1
        if record.placed_on is not None:
            record.asked.pop(pod.uid, None)  # it may not have been sent: it is asked again when the pod is not bound
        if may_have_landed(outcome):
            self._report(record, pod, note)
            self._tallies.removed["deleted"] += 1
        elif isinstance(outcome, WriteRejected) and not record.refusal:
            record.refusal = refused(pod, "deleted", outcome, to=record.pod.key.namespace)
            record.refused = outcome
        if record.refused is not None and not record.awaited and self.records.is_current(record):
            self._fail(record, record.refusal, record.refused)

    def _note(self, record: Record, victim: Pod, *, is_in_memory: bool = False) -> str:
        used = self._store.claims_of(victim.uid)
        devices = [one for key in used if (held := record.claims.get(key)) for one in held.allocation.device_ids()]
        to = victim.key.namespace
        return preempted(record.pod, record.node, devices, to=to, is_in_memory=is_in_memory)

    def _report(self, record: Record, victim: Pod, note: str) -> None:
        self._outbox.report_on_pod(victim, "Normal", "Preempted", "Preempting", note, related=record.pod)

    def _victim_over(self, record: Record, uid: PodUid) -> None:
        self.records.victim_over(record, uid)
        self._look_at_claims(record)

    # Claims

    def _look_at_claims(self, record: Record) -> None:
        """Take note of what is released; take back what nobody else would; try the pod when all of it is there."""
        for key, held in tuple(record.claims.items()):
            if self.records.is_released(record, held):
                self.records.claim_over(record, key)
                if self.records.is_as_recorded(held):
                    self._given_away(record, held)
            elif self._stored_for_nobody(record, key):
                self._free(record, key)
        if record.placed_on is not None and not record.is_outstanding:
            self._end(record)
        elif not self.records.is_outstanding(record) and self.records.is_stored(record):
            self._queue.activate(record.uid, self._timers.now_ms)
            queued = self._queue.find(record.uid)
            if queued is not None and queued.place is Place.GATED:
                self._end(record)  # it cannot be tried, and nobody knows when

    def _given_away(self, record: Record, held: Held) -> None:
        """The claim is another pod's by now (rule 3)."""
        if record.is_stored:
            self._store.nominations.given_away[held.claim] = held
        self._aftermath.claim_may_be_shared(held.claim)

    def _free(self, record: Record, key: ClaimKey) -> None:
        """Take back an allocation that a victim's attempt has left without reservations: nobody else would."""
        if key in record.freeing:
            return
        record.freeing[key] = None
        why = Refusal(SCHEDULER_ERROR, given_up(record.pod, record.node, to=key.namespace))
        derive = partial(self._stored_for_nobody, record, key)
        self._taking_back.prepare((key,), derive, why, partial(self._send_freeing, record, key))

    def _stored_for_nobody(self, record: Record, key: ClaimKey) -> Sequence[WriteClaimStatus]:
        claim, held = self._store.claim(key), record.claims.get(key)
        if claim is None or held is None or claim.reserved_for or claim.allocation is None:
            return ()
        if not self.records.is_stored(record):
            return ()
        if self._overlay.is_held(claim.uid) or self.records.is_released(record, held):
            return ()
        if any(self._bindings.stage_of(uid) is not None for uid in self._store.users_of(key)):
            return ()  # it may be reserved by now
        return (WriteClaimStatus(key, claim.uid, claim.revision, clear_allocation=True),)

    def _send_freeing(self, record: Record, key: ClaimKey, decisions: tuple[Decision, ...] | None) -> None:
        record.freeing.pop(key, None)
        if decisions is None:
            self._look_later(record)
        for decision in decisions or ():
            assert isinstance(decision, WriteClaimStatus)
            record.freeing[key] = None
            self._writes.send(decision, partial(self._freed, record, key))

    def _freed(self, record: Record, key: ClaimKey, outcome: WriteOutcome) -> None:
        record.freeing.pop(key, None)
        if isinstance(outcome, WriteRejected):
            self._look_later(record)
        else:
            self._look_if_current(record)

    def _look_later(self, record: Record) -> None:
        again_ms = self._timers.now_ms + CONFIGURATION_RETRY_MS
        self._timers.at(again_ms, partial(self._look_if_current, record))

    def _look_if_current(self, record: Record) -> None:
        if self.records.is_current(record):
            self._look_at_claims(record)

    # What is observed

    def pod_observed(self, old: Pod | None, pod: Pod) -> None:
        """A pod was observed anew; store, queue and binding cycles have taken that over."""
        record = self.records.get(pod.uid)
        if record is not None:
            if pod.node_name is not None or pod.is_deleting or pod.is_terminal:
                self._end(record)
            elif old is not None and self._has_moved(record, old, pod):
                self._end(record, is_moved=True)
                self._queue.activate(record.uid, self._timers.now_ms)
        self.victim_changed(pod.uid)
        self._claims_of_changed(pod.uid)  # which may be reserved for a pod that is observed only now

    def pod_deleted(self, uid: PodUid) -> None:
        record = self.records.get(uid)
        if record is not None:
            self._end(record)
        self.victim_changed(uid)

    def victim_changed(self, uid: PodUid) -> None:
        """The pod was observed anew, or is gone."""
        for record in self.records.of_victim(uid):
            self._look(record, uid)

    def pod_given_up(self, uid: PodUid) -> None:
        """The pod is not being bound any more, and nothing of it can land."""
        record = self.records.get(uid)
        if record is not None and record.placed_on is not None:
            record.placed_on, record.is_recovered = None, True
            for victim in tuple(record.victims):
                self._look(record, victim)
        self.victim_changed(uid)
        self._claims_of_changed(uid)

    def _claims_of_changed(self, uid: PodUid) -> None:
        if self.records:
            for key in self._store.claims_of(uid):
                self.claim_changed(key)

    def claim_changed(self, key: ClaimKey) -> None:
        """The claim was observed anew, is gone, or what was held for it is free."""
        given_away = self._store.nominations.given_away
        if key in given_away and not self.records.is_as_recorded(given_away[key]):
            del given_away[key]
        for record in self.records.of_claim(key):
            self._look_if_current(record)

    @staticmethod
    def _has_moved(record: Record, old: Pod, pod: Pod) -> bool:
        """Whether somebody has nominated the pod for another node, or for none, after our nomination was stored."""
        was, now = old.status.nominated_node_name, pod.status.nominated_node_name
        return record.is_stored and now not in (was, record.node)

    def budgets_listed(self, *, is_readable: bool) -> None:
        """Whether PodDisruptionBudgets can be read: while they cannot, nobody is preempted (DefaultPreemption)."""
        if not self._store.disruption_budgets.tell_readable(is_readable) or not is_readable:
            return
        lowest = self._store.priorities.lowest
        for queued in tuple(self._queue.all()):
            if lowest is not None and queued.place is Place.UNSCHEDULABLE and queued.pod.priority > lowest:
                self._queue.activate(queued.uid, self._timers.now_ms)

    # Ending

    def is_in_vain(self, uid: PodUid) -> bool:
        """Whether all the room is there and the pod, just tried, does not fit: its record is dropped then (rule 4)."""
        record = self.records.get(uid)
        if record is None or self.records.is_outstanding(record) or not self.records.is_stored(record):
            return False
        if not record.is_recovered:
            self._tallies.in_vain += 1
        for one in self.records.of_group(record):
            self._end(one)
        return True

    def not_placed(self, uid: PodUid) -> None:
        """The pod, just tried, cannot be placed for what no room would change: what is there for it is given up."""
        record = self.records.get(uid)
        if record is not None and self.records.is_stored(record) and not self.records.is_outstanding(record):
            self._end(record)

    def placed(self, pod: Pod, node: NodeName, held: Iterable[Held]) -> None:
        """The pod is assumed on `node` with these devices."""
        if not self.records:
            return
        held = tuple(held)
        record = self.records.get(pod.uid)
        if record is not None:
            record.placed_on = node
            if record.is_stored and record.is_outstanding:
                self._release(record, held)
                self.records.keep_nothing(record)
            else:
                self._end(record, held)
        for other in self.records.keeping_of(held):
            kept = self._store.nominations.preempting[other.uid]
            if other.priority < (pod.spec.priority or 0) and self._kept.is_taken(kept):
                self._end(other)
                self._queue.activate(other.uid, self._timers.now_ms)

    def _fail(self, record: Record, text: str, refusal: WriteRejected) -> None:
        """A request was refused (rule 5)."""
        delay_ms = CONFIGURATION_RETRY_MS if refusal.is_configuration else self._settings.backoff_ms_max
        self._end(record, delay_ms=delay_ms)
        pod = self._store.pods.get(record.uid)
        if pod is None or record.placed_on is not None:
            return
        self._queue.activate(record.uid, self._timers.now_ms, delay_ms=delay_ms)
        self._conditions.report(pod, Refusal(SCHEDULER_ERROR, text))

    def _end(self, record: Record, held: Sequence[Held] = (), *, is_moved: bool = False, delay_ms: int = 0) -> None:
        """Drop the record and the nomination.

        Args:
            held: The devices with which the pod has been placed.
            is_moved: Somebody else has nominated it, or for nothing.
            delay_ms: When the others of its group are tried again at the earliest.
        """
        others = [one for one in self.records.of_group(record) if one is not record]
        is_whole = self.records.is_stored(record)
        self.records.remove(record)
        pod = self._store.pods.get(record.uid)
        is_waiting = pod is not None and pod.node_name is None and not pod.is_deleting and not pod.is_terminal
        if is_waiting and record.placed_on is None and not is_moved:
            assert pod is not None
            self._clear(pod)
        self._release(record, held)
        for one in others if not is_whole else ():  # nobody has been removed yet, and the group would be too small
            if record.placed_on is None and self.records.is_current(one):
                self._end(one)
                self._queue.activate(one.uid, self._timers.now_ms, delay_ms=delay_ms)

    def _release(self, record: Record, held: Sequence[Held]) -> None:
        """What is kept for the pod is free, but for the devices with which it has been placed; so are its claims."""
        taken = [footprint(one.allocation) for one in held]
        self._aftermath.devices_released(one for one in record.given if footprint(one.allocation) not in taken)
        if record.placed_on != record.node:
            self._aftermath.pod_unassumed(record.pod, record.node)
        for claim in record.claims:
            self._aftermath.claim_may_be_shared(claim)

    def _clear(self, pod: Pod) -> None:
        """Have the API server forget the nomination."""
        cleared = PatchPodStatus(pod.key, pod.uid, "", "", "")
        self._outbox.ask(cleared, _cleared)


def _cleared(answer: WriteAnswer) -> None:
    """A nomination that stays behind is the pod's next attempt's to use or to clear."""
