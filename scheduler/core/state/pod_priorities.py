"""Which priorities the pods on nodes have, so that nobody looks for less important pods where there are none.

Cost: O(1) a pod; `lowest` O(distinct priorities).
"""

from __future__ import annotations

from typing import Final


class PodPriorities:
    """How many pods there are of each priority."""

    def __init__(self) -> None:
        self._counts: Final[dict[int, int]] = {}

    def add(self, priority: int) -> None:
        self._counts[priority] = self._counts.get(priority, 0) + 1

    def remove(self, priority: int) -> None:
        if self._counts[priority] == 1:
            del self._counts[priority]
        else:
            self._counts[priority] -= 1

    @property
    def lowest(self) -> int | None:
        """None when there are no pods."""
        return min(self._counts, default=None)
