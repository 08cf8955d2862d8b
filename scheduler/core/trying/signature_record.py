"""What is known about one pod signature: nodes that fit, nodes that do not and why, and nodes still to look at.

Rules of this module
  1. A node is in one of five places: `fits`, `rejected` (by a filter before the facts, or in its group by a later one),
     set aside in its group, `changed` (to look at next), or still to come in `order`.
  2. Nodes that got as far as their facts are in the `FactGroup` of these facts. A group is there while a node is in it.
  3. `buckets`, `reasons` and `unschedulable_plugins` follow from the nodes (`invariants` compares them).

Not here: asking the plugins, what is said of facts, and which node is chosen (`feasibility`, `ranking`).

Cost: O(1) for each verdict.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Set
from operator import is_
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from scheduler.framework.plan import Facts, Plan
from scheduler.framework.preemption import Preemption
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.keys import NodeName, PodUid

ScoreVector: TypeAlias = tuple[int, ...]
"""What `Runner.score` gives. Nodes with equal vectors and facts are equally good."""

RawScores: TypeAlias = tuple[frozenset[int], ...]
"""For each plugin that normalizes, the raw scores there are."""

NO_FACTS: Final[Facts] = ()

_SHAPE_BYTES: Final = 8_000
"""A signature with its plan, and a record without verdicts."""
_VERDICT_BYTES: Final = 380
_NODE_BYTES: Final = 8
"""A node that has not been looked at."""


class Fit(Struct):
    """A node that fits as long as its facts pass: how good it is, and when that was found out."""

    vector: ScoreVector
    stamp: int
    facts: Facts


class Rejections:
    """Nodes that a filter rejected, and how many of them for each reason text and each plugin.

    Most nodes are rejected as the node before: these share one status, which is two thirds of a verdict's memory.
    """

    __slots__ = ("_last", "reasons", "statuses", "unschedulable_plugins")

    def __init__(self) -> None:
        self.statuses: dict[NodeName, Status] = {}
        self.reasons: dict[str, int] = {}
        self.unschedulable_plugins: dict[str, int] = {}
        self._last = SUCCESS

    def add(self, name: NodeName, status: Status) -> None:
        if status == self._last:
            status = self._last
        self._last = status
        self.statuses[name] = status
        for reason in status.reasons:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.unschedulable_plugins[status.plugin] = self.unschedulable_plugins.get(status.plugin, 0) + 1

    def discard(self, name: NodeName) -> bool:
        """Whether the node was there."""
        status = self.statuses.pop(name, None)
        if status is None:
            return False
        for reason in status.reasons:
            _decrement(self.reasons, reason)
        _decrement(self.unschedulable_plugins, status.plugin)
        return True


class FactGroup:
    """Nodes of equal facts.

    Attributes:
        buckets: Nodes that fit, by score vector, each in order of `Fit.stamp`; `fits` is how many.
        aside: Nodes whose facts did not pass, so that the later filters were not asked about them.
        rejected: By a later filter.
        raws: What there is in `buckets`, None while that is not known.
        judged, status: The round of judging that gave the verdict on the facts, and the verdict.
        ranking: The ranking (its number) by which `top` is the largest total of a vector, and `best` are its vectors.
    """

    __slots__ = ("aside", "best", "buckets", "facts", "fits", "judged", "ranking", "raws", "rejected", "status", "top")

    def __init__(self, facts: Facts) -> None:
        self.facts: Final = facts
        self.buckets: Final[dict[ScoreVector, OrderedDict[NodeName, None]]] = {}
        self.fits = 0
        self.aside: Final[dict[NodeName, None]] = {}
        self.rejected: Final = Rejections()
        self.judged = 0
        self.status = SUCCESS
        self.raws: RawScores | None = None
        self.ranking = -1
        self.top = 0
        self.best: list[ScoreVector] = []

    @property
    def size(self) -> int:
        return self.fits + len(self.aside) + len(self.rejected.statuses)

    def names(self) -> Iterator[NodeName]:
        """All nodes in it."""
        for bucket in self.buckets.values():
            yield from bucket
        yield from self.aside
        yield from self.rejected.statuses

    def accept(self, name: NodeName, vector: ScoreVector) -> None:
        self.fits += 1
        bucket = self.buckets.get(vector)
        if bucket is None:
            bucket = self.buckets[vector] = OrderedDict()
            self.raws = None
        bucket[name] = None

    def forget_fit(self, name: NodeName, vector: ScoreVector) -> None:
        self.fits -= 1
        bucket = self.buckets[vector]
        del bucket[name]
        if not bucket:
            del self.buckets[vector]
            self.raws = None


class Judging(NamedTuple):
    """A round of judging facts: `moment` is what the verdicts depend on, as it was when the round began."""

    round: int
    moment: Hashable
    is_complete: bool


class SignatureRecord:
    """What is known about one signature.

    Attributes:
        position: How far the change log has been read.
        order, cursor, left: Nodes not looked at yet: `left` names of `order` from `cursor` on, round robin.
        changed: Nodes to look at again, or for the first time because they are new.
        rejected: Nodes that a filter before the facts rejected; without facts all that do not fit.
        fits: Nodes that fit, if their facts pass.
        groups: Nodes by facts; where there are no facts all that fit are in one group.
        behind: The facts of nodes that are set aside or were rejected by a later filter.
        beside: For whom devices that every node sees are kept from pods like the one that asked last; verdicts are
            those beside them.
        nominated: Nodes for which pods are nominated: their verdicts hold for pods of the priority `nominated_for`, and
            where the pod that asked was nominated there itself, which is given then, for that pod.
        raws, normalized: For each plugin that normalizes the weighted normalized score by raw score, of these raw
            scores.
        ranking: The number of times that `normalized` has changed.
        plan: That of the signature, which is remembered as long as this is.
        rounds, judging: The number of rounds of judging facts, and what was kept of the last one.
    """

    __slots__ = (
        "behind",
        "beside",
        "changed",
        "cursor",
        "fits",
        "groups",
        "judging",
        "left",
        "nominated",
        "nominated_for",
        "normalized",
        "order",
        "plan",
        "position",
        "ranking",
        "raws",
        "rejected",
        "rounds",
    )

    def __init__(self, plan: Plan) -> None:
        self.plan: Final = plan
        self.rounds = 0
        self.beside: tuple[Preemption, ...] = ()
        self._clear()

    def _clear(self) -> None:
        self.position = -1
        self.order: tuple[NodeName, ...] = ()
        self.cursor = 0
        self.left = 0
        self.changed: dict[NodeName, None] = {}
        self.rejected = Rejections()
        self.fits: dict[NodeName, Fit] = {}
        self.groups: dict[Facts, FactGroup] = {}
        self.judging: Judging | None = None
        self.behind: dict[NodeName, Facts] = {}
        self.nominated: dict[NodeName, PodUid | None] = {}
        self.nominated_for = 0
        self.raws: RawScores = ()
        self.normalized: list[dict[int, int]] = []
        self.ranking = 0

    @property
    def size(self) -> int:
        return len(self.fits) + len(self.rejected.statuses) + len(self.behind)

    @property
    def kept(self) -> int:
        """Bytes."""
        return _SHAPE_BYTES + _VERDICT_BYTES * self.size + _NODE_BYTES * (len(self.order) + len(self.changed))

    def start_over(self, order: tuple[NodeName, ...], cursor: int, position: int) -> None:
        self._clear()
        self.order, self.cursor, self.left, self.position = order, cursor, len(order), position

    def has_other_beside(self, beside: tuple[Preemption, ...]) -> bool:
        """Whether this is not what verdicts were beside until now, so that they do not hold."""
        before, self.beside = self.beside, beside
        return len(before) != len(beside) or not all(map(is_, before, beside))

    @property
    def has_unknown(self) -> bool:
        """Whether there may be nodes that were not looked at."""
        return bool(self.changed or self.left)

    def unknown(self, reopened: Iterable[FactGroup] = ()) -> Iterator[NodeName]:
        """Nodes to look at; each is taken out when it is returned.

        Changed ones first, then those set aside in `reopened` groups, of which the earlier filters need not be asked
        again (`reopen` gives the facts), then those still to come.
        """
        while self.changed:
            name = next(iter(self.changed))
            del self.changed[name]
            yield name
        for group in reopened:
            while group.aside:
                yield next(iter(group.aside))
        while self.left:
            name = self.order[self.cursor]
            self.cursor = (self.cursor + 1) % len(self.order)
            self.left -= 1
            if not self.is_known(name):
                yield name

    def is_known(self, name: NodeName) -> bool:
        return name in self.fits or name in self.rejected.statuses or name in self.behind

    def look_first(self, names: Iterable[NodeName]) -> None:
        """Look at these unknown nodes next."""
        first = dict.fromkeys(names)
        if first:
            self.changed = {**first, **self.changed}

    def comes_next(self, nodes: Set[NodeName]) -> bool:
        """Whether the next node is known and one of these."""
        return bool(self.changed) and next(iter(self.changed)) in nodes

    def waiting(self) -> frozenset[NodeName]:
        """Nodes that the round robin has not come to yet."""
        return frozenset(self.order[(self.cursor + step) % len(self.order)] for step in range(self.left))

    def forget(self, name: NodeName) -> bool:
        """Drop the verdict about a node; False when there is none."""
        fit = self.fits.pop(name, None)
        if fit is not None:
            group = self.groups[fit.facts]
            group.forget_fit(name, fit.vector)
        elif name in self.behind:
            group = self.groups[self.behind.pop(name)]
            if not group.rejected.discard(name):
                del group.aside[name]
        else:
            return self.rejected.discard(name)
        if not group.size:
            del self.groups[group.facts]
        return True

    def reopen(self, name: NodeName) -> Facts | None:
        """The facts of a node that was set aside, which it is no more; None for another node."""
        facts = self.behind.get(name)
        if facts is not None:
            self.forget(name)
        return facts

    def reject(self, name: NodeName, status: Status) -> None:
        """By a filter before the facts."""
        self.rejected.add(name, status)

    def reject_late(self, name: NodeName, facts: Facts, status: Status) -> None:
        self.behind[name] = facts
        self._group(facts).rejected.add(name, status)

    def set_aside(self, name: NodeName, facts: Facts) -> None:
        self.behind[name] = facts
        self._group(facts).aside[name] = None

    def accept(self, name: NodeName, facts: Facts, vector: ScoreVector, stamp: int) -> None:
        self.fits[name] = Fit(vector, stamp, facts)
        self._group(facts).accept(name, vector)

    def _group(self, facts: Facts) -> FactGroup:
        group = self.groups.get(facts)
        if group is None:
            group = self.groups[facts] = FactGroup(facts)
        return group


def _decrement(counts: dict[str, int], key: str) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
