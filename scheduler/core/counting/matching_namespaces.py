"""Which namespaces selectors match, kept up to date from those that changed.

Rules of this module
  1. Finding out pauses between two namespaces (`find`); nobody is given names while some have not been asked about.
  2. A namespace counts once, and once more for each requirement of the selector (`asked`).

Cost: a new selector O(namespaces), a known one O(namespaces that changed).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from allocator.values.remembered import Cache, MemoryLedger
from scheduler.core.ground.newest_objects import NewestObjects
from scheduler.model.label_selectors import Selector
from scheduler.model.objects import Namespace

_CHANGES_MAX: Final = 10_000
_UNLIMITED: Final = 2**62
_NO_LABELS: Final[Mapping[str, str]] = {}


class _Known:
    """Of one selector and names.

    Attributes:
        read: How many changes have been taken over into `pending`, the namespaces that must be asked about.
        others: Those that are no more as `names` says, of what was asked about since.
    """

    __slots__ = ("cost", "names", "others", "pending", "read")

    def __init__(self, selector: Selector, named: frozenset[str], namespaces: Iterable[str], read: int) -> None:
        self.names = named
        self.others: Final[set[str]] = set()
        self.pending: Final = dict.fromkeys(namespaces)
        self.read = read
        self.cost: Final = 1 + len(selector.requirements or ())

    @property
    def kept(self) -> int:
        """Bytes."""
        return 2_000 + 400 * self.cost + 100 * (len(self.names) + len(self.pending))


class MatchingNamespaces:
    """Names by selector, together with names that are given."""

    def __init__(self, namespaces: NewestObjects[str, Namespace], ledger: MemoryLedger) -> None:
        self._namespaces: Final = namespaces
        self._seen: dict[str, Namespace] = {}
        self._read = -1
        self._changed: Final[list[str]] = []
        # Asking about namespaces pauses, and goes on with what is here.
        self._known: Final[Cache[tuple[Selector, frozenset[str]], _Known]] = Cache(ledger, "matching namespaces")
        self.asked = 0
        """What asking about namespaces took so far (rule 2)."""

    def names(self, selector: Selector, named: frozenset[str]) -> frozenset[str]:
        self.find(selector, named, _UNLIMITED)
        return self._read_changes(selector, named).names

    def left(self, selector: Selector, named: frozenset[str]) -> int:
        """What finding out takes at most."""
        known = self._read_changes(selector, named)
        return len(known.pending) * known.cost

    def find(self, selector: Selector, named: frozenset[str], last: int) -> bool:
        """Have the names found out, of one namespace at least; False: `asked` came to `last` before the end."""
        known = self._read_changes(selector, named)
        pending, others, names = known.pending, known.others, known.names
        has_asked = False
        while pending:
            if has_asked and self.asked >= last:
                return False
            name, _ = pending.popitem()
            self.asked += known.cost
            has_asked = True
            if (name in named or self._matches(selector, name)) != (name in names):
                others.add(name)
            else:
                others.discard(name)
        if others:
            known.names = names ^ others
            others.clear()
        return True

    def _read_changes(self, selector: Selector, named: frozenset[str]) -> _Known:
        self._see()
        known = self._known.get((selector, named))
        if known is None:
            known = _Known(selector, named, self._namespaces, len(self._changed))
            self._known.put((selector, named), known)
        elif known.read < len(self._changed):
            known.pending.update(dict.fromkeys(self._changed[known.read :]))
            known.read = len(self._changed)
        return known

    def _matches(self, selector: Selector, name: str) -> bool:
        namespace = self._namespaces.get(name)
        return namespace is not None and selector.matches(namespace.metadata.labels or _NO_LABELS)

    def _see(self) -> None:
        if self._read == self._namespaces.changes:
            return
        self._read = self._namespaces.changes
        seen, self._seen = self._seen, dict(self._namespaces)
        if len(self._changed) > _CHANGES_MAX:
            self._changed.clear()
            self._known.clear()
        self._changed.extend([name for name, one in self._seen.items() if seen.get(name) is not one])
        self._changed.extend([name for name in seen if name not in self._seen])
