"""What was found for one node is found for another that has the same candidates, and for no other."""

from __future__ import annotations

import importlib
import random
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from allocator import (
    ALL_SHORTCUTS,
    Allocated,
    Claim,
    ClaimSpec,
    Features,
    InUse,
    Inventory,
    NodeView,
    Outcome,
    Question,
    Shortcuts,
    allocate,
    decode_claim_spec,
)
from tests import builders

ALONE = replace(ALL_SHORTCUTS, last_answer=False)
WITHOUT = replace(ALONE, known_picks=False)
NODES = 4


def ask(
    spec: ClaimSpec, node: int, inventory: Inventory, in_use: InUse, shortcuts: Shortcuts = ALONE, budget: int = 5_000
) -> Outcome:
    return allocate(
        Question(
            (Claim("default", "claim", spec),),
            NodeView(f"node-{node}"),
            inventory,
            in_use,
            features=Features(),
            budget_steps=budget,
            share_ids=(f"share-{number}" for number in count(1)),
        ),
        shortcuts=shortcuts,
    )


def spec_of(*requests: dict[str, Any], **fields: Any) -> ClaimSpec:
    return decode_claim_spec(builders.claim_spec_object(*requests, **fields))


def fleet(rnd: random.Random | None = None) -> Inventory:
    """Nodes of one kind; with `rnd` their devices differ in model and NUMA node, and some can be shared."""
    slices = []
    for node in range(NODES):
        devices = []
        for index in range(4):
            model, numa = (rnd.choice("AB"), rnd.randrange(2)) if rnd else ("A", index // 2)
            device = builders.device_object(f"gpu-{index}", model=model, numa=numa)
            if rnd and rnd.random() < 0.05:
                device["allowMultipleAllocations"] = True
            devices.append(device)
        slices.append(builders.resource_slice(f"slice-{node}", node=f"node-{node}", devices=tuple(devices)))
    return Inventory(slices, [builders.device_class()])


def specs(rnd: random.Random) -> list[ClaimSpec]:
    model_a = "device.attributes['gpu.example.com'].model == 'A'"
    one, two = builders.request_object("one"), builders.request_object("two", count=2)
    picky = builders.request_object("picky", selector=model_a)
    alternatives = [{**part.pop("exactly"), **part} for part in (dict(picky), dict(two))]
    either = {"name": "either", "firstAvailable": alternatives}
    same = ({"requests": ["two"], "matchAttribute": "gpu.example.com/numa"},)
    every = [spec_of(one), spec_of(two), spec_of(one, picky), spec_of(either, one), spec_of(two, constraints=same)]
    return rnd.sample(every, 3)


@pytest.mark.parametrize("seed", range(60))
def test_nodes_of_a_fleet_get_the_answers_of_a_search(seed: int) -> None:
    rnd = random.Random(seed)
    inventory, in_use = fleet(rnd), InUse()
    asked = specs(rnd)
    for _ in range(25):
        spec, node, budget = rnd.choice(asked), rnd.randrange(NODES), rnd.choice((2, 5_000))
        found = ask(spec, node, inventory, in_use, budget=budget)
        assert found == ask(spec, node, inventory, in_use, WITHOUT, budget)
        if isinstance(found, Allocated) and rnd.random() < 0.5:
            for allocation in found.allocations:
                in_use.add(allocation)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A search made is an entry."""
    module, made = importlib.import_module("allocator.answers.allocate"), []
    search = module.Search
    monkeypatch.setattr(module, "Search", lambda *args, **how: made.append(args) or search(*args, **how))
    return made


def test_nodes_of_one_kind_are_searched_once_for_each_state(searches: list[object]) -> None:
    inventory, in_use, spec = fleet(), InUse(), spec_of()
    for taken in range(5):
        for node in range(NODES):
            found = ask(spec, node, inventory, in_use)
            assert isinstance(found, Allocated) is (taken < 4)
            if isinstance(found, Allocated):
                (result,) = found.allocations[0].results
                assert (result.pool, result.device) == (f"node-{node}", f"gpu-{taken}")
                in_use.add(found.allocations[0])
        assert len(searches) == taken + 1


def test_what_a_constraint_reads_is_searched_for_each_node(searches: list[object]) -> None:
    inventory, in_use = fleet(), InUse()
    spec = spec_of(constraints=({"requests": ["gpu"], "matchAttribute": "gpu.example.com/numa"},))
    for node in range(NODES):
        ask(spec, node, inventory, in_use)
    assert len(searches) == NODES
