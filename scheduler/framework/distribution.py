"""Values counted by bucket, as Prometheus' histograms have them.

Not here: what is counted (`core.tallies`, `timed_runner`), names and texts (`kube.metrics`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final


class Distribution:
    """Values counted by bucket.

    Attributes:
        bounds: Upper bounds of the buckets, each included; one more bucket has all that is larger.
        counts: By bucket, not cumulative.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Final = tuple(bounds)
        self.counts: Final = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        return sum(self.counts)


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` bounds, the first is `start`, each `factor` times the one before."""
    return tuple(start * factor**step for step in range(count))
