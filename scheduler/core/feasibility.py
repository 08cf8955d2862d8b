"""Remembered verdicts and scores: each question about a pod shape and a node is answered once.

For every shape there is a record of the nodes that fit, ordered so that the best is found without a pass over them, of
those that do not and why, and of how far the change log has been read. A pod of a known shape asks the plugins only
about nodes that changed since.

Rules of this module
  1. A verdict holds until its node changes (scope NODE) or any node that shares a domain with it (scope DOMAIN).
     Answers of scope CLUSTER are never kept: such plugins are asked in every cycle, after the others.
  2. Looking for nodes that fit stops when enough are known (`CoreSettings.feasible_nodes_enough`); changed nodes are
     looked at first, then unknown ones round robin; where a plugin knows the only nodes that can fit (`only_hope`),
     those come first, and one of them is enough. "No node fits" is said only when all were looked at, which may take
     several ticks: what was found out is remembered, and the pod is asked for again.
  3. Which node is chosen follows from the order of inputs alone: best score, then the one whose last change is longest
     ago, then the order in which it was looked at. No hash order, no randomness.
  4. With `is_paranoid` every remembered answer is compared with a fresh one, each cycle.

Cost: a cycle of a known shape O(changed nodes + distinct score vectors); of a new one O(nodes looked at).
Memory: about 200 bytes a verdict, bounded by `CoreSettings.remembered_verdicts_max`; shapes unused longest go first.

Source: percentageOfNodesToScore and selectHost of pkg/scheduler/schedule_one.go v1.36.3. Differs on purpose: ties are
spread by age instead of at random, and normalized scores are over the nodes that are known to fit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec import Struct

from scheduler.core.ground import Ground
from scheduler.framework.cycle import UNLIMITED_STEPS, Cycle
from scheduler.framework.runner import Plan, Runner, Shape
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo

ScoreVector: TypeAlias = tuple[int, ...]
"""Raw scores of the remembered Score plugins, in profile order. Nodes with equal vectors are equally good."""


_RANKINGS_MAX: Final = 32
NODE_STEPS: Final = 2
"""Looking at a node at all."""


class RememberedVerdictError(AssertionError):
    """A remembered answer differs from a fresh one: a plugin's `shape` or `dependence` lies, or we missed it."""


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
        rankings: Both for sets of vectors that there were; a node of the best often leaves, and another comes.
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
        """Nodes to look at, changed ones first; each is taken out as it is given."""
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


class Chosen(Struct, frozen=True):
    """A node fits, and this is the best of those known."""

    node: NodeName
    score: int


@dataclass(frozen=True, slots=True)
class NoneFits:
    """All nodes were looked at, none fits.

    Args:
        verdicts: Why, for each node looked at.
        reasons: How many nodes gave each reason.
        rejecters: Plugins that rejected a node.
        is_remembered: Nothing but verdicts that may be remembered decided.
    """

    verdicts: Mapping[NodeName, Status]
    reasons: Mapping[str, int]
    rejecters: frozenset[str]
    is_remembered: bool


@dataclass(frozen=True, slots=True)
class Unfinished:
    """More nodes must be looked at than fit into this tick; what was found out is remembered.

    Args:
        reasons: How many nodes gave each reason so far.
    """

    reasons: Mapping[str, int]


class Feasibility:
    """Records of all shapes, least recently used first."""

    def __init__(self, ground: Ground) -> None:
        self._store: Final = ground.store
        self._settings: Final = ground.settings
        self._view: Final = ground.view
        self._records: Final[OrderedDict[Shape, ShapeRecord]] = OrderedDict()
        self.verdicts = 0
        """Verdicts that are remembered."""
        self._stamp = 0
        self._start = 0
        self.asked = 0
        """How often Filter plugins were asked about a node, over all cycles."""
        self.steps = 0
        """Steps that looking at nodes and reserving took, over all cycles."""

    def records(self) -> Iterable[tuple[Shape, ShapeRecord]]:
        return self._records.items()

    def find(
        self,
        runner: Runner,
        cycle: Cycle,
        plan: Plan,
        *,
        node_names: frozenset[NodeName] | None,
        only_hope: frozenset[NodeName] | None,
        preferred: str,
        looks_max: int,
    ) -> Chosen | NoneFits | Unfinished | Status:
        """The best node for the cycle's pod.

        Args:
            node_names: The only nodes worth looking at, None for all; part of the shape.
            only_hope: No other node fits; looked at first, and the others when none of these fits. None: not known.
            preferred: A node to take if it fits at all (the nominated one), or "".
            looks_max: Nodes to look at now, at least 1. A pod whose verdicts are not remembered looks at all it needs.

        Returns:
            A status only when a plugin failed: then nothing is known.
        """
        record = self._records.pop(plan.shape, None) if plan.shape is not None else None
        if record is None:
            record = ShapeRecord()
        size = record.size
        allowed = cycle.steps_left
        if plan.shape is None:
            cycle.steps_left = UNLIMITED_STEPS  # what is found out is not remembered, so it is found out in one go
        steps_left = cycle.steps_left
        try:
            self._read_changes(record, plan, node_names)
            if only_hope is not None:
                # Live filters may reject what fits so far, so with them all are looked at.
                only_hope = None if plan.live_filters else only_hope if node_names is None else only_hope & node_names
            budget = looks_max if plan.shape is not None else len(self._store.node_infos)
            failure = self._look(
                runner, cycle, plan, record, only_hope, preferred=NodeName(preferred), looks_max=budget
            )
        finally:
            taken = steps_left - cycle.steps_left
            self.steps += taken
            cycle.steps_left = max(1, allowed - taken)
            if plan.shape is not None:
                self._records[plan.shape] = record
                self.verdicts += record.size - size
                self._bound()
        if failure is not None:
            return failure
        if preferred not in record.fits and not self._is_enough(plan, record, only_hope, len(record.fits)):
            return Unfinished(dict(record.reasons))
        if self._settings.is_paranoid:
            self._compare(runner, cycle, plan, record, node_names)
        if plan.live_filters or plan.live_scorers:
            return self._choose_live(runner, cycle, plan, record, NodeName(preferred))
        if not record.fits:
            return NoneFits(record.rejected, record.reasons, frozenset(record.rejecters), plan.shape is not None)
        if preferred in record.fits:
            return Chosen(NodeName(preferred), 0)
        return self._choose(runner, cycle, plan, record)

    # Keeping a record current

    def _read_changes(self, record: ShapeRecord, plan: Plan, node_names: frozenset[NodeName] | None) -> None:
        changes = self._store.changes
        names = changes.since(record.position) if record.position >= 0 else None
        if names is None:
            order = self._store.node_order
            if node_names is not None:
                order = tuple(name for name in order if name in node_names)
            record.start_over(order, self._start % len(order) if order else 0, changes.position)
            return
        record.position = changes.position
        for name in self._with_domains(names, plan.domains) if plan.domains else names:
            if node_names is not None and name not in node_names:
                continue
            record.forget(name)
            if name in self._store.node_infos:
                record.changed[name] = None
            else:
                record.changed.pop(name, None)

    def _with_domains(self, names: Iterable[NodeName], domains: Sequence[str]) -> Iterable[NodeName]:
        """These nodes, and all that share a domain with one of them."""
        touched: dict[NodeName, None] = {}
        for name in names:
            touched[name] = None
            info = self._store.node_infos.get(name)
            if info is not None:
                for key in domains:
                    touched.update(dict.fromkeys(self._store.nodes_in_domain(key, info.node)))
        return touched

    def _enough(self, plan: Plan) -> int:
        # Live filters may reject what fits so far, so with them there is never enough.
        return self._settings.feasible_nodes_enough if not plan.live_filters else len(self._store.node_infos)

    def _is_enough(self, plan: Plan, record: ShapeRecord, only_hope: frozenset[NodeName] | None, fits: int) -> bool:
        """Whether no more nodes must be looked at, when `fits` are known to fit."""
        if fits >= self._enough(plan) or not record.has_unknown:
            return True
        # Those that could fit are put first, so with one of them no longer to look at next, they all were looked at.
        return only_hope is not None and fits > 0 and not (record.changed and next(iter(record.changed)) in only_hope)

    def _put_first(self, record: ShapeRecord, names: frozenset[NodeName]) -> None:
        """Look at these next, those of them that were not looked at."""
        unknown = [name for name in sorted(names) if name not in record.fits and name not in record.rejected]
        if unknown:
            first = dict.fromkeys(name for name in unknown if name in self._store.node_infos)
            record.changed = {**first, **record.changed}

    def _look(
        self,
        runner: Runner,
        cycle: Cycle,
        plan: Plan,
        record: ShapeRecord,
        only_hope: frozenset[NodeName] | None,
        *,
        preferred: NodeName,
        looks_max: int,
    ) -> Status | None:
        """Ask the plugins about unknown nodes until enough are known to fit; the ERROR status of a plugin."""
        enough = self._enough(plan)
        last = self.asked + looks_max
        node_infos = self._store.node_infos
        is_known = preferred in record.fits or preferred in record.rejected
        if preferred and not is_known and preferred in record.order:
            record.changed = {preferred: None, **record.changed}
        if only_hope:
            self._put_first(record, only_hope)
        found: list[NodeInfo] = []
        failure = None
        unknown = record.unknown()
        while (
            (fits := len(record.fits) + len(found)) < enough
            and (only_hope is None or not self._is_enough(plan, record, only_hope, fits))
            and self.asked < last
            and cycle.steps_left > 0
            and (name := next(unknown, None)) is not None
        ):
            info = node_infos.get(name)
            if info is None:
                continue
            self._start += 1
            self.asked += 1
            cycle.steps_left -= NODE_STEPS
            status = runner.filter(plan.filters, cycle, info, self._view)
            if status is SUCCESS:
                found.append(info)
            elif status.code is Code.UNFINISHED:
                record.changed = {name: None, **record.changed}  # next, so that one search a shape is under way
                break
            elif status.code is Code.ERROR:
                record.changed[name] = None
                failure = status
                break
            else:
                record.reject(name, status)
        return self._score(runner, cycle, plan, record, found) or failure

    def _score(
        self, runner: Runner, cycle: Cycle, plan: Plan, record: ShapeRecord, found: list[NodeInfo]
    ) -> Status | None:
        if not found:
            return None
        scorers = runner.pre_score(plan.scorers, cycle, found, self._view) if plan.scorers else []
        failure = scorers if isinstance(scorers, Status) else None
        for info in found:
            if failure is None:
                assert not isinstance(scorers, Status)
                vector = runner.score(scorers, cycle, info, self._view)
                if not isinstance(vector, Status):
                    self._stamp += 1
                    record.accept(info.name, vector, self._stamp)
                    continue
                failure = vector
            record.changed[info.name] = None
        return failure

    def _choose(self, runner: Runner, cycle: Cycle, plan: Plan, record: ShapeRecord) -> Chosen | Status:
        if not record.is_ranked:
            failure = self._rank(runner, cycle, plan, record)
            if failure is not None:
                return failure
        heads = [next(iter(record.buckets[vector])) for vector in record.best]
        node = heads[0] if len(heads) == 1 else min(heads, key=lambda name: record.fits[name].stamp)
        return Chosen(node, record.totals[record.best[0]])

    def _rank(self, runner: Runner, cycle: Cycle, plan: Plan, record: ShapeRecord) -> Status | None:
        """Bring `totals` and `best` in line with the vectors there are."""
        vectors = frozenset(record.buckets)
        ranking = record.rankings.get(vectors)
        if ranking is None or self._settings.is_paranoid:
            fresh = self._ranking(runner, cycle, plan, record)
            if isinstance(fresh, Status):
                return fresh
            if ranking is not None and ranking[0] != fresh[0]:
                raise RememberedVerdictError(f"pod {cycle.pod.key}: remembered totals {ranking[0]}, but now {fresh[0]}")
            if len(record.rankings) >= _RANKINGS_MAX:
                record.rankings.clear()
            ranking = record.rankings[vectors] = fresh
        record.totals, record.best = ranking
        record.is_ranked = True
        return None

    def _ranking(
        self, runner: Runner, cycle: Cycle, plan: Plan, record: ShapeRecord
    ) -> tuple[dict[ScoreVector, int], list[ScoreVector]] | Status:
        """The total of each vector there is, and the best. Only changed sets of raw scores are normalized again."""
        normalized: list[dict[int, int]] = []
        for column, plugin in enumerate(plan.scorers):
            node_by_score = {vector[column]: next(iter(bucket)) for vector, bucket in record.buckets.items()}
            known = record.normalized[column] if record.normalized else {}
            if known.keys() != node_by_score.keys():
                scores = runner.normalize_score(plugin, cycle, {node: score for score, node in node_by_score.items()})
                if isinstance(scores, Status):
                    return scores
                known = {score: scores[node] for score, node in node_by_score.items()}
            normalized.append(known)
        record.normalized = normalized
        totals = {
            vector: sum(scores[raw] for scores, raw in zip(normalized, vector, strict=True))
            for vector in record.buckets
        }
        largest = max(totals.values())
        return totals, [vector for vector, total in totals.items() if total == largest]

    def _bound(self) -> None:
        settings, records = self._settings, self._records
        while len(records) > 1 and (
            self.verdicts > settings.remembered_verdicts_max or len(records) > settings.remembered_shapes_max
        ):
            _, dropped = self._records.popitem(last=False)
            self.verdicts -= dropped.size

    # Answers that are not remembered

    def _choose_live(
        self, runner: Runner, cycle: Cycle, plan: Plan, record: ShapeRecord, preferred: NodeName
    ) -> Chosen | NoneFits | Status:
        """Ask the live plugins about every node that fits so far, then score those that remain."""
        verdicts = dict(record.rejected)
        reasons = dict(record.reasons)
        rejecters = set(record.rejecters)
        infos: list[NodeInfo] = []
        for name in sorted(record.fits, key=lambda name: record.fits[name].stamp):
            info = self._store.node_infos[name]
            status = runner.filter(plan.live_filters, cycle, info, self._view)
            if status.code is Code.ERROR:
                return status
            if status.code is Code.SUCCESS:
                infos.append(info)
                continue
            verdicts[name] = status
            rejecters.add(status.plugin)
            for reason in status.reasons:
                reasons[reason] = reasons.get(reason, 0) + 1
        if not infos:
            is_remembered = plan.shape is not None and not plan.live_filters
            return NoneFits(verdicts, reasons, frozenset(rejecters), is_remembered)
        if any(info.name == preferred for info in infos):
            return Chosen(preferred, 0)
        totals = {info.name: 0 for info in infos}
        asked = runner.pre_score(plan.live_scorers, cycle, infos, self._view)
        if isinstance(asked, Status):
            return asked
        live: list[tuple[int, ...]] = []
        for info in infos:
            scores = runner.score(asked, cycle, info, self._view)
            if isinstance(scores, Status):
                return scores
            live.append(scores)
        columns = [*zip(*(record.fits[info.name].vector for info in infos), strict=True), *zip(*live, strict=True)]
        for plugin, column in zip((*plan.scorers, *plan.live_scorers), columns, strict=True):
            raw = {info.name: score for info, score in zip(infos, column, strict=True)}
            normalized = runner.normalize_score(plugin, cycle, raw)
            if isinstance(normalized, Status):
                return normalized
            for name, score in normalized.items():
                totals[name] += score
        best = max(totals.values())
        return Chosen(next(name for name, total in totals.items() if total == best), best)

    # Distrust

    def _compare(
        self, runner: Runner, cycle: Cycle, plan: Plan, record: ShapeRecord, node_names: frozenset[NodeName] | None
    ) -> None:
        """Raise RememberedVerdictError where a remembered answer differs from a fresh one, or a node is missing."""
        allowed, cycle.steps_left = cycle.steps_left, UNLIMITED_STEPS
        try:
            self._compare_all(runner, cycle, plan, record, node_names)
        finally:
            cycle.steps_left = allowed

    def _compare_all(
        self, runner: Runner, cycle: Cycle, plan: Plan, record: ShapeRecord, node_names: frozenset[NodeName] | None
    ) -> None:
        for name, info in self._store.node_infos.items():
            if node_names is not None and name not in node_names:
                continue
            fit, rejection = record.fits.get(name), record.rejected.get(name)
            if fit is None and rejection is None:
                if name not in record.changed and name not in record.waiting():
                    raise RememberedVerdictError(f"node {name} was forgotten for pod {cycle.pod.key}")
                continue
            status = runner.filter(plan.filters, cycle, info, self._view)
            if status != (rejection or SUCCESS):
                raise RememberedVerdictError(
                    f"node {name}, pod {cycle.pod.key}: remembered {rejection or SUCCESS}, but now {status}"
                )
            if fit is not None:
                scorers = runner.pre_score(plan.scorers, cycle, [info], self._view)
                vector = runner.score(scorers, cycle, info, self._view) if not isinstance(scorers, Status) else scorers
                if vector != fit.vector:
                    raise RememberedVerdictError(
                        f"node {name}, pod {cycle.pod.key}: remembered scores {fit.vector}, but now {vector}"
                    )


def _decrement(counts: dict[str, int], key: str) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
