"""Pods in backoff: those that were rejected, and those that failed or cost too much.

Rules of this module
  1. A wait doubles with each verdict "unschedulable" a pod has had, or, after errors, with each error since the last
     verdict, from `backoff_ms_initial` to `backoff_ms_max`. Only a pod that is bound or gone loses its counts.
  2. A pod that was rejected is tried early while nothing is active (upstream's SchedulerPopFromBackoffQ). After an
     error, or when it costs too much, it waits its backoff out.
  3. Among pods that were rejected and whose backoff ends within one second priority goes first.

Cost: O(log n) for each pod.

Source: pkg/scheduler/backend/queue/backoff_queue.go v1.36.3; differs on purpose: a backoff ends to the millisecond, not
up to a second late.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

from scheduler.core.queue.queued_pod import Entry, QueuedPod, first_of

_WINDOW_MS: Final = 1_000


class Backoff:
    """The pods that are to be tried, but not before a time (`QueuedPod.ready_ms`)."""

    def __init__(self) -> None:
        self._rejected: Final[list[Entry]] = []
        self._waiting_out: Final[list[Entry]] = []

    def push(self, queued: QueuedPod) -> None:
        if queued.waits_out:
            heapq.heappush(self._waiting_out, Entry(queued.ready_ms, 0, queued.ticket, queued))
        else:
            entry = Entry(queued.ready_ms // _WINDOW_MS, -queued.priority, queued.ticket, queued)
            heapq.heappush(self._rejected, entry)

    def ripe(self, now_ms: int) -> Iterator[QueuedPod]:
        """Pods whose backoff has ended, one after the other; whoever takes one displaces it."""
        for heap in (self._rejected, self._waiting_out):
            while heap and (queued := first_of(heap)) is not None and queued.ready_ms <= now_ms:
                yield queued

    def first_early(self) -> QueuedPod | None:
        """The pod that is tried early when no active one can be."""
        return first_of(self._rejected)

    def deadlines(self) -> list[int]:
        """When the next pods may be ripe."""
        return [queued.ready_ms for heap in (self._rejected, self._waiting_out) if (queued := first_of(heap))]
