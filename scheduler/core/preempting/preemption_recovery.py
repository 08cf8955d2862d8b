"""Preemptions of an earlier process of our name: what it has begun is gone on with, before any pod is decided.

Found are pods of ours that wait and are nominated for a node, on which either less important pods terminate because a
scheduler preempted them, or claims are still allocated all of whose users are leaving. What would be kept for the pod
is looked for anew, the most important pods first; where that cannot be found, nothing is kept, but the pod does not
preempt again before all of it is gone.

Rules of this module
  1. No pod is tried before this is done; what one tick does of it is bounded by steps, and the rest has its turn in
     the next.

Not here: what follows (`preemptions`). Whether the removed pods made room for just this pod is not written down
anywhere: who is nominated for a node waits for all that was preempted there.

Cost: O(claims) once, where a pod is nominated; a dry run for each pod that is found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from allocator import match_node_selector
from scheduler.core.preempting.preemption_records import Record
from scheduler.core.preempting.preemptions import Preemptions
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.state.ground import Ground, Part
from scheduler.core.trying.dry_run import without
from scheduler.framework.cycle import Cycle
from scheduler.framework.runner import Runner
from scheduler.model.claim import Consumer, ResourceClaim
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, ClaimUid, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import DISRUPTION_TARGET, PREEMPTED_BY_SCHEDULER, Pod


class PreemptionRecovery(Part):
    """Runs once, when everything is listed."""

    def __init__(
        self, ground: Ground, runners: Mapping[str, Runner], queue: SchedulingQueue, preemptions: Preemptions
    ) -> None:
        super().__init__(ground)
        self._runners: Final = runners
        self._queue: Final = queue
        self._preemptions: Final = preemptions
        self._nominated: Final[deque[PodUid]] = deque()
        self._leaving: Final[list[ClaimUid]] = []
        self._has_begun = False

    @property
    def is_under_way(self) -> bool:
        return bool(self._nominated)

    def begin(self) -> None:
        """Everything is listed."""
        if self._has_begun:
            return
        self._has_begun = True
        waiting = [queued.pod for queued in self._queue.all() if self._store.nominations.node_of(queued.uid)]
        waiting.sort(key=lambda pod: (-(pod.spec.priority or 0), pod.key))
        self._nominated.extend(pod.uid for pod in waiting)
        if waiting:
            self._leaving.extend(uid for uid, claim in self._store.claims.items() if self._is_left(claim))

    def go_on(self, steps: int) -> int:
        """Look at the next pods, until these steps are used up; what is left of them."""
        while self._nominated and steps > 0:
            queued = self._queue.find(self._nominated.popleft())
            node = self._store.nominations.node_of(queued.uid) if queued is not None else None
            info = self._store.node_infos.get(node) if node is not None else None
            if queued is not None and info is not None:
                cycle = Cycle(queued.pod, self._ground.timers.wall_ms, steps)
                self._look(cycle, info)
                steps = cycle.steps_left
            steps -= 1
        if not self._nominated:
            self._leaving.clear()
        return steps

    def _look(self, cycle: Cycle, info: NodeInfo) -> None:
        pod = cycle.pod
        priority = pod.spec.priority or 0
        preempted = {
            uid: one for uid, one in info.pods.items() if (one.spec.priority or 0) < priority and _is_preempted(one)
        }
        claims = {held.claim: held for held in self._on(info, pod)}
        if not preempted and not claims:
            return
        runner = self._runners[pod.spec.scheduler_name]
        trial = without(self._ground, runner, cycle, info, preempted.keys())
        given = trial.given if trial.status.is_success else ()
        self._preemptions.recover(Record(pod, info.name, preempted, claims, given, is_stored=True, is_recovered=True))

    def _on(self, info: NodeInfo, pod: Pod) -> Iterator[Held]:
        """The claims that are left on the node, but for those that the pod uses itself."""
        own: frozenset[ClaimKey] = frozenset(self._store.claims_of(pod.uid))
        for uid in self._leaving:
            claim = self._store.claims.get(uid)
            if claim is None or claim.key in own or not self._is_left(claim):
                continue  # it was released meanwhile
            allocation = claim.allocation
            if allocation is None or allocation.node_selector is None:
                continue
            if match_node_selector(allocation.node_selector, info.host):
                yield Held(claim.key, claim.uid, allocation)

    def _is_left(self, claim: ResourceClaim) -> bool:
        """Whether the claim is allocated, and all that it is reserved for are leaving pods."""
        return (
            claim.allocation is not None
            and bool(claim.reserved_for)
            and all(self._is_leaving(consumer) for consumer in claim.reserved_for)
        )

    def _is_leaving(self, consumer: Consumer) -> bool:
        if consumer.pod_uid is None:
            return False
        pod = self._store.pods.get(consumer.pod_uid)
        return pod is None or pod.is_deleting or pod.is_terminal


def _is_preempted(pod: Pod) -> bool:
    """Whether the pod terminates because a scheduler preempted it."""
    return pod.is_deleting and any(
        one.type == DISRUPTION_TARGET and one.status == "True" and one.reason == PREEMPTED_BY_SCHEDULER
        for one in pod.status.conditions or ()
    )
