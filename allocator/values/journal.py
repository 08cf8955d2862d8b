"""Undo journal of the device search.

The search tries a device, goes deeper, and takes the attempt back. Everything a pick changes beyond the
masks of picked devices (counters, shares, constraint states) is changed together with an entry here, so
taking back is one call and cannot be forgotten at one of several exits.

Rules of this module
  1. `undo_to(mark())` restores state that compares equal to the state at `mark()`.
  2. An entry is appended after its change succeeded; a refused change leaves no entry.
  3. Entries are undone in reverse order.

Cost: `mark` O(1), `undo_to` O(entries undone); a pick makes at most one entry per ledger it touches.
Why a journal and not copies, nor undoing by hand at each exit: docs/adr/0004-undo-journal.md.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeAlias

Mark: TypeAlias = int


class Undoable(Protocol):
    """A ledger that can take back one of its own changes."""

    def undo(self, change: Any) -> None:
        """Take back `change`, the latest that is still in force."""


class Journal:
    """Changes in the order they were made."""

    def __init__(self) -> None:
        self._entries: Final[list[tuple[Undoable, Any]]] = []

    def record(self, ledger: Undoable, change: Any) -> None:
        """Remember a change that was just made to `ledger`."""
        self._entries.append((ledger, change))

    def mark(self) -> Mark:
        """The present state, for `undo_to`."""
        return len(self._entries)

    def undo_to(self, mark: Mark) -> None:
        """Take back everything recorded since `mark`."""
        entries = self._entries
        while len(entries) > mark:
            ledger, change = entries.pop()
            ledger.undo(change)
