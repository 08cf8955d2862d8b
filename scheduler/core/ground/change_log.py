"""The change log: which nodes may look different to a plugin, so that readers re-examine only these.

Rules of this module
  1. Every change that a Filter or Score plugin could see on a node is noted, after it is made.
  2. A reader that has fallen behind the log's bounds hears of more nodes than have changed, or starts over (`since`
     returns None); no change is ever withheld.
  3. Every state of a node has an id, its *look*. Undoing a change (`revert`) restores the earlier id, so a reader that
     read neither the change nor the undo sees no difference.

Cost: `note` O(1) amortized; `since`, `behind` and `revert` O(nodes noted since); `is_as_at` O(1). Memory: `_LOOKS_MAX`
looks of each of `_NODES_MAX` nodes at most.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Container, Iterable, Iterator
from itertools import takewhile
from typing import Final

from scheduler.model.keys import NodeName

_NODES_MAX: Final = 65_536
_LOOKS_MAX: Final = 128
"""Enough for the turns of some 16 gangs on the same nodes, or for 16 pods that are placed on one four times."""
_FEW: Final = 8
"""So few nodes are each asked about, however many others have changed."""
_NEVER: Final = -1


class _Looks:
    """The looks of one node: `looks[i]` holds from `positions[i]` on. The oldest are dropped."""

    __slots__ = ("looks", "positions")

    def __init__(self) -> None:
        self.positions = array("q", (_NEVER,))
        self.looks = array("q", (_NEVER,))

    def put(self, position: int, look: int) -> None:
        if self.positions[-1] == position:
            self.looks[-1] = look
            return
        if len(self.looks) >= _LOOKS_MAX:
            del self.positions[: _LOOKS_MAX // 2], self.looks[: _LOOKS_MAX // 2]
        self.positions.append(position)
        self.looks.append(look)

    def at(self, position: int) -> int | None:
        """The look that a reader at `position` has seen; None: dropped."""
        place = bisect_left(self.positions, position)
        return self.looks[place - 1] if place else None

    def first_since(self, position: int) -> int:
        """The position of its first change at or after `position`."""
        return self.positions[bisect_left(self.positions, position)]


class ChangeLog:
    """The last change of each node, in order, and positions between changes that readers keep."""

    def __init__(self, nodes_max: int = _NODES_MAX) -> None:
        self._nodes_max: Final = nodes_max
        self._last: dict[NodeName, int] = {}  # where each node changed last, in this order
        self._looks: Final[dict[NodeName, _Looks]] = {}
        self._next = self._base = 0
        self._is_open = False  # changes share a position until somebody reads it

    @property
    def position(self) -> int:
        """Where the next change will be."""
        if self._is_open:
            self._next += 1
            self._is_open = False
        return self._next

    def note(self, node: NodeName) -> None:
        self._put(node, self._next)

    def note_all(self) -> None:
        """Everything changed: no reader may keep anything."""
        self._base = self._next = self.position + 1
        self._last.clear()
        self._looks.clear()

    def revert(self, start: int, nodes: Container[NodeName] | None = None) -> None:
        """Since `start` these nodes, or all that have changed, came back to what they were then."""
        if start < self._base:
            return
        for node in reversed(tuple(self._noted_since(start))):
            look = self._looks[node].at(start) if nodes is None or node in nodes else None
            if look is not None:
                self._put(node, look)

    def behind(self, position: int) -> int | None:
        """How many nodes `since` would give at most; None: start over."""
        return sum(1 for _ in self._noted_since(position)) if position >= self._base else None

    def since(self, position: int, among: Collection[NodeName] | None = None) -> Iterable[NodeName] | None:
        """Nodes changed since `position`, each once, in order of their first change; None: start over.

        Args:
            among: The only nodes that matter, None for all. Where they are few no others are given.
        """
        if position < self._base:
            return None
        noted = self._noted_since(position)
        if among is not None and len(among) <= _FEW:
            noted = iter(sorted((node for node in among if self._last.get(node, _NEVER) >= position), reverse=True))
        changed = []
        for node in noted:
            looks = self._looks[node]
            if looks.at(position) != looks.looks[-1]:
                changed.append((looks.first_since(position), node))
        if len(changed) > 1:
            changed.reverse()
            changed.sort(key=lambda one: one[0])
        return [node for _, node in changed]

    def is_as_at(self, node: NodeName, position: int) -> bool:
        """Whether the node has not changed since `position`, or has come back to what it was; False also: not known."""
        if position < self._base:
            return False
        looks = self._looks.get(node)
        return looks is None or self._last[node] < position or looks.at(position) == looks.looks[-1]

    def _noted_since(self, position: int) -> Iterator[NodeName]:
        """Nodes with a change since then, the last first."""
        last = self._last
        return takewhile(lambda node: last[node] >= position, reversed(last))

    def _put(self, node: NodeName, look: int) -> None:
        """Readers from the next position on see this look."""
        looks = self._looks.get(node)
        if looks is None:
            looks = self._looks[node] = _Looks()
        looks.put(self._next, look)
        self._last.pop(node, None)
        self._last[node] = self._next
        self._is_open = True
        if len(self._last) > self._nodes_max:
            self._drop()

    def _drop(self) -> None:
        """Forget the half of the nodes that changed longest ago."""
        for node in tuple(self._last)[: len(self._last) // 2]:
            self._base = self._last.pop(node) + 1
            del self._looks[node]
