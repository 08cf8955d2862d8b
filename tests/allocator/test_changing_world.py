"""An inventory and a ledger that have seen a lot answer like new ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocator import (
    Allocated,
    Allocation,
    AllocationError,
    InUse,
    Inventory,
    Question,
    allocate,
    decode_class,
    decode_slice,
)
from tests.allocator.cases import claims_of, features_of, in_use_of, inventory_of, node_of, share_ids
from tests.allocator.generator import Generator

CI = settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


def answer(case: dict[str, Any], inventory: Inventory, in_use: InUse, budget_steps: int) -> object:
    try:
        return allocate(
            Question(claims_of(case), node_of(case), inventory, in_use, features_of(case), budget_steps, share_ids())
        )
    except AllocationError as error:
        return str(error)


def new_ledger(case: dict[str, Any], held: Sequence[Allocation]) -> InUse:
    in_use = in_use_of(case)
    for allocation in held:
        in_use.add(allocation)
    return in_use


@given(st.randoms(use_true_random=False))
@CI
def test_a_world_that_changes_between_questions_gets_the_answers_of_a_new_one(rnd: random.Random) -> None:
    live_through(rnd)


@pytest.mark.parametrize("seed", [1063, 3849])
def test_a_refusal_does_not_depend_on_what_was_asked_before(seed: int) -> None:
    """Behind a selector that fails, devices are decided when they are reached: text and steps differed then."""
    live_through(random.Random(seed))


def live_through(rnd: random.Random) -> None:
    """Allocations come and go, slices and classes change, other pods ask in between."""
    generator = Generator(rnd.randrange(10**9))
    case, other = generator.case(), generator.case()
    inventory, in_use = inventory_of(case), in_use_of(case)
    for device_class in other["classes"]:
        if device_class["metadata"]["name"] not in inventory.classes:
            inventory.put_class(decode_class(device_class))
    held: list[Allocation] = []
    for _ in range(12):
        asked = rnd.choice((case, case, {**other, "node": case["node"], "features": case.get("features")}))
        budget = rnd.choice((3, 20_000, 20_000))
        first = answer(asked, inventory, in_use, budget)
        new = Inventory(inventory.slices.values(), inventory.classes.values())
        assert first == answer(asked, new, new_ledger(case, held), budget)
        assert first == answer(asked, inventory, in_use, budget)
        what = rnd.randrange(6)
        if what <= 2 and isinstance(first, Allocated):
            for allocation in first.allocations:
                in_use.add(allocation)
                held.append(allocation)
        elif what == 3 and held:
            in_use.remove(held.pop(rnd.randrange(len(held))))
        elif what == 4:
            inventory.put_slice(decode_slice(rnd.choice((*case["slices"], *other["slices"]))))
        elif what == 5:
            inventory.put_class(decode_class(rnd.choice(case["classes"])))
