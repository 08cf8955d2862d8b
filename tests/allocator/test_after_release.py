"""Whether releasing devices could help at all: a "no" is certain."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import Allocated, Allocation, AllocationError, DeviceResult, allocate, could_serve
from tests.allocator.build import case, claim, device, pool, request
from tests.allocator.cases import claims_of, in_use_of, inventory_of, question_of
from tests.allocator.small_world import WorldMaker, to_case


def one_of_each(asked: dict) -> list[Allocation]:
    """For each device in use the allocation that holds it."""
    return [
        Allocation((DeviceResult("r", one["driver"], one["pool"], one["device"]),), (), None)
        for one in asked.get("allocated", ())
    ]


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_a_no_is_certain(rnd: random.Random) -> None:
    asked = to_case(WorldMaker(rnd).make())
    claims, inventory, in_use = claims_of(asked), inventory_of(asked), in_use_of(asked)
    released = [one for one in one_of_each(asked) if rnd.random() < 0.5]
    question = question_of(asked, claims, inventory, in_use, budget_steps=10_000)
    could = could_serve(question, released)
    for one in released:
        in_use.remove(one)
    if not could:
        with suppress(AllocationError):  # an All request that a constraint refuses aborts the pod
            assert not isinstance(allocate(question), Allocated)


@pytest.mark.parametrize(
    ("held", "released", "counts", "could"),
    [
        pytest.param("ab", "", [1], True, id="one-is-free"),
        pytest.param("abc", "", [1], False, id="none-is-free"),
        pytest.param("abc", "a", [1], True, id="one-is-released"),
        pytest.param("abc", "a", [2], False, id="fewer-than-one-request-needs"),
        pytest.param("abc", "ab", [1, 2], False, id="fewer-than-all-requests-need"),
        pytest.param("abc", "abc", [1, 2], True, id="enough"),
    ],
)
def test_devices_are_counted(held: str, released: str, counts: list[int], could: bool) -> None:
    requests = [request(f"r{index}", count=count) for index, count in enumerate(counts)]
    asked = case([pool(device("a"), device("b"), device("c"))], [claim(*requests)])
    asked["allocated"] = [{"driver": "driver-a", "pool": "pool-1", "device": name} for name in held]
    question = question_of(asked, claims_of(asked), inventory_of(asked), in_use_of(asked), budget_steps=10_000)
    assert could_serve(question, [one for one in one_of_each(asked) if one.results[0].device in released]) is could
