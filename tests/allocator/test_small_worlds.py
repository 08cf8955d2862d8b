"""Against enumeration: the answer is the first allowed assignment, and nothing else matters for it."""

from __future__ import annotations

import copy
import random
from dataclasses import fields, replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocator import (
    ALL_SHORTCUTS,
    Allocated,
    AllocationRequest,
    BudgetExhausted,
    Features,
    InUse,
    Inventory,
    Shortcuts,
    allocate,
    decode_class,
    decode_slice,
    encode_allocation,
)
from tests.allocator.cases import ask, claims_of, in_use_of, inventory_of, node_of, share_ids
from tests.allocator.generator import Generator
from tests.allocator.small_world import World, WorldMaker, expected_devices, solutions, to_case

CI = settings(max_examples=250, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
RANDOMS = st.randoms(use_true_random=False)
ONE_OFF = [replace(ALL_SHORTCUTS, **{field.name: False}) for field in fields(Shortcuts)]


def devices_of(answer: dict[str, Any]) -> list[list[tuple[str, str]]]:
    return [
        [
            (result["request"], f"{result['pool']}/{result['device']}")
            for result in allocation["devices"].get("results", [])
        ]
        for allocation in answer["allocations"]
    ]


def check(world: World, answer: dict[str, Any]) -> None:
    solution = next(solutions(world), None)
    if answer["outcome"] == "error":
        # An All request that a constraint refuses aborts the pod; there is no other way to fail here.
        assert "would not be satisfied" in answer["error"]
        assert any(
            alternative["count"] is None
            for claim in world.claims
            for request in claim["requests"]
            for alternative in request["alternatives"]
        )
        return
    assert answer["outcome"] == ("none" if solution is None else "allocated")
    if solution is not None:
        assert devices_of(answer) == expected_devices(world, solution)


@pytest.mark.slow
@given(RANDOMS)
@CI
def test_the_answer_is_the_first_allowed_assignment(rnd: random.Random) -> None:
    world = WorldMaker(rnd).make()
    check(world, ask(to_case(world)))


@pytest.mark.slow
def test_the_answer_is_the_first_allowed_assignment_in_a_thousand_fixed_worlds() -> None:
    outcomes = set()
    for seed in range(1000):
        world = WorldMaker(random.Random(seed)).make()
        answer = ask(to_case(world))
        check(world, answer)
        outcomes.add(answer["outcome"])
    assert outcomes == {"allocated", "none", "error"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "shortcuts", [Shortcuts.none(), *ONE_OFF], ids=["all-off", *(f.name for f in fields(Shortcuts))]
)
def test_switching_a_shortcut_off_changes_no_answer(shortcuts: Shortcuts) -> None:
    generator = Generator(7)
    for _ in range(400):
        case = generator.case()
        with_all = ask(case, budget_steps=60_000)
        without = ask(case, shortcuts=shortcuts, budget_steps=60_000)
        if "exhausted" not in (with_all["outcome"], without["outcome"]):
            assert _without_steps(without) == _without_steps(with_all), case["name"]


def _without_steps(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "steps"}


@pytest.mark.slow
@given(RANDOMS)
@CI
def test_the_answer_ignores_the_order_of_slices(rnd: random.Random) -> None:
    case = Generator(rnd.randrange(10**9)).case()
    shuffled = {**case, "slices": rnd.sample(case["slices"], len(case["slices"]))}

    assert ask(shuffled, budget_steps=20_000) == ask(case, budget_steps=20_000)


@pytest.mark.slow
@given(RANDOMS)
@CI
def test_inputs_are_not_changed(rnd: random.Random) -> None:
    case = Generator(rnd.randrange(10**9)).case()
    before = copy.deepcopy(case)
    inventory, in_use, claims = inventory_of(case), in_use_of(case), claims_of(case)
    specs = [copy.deepcopy((claim.spec.requests, claim.spec.constraints)) for claim in claims]

    first = _ask_prepared(case, inventory, in_use, claims)

    assert case == before
    assert in_use == in_use_of(case)
    assert [repr((claim.spec.requests, claim.spec.constraints)) for claim in claims] == [repr(spec) for spec in specs]
    # What is remembered in the inventory and in the ledger changes nothing either.
    assert _ask_prepared(case, inventory, in_use, claims) == first


def _ask_prepared(case: dict[str, Any], inventory: Inventory, in_use: InUse, claims: Any) -> object:
    from allocator import AllocationError

    try:
        outcome = allocate(
            AllocationRequest(
                claims,
                node_of(case),
                inventory,
                in_use,
                features=Features(),
                budget_steps=20_000,
                share_ids=share_ids(),
            )
        )
    except AllocationError as error:
        return str(error)
    if isinstance(outcome, Allocated):
        return [encode_allocation(allocation) for allocation in outcome.allocations]
    return outcome


@pytest.mark.slow
@given(RANDOMS)
@CI
def test_an_inventory_kept_current_answers_like_a_new_one(rnd: random.Random) -> None:
    """Slices come, change and go in any order, with questions in between that fill the caches."""
    generator = Generator(rnd.randrange(10**9))
    old, case = generator.case(), generator.case()
    inventory = Inventory(map(decode_slice, old["slices"]), map(decode_class, old["classes"]))
    changes = [("remove", slice_["metadata"]["name"]) for slice_ in old["slices"]]
    changes += [("put", slice_) for slice_ in case["slices"]]
    rnd.shuffle(changes)
    put = {slice_["metadata"]["name"] for slice_ in case["slices"]}
    claims = claims_of(case)
    for verb, what in changes:
        if verb == "put":
            inventory.put_slice(decode_slice(what))
        elif what not in put:
            inventory.remove_slice(what)
        if rnd.random() < 0.3:
            _ask_prepared(case, inventory, InUse(), claims)
    for device_class in case["classes"]:
        inventory.put_class(decode_class(device_class))
    for name in set(inventory.classes) - {device_class["metadata"]["name"] for device_class in case["classes"]}:
        inventory.remove_class(name)

    assert _ask_prepared(case, inventory, in_use_of(case), claims) == _ask_prepared(
        case, inventory_of(case), in_use_of(case), claims
    )


@pytest.mark.slow
@given(RANDOMS)
@CI
def test_what_put_slice_returns_covers_every_changed_answer(rnd: random.Random) -> None:
    generator = Generator(rnd.randrange(10**9))
    case, other = generator.case(), generator.case()
    inventory, claims, in_use = inventory_of(case), claims_of(case), in_use_of(case)
    before = _ask_prepared(case, inventory, in_use, claims)
    slice_ = decode_slice(rnd.choice(other["slices"]))

    affected = inventory.put_slice(slice_)

    if _ask_prepared(case, inventory, in_use, claims) != before:
        assert affected is None or node_of(case).name in affected


@pytest.mark.slow
@given(RANDOMS)
@CI
def test_a_larger_budget_never_takes_an_answer_back(rnd: random.Random) -> None:
    case = Generator(rnd.randrange(10**9)).case()
    small, large = ask(case, budget_steps=5), ask(case, budget_steps=20_000)

    if small["outcome"] != "exhausted":
        assert small == large


@pytest.mark.slow
def test_budget_is_not_the_same_as_unsatisfiable() -> None:
    generator = Generator(11)
    exhausted = 0
    for _ in range(200):
        case = generator.case()
        outcome = _ask_prepared(case, inventory_of(case), in_use_of(case), claims_of(case))
        if isinstance(outcome, BudgetExhausted):
            assert outcome.steps > 0
        exhausted += ask(case, budget_steps=2)["outcome"] == "exhausted"
    assert exhausted > 10


@pytest.mark.slow
def test_share_ids_are_asked_for_only_when_needed() -> None:
    """Counting the ids taken: one per result of a device that several allocations may hold, in order."""
    generator = Generator(3)
    seen = 0
    for _ in range(300):
        case = generator.case()
        answer = ask(case, budget_steps=20_000)
        ids = [
            result["shareID"]
            for allocation in answer.get("allocations", ())
            for result in allocation["devices"].get("results", ())
            if "shareID" in result
        ]
        assert ids == [f"share-{number}" for number, _ in zip(count(1), ids, strict=False)]
        seen += len(ids)
    assert seen > 20
