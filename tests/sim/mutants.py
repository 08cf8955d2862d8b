"""Mutants: the core broken on purpose, one way each. The simulation must notice every one of them.

Each mutant names which net must catch it: "safety" means the server's state or progress alone must show it, with the
machine's own invariants and the paranoid comparison switched off; "invariants" means that those may; and some are so
rare in a random world that a test of the core is named that fails under them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest

from scheduler.core import machine, observation
from scheduler.core.binding import aftermath, binding_cycle, binding_waits, device_conflicts, withdrawals
from scheduler.core.binding.binding import Stage
from scheduler.core.ground import fair_places, timers, versions
from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.core.preempting import preemption_records, preemption_recovery, preemptions
from scheduler.core.queue import active_pods, scheduling_queue
from scheduler.core.reports import pod_conditions, troubles
from scheduler.core.state import claim_overlay, core_view, store, tainted_slices
from scheduler.core.trying import dry_run_memory, feasibility
from scheduler.core.writes import claim_writes, pending_writes, pod_removals, pod_writes, taking_back
from scheduler.core.writes.pending_writes import Overtaken
from scheduler.framework.api import Hint, Resource
from scheduler.framework.decisions import BindPod, DeletePod, PatchPodDisruption, ReadClaim, WriteClaimStatus
from scheduler.framework.status import Status
from scheduler.model.special_claim import is_provisional, stands_for
from scheduler.plugins.default_preemption import DefaultPreemption, reprieve
from scheduler.plugins.dynamic_resources import deallocation, hints, plugin, special_claim_step
from tests.core import (
    test_binding_cycle,
    test_change_log,
    test_device_conflicts,
    test_gangs,
    test_preemption_for_devices,
    test_preemptions,
    test_replaced_claims,
    test_special_claims,
    test_troubles,
    test_two_processes,
    test_volume_writes,
    test_volumes,
    test_waiting_pods,
)
from tests.sim import groups_mutants, placement_mutants, preemption_mutants
from tests.sim.hostile_groups import HostileGroupWorld
from tests.sim.placement import PlacementWorld
from tests.sim.placement_mutants import on_volume_rig, on_writes_rig
from tests.sim.world import Conditions, World

NOTICED = (AssertionError, KeyError, ValueError)  # unsafe, stuck, contradictory; or the machine breaks down


@dataclass(frozen=True)
class Mutant:
    """`apply` breaks the code while a monkeypatch lasts. The world `seen_in` is tried first: few others notice it."""

    name: str
    apply: Callable[[pytest.MonkeyPatch], None]
    net: str = "safety"
    focus: Mapping[str, float] = field(default_factory=dict)
    directed: Callable[[], None] | None = None
    worlds_max: int = 400
    seen_in: int = 0
    world: type[World] = World

    def seeds(self) -> list[int]:
        """Of the worlds to try, in that order."""
        return sorted(range(self.worlds_max), key=lambda seed: seed != self.seen_in)


def _unknown_write_counts_as_failed(patch):
    """The writer is told that nothing was written, and gives up."""
    original = claim_writes.ClaimWrites._answered

    def answered(self, write, answer):
        if isinstance(answer, WriteOutcomeUnknown):
            self._settle(write, WriteRejected(answer.id, 500, "InternalError", "not written"))
        else:
            original(self, write, answer)

    patch.setattr(claim_writes.ClaimWrites, "_answered", answered)


def _unknown_write_is_read_not_repeated(patch):
    """A read that does not show the write is taken for proof that it will not land."""
    original = claim_writes.ClaimWrites._answered

    def answered(self, write, answer):
        if isinstance(answer, WriteOutcomeUnknown):
            refusal = WriteRejected(answer.id, 500, "InternalError", "not written")
            request = ReadClaim(write.decision.claim, write.decision.uid)
            self._outbox.ask(request, lambda _: self._settle(write, refusal))
        else:
            original(self, write, answer)

    patch.setattr(claim_writes.ClaimWrites, "_answered", answered)


def _conflict_settles_unseen(patch):
    """A conflict is taken for proof that our write did not land, though an earlier sending of it may have."""
    patch.setattr(claim_writes.ClaimWrites, "_look", lambda self, write, answer: self._overtaken(write))


def _lost_answers_are_forgotten_at_a_conflict(patch):
    """Whatever is written: our own late doing is taken for somebody else's."""
    original = pending_writes.PendingWrites._overtaken

    def overtaken(self, write):
        write.is_doubtful = False
        original(self, write)

    patch.setattr(pending_writes.PendingWrites, "_overtaken", overtaken)


def _who_joined_a_write_is_not_told(patch):
    original = claim_writes.ClaimWrites._settle

    def settle(self, write, outcome):
        write.senders = write.senders[:1]
        original(self, write, outcome)

    patch.setattr(claim_writes.ClaimWrites, "_settle", settle)


def _hold_ends_when_pod_is_given_up(patch):
    original = binding_cycle.BindingCycles._give_up

    def give_up(self, binding, failure):
        self._aftermath.devices_released(self._overlay.release(binding.pod.uid))
        original(self, binding, failure)

    patch.setattr(binding_cycle.BindingCycles, "_give_up", give_up)


def _hold_ends_when_write_is_sent(patch):
    original = binding_cycle.BindingCycles._send_all

    def send_all(self, binding, decisions):
        original(self, binding, decisions)
        if any(isinstance(decision, WriteClaimStatus) for decision in decisions):
            self._overlay.release(binding.pod.uid)

    patch.setattr(binding_cycle.BindingCycles, "_send_all", send_all)


def _replaced_claims_are_not_looked_at(patch):
    patch.setattr(binding_cycle.BindingCycles, "_give_up_changed", lambda *_: False)


def _binds_whatever_the_revision(patch):
    patch.setattr(binding_cycle, "BindPod", lambda pod, uid, node, _expected: BindPod(pod, uid, node))


def _replaced_claims_keep_their_devices(patch):
    patch.setattr(withdrawals.Withdrawals, "_of_replaced", lambda *_: ())


def _unknown_binding_counts_as_failed(patch):
    original = binding_cycle.BindingCycles._bind_answered

    def answered(self, binding, answer):
        if isinstance(answer, WriteOutcomeUnknown) and binding.stage is Stage.BIND:
            self._give_up(binding, Status.error("not bound"))
        else:
            original(self, binding, answer)

    patch.setattr(binding_cycle.BindingCycles, "_bind_answered", answered)


def _binding_conflict_counts_as_success(patch):
    original = binding_cycle.BindingCycles._bind_answered

    def answered(self, binding, answer):
        if isinstance(answer, WriteConflicted) and binding.stage is Stage.BIND:
            self._succeed(binding)
        else:
            original(self, binding, answer)

    patch.setattr(binding_cycle.BindingCycles, "_bind_answered", answered)


def _holds_do_not_count(patch):
    def wanted(self, claim):
        observed = self._store.claims.get(claim)
        return (observed.allocation,) if observed is not None and observed.allocation is not None else ()

    patch.setattr(claim_overlay.ClaimOverlay, "wanted", wanted)


def _only_reserved_claims_count(patch):
    original = claim_overlay.ClaimOverlay.wanted

    def wanted(self, claim):
        observed = self._store.claims.get(claim)
        return original(self, claim) if observed is None or observed.reserved_for else ()

    patch.setattr(claim_overlay.ClaimOverlay, "wanted", wanted)


def _held_and_observed_count_twice(patch):
    def wanted(self, claim):
        observed = self._store.claims.get(claim)
        hold = self._hold_by_claim.get(claim)
        both = (observed.allocation if observed is not None else None, hold.held.allocation if hold else None)
        return tuple(one for one in both if one is not None)

    def observe(self, claim):
        self._count(claim.uid)

    patch.setattr(claim_overlay.ClaimOverlay, "wanted", wanted)
    patch.setattr(claim_overlay.ClaimOverlay, "observe", observe)
    patch.setattr(claim_overlay.ClaimOverlay, "release", lambda self, pod: ())


def _older_observation_wins(patch):
    def observe(self, key, revision):
        self._revision_by_key[key] = revision
        return True

    patch.setattr(versions.Versions, "observe", observe)


def _deleted_objects_come_back(patch):
    patch.setattr(versions.Versions, "_bury", lambda self, key, revision: None)


def _old_list_deletes_new_objects(patch):
    original = versions.Versions.delete
    patch.setattr(versions.Versions, "delete", lambda self, key, revision: original(self, key, 0))


def _schedules_before_everything_is_listed(patch):
    patch.setattr(machine, "kinds_read", lambda profiles: frozenset({"Node"}))


def _binds_while_other_writes_may_land(patch):
    patch.setattr(claim_writes.ClaimWrites, "is_unsettled", lambda self, claim, *, except_owner: False)


def _devices_taken_do_not_touch_nodes(patch):
    patch.setattr(store.Store, "touch_pool", lambda self, pool: None)


def _pods_do_not_touch_nodes(patch):
    original = store.Store._count

    def count(self, uid):
        touch = self._touch
        self._touch = lambda info: None
        try:
            original(self, uid)
        finally:
            self._touch = touch

    patch.setattr(store.Store, "_count", count)


def _nobody_follows_the_leader(patch):
    def follow(self, queued, now_ms):
        group, queued.group = queued.group, None
        if group is not None and group.leader is queued:
            group.leader = None

    patch.setattr(scheduling_queue.SchedulingQueue, "_follow", follow)


def _freed_devices_wake_nobody(patch):
    patch.setattr(aftermath.Aftermath, "devices_released", lambda self, held: None)


def _changes_wake_nobody(patch):
    patch.setattr(scheduling_queue.SchedulingQueue, "change", lambda *_: None)


def _removed_taints_wake_nobody(patch):
    original = hints.hint_for

    def hint(pod, change, view):
        is_taints_only = change.resource is Resource.SLICE and hints.removed_taints(change) is not None
        return Hint.SKIP if is_taints_only else original(pod, change, view)

    patch.setattr(plugin, "hint_for", hint)


def _taints_do_not_touch_nodes(patch):
    def touch_tainted(self, puts):
        return [(put.old, put.new) for put in puts]

    patch.setattr(store.Store, "_touch_tainted", touch_tainted)


def _new_slices_are_not_tainted(patch):
    def put_slice(self, published):
        return self._put(published, published)

    patch.setattr(tainted_slices.TaintedSlices, "put_slice", put_slice)


def _bound_pods_are_queued_again(patch):
    original = observation.Observations._our_pod_observed

    def observed(self, old, pod):
        if pod.uid not in self._bindings:
            self._store.assumed.pop(pod.uid, None)
        original(self, old, pod)

    patch.setattr(observation.Observations, "_our_pod_observed", observed)


def _deleted_pod_ends_its_binding_at_once(patch):
    def pod_gone(self, uid):
        binding = self.bindings.get(uid)
        if binding is not None and not binding.is_given_up:
            self.waits.stop_waiting(binding)
            del self.bindings[uid]
            self._aftermath.stake_released(self._stakes.release(uid))

    patch.setattr(binding_cycle.BindingCycles, "pod_gone", pod_gone)


def _deleted_claim_stays_counted(patch):
    patch.setattr(claim_overlay.ClaimOverlay, "forget", lambda self, claim: None)


def _clock_set_back_stops_timers(patch):
    def advance(self, wall_ms):
        self.wall_ms = self.now_ms = wall_ms

    patch.setattr(timers.Timers, "advance", advance)


def _unknown_writes_are_forgotten(patch):
    patch.setattr(claim_writes.ClaimWrites, "_later", lambda *_, **__: None)


def _forgets_to_look_at_changed_nodes(patch):
    """A rejection is kept although its node changed."""
    original = feasibility.Feasibility._read_changes

    def read_changes(self, asked, record):
        rejected = dict(record.rejected.statuses)
        original(self, asked, record)
        for name, status in rejected.items():
            if record.changed.pop(name, "") is None:
                record.reject(name, status)

    patch.setattr(feasibility.Feasibility, "_read_changes", read_changes)


def _nothing_is_looked_for(patch):
    patch.setattr(device_conflicts.DeviceConflicts, "allocation_observed", lambda self, claim: None)


def _contests_that_become_ours_are_not_told(patch):
    """A pod of ours comes to use a claim that two others contested when it was seen."""
    patch.setattr(device_conflicts.DeviceConflicts, "pod_observed", lambda self, pod: None)


def _reservations_of_the_gone_let_others_join(patch):
    """A contested claim that a pod used which is gone now is bound to as if that pod were there."""
    original = withdrawals.Withdrawals.use_of

    def use_of(self, claim, *, except_pod):
        found = original(self, claim, except_pod=except_pod)
        return withdrawals.Use.CERTAIN if found is withdrawals.Use.UNSEEN else found

    patch.setattr(withdrawals.Withdrawals, "use_of", use_of)


def _conflicts_are_only_told(patch):
    patch.setattr(device_conflicts.DeviceConflicts, "_yield", lambda self, claim, text: device_conflicts.Fate.BOUND)
    patch.setattr(withdrawals.Withdrawals, "reason_to_wait", lambda self, pod, claims: None)
    patch.setattr(withdrawals.Withdrawals, "withdraw_unused", lambda self, claims: False)


def _pod_yields_but_its_claim_does_not(patch):
    patch.setattr(withdrawals.Withdrawals, "_withdrawal", lambda self, key, *, except_pod: None)


def _takes_back_what_is_in_use(patch):
    patch.setattr(withdrawals.Withdrawals, "use_of", lambda self, claim, *, except_pod: withdrawals.Use.NONE)


def _binds_before_its_write_is_watched(patch):
    patch.setattr(binding_waits.BindingWaits, "needs_watch", lambda self, binding, claims: False)


def _contest_at_the_start_is_missed(patch):
    """What was listed is taken as it is, so what a restart interrupted stays."""

    def all_listed(self):
        self._is_listed = True
        self._unreviewed.clear()

    patch.setattr(device_conflicts.DeviceConflicts, "all_listed", all_listed)


FOREIGNERS = {
    "foreigners": 6,
    "foreign_lag": 20,
    "schedule_foreign_pod": 30,
    "create_foreign_pod": 20,
    "delete_pod": 20,
    "collect_garbage": 20,
    "pods_max": 16,
}


def _provisional_holds_do_not_count(patch):
    """Devices are free until their special claim has a uid."""
    original = claim_overlay.ClaimOverlay.wanted

    def take_over(self, claim):
        provisional = stands_for(claim)
        if provisional in self._hold_by_claim:
            hold = self._hold_by_claim[provisional]
            self._drop(provisional)
            held = msgspec.structs.replace(hold.held, uid=claim.uid)
            self._hold_by_claim[claim.uid] = claim_overlay.Hold(held, hold.pod)
            self._holds_by_pod.setdefault(hold.pod, {})[claim.uid] = None

    patch.setattr(claim_overlay.ClaimOverlay, "_take_over_provisional", take_over)
    patch.setattr(
        claim_overlay.ClaimOverlay, "wanted", lambda self, uid: () if is_provisional(uid) else original(self, uid)
    )


def _special_claims_end_their_hold(patch):
    """The claim is there, so its devices are thought to be stored with it."""

    def take_over(self, claim):
        provisional = stands_for(claim)
        if provisional in self._hold_by_claim:
            self._drop(provisional)
            self._count(provisional)

    patch.setattr(claim_overlay.ClaimOverlay, "_take_over_provisional", take_over)
    patch.setattr(core_view.CoreView, "is_held", lambda self, claim: True)
    patch.setattr(claim_overlay.ClaimOverlay, "is_held_for", lambda self, claim, pod, allocation: True)


def _lost_notes_to_pods_are_given_up(patch):
    """The write that names the pod's special claim may land when the pod has moved on."""
    original = pod_writes.PodWrites._answered

    def answered(self, write, answer):
        if isinstance(answer, WriteOutcomeUnknown):
            self._settle(write, Overtaken(may_have_landed=False))
        else:
            original(self, write, answer)

    patch.setattr(pod_writes.PodWrites, "_answered", answered)


def _notes_to_pods_are_not_taken_back(patch):
    """A pod that a device plugin serves is still told of the claim of an earlier attempt."""
    original = special_claim_step._write_name
    patch.setattr(
        special_claim_step, "_write_name", lambda pod, status: original(pod, status) if status is not None else ()
    )


def _special_claims_are_left_behind(patch):
    """Unreserve and PostFilter delete nothing."""
    patch.setattr(special_claim_step, "removal", lambda claim, pod: ())
    patch.setattr(deallocation, "removal", lambda claim, pod: ())


def _takes_from_bound_pods(patch):
    """A pod that somebody else has bound is given up like any other."""
    patch.setattr(taking_back.TakingBack, "permitted", lambda self, decisions: tuple(decisions))


def _takes_without_a_fence(patch):
    """The pod was read and is not bound: that is thought to be enough."""
    patch.setattr(taking_back, "_can_be_bound", lambda pod: False)


def _fences_are_not_looked_at(patch):
    patch.setattr(binding_cycle, "fence_of", lambda pod: None)


def _what_was_reserved_before_the_fence_will_do(patch):
    patch.setattr(binding_cycle.BindingCycles, "_has_unwritten", lambda self, binding, claims: False)


def _takes_what_was_reserved_behind_the_fence(patch):
    """What is taken back is derived when the fence stands, from a claim that may have changed since it was sent."""
    original = taking_back.TakingBack._end

    def end(self, attempt, decisions):
        original(self, attempt, tuple(attempt.derive()) if decisions else decisions)

    patch.setattr(taking_back.TakingBack, "_end", end)
    patch.setattr(taking_back.TakingBack, "_is_current", lambda self, decision: True)


def _reservations_elsewhere_do_not_count(patch):
    """A contested claim that is reserved for pods without a binding cycle here is free to be taken back."""
    losers = taking_back.TakingBack._losers

    def _losers(self, decision):
        is_idle = isinstance(decision, WriteClaimStatus) and decision.clear_allocation
        return iter(()) if is_idle else losers(self, decision)

    patch.setattr(taking_back.TakingBack, "_losers", _losers)


def _pods_take_no_turns(patch):
    """Those that share a claim are given up all at once, each moving the condition of the others."""
    original = taking_back.TakingBack.prepare
    patch.setattr(
        taking_back.TakingBack,
        "prepare",
        lambda self, _claims, derive, why, go_on: original(self, (), derive, why, go_on),
    )


EXTENDED = {"extended": 40, "pods_max": 16, "devices": 2, "foreigners": 0, "create_pod": 40}
LOSSES = {"request-lost": 0.3, "reply-lost": 0.2, "lateness": 1.0, "cruelty": 0.9, "devices": 1, "pods_max": 8}
RESTARTS = {"machine-restart": 0.03, "pods_max": 8}
RULES = {"change_taint_rule": 12, "change_slice": 4, "extended": 0, "foreigners": 0}
ROOM = {"preempts": 1, "devices": 1, "pods_max": 16, "create_pod": 30}
SHARED_ROOM = ROOM | {"crowds": 30, "share_by_somebody_else": 8, "replace_removed": 20, "extended": 0, "foreigners": 0}
GIVEN_AWAY = SHARED_ROOM | {
    "crowds": 60,
    "share_by_somebody_else": 60,
    "replace_removed": 60,
    "collect_garbage": 1,
    "end_pod": 2,
}
TWINS = {"twins": 1, "process-stopped": 0.02, "devices": 1, "pods_max": 8}
VOLUMES = {"has_volumes": 1, "devices": 4, "pods_max": 16, "extended": 0, "foreigners": 0, "create_pod": 30}
REPLACEMENTS = {"replace_claim": 20, "cruelty": 0.7, "extended": 0, "foreigners": 0}


def _places_are_not_given_back(patch):
    """A place stays taken when its request is answered."""
    patch.setattr(fair_places.FairPlaces, "give_back", lambda self, namespace: None)


def _one_namespace_may_take_all_places(patch):
    patch.setattr(fair_places.FairPlaces, "may_take", lambda self, namespace: self.free > 0)


def _what_waits_holds_a_place(patch):
    """Nothing is decided while as many pods are on their way as there are places, whatever they wait for."""
    original = machine.Machine.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        queue = self.queue
        queue._has_place = queue._active._has_place = lambda namespace: len(self.bindings) < self.settings.places

    patch.setattr(machine.Machine, "__init__", init)


def _pods_that_are_passed_by_lead(patch):
    """Who has no place goes on leading the pods of its shape, and none of them is tried."""
    patch.setattr(active_pods.ActivePods, "_let_another_lead", lambda *_: None)


def _troubles_are_not_told(patch):
    patch.setattr(troubles.Troubles, "report_due", lambda self: None)


def _troubles_never_end(patch):
    patch.setattr(troubles.Troubles, "_end", lambda self, kind, name: None)


def _conditions_are_written_once(patch):
    """A condition that was not stored is not written again."""
    patch.setattr(pod_conditions.PodConditions, "_patch_again", lambda *_: None)


def _victims_are_not_waited_for(patch):
    """The record is told to be complete while victims terminate."""
    patch.setattr(preemption_records.Record, "is_outstanding", False)
    patch.setattr(core_view.CoreView, "preemption_of", lambda self, uid: None)


def _removes_before_the_nomination_is_stored(patch):
    original = preemptions.Preemptions._nominate

    def nominate(self, record, why):
        record.is_stored = True
        for uid in tuple(record.victims):
            self._look(record, uid)
        original(self, record, why)

    patch.setattr(preemptions.Preemptions, "_nominate", nominate)


def _deletes_before_the_condition_is_stored(patch):
    original = pod_removals.PodRemovals._begin

    def begin(self, removal):
        if isinstance(removal.decision, PatchPodDisruption):
            removal.decision = DeletePod(removal.decision.pod, removal.decision.uid)
        original(self, removal)

    patch.setattr(pod_removals.PodRemovals, "_begin", begin)


def _an_unknown_deletion_counts_as_done(patch):
    original = pod_removals.PodRemovals._answered

    def answered(self, removal, answer):
        if isinstance(answer, WriteOutcomeUnknown):
            self._settle(removal, WriteAccepted(answer.id))
        else:
            original(self, removal, answer)

    patch.setattr(pod_removals.PodRemovals, "_answered", answered)


def _a_refused_removal_is_forgotten(patch):
    patch.setattr(preemptions.Preemptions, "_fail", lambda self, record, text, refusal: None)


def _the_pod_is_not_tried_when_there_is_room(patch):
    def look(self, record):
        for key, held in tuple(record.claims.items()):
            if self.records.is_released(record, held):
                self.records.claim_over(record, key)

    patch.setattr(preemptions.Preemptions, "_look_at_claims", look)


def _room_is_kept_for_pods_that_are_gone(patch):
    patch.setattr(preemptions.Preemptions, "pod_deleted", lambda self, uid: self.victim_changed(uid))


def _room_is_kept_for_pods_placed_elsewhere(patch):
    patch.setattr(preemptions.Preemptions, "placed", lambda self, pod, node, held: None)


def _who_was_placed_elsewhere_begins_anew(patch):
    """A pod that is not bound where it was placed forgets who terminates for it."""
    original = preemptions.Preemptions.placed

    def placed(self, pod, node, held):
        record = self.records.get(pod.uid)
        if record is not None:
            record.placed_on = node
            self._end(record, tuple(held))
        original(self, pod, node, held)

    patch.setattr(preemptions.Preemptions, "placed", placed)


def _who_goes_while_the_pod_is_bound_elsewhere_is_deleted(patch):
    patch.setattr(preemptions.Preemptions, "_is_wanted", lambda self, record, uid: True)


def _any_nomination_for_the_node_is_ours(patch):
    patch.setattr(preemptions, "may_have_landed", lambda outcome: not isinstance(outcome, WriteRejected))


def _what_is_kept_for_claims_that_are_gone_is_told_nobody(patch):
    original = aftermath.Aftermath.devices_released

    def released(self, held):
        original(self, [one for one in held if self._store.claims.get(one.uid) is not None or is_provisional(one.uid)])

    patch.setattr(aftermath.Aftermath, "devices_released", released)


def _claims_of_others_are_waited_for(patch):
    patch.setattr(preemption_records.PreemptionRecords, "_stays", lambda self, record, uid: False)


def _what_nobody_frees_is_left(patch):
    patch.setattr(preemptions.Preemptions, "_stored_for_nobody", lambda self, record, key: ())


def _an_earlier_process_is_forgotten(patch):
    patch.setattr(preemption_recovery.PreemptionRecovery, "begin", lambda self: None)


def _victims_in_flight_are_not_given_up(patch):
    patch.setattr(preemptions.Preemptions, "_give_up", lambda self, record, pod: None)


def _users_seen_late_are_not_looked_at(patch):
    """A claim is waited for though it is reserved for a pod that stays, and was observed after the reservation."""
    patch.setattr(preemptions.Preemptions, "_claims_of_changed", lambda self, uid: None)


def _nobody_is_spared(patch):
    def put_back(self, part, dry_run):
        self._victims.update({pod.uid: pod for pod in part.victims})
        return True

    patch.setattr(reprieve.Reprieve, "_put_back", put_back)


def _equals_are_victims(patch):
    patch.setattr(DefaultPreemption, "_may_preempt", lambda self, pod, other: other.priority <= pod.priority)


def _what_was_found_holds_for_ever(patch):
    """A search that was interrupted goes on in a node that is another by now."""

    def get(self, node):
        found = self._found.get(node)
        return found.tried if found is not None else None

    patch.setattr(dry_run_memory.DryRunMemory, "get", get)
    patch.setattr(dry_run_memory.DryRunMemory, "is_current", lambda self, node: True)


MUTANTS = (
    Mutant("unknown-write-counts-as-failed", _unknown_write_counts_as_failed, focus=LOSSES, seen_in=16),
    Mutant("unknown-write-is-read-not-repeated", _unknown_write_is_read_not_repeated, focus=LOSSES, seen_in=20),
    Mutant(
        "conflict-settles-unseen",
        _conflict_settles_unseen,
        directed=test_binding_cycle.test_devices_of_an_unknown_write_stay_held_though_its_pod_is_gone,
    ),
    Mutant(
        "lost-answers-are-forgotten-at-a-conflict",
        _lost_answers_are_forgotten_at_a_conflict,
        directed=test_preemptions.test_a_nomination_whose_answer_was_lost_is_ours_and_not_written_again,
    ),
    Mutant("who-joined-a-write-is-not-told", _who_joined_a_write_is_not_told, focus={"crowds": 30}),
    Mutant("hold-ends-when-pod-is-given-up", _hold_ends_when_pod_is_given_up, focus=LOSSES, seen_in=12),
    Mutant("hold-ends-when-write-is-sent", _hold_ends_when_write_is_sent, seen_in=5),
    Mutant("unknown-binding-counts-as-failed", _unknown_binding_counts_as_failed, seen_in=11),
    Mutant(
        "binding-conflict-counts-as-success",
        _binding_conflict_counts_as_success,
        focus={"bind_by_somebody_else": 20},
        seen_in=15,
    ),
    Mutant("holds-do-not-count", _holds_do_not_count),
    Mutant("only-reserved-claims-count", _only_reserved_claims_count, seen_in=5),
    Mutant("held-and-observed-count-twice", _held_and_observed_count_twice),
    Mutant("older-observation-wins", _older_observation_wins, seen_in=73),
    Mutant("deleted-objects-come-back", _deleted_objects_come_back, seen_in=73),
    Mutant(
        "old-list-deletes-new-objects",
        _old_list_deletes_new_objects,
        focus={"watch-restart": 0.1, "stale-list": 0.5},
        seen_in=4,
    ),
    Mutant(
        "schedules-before-everything-is-listed", _schedules_before_everything_is_listed, focus=RESTARTS, seen_in=276
    ),
    Mutant(
        "binds-while-other-writes-may-land",
        _binds_while_other_writes_may_land,
        directed=test_binding_cycle.test_a_pod_is_not_bound_while_another_write_on_its_claim_may_land,
    ),
    Mutant("devices-taken-do-not-touch-nodes", _devices_taken_do_not_touch_nodes, net="invariants", seen_in=5),
    Mutant("pods-do-not-touch-nodes", _pods_do_not_touch_nodes, net="invariants", seen_in=3),
    Mutant("forgets-to-look-at-changed-nodes", _forgets_to_look_at_changed_nodes, seen_in=4),
    Mutant("nobody-follows-the-leader", _nobody_follows_the_leader, seen_in=4),
    Mutant(
        "freed-devices-wake-nobody",
        _freed_devices_wake_nobody,
        directed=test_binding_cycle.test_devices_come_free_for_those_who_wait_when_a_binding_fails,
    ),
    Mutant("changes-wake-nobody", _changes_wake_nobody, seen_in=4),
    Mutant("removed-taints-wake-nobody", _removed_taints_wake_nobody, focus=RULES, seen_in=3),
    Mutant("taints-do-not-touch-nodes", _taints_do_not_touch_nodes, focus=RULES, seen_in=13),
    Mutant("new-slices-are-not-tainted", _new_slices_are_not_tainted, net="invariants", focus=RULES),
    Mutant(
        "bound-pods-are-queued-again",
        _bound_pods_are_queued_again,
        directed=test_binding_cycle.test_a_late_report_of_the_unbound_pod_does_not_queue_it_again,
    ),
    Mutant("deleted-pod-ends-its-binding-at-once", _deleted_pod_ends_its_binding_at_once, focus=LOSSES, seen_in=3),
    Mutant(
        "deleted-claim-stays-counted",
        _deleted_claim_stays_counted,
        focus={"watch-restart": 0.1, "delete_pod": 20, "collect_garbage": 20},
        seen_in=15,
    ),
    Mutant("clock-set-back-stops-timers", _clock_set_back_stops_timers),
    Mutant("unknown-writes-are-forgotten", _unknown_writes_are_forgotten, seen_in=5),
    Mutant("replaced-claims-are-not-looked-at", _replaced_claims_are_not_looked_at, focus=REPLACEMENTS),
    Mutant("binds-whatever-the-revision", _binds_whatever_the_revision, focus=REPLACEMENTS, seen_in=38),
    Mutant(
        "replaced-claims-keep-their-devices",
        _replaced_claims_keep_their_devices,
        directed=lambda: test_replaced_claims.test_a_replacement_seen_before_the_binding_is_sent(
            WriteClaimStatus, is_seen_first=True
        ),
    ),
    Mutant("places-are-not-given-back", _places_are_not_given_back, seen_in=5),
    Mutant(
        "one-namespace-may-take-all-places",
        _one_namespace_may_take_all_places,
        directed=test_waiting_pods.test_a_namespace_whose_requests_hang_leaves_places_to_others,
    ),
    Mutant(
        "what-waits-holds-a-place",
        _what_waits_holds_a_place,
        directed=test_waiting_pods.test_pods_that_wait_in_pre_bind_hold_no_place,
    ),
    Mutant(
        "pods-that-are-passed-by-lead",
        _pods_that_are_passed_by_lead,
        directed=test_waiting_pods.test_a_pod_that_waits_for_a_place_leads_nobody,
    ),
    Mutant(
        "troubles-are-not-told",
        _troubles_are_not_told,
        directed=test_troubles.test_what_is_not_answered_is_told_before_it_is,
    ),
    Mutant(
        "troubles-never-end",
        _troubles_never_end,
        directed=test_troubles.test_what_is_not_answered_is_told_before_it_is,
    ),
    Mutant(
        "conditions-are-written-once",
        _conditions_are_written_once,
        directed=test_troubles.test_a_condition_that_is_not_stored_is_written_again,
    ),
    Mutant("device-conflicts-are-not-looked-for", _nothing_is_looked_for, focus=FOREIGNERS, seen_in=4),
    Mutant(
        "contests-that-become-ours-are-not-told",
        _contests_that_become_ours_are_not_told,
        directed=test_device_conflicts.test_a_conflict_between_two_others_is_told_once_a_pod_of_ours_uses_one,
    ),
    Mutant(
        "reservations-of-the-gone-let-others-join",
        _reservations_of_the_gone_let_others_join,
        directed=test_device_conflicts.test_a_reservation_of_a_gone_pod_is_no_reason_to_join_what_is_contested,
    ),
    Mutant("device-conflicts-are-only-told", _conflicts_are_only_told, focus=FOREIGNERS, seen_in=3),
    Mutant("pod-yields-but-its-claim-does-not", _pod_yields_but_its_claim_does_not, focus=FOREIGNERS, seen_in=13),
    Mutant("takes-back-what-is-in-use", _takes_back_what_is_in_use, focus=FOREIGNERS, seen_in=4),
    Mutant(
        "binds-before-its-write-is-watched",
        _binds_before_its_write_is_watched,
        directed=lambda: test_device_conflicts.test_two_schedulers_of_ours_end_with_one_holder(0),
    ),
    Mutant(
        "contest-at-the-start-is-missed",
        _contest_at_the_start_is_missed,
        focus=FOREIGNERS | {"machine-restart": 0.03},
        seen_in=40,
    ),
    Mutant("provisional-holds-do-not-count", _provisional_holds_do_not_count, focus=EXTENDED),
    Mutant("special-claims-end-their-hold", _special_claims_end_their_hold, focus=EXTENDED),
    Mutant(
        "lost-notes-to-pods-are-given-up",
        _lost_notes_to_pods_are_given_up,
        directed=test_special_claims.test_a_pod_is_not_placed_anew_while_an_earlier_note_to_it_may_land,
    ),
    Mutant(
        "notes-to-pods-are-not-taken-back",
        _notes_to_pods_are_not_taken_back,
        directed=test_special_claims.test_what_an_earlier_attempt_told_is_taken_back_on_a_node_with_a_device_plugin,
    ),
    Mutant(
        "special-claims-are-left-behind",
        _special_claims_are_left_behind,
        focus=EXTENDED | RESTARTS | {"change_node": 30, "change_slice": 20},
        seen_in=53,
    ),
    Mutant("takes-from-bound-pods", _takes_from_bound_pods, focus=TWINS),
    Mutant("takes-without-a-fence", _takes_without_a_fence, focus=TWINS, seen_in=5),
    Mutant(
        "fences-are-not-looked-at",
        _fences_are_not_looked_at,
        directed=test_two_processes.test_a_binding_decided_before_the_fence_is_refused,
    ),
    Mutant(
        "what-was-reserved-before-the-fence-will-do",
        _what_was_reserved_before_the_fence_will_do,
        directed=test_two_processes.test_behind_a_fence_a_pod_is_bound_only_with_what_was_reserved_since,
    ),
    Mutant(
        "takes-what-was-reserved-behind-the-fence",
        _takes_what_was_reserved_behind_the_fence,
        directed=test_two_processes.test_what_changed_while_the_fence_was_put_up_is_fenced_anew,
    ),
    Mutant(
        "reservations-elsewhere-do-not-count",
        _reservations_elsewhere_do_not_count,
        focus=TWINS | FOREIGNERS,
        seen_in=16,
    ),
    Mutant(
        "pods-take-no-turns",
        _pods_take_no_turns,
        directed=test_two_processes.test_pods_that_share_a_claim_give_it_back_one_after_the_other,
    ),
    Mutant(
        "victims-are-not-waited-for",
        _victims_are_not_waited_for,
        directed=test_preemptions.test_while_a_victim_terminates_nobody_else_is_removed,
    ),
    Mutant(
        "removes-before-the-nomination-is-stored",
        _removes_before_the_nomination_is_stored,
        directed=test_preemptions.test_the_pod_is_nominated_in_memory_before_anything_is_written,
    ),
    Mutant(
        "deletes-before-the-condition-is-stored",
        _deletes_before_the_condition_is_stored,
        directed=test_preemptions.test_victims_are_removed_once_the_nomination_is_stored_and_the_condition_before_the_deletion,
    ),
    Mutant(
        "room-is-kept-for-pods-that-are-gone",
        _room_is_kept_for_pods_that_are_gone,
        directed=partial(test_preemptions.test_no_record_outlives_its_pod, "deleted"),
    ),
    Mutant(
        "room-is-kept-for-pods-placed-elsewhere",
        _room_is_kept_for_pods_placed_elsewhere,
        directed=test_preemptions.test_a_pod_that_fits_elsewhere_takes_that,
    ),
    Mutant(
        "who-was-placed-elsewhere-begins-anew",
        _who_was_placed_elsewhere_begins_anew,
        directed=test_preemptions.test_a_placement_elsewhere_that_is_undone_leads_to_no_second_set,
    ),
    Mutant(
        "who-goes-while-the-pod-is-bound-elsewhere-is-deleted",
        _who_goes_while_the_pod_is_bound_elsewhere_is_deleted,
        directed=test_preemptions.test_while_a_pod_is_being_bound_elsewhere_nobody_is_removed_for_it,
    ),
    Mutant(
        "any-nomination-for-the-node-is-ours",
        _any_nomination_for_the_node_is_ours,
        directed=test_preemptions.test_of_two_processes_that_go_on_with_an_earlier_nomination_only_one_removes_victims,
    ),
    Mutant(
        "what-is-kept-for-claims-that-are-gone-is-told-nobody",
        _what_is_kept_for_claims_that_are_gone_is_told_nobody,
        directed=test_preemption_for_devices.test_what_is_kept_for_a_pod_that_has_lost_its_claim_goes_to_others,
    ),
    Mutant(
        "what-nobody-frees-is-left",
        _what_nobody_frees_is_left,
        directed=test_preemptions.test_what_is_left_without_reservations_is_taken_back,
    ),
    Mutant(
        "an-earlier-process-is-forgotten",
        _an_earlier_process_is_forgotten,
        directed=test_preemptions.test_after_a_restart_the_pod_waits_for_claims_that_are_left,
    ),
    Mutant(
        "victims-in-flight-are-not-given-up",
        _victims_in_flight_are_not_given_up,
        directed=test_preemptions.test_a_victim_that_waits_in_pre_bind_gives_up_in_memory,
    ),
    Mutant(
        "an-unknown-deletion-counts-as-done",
        _an_unknown_deletion_counts_as_done,
        directed=partial(test_preemptions.test_a_write_without_a_known_outcome_is_repeated, DeletePod, False),
    ),
    Mutant(
        "a-refused-removal-is-forgotten", _a_refused_removal_is_forgotten, focus=ROOM | {"forbidden": 0.05}, seen_in=106
    ),
    Mutant("room-is-made-and-not-used", _the_pod_is_not_tried_when_there_is_room, focus=ROOM, seen_in=13),
    Mutant("claims-of-others-are-waited-for", _claims_of_others_are_waited_for, focus=ROOM, seen_in=59),
    Mutant(
        "users-seen-late-are-not-looked-at",
        _users_seen_late_are_not_looked_at,
        directed=partial(test_preemptions.test_a_claim_that_another_pod_uses_by_now_is_not_waited_for, "claim"),
    ),
    Mutant("replacements-join-the-claim", preemption_mutants.replacements_join_the_claim, focus=SHARED_ROOM),
    Mutant("equals-join-the-claim", preemption_mutants.equals_join_the_claim, focus=SHARED_ROOM),
    Mutant(
        "what-was-given-away-is-taken-again",
        preemption_mutants.what_was_given_away_is_taken_again,
        focus=GIVEN_AWAY,
        seen_in=48,
    ),
    Mutant(
        "what-was-given-away-is-never-taken-again",
        preemption_mutants.what_was_given_away_is_never_taken_again,
        directed=test_preemption_for_devices.test_a_claim_that_was_given_away_and_has_changed_hands_is_taken_again,
    ),
    Mutant(
        "who-may-share-again-is-not-told",
        preemption_mutants.who_may_share_again_is_not_told,
        directed=partial(
            test_preemption_for_devices.test_who_waits_for_a_claim_that_is_waited_for_is_told_and_goes_on_when_that_ends,
            False,
        ),
    ),
    Mutant(
        "groups-are-single-pods",
        preemption_mutants.groups_are_single_pods,
        directed=test_preemption_for_devices.test_of_a_group_that_needs_all_of_its_pods_all_of_them_go,
    ),
    Mutant(
        "groups-are-never-removed",
        preemption_mutants.groups_are_never_removed,
        directed=test_preemption_for_devices.test_of_a_group_that_needs_all_of_its_pods_all_of_them_go,
    ),
    Mutant(
        "victims-still-run",
        preemption_mutants.victims_still_run,
        directed=test_preemption_for_devices.test_a_group_gives_what_it_can_spare_and_no_more_of_it_to_the_next,
    ),
    Mutant(
        "groups-elsewhere-are-waited-for",
        preemption_mutants.groups_elsewhere_are_waited_for,
        directed=test_preemption_for_devices.test_of_a_group_that_needs_all_of_its_pods_all_of_them_go,
    ),
    Mutant(
        "budgets-that-cannot-be-read-are-none",
        preemption_mutants.budgets_that_cannot_be_read_are_none,
        directed=partial(test_preemption_for_devices.test_nobody_goes_while_budgets_cannot_be_read, False),
    ),
    Mutant("nobody-is-spared", _nobody_is_spared, focus=ROOM),
    Mutant("equals-are-victims", _equals_are_victims, focus=ROOM, seen_in=23),
    Mutant("what-was-found-holds-for-ever", _what_was_found_holds_for_ever, focus=ROOM, seen_in=4),
    Mutant(
        "unknown-volume-write-counts-as-failed",
        placement_mutants.unknown_volume_write_counts_as_failed,
        directed=on_volume_rig(
            test_volumes.test_a_write_of_unknown_outcome_keeps_the_volume_held_until_it_is_known, False
        ),
    ),
    Mutant(
        "volume-conflicts-settle-unseen",
        placement_mutants.volume_conflicts_settle_unseen,
        directed=on_writes_rig(test_volume_writes.test_after_a_conflict_the_newer_state_is_awaited),
    ),
    Mutant(
        "unknown-volume-writes-are-forgotten",
        placement_mutants.unknown_volume_writes_are_forgotten,
        focus=VOLUMES | {"request-lost": 0.3},
        seen_in=5,
    ),
    Mutant(
        "given-up-pods-keep-their-volumes",
        placement_mutants.given_up_pods_keep_their_volumes,
        directed=on_volume_rig(test_volumes.test_a_refused_write_ends_the_attempt_and_frees_the_volume),
    ),
    Mutant(
        "volume-hold-ends-when-pod-is-given-up",
        placement_mutants.volume_hold_ends_when_pod_is_given_up,
        directed=on_writes_rig(test_volume_writes.test_what_is_doubtful_stays_promised_when_the_pod_is_gone),
    ),
    Mutant(
        "any-change-ends-a-volume-hold",
        placement_mutants.any_change_ends_a_volume_hold,
        directed=on_volume_rig(test_volumes.test_a_held_volume_stays_held_when_something_else_of_it_changes),
    ),
    Mutant("volumes-are-promised-twice", placement_mutants.volumes_are_promised_twice, focus=VOLUMES, seen_in=12),
    Mutant(
        "failed-provisioning-is-waited-for",
        placement_mutants.failed_provisioning_is_waited_for,
        directed=on_volume_rig(test_volumes.test_a_provisioner_that_gives_up_sends_the_pod_elsewhere),
    ),
    Mutant(
        "selects-a-node-where-one-is-selected",
        placement_mutants.selects_a_node_where_one_is_selected,
        directed=on_volume_rig(
            test_volumes.test_what_ends_the_wait_early, "elsewhere", 'provisioning failed for PVC "c"'
        ),
    ),
    Mutant("binds-before-the-claim-is-bound", placement_mutants.binds_before_the_claim_is_bound, focus=VOLUMES),
    Mutant(
        "every-node-reaches-every-volume", placement_mutants.every_node_reaches_every_volume, focus=VOLUMES, seen_in=3
    ),
    Mutant(
        "host-ports-are-not-looked-at", placement_mutants.host_ports_are_not_looked_at, world=PlacementWorld, seen_in=10
    ),
    Mutant(
        "anti-affinity-is-not-looked-at",
        placement_mutants.anti_affinity_is_not_looked_at,
        world=PlacementWorld,
        seen_in=2,
    ),
    Mutant(
        "changed-nodes-are-taken-again",
        groups_mutants.changed_nodes_are_taken_again,
        directed=groups_mutants.on_short_turns(test_gangs.test_a_node_that_changes_in_a_pause_is_looked_at_again, True),
    ),
    Mutant(
        "what-pods-elsewhere-decide-is-judged-once",
        groups_mutants.what_pods_elsewhere_decide_is_judged_once,
        directed=groups_mutants.on_short_turns(groups_mutants.comes_elsewhere),
    ),
    Mutant(
        "detours-name-all-nodes",
        groups_mutants.detours_name_all_nodes,
        directed=test_change_log.test_a_node_that_others_changed_in_a_pause_is_named,
    ),
    Mutant("pauses-give-nothing-back", groups_mutants.pauses_give_nothing_back, world=HostileGroupWorld),
    Mutant("pod-groups-are-not-waited-for", groups_mutants.pod_groups_are_not_waited_for, world=HostileGroupWorld),
    Mutant("pod-groups-wake-nobody", groups_mutants.pod_groups_wake_nobody, world=HostileGroupWorld),
    Mutant("turns-do-not-end", groups_mutants.turns_do_not_end, world=HostileGroupWorld, seen_in=3),
    Mutant(
        "places-with-volumes-are-never-taken-again",
        groups_mutants.places_with_volumes_are_never_taken_again,
        directed=groups_mutants.on_short_turns(test_gangs.test_pods_with_volumes_keep_their_places_over_a_pause),
    ),
)


def notice(mutant: Mutant, seed: int) -> str | None:
    """What betrays the mutant in its directed test or in the world of this seed, None when nothing does."""
    has_invariants = mutant.net == "invariants"
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        try:
            if mutant.directed is not None:
                mutant.directed()
                return None
            conditions = Conditions(is_paranoid=has_invariants, checks_invariants=has_invariants, focus=mutant.focus)
            mutant.world(seed, conditions).run()
        except NOTICED as error:
            return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """Print in how many worlds each mutant is noticed, the first of them, and how."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument(
        "--first", action="store_true", help="print only whose `seen_in` is stale, and what it should be"
    )
    parser.add_argument("names", nargs="*", help="mutants, all unless given")
    args = parser.parse_args()
    for mutant in MUTANTS:
        if args.names and mutant.name not in args.names:
            continue
        if args.first:
            first = next((seed for seed in mutant.seeds() if notice(mutant, seed) is not None), None)
            if first != mutant.seen_in and mutant.directed is None:
                print(f"{mutant.name}: seen_in={first}, was {mutant.seen_in}", flush=True)
            continue
        seeds = range(args.seeds if mutant.directed is None else 1)
        texts = {seed: text for seed in seeds if (text := notice(mutant, seed)) is not None}
        how = Counter(text[:60] for text in texts.values()).most_common(2)
        print(f"| {mutant.name} | {len(texts)} of {len(seeds)} | {min(texts, default='-')} | {how}", flush=True)


if __name__ == "__main__":
    main()
