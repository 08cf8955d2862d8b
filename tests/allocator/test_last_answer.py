"""What was found is found again without a search, and never when anything changed."""

from __future__ import annotations

import importlib
import random
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocator import (
    ALL_SHORTCUTS,
    Allocated,
    Allocation,
    AllocationError,
    DeviceId,
    InUse,
    Inventory,
    NodeView,
    Question,
    Unsatisfiable,
    allocate,
    decode_class,
    decode_slice,
)
from tests.allocator.build import case, claim, device, pool, request
from tests.allocator.cases import claims_of, features_of, in_use_of, inventory_of, node_of
from tests.allocator.generator import Generator

CI = settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
WITHOUT = replace(ALL_SHORTCUTS, last_answer=False, known_picks=False)


def answer(case: dict[str, Any], inventory: Inventory, in_use: InUse, budget_steps: int = 20_000, **how: Any) -> object:
    ids, prefix = count(1), how.pop("ids", "share")
    try:
        return allocate(
            Question(
                how.pop("claims", None) or claims_of(case),
                how.pop("node", None) or node_of(case),
                inventory,
                in_use,
                features=features_of(case),
                budget_steps=budget_steps,
                share_ids=(f"{prefix}-{number}" for number in ids),
            ),
            **how,
        )
    except AllocationError as error:
        return str(error)


@given(st.randoms(use_true_random=False))
@CI
def test_a_world_that_changes_between_questions_gets_the_answers_of_a_search(rnd: random.Random) -> None:
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
        assert first == answer(asked, inventory, in_use, budget, shortcuts=WITHOUT)
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


def found_case() -> tuple[dict[str, Any], Inventory, Allocated]:
    generator = Generator(5)
    for _ in range(500):
        case = {**generator.case(), "allocated": [], "allocatedShared": []}
        inventory = inventory_of(case)
        found = answer(case, inventory, InUse())
        if isinstance(found, Allocated) and any(
            result.share_id is None and not result.admin_access
            for allocation in found.allocations
            for result in allocation.results
        ):
            return case, inventory, found
    raise AssertionError("the generator gives no case with devices")


def test_the_same_question_is_searched_once() -> None:
    case, inventory, _ = found_case()
    in_use = InUse()

    assert answer(case, inventory, in_use) is answer(case, inventory, in_use)


def test_a_refusal_is_found_again_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three devices of one NUMA node, where each has two. A constraint: only the same pools in the same state do."""
    published = [pool(*(device(f"d{index}", numa=index // 2) for index in range(4)))]
    wanted = claim(request(count=3), constraints=[{"matchAttribute": "driver-a/numa"}])
    asked = case(published, [wanted])
    inventory, in_use = inventory_of(asked), InUse()
    module, made = importlib.import_module("allocator.answers.allocate"), []
    search = module.Search
    monkeypatch.setattr(module, "Search", lambda *args, **how: made.append(args) or search(*args, **how))

    refusals = [answer(asked, inventory, in_use) for _ in range(3)]
    assert isinstance(refusals[0], Unsatisfiable)
    assert refusals == refusals[:1] * 3
    assert len(made) == 1

    in_use.add_device(DeviceId("driver-a", "pool-1", "d0"))
    assert isinstance(answer(asked, inventory, in_use), Unsatisfiable)
    assert len(made) == 2


def test_a_change_elsewhere_keeps_the_answer_and_one_here_does_not() -> None:
    case, inventory, found = found_case()
    in_use = InUse()
    first = answer(case, inventory, in_use)
    twin = found.allocations[0].results[0].device_id._replace(driver="elsewhere.example.com")
    in_use.add_device(twin)

    assert answer(case, inventory, in_use) is first

    for allocation in found.allocations:
        in_use.add(allocation)

    assert answer(case, inventory, in_use) == answer(case, inventory, in_use, shortcuts=WITHOUT)
    assert answer(case, inventory, in_use) != first


@pytest.mark.parametrize("binds", [True, False])
def test_nodes_that_share_their_pools_share_the_answer_unless_it_names_them(binds: bool) -> None:
    slice_: dict[str, Any] = {
        "metadata": {"name": "everywhere"},
        "spec": {
            "driver": "d.example.com",
            "allNodes": True,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "dev", "bindsToNode": binds}],
        },
    }
    device_class = {"metadata": {"name": "c"}, "spec": {}}
    exactly = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    claim = {"metadata": {"name": "claim", "namespace": "ns"}, "spec": spec}
    case = {"slices": [slice_], "classes": [device_class], "claims": [claim], "node": {"metadata": {"name": "a"}}}
    inventory, in_use = inventory_of(case), InUse()
    answers = [answer(case, inventory, in_use, node=NodeView(name)) for name in ("a", "b")]

    assert answers == [answer(case, inventory, in_use, node=NodeView(name), shortcuts=WITHOUT) for name in ("a", "b")]
    assert (answers[0] == answers[1]) is not binds
    assert (answers[0] is answers[1]) is not binds


def test_shares_get_new_ids_each_time() -> None:
    generator = Generator(3)
    seen = 0
    for _ in range(200):
        case = generator.case()
        inventory, in_use = inventory_of(case), in_use_of(case)
        first = answer(case, inventory, in_use, ids="first")
        if not isinstance(first, Allocated):
            continue
        again = answer(case, inventory, in_use, ids="again")
        assert again == answer(case, inventory, in_use, ids="again", shortcuts=WITHOUT)
        seen += first != again
    assert seen > 5
