"""Inventories of thousands of pools: what masks and kept counts say is what looking at each device says."""

from __future__ import annotations

import random
from typing import Any

import pytest

from allocator import (
    AllocationError,
    Claim,
    DeviceId,
    Features,
    InUse,
    Inventory,
    NodeView,
    decode_claim_spec,
    decode_class,
    decode_slice,
)
from allocator.pools.attribute_index import AttributeIndex
from allocator.pools.node_pools import NodePools
from allocator.search.bounds import Bounds
from allocator.search.problem import Problem
from allocator.search.search import Search
from allocator.values.features import ALL_SHORTCUTS
from allocator.values.pool_attribute import published
from cel.quantity import Quantity
from tests.allocator.build import claim, device, device_class, pool, request
from tests.allocator.cases import claims_of, in_use_of, inventory_of, node_of
from tests.allocator.generator import Generator

NODE = NodeView("n", {})


def partitionable(pool_number: int) -> list[dict[str, Any]]:
    """Two halves, of four counters each two, and four quarters; the first half is a `whole` of its own kind."""
    name = f"pool-{pool_number:04}"
    parts = [
        device(f"part-{number}", counters={f"c{one}": 1 for one in taken}, whole=number == 0, slice=pool_number)
        for number, taken in enumerate(((0, 1), (2, 3), (0,), (1,), (2,), (3,)))
    ]
    counters = {f"c{counter}": 1 for counter in range(4)}
    return [
        pool(name=name, slice_name=f"{name}-counters", size=2, counters=counters, allNodes=True),
        pool(*parts, name=name, slice_name=f"{name}-devices", size=2, allNodes=True),
    ]


def search_of(problem: Problem) -> Search:
    return Search(problem, budget_steps=20_000, shortcuts=ALL_SHORTCUTS)


# --- twins -----------------------------------------------------------------------------------------------------------


def signature(problem: Problem, search: Search, position: int) -> tuple[object, ...]:
    """Everything about a device that this question could notice."""
    number, view, index = problem.pools.locate(position)
    bit = 1 << position
    slots = problem.plan.slots
    is_shareable = bool(problem.pools.shareable & bit)
    states = [state for of_claim in search.picked.states for state in of_claim]
    shares = (
        is_shareable,
        bool(problem.sharing & bit),
        sorted(problem.consumed(position).items()),
        [problem.consumption(slot, position).nanos for slot in slots],
    )
    return (
        [bool(problem.reachable[slot.index] & bit) for slot in slots],
        [bool(problem.doubtful[slot.index] & bit) for slot in slots],
        [position in problem.listed.get(slot.index, ()) for slot in slots],
        [(state.index.values_of(position), bool(state.index.present & bit)) for state in states],
        (number, view.consumption[index]) if problem.pools.counting & bit else None,
        shares if is_shareable or problem.sharing & bit else None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("lists", [False, True])
def test_twins_are_the_devices_that_nothing_tells_apart(lists: bool) -> None:
    generator = Generator(77)
    features = Features(list_type_attributes=lists)
    seen = {"alone": 0, "in company": 0, "counting": 0, "shareable": 0}
    for _ in range(400):
        question = generator.case()
        inventory, claims = inventory_of(question), claims_of(question)
        try:
            problem = Problem(
                claims,
                inventory.plan([one.spec for one in claims], features),
                inventory.node_pools(node_of(question), features),
                in_use_of(question),
            )
        except AllocationError:
            continue
        search = search_of(problem)
        bounds = Bounds(problem, search.picked)
        candidates = [position for position in range(problem.pools.size) if bounds._candidates_from[0] >> position & 1]
        signatures = {position: signature(problem, search, position) for position in candidates}
        for position in candidates:
            twins = {other for other in candidates if signatures[other] == signatures[position]}
            assert bounds.twins(position) == sum(1 << other for other in twins), question["name"]
            seen["alone" if len(twins) == 1 else "in company"] += 1
            seen["counting"] += problem.pools.counting >> position & 1
            seen["shareable"] += problem.pools.shareable >> position & 1
    assert min(seen.values()) > 20, seen


# --- groups of a value -----------------------------------------------------------------------------------------------


def racks() -> NodePools:
    """40 pools with an attribute of all kinds: none, alone, shared, lists with common elements, of unknown kind."""
    rnd = random.Random(5)
    slices = [
        decode_slice(
            pool(
                *(
                    device(f"d{n}", **({"rack": rnd.choice((1, 2, number, [number, number % 7], {}))} if n else {}))
                    for n in range(3)
                ),
                name=f"pool-{number:02}",
                allNodes=True,
            )
        )
        for number in range(40)
    ]
    return Inventory(slices).node_pools(NODE, Features())


def racks_of(pools: NodePools, lists: bool) -> AttributeIndex:
    name = "driver-a/rack"
    features = Features(list_type_attributes=lists)
    parts = [(published(view.devices, name, features), start) for view, start in pools.usable]
    return AttributeIndex(parts, features)


@pytest.mark.parametrize("lists", [False, True])
def test_devices_are_alike_that_have_the_same_values(lists: bool) -> None:
    pools = racks()
    index = racks_of(pools, lists)
    values = [(index.values_of(position), index.present >> position & 1) for position in range(pools.size)]
    assert len(set(values)) > 8
    for position in range(pools.size):
        same = sum(1 << other for other in range(pools.size) if values[other] == values[position])
        assert index.alike(position) & ((1 << pools.size) - 1) == same


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("need", [2, 3])
def test_groups_counted_from_the_last_question_are_those_counted_afresh(lists: bool, need: int) -> None:
    rnd, pools = random.Random(6), racks()
    kept = racks_of(pools, lists)
    candidates = 0
    answers = set()
    for _ in range(400):
        for _ in range(rnd.choice((1, 1, 2, 5, 60))):
            candidates ^= 1 << rnd.randrange(pools.size)
        got = kept.in_large_groups(candidates, need)
        assert got == racks_of(pools, lists).in_large_groups(candidates, need)
        answers.add(got)
    assert len(answers) > 100


# --- counters --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_search_over_2000_pools_looks_at_the_pools_it_picks_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts of one pool whose first candidates fail: neither twins nor counters of other pools are looked at."""
    inventory = Inventory(decode_slice(one) for number in range(2000) for one in partitionable(number))
    inventory.put_class(decode_class(device_class()))
    held = InUse()
    for number in range(2000):
        held.add_device(DeviceId("driver-a", f"pool-{number:04}", "part-0"))
    spec = decode_claim_spec(
        claim(
            request(count=2, cel="!device.attributes['driver-a'].whole"),
            constraints=[{"matchAttribute": "driver-a/slice"}],
        )["spec"]
    )
    problem = Problem(
        [Claim("ns", "c", spec)], inventory.plan([spec], Features()), inventory.node_pools(NODE, Features()), held
    )
    looked_at: set[int] = set()
    locate = type(problem.pools).locate

    def spy(pools: Any, position: int) -> Any:
        looked_at.add(position // 6)
        return locate(pools, position)

    monkeypatch.setattr(type(problem.pools), "locate", spy)
    search = search_of(problem)
    assert search.run()
    assert [position for _, position in search.picks()] == [4, 5]
    assert looked_at == {0}


# --- consumed capacity -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_devices_that_are_too_full_are_those_that_looking_at_all_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares come and go in many pools; what is kept of them for each amount asked for is what a new inventory says."""
    from allocator.pools import node_use as module

    monkeypatch.setattr(module, "_CHANGES_MAX", 50)
    rnd = random.Random(3)
    slices = [
        decode_slice(
            pool(
                device("full", memory="4", allowMultipleAllocations=True),
                device("own", memory="4"),
                name=f"pool-{number:02}",
                allNodes=True,
            )
        )
        for number in range(30)
    ]
    specs = [decode_claim_spec(claim(request(memory=amount))["spec"]) for amount in ("1", "3")]
    kept = Inventory(slices, [decode_class(device_class())])
    in_use, held, seen = InUse(), [], set()

    def usable(inventory: Inventory, which: int) -> int:
        plan = inventory.plan([specs[which]], Features())
        return Problem([Claim("ns", "c", specs[which])], plan, inventory.node_pools(NODE, Features()), in_use).usable[0]

    for _ in range(400):
        for _ in range(rnd.choice((1, 1, 2, 80))):
            if held and rnd.random() < 0.5:
                in_use.remove_share(*held.pop(rnd.randrange(len(held))))
            else:
                amount = (("memory", Quantity.parse(rnd.choice(("1", "2")))),)
                id_ = DeviceId("driver-a", f"pool-{rnd.randrange(30):02}", "full")
                held.append((id_, f"share-{rnd.random()}", amount))
                in_use.add_share(*held[-1])
        which = rnd.randrange(2)
        found = usable(kept, which)
        assert found == usable(Inventory(slices, [decode_class(device_class())]), which)
        seen.add(found)
    assert len(seen) > 50
