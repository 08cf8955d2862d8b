"""Remembered verdicts and scores: each question about a pod shape and a node is answered once.

For every shape there is a record (`shape_record`) of the nodes that fit, ordered so that the best is found without a
pass over them, of those that do not and why, and of how far the change log has been read. A pod of a known shape asks
the plugins only about nodes that changed since.

Rules of this module
  1. A verdict holds until its node changes (scope NODE) or any node that shares a domain with it (scope DOMAIN).
     Answers of scope CLUSTER are never kept: such plugins are asked in every cycle, after the others.
  2. Looking for nodes that fit stops when enough are known (`CoreSettings.feasible_nodes_enough`). Changed nodes come
     first, then unknown ones round robin; where a plugin knows the only nodes that can fit (`possible_nodes`), those
     come first, and one that fits is enough. "No node fits" is said only when all were looked at, which may take
     several ticks: verdicts are remembered, and the queue gives the pod out again.
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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from scheduler.core.ground import Ground
from scheduler.core.shape_record import ScoreVector, ShapeRecord
from scheduler.framework.cycle import UNLIMITED_STEPS, Cycle
from scheduler.framework.runner import Plan, Runner, Shape
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo

_RANKINGS_MAX: Final = 32
NODE_STEPS: Final = 2
"""Looking at a node at all."""


class RememberedVerdictError(AssertionError):
    """A remembered answer differs from a fresh one: a plugin's `shape` or `dependence` lies, or we missed it."""


class Question(Struct):
    """Which node is best for the cycle's pod?

    Args:
        node_names: The only nodes worth looking at, None for all; part of the shape.
        possible_nodes: No other node fits. They come first; all other nodes only when none fits. None: not known.
        preferred: A node to take if it fits at all (the nominated one), or "".
        filter_calls_max: Nodes to look at now, at least 1. A pod whose verdicts are not remembered looks at all it
            needs.
    """

    runner: Runner
    cycle: Cycle
    plan: Plan
    node_names: frozenset[NodeName] | None
    possible_nodes: frozenset[NodeName] | None
    preferred: NodeName
    filter_calls_max: int

    def is_asked_about(self, name: NodeName) -> bool:
        return self.node_names is None or name in self.node_names


class Chosen(Struct, frozen=True):
    """A node fits, and this is the best known."""

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
    """More nodes must be looked at than fit into this tick; their verdicts so far are remembered.

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
        self.filter_calls = 0
        """How often Filter plugins were asked about a node, over all cycles."""
        self.steps = 0
        """Steps that looking at nodes and reserving took, over all cycles."""

    def records(self) -> Iterable[tuple[Shape, ShapeRecord]]:
        return self._records.items()

    def find(self, asked: Question) -> Chosen | NoneFits | Unfinished | Status:
        """The best node. A status only when a plugin failed: then nothing is known."""
        cycle, plan = asked.cycle, asked.plan
        record = self._records.pop(plan.shape, None) if plan.shape is not None else None
        if record is None:
            record = ShapeRecord()
        size = record.size
        allowed = cycle.steps_left
        if plan.shape is None:  # what is found out is not remembered, so it is found out in one go
            cycle.steps_left = UNLIMITED_STEPS
            asked.filter_calls_max = len(self._store.node_infos)
        steps_left = cycle.steps_left
        try:
            self._read_changes(asked, record)
            if plan.unremembered_filters:
                asked.possible_nodes = None  # these filters may reject what fits so far, so all nodes are looked at
            elif asked.possible_nodes is not None and asked.node_names is not None:
                asked.possible_nodes &= asked.node_names
            failure = self._look(asked, record)
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
        preferred = asked.preferred
        if preferred not in record.fits and not self._is_enough(asked, record, len(record.fits)):
            return Unfinished(dict(record.reasons))
        if self._settings.is_paranoid:
            self._compare(asked, record)
        if plan.unremembered_filters or plan.unremembered_scorers:
            return self._choose_unremembered(asked, record)
        if not record.fits:
            return NoneFits(record.rejected, record.reasons, frozenset(record.rejecters), plan.shape is not None)
        if preferred in record.fits:
            return Chosen(preferred, 0)
        return self._choose(asked, record)

    # Keeping a record current

    def _read_changes(self, asked: Question, record: ShapeRecord) -> None:
        changes, domains = self._store.changes, asked.plan.domains
        names = changes.since(record.position) if record.position >= 0 else None
        if names is None:
            order = self._store.node_order
            if asked.node_names is not None:
                order = tuple(name for name in order if name in asked.node_names)
            record.start_over(order, self._start % len(order) if order else 0, changes.position)
            return
        record.position = changes.position
        for name in self._with_domains(names, domains) if domains else names:
            if asked.is_asked_about(name):
                record.forget(name)
                if name in self._store.node_infos:
                    record.changed[name] = None
                else:
                    record.changed.pop(name, None)

    def _with_domains(self, names: Iterable[NodeName], domains: Iterable[str]) -> Iterable[NodeName]:
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
        # Unremembered filters may reject what fits so far, so with them there is never enough.
        return self._settings.feasible_nodes_enough if not plan.unremembered_filters else len(self._store.node_infos)

    def _is_enough(self, asked: Question, record: ShapeRecord, fits: int) -> bool:
        """Whether no more nodes must be looked at, when `fits` are known to fit."""
        if fits >= self._enough(asked.plan) or not record.has_unknown:
            return True
        # The possible nodes are at the front. If the next node is not one of them, all of them have been looked at.
        possible = asked.possible_nodes
        return possible is not None and fits > 0 and not (record.changed and next(iter(record.changed)) in possible)

    def _look(self, asked: Question, record: ShapeRecord) -> Status | None:
        """Ask the plugins about unknown nodes until enough are known to fit; the ERROR status of a plugin."""
        cycle, plan, preferred, possible = asked.cycle, asked.plan, asked.preferred, asked.possible_nodes
        node_infos = self._store.node_infos
        if preferred and preferred in record.order:
            record.look_first((preferred,))
        if possible:
            record.look_first(name for name in sorted(possible) if name in node_infos)
        enough, last = self._enough(plan), self.filter_calls + asked.filter_calls_max
        found: list[NodeInfo] = []
        failure = None
        unknown = record.unknown()
        while self.filter_calls < last and cycle.steps_left > 0:
            fits = len(record.fits) + len(found)
            if fits >= enough or (possible is not None and self._is_enough(asked, record, fits)):
                break
            name = next(unknown, None)
            if name is None:
                break
            info = node_infos.get(name)
            if info is None:
                continue
            self._start += 1
            self.filter_calls += 1
            cycle.steps_left -= NODE_STEPS
            status = asked.runner.filter(plan.filters, cycle, info, self._view)
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
        return self._score(asked, record, found) or failure

    def _score(self, asked: Question, record: ShapeRecord, found: list[NodeInfo]) -> Status | None:
        if not found:
            return None
        runner, cycle, plan = asked.runner, asked.cycle, asked.plan
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

    def _choose(self, asked: Question, record: ShapeRecord) -> Chosen | Status:
        if not record.is_ranked:
            failure = self._rank(asked, record)
            if failure is not None:
                return failure
        heads = [next(iter(record.buckets[vector])) for vector in record.best]
        node = heads[0] if len(heads) == 1 else min(heads, key=lambda name: record.fits[name].stamp)
        return Chosen(node, record.totals[record.best[0]])

    def _rank(self, asked: Question, record: ShapeRecord) -> Status | None:
        """Bring `totals` and `best` in line with the vectors there are."""
        vectors = frozenset(record.buckets)
        ranking = record.rankings.get(vectors)
        if ranking is None or self._settings.is_paranoid:
            fresh = self._ranking(asked, record)
            if isinstance(fresh, Status):
                return fresh
            if ranking is not None and ranking[0] != fresh[0]:
                raise RememberedVerdictError(
                    f"pod {asked.cycle.pod.key}: remembered totals {ranking[0]}, but now {fresh[0]}"
                )
            if len(record.rankings) >= _RANKINGS_MAX:
                record.rankings.clear()
            ranking = record.rankings[vectors] = fresh
        record.totals, record.best = ranking
        record.is_ranked = True
        return None

    def _ranking(
        self, asked: Question, record: ShapeRecord
    ) -> tuple[dict[ScoreVector, int], list[ScoreVector]] | Status:
        """The total of each vector there is, and the best. Only changed sets of raw scores are normalized again."""
        normalized: list[dict[int, int]] = []
        for column, plugin in enumerate(asked.plan.scorers):
            node_by_score = {vector[column]: next(iter(bucket)) for vector, bucket in record.buckets.items()}
            known = record.normalized[column] if record.normalized else {}
            if known.keys() != node_by_score.keys():
                raw = {node: score for score, node in node_by_score.items()}
                scores = asked.runner.normalize_score(plugin, asked.cycle, raw)
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

    def _choose_unremembered(self, asked: Question, record: ShapeRecord) -> Chosen | NoneFits | Status:
        """Ask the unremembered plugins about every node that fits so far, then score the nodes that remain."""
        runner, cycle, plan = asked.runner, asked.cycle, asked.plan
        verdicts, reasons, rejecters = dict(record.rejected), dict(record.reasons), set(record.rejecters)
        infos: list[NodeInfo] = []
        for name in sorted(record.fits, key=lambda name: record.fits[name].stamp):
            info = self._store.node_infos[name]
            status = runner.filter(plan.unremembered_filters, cycle, info, self._view)
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
            is_remembered = plan.shape is not None and not plan.unremembered_filters
            return NoneFits(verdicts, reasons, frozenset(rejecters), is_remembered)
        if any(info.name == asked.preferred for info in infos):
            return Chosen(asked.preferred, 0)
        scorers = runner.pre_score(plan.unremembered_scorers, cycle, infos, self._view)
        if isinstance(scorers, Status):
            return scorers
        fresh: list[tuple[int, ...]] = []
        for info in infos:
            scores = runner.score(scorers, cycle, info, self._view)
            if isinstance(scores, Status):
                return scores
            fresh.append(scores)
        totals = {info.name: 0 for info in infos}
        columns = [*zip(*(record.fits[info.name].vector for info in infos), strict=True), *zip(*fresh, strict=True)]
        for plugin, column in zip((*plan.scorers, *plan.unremembered_scorers), columns, strict=True):
            raw = {info.name: score for info, score in zip(infos, column, strict=True)}
            normalized = runner.normalize_score(plugin, cycle, raw)
            if isinstance(normalized, Status):
                return normalized
            for name, score in normalized.items():
                totals[name] += score
        best = max(totals.values())
        return Chosen(next(name for name, total in totals.items() if total == best), best)

    # Distrust

    def _compare(self, asked: Question, record: ShapeRecord) -> None:
        """Raise RememberedVerdictError where a remembered answer differs from a fresh one, or a node is missing."""
        allowed, asked.cycle.steps_left = asked.cycle.steps_left, UNLIMITED_STEPS
        try:
            for info in self._store.node_infos.values():
                if asked.is_asked_about(info.name):
                    self._compare_node(asked, record, info)
        finally:
            asked.cycle.steps_left = allowed

    def _compare_node(self, asked: Question, record: ShapeRecord, info: NodeInfo) -> None:
        runner, cycle, plan = asked.runner, asked.cycle, asked.plan
        about = f"node {info.name}, pod {cycle.pod.key}"
        fit, rejection = record.fits.get(info.name), record.rejected.get(info.name)
        if fit is None and rejection is None:
            if info.name not in record.changed and info.name not in record.waiting():
                raise RememberedVerdictError(f"{about}: the node was forgotten")
            return
        status = runner.filter(plan.filters, cycle, info, self._view)
        if status != (rejection or SUCCESS):
            raise RememberedVerdictError(f"{about}: remembered {rejection or SUCCESS}, but now {status}")
        if fit is not None:
            scorers = runner.pre_score(plan.scorers, cycle, [info], self._view)
            vector = runner.score(scorers, cycle, info, self._view) if not isinstance(scorers, Status) else scorers
            if vector != fit.vector:
                raise RememberedVerdictError(f"{about}: remembered scores {fit.vector}, but now {vector}")
