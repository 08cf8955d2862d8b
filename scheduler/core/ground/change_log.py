"""The change log: which nodes may look different to a plugin, in order, so that readers re-examine only these.

Rules of this module
  1. Every change that a Filter or Score plugin could see on a node is noted, after it is made.
  2. A reader that has fallen behind the log's bound starts over (`since` returns None); no change is ever withheld.
  3. Changes that were taken back are no changes for a reader that saw neither (`detour`).

Cost: `note` O(1) amortized; `since` O(changes since). Memory: at most `_ENTRIES_MAX` names and `_DETOURS_MAX` detours.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from scheduler.model.keys import NodeName

_ENTRIES_MAX: Final = 262_144
_DETOURS_MAX: Final = 256


class _Detour(NamedTuple):
    """Between two positions these nodes were changed and brought back as they were; None: all that are named there."""

    start: int
    end: int
    nodes: Container[NodeName] | None


class ChangeLog:
    """An append-only list of node names with positions that stay valid while old entries are dropped."""

    def __init__(self, entries_max: int = _ENTRIES_MAX) -> None:
        self._names: list[NodeName] = []
        self._base = 0
        self._entries_max: Final = entries_max
        self._detours: Final[list[_Detour]] = []

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

    def detour(self, start: int, nodes: Container[NodeName] | None = None) -> None:
        """Since `start` these nodes, or all that have changed, came back to what they were then."""
        if start < self.position:
            insort(self._detours, _Detour(start, self.position, nodes), key=attrgetter("start"))
            if len(self._detours) > _DETOURS_MAX:
                del self._detours[: _DETOURS_MAX // 2]  # their changes count again

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
        if not self._detours or self._detours[-1].start < position:
            return dict.fromkeys(self._names[start:])
        return dict.fromkeys(self._without_detours(position))

    def _without_detours(self, position: int) -> Iterable[NodeName]:
        base, names = self._base, self._names
        for detour in self._detours[bisect_left(self._detours, position, key=attrgetter("start")) :]:
            if detour.start >= position:
                yield from names[position - base : detour.start - base]
                if detour.nodes is not None:
                    yield from (
                        name for name in names[detour.start - base : detour.end - base] if name not in detour.nodes
                    )
                position = detour.end
        yield from names[position - base :]
