"""Requests that could each be served, and are in each other's way: for the same devices, or for a pool's counters.

Necessary conditions, as `search.bounds` has them: what is found here has no solution. Where nothing is found there may
be none all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from allocator.pools.compatibility import most_together
from allocator.pools.pools import CounterCosts, PoolView
from allocator.requests.requests import RequestPlan, Slot
from allocator.search.counters import CounterLedger
from allocator.search.matching import Demand, can_match
from allocator.search.problem import Problem
from allocator.search.share_bounds import shares_suffice
from allocator.values.masks import positions_of


class Competing(Struct, frozen=True):
    """Requests that need more devices than there are for any of them; without one of them the rest would do.

    Attributes:
        slots: The first slot of each request.
        needed: How many devices they need together.
        devices: Mask of those that would do for any of them.
    """

    slots: tuple[Slot, ...]
    needed: int
    devices: int


class CountersShort(Struct, frozen=True):
    """A counter that does not suffice for what the requests need together.

    Attributes:
        counter: Counter set and counter; `left` what is there without their picks, in units of 10^-9.
        needed, possible: Devices they need, and how many of them fit at most.
        more: Other counters that leave too little for all that take of them.
    """

    slots: tuple[Slot, ...]
    pool: PoolView
    counter: tuple[str, str]
    left: int
    needed: int
    possible: int
    more: int = 0


class GroupsApart(Struct, frozen=True):
    """A request whose devices have too few that are of one compatibility group.

    Attributes:
        needed, possible: Devices it needs, and how many of them fit together at most.
    """

    slot: Slot
    needed: int
    possible: int


class SharesShort(Struct, frozen=True):
    """Requests whose shares the devices that all of them take from cannot hold together."""

    slots: tuple[Slot, ...]


Conflict: TypeAlias = Competing | CountersShort | GroupsApart | SharesShort


def conflict(problem: Problem, room: Sequence[int]) -> Conflict | None:
    """What the requests are short of together, each having enough of `room` (by slot index) by itself."""
    found = _competing(problem, room) or _groups_apart(problem, room) or _counters_short(problem, room)
    if found is None and problem.pools.shareable | problem.sharing and not shares_suffice(problem):
        shared = [slot for slot in problem.plan.slots if problem.usable[slot.index] & problem.pools.shareable]
        return SharesShort(tuple(shared))
    return found


def _demand(problem: Problem, request: RequestPlan, room: Sequence[int]) -> Demand | None:
    """What the request needs of devices that nobody else can have then; None where it needs none."""
    mask, least, shareable = 0, 1 << 30, problem.pools.shareable
    for slot in request.slots:
        if slot.is_admin:
            return None
        mask |= room[slot.index]
        least = min(least, problem.count(slot) - (room[slot.index] & shareable).bit_count())
    return (mask & ~shareable, least) if least > 0 else None


def _competing(problem: Problem, room: Sequence[int]) -> Competing | None:
    units: list[tuple[RequestPlan, Demand]] = []
    for request in problem.plan.requests:
        demand = _demand(problem, request, room)
        if demand is None:
            continue
        units.append((request, demand))
        if can_match([one for _, one in units]):
            continue
        for unit in units[:-1]:
            fewer = [one for one in units if one is not unit]
            if not can_match([one for _, one in fewer]):
                units = fewer
        devices = 0
        for _, (mask, _) in units:
            devices |= mask
        slots = tuple([one.slots[0] for one, _ in units])
        return Competing(slots, sum(least for _, (_, least) in units), devices)
    return None


def _groups_apart(problem: Problem, room: Sequence[int]) -> GroupsApart | None:
    for request in problem.plan.requests:
        if (demand := _demand(problem, request, room)) is None:
            continue
        mask, needed = demand
        possible = 0
        for number in problem.pools.numbers_among(mask):
            local, groups = problem.pools.among(mask, number), problem.pools.usable[number][0].groups.of
            named = [groups[index] for index in positions_of(local) if index in groups]
            possible += local.bit_count() - len(named) + most_together(named)
        if possible < needed:
            return GroupsApart(request.slots[0], needed, possible)
    return None


def _counters_short(problem: Problem, room: Sequence[int]) -> CountersShort | None:
    """Of single requests first, then of all of them."""
    demands = [
        (request, demand)
        for request in problem.plan.requests
        if (demand := _demand(problem, request, room)) is not None
        and not any(room[slot.index] & problem.pools.shareable for slot in request.slots)
    ]
    for some in [*([one] for one in demands), demands]:
        mask = need = 0
        for _, (devices, least) in some:
            mask |= devices
            need += least
        slots = tuple([request.slots[0] for request, _ in some])
        if found := _short_for(problem, slots, mask, need):
            return found
    return None


def _short_for(problem: Problem, slots: tuple[Slot, ...], mask: int, need: int) -> CountersShort | None:
    """The counter that leaves out most of these devices, with what others leave out of the rest."""
    ledger, losses = CounterLedger(problem.pools, problem.in_use), list[tuple[int, int, CounterCosts, int]]()
    for number in problem.pools.numbers_among(mask & problem.pools.counting):
        local, view = problem.pools.among(mask, number), problem.pools.usable[number][0]
        for costs in view.counter_costs:
            left = (ledger.available(number) or view.counters)[costs.counter]
            losses.append((_unpaid(costs, left, local), number, costs, left))
    losses.sort(key=lambda one: (-one[0], one[1], one[2].counter))
    possible, more, seen = mask.bit_count(), -1, dict[int, int]()
    for _, number, costs, left in losses:
        lost = _unpaid(costs, left, problem.pools.among(mask, number) & ~seen.get(number, 0))
        seen[number] = seen.get(number, 0) | costs.consumers
        possible, more = possible - lost, more + bool(lost)
    if possible >= need:
        return None
    _, number, costs, left = losses[0]
    view = problem.pools.usable[number][0]
    return CountersShort(slots, view, view.counter_ids[costs.counter], left, need, possible, more)


def _unpaid(costs: CounterCosts, left: int, devices: int) -> int:
    """How many of the pool's devices a counter does not pay for, the cheapest paid first."""
    count = (devices & costs.consumers).bit_count()
    return count - costs.paid(left, devices, count)
