"""Pods whose search takes long: in turns by namespace, each with a share of its own, apart from the active queue.

A pod comes here when its first look was not enough, or when its last attempt took long. The pods of one namespace form
a *lane*. The lane that was served least is next. In a lane the pod of most priority goes first, and among equals the
one that became active first, until its search ends or it rests. Whoever has rested goes after all that have not.

Rules of this module
  1. First come, first served, as among active pods: a younger pod of its namespace does not take what an older one of
     at least its priority still looks for. The older one keeps that right for `search_steps_before_rest`, so a search
     without an end does not hold up its namespace for ever. Behind those go pods whose last attempt took
     `_ALWAYS_STEPS`: hopeless ones that wake again and again would take their namespace's time. Last go those that have
     rested, who took less first.
  2. A lane spends at most `_CREDIT_MAX_STEPS` at a stretch, and then what it earns with time. A pod that has taken less
     than `_ALWAYS_STEPS` so far is tried whatever its lane has spent: most pods need little.
  3. Namespaces take turns by what they spent, so a namespace with a thousand such pods gets no more than a namespace
     with a single one.
  4. While pods of other namespaces come, each turn is followed by a pause of about the same length: a pod is bound in
     half a dozen steps, each of which would wait for a turn to end.
  5. Pods of one signature share results, so one of them searches for all: the one of highest priority, then the oldest
     that has not rested. The others queue behind it (`stands_behind`). Pods of other signatures are not held up by
     that.
  6. Time is the caller's; nothing depends on hash order.

Not here: when a pod rests, and how long (`scheduling_queue`); pods of other namespaces with the same signature, which
rule 5 leaves alone: they take turns.

Cost: `push`, `stands_behind` O(log pods of a lane), `first` O(lanes), both amortized.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from scheduler.core.queue.queued_pod import QueuedPod
from scheduler.framework.plan import PodSignature

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


_Order: TypeAlias = tuple[int, bool, int]


def _order(queued: QueuedPod) -> _Order:
    """Who is first of pods of one signature."""
    return -queued.priority, queued.rests > 0, queued.active_ticket


def _level(queued: QueuedPod) -> int:
    if queued.rests:
        return 1 + queued.steps.bit_length()
    return 1 if queued.cost >= _ALWAYS_STEPS else 0


class _InLane(NamedTuple):
    """A pod's place in its lane."""

    level: int
    rank: int  # minus priority
    since: int  # `QueuedPod.active_ticket`
    ticket: int  # as in `Entry`
    queued: QueuedPod
    alike: _Alike | None  # whose first it is


class _OfSignature(NamedTuple):
    """A pod's place among those of its signature in a lane."""

    order: _Order
    in_lane: _InLane


class _Alike:
    """Pods of one signature in a lane, of which the first has a place there until it is noticed that it has left."""

    __slots__ = ("heap", "signature")

    def __init__(self, signature: PodSignature) -> None:
        self.signature: Final = signature
        self.heap: Final[list[_OfSignature]] = []

    def is_first(self, place: _InLane) -> bool:
        return bool(self.heap) and self.heap[0].in_lane is place

    def drop_gone(self) -> None:
        heap = self.heap
        while heap and heap[0].in_lane.ticket != heap[0].in_lane.queued.ticket:
            heapq.heappop(heap)


class _Lane:
    """One namespace. `turn` grows with what it spends; `credit` is what it may spend, as of `as_of_ms`."""

    __slots__ = ("_by_signature", "_heap", "as_of_ms", "credit", "turn")

    def __init__(self, turn: int, now_ms: int) -> None:
        self._heap: Final[list[_InLane]] = []
        self._by_signature: Final[dict[PodSignature, _Alike]] = {}
        self.turn = turn
        self.credit = _CREDIT_MAX_STEPS
        self.as_of_ms = now_ms

    def push(self, queued: QueuedPod) -> None:
        signature = queued.search_signature
        alike = self._by_signature.get(signature) if signature is not None else None
        if alike is None and signature is not None:
            alike = self._by_signature[signature] = _Alike(signature)
        place = _InLane(_level(queued), -queued.priority, queued.active_ticket, queued.ticket, queued, alike)
        if alike is None:
            heapq.heappush(self._heap, place)
            return
        heapq.heappush(alike.heap, _OfSignature(_order(queued), place))
        if alike.is_first(place):
            heapq.heappush(self._heap, place)

    def first(self) -> QueuedPod | None:
        """The pod to try next."""
        heap = self._heap
        while heap:
            place = heap[0]
            is_first = place.alike is None or place.alike.is_first(place)
            if is_first and place.ticket == place.queued.ticket:
                return place.queued
            heapq.heappop(heap)
            if place.alike is not None and is_first:
                self._let_next_follow(place.alike)
        return None

    def _let_next_follow(self, alike: _Alike) -> None:
        """The first of these pods has left, and has no place in the heap any more."""
        alike.drop_gone()
        if alike.heap:
            heapq.heappush(self._heap, alike.heap[0].in_lane)
        else:
            del self._by_signature[alike.signature]

    def first_of_signature(self, signature: PodSignature) -> QueuedPod | None:
        """The pod of this signature to try next."""
        alike = self._by_signature.get(signature)
        if alike is None:
            return None
        place = alike.heap[0].in_lane
        if place.ticket != place.queued.ticket:
            self._let_next_follow(alike)
        return alike.heap[0].in_lane.queued if alike.heap else None

    def credit_at(self, now_ms: int) -> int:
        return min(_CREDIT_MAX_STEPS, self.credit + _CREDIT_STEPS_PER_MS * max(0, now_ms - self.as_of_ms))

    def ready_ms(self, queued: QueuedPod, now_ms: int) -> int:
        """When its first pod may be tried."""
        credit = self.credit_at(now_ms)
        if queued.steps < _ALWAYS_STEPS or credit > 0:
            return now_ms
        return now_ms + 1 + -credit // _CREDIT_STEPS_PER_MS


class SlowQueue:
    """The lanes of all namespaces that have such pods, or had some not long ago."""

    def __init__(self, has_place: Callable[[str], bool]) -> None:
        """`has_place` says whether a namespace may have one more request under way; pods of other namespaces wait."""
        self._has_place: Final = has_place
        self._paced_ms = 0
        self._tried_ms: Final[dict[str, int]] = {}  # the last two namespaces of which an active pod was tried
        self.by_namespace: Final[dict[str, _Lane]] = {}

    def push(self, queued: QueuedPod, now_ms: int) -> None:
        """Put a pod into its namespace's lane."""
        namespace = queued.namespace
        lane = self.by_namespace.get(namespace)
        if lane is None:
            self._forget_idle(now_ms)
            first_turn = min((other.turn for other in self.by_namespace.values()), default=0)
            lane = self.by_namespace[namespace] = _Lane(first_turn, now_ms)
        elif lane.first() is None:
            # It may not save up turns while it has nothing to do.
            lane.turn = max(lane.turn, min(other.turn for other in self.by_namespace.values()))
        lane.push(queued)

    def stands_behind(self, queued: QueuedPod, signature: PodSignature | None) -> bool:
        """Whether another pod of its signature in its lane goes first. From now on the pod has this signature."""
        queued.search_signature = signature
        lane = self.by_namespace.get(queued.namespace)
        first = lane.first_of_signature(signature) if lane is not None and signature is not None else None
        return first is not None and _order(first) < _order(queued)

    def has(self, namespace: str) -> bool:
        """Whether a pod of this namespace waits here."""
        lane = self.by_namespace.get(namespace)
        return lane is not None and lane.first() is not None

    def first(self, now_ms: int) -> QueuedPod | None:
        """The pod to try next, None while no lane may spend."""
        ready: tuple[int, str, QueuedPod] | None = None
        for namespace, lane in self.by_namespace.items():
            queued = lane.first()
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
                if (queued := lane.first()) is not None
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
            if lane.first() is None and lane.credit_at(now_ms) == _CREDIT_MAX_STEPS:
                del self.by_namespace[namespace]
