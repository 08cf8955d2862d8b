"""A search in parts gives the answer of a search in one go, and a world in motion cannot keep it going for ever."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import RELEASES, AllocationError, BudgetExhausted, DeviceId, InUse, Unfinished, allocate_in_parts
from allocator.answers.paused_searches import _PAUSED_MAX, _STALE
from benchmarks.pools import packed_shares
from tests.allocator.build import case, claim, device, pool, request
from tests.allocator.cases import ask, claims_of, features_of, in_use_of, inventory_of, question_of
from tests.allocator.generator import Generator

RANDOMS = st.randoms(use_true_random=False)


def hostile(seed: int = 5) -> dict[str, Any]:
    """Shares that almost fill six devices, in no way that a search would find soon."""
    devices = [device(f"d{index}", memory=f"{100 + index}", allowMultipleAllocations=True) for index in range(6)]
    requests = [request(f"r{index}", memory=share) for index, share in enumerate(packed_shares(seed))]
    return case([pool(*devices)], [claim(*requests)])


@pytest.mark.slow
@given(RANDOMS, st.sampled_from([1, 2, 7]), st.sampled_from(RELEASES))
def test_parts_end_as_the_whole_does(rnd: random.Random, pause_after: int, release: str) -> None:
    asked = Generator(rnd.randrange(10**9), release).case()
    features = features_of(asked, kubernetes=release)
    whole = ask(asked, budget_steps=2_000, features=features)
    inventory, in_use = inventory_of(asked), in_use_of(asked)
    # What is asked in parts is the same objects each time, as a scheduler has them.
    claims = claims_of(asked)
    outcome: Any = Unfinished(0)
    try:
        while isinstance(outcome, Unfinished):
            outcome = allocate_in_parts(
                question_of(asked, claims, inventory, in_use, budget_steps=2_000, features=features),
                pause_after=pause_after,
            )
    except AllocationError as error:
        outcome = error
    if isinstance(outcome, AllocationError):
        assert (whole["outcome"], whole["error"]) == ("error", str(outcome))
    else:
        assert outcome.steps == whole["steps"]
    assert len(inventory.paused) == 0


def in_parts(
    asked: dict[str, Any], change: Any = lambda in_use: None, *, pause_after: int, **more: Any
) -> tuple[int, Any]:
    """How many calls it takes, and the outcome; `change` happens between any two."""
    inventory, in_use, claims = inventory_of(asked), in_use_of(asked), claims_of(asked)
    for calls in range(1, 1_000):
        outcome = allocate_in_parts(
            question_of(asked, claims, inventory, in_use, **more),
            pause_after=pause_after,
        )
        if not isinstance(outcome, Unfinished):
            return calls, outcome
        change(in_use)
    raise AssertionError("no end")


def test_a_call_takes_the_steps_it_may_and_few_more() -> None:
    calls, outcome = in_parts(hostile(), budget_steps=20_000, pause_after=1_000)
    assert isinstance(outcome, BudgetExhausted)
    assert 19 <= calls <= 21


def test_restarts_count_against_the_budget() -> None:
    """Another device of the pool comes and goes all the time: what was searched is void, but was spent."""
    busy = DeviceId("driver-a", "pool-1", "d0")

    def change(in_use: InUse) -> None:
        in_use.add_share(busy, "other") if not in_use.holds(busy) else in_use.remove_share(busy, "other")

    calls, outcome = in_parts(hostile(), change, budget_steps=20_000, pause_after=1_000)
    assert isinstance(outcome, BudgetExhausted)
    assert calls <= 21


def test_a_change_in_between_is_seen() -> None:
    """All but one device are taken by others after the first part: nothing fits, and no step says otherwise."""
    taken = iter([DeviceId("driver-a", "pool-1", f"d{index}") for index in range(1, 6)])

    def change(in_use: InUse) -> None:
        for one in taken:
            in_use.add_device(one)

    _, outcome = in_parts(hostile(), change, budget_steps=20_000, pause_after=100)
    assert not isinstance(outcome, BudgetExhausted)


def test_the_number_of_paused_searches_is_bounded_and_stale_ones_make_room() -> None:
    asked = hostile()
    inventory, in_use = inventory_of(asked), in_use_of(asked)
    forgotten = [claims_of(hostile(seed)) for seed in range(100, 100 + _PAUSED_MAX)]

    def part(claims: Any) -> Any:
        return allocate_in_parts(
            question_of(asked, claims, inventory, in_use, budget_steps=10**9),
            pause_after=5,
        )

    assert all(isinstance(part(claims), Unfinished) for claims in forgotten)
    one_more = claims_of(asked)
    outcomes = [part(one_more) for _ in range(_STALE)]
    assert isinstance(outcomes[0], BudgetExhausted)
    assert isinstance(outcomes[-1], Unfinished)
    assert len(inventory.paused) == _PAUSED_MAX


def test_nothing_is_paused_when_an_answer_is_found() -> None:
    asked = case([pool(device("d0"), device("d1"))], [claim(request(count=2))])
    calls, outcome = in_parts(asked, budget_steps=100, pause_after=100)
    assert calls == 1
    assert [one.device for one in outcome.allocations[0].device_ids()] == ["d0", "d1"]
