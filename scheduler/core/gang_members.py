"""The pods of each gang, as observed, in the order in which they were first seen.

Not here: which gang a pod names (`model.gang`), placing gangs (`gang_cycles`).

Cost: O(1) for each observed pod; a pod of no gang costs one look at its labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.model.gang import GangKey, gang_key
from scheduler.model.keys import PodUid
from scheduler.model.objects import Pod

GANG_SCHEDULING: Final = "GangScheduling"
"""Upstream's name for who keeps a pod waiting for its gang."""


class GangMembers:
    """Uids of pods by gang. Empty, and false, while no pod names a gang."""

    def __init__(self) -> None:
        self._by_gang: Final[dict[GangKey, dict[PodUid, None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_gang)

    def of(self, key: GangKey) -> Iterable[PodUid]:
        """The members that exist, bound and finished ones too."""
        return tuple(self._by_gang.get(key, ()))

    def count(self, key: GangKey) -> int:
        """How many members exist."""
        return len(self._by_gang.get(key, ()))

    def observe(self, old: Pod | None, pod: Pod | None) -> None:
        """A pod is new, newer or gone (None); its labels may name another gang than before."""
        was = gang_key(old) if old is not None else None
        now = gang_key(pod) if pod is not None else None
        if was == now:
            return
        if was is not None and old is not None:
            members = self._by_gang[was]
            del members[old.uid]
            if not members:
                del self._by_gang[was]
        if now is not None and pod is not None:
            self._by_gang.setdefault(now, {})[pod.uid] = None
