"""Which shapes of pods come, and how often: learnt from the pods as they are first seen.

Rules of this module
  1. A pod counts once. Old pods count less: after `HALF_LIFE` pods all weights are halved.
  2. What ranks read is a copy, renewed at few moments, because everything that is remembered for it goes with it.
  3. Everything is whole numbers and follows from the order of pods alone.

Cost: O(1) a pod; O(shapes) for each `CHECK_EVERY` pods. At most `SHAPES_MAX` shapes.

Source: none upstream; docs/adr/0031-placement.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from allocator.values.model import ClaimSpec

UNIT: Final = 1 << 16
"""The weight of a pod."""
LEAST: Final = UNIT // 16
HALF_LIFE: Final = 4_000
SHAPES_MAX: Final = 1_024
RENEWED_AFTER: Final = (50, 200, 800, 3_200)
RENEWED_EVERY: Final = 3_200
CHECK_EVERY: Final = 200
FREQUENT_MAX: Final = 128
FREQUENT_PERCENT: Final = 95


class PodShape(NamedTuple):
    """What of a pod decides where it fits and what it takes: milli-cpu, and the specs of the claims to allocate."""

    cpu: int
    specs: tuple[ClaimSpec, ...]


class Weighted(NamedTuple):
    shape: PodShape
    weight: int


class Workload:
    """Weights of shapes, and the copy in use.

    Attributes:
        generation: Grows by one when the copy is renewed.
        in_use: The copy, heaviest first; of equal weight, the one seen first. Empty before the first 50 pods.
    """

    def __init__(self, known: Mapping[PodShape, int] | None = None) -> None:
        """`known`: how many pods there are of each shape; then nothing is learnt."""
        self._weights: Final[dict[PodShape, int]] = {}
        self._count = 0
        self._learns: Final = known is None
        self.generation = 0
        self.in_use: tuple[Weighted, ...] = _heaviest_first(known or {})

    def observe(self, shape: PodShape) -> None:
        """Count a pod."""
        if not self._learns:
            return
        self._weights[shape] = self._weights.get(shape, 0) + UNIT
        self._count += 1
        if self._count % HALF_LIFE == 0:
            self._halve()
        if len(self._weights) > SHAPES_MAX:
            lightest = min((one for one in self._weights if one != shape), key=self._weights.__getitem__)
            del self._weights[lightest]
        count = self._count
        is_due = count in RENEWED_AFTER or count % RENEWED_EVERY == 0
        if is_due or (count > RENEWED_AFTER[0] and count % CHECK_EVERY == 0 and self._is_far()):
            self._renew()

    def _halve(self) -> None:
        halved = {shape: weight // 2 for shape, weight in self._weights.items() if weight // 2 >= LEAST}
        self._weights.clear()
        self._weights.update(halved)

    def _renew(self) -> None:
        self.generation += 1
        self.in_use = _heaviest_first(self._weights)

    def _is_far(self) -> bool:
        """Whether the weights, each scaled to a sum of 1, differ by more than 0.2 in all from those in use."""
        known = dict(self.in_use)
        old, new = sum(known.values()), sum(self._weights.values())
        apart = sum(
            abs(self._weights.get(shape, 0) * old - known.get(shape, 0) * new) for shape in {**known, **self._weights}
        )
        return 5 * apart > old * new


def _heaviest_first(weights: Mapping[PodShape, int]) -> tuple[Weighted, ...]:
    return tuple(Weighted(*one) for one in sorted(weights.items(), key=lambda one: -one[1]))


def frequent(workload: Iterable[Weighted]) -> tuple[Weighted, ...]:
    """The heaviest shapes that make up 95 % of the weight, at most 128."""
    ordered = tuple(workload)
    total = sum(one.weight for one in ordered)
    chosen: list[Weighted] = []
    covered = 0
    for one in ordered:
        if covered * 100 >= total * FREQUENT_PERCENT or len(chosen) == FREQUENT_MAX:
            break
        chosen.append(one)
        covered += one.weight
    return tuple(chosen)
