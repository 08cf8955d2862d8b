"""Can the devices of consumable capacity hold as many shares as are asked for?

Counted once, at the first failure of a search, over the whole question: which device gets which share is symmetric in
so many ways that a search for "one share too many" would try them all.

A necessary condition: what it refuses has no solution. It may let hopeless questions pass.
"""

from __future__ import annotations

from typing import NamedTuple

from allocator.requests.requests import RequestPlan
from allocator.search.problem import Problem
from allocator.values.masks import positions_of


class _Demand(NamedTuple):
    """A request that only shares can serve."""

    least: int
    devices: int
    needs: dict[int, dict[str, int]]
    """By position of the device, the least it takes of each capacity (10^-9), whichever alternative is chosen."""


def shares_suffice(problem: Problem) -> bool:
    """False when some capacity cannot hold the shares asked for, however they are placed."""
    demands = [demand for request in problem.plan.requests if (demand := _demand(problem, request)) is not None]
    names = {name for demand in demands for needs in demand.needs.values() for name in needs}
    return all(_has_room(problem, demands, name) for name in sorted(names))


def _demand(problem: Problem, request: RequestPlan) -> _Demand | None:
    devices = 0
    counts = []
    needs: dict[int, dict[str, int]] = {}
    for slot in request.slots:
        usable = problem.usable[slot.index]
        count = problem.count(slot)
        if slot.is_admin or count <= 0 or usable & ~problem.pools.shareable:
            return None
        if usable.bit_count() < count:
            continue
        counts.append(count)
        for position in positions_of(usable):
            amounts = {name: amount for name, amount, _ in problem.consumption(slot, position).nanos}
            known = needs.get(position)
            if known is not None:
                amounts = {name: min(amount, amounts[name]) for name, amount in known.items() if name in amounts}
            needs[position] = amounts
        devices |= usable
    return _Demand(min(counts), devices, needs) if counts else None


def _has_room(problem: Problem, demands: list[_Demand], name: str) -> bool:
    """Whether the large shares alone fit, for every notion of large."""
    least = [(min(needs.get(name, 0) for needs in demand.needs.values()), demand) for demand in demands if demand.needs]
    for size in sorted({need for need, _ in least if need > 0}):
        large = [demand for need, demand in least if need >= size]
        asked = sum(demand.least for demand in large)
        devices = 0
        for demand in large:
            devices |= demand.devices
        for position in positions_of(devices):
            asked -= max(0, _free(problem, position, name)) // size
            if asked <= 0:
                break
        if asked > 0:
            return False
    return True


def _free(problem: Problem, position: int, name: str) -> int:
    device = problem.pools.device(position)
    return device.capacity[name].value.nano - problem.consumed(position).get(name, 0)
