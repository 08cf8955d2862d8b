"""What a request takes of a device is worked out once for devices whose capacities are written alike."""

from __future__ import annotations

from allocator import Features, Inventory
from tests.allocator.build import case, claim, device, device_class, pool, request
from tests.allocator.cases import claims_of, inventory_of


def gpu(name, value, step="1"):
    policy = {"default": "1", "validRange": {"min": "1", "step": step}}
    return device(name, allowMultipleAllocations=True, capacity={"memory": {"value": value, "requestPolicy": policy}})


def published(*gpus):
    inventory: Inventory = inventory_of(case([pool(*gpus)], [], classes=[device_class()]))
    (slice_,) = inventory.slices.values()
    return inventory, list(slice_.devices)


def test_capacities_are_one_object_where_they_are_written_alike_and_only_there() -> None:
    _, devices = published(gpu("a", "1Gi"), gpu("b", "1Gi"), gpu("c", "1024Mi"), gpu("d", "1Gi", step="2"))
    first, same, other_text, other_step = [one.capacity for one in devices]
    assert same is first
    assert other_text is not first  # of equal value, but it is stored as it was written
    assert other_step is not first


def test_consumption_follows_the_capacity_it_is_asked_for() -> None:
    asked = case([], [claim(request(capacity={"requests": {"memory": "3"}}))])
    inventory, (whole, even, small) = published(gpu("a", "8"), gpu("b", "8", step="4"), gpu("c", "2"))
    (slot,) = inventory.plan([claims_of(asked)[0].spec], Features()).slots
    for _ in range(2):
        found = [slot.consumption_of(one) for one in (whole, even, small)]
        assert [one and [str(amount) for _, amount in one.amounts] for one in found] == [["3"], ["5"], None]
        assert slot.consumption_of(whole) is found[0]
