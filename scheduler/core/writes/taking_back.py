"""Taking a reservation, and what goes with it, back from a pod: only when no binding of that pod can land any more.

Another process may schedule under our name: a node that lost its network keeps its pod running while a replacement is
made, a machine that slept wakes up. It may be binding the very pod that we give up, with the claims that we would take
back. A binding changes no claim, so the claim's revision does not protect against it. So first a *fence* is put up: a
write on the pod. Fence and binding both require that the pod has not changed, so whichever comes first stops the other.

Rules of this module
  1. From a pod that is bound nothing is taken that it was given for its node.
  2. From pods that could still be bound something is taken only after a fence on each was stored, and on the condition
     that the claim has not changed since *before* the fences were sent.
  3. Pods that share a claim take turns, or each fence would break the condition of all the others.
  4. A binding with claims names the revision of the pod that was observed with the fence (or with none) under which its
     cycle began. Where there was a fence, the cycle has written to all claims of the pod itself: so the process that
     put that fence up has lost its condition on the claims (`binding_cycle`).

The fence is `lastProbeTime` of the pod's condition PodScheduled, which no other component sets, and it only grows. It
goes with the condition that is written for the pod anyway.

Not here: what is taken back (plugins, `device_conflicts`), the outcome of the write (`pod_writes`).

Cost: nothing for a pod without reservations; else one write for each attempt that is given up.

See docs/adr/0020-two-processes-of-one-name.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct

from scheduler.core.ground.inputs import WriteRejected
from scheduler.core.reports.pod_conditions import Refusal
from scheduler.core.state.ground import Ground, Part
from scheduler.core.writes.claim_writes import ClaimWrites
from scheduler.core.writes.pending_writes import WriteOutcome, may_have_landed
from scheduler.core.writes.pod_writes import PodWrites
from scheduler.framework.decisions import (
    Decision,
    DeleteClaim,
    PatchPodStatus,
    RemoveClaimFinalizer,
    WriteClaimStatus,
)
from scheduler.model.claim import ResourceClaim, is_usable_on
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.objects import Pod
from scheduler.model.timestamps import parse_rfc3339_ms

GoOn: TypeAlias = Callable[[tuple[Decision, ...] | None], None]


class _Attempt(Struct, eq=False):
    claims: tuple[ClaimKey, ...]
    derive: Callable[[], Sequence[Decision]]
    why: Refusal
    go_on: GoOn
    decisions: tuple[Decision, ...] = ()
    fences: dict[PodUid, int] = {}
    conflicts: int = 0
    has_turn: bool = False
    is_over: bool = False  # `go_on` was called; its writes may be under way


class TakingBack(Part):
    """Puts fences up; attempts that want to take from the same claim have their turns."""

    def __init__(self, ground: Ground, writes: ClaimWrites, pod_writes: PodWrites) -> None:
        super().__init__(ground)
        self._writes: Final = writes
        self._pod_writes: Final = pod_writes
        # For each claim the attempts that want to take from it, in the order in which they came. An attempt has its
        # turn when it is the first for all its claims.
        self._lines: Final[dict[ClaimKey, deque[_Attempt]]] = {}
        self._ready: Final[deque[_Attempt]] = deque()
        self._is_running = False

    def permitted(self, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
        """The decisions that leave to bound pods what these were given for their nodes."""
        return tuple(
            decision
            for decision in decisions
            if not any(self.runs_with(pod, self._claim_of(decision)) for pod in self._losers(decision))
        )

    def runs_with(self, pod: Pod, claim: ResourceClaim | None) -> bool:
        """Whether the pod is bound where the claim's allocation can be used."""
        return pod.node_name is not None and not pod.is_terminal and self.is_usable_on(pod.node_name, claim)

    def is_usable_on(self, node: NodeName, claim: ResourceClaim | None) -> bool:
        """Whether the claim is allocated, and its devices can be used on the node, as far as is known of it."""
        if claim is None or claim.allocation is None:
            return False
        info = self._store.node_infos.get(node)
        return info is None or is_usable_on(claim.allocation, info.host)

    def prepare(
        self, claims: Iterable[ClaimKey], derive: Callable[[], Sequence[Decision]], why: Refusal, go_on: GoOn
    ) -> None:
        """Call `go_on`, once, with what may be sent: at once, or when the fences are stored.

        Args:
            claims: All that `derive` may want to change.
            derive: What is to be sent, from what is observed when it is asked.
            go_on: Given an empty tuple when there is nothing, or it must be derived anew; None when the API server
                refuses a fence.
        """
        attempt = _Attempt(tuple(dict.fromkeys(claims)), derive, why, go_on)
        for key in attempt.claims:
            self._lines.setdefault(key, deque()).append(attempt)
        self._ready.append(attempt)
        self._run()

    def write_settled(self, claim: ClaimKey) -> None:
        """A write on the claim was settled."""
        line = self._lines.get(claim)
        if line and line[0].is_over:
            self._ready.append(line[0])
            self._run()

    def _run(self) -> None:
        """A loop, not a recursion: hundreds of pods may share a claim."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._ready:
                attempt = self._ready.popleft()
                if attempt.is_over:
                    self._leave_when_settled(attempt)
                elif not attempt.has_turn and all(self._lines[key][0] is attempt for key in attempt.claims):
                    attempt.has_turn = True
                    attempt.decisions = tuple(attempt.derive())
                    self._put_up(attempt)
        finally:
            self._is_running = False

    def _put_up(self, attempt: _Attempt) -> None:
        due = self.permitted(attempt.decisions)
        if not all(self._is_current(one) for one in due):
            self._end(attempt, ())
            return
        losers = (pod for decision in due for pod in self._losers(decision) if _can_be_bound(pod))
        pod = next((pod for pod in losers if not _stands(attempt.fences.get(pod.uid), pod)), None)
        if pod is None:
            self._end(attempt, due)
            return
        fence_ms = max(self._timers.wall_ms // 1000 * 1000, (fence_of(pod) or 0) + 1000)
        fence = PatchPodStatus(
            pod.key,
            pod.uid,
            attempt.why.reason,
            attempt.why.message,
            expect_revision=pod.metadata.revision,
            fence_ms=fence_ms,
            generation=pod.metadata.generation,
        )
        self._pod_writes.send(fence, partial(self._settled, attempt, pod.uid, fence_ms))

    def _settled(self, attempt: _Attempt, uid: PodUid, fence_ms: int, outcome: WriteOutcome) -> None:
        pod = self._store.pods.get(uid)
        if may_have_landed(outcome) and pod is not None and fence_of(pod) == fence_ms:
            attempt.fences[uid] = fence_ms
            self._put_up(attempt)
        elif isinstance(outcome, WriteRejected):
            self._end(attempt, None)
        else:
            attempt.conflicts += 1
            if attempt.conflicts == 1:
                self._put_up(attempt)
                return
            # What changes the pod again and again must not keep us busy.
            self._retry(partial(self._put_up, attempt), attempt.conflicts - 1)

    def _end(self, attempt: _Attempt, decisions: tuple[Decision, ...] | None) -> None:
        attempt.is_over = True
        attempt.go_on(decisions)
        self._ready.append(attempt)
        self._run()

    def _leave_when_settled(self, attempt: _Attempt) -> None:
        lines = self._lines
        if not all(key in lines and lines[key][0] is attempt for key in attempt.claims):
            return  # it has left
        if any(self._writes.is_unsettled(key, except_owner=PodUid("")) for key in attempt.claims):
            return
        for key in attempt.claims:
            line = lines[key]
            line.popleft()
            if line:
                self._ready.append(line[0])
            else:
                del lines[key]

    def _losers(self, decision: Decision) -> Iterator[Pod]:
        """The pods that would lose their reservation of the claim, without pods that are gone."""
        claim = self._claim_of(decision)
        if claim is None:
            return
        kept: frozenset[PodUid | None] = frozenset()
        if isinstance(decision, WriteClaimStatus) and not decision.clear_allocation:
            if decision.reserved_for is None:
                return
            kept = frozenset(consumer.pod_uid for consumer in decision.reserved_for)
        for consumer in claim.reserved_for:
            pod = self._store.pods.get(consumer.pod_uid) if consumer.pod_uid is not None else None
            if pod is not None and pod.uid not in kept:
                yield pod

    def _is_current(self, decision: Decision) -> bool:
        """Whether the claim is as it was when the decision was derived."""
        if not isinstance(decision, WriteClaimStatus | RemoveClaimFinalizer | DeleteClaim):
            return True
        claim = self._claim_of(decision)
        return claim is not None and claim.revision == decision.expect_revision

    def _claim_of(self, decision: Decision) -> ResourceClaim | None:
        if not isinstance(decision, WriteClaimStatus | RemoveClaimFinalizer | DeleteClaim):
            return None
        claim = self._store.claim(decision.claim)
        return claim if claim is not None and claim.uid == decision.uid else None


def fence_of(pod: Pod) -> int | None:
    """The newest fence on the pod, in Unix ms; None when nothing was ever taken back from it."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.last_probe_time is not None:
            return parse_rfc3339_ms(condition.last_probe_time)
    return None


def _stands(fence_ms: int | None, pod: Pod) -> bool:
    """Whether no binding can land that was decided before `fence_ms`."""
    return fence_ms is not None and (fence_of(pod) or 0) >= fence_ms


def _can_be_bound(pod: Pod) -> bool:
    return pod.node_name is None and not pod.is_deleting and not pod.is_terminal
