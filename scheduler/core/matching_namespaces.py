"""Which namespaces selectors match, kept up to date from those that changed.

Cost: a new selector O(namespaces), a known one O(namespaces that changed).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.core.newest_objects import NewestObjects
from scheduler.model.label_selectors import Selector
from scheduler.model.objects import Namespace

_SELECTORS_MAX: Final = 1_000
_CHANGES_MAX: Final = 10_000
_NO_LABELS: Final[Mapping[str, str]] = {}


class MatchingNamespaces:
    """Names by selector, together with names that are given."""

    def __init__(self, namespaces: NewestObjects[str, Namespace]) -> None:
        self._namespaces: Final = namespaces
        self._seen: dict[str, Namespace] = {}
        self._read = -1
        self._changed: Final[list[str]] = []
        self._known: Final[dict[tuple[Selector, frozenset[str]], tuple[int, frozenset[str]]]] = {}
        self.asked = 0
        """How often a selector was asked about a namespace."""

    def is_known(self, selector: Selector, named: frozenset[str]) -> bool:
        return (selector, named) in self._known

    def names(self, selector: Selector, named: frozenset[str]) -> frozenset[str]:
        self._see()
        found = self._known.get((selector, named))
        if found is None:
            if len(self._known) >= _SELECTORS_MAX:
                self._known.clear()
            self.asked += len(self._namespaces)
            names = named.union([name for name in self._namespaces if self._matches(selector, name)])
        elif found[0] == len(self._changed):
            return found[1]
        else:
            names = found[1]
            for name in dict.fromkeys(self._changed[found[0] :]):
                self.asked += 1
                if (name in named or self._matches(selector, name)) != (name in names):
                    names ^= {name}
        self._known[selector, named] = len(self._changed), names
        return names

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
