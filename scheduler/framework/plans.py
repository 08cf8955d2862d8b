"""Makes the plans of one profile: which plugins take part in a cycle, sorted by what their answers depend on.

Rules of this module
  1. Pods of equal signature have the same plan, as long as somebody has it (`core.trying.signature_record`). Plugins
     are sorted once for those that take part.
  2. A plugin that has nothing to do for a pod (SKIP in PreFilter) is in no row of its plan.

Not here: what a plan is (`plan`), calling its plugins (`runner`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final
from weakref import WeakValueDictionary

from msgspec import structs

from scheduler.framework.api import (
    FactFilterPlugin,
    FactPlugin,
    FactScorePlugin,
    FilterPlugin,
    NormalizeScorePlugin,
    Plugin,
    RankingPlugin,
    ScorePlugin,
    SigningPlugin,
)
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.evaluations import Evaluations
from scheduler.framework.plan import Plan, PodSignature, PreFiltered


class NoSignatureError(Exception):
    """A plugin failed where it should have given its signature."""

    def __init__(self, plugin: Plugin, error: Exception) -> None:
        super().__init__(str(error))
        self.plugin: Final = plugin
        self.error: Final = error


class Plans:
    """Of one profile.

    Args:
        filters, scorers: Its plugins of these extension points, in order.
    """

    def __init__(
        self,
        scheduler_name: str,
        filters: Sequence[FilterPlugin | FactFilterPlugin],
        scorers: Sequence[ScorePlugin | FactScorePlugin],
        evaluations: Evaluations,
    ) -> None:
        self._scheduler_name: Final = scheduler_name
        self._filters: Final = filters
        self._scorers: Final = scorers
        self._evaluations: Final = evaluations
        every = (*filters, *scorers)
        self._every: Final[tuple[SigningPlugin, ...]] = tuple({plugin.name: plugin for plugin in every}.values())
        self._asked: Final[dict[frozenset[str], tuple[SigningPlugin, ...]]] = {}  # by those that have nothing to do
        self._plans: Final[WeakValueDictionary[tuple[Hashable, ...], Plan]] = WeakValueDictionary()
        self._sorted: Final[dict[frozenset[str], Plan]] = {}  # likewise

    def of(self, cycle: Cycle, view: ClusterView, filtered: PreFiltered) -> Plan:
        """Raises NoSignatureError."""
        skipped = filtered.skipped
        asked = self._asked.get(skipped)
        if asked is None:
            asked = self._asked[skipped] = tuple([one for one in self._every if one.name not in skipped])
        signatures: list[Hashable] = [filtered.node_names, skipped]
        is_remembered = True
        for plugin in asked:
            try:
                signature = plugin.signature(cycle, view)
            except Exception as error:
                raise NoSignatureError(plugin, error) from error
            signatures.append(signature)
            if signature is None:
                is_remembered = False
        rows = self._sorted.get(skipped)
        if rows is None:
            rows = self._sorted[skipped] = self._sort(skipped)
        if not is_remembered:
            return rows
        parts = tuple(signatures)
        plan = self._plans.get(parts)
        if plan is None:
            plan = self._plans[parts] = structs.replace(rows, signature=PodSignature(self._scheduler_name, *parts))
        return plan

    def _sort(self, skipped: frozenset[str]) -> Plan:
        filters: tuple[list[FilterPlugin], list[FilterPlugin]] = ([], [])
        scorers: tuple[list[ScorePlugin], list[ScorePlugin]] = ([], [])
        places: dict[str, int] = {}
        fact_plugins: list[FactPlugin] = []
        fact_filters: list[tuple[int, FactFilterPlugin]] = []
        late_parts: list[list[FilterPlugin]] = [[]]
        fact_scorers: list[tuple[int, FactScorePlugin]] = []
        for plugin in self._every:
            if plugin.name not in skipped and isinstance(plugin, FactPlugin):
                places[plugin.name] = len(fact_plugins)
                fact_plugins.append(plugin)
        for filtering in self._filters:
            if filtering.name not in skipped:
                if isinstance(filtering, FactFilterPlugin):
                    fact_filters.append((places[filtering.name], filtering))
                    late_parts.append([])
                else:
                    filters[bool(fact_filters)].append(filtering)
                    if fact_filters:
                        late_parts[-1].append(filtering)
        for scoring in self._scorers:
            if scoring.name not in skipped:
                if isinstance(scoring, FactScorePlugin):
                    fact_scorers.append((places[scoring.name], scoring))
                else:
                    scorers[isinstance(scoring, NormalizeScorePlugin)].append(scoring)
        ranker = next((one for one in scorers[True] if isinstance(one, RankingPlugin) and one.ranks), None)
        return Plan(
            signature=None,
            filters=self._evaluations.filters(filters[False]),
            fact_plugins=tuple(fact_plugins),
            fact_filters=tuple(fact_filters),
            fact_scorers=tuple(fact_scorers),
            late_filters=self._evaluations.filters(filters[True]),
            late_parts=tuple(self._evaluations.filters(part) for part in late_parts[1:]),
            scorers=self._evaluations.scorers((*scorers[False], *scorers[True])),
            plain_scorers=len(scorers[False]),
            ranker=ranker,
        )
