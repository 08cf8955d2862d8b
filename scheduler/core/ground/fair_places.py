"""Places that namespaces share: a namespace without a place gets one, a namespace with many leaves some free.

A place is held while a request is under way. Nobody knows how long that takes: an admission webhook that hangs makes
each request of its namespace last ten seconds, and a namespace with all places would make all others wait for it.

Rules of this module
  1. A namespace without a place may take one, whatever other namespaces have (while no more than `most` are taken).
  2. It may have `SHARE` times as many as are free: three quarters when it is alone, and less the more others take. So
     some are left for the next namespace, and none are kept back for namespaces that do not come.
  3. Places that are taken without asking count too.

Cost: O(1) each.

See docs/adr/0017-fair-places.md.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 3


class FairPlaces:
    """`places` to share; `most` bounds what rule 1 adds to them, None when there need be no end."""

    def __init__(self, places: int, most: int | None = None) -> None:
        self.free = places
        self._free_least: Final = places - most if most is not None else None
        self._taken: Final[dict[str, int]] = {}

    @property
    def is_exhausted(self) -> bool:
        """Whether nobody may take any."""
        return self._free_least is not None and self.free <= self._free_least

    def taken(self) -> dict[str, int]:
        """Places by namespace (for `invariants`)."""
        return dict(self._taken)

    def taken_by(self, namespace: str) -> int:
        """Places that the namespace has."""
        return self._taken.get(namespace, 0)

    def may_take(self, namespace: str) -> bool:
        """Whether one more place is the namespace's to take."""
        taken = self._taken.get(namespace)
        if taken is None:
            return not self.is_exhausted
        return taken < SHARE * self.free

    def take(self, namespace: str) -> None:
        self.free -= 1
        self._taken[namespace] = self._taken.get(namespace, 0) + 1

    def give_back(self, namespace: str) -> None:
        self.free += 1
        left = self._taken[namespace] - 1
        if left:
            self._taken[namespace] = left
        else:
            del self._taken[namespace]
