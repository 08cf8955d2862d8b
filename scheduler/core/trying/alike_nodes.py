"""Which nodes are alike for a pod, so that its plugins are asked about one of them.

Where a plugin ranks nodes, all that fit are compared, and most of a cluster's idle nodes are the same. Nodes are alike
for a plan when each of its plugins that filter or score says so (`framework.api.AlikePlugin`).

Rules of this module
  1. What plugins read of a node is asked once for each generation of it, whatever pod it is for.
  2. A number stands for what was read of nodes, never for anything else, and goes with the last of them.

Not here: remembering answers (`feasibility`), which hold for one look only.

Cost: one look-up for each node that has not changed. Memory: about 300 bytes a node.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final
from weakref import WeakValueDictionary

from msgspec import Struct, field

from scheduler.framework.api import AlikePlugin
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.plan import Plan
from scheduler.framework.status import Status
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo

_STEPS: Final = 12
"""Reading what plugins say of a node."""


class Number:
    """Stands for what plugins read of alike nodes; compared by identity."""

    __slots__ = ("__weakref__",)


class NodeEquivalence(Struct, frozen=True):
    """The plugins that say what is alike, and what one look at nodes has found out: verdicts and scores by number."""

    plugins: tuple[AlikePlugin, ...] = ()
    statuses: dict[Number, Status] = field(default_factory=dict)
    vectors: dict[Number, tuple[int, ...]] = field(default_factory=dict)


NONE_ALIKE: Final = NodeEquivalence()
"""No plugin says what is alike, so nothing is ever kept in it."""


class AlikeNodes:
    """Numbers of nodes; alike nodes have the same."""

    def __init__(self, view: ClusterView) -> None:
        self._view: Final = view
        self._known: dict[tuple[str, ...], dict[NodeName, tuple[int, Number | None]]] = {}
        self._numbers: Final[WeakValueDictionary[Hashable, Number]] = WeakValueDictionary()

    def plugins_of(self, plan: Plan, cycle: Cycle) -> tuple[AlikePlugin, ...]:
        """The plugins to ask; empty where each node must be asked about."""
        if plan.ranker is None or plan.fact_filters or plan.late_filters:
            return ()
        asked: dict[str, AlikePlugin] = {}
        for plugin in (*plan.filters, *plan.scorers):
            if not isinstance(plugin, AlikePlugin) or not plugin.knows_likeness(cycle, self._view):
                return ()
            asked[plugin.name] = plugin
        return tuple(asked.values())

    def number(self, plugins: tuple[AlikePlugin, ...], cycle: Cycle, node: NodeInfo) -> Number | None:
        """None when the node is like no other. What is found out anew is charged to the cycle."""
        names = tuple([plugin.name for plugin in plugins])
        known_of = self._known.get(names)
        if known_of is None:
            known_of = self._known[names] = {}
        known = known_of.get(node.name)
        if known is not None and known[0] == node.generation:
            return known[1]
        cycle.steps_left -= _STEPS
        likeness = []
        for plugin in plugins:
            one = plugin.likeness(node, self._view)
            if one is None:
                break
            likeness.append(one)
        is_known = len(likeness) == len(plugins)
        number = self._numbers.setdefault((names, *likeness), Number()) if is_known else None
        known_of[node.name] = node.generation, number
        infos = self._view.node_infos
        if len(known_of) > 2 * len(infos):
            for gone in known_of.keys() - infos.keys():
                del known_of[gone]
        return number
