"""Pods whose search takes long: in turns by namespace, each with a share of its own, apart from the active queue.

A pod comes here when its first look was not enough, or when its last attempt took long. The pods of one namespace form
a *lane*. The lane that was served least is next. In a lane pods that took little go first, and among equals the pod
that has waited longest, until its search ends.

Rules of this module
  1. A lane spends at most `_CREDIT_MAX_STEPS` at a stretch, and then what it earns with time. A pod that has taken less
     than `_ALWAYS_STEPS` so far is tried whatever its lane has spent: most pods need little.
  2. Namespaces take turns by what they spent, so a namespace with a thousand such pods gets no more than a namespace
     with a single one.
  3. While pods of other namespaces come, each turn is followed by a pause of about the same length: a pod is bound in
     half a dozen steps, each of which would wait for a turn to end.
  4. Time is the caller's; nothing depends on hash order.

Not here: when a pod rests, and how long (`scheduling_queue`).

Cost: `push`, `pop` O(log pods of a lane + lanes).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

from scheduler.core.queued_pod import Entry, QueuedPod, first_of

_CREDIT_MAX_STEPS: Final = 500_000
"""About 2 s of searching."""
_CREDIT_STEPS_PER_MS: Final = 60
"""A quarter of a thread's time."""
_NEVER_MS: Final = 2**62
_PACE_STEPS_PER_MS: Final = 60
"""How long the pause is: a step takes 4 to 9 us."""
_COMPANY_MS: Final = 250
"""How long pods of other namespaces are expected after one: it is bound by then, and the next one may have come."""
_ALWAYS_STEPS: Final = 20_000
"""About 80 ms."""


class _Lane:
    """One namespace. `turn` grows with what it spends; `credit` is what it may spend, as of `as_of_ms`."""

    __slots__ = ("as_of_ms", "credit", "heap", "turn")

    def __init__(self, turn: int, now_ms: int) -> None:
        self.heap: Final[list[Entry]] = []
        self.turn = turn
        self.credit = _CREDIT_MAX_STEPS
        self.as_of_ms = now_ms

    def credit_at(self, now_ms: int) -> int:
        return min(_CREDIT_MAX_STEPS, self.credit + _CREDIT_STEPS_PER_MS * max(0, now_ms - self.as_of_ms))

    def ready_ms(self, queued: QueuedPod, now_ms: int) -> int:
        """When its first pod may be tried."""
        credit = self.credit_at(now_ms)
        if queued.steps < _ALWAYS_STEPS or credit > 0:
            return now_ms
        return now_ms + 1 + -credit // _CREDIT_STEPS_PER_MS


class SearchLanes:
    """The lanes of all namespaces that have such pods, or had some not long ago."""

    def __init__(self, has_place: Callable[[str], bool]) -> None:
        """`has_place` says whether a namespace may have one more request under way; pods of other namespaces wait."""
        self._has_place: Final = has_place
        self._paced_ms = 0
        self._tried_ms: Final[dict[str, int]] = {}  # the last two namespaces of which an active pod was tried
        self.by_namespace: Final[dict[str, _Lane]] = {}

    def push(self, queued: QueuedPod, now_ms: int, *, level: int) -> None:
        """Put a pod at the end of its namespace's lane, among the pods of the same `level`."""
        namespace = queued.namespace
        lane = self.by_namespace.get(namespace)
        if lane is None:
            self._forget_idle(now_ms)
            first_turn = min((other.turn for other in self.by_namespace.values()), default=0)
            lane = self.by_namespace[namespace] = _Lane(first_turn, now_ms)
        elif not lane.heap:
            # It may not save up turns while it has nothing to do.
            lane.turn = max(lane.turn, min(other.turn for other in self.by_namespace.values()))
        heapq.heappush(lane.heap, Entry(level, queued.search_since_ms, queued.ticket, queued))

    def has(self, namespace: str) -> bool:
        """Whether a pod of this namespace waits here."""
        lane = self.by_namespace.get(namespace)
        return lane is not None and first_of(lane.heap) is not None

    def first(self, now_ms: int) -> QueuedPod | None:
        """The pod to try next, None while no lane may spend."""
        ready: tuple[int, str, QueuedPod] | None = None
        for namespace, lane in self.by_namespace.items():
            queued = first_of(lane.heap)
            if queued is not None and self._ready_ms(namespace, lane, queued, now_ms) <= now_ms:
                one = (lane.turn, namespace, queued)
                if ready is None or one[:2] < ready[:2]:
                    ready = one
        return ready[2] if ready is not None else None

    def next_ready_ms(self, now_ms: int) -> int | None:
        """When a pod may be tried, None when there is none."""
        return min(
            (
                ready_ms
                for namespace, lane in self.by_namespace.items()
                if (queued := first_of(lane.heap)) is not None
                and (ready_ms := self._ready_ms(namespace, lane, queued, now_ms)) < _NEVER_MS
            ),
            default=None,
        )

    def _ready_ms(self, namespace: str, lane: _Lane, queued: QueuedPod, now_ms: int) -> int:
        """When the first pod of the lane may be tried; _NEVER_MS: not before a place is given back."""
        if not self._has_place(namespace):
            return _NEVER_MS
        ready_ms = lane.ready_ms(queued, now_ms)
        if self._paced_ms <= ready_ms or not self._has_company(namespace, now_ms):
            return ready_ms
        return self._paced_ms

    def _has_company(self, namespace: str, now_ms: int) -> bool:
        return any(other != namespace and now_ms - tried_ms < _COMPANY_MS for other, tried_ms in self._tried_ms.items())

    def note_tried(self, namespace: str, now_ms: int) -> None:
        """An active pod is tried that is in no lane."""
        self._tried_ms.pop(namespace, None)
        self._tried_ms[namespace] = now_ms
        if len(self._tried_ms) > 2:  # of two namespaces at least one is another's
            del self._tried_ms[next(iter(self._tried_ms))]

    def charge(self, namespace: str, steps: int, now_ms: int) -> None:
        """The namespace's pod took so many steps."""
        self._paced_ms = now_ms + steps // _PACE_STEPS_PER_MS
        lane = self.by_namespace.get(namespace)
        if lane is not None:
            lane.turn += steps
            lane.credit = max(-_CREDIT_MAX_STEPS, lane.credit_at(now_ms) - steps)
            lane.as_of_ms = now_ms

    def _forget_idle(self, now_ms: int) -> None:
        for namespace, lane in tuple(self.by_namespace.items()):
            if first_of(lane.heap) is None and lane.credit_at(now_ms) == _CREDIT_MAX_STEPS:
                del self.by_namespace[namespace]
