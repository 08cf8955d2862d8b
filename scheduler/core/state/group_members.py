"""The pods of each gang, as observed, in the order in which they were first seen.

Not here: which gang a pod names (`model.group`), placing gangs (`group_cycles`).

Cost: O(1) for each observed pod; a pod of no gang costs one look at its labels. `size` O(distinct numbers, names
and priorities that the gang's pods say).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from scheduler.model.group import Alike, GroupKey, GroupSize, alike_of, counts, key_of_group, min_count_of
from scheduler.model.keys import PodUid
from scheduler.model.objects import Pod

_NONE: Final = GroupSize(0, 0, 0)


class _Gang:
    """Attributes:
    members: All pods that exist.
    living: Those of them that count.
    said: How many of these say that so many pods are needed.
    alike: Of a PodGroup, how many of these say what all must say alike.
    """

    __slots__ = ("alike", "living", "members", "said")

    def __init__(self) -> None:
        self.members: Final[dict[PodUid, None]] = {}
        self.living = 0
        self.said: Final[Counter[int]] = Counter()
        self.alike: Final[Counter[Alike]] = Counter()


class GroupMembers:
    """Uids of pods by gang. Empty, and false, while no pod names a gang."""

    def __init__(self) -> None:
        self._by_gang: Final[dict[GroupKey, _Gang]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_gang)

    def of(self, key: GroupKey) -> Collection[PodUid]:
        """The members that exist, bound and finished ones too."""
        gang = self._by_gang.get(key)
        return tuple(gang.members) if gang is not None else ()

    def size(self, key: GroupKey) -> GroupSize:
        gang = self._by_gang.get(key)
        if gang is None:
            return _NONE
        return GroupSize(len(gang.members), gang.living, max(gang.said, default=0), tuple(gang.alike))

    def observe(self, old: Pod | None, pod: Pod | None) -> None:
        """A pod is new, newer or gone (None); its labels may name another gang than before."""
        was = key_of_group(old) if old is not None else None
        now = key_of_group(pod) if pod is not None else None
        if was is not None and old is not None:
            gang = self._by_gang[was]
            self._count(gang, was, old, -1)
            if was != now:
                del gang.members[old.uid]
                if not gang.members:
                    del self._by_gang[was]
        if now is not None and pod is not None:
            gang = self._by_gang.setdefault(now, _Gang())
            gang.members[pod.uid] = None
            self._count(gang, now, pod, 1)

    @staticmethod
    def _count(gang: _Gang, key: GroupKey, pod: Pod, change: int) -> None:
        if not counts(pod, is_placed=pod.node_name is not None):
            return
        gang.living += change
        if key.is_pod_group:
            alike = alike_of(pod)
            gang.alike[alike] += change
            if not gang.alike[alike]:
                del gang.alike[alike]
            return
        said = min_count_of(pod)
        if said is not None:
            gang.said[said] += change
            if not gang.said[said]:
                del gang.said[said]
