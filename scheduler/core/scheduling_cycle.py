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
from typing import Final

from scheduler.core.binding.aftermath import Aftermath
from scheduler.core.binding.binding_cycle import BindingCycles
from scheduler.core.gang_cycles import GangCycles
from scheduler.core.ground.outbox import Note
from scheduler.core.preempting.preemption_texts import IN_VAIN, making_room
from scheduler.core.preempting.preemptions import Preemptions
from scheduler.core.queue.gated_pods import GATED_SILENT_MS
from scheduler.core.queue.queued_pod import QueuedPod
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.reports.causes import Causes
from scheduler.core.reports.group_conditions import SCHEDULED, GroupConditions
from scheduler.core.reports.pod_conditions import SCHEDULER_ERROR, UNSCHEDULABLE, PodConditions, Reason
from scheduler.core.state.ground import Ground, Part
from scheduler.core.trying.attempt import Attempts, Placed, Refused, Stopped, Unfit
from scheduler.core.trying.feasibility import Feasibility
from scheduler.core.trying.post_filters import PostFilters
from scheduler.core.writes.pursuits import Outcome
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
from scheduler.framework.fit_error import NO_NODES, fit_error
from scheduler.framework.held import Held
from scheduler.framework.plan import Shape
from scheduler.framework.preemption import Preemption
from scheduler.framework.runner import Runner
from scheduler.framework.status import Code, Status
from scheduler.framework.timed_runner import Measured
from scheduler.model.gang import is_disagreement
from scheduler.model.keys import NodeName, PodUid

UNFINISHED: Final = (
    "Looking for its node takes long (selectors, terms or constraints that cost much to decide) and is not finished: "
    "it goes on in {}, then less and less often."
)
PREEMPTION: Final = "DefaultPreemption"
COSTLY: Final = (
    "Looking for its node takes long (selectors, terms or constraints that cost much to decide), so it is tried again "
    "after {} at the earliest."
)


class SchedulingCycles(Part):
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
        super().__init__(ground)
        self._queue: Final = queue
        self._feasibility: Final = feasibility
        self._post_filters: Final = PostFilters(ground, feasibility)
        self._bindings: Final = bindings
        self._writes: Final = writers.claims
        self._attempts: Final = Attempts(ground, feasibility)
        self._taking_back: Final = writers.taking_back
        self._conditions: Final = conditions
        self._group_conditions: Final = GroupConditions(ground)
        self._causes: Final = causes
        self._aftermath: Final = aftermath
        self._preemptions: Final = preemptions
        self.gangs: Final = GangCycles(
            ground,
            queue=queue,
            attempts=self._attempts,
            feasibility=feasibility,
            post_filters=self._post_filters,
            bindings=bindings,
            conditions=conditions,
            group_conditions=self._group_conditions,
            causes=causes,
            aftermath=aftermath,
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
        goes_on = queued.steps > 0
        tried = self._attempts.place(queued, runner, cycle, calls_max, goes_on=goes_on, lanes=self._queue.lanes)
        if isinstance(tried, Placed):
            self._bind(tried, runner)
        else:
            self._end_without_node(tried, runner, cycle)
        if timed is not None:
            timed.end_cycle()

    def _bind(self, placed: Placed, runner: Runner) -> None:
        queued, node, held = placed.queued, placed.node, placed.reserved.held
        self._preemptions.placed(queued.pod, node, held)
        self._group_conditions.report(queued.pod, SCHEDULED)
        self._queue.assumed(queued, self._timers.now_ms, steps=self._taken())
        if self._outbox.takes_notes:
            self._note(queued, _chosen(node, held))
        self._bindings.start(queued.pod, node, placed.cycle, runner)

    def _end_without_node(self, refused: Refused, runner: Runner, cycle: Cycle) -> None:
        queued = refused.queued
        if refused.node is not None:
            self._undo(queued, runner, cycle, refused.node)
        if isinstance(refused, Stopped):
            if refused.failure is not None:
                self._fail(queued, refused.failure)
            else:
                self._postpone(queued, refused.reasons)
        elif refused.node is not None:
            self._unschedulable(queued, refused.message, refused.rejecters, None)
        else:
            self._reject(refused, runner, cycle)

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

    # No node

    def _reject(self, unfit: Unfit, runner: Runner, cycle: Cycle) -> None:
        """No node fits: let PostFilter help, then wait for a change."""
        queued, message = unfit.queued, unfit.message
        if self._preemptions.is_in_vain(queued.uid):
            failure = Status.unschedulable(f"{message} {IN_VAIN}")
            self._aftermath.attempt_failed(queued, failure, steps=self._taken())
            return
        helped = self._post_filters.ask(unfit, runner, cycle)
        if helped.status.code is Code.UNFINISHED:
            self._postpone(queued, unfit.reasons)
            return
        if helped.status.code is Code.ERROR or (not helped.status.is_success and helped.status.message):
            message = f"{message} {helped.status.message}"
        self._take_back(queued, helped.decisions, Reason(UNSCHEDULABLE, message))
        if PREEMPTION in queued.runner.plugins:
            is_asked = helped.status.plugin == PREEMPTION or not helped.status.is_success
            self._queue.tallies.preemptions.attempts += is_asked
        if helped.preemption is None:
            shape = unfit.plan.shape if unfit.plan is not None else None
            clears = helped.nominated_node == "" and not queued.pod.status.nominated_node_name
            nominated = None if clears else helped.nominated_node
            self._unschedulable(queued, message, unfit.rejecters, shape, nominated)
        elif self._preemptions.records.get(queued.uid) is None:
            text = making_room(helped.preemption, helped.status.message, to=queued.pod.key.namespace)
            self._preempt(queued, helped.preemption, unfit.rejecters, f"{message} {text}")
        else:
            self._unschedulable(queued, message, unfit.rejecters, None)

    def _preempt(self, queued: QueuedPod, preemption: Preemption, rejecters: frozenset[str], message: str) -> None:
        """Make room for the pod, which waits for that alone: the verdict on it holds for no other pod."""
        self._queue.rejected(queued, rejecters, None, self._timers.now_ms, steps=self._taken())
        if self._outbox.takes_notes:
            self._note(queued, f"unschedulable: {message}")
        self._preemptions.begin([(queued.pod, preemption)], Reason(UNSCHEDULABLE, message))

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
        self._group_conditions.report(queued.pod, Reason(UNSCHEDULABLE, message))
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
            at_ms = self._timers.now_ms + GATED_SILENT_MS
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
            if is_disagreement(status.message):
                self._group_conditions.report(queued.pod, Reason(SCHEDULER_ERROR, status.message))
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
                self._writes.send(decision, _settled)
            case RecordEvent():
                self._outbox.report(decision)
            case _:
                raise TypeError(f"plugin returned {type(decision).__name__} where only claim writes and events may be")


def _chosen(node: NodeName, held: Iterable[Held]) -> str:
    devices = "".join(
        f", devices {', '.join(map(str, one.allocation.device_ids()))} for claim {one.claim}" for one in held
    )
    return f"node {node}{devices}"


def _settled(outcome: Outcome) -> None:
    """The outcome of PostFilter's write shows on the claim, and the change of the claim wakes the pod."""


def _seconds(ms: int) -> str:
    return f"{-(-ms // 1000)}s"
