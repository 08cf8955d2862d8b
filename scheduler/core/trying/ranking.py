"""Which of the nodes that fit is best: their scores, normalized over these nodes and summed up.

Rules of this module
  1. Scores are normalized over the nodes whose facts pass, and no others.
  2. Nodes of equal facts and score vector are equally good, so only distinct ones are compared.
  3. Of equally good nodes the one wins whose last change is longest ago; where a plugin ranks nodes, the one of the
     lowest rank, then the first by name.
  4. Totals of a group are kept while its vectors and the normalization stay as they are.
  5. Where scoring all facts took more than `_SCORED_MAX` lookups, the choice is among a part of the groups, another one
     each time. Upstream scores a part of the nodes that fit, too.

Cost: O(groups that pass + vectors of groups that changed); O(vectors) when the raw scores that are normalized changed.

Source: RunScorePlugins and selectHost of pkg/scheduler (framework/runtime/framework.go, schedule_one.go) v1.36.3.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from scheduler.core.trying.signature_record import FactGroup, RawScores, SignatureRecord
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.plan import Plan
from scheduler.framework.runner import Runner
from scheduler.framework.status import Status
from scheduler.model.keys import NodeName

_SCORED_MAX: Final = 20_000
"""About 5 ms."""
_FEW: Final = 64
"""Groups that take no time worth counting, whatever they are scored by."""


class RememberedVerdictError(AssertionError):
    """A remembered answer differs from a fresh one: a plugin's `signature` or `fact` lies, or we missed a change."""


class Best(NamedTuple):
    node: NodeName
    score: int


def best_node(
    runner: Runner,
    cycle: Cycle,
    plan: Plan,
    record: SignatureRecord,
    passing: Sequence[FactGroup],
    *,
    view: ClusterView,
    is_paranoid: bool,
) -> Best | Status:
    """The best node of these groups; an ERROR status when a plugin fails.

    Args:
        passing: Groups of `record` with at least one node that fits, at least one group.
    """
    if len(passing) > _FEW and plan.fact_scorers:
        passing = _part(runner, cycle, plan, record, passing)
    failure = _normalize(runner, cycle, plan, record, passing, is_paranoid=is_paranoid)
    if failure is not None:
        return failure
    bonus = _score_facts(runner, cycle, plan, passing, view) if plan.fact_scorers else []
    if isinstance(bonus, Status):
        return bonus
    best = -1
    tops: list[FactGroup] = []
    for place, group in enumerate(passing):
        if group.ranking != record.ranking or group.raws is None:
            _rank(record, group)
        total = group.top + bonus[place] if bonus else group.top
        if total > best:
            best, tops = total, [group]
        elif total == best:
            tops.append(group)
    if plan.ranker is not None:
        return Best(_lowest(plan, tops), best)
    heads = [next(iter(group.buckets[vector])) for group in tops for vector in group.best]
    node = heads[0] if len(heads) == 1 else min(heads, key=lambda name: record.fits[name].stamp)
    return Best(node, best)


def _lowest(plan: Plan, tops: Sequence[FactGroup]) -> NodeName:
    """The node of the lowest rank, then the first by name."""
    width = 1 + len(plan.scorers) - plan.plain_scorers
    lowest = min([vector[width:] for group in tops for vector in group.best])
    return min([min(group.buckets[vector]) for group in tops for vector in group.best if vector[width:] == lowest])


def _part(
    runner: Runner, cycle: Cycle, plan: Plan, record: SignatureRecord, passing: Sequence[FactGroup]
) -> Sequence[FactGroup]:
    """The groups to choose from."""
    size = sum([runner.lookups(plugin, cycle) for _, plugin in plan.fact_scorers])
    if size * len(passing) > _SCORED_MAX:
        most = max(1, _SCORED_MAX // size)
        begin = record.rounds * most % len(passing)
        passing = [*passing[begin:], *passing[:begin]][:most]
    cycle.charge(size * len(passing))
    return passing


def _score_facts(
    runner: Runner, cycle: Cycle, plan: Plan, passing: Sequence[FactGroup], view: ClusterView
) -> list[int] | Status:
    """What the facts of each group add to the total of its nodes."""
    bonus = [0] * len(passing)
    for column, plugin in plan.fact_scorers:
        nodes: dict[Hashable, int] = {}
        for group in passing:
            fact = group.facts[column]
            nodes[fact] = nodes.get(fact, 0) + group.fits
        scores = runner.score_facts(plugin, cycle, nodes, view)
        if isinstance(scores, Status):
            return scores
        if scores:
            for place, group in enumerate(passing):
                bonus[place] += scores.get(group.facts[column], 0)
    return bonus


def _normalize(
    runner: Runner,
    cycle: Cycle,
    plan: Plan,
    record: SignatureRecord,
    passing: Sequence[FactGroup],
    *,
    is_paranoid: bool,
) -> Status | None:
    """Bring `normalized` in line with the raw scores there are. Only changed sets are normalized again."""
    width = len(plan.scorers) - plan.plain_scorers
    if not width:
        return None
    raws = _raws(passing, width)
    if raws == record.raws and not is_paranoid:
        return None
    normalized: list[dict[int, int]] = []
    for column, plugin in enumerate(plan.normalizing):
        is_known = bool(record.raws) and record.raws[column] == raws[column]
        if is_known and not is_paranoid:
            normalized.append(record.normalized[column])
            continue
        node_by_score: dict[int, NodeName] = {}
        for group in passing:
            for vector, bucket in group.buckets.items():
                node_by_score.setdefault(vector[column + 1], next(iter(bucket)))
        scores = runner.normalize_score(plugin, cycle, {node: score for score, node in node_by_score.items()})
        if isinstance(scores, Status):
            return scores
        normalized.append({score: scores[node] for score, node in node_by_score.items()})
        if is_known and normalized[column] != record.normalized[column]:
            raise RememberedVerdictError(
                f"pod {cycle.pod.key}: {plugin.name} gave {record.normalized[column]}, but now {normalized[column]}"
            )
    if normalized != record.normalized:
        record.ranking += 1
    record.raws, record.normalized = raws, normalized
    return None


def _raws(passing: Sequence[FactGroup], width: int) -> RawScores:
    distinct: dict[RawScores, None] = {}
    for group in passing:
        distinct[group_raws(group, width)] = None
    if len(distinct) == 1:
        return next(iter(distinct))
    return tuple(frozenset[int]().union(*column) for column in zip(*distinct, strict=True))


def group_raws(group: FactGroup, width: int) -> RawScores:
    """The raw scores in a group, for each of `width` plugins that normalize."""
    if group.raws is None:
        group.raws = tuple(frozenset(vector[column + 1] for vector in group.buckets) for column in range(width))
        group.ranking = -1
    return group.raws


def _rank(record: SignatureRecord, group: FactGroup) -> None:
    """Find the group's best vectors."""
    normalized = record.normalized
    if not normalized:
        group.raws = ()
    top, best = -1, []
    for vector in group.buckets:
        total = vector[0]
        for column, scores in enumerate(normalized):
            total += scores[vector[column + 1]]
        if total > top:
            top, best = total, [vector]
        elif total == top:
            best.append(vector)
    group.top, group.best, group.ranking = top, best, record.ranking
