"""Which of several observations of one object is the newest, so that their order and repetition do not matter.

Rules of this module
  1. Of two observations the one with the larger revision is true; an equal one is a duplicate.
  2. A deletion at revision r ends every state up to r, even one that is observed later. It does not end a state that is
     newer than r: such a deletion came from an older list.
  3. Revision 0 of a deletion means unknown: it ends all that was observed so far; with `is_final` (keys that are never
     used again, uids) also whatever is still to come; with `may_return` (kinds that a server may stop serving) nothing
     is said about what it stores, so an object may come back as it was.

Memory: one number per live object, and the latest deletions: as many as there ever were objects, `_TOMBSTONES_MIN` at
least. What comes late is an answer to a request of ours, or a list; either takes seconds.

Source: resourceVersion is comparable within one API server (k8s.io/apimachinery resourceversion, Kubernetes 1.35).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")

_TOMBSTONES_MIN: Final = 4_096
_FOR_EVER: Final = 2**63


class Versions(Generic[Key]):
    """Newest known revision of each object of one kind."""

    def __init__(self, *, is_final: bool = False, may_return: bool = False) -> None:
        self._is_final: Final = is_final
        self._may_return: Final = may_return
        self._revision_by_key: Final[dict[Key, int]] = {}
        self._tombstones: Final[OrderedDict[Key, int]] = OrderedDict()
        self._tombstones_max = _TOMBSTONES_MIN
        # The revision of what is known of a key; None: nothing. Asked several times with every observation.
        self.newest: Final[Callable[[Key], int | None]] = self._revision_by_key.get

    def observe(self, key: Key, revision: int) -> bool:
        """Whether an observation says something new; if so it counts from now on."""
        known = self._revision_by_key.get(key)
        if known is None:
            known = self._tombstones.pop(key, None)
            if known is not None and revision <= known:
                self._tombstones[key] = known
                return False
        elif revision <= known:
            return False
        self._revision_by_key[key] = revision
        return True

    def delete(self, key: Key, revision: int) -> bool:
        """Whether a deletion removes what is known of `key`."""
        known = self._revision_by_key.get(key)
        if known is not None and 0 < revision < known:
            return False
        if revision > 0:
            self._bury(key, revision)
        elif self._is_final:
            self._bury(key, _FOR_EVER)
        elif known is not None and not self._may_return:
            self._bury(key, known)
        self._revision_by_key.pop(key, None)
        return known is not None

    def _bury(self, key: Key, revision: int) -> None:
        self._tombstones[key] = max(revision, self._tombstones.pop(key, 0))
        self._tombstones_max = max(self._tombstones_max, len(self._revision_by_key))
        if len(self._tombstones) > self._tombstones_max:
            self._tombstones.popitem(last=False)
