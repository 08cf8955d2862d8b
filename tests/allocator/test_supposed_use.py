"""A ledger as if some allocations were gone and others were there."""

from __future__ import annotations

from typing import Any

import pytest

from allocator import (
    Allocated,
    Allocation,
    BudgetExhausted,
    DeviceResult,
    InUse,
    SupposedUse,
    Unfinished,
    allocate,
    allocate_in_parts,
    only_devices,
)
from cel.quantity import Quantity
from tests.allocator.build import case, claim, device, pool, request
from tests.allocator.cases import claims_of, in_use_of, inventory_of, question_of
from tests.allocator.test_paused import hostile


def taking(*devices: str, memory: int | None = None) -> Allocation:
    """Whole devices, or shares of so much memory."""
    consumed = (("memory", Quantity.from_int(memory)),) if memory is not None else ()
    share = "s" if memory is not None else None
    return Allocation(
        tuple(
            DeviceResult("r", "driver-a", "pool-1", name, share_id=share, consumed_capacity=consumed)
            for name in devices
        )
    )


WHOLE = [pool(device("d0"), device("d1"), device("d2"))]
SHARED = [pool(*(device(f"d{index}", memory="4", allowMultipleAllocations=True) for index in range(2)))]
HALVES = [
    pool(counters={"mem": 4}, slice_name="counters", size=2),
    pool(*(device(f"d{index}", counters={"mem": amount}) for index, amount in enumerate((4, 2, 2, 2))), size=2),
]
"""d0 is all of it, d1 to d3 are three of which two can be had."""


@pytest.mark.parametrize(
    ("slices", "wants", "held", "supposed", "gets"),
    [
        pytest.param(WHOLE, {}, [taking("d0", "d1", "d2")], {}, None, id="nothing-is-free"),
        pytest.param(WHOLE, {}, [taking("d0", "d2"), taking("d1")], {"released": [1]}, "d1", id="released"),
        pytest.param(WHOLE, {}, [taking("d1")], {"taken": [taking("d0")]}, "d2", id="taken"),
        pytest.param(
            WHOLE, {}, [taking("d0", "d1"), taking("d2")], {"until": [0], "taken": [taking("d1")]}, None, id="until"
        ),
        pytest.param(
            WHOLE, {}, [taking("d0"), taking("d1")], {"until": [0], "taken": [taking("d0")]}, "d2", id="in-its-place"
        ),
        pytest.param(SHARED, {"memory": "2"}, [taking("d0", memory=4)],
                     {"until": [0], "taken": [taking("d1", memory=4)]}, None, id="memory-is-not-free-before"),
        pytest.param(SHARED, {"memory": "2"}, [taking("d0", memory=2), taking("d1", memory=4)],
                     {"until": [0], "taken": [taking("d0", memory=2)]}, "d0", id="memory-in-its-place-counts-once"),
        pytest.param(SHARED, {"memory": "2"}, [taking("d0", memory=2), taking("d1", memory=4)],
                     {"until": [0], "taken": [taking("d0", memory=3)]}, None, id="memory-that-comes-is-more"),
        pytest.param(HALVES, {}, [taking("d0")], {"until": [0], "taken": [taking("d1")]}, None,
                     id="counter-not-free"),
        pytest.param(HALVES, {}, [taking("d1")], {"until": [0], "taken": [taking("d2")]}, "d3", id="counter-once"),
        pytest.param(HALVES, {}, [taking("d1")], {"taken": [taking("d2")]}, None, id="counter-beside"),
        pytest.param(HALVES, {}, [taking("d1")], {"until": [0], "taken": [taking("d0")]}, None, id="counter-is-more"),
    ],
)  # fmt: skip
def test_what_is_free(slices, wants, held, supposed, gets) -> None:
    asked = case(slices, [claim(request(**wants))])
    in_use = InUse(held)
    before, revision = in_use.copy(), in_use.revision
    lists = {name: [held[one] if isinstance(one, int) else one for one in ones] for name, ones in supposed.items()}
    ledger = SupposedUse(in_use, **lists)
    inventory, claims = inventory_of(asked), claims_of(asked)
    for _ in range(2):
        outcome = allocate(question_of(asked, claims, inventory, ledger, budget_steps=1_000))
        found = (
            [one.device for one in outcome.allocations[0].device_ids()] if isinstance(outcome, Allocated) else [None]
        )
        assert found == [gets]
        allocate(question_of(asked, claims, inventory, in_use, budget_steps=1_000))  # what is stays what it was
    assert (in_use, in_use.revision) == (before, revision)


def test_one_supposition_on_another() -> None:
    in_use = InUse([taking("d0"), taking("d1")])
    inner = SupposedUse(in_use, released=[taking("d0")], until=[taking("d1")], taken=[taking("d2")])
    asked = case(WHOLE, [claim(request())])
    for wanted, gets in (({"d0"}, True), ({"d1"}, False), ({"d2"}, False)):
        ids = list(taking("d0", "d1", "d2").device_ids())
        ledger = only_devices(inner, ids, [one for one in ids if one.device in wanted])
        question = question_of(asked, claims_of(asked), inventory_of(asked), ledger, budget_steps=1_000)
        assert isinstance(allocate(question), Allocated) is gets


def test_what_is_not_in_use_cannot_be_released() -> None:
    with pytest.raises(ValueError, match="is not held"):
        SupposedUse(InUse([taking("d0")]), released=[taking("d1")])


def test_it_holds_until_one_of_its_pools_changes() -> None:
    in_use = InUse([taking("d0")])
    ledger = SupposedUse(in_use, released=[taking("d0")])
    in_use.add(Allocation((DeviceResult("r", "driver-b", "another", "d0"),)))
    assert ledger.is_current()
    in_use.add(taking("d1"))
    assert not ledger.is_current()
    in_use.remove(taking("d1"))
    assert not ledger.is_current()


@pytest.mark.slow
def test_a_supposed_question_leaves_a_paused_search_alone_and_is_paused_itself() -> None:
    asked = hostile()
    inventory, in_use, claims = inventory_of(asked), in_use_of(asked), claims_of(asked)
    ledger = SupposedUse(in_use, taken=[Allocation((DeviceResult("r", "driver-b", "another", "d0"),))])

    def calls(*ledgers: Any) -> list[int]:
        taken = [0] * len(ledgers)
        outcomes: list[Any] = [Unfinished(0)] * len(ledgers)
        while any(isinstance(one, Unfinished) for one in outcomes):
            for index, one in enumerate(ledgers):
                if isinstance(outcomes[index], Unfinished):
                    taken[index] += 1
                    question = question_of(asked, claims, inventory, one, budget_steps=20_000)
                    outcomes[index] = allocate_in_parts(question, pause_after=1_000)
        assert all(isinstance(one, BudgetExhausted) for one in outcomes)
        return taken

    (alone,) = calls(in_use)
    assert calls(in_use, ledger) == [alone, alone]
