"""Which partitions lie in one physical device, and where."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import ResourceSlice
from scheduler.inventory.physical_devices import PhysicalDevice, counter_sets, physical_devices
from tests.builders import resource_slice

Obj = dict[str, Any]
Amounts = Mapping[str, str | int]


def counters(amounts: Amounts) -> Obj:
    return {name: {"value": str(amount)} for name, amount in amounts.items()}


def taking(name: str, amounts: Amounts, of: str = "gpu-0") -> Obj:
    return {"name": name, "consumesCounters": [{"counterSet": of, "counters": counters(amounts)}]}


def sets(**amounts: Amounts) -> ResourceSlice:
    each = [{"name": name.replace("_", "-"), "counters": counters(one)} for name, one in amounts.items()]
    return resource_slice("counters", pool="pool", devices=(), sharedCounters=each)


def found(devices: Iterable[Obj], *others: ResourceSlice, in_use: Collection[int] = ()) -> list[PhysicalDevice]:
    slices = [resource_slice(pool="pool", devices=tuple(devices)), *others]
    published = [device for slice_ in slices for device in slice_.devices]
    return physical_devices(published, in_use, counter_sets(slices))


def placed(one: PhysicalDevice) -> dict[int, tuple[int, int]]:
    return dict(zip(one.devices, zip(one.places, one.widths, strict=True), strict=True))


SLICES = {f"memory-slice-{number}": 1 for number in range(12)}
WHOLE = {"memory": "96Gi", **SLICES}


def mig(name: str, first: int, count: int, of: str = "gpu-0") -> Obj:
    parts = {f"memory-slice-{number}": 1 for number in range(first, first + count)}
    return taking(name, {"memory": f"{8 * count}Gi", **parts}, of)


def test_a_partition_lies_where_the_slices_are_that_it_takes() -> None:
    """More than ten of them: their numbers count, not their letters."""
    devices = [taking("gpu-0", WHOLE), mig("one-2", 2, 1), mig("three-8", 8, 3), mig("all", 0, 12)]
    (frame,) = found(devices, sets(gpu_0=WHOLE))

    assert (frame.units, frame.whole) == (12, 0)
    assert placed(frame) == {1: (2, 1), 2: (8, 3), 3: (0, 12)}


def test_each_counter_set_is_a_device_and_devices_without_counters_are_none() -> None:
    devices = [mig("a", 0, 1), mig("b", 0, 1, "gpu-1"), {"name": "nic"}, mig("c", 1, 1), mig("d", 1, 1, "gpu-1")]
    frames = found(devices, sets(gpu_0=WHOLE, gpu_1=WHOLE))

    assert [(one.whole, one.devices) for one in frames] == [(-1, [0, 3]), (-1, [1, 4])]


def test_a_device_that_takes_of_two_sets_holds_both_together() -> None:
    """A host of which the chips are given out alone, and in pairs."""
    both = taking("pair", {"chip": 1})
    both["consumesCounters"].append({"counterSet": "gpu-1", "counters": counters({"chip": 1})})
    devices = [taking("one", {"chip": 1}, "gpu-1"), both, taking("zero", {"chip": 1})]
    (frame,) = found(devices, sets(gpu_0={"chip": 1}, gpu_1={"chip": 1}))

    assert (frame.units, frame.whole) == (2, 1)
    assert placed(frame) == {0: (1, 1), 2: (0, 1)}


def test_amounts_are_shares_side_by_side_and_those_in_use_come_first() -> None:
    sizes = ["20Gi", "40Gi", "40Gi", "20Gi"]
    devices = [taking(f"part-{number}", {"memory": size, "media": 1}) for number, size in enumerate(sizes)]
    (frame,) = found(devices, sets(gpu_0={"memory": "80Gi", "media": 8}), in_use={1, 3})

    assert (frame.units, frame.whole) == (4, -1)
    assert placed(frame) == {0: (3, 1), 1: (0, 2), 2: (2, 2), 3: (2, 1)}


def test_counters_of_which_two_partitions_take_halves_are_no_parts() -> None:
    """They would lie in one place, and one of them would not be seen."""
    halves = [taking(name, {"core-0": "500m"}) for name in ("a", "b")]
    (frame,) = found([*halves, taking("c", {"core-1": 1})], sets(gpu_0={"core-0": 1, "core-1": 1}), in_use={0, 1})

    assert placed(frame)[0] == (0, 1)
    assert placed(frame)[1] == (1, 1)


def test_what_takes_none_of_the_parts_lies_nowhere() -> None:
    devices = [mig("a", 0, 1), mig("b", 1, 1), taking("media", {"media": 1})]
    (frame,) = found(devices, sets(gpu_0={**WHOLE, "media": 1}))
    assert frame.devices == [0, 1]


@pytest.mark.parametrize("there", [(), (sets(other=WHOLE),)], ids=["no set", "another set"])
def test_without_their_counter_set_partitions_are_devices_by_themselves(there: tuple[ResourceSlice, ...]) -> None:
    assert found([mig("a", 0, 1), mig("b", 1, 1)], *there) == []


def test_the_newest_generation_says_what_there_is() -> None:
    old, new = (
        resource_slice(
            f"counters-{number}",
            pool="pool",
            generation=number,
            devices=(),
            sharedCounters=[{"name": "gpu-0", "counters": there}],
        )
        for number, there in ((1, counters({"memory": 1})), (2, counters(WHOLE)))
    )
    assert found([mig("a", 0, 1), mig("b", 1, 1)], new, old)[0].units == 12


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12), st.data())
def test_partitions_in_use_that_fit_never_lie_over_each_other(sizes: list[int], data: st.DataObject) -> None:
    devices = [taking(f"part-{number}", {"memory": size}) for number, size in enumerate(sizes)]
    in_use = set(data.draw(st.lists(st.sampled_from(range(len(sizes))), unique=True)))
    total = max(sum(sizes[index] for index in in_use), *sizes)
    (frame,) = found(devices, sets(gpu_0={"memory": total}), in_use=in_use)
    there = sorted(placed(frame)[index] for index in in_use if index in placed(frame))

    assert all(place + width <= after for (place, width), (after, _) in pairwise(there))
    assert all(place >= 0 and place + width <= frame.units for place, width in placed(frame).values())
