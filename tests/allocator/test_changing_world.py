"""An inventory and a ledger that have seen a lot answer like new ones."""

from __future__ import annotations

import importlib
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
    AllocationRequest,
    BudgetExhausted,
    DeviceId,
    Features,
    InUse,
    Inventory,
    NodeView,
    Unsatisfiable,
    allocate,
    decode_class,
    decode_slice,
)
from tests.allocator.build import case, claim, device, pool, request
from tests.allocator.cases import claims_of, features_of, in_use_of, inventory_of, node_of, share_ids
from tests.allocator.generator import Generator

CI = settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


def answer(asked: dict[str, Any], inventory: Inventory, in_use: InUse, budget_steps: int) -> object:
    try:
        return allocate(
            AllocationRequest(
                claims_of(asked), node_of(asked), inventory, in_use, features_of(asked), budget_steps, share_ids()
            )
        )
    except AllocationError as error:
        return str(error)


def new_ledger(given: dict[str, Any], held: Sequence[Allocation]) -> InUse:
    in_use = in_use_of(given)
    for allocation in held:
        in_use.add(allocation)
    return in_use


@pytest.mark.slow
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
    first_case, other = generator.case(), generator.case()
    inventory, in_use = inventory_of(first_case), in_use_of(first_case)
    for device_class in other["classes"]:
        if device_class["metadata"]["name"] not in inventory.classes:
            inventory.put_class(decode_class(device_class))
    shared = {**other, "node": first_case["node"], "features": first_case.get("features")}
    held: list[Allocation] = []
    for _ in range(12):
        asked = rnd.choice((first_case, first_case, shared))
        budget = rnd.choice((3, 20_000, 20_000))
        first = answer(asked, inventory, in_use, budget)
        new = Inventory(inventory.slices.values(), inventory.classes.values())
        assert first == answer(asked, new, new_ledger(first_case, held), budget)
        assert first == answer(asked, inventory, in_use, budget)
        what = rnd.randrange(6)
        if what <= 2 and isinstance(first, Allocated):
            for allocation in first.allocations:
                in_use.add(allocation)
                held.append(allocation)
        elif what == 3 and held:
            in_use.remove(held.pop(rnd.randrange(len(held))))
        elif what == 4:
            inventory.put_slice(decode_slice(rnd.choice((*first_case["slices"], *other["slices"]))))
        elif what == 5:
            inventory.put_class(decode_class(rnd.choice(first_case["classes"])))


# --- the last answer ------------------------------------------------------------------------------------------------


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A search made is an entry."""
    module, made = importlib.import_module("allocator.answers.allocate"), []
    search = module.Search
    monkeypatch.setattr(module, "Search", lambda *args, **how: made.append(args) or search(*args, **how))
    return made


def test_the_same_question_is_searched_once_for_each_state_of_its_devices(searches: list[object]) -> None:
    """Three devices of one NUMA node; each has two until a third comes free."""
    published = [pool(*(device(f"d{index}", numa=index // 3) for index in range(4)))]
    asked = case(published, [claim(request(count=3), constraints=[{"matchAttribute": "driver-a/numa"}])])
    inventory, in_use = inventory_of(asked), InUse()
    for is_free in (True, False, True):
        answers = [answer(asked, inventory, in_use, 20_000) for _ in range(3)]
        assert answers == answers[:1] * 3
        assert isinstance(answers[0], Allocated if is_free else Unsatisfiable)
        changed = in_use.add_device if is_free else in_use.remove_device
        changed(DeviceId("driver-a", "pool-1", "d0"))
        in_use.add_device(DeviceId("driver-b", "elsewhere", str(len(searches))))
    assert len(searches) == 3


def test_a_budget_that_would_not_have_sufficed_is_exhausted_all_the_same() -> None:
    asked = case([pool(device("d0"), device("d1"))], [claim(request(), request("other"))])
    inventory, in_use = inventory_of(asked), InUse()
    enough = answer(asked, inventory, in_use, 20_000)
    assert isinstance(enough, Allocated)
    assert isinstance(answer(asked, inventory, in_use, enough.steps - 1), BudgetExhausted)


@pytest.mark.parametrize("binds", [True, False])
def test_nodes_that_share_their_pools_are_each_named(binds: bool) -> None:
    asked = case([pool(device("dev", bindsToNode=binds), allNodes=True)], [claim(request())])
    inventory, in_use = inventory_of(asked), InUse()
    first, second = (
        allocate(AllocationRequest(claims_of(asked), NodeView(name), inventory, in_use, Features(), 1_000))
        for name in ("a", "b")
    )
    assert (first == second) is not binds
    assert (first is second) is not binds


def test_shares_get_new_ids_each_time() -> None:
    asked = case([pool(device("dev", allowMultipleAllocations=True))], [claim(request())])
    inventory, in_use, ids = inventory_of(asked), InUse(), share_ids()
    found = [
        allocate(AllocationRequest(claims_of(asked), node_of(asked), inventory, in_use, Features(), 1_000, ids))
        for _ in "12"
    ]
    assert len({one.allocations[0].results[0].share_id for one in found if isinstance(one, Allocated)}) == 2
