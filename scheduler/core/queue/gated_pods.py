"""Gated pods whose reason is not reported yet: it is when they have been gated for a while.

Not here: why a pod is gated (plugins), and the report (`scheduling_cycle`).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from scheduler.core.queue.queued_pod import Entry, QueuedPod, still_in, sweep_at

GATED_SILENT_MS: Final = 5_000
"""When it is reported why PreEnqueue keeps a pod out (upstream never says): generated claims need a moment."""


class GatedPods:
    """Those to report, in the order in which they are due."""

    def __init__(self) -> None:
        self._due: deque[Entry] = deque()  # by the time to report it
        self._sweep_at = sweep_at(0)

    def add(self, queued: QueuedPod, now_ms: int) -> None:
        self._due.append(Entry(now_ms + GATED_SILENT_MS, 0, queued.ticket, queued))
        if len(self._due) > self._sweep_at:
            self._due = deque(still_in(self._due))
            self._sweep_at = sweep_at(len(self._due))

    def next_deadline_ms(self) -> int | None:
        return self._due[0].rank if self._due else None

    def overdue(self, now_ms: int) -> list[QueuedPod]:
        """Pods that have been gated for long, whose reason is to be reported; each once."""
        overdue = []
        while self._due and self._due[0].rank <= now_ms:
            entry = self._due.popleft()
            if entry.ticket == entry.queued.ticket:
                overdue.append(entry.queued)
        return overdue
