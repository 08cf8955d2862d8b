"""What is known about one pod shape: the nodes that fit, the nodes that do not and why, and the nodes still to look at.

Rules of this module
  1. A node is in one of four places: `fits`, `rejected`, `changed` (to look at next), or still to come in `order`.
  2. `buckets`, `reasons` and `rejecters` follow from `fits` and `rejected` (`invariants` compares them).

Not here: asking the plugins, and which node is chosen (`feasibility`).

Cost: O(1) for each verdict.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from scheduler.framework.status import Status
from scheduler.model.keys import NodeName

ScoreVector: TypeAlias = tuple[int, ...]
"""Raw scores of the remembered Score plugins, in profile order. Nodes with equal vectors are equally good."""


class Fit(Struct):
    """A node that fits: how good it is, and when that was found out."""

    vector: ScoreVector
    stamp: int


class ShapeRecord:
    """What is known about one shape.

    Attributes:
        position: How far the change log has been read.
        order, cursor, left: Nodes not looked at yet: `left` names of `order` from `cursor` on, round robin.
        changed: Nodes to look at again, or for the first time because they are new.
        rejected: Nodes that do not fit, and why.
        reasons, rejecters: How many of them for each reason text and each plugin.
        fits: Nodes that fit.
        buckets: The same by score vector, each in order of `stamp`.
        normalized: For each Score plugin the weighted normalized score by raw score.
        totals: Their sum for each vector, and `best` the vectors with the largest; true while `is_ranked`.
        rankings: Both for earlier sets of vectors; one of the best nodes often leaves, and another comes.
    """

    __slots__ = (
        "best",
        "buckets",
        "changed",
        "cursor",
        "fits",
        "is_ranked",
        "left",
        "normalized",
        "order",
        "position",
        "rankings",
        "reasons",
        "rejected",
        "rejecters",
        "totals",
    )

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.position = -1
        self.order: tuple[NodeName, ...] = ()
        self.cursor = 0
        self.left = 0
        self.changed: dict[NodeName, None] = {}
        self.rejected: dict[NodeName, Status] = {}
        self.reasons: dict[str, int] = {}
        self.rejecters: dict[str, int] = {}
        self.fits: dict[NodeName, Fit] = {}
        self.buckets: dict[ScoreVector, OrderedDict[NodeName, None]] = {}
        self.normalized: list[dict[int, int]] = []
        self.totals: dict[ScoreVector, int] = {}
        self.best: list[ScoreVector] = []
        self.rankings: dict[frozenset[ScoreVector], tuple[dict[ScoreVector, int], list[ScoreVector]]] = {}
        self.is_ranked = False

    @property
    def size(self) -> int:
        return len(self.fits) + len(self.rejected)

    def start_over(self, order: tuple[NodeName, ...], cursor: int, position: int) -> None:
        self._clear()
        self.order, self.cursor, self.left, self.position = order, cursor, len(order), position

    @property
    def has_unknown(self) -> bool:
        """Whether there may be nodes that were not looked at."""
        return bool(self.changed or self.left)

    def unknown(self) -> Iterator[NodeName]:
        """Nodes to look at, changed ones first; each is taken out when it is returned."""
        while self.changed:
            name = next(iter(self.changed))
            del self.changed[name]
            yield name
        while self.left:
            name = self.order[self.cursor]
            self.cursor = (self.cursor + 1) % len(self.order)
            self.left -= 1
            if name not in self.fits and name not in self.rejected:
                yield name

    def look_first(self, names: Iterable[NodeName]) -> None:
        """Look at these nodes next, as far as they are unknown."""
        first = {name: None for name in names if name not in self.fits and name not in self.rejected}
        if first:
            self.changed = {**first, **self.changed}

    def waiting(self) -> frozenset[NodeName]:
        """Nodes that the round robin has not come to yet."""
        return frozenset(self.order[(self.cursor + step) % len(self.order)] for step in range(self.left))

    def forget(self, name: NodeName) -> bool:
        """Drop the verdict about a node; False when there is none."""
        fit = self.fits.pop(name, None)
        if fit is not None:
            bucket = self.buckets[fit.vector]
            del bucket[name]
            if not bucket:
                del self.buckets[fit.vector]
                self.is_ranked = False
            return True
        status = self.rejected.pop(name, None)
        if status is None:
            return False
        for reason in status.reasons:
            _decrement(self.reasons, reason)
        _decrement(self.rejecters, status.plugin)
        return True

    def reject(self, name: NodeName, status: Status) -> None:
        self.rejected[name] = status
        for reason in status.reasons:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.rejecters[status.plugin] = self.rejecters.get(status.plugin, 0) + 1

    def accept(self, name: NodeName, vector: ScoreVector, stamp: int) -> None:
        self.fits[name] = Fit(vector, stamp)
        bucket = self.buckets.get(vector)
        if bucket is None:
            bucket = self.buckets[vector] = OrderedDict()
            self.is_ranked = False
        bucket[name] = None


def _decrement(counts: dict[str, int], key: str) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
