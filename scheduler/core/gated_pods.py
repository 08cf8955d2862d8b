"""Gated pods whose reason is not reported yet: it is when they have been gated for a while.

Not here: why a pod is gated (plugins), and the report (`scheduling_cycle`).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from scheduler.core.queued_pod import QueuedPod


class GatedPods:
    """Those to report, in the order in which they are due."""

    def __init__(self, silent_ms: int) -> None:
        self._silent_ms: Final = silent_ms
        # With the time to report it; entries with an old ticket are void.
        self._due: Final[deque[tuple[int, int, QueuedPod]]] = deque()

    def add(self, queued: QueuedPod, now_ms: int) -> None:
        self._due.append((now_ms + self._silent_ms, queued.ticket, queued))

    def next_deadline_ms(self) -> int | None:
        return self._due[0][0] if self._due else None

    def overdue(self, now_ms: int) -> list[QueuedPod]:
        """Pods that have been gated for long, whose reason is to be reported; each once."""
        overdue = []
        while self._due and self._due[0][0] <= now_ms:
            _, ticket, queued = self._due.popleft()
            if ticket == queued.ticket:
                overdue.append(queued)
        return overdue
