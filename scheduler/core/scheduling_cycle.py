"""One scheduling cycle: PreFilter, Filter, PostFilter, Score, Reserve, for the pod that the queue gave.

    placed ──> assumed, and bound               others must go ──> room is made (`preemptions`), then tried again
    no node ──> waits for a change that helps    failed, or the room was taken ──> tried again after a while

Rules of this module
  1. A pod that is tried alone is a group of one: what becomes of an attempt is decided here for both.
  2. Of a group the `representatives` wait for changes, and its other pods for these. If all waited for changes, each
     change in the cluster would be put to hundreds of pods for one group.
  3. A pod that waits for room says so already; that it still does not fit is nothing new. One for which an earlier
     process made room, and that says nothing, is told.

Not here: the search of a group (`group_cycles`), which node is best (`feasibility`), how the reason is worded
(`fit_error`), what is behind it (`causes`), what wakes the pod (`scheduling_queue`), writing (`binding_cycle`).

Source: pkg/scheduler/schedule_one.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from msgspec import Struct, structs

from scheduler.core.binding.aftermath import Aftermath
from scheduler.core.binding.binding_cycle import BindingCycles
from scheduler.core.ground.outbox import Note
from scheduler.core.preempting.preemption_texts import IN_VAIN, making_room
from scheduler.core.preempting.preemptions import Preemptions
from scheduler.core.queue.gated_pods import GATED_SILENT_MS
from scheduler.core.queue.queued_pod import Place, QueuedPod
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.reports.causes import Causes
from scheduler.core.reports.group_causes import UnplacedGroup
from scheduler.core.reports.group_conditions import SCHEDULED, GroupConditions
from scheduler.core.reports.pod_conditions import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    PodConditions,
    Refusal,
    condition_of,
    reason_of,
)
from scheduler.core.state.ground import Ground, Part
from scheduler.core.trying.attempt import Attempts, Placed, Refused, Stopped, Unfit
from scheduler.core.trying.feasibility import Feasibility
from scheduler.core.trying.post_filters import PostFilters
from scheduler.core.writes.pending_writes import WriteOutcome
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
from scheduler.framework.plan import PodSignature
from scheduler.framework.preemption import Preemption
from scheduler.framework.runner import Runner
from scheduler.framework.status import Code, Status
from scheduler.framework.timed_runner import Measured
from scheduler.model.group import GANG_SCHEDULING, is_disagreement
from scheduler.model.held import Held
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
_MATES_WAIT_FOR: Final = frozenset({GANG_SCHEDULING})
_OTHER_FAILED: Final = "failed to schedule other pod from a pod group:"
"""kube-scheduler's words."""


class Tried(Struct, frozen=True):
    """Who was tried together.

    Args:
        given: The pod that the queue has given out.
        pods: All of them that wait, `given` among them.
        steps: What this turn took.
        cost: What the whole search of a group took, for which its lane is charged already; None for a pod alone.
        speakers: Of a group, the pods for which a change may help.
    """

    given: QueuedPod
    pods: tuple[QueuedPod, ...]
    steps: int
    cost: int | None = None
    representatives: AbstractSet[PodUid] = frozenset()

    @property
    def mates(self) -> tuple[QueuedPod, ...]:
        """The others."""
        return tuple([one for one in self.pods if one is not self.given]) if self.cost is not None else ()


class SchedulingCycles(Part):
    """Runs scheduling cycles against the store, and ends those of groups."""

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
        self.queue: Final = queue
        self.feasibility: Final = feasibility
        self.post_filters: Final = PostFilters(ground, feasibility)
        self.attempts: Final = Attempts(ground, feasibility)
        self._bindings: Final = bindings
        self._writes: Final = writers.claims
        self._taking_back: Final = writers.taking_back
        self.conditions: Final = conditions
        self.group_conditions: Final = GroupConditions(ground)
        self._aftermath: Final = aftermath
        self.causes: Final = causes
        self.preemptions: Final = preemptions
        self.measured = Measured()
        self._begun_at = 0

    def run(self, queued: QueuedPod, calls_max: int, steps_max: int) -> None:
        """Try to place one pod that the queue has given out.

        Args:
            calls_max: Nodes to look at.
            steps_max: Steps that Filter and Reserve may take. What is left then goes on in another tick.
        """
        self._begun_at = self.feasibility.steps
        cycle = Cycle(queued.pod, self._timers.wall_ms, steps_max)
        if not self._store.node_infos:
            self._unschedulable(queued, NO_NODES, frozenset(queued.runner.plugins), None)
            return
        timed = self.measured.runner(queued.runner.scheduler_name, queued.cycle)
        runner = timed or queued.runner
        goes_on = queued.steps > 0
        tried = self.attempts.place(queued, runner, cycle, calls_max, goes_on=goes_on, lanes=self.queue.lanes)
        if isinstance(tried, Placed):
            self.commit(self._tried(queued), (tried,), runner)
        else:
            self._end_without_node(tried, runner, cycle)
        if timed is not None:
            timed.end_cycle()

    def _end_without_node(self, refused: Refused, runner: Runner, cycle: Cycle) -> None:
        queued = refused.queued
        if refused.node is not None:
            self.undo(queued, runner, cycle, refused.node)
        if isinstance(refused, Stopped):
            if refused.failure is not None:
                self.fail(self._tried(queued), queued, refused.failure)
            else:
                self._postpone(queued, refused.reasons)
        elif refused.node is not None:
            self._unschedulable(queued, refused.message, refused.unschedulable_plugins, None)
        elif not self.is_in_vain(self._tried(queued), refused.message):
            self._reject(refused, runner, cycle)

    def _tried(self, queued: QueuedPod) -> Tried:
        """This cycle so far."""
        return Tried(queued, (queued,), self.feasibility.steps - self._begun_at)

    def _postpone(self, queued: QueuedPod, reasons: Mapping[str, int]) -> None:
        """The attempt goes on later; when that is not soon, say so."""
        rest_ms = self.queue.postponed(queued, self._timers.now_ms, steps=self._tried(queued).steps)
        self.note(queued, f"the search goes on after others, in {rest_ms} ms")
        if rest_ms:
            message = f"{self.message('', reasons)} {UNFINISHED.format(_seconds(rest_ms))}"
            self.conditions.report(queued.pod, Refusal(UNSCHEDULABLE, message))

    def _reject(self, unfit: Unfit, runner: Runner, cycle: Cycle) -> None:
        """No node fits: let PostFilter help, then wait for a change."""
        queued, message = unfit.queued, unfit.message
        helped = self.post_filters.ask(unfit, runner, cycle)
        if helped.status.code is Code.UNFINISHED:
            self._postpone(queued, unfit.reasons)
            return
        if helped.status.code is Code.ERROR or (not helped.status.is_success and helped.status.message):
            message = f"{message} {helped.status.message}"
        self.take_back(queued, helped.decisions, Refusal(UNSCHEDULABLE, message))
        if PREEMPTION in queued.runner.plugins:
            is_asked = helped.status.plugin == PREEMPTION or not helped.status.is_success
            self.queue.tallies.preemptions.attempts += is_asked
        if helped.preemption is None:
            signature = unfit.plan.signature if unfit.plan is not None else None
            clears = helped.nominated_node == "" and not queued.pod.status.nominated_node_name
            nominated = None if clears else helped.nominated_node
            self._unschedulable(queued, message, unfit.unschedulable_plugins, signature, nominated)
        elif self.preemptions.records.get(queued.uid) is None:
            text = making_room(helped.preemption, helped.status.message, to=queued.pod.key.namespace)
            why = Refusal(UNSCHEDULABLE, f"{message} {text}")
            self.make_room(self._tried(queued), [(queued, helped.preemption)], unfit.unschedulable_plugins, why)
        else:
            self._unschedulable(queued, message, unfit.unschedulable_plugins, None)

    def _unschedulable(
        self,
        queued: QueuedPod,
        message: str,
        unschedulable_plugins: frozenset[str],
        signature: PodSignature | None,
        nominated_node: NodeName | None = None,
    ) -> None:
        self.group_conditions.report(queued.pod, Refusal(UNSCHEDULABLE, message))
        rest_ms = self.reject(self._tried(queued), unschedulable_plugins, signature)
        if rest_ms:
            message = f"{message} {COSTLY.format(_seconds(rest_ms))}"
        self.note(queued, f"unschedulable, waits for a change ({', '.join(sorted(unschedulable_plugins))}): {message}")
        if rest_ms is None:
            return
        why = Refusal(UNSCHEDULABLE, message)
        if nominated_node is None and self._waits_for_own_write(queued.uid):
            self.say_later(queued, lambda: self.causes.report(queued, why))
        else:
            self.causes.report(queued, why, nominated_node)

    def _waits_for_own_write(self, uid: PodUid) -> bool:
        """Whether we are allocating a claim of the pod for another pod: that happens to pods that share a claim."""
        for key in self._store.claims_of(uid):
            claim = self._store.claim(key)
            if claim is not None and claim.allocation is None and claim.uid in self._overlay.holds:
                return True
        return False

    def explain(self, queued: QueuedPod) -> None:
        """Report why PreEnqueue keeps a pod out. Scheduling gates speak for themselves."""
        if queued.pod.spec.scheduling_gates:
            return
        status = queued.runner.pre_enqueue(queued.pod, self._view)
        if status.is_rejection:
            if is_disagreement(status.message):
                self.group_conditions.report_disagreement(queued.pod, status.message)
            self.causes.report(queued, Refusal(UNSCHEDULABLE, self.message(status.message)))

    def note(self, queued: QueuedPod, text: str) -> None:
        """For whoever wants to know what each cycle came to."""
        if self._outbox.takes_notes:
            self._outbox.notes.append(Note(queued.pod.key, queued.cycle, text))

    def message(self, text: str, reasons: Mapping[str, int] | None = None) -> str:
        """Why no node fits, in kube-scheduler's words; `text` is PreFilter's."""
        return fit_error(len(self._store.node_infos), pre_filter=text, reasons=reasons or {})

    # A node

    def commit(self, tried: Tried, found: Sequence[Placed], runner: Runner | None = None) -> None:
        """These have a node, and all that they need is held: bind them. Pods left over are tried alone, later."""
        now_ms, given = self._timers.now_ms, tried.given
        self.group_conditions.report(given.pod, SCHEDULED)
        if tried.cost is not None:
            for one in found:
                if one.queued is not given:
                    self.queue.fly(one.queued, now_ms)
            if all(one.queued is not given for one in found):
                self.queue.returned(given, now_ms)  # it has its turn when the others have gone
        for one in found:
            self.preemptions.placed(one.queued.pod, one.node, one.reserved.held)
            self.queue.assumed(one.queued, now_ms, steps=tried.steps if tried.cost is None else 0)
            if self._outbox.takes_notes:
                self.note(one.queued, _chosen(one.node, one.reserved.held))
        for left_over in tried.mates:
            if left_over.place is Place.UNSCHEDULABLE:
                self.queue.activate(left_over.uid, now_ms)
        for one in found:
            self._bindings.start(one.queued.pod, one.node, one.cycle, runner or one.queued.runner)

    # No node

    def reject(
        self, tried: Tried, unschedulable_plugins: frozenset[str], signature: PodSignature | None = None
    ) -> int | None:
        """They wait for a change that could help.

        Returns:
            How long they rest whatever changes, 0 for the usual backoff; None: nothing is to be said.
        """
        for one in tried.pods:
            self.preemptions.not_placed(one.uid)
        rest_ms = self._set_aside(tried, unschedulable_plugins, signature)
        return None if any(self._says_so(one) for one in tried.pods) else rest_ms

    def _says_so(self, queued: QueuedPod) -> bool:
        """Whether room is being made for the pod, and it was said (rule 3)."""
        record = self.preemptions.records.get(queued.uid)
        return record is not None and not (record.is_recovered and condition_of(queued.pod) is None)

    def make_room(
        self,
        tried: Tried,
        rooms: Sequence[tuple[QueuedPod, Preemption]],
        unschedulable_plugins: frozenset[str],
        why: Refusal,
    ) -> None:
        """Others are removed for them, and they wait for that alone: the verdict on them holds for no other pod."""
        self._set_aside(tried, unschedulable_plugins, None)
        why = self.causes.of_room(tried.given.pod, [preemption for _, preemption in rooms], why)
        self.note(tried.given, f"unschedulable: {why.message}")
        self.group_conditions.report(tried.given.pod, why)
        self.preemptions.begin([(queued.pod, preemption) for queued, preemption in rooms], why)
        in_room = {queued.uid for queued, _ in rooms}
        for one in tried.mates:
            if one.uid not in in_room:
                self.conditions.report(one.pod, why)

    def is_in_vain(self, tried: Tried, message: str) -> bool:
        """Whether room was made and they do not fit: then others may be removed for them again after a backoff."""
        if not any(self.preemptions.is_in_vain(one.uid) for one in tried.pods):
            return False
        failure = Status.unschedulable(f"{message} {IN_VAIN}")
        mates = tried.mates
        self._set_aside(Tried(tried.given, mates, 0, tried.cost), _MATES_WAIT_FOR, None)
        self.group_conditions.report(tried.given.pod, reason_of(failure))
        self._aftermath.attempt_failed(tried.given, failure, steps=tried.steps)
        for one in mates:
            self.conditions.report(one.pod, Refusal(UNSCHEDULABLE, failure.message))
        return True

    def fail(self, tried: Tried, queued: QueuedPod, failure: Status, group: UnplacedGroup | None = None) -> None:
        """A plugin failed for one of them: the others of its group wait with it, and say so."""
        why, others = reason_of(failure), [one for one in tried.pods if one is not queued]
        if group is not None:
            why = Refusal(why.reason, f"{_OTHER_FAILED} {why.message}")
        self.group_conditions.report(queued.pod, why)
        if queued is not tried.given:
            self.queue.fly(queued, self._timers.now_ms)
        self._set_aside(structs.replace(tried, pods=tuple(others)), frozenset(tried.given.runner.plugins), None)
        self.preemptions.not_placed(queued.uid)
        mates = [(one, why) for one in others]
        self._aftermath.attempt_failed(queued, failure, steps=tried.steps, group=group, mates=mates)

    def _set_aside(self, tried: Tried, unschedulable_plugins: frozenset[str], signature: PodSignature | None) -> int:
        """All of them wait; how long they rest."""
        now_ms, rest_ms, steps = self._timers.now_ms, 0, tried.steps
        for one in tried.pods:
            by = unschedulable_plugins
            if tried.cost is not None:
                if one is not tried.given:
                    self.queue.fly(one, now_ms)
                one.steps, steps = tried.cost, 0  # what costs much is not tried again soon, whichever of them is woken
                by = unschedulable_plugins if one.uid in tried.representatives else _MATES_WAIT_FOR
            rest_ms = self.queue.rejected(one, by, signature, now_ms, steps=steps)
        return rest_ms

    def say_later(self, queued: QueuedPod, say: Callable[[], None]) -> None:
        """Say it when the pod still waits for the same after a while."""
        at_ms = self._timers.now_ms + GATED_SILENT_MS
        self._timers.at(at_ms, partial(self._say_if_same, queued, queued.ticket, say))

    def _say_if_same(self, queued: QueuedPod, ticket: int, say: Callable[[], None]) -> None:
        if self.queue.find(queued.uid) is queued and queued.ticket == ticket:
            say()

    # What is taken back

    def undo(self, queued: QueuedPod, runner: Runner, cycle: Cycle, node: NodeName) -> None:
        """Take back what is stored for a pod that had a node."""
        decisions = runner.unreserve(cycle, node, self._view)
        self.take_back(queued, decisions, Refusal(SCHEDULER_ERROR, "the pod's node was given up again"))

    def take_back(self, queued: QueuedPod, decisions: Sequence[Decision], why: Refusal) -> None:
        """Make a plugin's writes on claims of the pod, once nobody else's are in the way."""
        if decisions:
            claims = self._store.claims_of(queued.uid)
            self._taking_back.prepare(claims, lambda: decisions, why, self._send_all)

    def _send_all(self, decisions: tuple[Decision, ...] | None) -> None:
        for decision in decisions or ():
            match decision:
                case AddClaimFinalizer() | WriteClaimStatus() | RemoveClaimFinalizer() | DeleteClaim():
                    self._writes.send(decision, _settled)
                case RecordEvent():
                    self._outbox.report(decision)
                case _:
                    name = type(decision).__name__
                    raise TypeError(f"plugin returned {name} where only claim writes and events may be")


def _chosen(node: NodeName, held: Iterable[Held]) -> str:
    devices = "".join(
        f", devices {', '.join(map(str, one.allocation.device_ids()))} for claim {one.claim}" for one in held
    )
    return f"node {node}{devices}"


def _settled(outcome: WriteOutcome) -> None:
    """The outcome of such a write shows on the claim, and the change of the claim wakes the pod."""


def _seconds(ms: int) -> str:
    return f"{-(-ms // 1000)}s"
