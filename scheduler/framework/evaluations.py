"""How often plugins were asked, by extension point.

Rules of this module
  1. Plugins are counted where a row of them ends, not call by call.
  2. What is remembered is not asked again, and not counted.
  3. There are as many rows as ways to leave plugins of the profile out, whatever pods there are.

Not here: the calls (`runner`), the metric (`kube.metrics`).

Cost: one addition for each node that is filtered; a few for each PreFilter and PreScore.

Source: pkg/scheduler/framework/runtime/instrumented_plugins.go v1.36.3 (which calls count). Differs on purpose: of a
plugin that judges facts, each distinct fact counts, and its scores count once a cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeVar

from scheduler.framework.api import FilterPlugin, Plugin, PreFilterPlugin, ScorePlugin

_P = TypeVar("_P", bound=Plugin)


class Row(tuple[_P, ...]):
    """Plugins that are asked one after the other until one ends it.

    Attributes:
        whole: How often all of them were asked.
        nodes: About how many nodes in all, where that is not one each time.
        ended: How often one was the last, by its name.
        skips, skipped_nodes: How often one had nothing to do, and for how many nodes.
    """

    whole: int
    nodes: int
    ended: Counter[str]
    skips: Counter[str]
    skipped_nodes: Counter[str]

    def __new__(cls, plugins: Iterable[_P] = ()) -> Row[_P]:
        row = super().__new__(cls, plugins)
        row.whole = row.nodes = 0
        row.ended, row.skips, row.skipped_nodes = Counter(), Counter(), Counter()
        return row

    def left_out(self, plugin: str, nodes: int) -> None:
        """A plugin has nothing to do for these nodes."""
        self.skips[plugin] += 1
        self.skipped_nodes[plugin] += nodes

    def counts(self) -> Counter[str]:
        """How often each was asked, by its name."""
        asked, counts = self.whole, Counter[str]()
        for plugin in reversed(self):
            asked += self.ended[plugin.name]
            counts[plugin.name] = asked - self.skips[plugin.name]
        return counts

    def node_counts(self) -> Counter[str]:
        """About how many nodes each was asked, by its name."""
        return Counter({plugin.name: self.nodes - self.skipped_nodes[plugin.name] for plugin in self})


class Evaluations:
    """Of one profile.

    Attributes:
        skipped: How often just these plugins had nothing to do in PreFilter.
        judged: Facts that were filtered, by plugin.
        scored: Sets of facts that were scored, by plugin.
    """

    def __init__(self, pre_filters: Row[PreFilterPlugin]) -> None:
        self.skipped: Final[dict[frozenset[str], int]] = {}
        self.judged: Final[Counter[str]] = Counter()
        self.scored: Final[Counter[str]] = Counter()
        self._pre_filters: Final = pre_filters
        self._filters: Final[dict[tuple[str, ...], Row[FilterPlugin]]] = {}
        self._scorers: Final[dict[tuple[str, ...], Row[ScorePlugin]]] = {}

    def pre_filter_ended(self, last: str, skipped: Iterable[str]) -> None:
        """PreFilter ended early."""
        self._pre_filters.ended[last] += 1
        self.left_out(frozenset(skipped))

    def left_out(self, skipped: frozenset[str]) -> None:
        """PreFilter is over, and these had nothing to do."""
        self.skipped[skipped] = self.skipped.get(skipped, 0) + 1

    def filters(self, plugins: Iterable[FilterPlugin]) -> Row[FilterPlugin]:
        """The row of these plugins, always the same one."""
        return _kept(self._filters, plugins)

    def scorers(self, plugins: Iterable[ScorePlugin]) -> Row[ScorePlugin]:
        """The row of these plugins, always the same one."""
        return _kept(self._scorers, plugins)

    def by_point(self) -> dict[str, Counter[str]]:
        """How often each plugin was asked, by extension point."""
        asked, filtered, pre_scored, scored = (
            self._pre_filters.counts(),
            Counter(self.judged),
            Counter[str](),
            Counter(self.scored),
        )
        for names, count in self.skipped.items():
            asked.subtract(dict.fromkeys(names, count))
        for filters in self._filters.values():
            filtered.update(filters.counts())
        for scorers in self._scorers.values():
            pre_scored.update(scorers.counts())
            scored.update(scorers.node_counts())
        return {"PreFilter": asked, "Filter": filtered, "PreScore": pre_scored, "Score": scored}


def _kept(rows: dict[tuple[str, ...], Row[_P]], plugins: Iterable[_P]) -> Row[_P]:
    row = Row(plugins)
    return rows.setdefault(tuple([plugin.name for plugin in row]), row)
