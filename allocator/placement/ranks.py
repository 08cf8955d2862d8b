"""The rank of a placement, which takes a node from one state to another: lower is better, compared as tuples.

    fragmentation   (what becomes unreachable, what will be wasted, whether the node was idle)
    fgd             (what becomes unreachable)
    leastWaste      (what will be wasted, whether the node was idle)
    bestFit         (how much cpu and devices are left)

What becomes unreachable is -floor(100 x sigma(F before - F after)): FGD's whole number, negated. For requests that
consume counters it is F after - F before + half of what is left of the sets taken from, in 10^-6 of a device, and
nothing is said of waste. What will be wasted is max(0, V after - V before) in steps of 1/25 of a device.

Rules of this module
  1. Equal states have equal ranks: what is remembered is by state, not by node, and bounded (`is_full`).
  2. Before there is a workload F and V are 0.

Source: none upstream; docs/adr/0031-placement.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import exp, floor
from typing import Any, Final, NamedTuple, TypeAlias

from allocator.answers.inventory import Inventory
from allocator.placement.fragment import Demand, Fragment
from allocator.placement.pieces import WHOLE, Kinds, Pieces, is_full
from allocator.placement.waste import ROUNDS, ROUNDS_OF_LEAST_WASTE, Waste
from allocator.placement.workload import Weighted, frequent
from allocator.requests.requests import Slot
from allocator.requests.slot_records import SlotKey
from allocator.values.features import Features
from allocator.values.model import AllocationError

STEP: Final = WHOLE // 25
"""What a difference of V must reach to count: below it is noise of the sampling."""
NODE_CPU: Final = 128_000
NODE_DEVICES: Final = 8
"""What bestFit compares with: a node of this size with nothing in use scores 0."""
SCORE_MAX: Final = 100
_FAR: Final = 50.0

Rank: TypeAlias = tuple[int, ...]


class Strategy(Enum):
    """The argument `placement`."""

    FIRST_FIT = "firstFit"
    BEST_FIT = "bestFit"
    FGD = "fgd"
    FRAGMENTATION = "fragmentation"
    LEAST_WASTE = "leastWaste"


class NodeState(NamedTuple):
    """Milli-cpu and pieces left."""

    cpu: int
    pieces: Pieces


class Ranks:
    """Ranks by one strategy, for one workload. Made anew when the workload is.

    Attributes:
        kinds: The kinds of pieces that the workload tells apart.
    """

    def __init__(
        self, strategy: Strategy, workload: Sequence[Weighted], inventory: Inventory, features: Features
    ) -> None:
        """Raises PausedError: a selector of the workload is not compiled yet, and not now."""
        self.strategy: Final = strategy
        asks: dict[SlotKey, tuple[int, Slot]] = {}
        looks_ahead = strategy in (Strategy.FGD, Strategy.FRAGMENTATION, Strategy.LEAST_WASTE)
        chosen = frequent(workload) if looks_ahead else ()
        demands = [_demand(one, asks, inventory, features) for one in chosen]
        self.kinds: Final = Kinds([slot for _, slot in asks.values()])
        self.fragment: Final = Fragment(demands, self.kinds)
        self.waste: Final = _waste(strategy, demands, self.kinds)
        self._wasted: dict[NodeState, int] = {}
        self.full: Final[list[dict[Any, Any]]] = []
        """What was remembered until it was too much. Whoever holds the ranks empties it in parts."""
        self.evaluations = 0
        """How often V was worked out: what ranks cost."""

    def rank(self, before: NodeState, after: NodeState, *, rest: Sequence[int] | None) -> Rank:
        """The rank.

        Args:
            rest: For requests that consume counters what is left, after, of each set that is taken from; else None.
        """
        strategy = self.strategy
        if strategy is Strategy.BEST_FIT:
            return (-self._closeness(after),)
        if strategy is Strategy.FIRST_FIT:
            return ()
        if rest is not None:
            lost = self.fragment.of(*after) - self.fragment.of(*before)
            unreachable = lost // max(1, self.fragment.total) + sum(rest) // 2
            return unreachable, 0, self.is_idle(before)
        if strategy is Strategy.LEAST_WASTE:
            return self._wasted_by(before, after), self.is_idle(before)
        unreachable = -self.gradient(before, after)
        if strategy is Strategy.FGD:
            return (unreachable,)
        return unreachable, self._wasted_by(before, after), self.is_idle(before)

    def gradient(self, before: NodeState, after: NodeState) -> int:
        """FGD's whole number, 0..100; 50 where F stays as it is."""
        gained = self.fragment.of(*before) - self.fragment.of(*after)
        devices = gained / (max(1, self.fragment.total) * WHOLE)
        return floor(SCORE_MAX / (1 + exp(-max(-_FAR, min(_FAR, devices)))))

    def remembered(self) -> list[dict[Any, Any]]:
        """All that is remembered, for whoever gives the ranks up and empties it in parts."""
        return [*self.full, self._wasted, self.fragment.tables, self.kinds.seen]

    def is_idle(self, state: NodeState) -> int:
        """1 when nothing of the node's devices is in use."""
        for kind, left in state.pieces:
            full = left == WHOLE if isinstance(left, int) else left == self.kinds.full(kind)
            if not full:
                return 0
        return 1

    def wasted(self, state: NodeState) -> int:
        """V."""
        if self.waste is None:
            return 0
        known = self._wasted.get(state)
        if known is None:
            known = self.waste.of(state.cpu, state.pieces)
            self.evaluations += 1
            if is_full(self._wasted, len(state.pieces)):
                self.full.append(self._wasted)
                self._wasted = {}
            self._wasted[state] = known
        return known

    def _wasted_by(self, before: NodeState, after: NodeState) -> int:
        return max(0, self.wasted(after) - self.wasted(before)) // STEP

    def _closeness(self, state: NodeState) -> int:
        """0..100; 100 where nothing is left."""
        left = sum([self.kinds.see(piece).left for piece in state.pieces])
        cpu_left = min(NODE_CPU, max(0, state.cpu))
        devices_left = min(NODE_DEVICES * WHOLE, left)
        # floor(100 x (1 - cpu / 2 - devices / 2)), in whole numbers
        share = cpu_left * NODE_DEVICES * WHOLE + devices_left * NODE_CPU
        return SCORE_MAX - -(-SCORE_MAX * share // (2 * NODE_CPU * NODE_DEVICES * WHOLE))


def is_absolute_rank(strategy: Strategy, *, is_counted: bool) -> bool:
    """Whether the first element says by itself, on a scale of 100, how good a placement is."""
    return strategy is Strategy.BEST_FIT or (strategy in (Strategy.FGD, Strategy.FRAGMENTATION) and not is_counted)


def _demand(one: Weighted, asks: dict[SlotKey, tuple[int, Slot]], inventory: Inventory, features: Features) -> Demand:
    """A shape's requests by number; of alternatives the first. One that cannot be planned asks for nothing."""
    wanted: dict[int, int] = {}
    try:
        plan = inventory.plan(one.shape.specs, features) if one.shape.specs else None
    except AllocationError:
        plan = None
    for request in plan.requests if plan is not None else ():
        slot = request.slots[0]
        if slot.is_admin:
            continue
        number, _ = asks.setdefault(slot.key, (len(asks), slot))
        wanted[number] = wanted.get(number, 0) + (1 if slot.is_all else slot.count)
    return Demand(one.shape.cpu, tuple(wanted.items()), one.weight)


def _waste(strategy: Strategy, demands: Sequence[Demand], kinds: Kinds) -> Waste | None:
    if strategy is Strategy.FRAGMENTATION:
        return Waste(demands, kinds, rounds=ROUNDS)
    if strategy is Strategy.LEAST_WASTE:
        with_devices = [demand for demand in demands if demand.asks]
        return Waste(with_devices, kinds, rounds=ROUNDS_OF_LEAST_WASTE)
    return None
