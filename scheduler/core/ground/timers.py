"""Deadlines: actions and their times, on a clock that never runs backwards.

Rules of this module
  1. The core's time is the shell's `now_ms` plus a skew that grows when the shell's clock is set back, so no deadline
     moves into the far future. A clock set forward fires deadlines early, which is harmless: everything is checked
     again when it is due.
  2. Equal deadlines fire in the order in which they were set.

Cost: O(log n) each; a cancelled deadline stays in the heap until its time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, NewType

TimerId = NewType("TimerId", int)


class Timers:
    """A heap of deadlines and the monotonic time they are measured in."""

    def __init__(self) -> None:
        self._heap: Final[list[tuple[int, TimerId]]] = []
        self._due: Final[dict[TimerId, Callable[[], None]]] = {}
        self._next_id = 1
        self._skew_ms = 0
        self.now_ms = 0
        self.wall_ms = 0

    def advance(self, wall_ms: int) -> None:
        """Take note of the shell's time."""
        if wall_ms < self.wall_ms:
            self._skew_ms += self.wall_ms - wall_ms
        self.wall_ms = wall_ms
        self.now_ms = wall_ms + self._skew_ms

    def to_wall(self, deadline_ms: int) -> int:
        """A deadline of ours on the shell's clock."""
        return deadline_ms - self._skew_ms

    def from_wall(self, wall_ms: int) -> int:
        """A time on the shell's clock as a deadline of ours."""
        return wall_ms + self._skew_ms

    def at(self, deadline_ms: int, action: Callable[[], None]) -> TimerId:
        """Call `action` once `now_ms` reaches `deadline_ms`."""
        timer = TimerId(self._next_id)
        self._next_id += 1
        self._due[timer] = action
        heapq.heappush(self._heap, (deadline_ms, timer))
        return timer

    def cancel(self, timer: TimerId | None) -> None:
        """Forget a deadline; None and one that has fired are fine."""
        if timer is not None:
            self._due.pop(timer, None)

    def fire(self) -> None:
        """Call what is due. Actions set while firing wait for the next call, so this ends."""
        now_ms, heap = self.now_ms, self._heap
        actions = []
        while heap and heap[0][0] <= now_ms:
            action = self._due.pop(heapq.heappop(heap)[1], None)
            if action is not None:
                actions.append(action)
        for action in actions:
            action()

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline, on the core's clock."""
        heap = self._heap
        while heap and heap[0][1] not in self._due:
            heapq.heappop(heap)
        return heap[0][0] if heap else None
