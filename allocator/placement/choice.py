"""Which devices of a node that fits: those with the best rank.

Rules of this module
  1. It begins with a solution, first fit's, and ends with one: whatever it finds was found by the same search, among
     fewer devices, or is for one request without constraints, where any devices that have room will do.
  2. One request without constraints: devices fall into classes of equal state, and each class is ranked. Several
     devices are taken one after another, each time of the class with the best rank. Everything else: the search among
     the best classes, one class more each time, at most `TRIES` times; first fit's devices when nothing is better.
  3. Devices of equal rank: the piece with the least left (not for fgd), then the order of slices.
  4. The alternative of a list is first fit's: the user's order decides it. So are devices of All requests and with
     admin access.
  5. Searches are bounded in steps, never by time.

Cost: O(pieces) where the state is known; O(classes) ranks where it is not.

Source: none upstream; docs/adr/0031-placement.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from allocator.answers.question import AllocationRequest
from allocator.answers.result import build_allocations
from allocator.placement.pieces import NodePieces, Options, State, is_full, need_of
from allocator.placement.ranks import NodeState, Rank, Ranks, Strategy
from allocator.pools.node_pools import NodePools
from allocator.pools.node_use import NodeUse
from allocator.requests.requests import Plan, Slot
from allocator.search.problem import Problem
from allocator.search.search import Search
from allocator.search.search_state import ExhaustedError
from allocator.values.features import ALL_SHORTCUTS
from allocator.values.masks import mask_of, positions_of
from allocator.values.meter import Meter
from allocator.values.model import Allocation, AllocationError

TRIES: Final = 8
_TRY_STEPS: Final = 256

PickList: TypeAlias = tuple[tuple[Slot, int], ...]


class Situation(NamedTuple):
    """A node as it is, and what the pod asks of it beside devices.

    Attributes:
        states: What is left of each piece of `node`.
        cpu: Milli-cpu left on the node; the pod asks for `asked`.
    """

    node: NodePieces
    states: Sequence[State]
    cpu: int
    asked: int

    def before(self) -> NodeState:
        return NodeState(self.cpu, self.node.key(self.states))

    def after(self, now: Sequence[State]) -> NodeState:
        return NodeState(self.cpu - self.asked, self.node.key(now))


class Placement(NamedTuple):
    """Devices, and their rank.

    Attributes:
        picks: In the order of results; None for first fit's.
        is_counted: Whether the rank is one for requests that consume counters.
    """

    rank: Rank
    picks: PickList | None
    is_counted: bool


class _Remembered(NamedTuple):
    """Indices of `Options.devices`, and their rank."""

    rank: Rank
    chosen: tuple[int, ...]
    is_counted: bool


NO_ROOM: Final = Placement((), (), is_counted=False)
"""Proven: too few devices have room for the request."""


class Chooser:
    """Chooses devices by `ranks`; remembers what it chose by the state of a node."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks: Final = ranks
        self._known: dict[object, _Remembered] = {}
        self._numbers: Final[dict[object, int]] = {}
        self._last_number = 0

    def remembered(self) -> list[dict[Any, Any]]:
        """As `Ranks.remembered`."""
        return [self._known, self._numbers, *self.ranks.remembered()]

    def rank_without_devices(self, at: Situation) -> Placement:
        """The rank of a pod that takes cpu alone."""
        pieces = at.node.key(at.states)
        rank = self.ranks.rank(NodeState(at.cpu, pieces), NodeState(at.cpu - at.asked, pieces), rest=None)
        return Placement(rank, None, is_counted=False)

    def rank_picks(self, first: PickList, at: Situation) -> Placement:
        """The rank of first fit's devices."""
        is_counted = any(at.node.pools.counting >> position & 1 for _, position in first)
        return Placement(self._rank_of(first, at, is_counted=is_counted), None, is_counted)

    def choose(self, problem: Callable[[], Problem], at: Situation, first: PickList) -> Placement:
        """The best devices that were found.

        Args:
            problem: Makes the question to search; only called where a search is needed.
            first: First fit's devices.
        """
        best = self.rank_picks(first, at)
        other = self._search(problem(), at, first, is_counted=best.is_counted) if first else None
        if other is not None:
            rank = self._rank_of(other, at, is_counted=best.is_counted)
            if rank < best.rank:
                return Placement(rank, other, best.is_counted)
        return best

    # --- one request without constraints ----------------------------------------------------------------

    def choose_simply(self, slot: Slot, at: Situation, use: NodeUse) -> Placement | None:
        """The best devices for a pod's only request (`only_slot`).

        Returns:
            NO_ROOM when it is proven that too few devices are free; None where that needs a closer look.
        """
        node, count = at.node, slot.count
        options = node.options[slot.key] if slot.key in node.options else options_of(slot, node)
        if options is None or (count > 1 and options.has_counters):
            return None
        pools = node.pools
        free = pools.candidates_for(slot).usable & ~use.dedicated
        if use.sharing and slot.features.consumable_capacity:
            free &= ~use.exhausted(slot, pools.usable)
        if free.bit_count() < count:
            return NO_ROOM
        number = node.numbers.get(slot.key)
        if number is None:
            number = self._number(slot, node, options)
        # What is free of devices without counters shows in the states of their pieces.
        key = (number, count, at.cpu, at.asked, at.states, free if options.has_counters else 0)
        known = self._known.get(key)
        if known is None:
            known = self._decide(count, at, options, free)
            if known is None:
                return NO_ROOM if options.has_counters else None
            if is_full(self._known, len(at.states)):
                self.ranks.full.append(self._known)
                self._known = {}
            self._known[key] = known
        picks = tuple([(slot, options.devices[one][0]) for one in known.chosen])
        return Placement(known.rank, picks, known.is_counted)

    def _number(self, slot: Slot, node: NodePieces, options: Options) -> int:
        """Equal where nodes are of the same pieces and the slot accepts the same of them; never used again."""
        key = (node.kinds, tuple(node.is_counted), options)
        known = self._numbers.get(key)
        if known is None:
            if is_full(self._numbers, len(options.devices)):
                self._numbers.clear()
            known = self._numbers[key] = self._last_number = self._last_number + 1
        node.numbers[slot.key] = known
        return known

    def _decide(self, count: int, at: Situation, options: Options, free: int) -> _Remembered | None:
        """The best devices, one after another; None where too few have room."""
        node, now = at.node, list(at.states)
        before = at.before()
        is_counted = False
        chosen: list[int] = []
        rank: Rank = ()
        for _ in range(count):
            best: tuple[Rank, int, int] | None = None  # the piece with the least left, then the order of slices
            seen: set[tuple[int, State, State]] = set()
            for number, (position, piece, take) in enumerate(options.devices):
                if not free >> position & 1:
                    continue
                state = now[piece]
                one = (node.kinds[piece], state, take)
                if one in seen or number in chosen or not _has_room(state, take):
                    continue
                seen.add(one)
                now[piece] = _after(state, take)
                is_counted = node.is_counted[piece]
                rest = [self.ranks.kinds.see((node.kinds[piece], now[piece])).left] if is_counted else None
                found = self.ranks.rank(before, at.after(now), rest=rest)
                now[piece] = state
                least = state if isinstance(state, int) and self.ranks.strategy is not Strategy.FGD else 0
                candidate = (found, least, number)
                if best is None or candidate < best:
                    best = candidate
            if best is None:
                return None
            rank, _, number = best
            _, piece, take = options.devices[number]
            now[piece] = _after(now[piece], take)
            chosen.append(number)
        return _Remembered(rank, tuple(sorted(chosen)), is_counted)

    # --- everything else ----------------------------------------------------------------------------------

    def _rank_of(self, picks: PickList, at: Situation, *, is_counted: bool) -> Rank:
        node, now = at.node, list(at.states)
        sets: dict[int, None] = {}
        for slot, position in picks:
            if not slot.is_admin:
                take_device(slot, position, node, now)
                sets.update(dict.fromkeys(one for one in node.of_position[position] if node.is_counted[one]))
        rest = [self.ranks.kinds.see((node.kinds[one], now[one])).left for one in sets] if is_counted else None
        return self.ranks.rank(at.before(), at.after(now), rest=rest)

    def _search(self, problem: Problem, at: Situation, first: PickList, *, is_counted: bool) -> PickList | None:
        """A solution among the best classes of each slot, as few of them as suffice."""
        if any(problem.doubtful):
            return None  # the search as it is finds out what cannot be decided
        alternatives = {slot.request: slot for slot, _ in first}
        ordered = {
            slot.index: self._classes(slot, problem.usable[slot.index], at, is_counted=is_counted)
            for slot in alternatives.values()
            if not (slot.is_all or slot.is_admin)
        }
        most = max((len(masks) for masks in ordered.values()), default=0)
        for width in range(1, min(TRIES, most - 1) + 1):
            masks = {index: _union(classes[:width]) for index, classes in ordered.items()}
            found = _search_among(problem, masks, alternatives)
            if found is not None:
                return found
        return None

    def _classes(self, slot: Slot, usable: int, at: Situation, *, is_counted: bool) -> list[int]:
        """Masks of devices that are equal now, best rank first."""
        node = at.node
        classes: dict[tuple[object, ...], list[int]] = {}
        for position in positions_of(usable):
            now = list(at.states)
            take_device(slot, position, node, now)
            key = tuple((node.kinds[one], at.states[one], now[one]) for one in node.of_position[position])
            classes.setdefault(key, []).append(position)
        ranked = sorted(
            (self._rank_of(((slot, group[0]),), at, is_counted=is_counted), group[0], mask_of(group))
            for group in classes.values()
        )
        return [mask for _, _, mask in ranked]


def _search_among(problem: Problem, masks: dict[int, int], alternatives: dict[int, Slot]) -> PickList | None:
    """The first solution where each slot has only these devices, and no other alternative has any."""
    chosen = {slot.index for slot in alternatives.values()}
    usable, reachable = list(problem.usable), list(problem.reachable)
    try:
        for slot in problem.plan.slots:
            allowed = masks.get(slot.index, -1) if slot.index in chosen else 0
            problem.usable[slot.index] &= allowed
            problem.reachable[slot.index] &= allowed
        search = Search(problem, budget_steps=_TRY_STEPS, shortcuts=ALL_SHORTCUTS, meter=Meter())
        try:
            return tuple(search.picks()) if search.run() else None
        except (ExhaustedError, AllocationError):
            return None
    finally:
        problem.usable[:], problem.reachable[:] = usable, reachable


def only_slot(plan: Plan) -> Slot | None:
    """The slot of a plan for nothing else but one request without constraints, for a number of devices."""
    if not plan.is_unconstrained or len(plan.requests) != 1 or len(plan.slots) != 1:
        return None
    (slot,) = plan.slots
    return None if slot.is_admin or slot.is_all or slot.count < 1 else slot


def _union(masks: Sequence[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def options_of(slot: Slot, node: NodePieces) -> Options | None:
    """None where a device takes of several counter sets or has compatibility groups, or some cannot be decided.

    Kept with the node's pieces.
    """
    if slot.key in node.options:
        return node.options[slot.key]
    found = _options_of(slot, node)
    node.keep_options(slot.key, found)
    return found


def _options_of(slot: Slot, node: NodePieces) -> Options | None:
    pools = node.pools
    candidates = pools.candidates_for(slot)
    if candidates.failed or candidates.unknown:
        return None
    devices: list[tuple[int, int, State]] = []
    has_counters = False
    for position in positions_of(candidates.usable):
        pieces = node.of_position[position]
        if len(pieces) != 1 or (pools.counting & pools.shareable) >> position & 1:
            return None
        _, view, index = pools.locate(position)
        if index in view.groups.of:
            return None
        (piece,) = pieces
        take = take_of(slot, position, piece, node)
        if node.is_counted[piece]:
            has_counters = True
        devices.append((position, piece, take))
    return Options(tuple(devices), has_counters)


def take_of(slot: Slot, position: int, piece: int, node: NodePieces) -> State:
    """What a device takes of one of its pieces."""
    _, view, index = node.pools.locate(position)
    counters = node.counters(piece)
    if counters:
        amounts = dict(view.consumption[index])
        return tuple(amounts.get(counter, 0) for counter in counters)
    return need_of(view.mask_for(slot), index, is_shared=bool(node.pools.shareable >> position & 1))


def take_device(slot: Slot, position: int, node: NodePieces, now: list[State]) -> None:
    """Take a device of the pieces there are `now`."""
    for piece in node.of_position[position]:
        now[piece] = _after(now[piece], take_of(slot, position, piece, node))


def _after(state: State, take: State) -> State:
    if isinstance(state, int):
        assert isinstance(take, int)
        return max(0, state - take)
    assert isinstance(take, tuple)
    return tuple([left - amount for left, amount in zip(state, take, strict=True)])


def _has_room(state: State, take: State) -> bool:
    if isinstance(state, int):
        return isinstance(take, int) and take <= state and state > 0
    return isinstance(take, tuple) and all(amount <= left for amount, left in zip(take, state, strict=True))


def picks_of(plan: Plan, pools: NodePools, allocations: Sequence[Allocation]) -> PickList | None:
    """Allocations, one for each claim of the plan, as picks; None where a device is not there any more."""
    picks: list[tuple[Slot, int]] = []
    for claim, allocation in zip(plan.claims, allocations, strict=True):
        by_label = {slot.label: slot for request in claim.requests for slot in request.slots}
        for result in allocation.results:
            number = pools.number_of(result.device_id.pool_id)
            if number is None:
                return None
            view, start = pools.usable[number]
            index = view.index_of(result.device)
            if index is None:
                return None
            picks.append((by_label[result.request], start + index))
    return tuple(picks)


def allocate_picks(question: AllocationRequest, picks: PickList) -> tuple[Allocation, ...]:
    """One allocation for each claim, of these devices.

    Raises:
        AllocationError: as `allocate`, of a node selector that cannot be built.
    """
    inventory, features = question.inventory, question.features
    plan = inventory.plan([claim.spec for claim in question.claims], features)
    problem = Problem(question.claims, plan, inventory.node_pools(question.node, features), question.in_use)
    return build_allocations(problem, picks, question.node.name, question.share_ids)
