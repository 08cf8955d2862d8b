"""The change log: which nodes may look different to a plugin, in order, so that readers re-examine only these.

Rules of this module
  1. Every change that a Filter or Score plugin could see on a node is noted, after it is made.
  2. A reader that has fallen behind the log's bound starts over (`since` returns None); no change is ever withheld.

Cost: `note` O(1) amortized; `since` O(changes since). Memory: at most `_ENTRIES_MAX` names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.model.keys import NodeName

_ENTRIES_MAX: Final = 262_144


class ChangeLog:
    """An append-only list of node names with positions that stay valid while old entries are dropped."""

    def __init__(self, entries_max: int = _ENTRIES_MAX) -> None:
        self._names: list[NodeName] = []
        self._base = 0
        self._entries_max: Final = entries_max

    @property
    def position(self) -> int:
        """Where the next change will be."""
        return self._base + len(self._names)

    def note(self, node: NodeName) -> None:
        self._names.append(node)
        if len(self._names) > self._entries_max:
            dropped = self._entries_max // 2
            del self._names[:dropped]
            self._base += dropped

    def note_all(self) -> None:
        """Everything changed: no reader may keep anything."""
        self._base = self.position + 1
        self._names.clear()

    def behind(self, position: int) -> int | None:
        """How many entries there are since `position`, at least as many as nodes; None: start over."""
        return self.position - position if position >= self._base else None

    def since(self, position: int) -> Iterable[NodeName] | None:
        """Nodes changed since `position`, each once, in order of their first change; None: start over."""
        start = position - self._base
        if start < 0:
            return None
        if start == len(self._names):
            return ()
        return dict.fromkeys(self._names[start:])
