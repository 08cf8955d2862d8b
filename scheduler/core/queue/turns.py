"""Turns: pods that wait are numbered so that each turn has one pod of each namespace.

Rules of this module
  1. A pod gets the turn after the last turn of its namespace, and never a turn that is over. So pods of one namespace
     keep their order, and a pod that comes beside three hundred pods of another namespace waits for one of them.
  2. Each priority has turns of its own: neither a backlog of low priority nor attempts with a high one put pods of
     another priority back.

Cost: O(1) amortized; turns that are over are forgotten.
"""

from __future__ import annotations

from typing import Final

_KEPT_MAX: Final = 1_000


class Turns:
    """The turns of all namespaces."""

    def __init__(self) -> None:
        self._now: Final[dict[int, int]] = {}  # by priority, the latest turn that has begun
        self._last: Final[dict[tuple[int, str], int]] = {}
        self._kept_max = _KEPT_MAX

    def give(self, priority: int, namespace: str) -> int:
        """The turn of one more pod."""
        now, last, key = self._now.get(priority, 0), self._last, (priority, namespace)
        turn = last[key] = max(now, last.get(key, -1) + 1)
        if len(last) > self._kept_max:
            for old in [old for old, given in last.items() if given < self._now.get(old[0], 0)]:
                del last[old]
            self._kept_max = max(_KEPT_MAX, 2 * len(last))
        return turn

    def begin(self, priority: int, turn: int) -> None:
        """A pod is tried that was given this turn."""
        if turn > self._now.get(priority, 0):
            self._now[priority] = turn
