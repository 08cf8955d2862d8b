"""What is remembered to answer sooner, weighed: one limit in bytes for all of it, and what goes first.

Whatever can be worked out again, and grows with what users make, is kept in a `Cache`. All caches of one machine share
a `MemoryLedger`.

Rules of this module
  1. What a turn used is weighed when the next one begins. Only then something may be forgotten: nothing goes while it
     is in use.
  2. Over the limit the namespace that has most loses what it used longest ago. So nobody's objects push out what is
     remembered for others, who have less.
  3. What the last turn used stays, whatever it weighs: a pod that goes on finds what was worked out for it.
  4. Bytes are estimates, from counts and a constant beside each cache; `tests/sim/test_soak.py` compares them with what
     Python's allocator says.

Not here: what is remembered, and how it is found again.

Cost: `get`, `put` and `forget` O(1); a turn O(what the last one used), and where there is too much O(namespaces) once
for a part of the limit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_AT_ONCE: Final = 64
"""Over the limit this part of it is made free, so that not each turn looks for what may go."""
_ALONE_MAX: Final = 256 * 2**20
"""Bytes for whoever has no limit of its own: an inventory in a test, a question about files."""


class _Entry(Generic[K, V]):
    __slots__ = ("cache", "key", "share", "size", "turn", "value")

    def __init__(self, cache: Cache[K, V], key: K, value: V, share: _Share) -> None:
        self.cache: Final = cache
        self.key: Final = key
        self.value: Final = value
        self.share: Final = share
        self.size = 0
        self.turn = -1


class _Share:
    """What is remembered for one namespace, unused longest first."""

    __slots__ = ("entries", "size")

    def __init__(self) -> None:
        self.entries: Final[OrderedDict[_Entry[Any, Any], None]] = OrderedDict()
        self.size = 0


class MemoryLedger:
    """The bytes of all caches.

    Attributes:
        size: Bytes in all; `by_what` by the name of the cache.
        turn: Grows with each turn.
    """

    def __init__(self, limit: Callable[[], int] = lambda: _ALONE_MAX) -> None:
        """`limit`: bytes, as things are now."""
        self.size = 0
        self.by_what: Final[dict[str, int]] = {}
        self.turn = 0
        self._limit: Final = limit
        self._namespace = ""
        self._shares: dict[str, _Share] = {}
        self._used: Final[list[_Entry[Any, Any]]] = []

    def begin(self, namespace: str) -> None:
        """A turn begins: what is remembered from now on is for this namespace."""
        for entry in self._used:
            entry.cache.weigh(entry)
        self._used.clear()
        limit = self._limit()
        if self.size > limit:
            self._shed(limit - limit // _AT_ONCE)
        self.turn += 1
        self._namespace = namespace

    def text(self) -> str:
        """What is remembered, for people."""
        parts = ", ".join([f"{what} {size / 2**20:.1f}" for what, size in self.by_what.items() if size])
        return f"remembered to answer sooner: about {self.size / 2**20:.1f} MiB{parts and f' ({parts})'}"

    def share(self) -> _Share:
        """Of the namespace whose turn it is."""
        found = self._shares.get(self._namespace)
        if found is None:
            found = self._shares[self._namespace] = _Share()
        return found

    def use(self, entry: _Entry[Any, Any]) -> None:
        """In this turn, for the first time."""
        entry.turn = self.turn
        entry.share.entries[entry] = None
        entry.share.entries.move_to_end(entry)
        self._used.append(entry)

    def _shed(self, limit: int) -> None:
        self._shares = {name: one for name, one in self._shares.items() if one.entries}
        while self.size > limit:
            old = [one for one in self._shares.values() if one.entries and next(iter(one.entries)).turn != self.turn]
            if not old:
                return
            largest = max(old, key=lambda one: one.size)
            fair = min(largest.size - 1, limit // len(self._shares))
            while self.size > limit and largest.size > fair and largest.entries:
                entry = next(iter(largest.entries))
                if entry.turn == self.turn:
                    break
                entry.cache.forget(entry.key)


class Cache(Generic[K, V]):
    """Values by key, forgotten when the ledger says so."""

    def __init__(
        self,
        ledger: MemoryLedger,
        what: str,
        size: Callable[[V], int] = attrgetter("kept"),
        forgotten: Callable[[V], object] | None = None,
    ) -> None:
        """
        Args:
            what: Its name in the ledger; several caches may share one.
            size: The bytes of a value, which may change while it is used; its attribute `kept`, where none is given.
            forgotten: Called with each value that goes.
        """
        self._ledger: Final = ledger
        self._what: Final = what
        self._size: Final = size
        self._forgotten: Final = forgotten
        self._entries: Final[dict[K, _Entry[K, V]]] = {}
        ledger.by_what.setdefault(what, 0)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def items(self) -> Iterator[tuple[K, V]]:
        """All of them, without using any."""
        return ((key, entry.value) for key, entry in self._entries.items())

    def get(self, key: K) -> V | None:
        """The value, which is used now; None: there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.turn != self._ledger.turn:
            self._ledger.use(entry)
        return entry.value

    def put(self, key: K, value: V) -> V:
        """Remember a value in the place of the one that was."""
        self.forget(key)
        entry = self._entries[key] = _Entry(self, key, value, self._ledger.share())
        self._ledger.use(entry)
        return value

    def forget(self, key: K) -> V | None:
        """Remember it no more; None: it was not there."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._note(entry, 0)
        del entry.share.entries[entry]
        if self._forgotten is not None:
            self._forgotten(entry.value)
        return entry.value

    def clear(self) -> None:
        for key in tuple(self._entries):
            self.forget(key)

    def weigh(self, entry: _Entry[K, V]) -> None:
        """Note what it takes now, unless it was forgotten."""
        if self._entries.get(entry.key) is entry:
            self._note(entry, self._size(entry.value))

    def _note(self, entry: _Entry[K, V], size: int) -> None:
        more = size - entry.size
        entry.size = size
        entry.share.size += more
        self._ledger.size += more
        self._ledger.by_what[self._what] += more
