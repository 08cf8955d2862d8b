"""What is free, who uses it, and the largest request that still fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import Features
from scheduler.cli.main import cli
from scheduler.inventory import DeviceList, Filter, UnknownNameError, list_devices
from scheduler.inventory.users import amount_text
from scheduler.offline import SourceObject
from tests.inventory.answer_schema import DeviceList as DevicesAnswer

Obj = dict[str, Any]
DRIVER = "gpu.example.com"
GPU_CLASS: Obj = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}


def node(name: str = "n", **spec: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": {}}


def slice_of(pool: str, *devices: Obj, count: int = 1, name: str = "", generation: int = 1, **spec: Any) -> Obj:
    placed = spec if {"allNodes", "nodeSelector"} & set(spec) else {"nodeName": pool, **spec}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{pool}-{generation}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **({"devices": list(devices)} if devices else {}),
            **placed,
        },
    }


def gpu(name: str, numa: int = 0, **more: Any) -> Obj:
    return {"name": name, "attributes": {"numaNode": {"int": numa}}, **more}


def held(name: str, *results: Obj, pod: str = "p") -> Obj:
    """A claim as a server has it."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    full = [{"request": "r", "driver": DRIVER, **one} for one in results]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "7"},
        "spec": {"devices": {"requests": [request]}},
        "status": {
            "allocation": {"devices": {"results": full}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}],
        },
    }


def listed(*objects: Obj, wanted: Filter | None = None) -> DeviceList:
    given_ = [SourceObject("test", one) for one in (GPU_CLASS, *objects)]
    return list_devices(given_, now_ms=1_800_000_000_000, features=Features(), wanted=wanted or Filter())


def states(found: DeviceList) -> dict[str, str]:
    return {one.device: one.state for one in found.devices}


TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}
SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
HALF = {
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "80Gi", "requestPolicy": {"default": "40Gi", "validValues": ["40Gi", "80Gi"]}}},
}
COUNTERS = {"sharedCounters": [{"name": "c", "counters": {"memory": {"value": "80Gi"}}}]}


def eats(amount: str) -> Obj:
    return {"consumesCounters": [{"counterSet": "c", "counters": {"memory": {"value": amount}}}]}


def share(device: str, amount: str, share_id: str) -> Obj:
    return {"pool": "n", "device": device, "shareID": share_id, "consumedCapacity": {"memory": amount}}


ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
STATES: dict[str, tuple[list[Obj], dict[str, str], int]] = {
    "free": ([node(), slice_of("n", gpu("a"))], {"a": "free"}, 1),
    "used": ([node(), slice_of("n", gpu("a")), held("c", {"pool": "n", "device": "a"})], {"a": "used"}, 0),
    "admin takes nothing": (
        [node(), slice_of("n", gpu("a")), held("c", {"pool": "n", "device": "a", "adminAccess": True})],
        {"a": "free"},
        1,
    ),
    "tainted": ([node(), slice_of("n", gpu("a", taints=[TAINT]), gpu("b"))], {"a": "tainted", "b": "free"}, 1),
    "tainted, without effect": (
        [node(), slice_of("n", gpu("a", taints=[{**TAINT, "effect": "None"}]))],
        {"a": "free"},
        1,
    ),
    "cordoned": ([node(unschedulable=True), slice_of("n", gpu("a"))], {"a": "closed"}, 0),
    "unreachable": (
        [
            node(taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
            slice_of("n", gpu("a")),
        ],
        {"a": "closed"},
        0,
    ),
    "tainted node": (
        [node(taints=[{"key": "gpu", "effect": "NoSchedule"}]), slice_of("n", gpu("a"))],
        {"a": "free"},
        1,
    ),
    "incomplete pool": ([node(), slice_of("n", gpu("a"), count=2)], {"a": "unusable"}, 0),
    "nobody's node": ([slice_of("n", gpu("a"))], {"a": "unusable"}, 0),
    "superseded": (
        [node(), slice_of("n", gpu("old")), slice_of("n", gpu("new"), generation=2)],
        {"new": "free"},
        1,
    ),
    "share left": (
        [node(), slice_of("n", gpu("a", **HALF)), held("c", share("a", "40Gi", ONE))],
        {"a": "shared"},
        1,
    ),
    "no share left": (
        [node(), slice_of("n", gpu("a", **HALF)), held("c", share("a", "40Gi", ONE), share("a", "40Gi", TWO))],
        {"a": "used"},
        0,
    ),
    "partition in the way": (
        [
            node(),
            slice_of("n", count=2, name="counters", **COUNTERS),
            slice_of("n", gpu("whole", **eats("80Gi")), gpu("x", **eats("40Gi")), gpu("y", **eats("40Gi")), count=2),
            held("c", {"pool": "n", "device": "x"}),
        ],
        {"whole": "blocked", "x": "used", "y": "free"},
        1,
    ),
    "seen by two nodes, one cordoned": (
        [node("m", unschedulable=True), node("n"), slice_of("fabric", gpu("a"), allNodes=True)],
        {"a": "free"},
        1,
    ),
}


@pytest.mark.parametrize("case", STATES)
def test_states_of_devices_and_how_many_are_free(case: str) -> None:
    objects, expected, free = STATES[case]
    found = listed(*objects)

    assert states(found) == expected
    assert (found.classes[0].free, found.classes[0].largest[0].count > 0) == (free, free > 0)


def test_users_counters_capacity_and_pools_are_told() -> None:
    objects, _, _ = STATES["partition in the way"]
    found = listed(*objects, slice_of("half", gpu("z"), count=2), node("half"))

    (user,) = next(one for one in found.devices if one.device == "x").users
    assert (user.claim, user.pods, user.request) == ("team/c", ("team/p",), "r")
    pools = {one.pool: one for one in found.pools}
    assert [(one.counter, one.total, one.left) for one in pools["n"].counters] == [("memory", "80Gi", "40Gi")]
    assert (pools["half"].state, pools["half"].reason) == ("incomplete", "1 of 2 slices are there: half-1")
    objects, _, _ = STATES["share left"]
    (device,) = listed(*objects).devices
    assert device.capacity["memory"].left == "40Gi"


@pytest.mark.parametrize(
    ("nano", "text"), [(20 * 10**18, "20G"), (40 * 2**30 * 10**9, "40Gi"), (3 * 10**9, "3"), (500 * 10**6, "500m")]
)
def test_amounts_are_written_in_the_shorter_form(nano: int, text: str) -> None:
    assert amount_text(nano) == text


def test_a_claim_is_given_a_device_once_whatever_room_it_has() -> None:
    """One device with room for two halves: the largest request is what the allocator gives, not a sum of capacity."""
    found = listed(node(), slice_of("n", gpu("a", **HALF)))

    assert [(one.within, one.count) for one in found.classes[0].largest] == [("node", 1), (f"{DRIVER}/numaNode", 1)]


def test_taint_rules_count_and_lost_devices_are_noted() -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {"deviceSelector": {"driver": DRIVER}, "taint": TAINT},
    }
    found = listed(node(), slice_of("n", gpu("a")), rule, held("c", {"pool": "n", "device": "gone"}))

    assert states(found) == {"a": "tainted"}
    assert any("gone is held by claim team/c" in note for note in found.notes)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6), min_size=1, max_size=4),
)
def test_largest_requests_are_those_that_counting_finds(nodes: list[list[tuple[int, bool]]]) -> None:
    """Whole devices: on one node as many as are free there, of one NUMA node as many as share a value there."""
    objects, results = [], []
    for index, devices in enumerate(nodes):
        objects += [node(f"n{index}"), slice_of(f"n{index}", *(gpu(f"d{i}", n) for i, (n, _) in enumerate(devices)))]
        results += [{"pool": f"n{index}", "device": f"d{i}"} for i, (_, used) in enumerate(devices) if used]
    found = listed(*objects, *([held("c", *results)] if results else []))

    free = [[numa for numa, used in devices if not used] for devices in nodes]
    together = max((one.count(numa) for one in free for numa in one), default=0)
    expected = {"node": max(map(len, free))} | ({f"{DRIVER}/numaNode": together} if together else {})
    assert found.classes[0].free == sum(map(len, free))
    assert {one.within: one.count for one in found.classes[0].largest if one.exact} == expected


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=7), min_size=1, max_size=3))
def test_largest_requests_of_partitions_are_the_smallest_that_fit_together(nodes: list[list[int]]) -> None:
    """Partitions take units of a GPU that has eight: there are more that are free than fit together."""
    eight = {"sharedCounters": [{"name": "c", "counters": {"memory": {"value": "8"}}}]}
    objects, most = [], 0
    for index, sizes in enumerate(nodes):
        name = f"n{index}"
        parts = [gpu(f"d{i}", **eats(str(size))) for i, size in enumerate(sizes)]
        objects += [
            node(name),
            slice_of(name, count=2, name=f"{name}-counters", **eight),
            slice_of(name, *parts, count=2),
        ]
        most = max(most, sum(sum(sorted(sizes)[: i + 1]) <= 8 for i in range(len(sizes))))
    largest = listed(*objects).classes[0].largest[0]

    assert (largest.count, largest.exact) == (most, True)


def test_filters() -> None:
    objects = [node("a"), slice_of("a", gpu("x"), gpu("y")), node("b"), slice_of("b", gpu("z"))]
    used = held("c", {"pool": "b", "device": "z"})

    assert states(listed(*objects, used, wanted=Filter(nodes=("a",)))) == {"x": "free", "y": "free"}
    assert states(listed(*objects, used, wanted=Filter(free_only=True))) == {"x": "free", "y": "free"}
    with pytest.raises(UnknownNameError, match="no node is named c"):
        listed(*objects, wanted=Filter(nodes=("c",)))


def run(tmp_path: Path, *arguments: str) -> Result:
    path = tmp_path / "dump.json"
    objects = [GPU_CLASS, node("gpu-0"), slice_of("gpu-0", gpu("x"), gpu("y", 1), gpu("z"))]
    items = [*objects, held("c", {"pool": "gpu-0", "device": "z"})]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return CliRunner().invoke(cli, ["devices", "-f", str(path), *arguments])


def test_first_line_says_what_is_free_and_what_fits(tmp_path: Path) -> None:
    lines = run(tmp_path).stdout.splitlines()

    first = (
        "gpu: 2 of 3 free, 1 used; largest request that fits: 2 on one node (gpu-0), "
        "1 of one gpu.example.com/numaNode (gpu-0)"
    )
    assert lines[0] == first
    assert lines[3] == "gpu-0\tgpu\t2 of 3\tteam/p\t-"
    row = f"gpu-0\t{DRIVER}/gpu-0/z\tgpu\tused\t-\t-\tteam/p by claim team/c\tclaim team/c, pod team/p"
    assert row in run(tmp_path, "-o", "wide").stdout
    assert run(tmp_path, "--free", "-o", "name").stdout == f"{DRIVER}/gpu-0/x\n{DRIVER}/gpu-0/y\n"


def test_forms_for_programs_have_the_published_schema(tmp_path: Path) -> None:
    found = DevicesAnswer.model_validate_json(run(tmp_path, "-o", "json").stdout)
    assert found.classes[0].free == 2

    path = Path(__file__).parents[2] / "docs" / "schemas" / "devices.json"
    assert json.loads(path.read_text()) == DevicesAnswer.model_json_schema()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--node", "gpu-1"), "did you mean gpu-0?"),
        (("--class", "gpus"), "did you mean gpu?"),
        (("--watch",), "--watch watches a cluster"),
    ],
)
def test_wrong_use_is_2_and_says_what_was_meant(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    result = run(tmp_path, *arguments)

    assert (result.exit_code, words in result.output) == (2, True), result.output


def test_devices_that_a_plugin_serves_are_blocked_by_it_and_are_not_offered() -> None:
    served = {**GPU_CLASS, "spec": {**GPU_CLASS["spec"], "extendedResourceName": "example.com/gpu"}}
    a = {**node(), "status": {"allocatable": {"example.com/gpu": "8"}}}

    found = list_devices(
        [SourceObject("test", one) for one in (served, a, slice_of("n", gpu("a"), gpu("b")))],
        now_ms=1_800_000_000_000,
        features=Features(),
    )

    assert [[one.text for one in each.blocked_by] for each in found.devices] == [
        ["the device plugin of node n (8 example.com/gpu)"]
    ] * 2
    assert [(one.free, one.largest[0].count) for one in found.classes] == [(0, 0)]
    assert found.states.blocked == 2
