"""Everything that can take long is counted, pauses where it must, and ends as it does in one go."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import STEP, AllocationError, PausedError, Unfinished, allocate_in_parts, candidate_nodes
from allocator.answers.inventory import Inventory
from cel import ANSWER_WORK_MAX
from tests.allocator.build import DRIVER, asks, case, claim, device, device_class, first_of, pool, request
from tests.allocator.cases import (
    answer_of,
    ask,
    claims_of,
    features_of,
    in_use_of,
    inventory_of,
    question_of,
    recorded,
)
from tests.allocator.generator import Generator

RANDOMS = st.randoms(use_true_random=False)
A = f"device.attributes['{DRIVER}']"
NUMBERS = ",".join(map(str, range(28)))
NEARLY_ENDLESS = f"[{NUMBERS}].all(a,[{NUMBERS}].all(b,[0,1,2,3].all(c,a+b+c+1>=0)))"


def in_parts(asked: dict[str, Any], steps: int) -> tuple[Any, list[int]]:
    """The outcome (or error), and what each call spent."""
    inventory, in_use, claims = inventory_of(asked), in_use_of(asked), claims_of(asked)
    spent = []
    meter = inventory.meter
    outcome: Any = Unfinished(0)
    while isinstance(outcome, Unfinished):
        assert len(spent) < 20_000, "no end"
        before = meter.spent
        meter.allow(steps)
        try:
            outcome = allocate_in_parts(question_of(asked, claims, inventory, in_use, budget_steps=2_000))
        except AllocationError as error:
            outcome = error
        spent.append(meter.spent - before)
    assert len(inventory.paused) == 0
    return outcome, spent


def assert_equal(outcome: Any, whole: dict[str, Any]) -> None:
    if isinstance(outcome, AllocationError):
        assert (whole["outcome"], whole["error"]) == ("error", str(outcome))
    else:
        assert answer_of(outcome) == whole


@pytest.mark.slow
@given(RANDOMS, st.sampled_from([1, 3, 20]))
def test_pauses_anywhere_change_no_answer(rnd: random.Random, steps: int) -> None:
    asked = Generator(rnd.randrange(10**9)).case()
    outcome, _ = in_parts(asked, steps)
    assert_equal(outcome, ask(asked, budget_steps=2_000))


def test_recorded_cases_are_answered_alike_in_parts() -> None:
    """Whatever upstream said of them, one evaluation at a time says the same."""
    for asked in recorded()[::40]:
        outcome, _ = in_parts(asked, 1)
        assert_equal(outcome, ask(asked, budget_steps=2_000))


def dear(number: int) -> str:
    return f"{NEARLY_ENDLESS} && {A}.uuid != 'x{number}'"


def costly_case(devices: int, *, selectors: int = 1, alternatives: int = 1) -> dict[str, Any]:
    published = [device(f"d{index}", uuid=f"u{index}") for index in range(devices)]
    ways = [
        asks(devices + 1, selectors=[{"cel": {"expression": dear(way * 100 + number)}} for number in range(selectors)])
        for way in range(alternatives)
    ]
    asked = (
        request(count=devices + 1, selectors=ways[0]["selectors"])
        if alternatives == 1
        else first_of("req-0", *({"name": f"s{index}", **way} for index, way in enumerate(ways)))
    )
    return case([pool(*published)], [claim(asked)])


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"selectors": 3}, {"selectors": 2, "alternatives": 4}])
def test_a_call_makes_one_costly_evaluation_at_most(more: dict[str, int]) -> None:
    """Eight devices and a selector near the limit: each call of a step's budget evaluates one of them once."""
    outcome, spent = in_parts(costly_case(8, **more), 1)
    whole = ask(costly_case(8, **more), budget_steps=2_000)
    assert_equal(outcome, whole)
    evaluations = 8 * more.get("selectors", 1) * more.get("alternatives", 1)
    assert max(spent) < ANSWER_WORK_MAX + 5_000
    assert len([one for one in spent if one > ANSWER_WORK_MAX // 4]) == evaluations
    assert sum(spent) > evaluations * ANSWER_WORK_MAX // 4


def test_each_taint_is_counted_with_each_toleration_that_it_is_compared_with() -> None:
    taints = [{"key": f"t{number}", "effect": "NoSchedule"} for number in range(32)]
    tolerations = [{"key": taint["key"], "operator": "Exists"} for taint in taints[:16]]

    def work(**more: Any) -> int:
        _, spent = in_parts(case([pool(device("d0", **more))], [claim(request(tolerations=tolerations))]), 100)
        return sum(spent)

    assert work(taints=taints) - work() > 3 * len(taints) * len(tolerations)


def test_compiling_pauses_between_stages() -> None:
    long = " && ".join([f"{A}.uuid != 'job-{index}'" for index in range(200)])
    _, spent = in_parts(case([pool(device("d0", uuid="u"))], [claim(request(cel=long))]), 1)
    assert len(spent) > 3
    assert sum(spent) > 100 * len(long)


def test_what_is_remembered_costs_next_to_nothing() -> None:
    asked = costly_case(8)
    inventory, claims, meter = inventory_of(asked), claims_of(asked), inventory_of(asked).meter

    def spent_on_asking() -> int:
        before = inventory.meter.spent
        allocate_in_parts(question_of(asked, claims, inventory, in_use_of(asked), budget_steps=2_000))
        return inventory.meter.spent - before

    first = spent_on_asking()
    assert first > 8 * ANSWER_WORK_MAX // 4
    assert spent_on_asking() < 10 * STEP
    assert meter.spent == 0, "each inventory counts its own"


def nodes_in_parts(inventory: Inventory, asked: dict[str, Any], steps: int) -> tuple[Any, int]:
    calls = 0
    claims = claims_of(asked)
    while True:
        calls += 1
        assert calls < 20_000, "no end"
        inventory.meter.allow(steps)
        try:
            return candidate_nodes(claims, inventory, features_of(asked)), calls
        except PausedError:
            continue
        finally:
            inventory.meter.allow_all()


@pytest.mark.slow
@given(RANDOMS)
def test_the_nodes_worth_asking_are_the_same_in_parts(rnd: random.Random) -> None:
    asked = Generator(rnd.randrange(10**9)).case()
    whole = candidate_nodes(claims_of(asked), inventory_of(asked), features_of(asked))
    assert nodes_in_parts(inventory_of(asked), asked, 1)[0] == whole


def test_the_nodes_worth_asking_are_found_device_by_device() -> None:
    slices = [
        pool(
            *(device(f"d{index}", uuid=f"u{node}-{index}") for index in range(4)), name=f"n{node}", nodeName=f"n{node}"
        )
        for node in range(5)
    ]
    asked = case(slices, [claim(request(count=4, cel=dear(1)))], classes=[device_class()])
    nodes, calls = nodes_in_parts(inventory_of(asked), asked, 1)
    assert nodes == {f"n{node}" for node in range(5)}
    assert calls >= 20


def test_a_slice_that_changes_meanwhile_is_counted_as_it_is() -> None:
    """Nothing that was counted before the change is taken for what is there now."""
    slices = [pool(device("d0", uuid=f"u{node}"), name=f"n{node}", nodeName=f"n{node}") for node in range(6)]
    asked = case(slices, [claim(request(cel=f"{A}.uuid != 'u2'"))], classes=[device_class()])
    inventory, claims = inventory_of(asked), claims_of(asked)
    gone = iter(sorted(inventory.slices))
    while True:
        inventory.meter.allow(1)
        try:
            nodes = candidate_nodes(claims, inventory, features_of(asked))
            break
        except PausedError:
            if len(inventory.slices) > 3:
                inventory.remove_slice(next(gone))
    fresh = inventory_of(case([], [], classes=[device_class()]))
    for slice_ in inventory.slices.values():
        fresh.put_slice(slice_)
    assert nodes == candidate_nodes(claims, fresh, features_of(asked))
