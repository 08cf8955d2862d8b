"""One plugin asked about one pod, as the framework asks it."""

from __future__ import annotations

from scheduler.framework.api import NormalizeScorePlugin
from scheduler.framework.status import Code
from tests.plugins.cluster import Cluster, cycle_of

VIEW = Cluster()


def filter_verdict(plugin, one, info):
    """What the framework would get: PreFilter first, Filter unless it skipped."""
    cycle = cycle_of(one)
    if hasattr(plugin, "pre_filter"):
        status = plugin.pre_filter(cycle, VIEW).status
        if status.code is Code.SKIP:
            return status
        assert status.is_success, status
    assert plugin.signature(cycle, VIEW) is not None
    hash(plugin.signature(cycle, VIEW))
    return plugin.filter(cycle, info, VIEW)


def scores(plugin, one, *infos):
    """The normalized scores of the nodes, in their order."""
    cycle = cycle_of(one)
    if hasattr(plugin, "pre_filter"):
        plugin.pre_filter(cycle, VIEW)
    if plugin.pre_score(cycle, infos, VIEW).code is Code.SKIP:
        raw = {info.name: 0 for info in infos}
    else:
        raw = {info.name: plugin.score(cycle, info, VIEW) for info in infos}
    if isinstance(plugin, NormalizeScorePlugin):
        plugin.normalize_score(cycle, raw)
    return list(raw.values())
