"""One scheduling cycle: PreFilter, Filter, PostFilter, Score, Reserve, for the pod that the queue gave.

It ends in one of three ways: the pod is assumed on a node and its binding cycle runs; it is unschedulable and waits for
a change; or something failed and it is tried again after a while. The reason is reported in upstream's words.

Not here: which node is best (`feasibility`), how the reason is worded (`fit_error`), what is behind it (`causes`), what
wakes the pod (`scheduling_queue`), the pod's condition (`pod_conditions`), writing (`binding_cycle`).

Source: pkg/scheduler/schedule_one.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from scheduler.core.binding.aftermath import Aftermath
from scheduler.core.binding.binding_cycle import BindingCycles
from scheduler.core.gang_cycles import GangCycles
from scheduler.core.ground.outbox import Note
from scheduler.core.preempting.preemption_texts import making_room
from scheduler.core.preempting.preemptions import Preemptions
from scheduler.core.queue.queued_pod import QueuedPod
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.reports.causes import Causes
from scheduler.core.reports.pod_conditions import SCHEDULER_ERROR, UNSCHEDULABLE, PodConditions, Reason
from scheduler.core.state.ground import Ground
from scheduler.core.trying.dry_run import DryRuns, reserve
from scheduler.core.trying.dry_run_memory import DryRunMemories
from scheduler.core.trying.feasibility import Chosen, Feasibility, NoneFits, Question, Unfinished
from scheduler.core.writes.claim_writes import Settlement
from scheduler.core.writes.writers import Writers
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import (
    AddClaimFinalizer,
    Decision,
    DeleteClaim,
    RecordEvent,
    RemoveClaimFinalizer,
    WriteClaimStatus,
)
from scheduler.framework.fit_error import NO_NODES, fit_error, not_named
from scheduler.framework.held import Held
from scheduler.framework.plan import Plan, PreFiltered, Shape
from scheduler.framework.preemption import Preemption
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.framework.timed_runner import Measured
from scheduler.model.keys import NodeName, PodUid

UNFINISHED: Final = (
    "Looking for its node takes long (selectors, terms or constraints that cost much to decide) and is not finished: "
    "it goes on in {}, then less and less often."
)
PREEMPTION: Final = "DefaultPreemption"
IN_VAIN: Final = "The room that was made for it has been taken."
COSTLY: Final = (
    "Looking for its node takes long (selectors, terms or constraints that cost much to decide), so it is tried again "
    "after {} at the earliest."
)


class SchedulingCycles:
    """Runs scheduling cycles against the store."""

    def __init__(
        self,
        ground: Ground,
        writers: Writers,
        *,
        queue: SchedulingQueue,
        feasibility: Feasibility,
        bindings: BindingCycles,
        conditions: PodConditions,
        causes: Causes,
        aftermath: Aftermath,
        preemptions: Preemptions,
    ) -> None:
        self._ground: Final = ground
        self._store: Final = ground.store
        self._overlay: Final = ground.overlay
        self._volumes: Final = ground.volumes
        self._queue: Final = queue
        self._feasibility: Final = feasibility
        self._memories: Final = DryRunMemories(ground.store)
        self._bindings: Final = bindings
        self._writes: Final = writers.claims
        self._outbox: Final = ground.outbox
        self._timers: Final = ground.timers
        self._settings: Final = ground.settings
        self._view: Final = ground.view
        self._taking_back: Final = writers.taking_back
        self._conditions: Final = conditions
        self._causes: Final = causes
        self._aftermath: Final = aftermath
        self._preemptions: Final = preemptions
        self.gangs: Final = GangCycles(
            ground,
            queue=queue,
            feasibility=feasibility,
            bindings=bindings,
            conditions=conditions,
            preemptions=preemptions,
            undo=self._undo,
            fail=self._fail,
        )
        self.measured = Measured()
        self._begun_at = 0

    def run(self, queued: QueuedPod, calls_max: int, steps_max: int) -> None:
        """Try to place one pod that the queue has given out.

        Args:
            calls_max: Nodes to look at.
            steps_max: Steps that Filter and Reserve may take. What is left then goes on in another tick.
        """
        self._begun_at = self._feasibility.steps
        if self._store.gangs and self.gangs.run(queued, calls_max, steps_max):
            return
        cycle = Cycle(queued.pod, self._timers.wall_ms, steps_max)
        if not self._store.node_infos:
            self._unschedulable(queued, NO_NODES, frozenset(queued.runner.plugins), None)
            return
        timed = self.measured.runner(queued.runner.scheduler_name, queued.cycle)
        runner = timed or queued.runner
        self._try(queued, runner, cycle, calls_max)
        if timed is not None:
            timed.end_cycle()

    def _try(self, queued: QueuedPod, runner: Runner, cycle: Cycle, calls_max: int) -> None:
        filtered = self._pre_filter(runner, cycle)
        if filtered.status is SUCCESS:
            self._place(queued, runner, cycle, filtered, calls_max)
        elif filtered.status.code is Code.UNFINISHED:
            self._postpone(queued, {})
        elif filtered.status.is_rejection:
            message = self._message(filtered.status.message, {})
            verdicts = dict.fromkeys(self._store.node_infos, filtered.status)
            self._reject(queued, runner, cycle, _Refusal(message, frozenset({filtered.status.plugin}), verdicts))
        else:
            self._fail(queued, filtered.status)

    def _pre_filter(self, runner: Runner, cycle: Cycle) -> PreFiltered:
        allowed = cycle.steps_left
        filtered = runner.pre_filter(cycle, self._view)
        self._feasibility.steps += allowed - cycle.steps_left
        # What is looked at is remembered like answers, so each part of the attempt gets on with both.
        cycle.steps_left = max(cycle.steps_left, allowed // 2)
        return filtered

    def _place(self, queued: QueuedPod, runner: Runner, cycle: Cycle, filtered: PreFiltered, calls_max: int) -> None:
        plan = runner.plan(cycle, self._view, filtered)
        if isinstance(plan, Status):
            self._fail(queued, plan)
            return
        if self._queue.lanes.stands_behind(queued, plan.shape):
            self._postpone(queued, {})
            return
        preferred = self._store.nominations.node_of(queued.uid) or NodeName("")
        names, possible = filtered.node_names, filtered.possible_nodes
        found = self._feasibility.find(
            Question(runner, cycle, plan, names, possible, preferred, calls_max, goes_on=queued.steps > 0)
        )
        match found:
            case Chosen(node):
                self._reserve(queued, runner, cycle, node)
            case NoneFits() as none:
                reasons = dict(none.reasons)
                rejecters = none.rejecters
                absent = len(self._store.node_infos) - len(none.verdicts)
                if absent:
                    (text,) = not_named(filtered.narrowing).reasons
                    reasons[text] = reasons.get(text, 0) + absent
                    rejecters |= frozenset(filtered.narrowing)
                shape = plan.shape if none.is_remembered else None
                message = self._message("", reasons)
                self._reject(queued, runner, cycle, _Refusal(message, rejecters, none.verdicts, reasons, plan, shape))
            case Unfinished(reasons):
                self._postpone(queued, reasons)
            case Status() as failure:
                self._fail(queued, failure)

    def _reserve(self, queued: QueuedPod, runner: Runner, cycle: Cycle, node: NodeName) -> None:
        uid = queued.uid
        allowed = cycle.steps_left
        reserved = reserve(self._ground, runner, cycle, self._store.node_infos[node], self._view)
        self._feasibility.steps += allowed - cycle.steps_left
        if not reserved.status.is_success:
            self._undo(queued, runner, cycle, node)
            if reserved.status.code is Code.UNFINISHED:
                self._postpone(queued, {})
                return
            self._end_without_node(queued, reserved.status)
            return
        self._overlay.hold(uid, reserved.held)
        self._store.assume(uid, node, reserved.of_node)
        if reserved.volumes:
            self._volumes.hold(uid, reserved.volumes)
        self._preemptions.placed(queued.pod, node, reserved.held)
        self._queue.assumed(queued, self._timers.now_ms, steps=self._taken())
        if self._outbox.takes_notes:
            self._note(queued, _chosen(node, reserved.held))
        self._bindings.start(queued.pod, node, cycle, runner)

    def _note(self, queued: QueuedPod, text: str) -> None:
        self._outbox.notes.append(Note(queued.pod.key, queued.cycle, text))

    def _taken(self) -> int:
        """Steps of this cycle so far."""
        return self._feasibility.steps - self._begun_at

    def _postpone(self, queued: QueuedPod, reasons: Mapping[str, int]) -> None:
        """The attempt goes on later; when that is not soon, say so."""
        rest_ms = self._queue.postponed(queued, self._timers.now_ms, steps=self._taken())
        if self._outbox.takes_notes:
            self._note(queued, f"the search goes on after others, in {rest_ms} ms")
        if rest_ms:
            message = f"{self._message('', reasons)} {UNFINISHED.format(_seconds(rest_ms))}"
            self._conditions.report(queued.pod, Reason(UNSCHEDULABLE, message))

    def _undo(self, queued: QueuedPod, runner: Runner, cycle: Cycle, node: NodeName) -> None:
        decisions = runner.unreserve(cycle, node, self._view)
        self._take_back(queued, decisions, Reason(SCHEDULER_ERROR, "the pod's node was given up again"))

    def _end_without_node(self, queued: QueuedPod, status: Status) -> None:
        if status.is_rejection:
            message = self._message("", dict.fromkeys(status.reasons, 1))
            self._unschedulable(queued, message, frozenset({status.plugin}), None)
        else:
            self._fail(queued, status)

    # No node

    def _reject(self, queued: QueuedPod, runner: Runner, cycle: Cycle, refusal: _Refusal) -> None:
        """No node fits: let PostFilter help, then wait for a change."""
        message = refusal.message
        if self._preemptions.is_in_vain(queued.uid):
            failure = Status.unschedulable(f"{message} {IN_VAIN}")
            self._aftermath.attempt_failed(queued, failure, steps=self._taken())
            return
        memory = self._memories.of(queued.runner, queued.pod, refusal.plan)
        dry_run = DryRuns(self._ground, queued.runner, cycle, verdicts=refusal.verdicts, memory=memory)
        allowed = cycle.steps_left
        helped = runner.post_filter(cycle, refusal.verdicts, self._view, dry_run)
        self._feasibility.steps += max(0, allowed - cycle.steps_left) + dry_run.steps
        if helped.status.code is Code.UNFINISHED:
            self._memories.interrupted(queued.uid, memory)
            self._postpone(queued, refusal.reasons)
            return
        if helped.status.code is Code.ERROR or (not helped.status.is_success and helped.status.message):
            message = f"{message} {helped.status.message}"
        self._take_back(queued, helped.decisions, Reason(UNSCHEDULABLE, message))
        if PREEMPTION in queued.runner.plugins:
            is_asked = helped.status.plugin == PREEMPTION or not helped.status.is_success
            self._queue.tallies.preemptions.attempts += is_asked
        if helped.preemption is None:
            clears = helped.nominated_node == "" and not queued.pod.status.nominated_node_name
            nominated = None if clears else helped.nominated_node
            self._unschedulable(queued, message, refusal.rejecters, refusal.shape, nominated)
        elif self._preemptions.records.get(queued.uid) is None:
            self._preempt(queued, helped.preemption, refusal.rejecters, message)
        else:
            self._unschedulable(queued, message, refusal.rejecters, None)

    def _preempt(self, queued: QueuedPod, preemption: Preemption, rejecters: frozenset[str], message: str) -> None:
        """Make room for the pod, which waits for that alone: the verdict on it holds for no other pod."""
        self._queue.rejected(queued, rejecters, None, self._timers.now_ms, steps=self._taken())
        text = making_room(preemption)
        if self._outbox.takes_notes:
            self._note(queued, f"unschedulable: {message} {text}")
        self._preemptions.begin(queued.pod, preemption, Reason(UNSCHEDULABLE, f"{message} {text}"))

    def _message(self, pre_filter_message: str, reasons: Mapping[str, int]) -> str:
        return fit_error(len(self._store.node_infos), pre_filter=pre_filter_message, reasons=reasons)

    def _unschedulable(
        self,
        queued: QueuedPod,
        message: str,
        rejecters: frozenset[str],
        shape: Shape | None,
        nominated_node: NodeName | None = None,
    ) -> None:
        self._preemptions.not_placed(queued.uid)
        rest_ms = self._queue.rejected(queued, rejecters, shape, self._timers.now_ms, steps=self._taken())
        if rest_ms:
            message = f"{message} {COSTLY.format(_seconds(rest_ms))}"
        if self._outbox.takes_notes:
            by = ", ".join(sorted(rejecters))
            self._note(queued, f"unschedulable, waits for a change ({by}): {message}")
        record = self._preemptions.records.get(queued.uid)
        if record is not None and record.is_outstanding:
            return  # the condition says for whom it waits; that it still does is nothing new
        if nominated_node is None and self._waits_for_own_write(queued.uid):
            at_ms = self._timers.now_ms + self._settings.gated_ms_silent
            self._timers.at(at_ms, partial(self._report_later, queued, queued.ticket, message))
        else:
            self._causes.report(queued, Reason(UNSCHEDULABLE, message), nominated_node)

    def _waits_for_own_write(self, uid: PodUid) -> bool:
        """Whether we are allocating a claim of the pod for another pod: that happens to pods that share a claim."""
        for key in self._store.claims_of(uid):
            claim = self._store.claim(key)
            if claim is not None and claim.allocation is None and claim.uid in self._overlay.holds:
                return True
        return False

    def _report_later(self, queued: QueuedPod, ticket: int, message: str) -> None:
        if self._queue.find(queued.uid) is queued and queued.ticket == ticket:
            self._causes.report(queued, Reason(UNSCHEDULABLE, message))

    def _fail(self, queued: QueuedPod, status: Status) -> None:
        self._preemptions.not_placed(queued.uid)
        self._aftermath.attempt_failed(queued, status, steps=self._taken())

    def explain(self, queued: QueuedPod) -> None:
        """Report why PreEnqueue keeps a pod out. Scheduling gates speak for themselves."""
        if queued.pod.spec.scheduling_gates:
            return
        status = queued.runner.pre_enqueue(queued.pod, self._view)
        if status.is_rejection:
            self._causes.report(queued, Reason(UNSCHEDULABLE, self._message(status.message, {})))

    # PostFilter's writes

    def _take_back(self, queued: QueuedPod, decisions: Sequence[Decision], why: Reason) -> None:
        if decisions:
            claims = self._store.claims_of(queued.uid)
            self._taking_back.prepare(claims, lambda: decisions, why, partial(self._send_all, queued))

    def _send_all(self, queued: QueuedPod, decisions: tuple[Decision, ...] | None) -> None:
        for decision in decisions or ():
            self._send(queued, decision)

    def _send(self, queued: QueuedPod, decision: Decision) -> None:
        match decision:
            case AddClaimFinalizer() | WriteClaimStatus() | RemoveClaimFinalizer() | DeleteClaim():
                self._writes.send(decision, None, _settled)
            case RecordEvent():
                self._outbox.report(decision)
            case _:
                raise TypeError(f"plugin returned {type(decision).__name__} where only claim writes and events may be")


class _Refusal(Struct, frozen=True):
    """No node fits.

    Args:
        verdicts: On nodes that were looked at, or all where PreFilter refused.
        reasons: How many nodes gave each reason.
        plan: None where PreFilter refused.
        shape: Of which all pods have the same chance; None where that is not known.
    """

    message: str
    rejecters: frozenset[str]
    verdicts: Mapping[NodeName, Status]
    reasons: Mapping[str, int] = MappingProxyType({})
    plan: Plan | None = None
    shape: Shape | None = None


def _chosen(node: NodeName, held: Iterable[Held]) -> str:
    devices = "".join(
        f", devices {', '.join(map(str, one.allocation.device_ids()))} for claim {one.claim}" for one in held
    )
    return f"node {node}{devices}"


def _settled(settlement: Settlement) -> None:
    """The outcome of PostFilter's write shows on the claim, and the change of the claim wakes the pod."""


def _seconds(ms: int) -> str:
    return f"{-(-ms // 1000)}s"
