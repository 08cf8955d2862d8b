"""Active pods: highest priority first, then namespaces in turns, then whoever came first.

Rules of this module
  1. A pod whose namespace has no place lets other pods pass, and is tried in its order as soon as there is a place. If
     it leads pods of its signature that have a place, the first of these leads in its stead.

Not here: pods whose search takes long (`slow_queue`).

Cost: `push`, `first` O(log n) amortized, and O(namespaces passed by): these have requests under way, so they are few.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

from scheduler.core.queue.queued_pod import Entry, Place, QueuedPod, first_of, still_in, sweep_at
from scheduler.core.queue.turns import Turns
from scheduler.model.keys import PodUid

_PASSED_BY_MAX: Final = 500  # pods that one question passes by, so that it takes a millisecond or so


class ActivePods:
    """The pods that are to be tried now.

    Args:
        has_place: Whether a namespace may have one more request under way.
        hand_over: Called with a leader that has no place and the pod that shall lead in its stead.
    """

    def __init__(self, has_place: Callable[[str], bool], hand_over: Callable[[QueuedPod, QueuedPod], None]) -> None:
        self._has_place: Final = has_place
        self._hand_over: Final = hand_over
        self._heap: Final[list[Entry]] = []
        self._sweep_at = sweep_at(0)
        self._turns: Final = Turns()
        self._passed_by: Final[dict[str, list[Entry]]] = {}  # by namespace
        self._waiting_leaders: Final[dict[PodUid, QueuedPod]] = {}  # passed by, like all they lead

    def __bool__(self) -> bool:
        """Whether there may be pods that were not passed by yet."""
        return bool(self._heap)

    def push(self, queued: QueuedPod) -> None:
        queued.turn = self._turns.give(queued.priority, queued.namespace)
        heapq.heappush(self._heap, Entry(-queued.priority, queued.turn, queued.ticket, queued))
        if len(self._heap) > self._sweep_at:
            self._heap[:] = still_in(self._heap)
            heapq.heapify(self._heap)
            self._sweep_at = sweep_at(len(self._heap))

    def begin(self, queued: QueuedPod) -> None:
        """The pod is tried now, so its turn has begun."""
        self._turns.begin(queued.priority, queued.turn)

    def first(self) -> QueuedPod | None:
        """The first pod whose namespace has a place."""
        active, passed_by = self._heap, self._passed_by
        if self._waiting_leaders:
            self._ask_waiting_leaders()
        for _ in range(_PASSED_BY_MAX):
            queued = first_of(active)
            if queued is None or self._has_place(queued.namespace):
                break
            heapq.heappush(passed_by.setdefault(queued.namespace, []), heapq.heappop(active))
            self._let_another_lead(queued)
        else:
            queued = None
        if not passed_by:
            return queued
        best = active[0] if queued is not None else None
        for namespace, heap in tuple(passed_by.items()):
            if first_of(heap) is None:
                del passed_by[namespace]
            elif (best is None or heap[0] < best) and self._has_place(namespace):
                best = heap[0]
        return best.queued if best is not None else None

    def _let_another_lead(self, queued: QueuedPod) -> None:
        group = queued.group
        if group is None or group.leader is not queued:
            return
        others = {name for name in group.namespaces if name != queued.namespace and self._has_place(name)}
        if not others:
            self._waiting_leaders[queued.uid] = queued
            return
        candidates = (member for member in group.members.values() if member.namespace in others)
        first = min(candidates, key=lambda member: (-member.priority, member.since_ms, member.ticket))
        self._hand_over(queued, first)

    def _ask_waiting_leaders(self) -> None:
        waiting = tuple(self._waiting_leaders.values())
        self._waiting_leaders.clear()
        for queued in waiting:
            if queued.place is Place.ACTIVE and not self._has_place(queued.namespace):
                self._let_another_lead(queued)
