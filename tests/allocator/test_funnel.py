"""The funnel of a request: how many devices each stage takes, and what constraints and counters leave together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import Allocated, AllocationError, AllocationRequest, Explanation, Stage, allocate, explain
from allocator.answers.together import Competing, CountersShort, SharesShort
from allocator.search.picked import Picked
from allocator.values.masks import positions_of
from tests.allocator.build import asks as alternative
from tests.allocator.build import case, claim, device, first_of, pool, request
from tests.allocator.cases import claims_of, in_use_of, inventory_of, question_of
from tests.allocator.generator import Generator

TAINT = {"key": "k", "effect": "NoSchedule"}
NUMA = {"matchAttribute": "driver-a/numa"}
ROOT = {"matchAttribute": "driver-a/root"}


def asked_of(asked: dict[str, Any], budget_steps: int) -> AllocationRequest:
    return question_of(asked, claims_of(asked), inventory_of(asked), in_use_of(asked), budget_steps=budget_steps)


def explained(slices: list[dict[str, Any]], claims: list[dict[str, Any]], **more: Any) -> Explanation:
    return explain(asked_of(case(slices, claims, **more), 10_000))


def removed(explanation: Explanation, number: int = 0) -> dict[Stage, int]:
    return dict(explanation.requests[number].removed)


def test_each_stage_takes_what_it_refuses() -> None:
    devices = [
        device("used", model="x"),
        device("used-other", model="y"),
        device("other", model="y"),
        device("small", model="x", memory="1Gi"),
        device("tainted", model="x", memory="8Gi", taints=[TAINT]),
        device("good", model="x", memory="8Gi"),
        device("in-use", model="x", memory="8Gi"),
    ]
    wanted = claim(request(count=2, cel='device.attributes["driver-a"].model == "x"', memory="4Gi"))
    explanation = explained(
        [pool(*devices), pool(device("foreign"), name="b", driver="driver-b")],
        [wanted],
        held=["driver-a/pool-1/used", "driver-a/pool-1/used-other", "driver-a/pool-1/in-use"],
    )
    (row,) = explanation.requests

    assert row.removed == {
        Stage.CLASS_SELECTOR: 1,
        Stage.REQUEST_SELECTOR: 2,
        Stage.SIZE: 2,
        Stage.TAINT: 1,
        Stage.IN_USE: 1,
    }, "a device in use that the selectors would not take is not what is missing"
    assert (row.published, row.wanted, row.left, row.lacks) == (8, 2, 1, 1)
    assert row.end is not None
    assert row.end.stage is Stage.IN_USE
    assert [one.name for one in row.devices(row.end.removed)] == ["in-use"]
    assert str(explanation) == (
        "node node-1: claim default/claim-0, request req-0 wants 2 of 8 devices: 1 not of the device class, 2 not "
        "matched by the request's selectors, 2 without the requested capacity, 1 tainted and not tolerated, 1 in use; "
        "1 left"
    )
    steps = explanation.document()["requests"][0]["steps"]
    assert steps[0] == {"stage": "class-selector", "removed": 1, "left": 7}
    assert steps[-1] == {"stage": "constraint", "removed": 0, "left": 1}


def test_where_too_few_would_ever_do_the_lasting_stage_ends_the_funnel() -> None:
    devices = [device("a", model="x"), device("b", model="y")]
    wanted = claim(request(count=2, cel='device.attributes["driver-a"].model == "x"'))
    (row,) = explained([pool(*devices)], [wanted], held=["driver-a/pool-1/a"]).requests
    assert removed_stages(row) == [Stage.REQUEST_SELECTOR, Stage.IN_USE]
    assert row.end is not None
    assert row.end.stage is Stage.REQUEST_SELECTOR


def test_the_funnel_ends_where_too_few_are_left_and_says_what_else_must_be_lifted() -> None:
    devices = [device("tainted", taints=[TAINT]), *[device(name) for name in "abc"]]
    ends = {}
    for count in (2, 3, 4):
        (row,) = explained(
            [pool(*devices)], [claim(request(count=count))], held=["driver-a/pool-1/a", "driver-a/pool-1/b"]
        ).requests
        ends[count] = row.end.stage, [step.stage for step in row.besides]
    assert ends == {
        2: (Stage.IN_USE, []),
        3: (Stage.IN_USE, []),
        4: (Stage.TAINT, [Stage.IN_USE]),
    }


def removed_stages(row: Any) -> list[Stage]:
    return list(row.removed)


def test_a_partition_that_others_block_is_not_in_use() -> None:
    parts = [device(name, counters={"memory": 3}) for name in "ab"]
    slices = [pool(counters={"memory": 4}, size=2, slice_name="counters"), pool(*parts, size=2, slice_name="devices")]
    free = explained(slices, [claim(request())])
    blocked = explained(slices, [claim(request())], held=["driver-a/pool-1/a"])
    assert removed(free) == {}
    assert removed(blocked) == {Stage.IN_USE: 1, Stage.COUNTERS: 1}
    assert blocked.requests[0].end.stage is Stage.COUNTERS


def test_counters_that_do_not_suffice_together() -> None:
    parts = [device(name, counters={"memory": 3}) for name in "abc"]
    slices = [pool(counters={"memory": 7}, size=2, slice_name="counters"), pool(*parts, size=2, slice_name="devices")]
    short = explained(slices, [claim(request(count=3))]).together
    assert isinstance(short, CountersShort)
    assert (short.counter, short.needed, short.possible, short.left) == (("set", "memory"), 3, 2, 7 * 10**9)
    two = explained(slices, [claim(request("r0", count=2), request("r1"))]).together
    assert isinstance(two, CountersShort)
    assert [slot.label for slot in two.slots] == ["r0", "r1"]
    assert explained(slices, [claim(request(count=2))]).together is None


def test_counters_none_of_which_is_too_small_alone() -> None:
    """Two of three fit in `a`, and one of two in `b`: four do not fit, though each counter alone would let them."""
    takes = [("a", 2)] * 3 + [("b", 3)] * 2
    parts = [device(f"{name}-{place}", counters={name: amount}) for place, (name, amount) in enumerate(takes)]
    slices = [
        pool(counters={"a": 5, "b": 4}, size=2, slice_name="counters"),
        pool(*parts, size=2, slice_name="devices"),
    ]
    short = explained(slices, [claim(request(count=4))]).together
    assert isinstance(short, CountersShort)
    assert (short.counter, short.left, short.possible, short.more) == (("set", "a"), 5 * 10**9, 3, 1)
    all_ = explained(slices, [claim(request(count=5))]).together
    assert isinstance(all_, CountersShort)
    assert all_.possible == 3, "though one counter alone says 4"
    assert explained(slices, [claim(request(count=3))]).together is None


def test_requests_for_the_same_device() -> None:
    wanted = [claim(request("r0", cel="device.attributes['driver-a'].index == 0")), claim(request(), name="claim-1")]
    one, two = device("a", index=0), device("b", index=1)
    short = explained([pool(one)], wanted).together
    assert isinstance(short, Competing)
    assert ([slot.claim for slot in short.slots], short.needed, short.devices) == ([0, 1], 2, 1)
    assert explained([pool(one, two)], wanted).together is None
    third = claim(request("r2", cel="device.attributes['driver-a'].index == 1"), name="claim-2")
    short = explained([pool(one, two, device("other", driver="x"))], [*wanted[:1], third, third]).together
    assert isinstance(short, Competing)
    assert [slot.claim for slot in short.slots] == [1, 2], "who has a device of its own is not in the way"


def test_shares_that_do_not_fit_together() -> None:
    shared = device("a", memory="10Gi", allowMultipleAllocations=True)
    wanted = [claim(request("r0", memory="6Gi"), request("r1", memory="6Gi"))]
    assert isinstance(explained([pool(shared)], wanted).together, SharesShort)


def test_a_constraint_leaves_the_devices_that_could_satisfy_it() -> None:
    devices = [device(f"d{number}", numa=numa) for number, numa in enumerate((0, 0, 0, 1, 2))] + [device("none")]
    three, four = (explained([pool(*devices)], [claim(request(count=n), constraints=[NUMA])]) for n in (3, 4))
    assert removed(three) == {Stage.CONSTRAINT: 3}
    assert three.unmet == ()
    assert removed(four) == {Stage.CONSTRAINT: 6}
    (unmet,) = four.unmet
    (counted,) = unmet.counted
    assert unmet.needed == 4
    assert {value[1]: count for value, count in counted.counts.items()} == {0: 3, 1: 1, 2: 1}


def test_a_constraint_over_several_requests() -> None:
    gpus, nics = [device(f"g{n}", root=n) for n in range(3)], [device(f"n{n}", root=n + 2, nic=True) for n in range(3)]
    wanted = [
        request("gpu", cel="!('nic' in device.attributes['driver-a'])"),
        request("nic", cel="'nic' in device.attributes['driver-a']"),
    ]
    explanation = explained([pool(*gpus, *nics)], [claim(*wanted, constraints=[ROOT])])
    assert [row.left for row in explanation.requests] == [1, 1]
    none = explained([pool(*gpus[:2], *nics)], [claim(*wanted, constraints=[ROOT])])
    assert [row.left for row in none.requests] == [0, 0]
    assert len(none.unmet) == 1
    held = explained(
        [pool(*gpus[:2], *nics)], [claim(*wanted, constraints=[ROOT])], held=[f"driver-a/pool-1/n{n}" for n in range(3)]
    )
    assert [row.left for row in held.requests] == [2, 0]
    assert held.unmet == (), "a request that has too few by itself is not the constraint's fault"


def test_pairs_of_which_there_are_too_few() -> None:
    gpus = [device(f"g{n}", root=n) for n in range(4)]
    nics = [device(f"n{n}", root=n, nic=True) for n in (0, 2, 3, 7)]
    requests, constraints = [], []
    for n in range(4):
        requests.append(request(f"gpu-{n}", cel="!('nic' in device.attributes['driver-a'])"))
        requests.append(request(f"nic-{n}", cel="'nic' in device.attributes['driver-a']"))
        constraints.append({**ROOT, "requests": [f"gpu-{n}", f"nic-{n}"]})
    (unmet,) = explained([pool(*gpus, *nics)], [claim(*requests, constraints=constraints)]).unmet
    assert (unmet.asked, unmet.possible) == (4, 3)
    assert explained([pool(*gpus, *nics)], [claim(*requests[:6], constraints=constraints[:3])]).unmet == ()


def test_values_that_must_differ() -> None:
    devices = [device(f"d{n}", numa=n % 2) for n in range(6)]
    distinct = [{"distinctAttribute": "driver-a/numa"}]
    explanation = explained([pool(*devices)], [claim(request("r0", count=2), request("r1"), constraints=distinct)])
    assert [row.left for row in explanation.requests] == [0, 0]
    assert explanation.unmet[0].needed == 3
    assert explained([pool(*devices)], [claim(request(count=2), constraints=distinct)]).unmet == ()


def test_alternatives_have_a_funnel_each() -> None:
    wanted = claim(first_of("gpu", alternative(2), alternative(1, cel="false")), constraints=[NUMA])
    explanation = explained([pool(device("a", numa=0), device("b", numa=1))], [wanted])
    assert [[one.request for one in row] for row in explanation.by_request()] == [["gpu/sub-0", "gpu/sub-1"]]
    assert [removed(explanation, n) for n in (0, 1)] == [{Stage.CONSTRAINT: 2}, {Stage.REQUEST_SELECTOR: 2}]


def test_pools_that_are_left_out_are_named() -> None:
    slices = [pool(device("a"), size=2), pool(device("b"), device("b"), name="twice")]
    explanation = explained(slices, [claim(request())])

    assert explanation.pools_left_out == (
        "pool driver-a/pool-1 is incomplete",
        "pool driver-a/twice is invalid: duplicate device name b",
    )
    assert "left out: pool driver-a/pool-1 is incomplete" in str(explanation)


def sums_are_exact(explanation: Explanation) -> None:
    """Each device is taken once, and what is left before constraints is what a search could pick first."""
    problem = explanation.problem
    for row in explanation.requests:
        everything, taken = (1 << row.published) - 1, 0
        for step in row.steps:
            assert not step.removed & taken
            taken |= step.removed
            assert step.left == everything & ~taken
        pickable = 0
        for position in positions_of(problem.usable[row.slot.index]):
            picked = Picked(problem)
            picked.states[row.slot.claim][:] = []
            pickable |= (picked.charge(row.slot, position) is None) << position
        assert row.step(Stage.COUNTERS).left == pickable


def is_consistent_with(explanation: Explanation, question: AllocationRequest) -> bool:
    """Whether the allocator finds a solution; if so, no funnel has an end that it passes."""
    outcome = allocate(question)
    if not isinstance(outcome, Allocated):
        return False
    assert explanation.unmet == ()
    assert explanation.together is None
    rows = {(row.slot.claim, row.request): row for row in explanation.requests}
    for index, allocation in enumerate(outcome.allocations):
        for result in allocation.results:
            row = rows[index, result.request]
            assert not row.lacks
            assert result.device_id in [one.id for one in row.devices(row.steps[-1].left)]
    return True


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_funnels_never_disagree_with_the_search(seed: int) -> None:
    generator = Generator(seed)
    for _ in range(4):
        asked = generator.case()
        question = asked_of(asked, 5_000)
        try:
            explanation = explain(question)
            sums_are_exact(explanation)
            is_consistent_with(explanation, question)
        except AllocationError:
            continue


MAYBE = st.sampled_from([None, 0, 1, 2])


@settings(max_examples=150, deadline=None)
@given(
    devices=st.lists(st.tuples(MAYBE, st.booleans(), st.booleans(), st.integers(0, 3)), max_size=6),
    counters=st.integers(0, 6),
    count=st.integers(1, 3),
    constraint=st.sampled_from(["", "matchAttribute", "distinctAttribute"]),
)
def test_one_request_fits_iff_its_funnel_and_its_pools_have_room(devices, counters, count, constraint) -> None:
    published, held = [], []
    for number, (numa, is_tainted, is_held, costs) in enumerate(devices):
        more = {"taints": [TAINT]} if is_tainted else {}
        more |= {"counters": {"memory": costs}} if costs else {}
        published.append(device(f"d{number}", **({} if numa is None else {"numa": numa}), **more))
        held += [f"driver-a/pool-1/d{number}"] if is_held else []
    slices = [
        pool(counters={"memory": counters}, size=2, slice_name="counters"),
        pool(*published, size=2, slice_name="devices"),
    ]
    wanted = claim(request(count=count), constraints=[{constraint: "driver-a/numa"}] if constraint else [])
    question = asked_of(case(slices, [wanted], held=held), 10_000)
    explanation = explain(question)
    sums_are_exact(explanation)
    (row,) = explanation.requests
    fits = is_consistent_with(explanation, question)
    if count == 1 or not (constraint and any(costs for *_, costs in devices)):
        assert fits == (not row.lacks and explanation.together is None)
    assert fits or row.lacks or explanation.together is not None or constraint


@pytest.mark.slow
def test_a_large_node_is_counted_in_bounded_steps() -> None:
    devices = [device(f"d{number}", numa=number) for number in range(10_000)]
    alternatives = [alternative(2, cel=f"device.attributes['driver-a'].numa >= {-number}") for number in range(8)]
    lists = [first_of(f"r{number}", *alternatives) for number in range(4)]
    question = asked_of(case([pool(*devices)], [claim(*lists, constraints=[NUMA])]), 1_000)
    explain(question)
    spent = question.inventory.meter.spent
    explanation = explain(question)
    assert {row.left for row in explanation.requests} == {0}
    assert question.inventory.meter.spent - spent < 40_000
