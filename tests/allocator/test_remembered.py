"""What is remembered is bounded by its size, forgotten when nobody wants it, and no answer depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from allocator import (
    AllocationRequest,
    Claim,
    ClaimSpec,
    Features,
    InUse,
    Inventory,
    NodeView,
    PausedError,
    allocate,
    candidate_nodes,
    decode_claim_spec,
    decode_class,
)
from allocator.requests.slot_records import ENTRY_BYTES
from allocator.values.remembered import MemoryLedger
from tests.allocator.build import DRIVER, case, claim, device, device_class, pool, request
from tests.allocator.cases import inventory_of, share_ids

A = f"device.attributes['{DRIVER}']"
NODES = 6
FEATURES = Features()


def world(ledger: MemoryLedger | None = None) -> Inventory:
    slices = [
        pool(
            *(device(f"d{index}", uuid=f"u{node}-{index}") for index in range(3)), name=f"n{node}", nodeName=f"n{node}"
        )
        for node in range(NODES)
    ]
    made = inventory_of(case(slices, [], classes=[device_class()]))
    return Inventory(made.slices.values(), made.classes.values(), ledger=ledger)


def entries(inventory: Inventory) -> int:
    """What is counted for the slots that there are, and their answers."""
    counted = sum(record.entries for record in inventory._planner._records.values())
    return counted + sum(matcher.size for matcher in inventory._planner._answering.values())


def spec(number: int, count: int = 1) -> ClaimSpec:
    return decode_claim_spec(claim(request(count=count, cel=f"{A}.uuid != 'job-{number}'"))["spec"])


def ask_everywhere(inventory: Inventory, asked: ClaimSpec) -> list[Any]:
    claims = [Claim("default", "c", asked)]
    candidate_nodes(claims, inventory, FEATURES)
    return [
        allocate(
            AllocationRequest(
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
    assert entries(inventory) == kept(inventory) == 5 * (3 * NODES + 3 * NODES)


def test_they_follow_slices_that_change() -> None:
    inventory = world()
    ask_everywhere(inventory, spec(1))
    for _ in range(20):
        for slice_ in list(inventory.slices.values()):
            inventory.put_slice(slice_)
        ask_everywhere(inventory, spec(1))
    assert entries(inventory) == kept(inventory)


@pytest.mark.parametrize("limit", [1, 30_000, 100_000])
def test_what_is_unused_longest_is_forgotten_and_answers_stay_the_same(limit: int) -> None:
    ledger = MemoryLedger(lambda: limit)
    inventory = world(ledger)
    for number in [*range(12), *range(12), 3, 3]:
        ledger.begin("default")
        answers = ask_everywhere(inventory, spec(number))
        assert answers == ask_everywhere(world(), spec(number))
        assert entries(inventory) == kept(inventory)
        ledger.begin("default")
        assert ledger.size <= max(limit, 12_000), "that of the last question stays"
        assert ledger.by_what["devices"] == ledger.size >= ENTRY_BYTES * entries(inventory)
    assert len(inventory.plans) == {1: 1, 30_000: 2, 100_000: 8}[limit]


def test_a_plan_is_made_anew_when_a_class_that_it_names_changes_and_no_other() -> None:
    inventory = world()
    plan = inventory.plan([spec(1)], FEATURES)
    other = decode_class(device_class("other"))
    inventory.put_class(other)
    assert inventory.plan([spec(1)], FEATURES) is plan
    inventory.put_class(next(iter(inventory.classes.values())))
    inventory.remove_class("other")
    assert inventory.plan([spec(1)], FEATURES) is plan, "it is the same object"
    inventory.put_class(decode_class(device_class()))
    assert inventory.plan([spec(1)], FEATURES) is not plan


def test_a_plan_for_a_class_that_is_not_there_is_made_anew_when_it_comes() -> None:
    inventory = Inventory()
    (claim_plan,) = inventory.plan([spec(1)], FEATURES).claims
    assert "not found" in str(claim_plan.checks)
    inventory.put_class(decode_class(device_class()))
    assert inventory.plan([spec(1)], FEATURES).is_exact


def test_masks_survive_a_class_that_changes() -> None:
    """New plans have the same slots, so nothing is evaluated again."""
    inventory = world()
    ask_everywhere(inventory, spec(1))
    counted = entries(inventory)
    inventory.put_class(next(iter(inventory.classes.values())))
    before = inventory.meter.spent
    ask_everywhere(inventory, spec(1))
    assert entries(inventory) == counted
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
    before, counted = users(inventory), entries(inventory)
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
            assert users(inventory) == before
            assert entries(inventory) == counted
    assert turns > 3


def test_drafts_that_nobody_asks_for_are_forgotten() -> None:
    ledger = MemoryLedger(lambda: 600_000)
    inventory = world(ledger)
    for number in range(40):
        ledger.begin("default")
        inventory.meter.allow(1)
        with pytest.raises(PausedError):
            inventory.plan([asking_for(number)], FEATURES)
    assert 1 < len(inventory.plans._drafts) == len(inventory._planner._answering) < 20


@pytest.mark.slow
def test_a_slot_that_a_draft_has_is_not_forgotten_with_the_plan_that_had_it() -> None:
    ledger = MemoryLedger()
    inventory = world(ledger)
    first = asking_for(1)
    inventory.plan([first], FEATURES)
    inventory.meter.allow(1)
    with pytest.raises(PausedError):
        inventory.plan([first, asking_for(2)], FEATURES)
    inventory.plans._plans.clear()
    assert len(inventory._planner._by_key) == 4
    inventory.meter.allow_all()
    plan = inventory.plan([first, asking_for(2)], FEATURES)
    assert {slot.key for slot in plan.slots} == inventory._planner._by_key.keys()
