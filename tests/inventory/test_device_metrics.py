"""Numbers for Prometheus: the same as `devices -o json`, counted in parts while the machine goes on, and bounded."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from msgspec import structs

from allocator import Features
from scheduler.cli.main import cli
from scheduler.core.machine import Machine
from scheduler.framework.diagnosis import with_cause
from scheduler.inventory import DeviceList, Filter, device_metrics, devices_observed
from scheduler.inventory.device_metrics import OTHER, CountedDevices, bounded, cause_kind, count_devices
from scheduler.inventory.parts import whole
from scheduler.kube.codec import Codec
from scheduler.kube.device_families import OF_DEVICES, DeviceNumbers, Values
from scheduler.offline import OfflineCluster, SourceObject, observed_machine
from tests.builders import pod
from tests.inventory.test_listing import (
    COUNTERS,
    DRIVER,
    GPU_CLASS,
    HALF,
    ONE,
    TAINT,
    Obj,
    eats,
    gpu,
    held,
    node,
    share,
    slice_of,
)
from tests.observed import deleted, observed
from tests.patience import PATIENCE_S

NOW_MS = 1_800_000_000_000
NEVER = 2**62
FEATURES = Features()
AN_HOUR_AGO, A_MINUTE_AGO = "2027-01-15T07:00:00Z", "2027-01-15T07:59:00Z"
OLD_TAINT = {**TAINT, "timeAdded": AN_HOUR_AGO}
ALL_CLASS = {**GPU_CLASS, "metadata": {"name": "everything"}, "spec": {}}
NO_CLASS = {**GPU_CLASS, "metadata": {"name": "none"}, "spec": {"selectors": [{"cel": {"expression": "false"}}]}}
SHORT = "0/5 nodes are available: 1 cannot allocate all claims."


def waiting(name: str, cause: str, *, created: str, count: int = 0) -> list[Obj]:
    """A pod that waits for a cause, with a claim for so many devices."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": with_cause(SHORT, cause),
    }
    of_claim = [{"name": "c", "resourceClaimName": f"of-{name}"}] if count else []
    made: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": created,
            "resourceVersion": "9",
        },
        "spec": {
            "schedulerName": "dra-scheduler",
            "containers": [{"name": "c", "image": "i"}],
            **({"resourceClaims": of_claim} if of_claim else {}),
        },
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    claim: Obj = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"of-{name}", "namespace": "team"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    return [claim, made] if count else [made]


def labelled(one: Obj, **labels: str) -> Obj:
    return {**one, "metadata": {**one["metadata"], "labels": labels}}


def world() -> list[Obj]:
    """Every state, partitions, several classes, and pods that wait."""
    tolerates = [{"key": TAINT["key"], "operator": "Exists"}]
    return [
        GPU_CLASS,
        ALL_CLASS,
        NO_CLASS,
        labelled(node(), pool="a"),
        labelled(node("m"), pool="b"),
        node("shut", unschedulable=True),
        slice_of("n", count=2, name="counters", **COUNTERS),
        slice_of("n", gpu("whole", **eats("80Gi")), gpu("x", **eats("40Gi")), gpu("y", **eats("40Gi")), count=2),
        slice_of(
            "m",
            *(gpu("a"), gpu("b", **HALF), gpu("c", taints=[OLD_TAINT]), gpu("d", taints=[TAINT])),
            *(gpu("e", taints=[OLD_TAINT]), gpu("f", taints=[OLD_TAINT])),
        ),
        slice_of("shut", gpu("a")),
        slice_of("half", gpu("a"), count=2, nodeName="m"),
        slice_of("fabric", gpu("nic"), allNodes=True),
        held("used", {"pool": "n", "device": "x"}, {"pool": "m", "device": "c"}),
        held("share", {**share("b", "40Gi", ONE), "pool": "m"}),
        held("tolerates", {"pool": "m", "device": "e", "tolerations": tolerates}),
        *waiting("old", "[devices-in-use] somebody has them", created=AN_HOUR_AGO, count=4),
        *waiting("new", "[devices-in-use, first look] somebody has them", created=A_MINUTE_AGO, count=3),
        *waiting("odd", "[no-such-kind] what", created=A_MINUTE_AGO),
    ]


def machine_of(objects: list[Obj], features: Features = FEATURES) -> Machine:
    """It has observed these; pods with what their conditions say."""
    cluster = OfflineCluster(NOW_MS)
    loaded = cluster.load([SourceObject("test", one) for one in objects if one["kind"] != "Pod"])
    machine, problems = observed_machine(cluster, features)
    assert [*loaded.problems, *problems] == []
    for one in objects:
        if one["kind"] == "Pod":
            machine.handle(observed(Codec().decode_pod(orjson.dumps(one))), now_ms=NOW_MS)
    return machine


def numbers(machine: Machine, node_label: str | None = None) -> DeviceNumbers:
    return whole(count_devices(machine, node_label, NOW_MS))


def summed(values: Values, *kept: int) -> dict[tuple[str, ...], float]:
    """By some of the labels."""
    found: Counter[tuple[str, ...]] = Counter()
    for labels, number in values.items():
        found[tuple(labels[one] for one in kept)] += int(number)
    return {labels: number for labels, number in found.items() if number}


def expected(found: DeviceList) -> dict[str, dict[tuple[str, ...], float]]:
    """What the metrics should say by what `devices` says."""
    by_class = {
        (one.name, state): count
        for one in found.classes
        for state, count in structs.asdict(one.states).items()
        if count
    }
    of_none = Counter(("", one.state) for one in found.devices if not one.classes)
    return {
        "devices": {**by_class, **of_none},
        "largest_request": {(one.name,): one.largest[0].count for one in found.classes},
        "partitions": {
            (one.driver, ", ".join(f"{name}={amount}" for name, amount in one.counters.items()), state): count
            for one in found.profiles
            for state, count in structs.asdict(one.states).items()
            if count
        },
        "partitions_free_together": {
            (one.driver, ", ".join(f"{name}={amount}" for name, amount in one.counters.items())): one.together
            for one in found.profiles
        },
    }


def told(found: DeviceNumbers) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        "devices": summed(found["devices"], 1, 3),
        "largest_request": dict(found["largest_request"]),
        "partitions": summed(found["partitions"], 0, 1, 2),
        "partitions_free_together": dict(found["partitions_free_together"]),
    }


def test_the_numbers_are_those_of_devices(tmp_path: Path) -> None:
    objects = world()
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    said = json.loads(CliRunner().invoke(cli, ["devices", "-f", str(path), "-o", "json"]).stdout)
    found = told(numbers(machine_of(objects)))

    assert found == expected(devices_observed(machine_of(objects), Filter()))
    for one in said["classes"]:
        assert found["largest_request"][one["name"],] == one["largest"][0]["count"]
        for state, count in one["states"].items():
            assert found["devices"].get((one["name"], state), 0) == count
    # All states occur, so none of them is compared with nothing only.
    assert {state for _, state in found["devices"]} == {*said["states"]}


def test_every_metric_is_counted_with_its_labels() -> None:
    found = numbers(machine_of(world()))

    assert found.keys() == {one.field for one in OF_DEVICES}
    for one in OF_DEVICES:
        assert {len(labels) for labels in found[one.field]} == {len(one.labels)}, one.name


def test_devices_have_the_pool_of_their_node_where_a_label_is_named() -> None:
    machine = machine_of(world())

    assert {labels[2] for labels in numbers(machine)["devices"]} == {""}
    pools = summed(numbers(machine, "pool")["devices"], 1, 2)
    assert pools["gpu", "a"] == 3
    assert pools["gpu", "b"] == 6
    assert pools["gpu", ""] == 2  # of the node without the label, and of all nodes


def test_tainted_devices_count_while_a_claim_holds_them_that_does_not_tolerate_it() -> None:
    """Nobody holds `f`, `e` is held by one that tolerates it, and nobody says when `d` was tainted."""
    objects = [*world(), held("late", {"pool": "m", "device": "d"})]

    assert numbers(machine_of(objects))["tainted_device_held_seconds"] == {
        (DRIVER, "m", "c"): 3600.0,
        (DRIVER, "m", "d"): 0.0,
    }


def test_waiting_pods_are_counted_by_cause_and_age() -> None:
    found = numbers(machine_of(world()))

    assert found["waiting_pods"] == {
        ("devices-in-use", ">=1h"): 1,
        ("devices-in-use", "<10m"): 1,
        ("unknown", "<10m"): 1,
    }
    assert found["waiting_pods_oldest_seconds"] == {("devices-in-use",): 3600, ("unknown",): 60}
    assert found["waiting_pods_smallest_request"] == {("gpu",): 3}


def test_what_a_pod_asks_by_the_name_of_a_resource_counts_too() -> None:
    """The scheduler makes the claim for it when the pod has a node; then the claim counts."""
    _, asking = waiting("w", "[devices-in-use] node n has none", created=A_MINUTE_AGO, count=5)
    named = {**GPU_CLASS, "spec": {**GPU_CLASS["spec"], "extendedResourceName": "example.com/gpu"}}
    requests = {"example.com/gpu": "2", "example.com/other": "1"}
    asking["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": requests}
    smallest = "waiting_pods_smallest_request"
    objects = [*world(), asking]
    machine = machine_of([named if one is GPU_CLASS else one for one in objects])

    assert numbers(machine)[smallest] == {("gpu",): 2}
    assert numbers(machine_of(objects))[smallest] == {("gpu",): 3}, "no class has the name"
    off = Features(extended_resource=False)
    assert numbers(machine_of([named if one is GPU_CLASS else one for one in objects], off))[smallest] == {("gpu",): 3}


def test_others_pods_are_counted_as_they_are_given() -> None:
    machine = machine_of(world())
    given = [(one, "device-tainted") for one in machine.store.pods.values()]
    found = whole(count_devices(machine, None, NOW_MS, given))

    assert summed(found["waiting_pods"], 0) == {("device-tainted",): 3}


@pytest.mark.parametrize(
    ("reason", "message", "kind"),
    [
        ("Unschedulable", with_cause(SHORT, "[node-tainted] node n has a taint"), "node-tainted"),
        ("Unschedulable", with_cause(SHORT, "[node-tainted"), "node-tainted"),
        ("Unschedulable", SHORT, "unknown"),
        ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates", "scheduling-gate"),
    ],
)
def test_the_kind_of_a_cause_is_read_from_the_condition(reason: str, message: str, kind: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}

    assert cause_kind(pod("p", conditions=(condition,))) == kind
    assert cause_kind(pod("p")) == "unknown"


def in_parts(machine: Machine, steps: int = NEVER // 100) -> Iterator[DeviceNumbers | None]:
    """Each part with so many steps of work; None after each, and at last the numbers."""
    counting = count_devices(machine, None, NOW_MS)
    meter = machine.store.inventory.meter
    while True:
        meter.allow(steps)
        try:
            next(counting)
        except StopIteration as ended:
            yield ended.value
            return
        finally:
            meter.allow_all()
        yield None


def test_numbers_that_are_counted_in_the_smallest_parts_are_the_same() -> None:
    parts = list(in_parts(machine_of(world()), 1))

    assert len(parts) > len(list(in_parts(machine_of(world()))))  # it has paused within a node, too
    assert parts[-1] == numbers(machine_of(world()))


def test_what_goes_between_two_parts_breaks_nothing() -> None:
    """Whatever goes, and whenever: what was counted before is told, and what is counted then is as it is."""
    whole_count = len(list(in_parts(machine_of(world()))))
    gone = [
        [("ResourceSlice", "m-1")],
        [("ResourceSlice", "counters"), ("ResourceSlice", "n-1")],
        [("ResourceSlice", "fabric-1"), ("ResourceSlice", "half-1")],
        [("Node", "m")],
        [("DeviceClass", "everything")],
    ]
    for removed in gone:
        for after in range(whole_count - 1):
            machine = machine_of(world())
            for number, part in enumerate(in_parts(machine)):
                if number == after:
                    for kind, name in removed:
                        machine.handle(deleted(kind, name, NEVER), now_ms=NOW_MS)
                if part is not None:
                    assert part.keys() == {one.field for one in OF_DEVICES}


def test_largest_combinations_are_told_and_the_others_together() -> None:
    values = {("d", f"class-{number}", "", state): number for number in range(250) for state in ("free", "used")}
    found = bounded(values, apart=1)

    assert len(found) == 202
    assert sum(found.values()) == sum(values.values())
    assert found["d", "class-249", "", "used"] == 249
    assert found[OTHER, OTHER, OTHER, "free"] == sum(range(150))
    assert bounded({(f"{number}",): number for number in range(250)}, join=max)[OTHER,] == 149
    assert bounded({(f"{number}",): number for number in range(250)}, join=min)[OTHER,] == 0
    assert bounded({}) == {}


def test_labels_of_a_hostile_cluster_are_bounded() -> None:
    classes = [{**GPU_CLASS, "metadata": {"name": f"class-{number}"}} for number in range(130)]
    devices = [gpu(f"d{number}", taints=[OLD_TAINT], **eats(f"{number + 1}Mi")) for number in range(120)]
    names = {"profile": {"string": "p" * 64}}
    devices += [gpu(f"e{number}") | {"attributes": names} | eats("1Mi") for number in range(3)]
    holders = [
        held(f"c{first}", *({"pool": "n", "device": f"d{first + number}"} for number in range(30)))
        for first in range(0, 120, 30)
    ]
    slices = [slice_of("n", count=4, name="counters", **COUNTERS)]
    slices += [
        slice_of("n", *devices[first : first + 60], count=4, name=f"from-{first}") for first in range(0, 123, 60)
    ]
    found = numbers(machine_of([*classes, node(), *slices, *holders]))

    for one in OF_DEVICES:
        without = {labels[:-1] if one.labels[-1:] == ("state",) else labels for labels in found[one.field]}
        assert len(without) <= 101, one.name
        assert max((len(text) for labels in found[one.field] for text in labels), default=0) <= 100
    assert found["largest_request"][OTHER,] == found["largest_request"]["class-0",]
    assert found["tainted_device_held_seconds"][OTHER, OTHER, OTHER] == 3600


async def counted(devices: CountedDevices) -> DeviceNumbers:
    for _ in range(10_000):
        if (found := devices.newest()) is not None:
            return found
        await asyncio.sleep(0)
    raise AssertionError("never counted")


async def test_counting_goes_on_between_turns_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_metrics, "_PART_S", 0.0)  # one part at a time
    monkeypatch.setattr(device_metrics, "_REST", 0)
    machine = machine_of(world())
    devices = CountedDevices(machine, None, lambda: NOW_MS)

    assert devices.newest() is None
    assert machine.store.inventory.meter.stop_at >= NEVER, "the machine would pause"
    assert await counted(devices) == numbers(machine)


async def test_what_is_counted_soon_is_told_at_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_metrics, "_PART_S", PATIENCE_S)
    now_ms = NOW_MS
    machine = machine_of(world())
    devices = CountedDevices(machine, None, lambda: now_ms)
    first = devices.newest()
    machine.handle(deleted("ResourceSlice", "m-1", NEVER), now_ms=NOW_MS)
    now_ms += 2_500

    assert first == numbers(machine_of(world()))
    assert devices.newest() == {**first, "counted_age_seconds": {(): 2.5}}  # not counted anew so soon


async def test_a_count_that_fails_or_takes_too_long_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> Iterator[None]:
        yield
        raise KeyError("gone")

    machine = machine_of(world())
    monkeypatch.setattr(device_metrics, "_GAP_S", 0.0)
    monkeypatch.setattr(device_metrics, "_LONG_RUN", 0)
    devices = CountedDevices(machine, None, lambda: NOW_MS)
    monkeypatch.setattr(device_metrics, "count_devices", fails)
    assert devices.newest() is None
    assert "devices cannot be counted" in caplog.text
    assert machine.store.inventory.meter.stop_at >= NEVER
    monkeypatch.setattr(device_metrics, "count_devices", count_devices)
    monkeypatch.setattr(device_metrics, "_PART_S", 0.0)
    monkeypatch.setattr(device_metrics, "_SPENT_S_MAX", 0.0)
    assert devices.newest() is None
    assert devices._going is None, "given up"
    monkeypatch.setattr(device_metrics, "_SPENT_S_MAX", PATIENCE_S)
    monkeypatch.setattr(device_metrics, "_PART_S", PATIENCE_S)
    assert devices.newest() == numbers(machine)


async def test_nothing_is_counted_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_metrics, "_PART_S", 0.0)
    monkeypatch.setattr(device_metrics, "_REST", 0)
    devices = CountedDevices(machine_of(world()), None, lambda: NOW_MS)
    devices.newest()
    devices.stop()
    for _ in range(100):
        await asyncio.sleep(0)

    assert devices._made is None
