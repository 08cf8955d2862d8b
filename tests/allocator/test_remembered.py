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
    Question,
    allocate,
    candidate_nodes,
    decode_claim_spec,
)
from allocator import remembered_plans as plans_module
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
    return count + sum(matcher.size for matcher in inventory._planner._matchers.values())


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
