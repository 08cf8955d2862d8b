"""Which plugins take part in a cycle, and under which key their answers are remembered.

Not here: making a plan and calling its plugins (`runner`), remembering (`core.feasibility`).
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from typing import Final, TypeAlias

from msgspec import Struct

from scheduler.framework.api import (
    FactFilterPlugin,
    FactPlugin,
    FactScorePlugin,
    FilterPlugin,
    NormalizeScorePlugin,
    RankingPlugin,
    ScorePlugin,
)
from scheduler.framework.evaluations import Row
from scheduler.framework.status import Status
from scheduler.model.keys import NodeName

Facts: TypeAlias = tuple[Hashable, ...]
"""What the fact plugins of a plan read of a node, in their order."""


class PreFiltered(Struct, frozen=True):
    """The merged results of all plugins' PreFilter.

    Args:
        skipped: Names of plugins whose filter and score are not called in this cycle.
        node_names: The only nodes worth filtering, None for all.
        narrowing: Names of the plugins that named nodes.
        possible_nodes: No other node fits; None when that is not known.
    """

    status: Status
    skipped: frozenset[str] = frozenset()
    node_names: frozenset[NodeName] | None = None
    narrowing: tuple[str, ...] = ()
    possible_nodes: Set[NodeName] | None = None

    def allows(self, node: NodeName) -> bool:
        """Whether the node is worth filtering."""
        return self.node_names is None or node in self.node_names


class PodSignature:
    """Everything besides nodes on which the answers about a pod depend. Hashed once, because it is looked up often."""

    __slots__ = ("_hash", "_parts", "scheduler_name")

    def __init__(self, scheduler_name: str, *parts: Hashable) -> None:
        self.scheduler_name: Final = scheduler_name
        self._parts: Final = parts
        self._hash: Final = hash((scheduler_name, parts))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, PodSignature)
            and self._hash == other._hash
            and self.scheduler_name == other.scheduler_name
            and self._parts == other._parts
        )

    def __repr__(self) -> str:
        return f"Shape({self.scheduler_name}, {self._parts})"


class Plan(Struct, frozen=True, weakref=True):
    """Which plugins take part in one cycle.

    Args:
        signature: Key under which verdicts and scores are remembered; None: not at all.
        filters: Asked first; all that there are where no plugin filters by facts.
        fact_plugins: Whose facts are found out of a node that these let through.
        fact_filters, fact_scorers: Those of them that judge facts, each with its place in `fact_plugins`.
        late_filters: Asked after the facts have passed.
        late_parts: For each of `fact_filters` those of `late_filters` that stand between it and the next one. Where
            nothing is remembered they are asked in that order.
        scorers: Those that do not normalize, then those that do.
        plain_scorers: How many do not normalize.
        ranker: Says which of equally good nodes is best; then all that fit are compared.
    """

    signature: PodSignature | None
    filters: Row[FilterPlugin] = Row()
    fact_plugins: tuple[FactPlugin, ...] = ()
    fact_filters: tuple[tuple[int, FactFilterPlugin], ...] = ()
    fact_scorers: tuple[tuple[int, FactScorePlugin], ...] = ()
    late_filters: Row[FilterPlugin] = Row()
    late_parts: tuple[Row[FilterPlugin], ...] = ()
    scorers: Row[ScorePlugin] = Row()
    plain_scorers: int = 0
    ranker: RankingPlugin | None = None

    @property
    def normalizing(self) -> tuple[NormalizeScorePlugin, ...]:
        return self.scorers[self.plain_scorers :]  # type: ignore[return-value]
