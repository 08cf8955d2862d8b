"""The numbers of `devices` reconcile, what it calls free the allocator gives, and what it says blocks a device does."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import combinations
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from allocator import (
    NO_SHARE_IDS,
    Allocated,
    AllocationRequest,
    Claim,
    Features,
    InUse,
    Inventory,
    NodeView,
    allocate,
    decode_allocation,
    decode_claim_spec,
    decode_class,
    decode_slice,
)
from scheduler.inventory import DeviceList, Filter, devices_observed
from scheduler.inventory.partition_profiles import together
from scheduler.offline import OfflineCluster, SourceObject, observed_machine
from tests.inventory.test_listing import (
    COUNTERS,
    DRIVER,
    GPU_CLASS,
    HALF,
    ONE,
    TAINT,
    TWO,
    Obj,
    eats,
    gpu,
    held,
    listed,
    node,
    share,
    slice_of,
)

SETS = {
    "sharedCounters": [*COUNTERS["sharedCounters"], {"name": "e", "counters": {"memory": {"value": "80Gi"}}}],
}
OTHER = {"consumesCounters": [{"counterSet": "e", "counters": {"memory": {"value": "40Gi"}}}]}
KINDS = ("plain", "other set", "tainted", "half", "whole", "quarter", "shared partition", "too large")


class World(NamedTuple):
    objects: list[Obj]
    open_nodes: list[str]

    def of_kind(self, kind: str) -> list[Obj]:
        return [one for one in self.objects if one["kind"] == kind]


def device(index: int, kind: str) -> Obj:
    extra: Obj = {
        "plain": {},
        "tainted": {"taints": [TAINT]},
        "other set": OTHER,
        "half": eats("40Gi"),
        "whole": eats("80Gi"),
        "quarter": {**eats("20Gi"), "taints": [{**TAINT, "effect": "None"}]},
        "shared partition": {**HALF, **eats("40Gi")},
        "too large": eats("96Gi"),
    }[kind]
    name = f"d{index}"
    attributes = {"id": {"string": name}, "numaNode": {"int": index % 2}}
    return {"name": name, "attributes": attributes, **extra}


@st.composite
def worlds(draw: st.DrawFn) -> World:
    objects: list[Obj] = [GPU_CLASS]
    open_nodes = []
    for number in range(draw(st.integers(1, 3))):
        pool = f"n{number}"
        is_open = draw(st.booleans()) or not number
        if draw(st.integers(0, 5)):
            objects.append(node(pool) if is_open else node(pool, unschedulable=True))
            open_nodes += [pool] if is_open else []
        kinds = draw(st.lists(st.sampled_from(KINDS), max_size=5))
        parts = [device(index, kind) for index, kind in enumerate(kinds)]
        count = draw(st.sampled_from([2, 2, 2, 3]))
        objects += [
            slice_of(pool, count=count, name=f"{pool}-counters", generation=2, **SETS),
            slice_of(pool, *parts, count=count, generation=2),
        ]
        if draw(st.booleans()):
            objects.append(slice_of(pool, gpu("old"), gpu("d0")))
        for index, kind in enumerate(kinds):
            if kind == "shared partition" and draw(st.booleans()):
                ids = [ONE, TWO][: draw(st.integers(1, 2))]
                results = [{**share(f"d{index}", "40Gi", one), "pool": pool} for one in ids]
            elif draw(st.integers(0, 2)) == 0:
                results = [{"pool": pool, "device": f"d{index}"}]
            else:
                continue
            objects.append(held(f"{pool}-{index}", *results))
    return World(objects, open_nodes)


def given_now(world: World) -> set[tuple[str, str]]:
    """Pools and devices that the allocator gives on some open node to a claim for just that device."""
    slices = [decode_slice(one) for one in world.of_kind("ResourceSlice")]
    inventory = Inventory(slices, [decode_class(GPU_CLASS)])
    in_use = InUse([decode_allocation(one["status"]["allocation"]) for one in world.of_kind("ResourceClaim")])
    found = set()
    for name in world.open_nodes:
        for index in range(5):
            expression = f'device.attributes["{DRIVER}"].?id.orValue("") == "d{index}"'
            exactly = {
                "deviceClassName": "gpu",
                "allocationMode": "ExactCount",
                "count": 1,
                "selectors": [{"cel": {"expression": expression}}],
            }
            spec = decode_claim_spec({"devices": {"requests": [{"name": "r", "exactly": exactly}]}})
            question = AllocationRequest(
                (Claim("", "c", spec),), NodeView(name, {}), inventory, in_use, Features(), 10_000, NO_SHARE_IDS
            )
            if isinstance(allocate(question), Allocated):
                found.add((name, f"d{index}"))
    return found


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_used_free_and_unusable_are_all_and_the_free_can_be_given(world: World) -> None:
    found = listed(*world.objects[1:])

    published = {
        (one["spec"]["pool"]["name"], each["name"])
        for one in world.of_kind("ResourceSlice")
        if one["spec"]["pool"]["generation"] == 2
        for each in one["spec"].get("devices", ())
    }
    assert {(one.pool, one.device) for one in found.devices} == published
    assert len(found.devices) == len(published) == sum(structs.asdict(found.states).values())
    assert Counter(one.state for one in found.devices) == +Counter(structs.asdict(found.states))
    parts = [(one.devices, one.free, one.states) for one in found.classes]
    parts += [(one.devices, one.free, one.states) for one in found.profiles]
    for count, free_count, states in parts:
        assert (count, free_count) == (sum(structs.asdict(states).values()), states.free + states.shared)
    for profile in found.profiles:
        assert 0 <= profile.together <= profile.free
    free = {(one.pool, one.device) for one in found.devices if one.state in ("free", "shared")}
    assert free == given_now(world)
    assert free == {(one.pool, one.device) for one in found.devices if not one.blocked_by}
    assert listed(*world.objects[1:], wanted=Filter(free_only=True)).states == found.states


AMOUNTS = st.dictionaries(
    st.tuples(st.sampled_from("cd"), st.sampled_from(["memory", "slice-0", "slice-1", "slice-2"])),
    st.integers(1, 4),
    min_size=1,
    max_size=3,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(AMOUNTS, max_size=6), st.integers(0, 9))
def test_what_fits_together_is_between_the_bounds(costs: list[dict[tuple[str, str], int]], room: int) -> None:
    left = {(name, counter): room for name in "cd" for counter in ("memory", "slice-0", "slice-1", "slice-2")}
    left["c", "slice-1"] = room // 2
    best = next(
        size
        for size in range(len(costs), -1, -1)
        for chosen in combinations(costs, size)
        if all(sum(one.get(counter, 0) for one in chosen) <= rest for counter, rest in left.items())
    )
    bounds = together(costs, left)

    assert bounds.least <= best <= bounds.most


def mig(name: str, profile: str, first: int, slices: int) -> Obj:
    """A partition as drivers publish them: so many memory slices from the first on."""
    counters = {f"memory-slice-{first + number}": {"value": "1"} for number in range(slices)}
    counters["memory"] = {"value": f"{slices * 10}Gi"}
    return {
        "name": name,
        "attributes": {"profile": {"string": profile}},
        "consumesCounters": [{"counterSet": "c", "counters": counters}],
    }


def mig_objects() -> list[Obj]:
    counters = {f"memory-slice-{number}": {"value": "1"} for number in range(8)}
    sets = [{"name": "c", "counters": {**counters, "memory": {"value": "80Gi"}}}]
    ones = [mig(f"one-{first}", "1g.10gb", first, 1) for first in range(7)]
    threes = [mig(f"three-{first}", "3g.40gb", first, 4) for first in (0, 4)]
    return [
        node(),
        slice_of("n", count=2, name="counters", sharedCounters=sets),
        slice_of("n", *ones, *threes, mig("whole", "7g.80gb", 0, 8), count=2),
    ]


def test_profiles_are_what_partitions_of_one_size_have_alike() -> None:
    found = listed(*mig_objects(), held("c", {"pool": "n", "device": "one-1"}))

    assert [(one.profile, one.devices, one.free, one.together, one.is_exact) for one in found.profiles] == [
        ("1g.10gb", 7, 6, 6, True),
        ("3g.40gb", 2, 1, 1, True),
        ("7g.80gb", 1, 0, 0, True),
    ]
    assert found.profiles[1].counters == {"memory": "40Gi", "memory-slice": "4"}


def test_an_upper_bound_is_called_so() -> None:
    """Of three partitions each two exclude each other, twice: two fit, and the counters alone say three."""
    counters = {f"part-{number}": {"value": "1"} for number in range(6)}
    pairs = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    parts = [
        {
            "name": f"from-{one}-to-{other}",
            "consumesCounters": [
                {"counterSet": "s", "counters": {f"part-{each}": {"value": "1"} for each in (one, other)}}
            ],
        }
        for one, other in pairs
    ]
    found = listed(
        node(),
        slice_of("n", count=2, name="counters", sharedCounters=[{"name": "s", "counters": counters}]),
        slice_of("n", *parts, count=2),
    )

    assert [(one.free, one.together, one.is_exact) for one in found.profiles] == [(6, 3, False)]


def blocked(found: DeviceList) -> dict[str, list[str]]:
    return {one.device: [each.text for each in one.blocked_by] for one in found.devices if one.blocked_by}


BLOCKED: dict[str, tuple[list[Obj], dict[str, list[str]]]] = {
    "held": (
        [node(), slice_of("n", gpu("a")), held("c", {"pool": "n", "device": "a"})],
        {"a": ["claim team/c, pod team/p"]},
    ),
    "held, on a cordoned node, and tainted": (
        [
            node(unschedulable=True),
            slice_of("n", gpu("a", taints=[TAINT])),
            held("c", {"pool": "n", "device": "a"}),
        ],
        {"a": ["claim team/c, pod team/p", "taint example.com/broken:NoSchedule", "node n is cordoned"]},
    ),
    "partitions": (
        [*mig_objects(), held("c", {"pool": "n", "device": "one-1"}), held("e", {"pool": "n", "device": "three-4"})],
        {
            "one-1": ["claim team/c, pod team/p"],
            "three-4": ["claim team/e, pod team/p"],
            "one-4": [
                "counter c.memory-slice-4: 0 of 1 left, 1 needed",
                "partition three-4 (claim team/e, pod team/p)",
            ],
            "three-0": [
                "counter c.memory: 30Gi of 80Gi left, 40Gi needed (and 1 more counters)",
                "partition one-1 (claim team/c, pod team/p)",
                "partition three-4 (claim team/e, pod team/p)",
            ],
        },
    ),
    "more than there is": (
        [
            node(),
            slice_of("n", count=2, name="counters", **COUNTERS),
            slice_of("n", gpu("a", **eats("96Gi")), count=2),
        ],
        {"a": ["counter c.memory: 80Gi of 80Gi left, 96Gi needed"]},
    ),
    "overdrawn": (
        [
            node(),
            slice_of("n", count=2, name="counters", **SETS),
            slice_of("n", gpu("a", **eats("80Gi")), gpu("b", **eats("40Gi")), gpu("e", **OTHER), count=2),
            held("c", {"pool": "n", "device": "a"}, {"pool": "n", "device": "b"}),
        ],
        {
            "a": ["claim team/c, pod team/p"],
            "b": ["claim team/c, pod team/p"],
            "e": [
                "counter c.memory: 120Gi of 80Gi taken",
                "partition a (claim team/c, pod team/p)",
                "partition b (claim team/c, pod team/p)",
            ],
        },
    ),
    "incomplete pool": (
        [node(), slice_of("n", gpu("a"), count=2)],
        {"a": ["pool n: 1 of 2 slices are there: n-1"]},
    ),
    "nobody's node": ([node(), slice_of("gone", gpu("a"))], {"a": ["there is no Node gone"]}),
    "a selector that no node has": (
        [
            node(),
            slice_of(
                "fabric",
                gpu("a"),
                nodeSelector={
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}],
                },
            ),
        ],
        {"a": ["no node here may use it"]},
    ),
}


@pytest.mark.parametrize("case", BLOCKED)
def test_what_blocks_a_device_is_named(case: str) -> None:
    objects, expected = BLOCKED[case]
    found = blocked(listed(*objects))

    assert {name: found[name] for name in expected} == expected


def test_many_holders_are_counted() -> None:
    objects, _ = BLOCKED["partitions"]
    used = [held(f"c{number}", {"pool": "n", "device": f"one-{number}"}) for number in range(7)]
    (whole,) = [one for one in listed(*objects[:3], *used).devices if one.device == "whole"]

    assert [one.text for one in whole.blocked_by][-1] == "3 more partitions"
    assert len(whole.blocked_by) == 6


def test_pools_that_contradict_each_other_are_listed() -> None:
    found = listed(
        node("n"),
        node("m"),
        slice_of("pool", gpu("a"), name="s-n", nodeName="n"),
        slice_of("pool", gpu("a"), name="s-m", nodeName="m"),
        slice_of("gone", gpu("b")),
    )

    assert [(one.pool, one.kind, set(one.slices)) for one in found.faults] == [
        ("gone", "unknown-node", {"gone-1"}),
        ("pool", "two-nodes", {"s-n", "s-m"}),
    ]


def test_without_nodes_one_note_says_so() -> None:
    found = listed(slice_of("n", gpu("a")))

    assert (found.faults, found.notes) == ((), ("there is no Node, so no device can be given out",))


def calls_for(pools: int, holders: int) -> int:
    """Calls of Python functions that a list of so many pools takes: of each one partition is taken."""
    objects: list[Obj] = []
    for number in range(pools):
        name = f"n{number}"
        sets = [{"name": "c", "counters": {"memory": {"value": "80Gi"}}}]
        objects += [
            node(name),
            slice_of(name, count=3, name=f"{name}-counters", sharedCounters=sets),
            slice_of(name, *(gpu(f"d{index}", **eats("80Gi")) for index in range(20)), count=3),
            slice_of(name, *(gpu(f"e{index}", taints=[TAINT]) for index in range(20)), count=3, name=f"{name}-more"),
            slice_of(f"twice{number}", gpu("a"), gpu("a"), nodeName=name),
        ]
    objects.append(held("c", *({"pool": f"n{number}", "device": "d0"} for number in range(holders))))
    given_ = [SourceObject("test", one) for one in (GPU_CLASS, *objects)]
    machine, _ = observed_machine(_loaded(given_), Features())
    devices_observed(machine, Filter())  # what is computed once for all who look
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        devices_observed(machine, Filter())
    finally:
        sys.setprofile(None)
    return calls


def _loaded(given_: list[SourceObject]) -> OfflineCluster:
    cluster = OfflineCluster(1_800_000_000_000)
    cluster.load(given_)
    return cluster


def test_work_is_linear_in_pools_and_devices_and_little_for_each() -> None:
    """So 40,000 devices in 1,000 pools take what a thousand times one pool takes."""
    few, many = calls_for(10, 10), calls_for(40, 40)

    assert many < 4.4 * few
    assert many < 40 * 40 * 60
