"""Binding cycles: from a reserved node to a bound pod, through conflicts, refusals and unknown outcomes.

The stages (`binding` has them as a table): PRE_BIND: plugins compare what must be stored with what is observed and
name the next step; after every answer they are asked again, from the first, so all agree at the instant of binding.
BIND: the binding is sent. SETTLE: the pod is given up, but its writes may still land. UNRESERVE: what is stored for
nothing is taken back (`unreserving`).

Rules of this module
  1. A pod is bound only when every PreBind plugin is done, no other write on its claims may still land, the watch has
     reached our own writes (so everything stored before them is known), and nobody else was given its devices.
  2. A binding whose outcome is unknown is read and repeated until it is known; the pod stays assumed all the time. The
     API server binds a uid once, so repeating is safe, and giving up before it is known would not be.
  3. Holds end when the pod's writes are settled, not before.
  4. One cycle ends before the pod can begin another.
  5. The pod is bound with the claims that its status names at that instant: the kubelet looks there alone. They can be
     replaced meanwhile, or be taken back by another process of our name (`taking_back`), so a binding with claims is
     for the pod's revision, and the API server compares.

Cost: O(1) for each answer, plus what the plugins do.

See docs/adr/0006-level-triggered-prebind.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from msgspec import structs

from scheduler.core.binding.aftermath import Aftermath
from scheduler.core.binding.binding import BindingCycle, Bindings, Stage
from scheduler.core.binding.binding_waits import BindingWaits
from scheduler.core.binding.binding_writes import BindingWrites
from scheduler.core.binding.unreserving import Unreserving
from scheduler.core.binding.withdrawals import Withdrawals
from scheduler.core.ground.core_settings import CONFIGURATION_RETRY_MS
from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteRejected
from scheduler.core.ground.outbox import GONE, WriteAnswer
from scheduler.core.reports.pod_conditions import PodConditions, Refusal
from scheduler.core.state.ground import Ground, Part
from scheduler.core.state.store import claims_of
from scheduler.core.writes.pod_writes import notes_of
from scheduler.core.writes.taking_back import fence_of
from scheduler.core.writes.writers import Writers
from scheduler.framework.api import PreBindDone, PreBindFailed, PreBindWait, PreBindWrite
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import BindPod, Decision, ReadPod, RecordEvent, WriteClaimStatus
from scheduler.framework.diagnosis import admin_access_unlabelled, with_cause, without_cause
from scheduler.framework.runner import Runner
from scheduler.framework.status import Status
from scheduler.model.api_rules import ADMIN_ACCESS_LABEL
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.objects import Pod
from scheduler.model.pod_group import is_reserved_for
from scheduler.model.storage import AnyStorageObject
from scheduler.why.reasons import Diagnosis
from scheduler.why.say import EVERYBODY

_WAITING_SILENT_MS: Final = 1_000
"""A pod that waits for something in PreBind says so in its condition when it lasts so long."""
_RESERVED_PATIENCE_MS: Final = 5_000
"""How long another process of our name may take to bind a pod for which it has reserved other devices than before."""

# A member is looked up twenty times for each pod, and through its class that is slow.
_PRE_BIND, _BIND, _SETTLE, _ = Stage


class BindingCycles(Part):
    """All pods between Reserve and the end of their binding."""

    def __init__(
        self,
        ground: Ground,
        writers: Writers,
        *,
        bindings: Bindings,
        conditions: PodConditions,
        withdrawals: Withdrawals,
        aftermath: Aftermath,
    ) -> None:
        super().__init__(ground)
        self._writes: Final = writers.claims
        self._volume_writes: Final = writers.volumes
        self.bindings: Final = bindings
        self._conditions: Final = conditions
        self._withdrawals: Final = withdrawals
        self._aftermath: Final = aftermath
        self.waits: Final = BindingWaits(ground, bindings)
        self._sent: Final = BindingWrites(ground, writers.claims, writers.pods, writers.volumes)
        self._unreserving: Final = Unreserving(
            ground,
            bindings=bindings,
            waits=self.waits,
            writes=self._sent,
            taking_back=writers.taking_back,
            withdrawals=withdrawals,
            aftermath=aftermath,
        )

    # What happens to pods

    def start(self, pod: Pod, node: NodeName, cycle: Cycle, runner: Runner) -> None:
        """Take over a pod that is assumed on `node` and whose devices are held."""
        uid = pod.uid
        binding = BindingCycle(uid, pod, node, cycle, runner, fence_ms=fence_of(pod))
        self.bindings[uid] = binding
        self._pre_bind(binding)

    def claim_changed(self, key: ClaimKey) -> None:
        """A claim was observed anew, or a write on it was settled."""
        for binding in self.waits.woken_by_claim(key):
            self._wake(binding)

    def claim_gone(self, key: ClaimKey) -> None:
        """A claim was deleted."""
        for binding in self.waits.woken_by_deletion(key):
            self._wake(binding)

    def storage_changed(self, old: AnyStorageObject | None, new: AnyStorageObject | None) -> None:
        """A volume, a claim for one, a class or a CSI object was observed anew, or is gone."""
        changed = new or old
        assert changed is not None
        self._volume_writes.observed((type(changed), changed.key))
        for uid in self._store.storage.users_of_changed(old, new):
            binding = self.bindings.get(uid)
            if binding is not None and binding.stage is _PRE_BIND and not binding.awaited:
                self._wake(binding)

    def claims_watched(self, revision: int) -> None:
        """The watch of claims has come to `revision`."""
        for binding in self.waits.woken_by_watch(revision):
            self._wake(binding)

    def pod_gone(self, uid: PodUid) -> None:
        """The pod was deleted, is being deleted, or finished: nobody wants it bound any more."""
        binding = self.bindings.get(uid)
        if binding is None or binding.is_given_up:
            return
        if binding.stage is _BIND and uid in self._store.pods:
            return  # the pod may be bound already: wait for the answer to the binding
        self._give_up(binding, Status.error("pod was deleted"))

    def pod_changed(self, uid: PodUid) -> None:
        """The pod was observed anew, unbound: it cannot be bound with claims that its status names no longer."""
        binding = self.bindings.get(uid)
        if binding is not None and binding.stage is _PRE_BIND:
            self._give_up_changed(binding)

    def give_up_if_unsent(self, uid: PodUid, failure: Status) -> bool:
        """Give the pod up if its binding has not been sent; whether it is given up."""
        binding = self.bindings.get(uid)
        if binding is None or binding.stage is _BIND:
            return False
        if not binding.is_given_up:
            self._give_up(binding, failure)
        return True

    def pod_observed_bound(self, uid: PodUid, node: NodeName) -> None:
        """The pod is bound, by us or by somebody else."""
        binding = self.bindings.get(uid)
        if binding is None or binding.is_given_up:
            return
        if binding.stage is _BIND and node == binding.node:
            self._succeed(binding)
        else:
            self._give_up(binding, Status.error(f"pod was bound to {node} by somebody else"))

    # PreBind

    def _pre_bind(self, binding: BindingCycle) -> None:
        uid = binding.uid
        claims = self._store.claims_of(uid)
        in_doubt = tuple([key for key in claims if self._writes.is_unsettled(key, except_owner=uid)])
        if in_doubt and not all(self._may_join(binding, key) for key in in_doubt):
            self._sleep(binding, in_doubt, None)
            return
        binding.cycle.now_ms = self._timers.wall_ms
        step = binding.runner.pre_bind(binding.cycle, binding.node, self._view)
        match step:
            case PreBindDone(events):
                self._report(events)
                if in_doubt:
                    self._sleep(binding, in_doubt, None)
                else:
                    self._bind_when_certain(binding, claims)
            case PreBindWrite(decisions, is_last):
                binding.is_last_write = is_last
                self._send_all(binding, decisions)
                if not binding.awaited and not binding.is_given_up:
                    self._give_up(binding, Status.error("PreBind asked for nothing that is answered"))
            case PreBindWait(deadline_ms, claims, events, reason, message):
                if not self._settings.reports_causes:
                    events = tuple([structs.replace(event, note=without_cause(event.note)) for event in events])
                self._report(events)
                self._sleep(binding, claims, self._timers.from_wall(deadline_ms))
                if reason:
                    self._report_wait(binding, Refusal(reason, message))
            case PreBindFailed(status, events):
                self._report(events)
                self._give_up(binding, status)

    def _report_wait(self, binding: BindingCycle, waits_for: Refusal) -> None:
        """Say in the pod's condition what it waits for: the first time once it has lasted, later as it changes."""
        was, binding.waits_for = binding.waits_for, waits_for
        if was is None:
            at_ms = self._timers.now_ms + _WAITING_SILENT_MS
            self._timers.at(at_ms, partial(self._wait_lasts, binding))
        elif binding.is_wait_reported and was != waits_for:
            self._conditions.report_wait(binding.uid, waits_for)

    def _wait_lasts(self, binding: BindingCycle) -> None:
        if self.bindings.get(binding.uid) is not binding or binding.stage is not _PRE_BIND:
            return
        if (binding.awakened_by or binding.timer is not None) and binding.waits_for is not None:
            binding.is_wait_reported = True
            self._conditions.report_wait(binding.uid, binding.waits_for)

    def _may_join(self, binding: BindingCycle, key: ClaimKey) -> bool:
        """Whether the pod still needs its reservation of the claim, which may go with a write of another pod."""
        claim = self._store.claim(key)
        return claim is not None and not is_reserved_for(claim, binding.pod) and self._writes.may_join(claim)

    def _report(self, events: Iterable[RecordEvent]) -> None:
        for event in events:
            self._outbox.report(event)

    def _bind_when_certain(self, binding: BindingCycle, claims: tuple[ClaimKey, ...]) -> None:
        if claims and self.waits.needs_watch(binding, claims):
            return
        if binding.fence_ms is not None and self._has_unwritten(binding, claims):
            return
        reason = self._withdrawals.reason_to_wait(binding.pod, claims)
        if reason is not None:
            self._give_up(binding, reason)
            return
        binding.stage = _BIND
        binding.notes = notes_of(self._store.pods[binding.uid])
        self._bind(binding)

    def _sleep(self, binding: BindingCycle, claims: tuple[ClaimKey, ...], deadline_ms: int | None) -> None:
        self.waits.sleep(binding, claims)
        if deadline_ms is not None:
            self.waits.set_timer(binding, deadline_ms, self._wake)

    def _wake(self, binding: BindingCycle) -> None:
        self.waits.stop_waiting(binding)
        if binding.stage is _PRE_BIND and not binding.awaited:
            self._pre_bind(binding)

    def _send_all(self, binding: BindingCycle, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            if (
                isinstance(decision, WriteClaimStatus)
                and decision.allocation is not None
                and not self._overlay.is_held_for(decision.uid, binding.uid, decision.allocation)
            ):
                # The hold ended when the allocation was observed. Somebody has removed that since, and the devices may
                # be another pod's by now.
                self._give_up(
                    binding, Status.error(f"claim {decision.claim} got deallocated elsewhere in the meantime")
                )
                return
            self._sent.send(binding, decision, self._go_on)

    def _go_on(self, binding: BindingCycle) -> None:
        """The last awaited answer has come."""
        if binding.is_given_up:
            self._unreserving.begin(binding)
        elif binding.refusal is not None:
            self._give_up_refused(binding, binding.refusal)
        elif binding.trouble > self._settings.conflicts_max:
            self._give_up(binding, Status.error("too many conflicts while writing claims"))
        elif binding.stage is _PRE_BIND:
            claims = self._store.claims_of(binding.uid)
            if not (binding.is_last_write and self.waits.needs_watch(binding, claims)):
                self._pre_bind(binding)

    # Bind

    def _bind(self, binding: BindingCycle) -> None:
        if binding.stage is not _BIND:
            return
        if self._give_up_changed(binding):
            return
        pod = self._store.pods[binding.uid]
        binding.bind_attempts += 1
        expected = pod.metadata.revision if self._store.claims_of(binding.uid) else None
        decision = BindPod(pod.key, pod.uid, binding.node, expected)
        self._outbox.ask(decision, partial(self._bind_answered, binding))

    def _give_up_changed(self, binding: BindingCycle) -> bool:
        """Give the pod up when it must not be bound with the claims of this cycle any more; whether that is so.

        Its status names other claims now, or another process of our name takes them back. No binding that was sent for
        it can land any more: each was for a revision of before.
        """
        pod = self._store.pods[binding.uid]
        if pod is binding.pod:
            return False
        was, now = claims_of(binding.pod), self._store.claims_of(binding.uid)
        if was != now:
            names = ", ".join(key.name for key in was), ", ".join(key.name for key in now) or "none"
            self._give_up(binding, Status.error(f"the pod's ResourceClaims were {names[0]} and are {names[1]} now"))
            return True
        if now and fence_of(pod) != binding.fence_ms:
            binding.leaves_claims = True
            self._give_up(
                binding, Status.error("another process that schedules under this name takes the pod's devices back")
            )
            return True
        if binding.stage is _BIND and notes_of(pod) != binding.notes:
            self._give_up(binding, Status.error("what the pod's status says of its devices has changed"))
            return True
        return False

    def _has_unwritten(self, binding: BindingCycle, claims: tuple[ClaimKey, ...]) -> bool:
        """Whether the pod must not be bound because what it would be bound with may still be taken back.

        Whoever put up the fence under which this cycle began can take back what has not changed since. Another process
        may bind the pod with it; if none does, it is reserved anew. What the pod's group has is not fenced.
        """
        for key in claims:
            claim = self._store.claim(key)
            if claim is None or not claim.is_reserved_for(binding.uid) or key in binding.written:
                continue
            now_ms = self._timers.now_ms
            if binding.patience_ms is None:
                binding.patience_ms = now_ms + _RESERVED_PATIENCE_MS
            if now_ms < binding.patience_ms:
                self._sleep(binding, claims, binding.patience_ms)
            else:
                text = f"ResourceClaim {key.name} was reserved for the pod by an earlier attempt: it is reserved anew"
                self._give_up(binding, Status.error(text))
            return True
        return False

    def _bind_answered(self, binding: BindingCycle, answer: WriteAnswer) -> None:
        if binding.stage is not _BIND or self.bindings.get(binding.uid) is not binding:
            return  # what became of it has been observed already
        match answer:
            case WriteAccepted():
                self._succeed(binding)
            case WriteConflicted():
                binding.trouble += 1
                self._read_pod(binding)
            case WriteRejected(code=code, is_retriable=is_retriable):
                if code == GONE:
                    self._read_pod(binding)
                elif is_retriable or binding.is_bind_doubtful:
                    self._later(binding, self._bind, is_hopeless=not is_retriable)
                else:
                    self._give_up_refused(binding, answer)
            case _:
                binding.is_bind_doubtful = True
                self._later(binding, self._read_pod)

    def _read_pod(self, binding: BindingCycle) -> None:
        if binding.stage is _BIND:
            self._outbox.ask(ReadPod(binding.pod.key, binding.uid), partial(self._pod_read, binding))

    def _pod_read(self, binding: BindingCycle, answer: WriteAnswer) -> None:
        if binding.stage is not _BIND or self.bindings.get(binding.uid) is not binding:
            return
        if not isinstance(answer, WriteAccepted):
            binding.bind_attempts += 1
            self._later(binding, self._read_pod)
        elif self._give_up_changed(binding):
            pass
        elif self._store.pods[binding.uid].is_deleting or self._store.pods[binding.uid].is_terminal:
            # The API server binds no pod that is being deleted, and a deletion is never taken back.
            self._give_up(binding, Status.error("pod is being deleted"))
        elif binding.trouble > self._settings.conflicts_max and not binding.is_bind_doubtful:
            self._give_up(binding, Status.error("binding rejected: too many conflicts"))
        elif binding.trouble == 1 and not binding.is_bind_doubtful:
            self._bind(binding)  # at once: what changes the pod again and again must not win each time
        else:
            self._later(binding, self._bind)

    def _succeed(self, binding: BindingCycle) -> None:
        self.waits.stop_waiting(binding)
        del self.bindings[binding.uid]
        pod = binding.pod
        released = self._stakes.release(binding.uid, is_bound=True)  # what the server stores may be put differently
        note = f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {binding.node}"
        self._outbox.report_on_pod(pod, "Normal", "Scheduled", "Binding", note)
        self._aftermath.pod_bound(binding)
        self._aftermath.stake_released(released)

    # Giving up

    def _give_up_refused(self, binding: BindingCycle, refusal: WriteRejected) -> None:
        if refusal.is_configuration:
            binding.retry_ms = CONFIGURATION_RETRY_MS
        text, cause = f"the API server refuses: {refusal.reason}: {refusal.message}", ""
        if ADMIN_ACCESS_LABEL in refusal.message and self._settings.reports_causes:  # no plugin sees it before
            reason = admin_access_unlabelled(binding.pod.metadata.namespace)
            cause = Diagnosis((reason,), reason.fixes).text(EVERYBODY)
        self._give_up(binding, Status.error(with_cause(text, cause)))

    def _give_up(self, binding: BindingCycle, failure: Status) -> None:
        self.waits.stop_waiting(binding)
        binding.failure = failure
        binding.stage = _SETTLE
        if not binding.awaited:
            self._unreserving.begin(binding)

    def _later(
        self, binding: BindingCycle, action: Callable[[BindingCycle], None], *, is_hopeless: bool = False
    ) -> None:
        wait_ms = self._settings.write_retry_ms(binding.bind_attempts, is_hopeless=is_hopeless)
        self.waits.set_timer(binding, self._timers.now_ms + wait_ms, action)
