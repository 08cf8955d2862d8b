"""What is remembered is bounded by its size, forgotten when nobody wants it, and no answer depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from allocator import (
    Claim,
    ClaimSpec,
    Features,
    InUse,
    Inventory,
    NodeView,
    PausedError,
    Question,
    allocate,
    candidate_nodes,
    decode_claim_spec,
)
from allocator.answers import remembered_plans as plans_module
from tests.allocator.build import DRIVER, case, claim, device, device_class, pool, request
from tests.allocator.cases import inventory_of, share_ids

A = f"device.attributes['{DRIVER}']"
NODES = 6
FEATURES = Features()


def world() -> Inventory:
    slices = [
        pool(
            *(device(f"d{index}", uuid=f"u{node}-{index}") for index in range(3)), name=f"n{node}", nodeName=f"n{node}"
        )
        for node in range(NODES)
    ]
    return inventory_of(case(slices, [], classes=[device_class()]))


def spec(number: int, count: int = 1) -> ClaimSpec:
    return decode_claim_spec(claim(request(count=count, cel=f"{A}.uuid != 'job-{number}'"))["spec"])


def ask_everywhere(inventory: Inventory, asked: ClaimSpec) -> list[Any]:
    claims = [Claim("default", "c", asked)]
    candidate_nodes(claims, inventory, FEATURES)
    return [
        allocate(
            Question(
                claims,
                NodeView(f"n{node}"),
                inventory,
                InUse(),
                features=FEATURES,
                budget_steps=1_000,
                share_ids=share_ids(),
            )
        )
        for node in range(NODES)
    ]


def kept(inventory: Inventory) -> int:
    """Entries that are really there."""
    views = [view for known in inventory._pools.values() for view in known.views.values() if view is not None]
    nodes = [entry.pools for entries in inventory._nodes.values() for entry in entries.values()]
    count = sum(len(view.masks) for view in views) + sum(len(pools.candidates) for pools in nodes)
    count += sum(len(offer._entries) for offer in inventory._offers.values())
    return count + sum(matcher.size for matcher in inventory._planner._answering.values())


def test_entries_are_what_is_kept() -> None:
    inventory = world()
    for number in range(5):
        ask_everywhere(inventory, spec(number))
    assert inventory.plans.entries == kept(inventory) == 5 * (3 * NODES + 3 * NODES)


def test_they_follow_slices_that_change() -> None:
    inventory = world()
    ask_everywhere(inventory, spec(1))
    for _ in range(20):
        for slice_ in list(inventory.slices.values()):
            inventory.put_slice(slice_)
        ask_everywhere(inventory, spec(1))
    assert inventory.plans.entries == kept(inventory)


@pytest.mark.parametrize("most", [0, 40, 100])
def test_what_is_unused_longest_is_forgotten_and_answers_stay_the_same(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans_module, "ENTRIES_MAX", most)
    inventory = world()
    for number in [*range(12), *range(12), 3, 3]:
        answers = ask_everywhere(inventory, spec(number))
        assert answers == ask_everywhere(world(), spec(number))
        assert inventory.plans.entries == kept(inventory)
    of_one = 6 * NODES
    assert inventory.plans.entries <= most + 2 * of_one
    assert len(inventory.plans) <= 2 + most // of_one


def test_plans_of_claims_that_want_nothing_go_when_others_come() -> None:
    inventory = world()
    specs = [spec(number) for number in range(200)]
    for one in specs:
        ask_everywhere(inventory, one)
        inventory.plans.retire(one)
    ask_everywhere(inventory, specs[-1])
    assert len(inventory.plans) <= plans_module._IDLE_MAX + 1
    slots = plans_module._IDLE_MAX + plans_module._UNUSED_MAX + 2
    assert inventory.plans.entries == kept(inventory) <= slots * 6 * NODES


def test_a_plan_that_is_wanted_again_is_not_idle() -> None:
    inventory = world()
    wanted = spec(1_000)
    plan = inventory.plan([wanted], FEATURES)
    for number in range(100):
        inventory.plans.retire(wanted)
        assert inventory.plan([wanted], FEATURES) is plan
        one = spec(number)
        inventory.plan([one], FEATURES)
        inventory.plans.retire(one)


def test_masks_survive_a_class_that_changes() -> None:
    """New plans have the same slots, so nothing is evaluated again."""
    inventory = world()
    ask_everywhere(inventory, spec(1))
    entries = inventory.plans.entries
    inventory.put_class(next(iter(inventory.classes.values())))
    before = inventory.meter.spent
    ask_everywhere(inventory, spec(1))
    assert inventory.plans.entries == entries
    assert inventory.meter.spent - before < 50_000


def asking_for(number: int) -> ClaimSpec:
    """Four requests with a selector each, long enough to be compiled in several parts."""
    selectors = [" && ".join(f"{A}.uuid != 'x{number}-{index}-{term}'" for term in range(30)) for index in range(4)]
    requests = [request(f"r{index}", cel=selector) for index, selector in enumerate(selectors)]
    return decode_claim_spec(claim(*requests)["spec"])


def users(inventory: Inventory) -> int:
    planner = inventory._planner
    return len(planner._answering) + len(planner._records) + len(inventory.plans._drafts)


@pytest.mark.parametrize("others", [0, 1])
def test_nothing_is_kept_of_claims_that_go_while_their_selectors_are_compiled(others: int) -> None:
    """Whenever that is: after each number of turns, until the plan is finished."""
    inventory = world()
    if others:  # of which some use the same selectors, and stay
        ask_everywhere(inventory, asking_for(0))
    before, entries = users(inventory), inventory.plans.entries
    turns, is_finished = 0, False
    while not is_finished:
        turns += 1
        asked = asking_for(0 if others else turns)
        wanted = [asked, spec(turns)]
        for _ in range(turns):
            inventory.meter.allow(1)
            try:
                inventory.plan(wanted, FEATURES)
                is_finished = True
            except PausedError:
                assert inventory.plans._drafts
        if not is_finished:
            inventory.plans.retire(wanted[-1])
            while inventory.plans._unused:
                inventory.plans._forget_some()
            assert users(inventory) == before
            assert inventory.plans.entries == entries
    assert turns > 3


def test_of_drafts_that_nobody_asks_for_the_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans_module, "_DRAFTS_MAX", 5)
    inventory = world()
    for number in range(40):
        inventory.meter.allow(1)
        with pytest.raises(PausedError):
            inventory.plan([asking_for(number)], FEATURES)
    assert len(inventory.plans._drafts) == len(inventory._planner._answering) == 5


def test_slots_of_claims_that_are_gone_are_forgotten_without_another_question() -> None:
    inventory = world()
    specs = [spec(number) for number in range(400)]
    for one in specs:
        ask_everywhere(inventory, one)
    for one in specs:
        inventory.plans.retire(one)
    assert len(inventory._planner._records) <= plans_module._IDLE_MAX + plans_module._UNUSED_MAX + 1
    assert inventory.plans.entries == kept(inventory)


def test_a_slot_that_nobody_had_and_a_draft_has_again_is_not_forgotten() -> None:
    inventory = world()
    first = asking_for(1)
    inventory.plan([first], FEATURES)
    inventory.put_class(next(iter(inventory.classes.values())))
    assert len(inventory.plans._unused) == 4
    inventory.meter.allow(1)
    with pytest.raises(PausedError):
        inventory.plan([first, asking_for(2)], FEATURES)
    while inventory.plans._unused:
        inventory.plans._forget_some()
    inventory.meter.allow_all()
    plan = inventory.plan([first, asking_for(2)], FEATURES)
    assert {slot.key for slot in plan.slots} == inventory._planner._by_key.keys()
