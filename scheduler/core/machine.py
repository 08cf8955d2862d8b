"""The machine: inputs in, decisions out, everything else is state. Dispatch only.

    shell ── observations, answers, TimerFired ──> Machine.handle ── decisions ──> shell

Rules of this module
  1. Observations and answers update state and continue the binding cycle they concern. New pods are tried only in
     `TimerFired`, a bounded number each, so that inputs that arrive together are seen together and I/O never starves.
  2. An answer that shows an object is an observation first; only then does its waiter go on.
  3. Nothing is tried before everything that exists has been observed (`RelistFinished` of all kinds): the claim of a
     device that looks free may not be listed yet.
  4. Equal inputs at equal times give equal decisions: no clock, no randomness, no I/O in here.

Cost: observations O(1) and the pods they wake; `TimerFired` at most `CoreSettings.cycles_per_tick` scheduling cycles.

See docs/adr/0001-synchronous-core.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from allocator import Features
from scheduler.core.binding.aftermath import Aftermath
from scheduler.core.binding.binding import Bindings
from scheduler.core.binding.binding_cycle import BindingCycles
from scheduler.core.binding.device_conflicts import DeviceConflicts
from scheduler.core.binding.withdrawals import Withdrawals
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.fair_places import FairPlaces
from scheduler.core.ground.inputs import (
    Deleted,
    Input,
    Observed,
    RelistFinished,
    TimerFired,
    WriteAccepted,
    WriteConflicted,
    WriteOutcomeUnknown,
    WriteRejected,
)
from scheduler.core.ground.outbox import GONE, WriteAnswer
from scheduler.core.group_cycles import GroupCycles
from scheduler.core.invariants import Invariants
from scheduler.core.observation import ALWAYS_WATCHED, KINDS, Observations
from scheduler.core.preempting.preemption_recovery import PreemptionRecovery
from scheduler.core.preempting.preemptions import Preemptions
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.reports.causes import Causes
from scheduler.core.reports.pod_conditions import PodConditions
from scheduler.core.reports.troubles import Troubles
from scheduler.core.scheduling_cycle import SchedulingCycles
from scheduler.core.state.ground import make_ground
from scheduler.core.trying.feasibility import Feasibility
from scheduler.core.writes.writers import make_writers
from scheduler.framework.api import Profile, ReadingPlugin
from scheduler.framework.decisions import Decision, ReadClaim, ReadPod
from scheduler.framework.runner import Runner
from scheduler.framework.timed_runner import Measured
from scheduler.model.disruption_budget import DISRUPTION_BUDGET
from scheduler.model.keys import ClaimKey, PodUid


def kinds_read(profiles: Sequence[Profile]) -> frozenset[str]:
    """The kinds that a machine of these profiles waits for: those of its own, and what plugins read."""
    plugins = [plugin for profile in profiles for plugin in profile.plugins]
    return frozenset(ALWAYS_WATCHED).union(*(plugin.reads for plugin in plugins if isinstance(plugin, ReadingPlugin)))


class Machine:
    """The scheduler without its I/O."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        *,
        features: Features,
        new_uid: Callable[[], str],
        settings: CoreSettings = CoreSettings(),  # noqa: B008 - frozen
    ) -> None:
        """Set up for `profiles`, one for each scheduler name.

        Args:
            new_uid: Gives a fresh lower-case UUID at each call; the only source of randomness.

        Raises:
            ProfileError: a profile that cannot work.
        """
        self.settings: Final = settings
        self.runners: Final = {one.scheduler_name: Runner(one, is_strict=settings.is_strict) for one in profiles}
        self.places: Final = FairPlaces(settings.places)
        ground = self.ground = make_ground(features, new_uid, self.places, settings)
        self.store: Final = ground.store
        self.overlay: Final = ground.overlay
        self.timers: Final = ground.timers
        self.outbox: Final = ground.outbox
        self.bindings: Final = Bindings()
        self.feasibility: Final = Feasibility(ground)
        self.queue: Final = SchedulingQueue(ground, self.runners, self.places.may_take)
        conditions = PodConditions(ground)
        self.causes: Final = Causes(ground, queue=self.queue, feasibility=self.feasibility, conditions=conditions)
        self.troubles: Final = Troubles(ground, self.bindings, conditions)
        writers = self._writers = make_writers(ground, self.troubles, self._claim_freed)
        self.writes: Final = writers.claims
        withdrawals = Withdrawals(ground, writers, bindings=self.bindings, scheduler_names=self.runners)
        aftermath = Aftermath(
            ground,
            queue=self.queue,
            conditions=conditions,
            causes=self.causes,
            troubles=self.troubles,
            withdrawals=withdrawals,
            given_up=self._given_up,
            released=self._claim_released,
        )
        binding_cycles = self._binding_cycles = BindingCycles(
            ground, writers, bindings=self.bindings, conditions=conditions, withdrawals=withdrawals, aftermath=aftermath
        )
        self.preemptions: Final = Preemptions(
            ground, writers, queue=self.queue, binding_cycles=binding_cycles, conditions=conditions, aftermath=aftermath
        )
        self._recovery: Final = PreemptionRecovery(ground, self.runners, self.queue, self.preemptions)
        self._cycles: Final = SchedulingCycles(
            ground,
            writers,
            queue=self.queue,
            feasibility=self.feasibility,
            bindings=self._binding_cycles,
            conditions=conditions,
            causes=self.causes,
            aftermath=aftermath,
            preemptions=self.preemptions,
        )
        self._gangs: Final = GroupCycles(ground, self._cycles)
        self.conflicts: Final = DeviceConflicts(ground, withdrawals, self._binding_cycles)
        self._observed: Final = Observations(
            ground,
            runners=self.runners,
            queue=self.queue,
            writes=self.writes,
            binding_cycles=self._binding_cycles,
            aftermath=aftermath,
            troubles=self.troubles,
            conflicts=self.conflicts,
            preemptions=self.preemptions,
        )
        self._invariants: Final = Invariants(
            ground,
            queue=self.queue,
            binding_cycles=self._binding_cycles,
            preemptions=self.preemptions,
            writes=self.writes,
            feasibility=self.feasibility,
            places=self.places,
            scheduler_names=frozenset(self.runners),
        )
        self._unlisted = set(kinds_read(profiles))
        self._has_searched = False

    def handle(self, given: Input, *, now_ms: int) -> tuple[Decision, ...]:
        """Take one input; return what the shell must do, in order.

        Args:
            now_ms: Unix time. May be set back or forward at any time.
        """
        if now_ms != self.timers.wall_ms:
            self.timers.advance(now_ms)
        self._dispatch(given)
        if self.settings.checks_invariants:
            self.check_invariants()
        return self.outbox.drain()

    def _dispatch(self, given: Input) -> None:
        match given:
            case Observed():
                KINDS[given.kind].observed(self._observed, given)
            case WriteAccepted() | WriteConflicted() | WriteRejected() | WriteOutcomeUnknown():
                self._answered(given)
            case TimerFired():
                self._tick()
            case Deleted():
                KINDS[given.kind].deleted(self._observed, given)
            case RelistFinished(kind, is_readable):
                self._unlisted.discard(kind)
                if kind == DISRUPTION_BUDGET:
                    self.preemptions.budgets_listed(is_readable=is_readable)
                if not self._unlisted:
                    self.conflicts.all_listed()
                    self._recovery.begin()

    def next_deadline_ms(self) -> int | None:
        """When `TimerFired` is due, on the clock of `now_ms`; None: not before the next input."""
        timers = self.timers
        is_recovering = self._recovery.is_under_way or self.conflicts.is_under_way
        if is_recovering or (not self._unlisted and self.queue.has_active()):
            return timers.wall_ms
        asked = (
            timers.next_deadline_ms(),
            self.queue.next_deadline_ms(timers.now_ms),
            self.troubles.next_deadline_ms(),
            self.causes.next_deadline_ms(),
        )
        deadlines = [ms for ms in asked if ms is not None]
        return timers.to_wall(min(deadlines)) if deadlines else None

    def problems(self) -> tuple[str, ...]:
        """Faults that keep all pods from being bound, or that retrying does not mend: for readiness and logs."""
        return self.troubles.problems()

    def measure(self, clock: Callable[[], float]) -> None:
        """Measure one scheduling cycle in a hundred from now on (`measured`). `clock`: seconds; it decides nothing."""
        self._cycles.measured = Measured(self.runners, clock)

    @property
    def measured(self) -> Measured:
        """What scheduling cycles took."""
        return self._cycles.measured

    def check_invariants(self) -> None:
        """Raise InvariantError when the state contradicts itself. O(state)."""
        self._invariants.check()

    def _tick(self) -> None:
        timers, queue = self.timers, self.queue
        timers.fire()
        self.troubles.tick()
        queue.tick(timers.now_ms)
        for queued in queue.gated.overdue(timers.now_ms):
            self._cycles.explain(queued)
        if self.conflicts.is_under_way:
            self.conflicts.review()
            return
        if self._recovery.is_under_way:
            self._recovery.go_on(self.settings.steps_per_tick)
            return
        # Long searches have every other turn, so neither they nor the other pods wait for more than one turn.
        is_search_turn = queue.has_searching(timers.now_ms) and not (self._has_searched and queue.has_active())
        self._has_searched = is_search_turn
        settings, feasibility = self.settings, self.feasibility
        calls_max = feasibility.filter_calls + settings.filter_calls_per_tick
        steps_max = feasibility.steps + (settings.search_steps_per_turn if is_search_turn else settings.steps_per_tick)
        for _ in range(settings.cycles_per_tick):
            steps = steps_max - feasibility.steps
            if self._unlisted or feasibility.filter_calls >= calls_max or steps <= 0:
                break
            popped = queue.pop_searching(timers.now_ms) if is_search_turn else queue.pop(timers.now_ms)
            if popped is None:
                break
            self.store.ledger.begin(popped.namespace)
            if not popped.steps:
                steps = min(steps, settings.search_steps_first)
            calls = calls_max - feasibility.filter_calls
            if not (self.store.gangs and self._gangs.run(popped, calls, steps)):
                self._cycles.run(popped, calls, steps)
        # The last look at 30,000 nodes takes a turn of its own; usually the cause comes with the first report.
        self.causes.end_tick(has_time=feasibility.steps < steps_max + settings.steps_per_tick)

    def _answered(self, answer: WriteAnswer) -> None:
        """An answer that shows an object, or that it is gone, is an observation first. Then its waiter goes on."""
        asked = self.outbox.answered(answer.id)
        if asked is None:
            return  # it answers an earlier life of the machine
        decision, waiter, _, asked_ms = asked
        self.troubles.answered(decision, answer, asked_ms)
        if isinstance(answer, WriteAccepted):
            if answer.claim is not None:
                self._observed.claim_observed(answer.claim)
            if (pod := answer.pod) is not None:
                self._observed.pod_observed(Observed("Pod", pod.key, pod.uid, pod.metadata.revision, pod))
            if (volume := answer.volume) is not None:
                kind, uid = type(volume).__name__, volume.metadata.uid
                self._observed.storage_observed(Observed(kind, volume.key, uid, volume.revision, volume))
        elif isinstance(answer, WriteRejected):
            if answer.code == GONE and isinstance(decision, ReadClaim):
                self._observed.claim_deleted(Deleted("ResourceClaim", decision.claim, decision.uid))
            elif answer.code == GONE and isinstance(decision, ReadPod):
                self._observed.pod_deleted(Deleted("Pod", decision.pod, decision.uid))
        waiter(answer)
        if self.troubles.due is not None:
            self.troubles.report_due()

    def _given_up(self, uid: PodUid) -> None:
        """The pod is not being bound any more."""
        self.preemptions.pod_given_up(uid)

    def _claim_released(self, key: ClaimKey) -> None:
        """What was held for the claim is free."""
        self.preemptions.claim_changed(key)

    def _claim_freed(self, key: ClaimKey) -> None:
        """A write on the claim was settled: the cycles and attempts that waited for that go on."""
        self._binding_cycles.claim_changed(key)
        self._writers.taking_back.write_settled(key)
