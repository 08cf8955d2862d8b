"""V: what will stay free on a node although pods keep coming.

V is the mean, over some sequences of shapes, of what is left after the node was filled with the sequence: shapes are
offered one after another, one that fits is placed on the pieces with the least left that suffice, one that does not is
skipped. It ends with the sequence, or where nothing that is still to come could fit.

Rules of this module
  1. Sequences are drawn without randomness: sequence r steps through the shapes' cumulated weights by the fractional
     part of the square root of the r-th prime.
  2. Counter sets are left out, and shapes that could only be given their devices (docs/adr/0031-placement.md).

Cost: O(sequences x offers until the node is full).

Source: none upstream; docs/adr/0031-placement.md.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import accumulate
from math import sqrt
from typing import Final, NamedTuple

from allocator.placement.fragment import Demand
from allocator.placement.pieces import NO_CANDIDATE, DeviceKind, Kinds, Pieces

ROUNDS: Final = 32
ROUNDS_OF_LEAST_WASTE: Final = 16
LENGTH: Final = 100
_RESOLVED_MAX: Final = 128
"""Each of 3,200 offers: a megabyte or two, and 10 ms."""
_PRIMES: Final = (
    *(2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53),
    *(59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131),
)
_NEVER: Final = 1 << 62


class _Offer(NamedTuple):
    """One shape of a sequence, on a node whose pieces are of one kind (need of the only request) or of several.

    Attributes:
        needs: By request, the need of a device by kind, and how many; empty for pods without devices.
        least_cpu, least_need: The least that this and the later offers with devices ask for.
    """

    cpu: int
    need: int
    devices: int
    needs: tuple[tuple[dict[int, int], int], ...]
    least_cpu: int
    least_need: int


class _Sequence(NamedTuple):
    """Offers, and whether some of them have several requests."""

    offers: tuple[_Offer, ...]
    has_several: bool


class Waste:
    """V for one workload."""

    def __init__(self, demands: Sequence[Demand], kinds: Kinds, *, rounds: int = ROUNDS, length: int = LENGTH) -> None:
        self._kinds: Final = kinds
        self.rounds: Final = rounds
        self._drawn: Final = [[demands[index] for index in one] for one in draw(demands, rounds, length)]
        self._resolved: Final[dict[tuple[int, ...], tuple[_Sequence, ...]]] = {}

    def of(self, cpu: int, pieces: Pieces) -> int:
        """V of a node with so much milli-cpu left, in 10^-6 of a device."""
        found: list[tuple[int, int]] = []
        for kind, left in pieces:
            known = self._kinds.kinds[kind]
            if isinstance(known, DeviceKind) and not known.is_blocked and left:
                assert isinstance(left, int)
                found.append((left, kind))
        if not found:
            return 0
        found.sort()
        kinds = tuple(sorted({kind for _, kind in found}))
        sequences = self._resolved.get(kinds)
        if sequences is None:
            if len(self._resolved) >= _RESOLVED_MAX:
                self._resolved.clear()
            sequences = self._resolved[kinds] = tuple(self._resolve(drawn, kinds) for drawn in self._drawn)
        if not sequences:
            return sum(left for left, _ in found)
        if len(kinds) == 1 and not any(sequence.has_several for sequence in sequences):
            lefts = [left for left, _ in found]
            return sum([_fill_alike(sequence.offers, cpu, lefts[:]) for sequence in sequences]) // len(sequences)
        return sum([_fill(sequence.offers, cpu, found[:]) for sequence in sequences]) // len(sequences)

    def _resolve(self, drawn: Sequence[Demand], kinds: tuple[int, ...]) -> _Sequence:
        """The offers of a sequence that these kinds could serve at all."""
        offers: list[_Offer] = []
        least_cpu = least_need = _NEVER
        has_several = False
        for demand in reversed(drawn):
            needs = []
            for ask, count in demand.asks:
                by_kind = {}
                for kind in kinds:
                    known = self._kinds.kinds[kind]
                    assert isinstance(known, DeviceKind)
                    if known.needs[ask] > NO_CANDIDATE:
                        by_kind[kind] = known.needs[ask]
                needs.append((by_kind, count))
            if any(not by_kind for by_kind, _ in needs):
                continue
            has_several = has_several or len(needs) > 1
            need = 0
            if needs:
                need = max(min(by_kind.values()) for by_kind, _ in needs)
                least_cpu, least_need = min(least_cpu, demand.cpu), min(least_need, need)
            offers.append(_Offer(demand.cpu, need, demand.devices, tuple(needs), least_cpu, least_need))
        return _Sequence(tuple(reversed(offers)), has_several)


def draw(demands: Sequence[Demand], rounds: int, length: int) -> list[list[int]]:
    """Sequences of indices of shapes; a shape comes as often as its weight and its devices say."""
    bounds = list(accumulate(demand.weight * max(1, demand.devices) for demand in demands))
    if not bounds or not bounds[-1]:
        return []
    last = len(bounds) - 1
    drawn = []
    for number in range(rounds):
        place, step = (2 * number + 1) / (2 * rounds), sqrt(_PRIMES[number % len(_PRIMES)]) % 1
        sequence = []
        for _ in range(length):
            sequence.append(min(last, bisect_right(bounds, int(place * bounds[-1]))))
            place = (place + step) % 1
        drawn.append(sequence)
    return drawn


def _fill_alike(offers: Sequence[_Offer], cpu: int, lefts: list[int]) -> int:
    """What is left of pieces of one kind, given in ascending order."""
    most = lefts[-1]
    for asked, need, count, needs, least_cpu, least_need in offers:
        if least_cpu > cpu or least_need > most:
            break
        if asked > cpu:
            continue
        if not needs:
            cpu -= asked
            continue
        first = bisect_left(lefts, need)
        if len(lefts) - first < count:
            continue
        cpu -= asked
        taken = lefts[first : first + count]
        del lefts[first : first + count]
        for left in taken:
            if left > need:
                insort(lefts, left - need)
        if not lefts:
            return 0
        most = lefts[-1]
    return sum(lefts)


def _fill(offers: Sequence[_Offer], cpu: int, pieces: list[tuple[int, int]]) -> int:
    """What is left of pieces (left, kind), given in ascending order."""
    for offer in offers:
        if offer.least_cpu > cpu or not pieces or offer.least_need > pieces[-1][0]:
            break
        if offer.cpu > cpu:
            continue
        chosen: list[tuple[int, int]] = []
        for by_kind, devices in offer.needs:
            count = devices
            for index, (left, kind) in enumerate(pieces):
                if not count:
                    break
                need = by_kind.get(kind)
                if need is not None and need <= left and all(index != other for other, _ in chosen):
                    chosen.append((index, need))
                    count -= 1
            if count:
                break
        else:
            cpu -= offer.cpu
            rest = [(pieces[index][0] - need, pieces[index][1]) for index, need in chosen]
            for index in sorted((index for index, _ in chosen), reverse=True):
                del pieces[index]
            for one in rest:
                if one[0]:
                    insort(pieces, one)
    return sum(left for left, _ in pieces)
