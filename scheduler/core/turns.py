"""Turns: pods that wait are numbered so that each turn has one pod of each namespace.

Rules of this module
  1. A pod gets the turn after the last one of its namespace, and not one that is over. So pods of one namespace keep
     their order, and one that comes beside three hundred of another namespace waits for one of them.
  2. Each priority has turns of its own: neither a backlog of low priority nor what was tried with a high one puts pods
     of another priority back.

Cost: O(1) amortized; what is over is forgotten.
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
