"""How much work a question is. A slower search fails here, not at a user's."""

from __future__ import annotations

import pytest

from allocator import Shortcuts
from benchmarks.allocator import CASES, CLASS, prepare
from tests.allocator.build import answer, claim, device, pool, request

MOST_STEPS = {
    "one device of 8": 4,
    "4 of 8 on one NUMA node, one in use": 7,
    "7 of 8 partitions, one combination fits": 11,
    "4 + 3 of 8 partitions, one combination": 13,
    "16 of 15 devices, one request": 0,
    "8 requests, 7 devices": 15,
    "12 requests, 11 devices": 23,
    "8 of 33 devices, then none fits": 0,
    "32 of 128 devices": 4,
    "firstAvailable, the 8th fits": 12,
    "2,000 network-attached pools": 4,
    "capacity of 100 shared devices": 4,
    "9 shares of 30Gi on 4 x 80Gi": 17,
}


@pytest.mark.parametrize("name", CASES)
def test_the_benchmarks_cases_take_few_steps(name: str) -> None:
    ask = prepare(CASES[name]())
    outcome, steps = ask()

    impossible = ("16 of 15", "8 requests", "12 requests", "8 of 33", "9 shares")
    assert outcome == ("none" if name.startswith(impossible) else "allocated")
    assert steps <= MOST_STEPS[name]
    assert ask() == (outcome, steps)


def test_the_class_of_the_benchmark_selects_by_driver() -> None:
    assert "device.driver" in CLASS["spec"]["selectors"][0]["cel"]["expression"]


@pytest.mark.parametrize(("slices", "devices"), [(1, 4), (2, 2), (4, 1)])
def test_five_of_four_devices_take_sixteen_steps_without_shortcuts(slices: int, devices: int) -> None:
    """Upstream's combination tests: combinations, not permutations, over one or several pools."""
    published = [
        pool(*(device(f"d{number}-{index}") for index in range(devices)), name=f"pool-{number}")
        for number in range(slices)
    ]
    plain = answer(published, [claim(request(count=5))], shortcuts=Shortcuts.none())
    fast = answer(published, [claim(request(count=5))])

    assert (plain["outcome"], plain["steps"]) == ("none", 16)
    assert (fast["outcome"], fast["steps"]) == ("none", 0)


@pytest.mark.parametrize("amount", [10, 20, 32])
def test_identical_requests_that_cannot_all_be_served_take_linear_effort(amount: int) -> None:
    """Upstream needs factorial effort: 5 million steps in ten seconds for twelve."""
    published = [pool(*(device(f"d{index}", uuid=f"u{index}") for index in range(amount - 1)))]
    reply = answer(published, [claim(*(request(f"r{index}") for index in range(amount)))])

    assert reply["outcome"] == "none"
    assert reply["steps"] <= 2 * amount


def test_an_unsatisfiable_claim_after_a_large_one_is_seen_at_once() -> None:
    """8 of 33 devices have 14 million combinations; none of them matters for a second, unrelated request."""
    published = [
        pool(*(device(f"d{index}", uuid=f"u{index}") for index in range(33))),
        pool(device("x", color=1), device("y", color=2), name="pool-2", driver="driver-b"),
    ]
    second = claim(request(count=2, cls="class-b"), constraints=[{"matchAttribute": "driver-b/color"}], name="claim-1")
    reply = answer(published, [claim(request(count=8)), second])

    assert reply["outcome"] == "none"
    assert reply["steps"] < 40


def test_packing_shares_remembers_what_failed() -> None:
    """Shares of two sizes on six devices; upstream's search tries every order."""
    published = [pool(*(device(f"d{index}", memory="10Gi", allowMultipleAllocations=True) for index in range(6)))]
    sizes = ["6Gi"] * 6 + ["5Gi"]
    reply = answer(published, [claim(*(request(f"r{i}", memory=size) for i, size in enumerate(sizes)))])

    assert reply["outcome"] == "none"
    assert reply["steps"] < 500


@pytest.mark.parametrize(("devices", "shares"), [(4, 9), (12, 25), (15, 31)])
def test_one_share_too_many_is_counted_not_searched(devices: int, shares: int) -> None:
    """Two shares fit on each device; which of them hold one is symmetric in thousands of ways."""
    published = [
        pool(*(device(f"d{i}", uuid=f"u{i}", memory="80Gi", allowMultipleAllocations=True) for i in range(devices)))
    ]
    reply = answer(published, [claim(*(request(f"r{i}", memory="30Gi") for i in range(shares)))])

    assert reply["outcome"] == "none"
    assert reply["steps"] <= 2 * shares


@pytest.mark.parametrize("amount", [6, 20, 32])
@pytest.mark.parametrize("is_one_request", [True, False])
def test_more_distinct_values_than_there_are_take_linear_effort(amount: int, is_one_request: bool) -> None:
    """Four devices of each value, one value too few: there were as many states as sets of values."""
    published = [pool(*(device(f"d{i}-{j}", uuid=f"u{i}-{j}", color=i) for i in range(amount - 1) for j in range(4)))]
    requests = [request(count=amount)] if is_one_request else [request(f"r{i}") for i in range(amount)]
    reply = answer(published, [claim(*requests, constraints=[{"distinctAttribute": "driver-a/color"}])])

    assert reply["outcome"] == "none"
    assert reply["steps"] <= 2 * amount


def test_too_few_distinct_values_for_a_later_claim_are_seen_before_an_earlier_one_is_tried_in_every_way() -> None:
    published = [pool(*(device(f"d{i}", uuid=f"u{i}", color=i % 3) for i in range(24)))]
    later = claim(request(count=4), constraints=[{"distinctAttribute": "driver-a/color"}], name="claim-1")
    reply = answer(published, [claim(request(count=6)), later])

    assert reply["outcome"] == "none"
    assert reply["steps"] <= 20
