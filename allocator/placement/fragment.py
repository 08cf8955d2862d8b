"""F: what is free on a node and out of reach for the pods that come, in the mean over their shapes.

    F = sum over shapes of weight x (all that is left - what the shape can reach)

A shape reaches nothing where it does not fit, or asks for no devices. Of a piece it reaches what `pieces` says.

Rules of this module
  1. F is kept as a whole number: devices x 1,000,000 x the sum of weights, so equal states have equal F, exactly.
  2. Where several requests of a shape could be given a piece, the piece counts once, by the one that reaches most.
  3. A constraint of a claim is not looked at: what is in reach is an upper bound.

Cost: O(shapes) for each tuple of pieces, then a bisection for each amount of cpu.

Source: none upstream; Weng et al., USENIX ATC 2023, generalized; docs/adr/0031-placement.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from allocator.placement.pieces import Kinds, Pieces, is_full


class Demand(NamedTuple):
    """A shape as ranks read it: milli-cpu, and (request of the workload, number of devices) pairs; its weight."""

    cpu: int
    asks: tuple[tuple[int, int], ...]
    weight: int

    @property
    def devices(self) -> int:
        return sum(count for _, count in self.asks)


class _Table(NamedTuple):
    """What is left on all pieces, and by shape, those with less cpu included, what is in reach, weighted."""

    left: int
    reached: tuple[int, ...]


class Fragment:
    """F for one workload."""

    def __init__(self, demands: Sequence[Demand], kinds: Kinds) -> None:
        self._demands: Final = sorted(demands, key=lambda demand: demand.cpu)
        self._cpus: Final = [demand.cpu for demand in self._demands]
        self._kinds: Final = kinds
        self.tables: Final[dict[Pieces, _Table]] = {}
        self.total: Final = sum(demand.weight for demand in demands)
        """The sum of weights."""

    def of(self, cpu: int, pieces: Pieces) -> int:
        """F of a node with so much milli-cpu left."""
        table = self.tables.get(pieces)
        if table is None:
            table = self._table(pieces)
            if is_full(self.tables, len(pieces) + len(self._demands)):
                self.tables.clear()
            self.tables[pieces] = table
        return self.total * table.left - table.reached[bisect_right(self._cpus, cpu)]

    def _table(self, pieces: Pieces) -> _Table:
        seen = [self._kinds.see(piece) for piece in pieces]
        counts = [sum(column) for column in zip(*[[count for count, _ in one.by_ask] for one in seen], strict=True)]
        reaches = [sum(column) for column in zip(*[[reach for _, reach in one.by_ask] for one in seen], strict=True)]
        reached = [0]
        for demand in self._demands:
            gain = 0
            if demand.asks and counts and all(counts[ask] >= count for ask, count in demand.asks):
                if len(demand.asks) == 1:
                    gain = reaches[demand.asks[0][0]]
                else:
                    gain = sum(max(one.by_ask[ask][1] for ask, _ in demand.asks) for one in seen)
            reached.append(reached[-1] + demand.weight * gain)
        return _Table(sum(one.left for one in seen), tuple(reached))
