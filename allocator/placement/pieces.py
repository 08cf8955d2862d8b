"""What a node has left, piece by piece, as far as a workload can tell its pieces apart.

A piece is a physical device as far as it can be handed out in parts: a device without counters, or a counter set.

    piece                                        its state
    device that one allocation holds whole       left: 1,000,000, or 0 when it is in use
    device that several allocations may hold     left: 10^6 - 10^6 x the capacity used most, rounded down
    counter set                                  what is left of each of its counters

Rules of this module
  1. Pieces are of one kind when every request of the workload sees the same in them, so a node's state is a sorted
     tuple of (kind, state) and equal pieces are interchangeable.
  2. A device that is tainted for the whole workload, or `unread`, has nothing left.
  3. What is in use of a device that consumes counters shows in its counters alone.

Cost: making the pieces of a node O(devices x requests of the workload), once for a workload; a state O(pieces).

Source: none upstream; docs/adr/0031-placement.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Final, NamedTuple, TypeAlias

from allocator.pools.node_pools import NodePools
from allocator.pools.node_use import NodeUse
from allocator.pools.pools import PoolView
from allocator.requests.requests import Slot
from allocator.requests.slot_masks import SlotMask
from allocator.requests.slot_records import SlotKey

WHOLE: Final = 1_000_000
"""All of a piece."""
NO_CANDIDATE: Final = -1
_UNIT: Final = 10**9
PARTS_MAX: Final = 1_000_000
"""Of what one table remembers, of some 100 bytes each: a node of 128 devices takes more than one of 8."""
_OPTIONS_MAX: Final = 64
"""Requests, of a node: 100 bytes for each device and request. Without: a fifth of a decision (benchmarks.placement)."""
_PIECE_WORK: Final = 10
"""Comparing a device's piece with others by one request."""

State: TypeAlias = int | tuple[int, ...]
Piece: TypeAlias = tuple[int, State]
"""Kind and state."""
Pieces: TypeAlias = tuple[Piece, ...]
"""Of a node, sorted: the key under which everything is remembered."""


def is_full(remembered: Sized, parts: int) -> bool:
    """Whether so many entries are too much if each has so many parts; an entry alone is as much as 8."""
    return len(remembered) * (8 + parts) >= PARTS_MAX


class Seen(NamedTuple):
    """What the requests of a workload see in a piece.

    Attributes:
        left: 0..1,000,000.
        by_ask: For each request how many devices of the piece it could be given, and how much of the piece is in reach.
    """

    left: int
    by_ask: tuple[tuple[int, int], ...]


class DeviceKind(NamedTuple):
    """Needs of each request of the workload, of 1,000,000; NO_CANDIDATE where the device is none."""

    needs: tuple[int, ...]
    is_blocked: bool

    def see(self, state: State) -> Seen:
        assert isinstance(state, int)
        left = 0 if self.is_blocked else state
        return Seen(left, tuple((1, left) if NO_CANDIDATE < need <= left and left else (0, 0) for need in self.needs))


class CounterKind(NamedTuple):
    """A counter set: values of its counters, and for each request what its candidates would consume of them."""

    values: tuple[int, ...]
    options: tuple[tuple[tuple[int, ...], ...], ...]

    def see(self, state: State) -> Seen:
        assert isinstance(state, tuple)
        units = [index for index, value in enumerate(self.values) if value == _UNIT]
        has_units = len(units) > 1
        left = left_of_counters(self.values, state)
        by_ask = []
        for options in self.options:
            fits = [one for one in options if all(map(_at_most, one, state))]
            if has_units:
                reached = sum(1 for unit in units if any(one[unit] for one in fits))
                by_ask.append((len(fits), reached * WHOLE // len(units)))
            else:
                by_ask.append((len(fits), left if fits else 0))
        return Seen(left, tuple(by_ask))


def left_of_counters(values: Sequence[int], state: Sequence[int]) -> int:
    """By unit counters (value 1) where there are two or more, else by the scarcest counter."""
    units = [amount for value, amount in zip(values, state, strict=True) if value == _UNIT]
    if len(units) > 1:
        return sum(1 for amount in units if amount >= _UNIT) * WHOLE // len(units)
    return min(
        (max(0, amount) * WHOLE // value for value, amount in zip(values, state, strict=True) if value > 0), default=0
    )


def _at_most(amount: int, left: int) -> bool:
    return amount <= left


class Kinds:
    """The kinds of pieces there are for one workload, each under a number; what is seen in them is remembered."""

    def __init__(self, asks: Sequence[Slot]) -> None:
        """`asks`: the requests of the workload, each once."""
        self.asks: Final = tuple(asks)
        self._numbers: Final[dict[DeviceKind | CounterKind, int]] = {}
        self.kinds: Final[list[DeviceKind | CounterKind]] = []
        self.seen: Final[dict[Piece, Seen]] = {}

    def number(self, kind: DeviceKind | CounterKind) -> int:
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self.kinds)
            self.kinds.append(kind)
        return number

    def full(self, kind: int) -> State:
        """The state of a piece of which nothing is in use."""
        known = self.kinds[kind]
        return known.values if isinstance(known, CounterKind) else WHOLE

    def see(self, piece: Piece) -> Seen:
        seen = self.seen.get(piece)
        if seen is None:
            seen = self.kinds[piece[0]].see(piece[1])
            if is_full(self.seen, len(self.asks)):
                self.seen.clear()
            self.seen[piece] = seen
        return seen


class Options(NamedTuple):
    """The devices that a slot accepts on a node, whatever is in use.

    Attributes:
        devices: Position, piece, and what is taken of it.
        has_counters: Whether some consume counters.
    """

    devices: tuple[tuple[int, int, State], ...]
    has_counters: bool


class NodePieces:
    """The pieces of one node's devices.

    Attributes:
        kinds: By piece.
        of_position: Which pieces a device takes from: one, or each counter set it consumes.
        is_counted: By piece, whether it is a counter set.
        options: What slots accept here; `keep_options` bounds it.
        numbers: Names of options and kinds together, by slot; whoever gives them keeps them here.
    """

    def __init__(self, pools: NodePools, kinds: Kinds, before: NodePieces | None = None) -> None:
        """Raises PausedError: a selector of the workload is not answered yet, and not now.

        Args:
            before: Pieces of the same pools for another workload; what slots accept is taken over from them.
        """
        self.pools: Final = pools
        self._kinds: Final[list[int]] = []
        self.is_counted: Final[list[bool]] = []
        self.of_position: Final[list[tuple[int, ...]]] = []
        self._places: Final[list[tuple[int, int, tuple[int, ...]]]] = []
        self._state: tuple[tuple[int, int], tuple[State, ...]] | None = None
        self.options: Final[dict[SlotKey, Options | None]] = before.options if before is not None else {}
        self.numbers: Final[dict[SlotKey, int]] = {}
        for ask in kinds.asks:
            pools.candidates_for(ask)
            ask.matcher.meter.spent += _PIECE_WORK * pools.size
        refused = pools.elsewhere | pools.inoperable
        for number, (view, start) in enumerate(pools.usable):
            masks = [view.mask_for(ask) for ask in kinds.asks]
            sets = self._add_counter_sets(number, view, masks, kinds)
            for index, device in enumerate(view.devices):
                consumption = view.consumption.get(index)
                if consumption is not None:
                    self.of_position.append(tuple(sorted({sets[counter][0] for counter, _ in consumption})))
                    continue
                bit = 1 << index
                needs = tuple(
                    need_of(mask, index, is_shared=bool(pools.shareable >> (start + index) & 1))
                    if mask.usable & bit and not refused >> (start + index) & 1
                    else NO_CANDIDATE
                    for mask in masks
                )
                is_blocked = bool(device.taints or device.unread) and bool(needs) and max(needs) == NO_CANDIDATE
                self.of_position.append((len(self._kinds),))
                self._add(kinds.number(DeviceKind(needs, is_blocked)), number, index, ())

        self.kinds: Final = tuple(self._kinds)

    def _add(self, kind: int, number: int, index: int, counters: tuple[int, ...]) -> None:
        self._kinds.append(kind)
        self.is_counted.append(bool(counters))
        self._places.append((number, index, counters))

    def _add_counter_sets(
        self, number: int, view: PoolView, masks: Sequence[SlotMask], kinds: Kinds
    ) -> dict[int, tuple[int, int]]:
        """By counter: its piece, and its place in it."""
        members: dict[str, list[int]] = {}
        for counter, (name, _) in enumerate(view.counter_ids):
            members.setdefault(name, []).append(counter)
        places: dict[int, tuple[int, int]] = {}
        for counters in members.values():
            for place, counter in enumerate(counters):
                places[counter] = len(self._kinds), place
            options: list[tuple[tuple[int, ...], ...]] = []
            for mask in masks:
                found: dict[tuple[int, ...], None] = {}
                for index, consumption in view.consumption.items():
                    if mask.usable >> index & 1:
                        amounts = dict(consumption)
                        vector = tuple(amounts.get(counter, 0) for counter in counters)
                        if any(vector):
                            found[vector] = None
                options.append(tuple(sorted(found)))
            values = tuple(view.counters[counter] for counter in counters)
            self._add(kinds.number(CounterKind(values, tuple(options))), number, -1, tuple(counters))
        return places

    def counters(self, piece: int) -> tuple[int, ...]:
        """The counters of a counter set, by their place in the pool; of a device none."""
        return self._places[piece][2]

    def keep_options(self, key: SlotKey, options: Options | None) -> None:
        if len(self.options) >= _OPTIONS_MAX:
            self.options.clear()
            self.numbers.clear()
        self.options[key] = options

    def states(self, use: NodeUse) -> tuple[State, ...]:
        """By piece what is left; kept until the ledger says something else about the node."""
        known = self._state
        if known is not None and known[0] == use.state:
            return known[1]
        states: list[State] = []
        for number, index, counters in self._places:
            view, _ = self.pools.usable[number]
            held = use.used.get(number)
            if counters:
                left = view.counters_left(held.entry if held is not None else None)
                states.append(tuple([left[counter] for counter in counters]))
            elif held is None:
                states.append(WHOLE)
            elif held.dedicated >> index & 1:
                states.append(0)
            else:
                states.append(left_of_device(view, index, held.consumed.get(index)))
        found = tuple(states)
        self._state = (use.state, found)
        return found

    def key(self, states: Sequence[State]) -> Pieces:
        """The pieces in the order in which equal nodes have equal ones."""
        return tuple(sorted(zip(self.kinds, states, strict=True)))


def need_of(mask: SlotMask, index: int, *, is_shared: bool) -> int:
    """How much of a device a request takes that accepts it, of 1,000,000, rounded up."""
    if not is_shared:
        return WHOLE
    consumption = mask.consumption.get(index)
    if consumption is None:
        return 0
    return max((-(-amount * WHOLE // value) for _, amount, value in consumption.nanos if value > 0), default=0)


def left_of_device(view: PoolView, index: int, consumed: Mapping[str, int] | None) -> int:
    if not consumed:
        return WHOLE
    left = WHOLE
    for name, amount in consumed.items():
        capacity = view.devices[index].capacity.get(name)
        if capacity is not None and capacity.value.nano > 0:
            value = capacity.value.nano
            left = min(left, (value - amount) * WHOLE // value)
    return max(0, left)
