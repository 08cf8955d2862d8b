"""Upstream's allocator tests by name, part 2: counters, taints, binding conditions, capacity, distinct, lists.

Read as test_upstream_cases.py, which is part 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from allocator import ALL_SHORTCUTS, Features, Shortcuts
from tests.allocator.build import answer, asks, claim, device, device_class, first_of, picked, pool, request

Json = dict[str, Any]
INVALID = "invalid resource pools were encountered"
NO_COUNTERS = Features(partitionable_devices=False)
NO_CAPACITY = Features(consumable_capacity=False)
NO_TAINTS = Features(device_taints=False)
NO_BINDING = Features(device_binding_and_status=False)
LISTS = Features(list_type_attributes=True)
SCHEDULE = [{"key": "k", "effect": "NoSchedule"}]
EXECUTE = [{"key": "x", "effect": "NoExecute"}]
TOLERATE = [{"key": "k", "operator": "Exists"}, {"key": "x", "operator": "Exists"}]
UNSUPPORTED = "unsupported attribute value"


def partitions(*devices: Json, size: int = 8, name: str = "pool-1", sets: Json | None = None) -> list[Json]:
    """A pool with one counter set `set` (memory) and these devices."""
    counters = pool(counters=sets or {"memory": size}, size=2, slice_name=f"{name}-counters", name=name)
    return [counters, pool(*devices, size=2, slice_name=f"{name}-devices", name=name)]


def part(name: str, amount: int, **more: Any) -> Json:
    return device(name, counters={"memory": amount}, size=amount, **more)


def sized(amount: int) -> str:
    return f'device.attributes["driver-a"].size == {amount}'


def shared(name: str, memory: str | None = "4", policy: Json | None = None, **more: Any) -> Json:
    capacity = None if memory is None else {"value": memory, **({"requestPolicy": policy} if policy else {})}
    return device(name, memory=capacity, allowMultipleAllocations=True, **more)


def used(name: str, memory: str | None) -> list[Json]:
    share: Json = {"driver": "driver-a", "pool": "pool-1", "device": name, "shareID": "old"}
    return [share if memory is None else {**share, "consumedCapacity": {"memory": memory}}]


def claims(*requests: Json) -> list[Json]:
    return [claim(entry, name=f"claim-{number}") for number, entry in enumerate(requests)]


def held(*names: str) -> list[str]:
    return [f"driver-a/pool-1/{name}" for name in names]


def linked(*values: Any) -> list[Json]:
    return [pool(*(device(f"d{number}", links=value) for number, value in enumerate(values, 1)))]


def match(count: int) -> list[Json]:
    return [claim(request(count=count), constraints=[{"matchAttribute": "driver-a/links"}])]


def distinct(count: int, **more: Any) -> list[Json]:
    return [
        claim(*(request(f"r{n}") for n in range(count)), constraints=[{"distinctAttribute": "driver-a/links"}], **more)
    ]


def got(count: int, *names: str) -> list[str]:
    return [f"r{number}={name}" for number, name in zip(range(count), names, strict=True)]


RANGE = {"default": "1", "validRange": {"min": "2", "max": "4"}}
STEP = {"default": "2", "validRange": {"min": "2", "step": "2", "max": "6"}}
VALUES = {"default": "1", "validValues": ["1", "2", "3"]}
D1, D2 = device("d1"), device("d2")
CASES: dict[str, tuple[list[Json], list[Json], list[str], Json]] = {
    # Shared counters.
    "partitionable-devices-single-device": (partitions(part("d1", 4)), [claim(request())], ["req-0=d1"], {}),
    "partitionable-devices-prioritized-list": (
        partitions(part("d1", 4), part("d2", 6), part("d3", 4)),
        [claim(request("r0", cel=sized(4)), first_of("r1", asks(cel=sized(6)), asks(cel=sized(4))))],
        ["r0=d1", "r1/sub-1=d3"],
        {},
    ),
    "partitionable-devices-multiple-devices": (
        partitions(part("d1", 4), part("d2", 6), part("d3", 4)),
        [claim(request(count=2))],
        ["req-0=d1", "req-0=d3"],
        {},
    ),
    "partitionable-devices-multiple-capacity-pools": (
        partitions(
            device("d1", counters={"memory": 4, "cpus": 4}),
            device("d2", counters={"memory": 4, "cpus": 6}),
            device("d3", counters={"memory": 4, "cpus": 4}),
            sets={"memory": 16, "cpus": 8},
        ),
        [claim(request("r0"), first_of("r1", asks(2), asks(1)))],
        ["r0=d1", "r1/sub-1=d3"],
        {},
    ),
    "partitionable-devices-multiple-counters": (
        partitions(
            device("d1", counters={"memory": 6, "cpus": 6}),
            device("d2", counters={"memory": 4, "cpus": 2}),
            device("d3", counters={"memory": 4, "cpus": 2}),
            sets={"memory": 8, "cpus": 8},
        ),
        [claim(request(count=2))],
        ["req-0=d2", "req-0=d3"],
        {},
    ),
    "partitionable-devices-multiple-pools": (
        [*partitions(part("d1", 4), part("d2", 4), part("d3", 4)), *partitions(part("e1", 4), name="pool-2")],
        [claim(request())],
        ["req-0=e1"],
        {"held": held("d1", "d2")},
    ),
    "partitionable-devices-unused-counters-in-counter-set": (
        partitions(part("d1", 5), part("d2", 4), part("d3", 4), sets={"memory": 8, "unused": 1}),
        [claim(request(count=2))],
        ["req-0=d2", "req-0=d3"],
        {},
    ),
    "partitionable-devices-no-capacity-available": (
        partitions(part("d1", 8), part("d2", 4)),
        [claim(request())],
        ["none"],
        {"held": held("d1")},
    ),
    "partitionable-devices-overallocated-capacity-pool": (
        partitions(part("d1", 20), part("d2", 4)),
        [claim(request())],
        ["none"],
        {"held": held("d1")},
    ),
    "partitionable-devices-disabled-device-consumes-counters": (
        [pool(part("d1", 4))],
        [claim(request())],
        ["none"],
        {"features": NO_COUNTERS},
    ),
    "partitionable-devices-disabled-other-device-do-not-consume-counters": (
        [pool(part("d1", 4), D2)],
        [claim(request())],
        ["req-0=d2"],
        {"features": NO_COUNTERS},
    ),
    "partitionable-devices-disabled-per-device-node-selection": (
        [pool(device("d1", nodeName="node-1"), perDeviceNodeSelection=True)],
        [claim(request())],
        ["none"],
        {"features": NO_COUNTERS},
    ),
    "partitionable-devices-per-device-node-selection-nodename": (
        [
            pool(
                device("d1", nodeName="node-2", size=6),
                device("d2", nodeName="node-1", size=4),
                perDeviceNodeSelection=True,
            )
        ],
        [claim(first_of("r", asks(cel=sized(6)), asks(cel=sized(4))))],
        ["r/sub-1=d2"],
        {},
    ),
    "partitionable-devices-per-device-node-selection-node-selector": (
        [
            pool(
                device(
                    "d1",
                    nodeSelector={
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "region", "operator": "In", "values": ["region-1"]}]}
                        ]
                    },
                ),
                perDeviceNodeSelection=True,
            )
        ],
        [claim(request())],
        ["req-0=d1"],
        {},
    ),
    "partitionable-devices-per-device-node-selection-node-selector-multiple-devices": (
        [
            pool(
                device(
                    "d1",
                    nodeSelector={
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "region", "operator": "Exists"}]}]
                    },
                ),
                device("d2", nodeName="node-1"),
                device("d3", allNodes=True),
                perDeviceNodeSelection=True,
            )
        ],
        [claim(request(count=3))],
        ["req-0=d1", "req-0=d2", "req-0=d3"],
        {},
    ),
    "partitionable-devices-with-attribute-selector": (
        partitions(part("d1", 4, special=True), part("d2", 2), part("d3", 2)),
        [claim(request("r0", 2), request("r1", cel='device.attributes["driver-a"].?special.orValue(false)'))],
        ["r0=d2", "r0=d3", "r1=d1"],
        {},
    ),
    "partitionable-devices-same-counter-set-name-in-different-resource-slices": (
        [
            pool(counters={"memory": 8}, size=3, slice_name="c1"),
            pool(counters={"memory": 8}, size=3, slice_name="c2"),
            pool(part("d1", 4), size=3, slice_name="d"),
        ],
        [claim(request())],
        [INVALID],
        {},
    ),
    "partitionable-devices-device-counter-consumption-references-unknown-counter-set": (
        [pool(part("d1", 4))],
        [claim(request())],
        [INVALID],
        {},
    ),
    "partitionable-devices-device-counter-consumption-references-unknown-counter-in-counter-set": (
        partitions(device("d1", counters={"nope": 1})),
        [claim(request())],
        [INVALID],
        {},
    ),
    "partitionable-devices-device-counter-consumption-references-counter-set-in-other-pool": (
        [pool(counters={"memory": 8}, name="other"), pool(part("d1", 4))],
        [claim(request())],
        [INVALID],
        {},
    ),
    "partitionable-devices-devices-on-different-nodes-consume-same-counter-set": (
        [
            pool(counters={"memory": 8}, size=3, slice_name="c", allNodes=True),
            pool(part("far", 6), size=3, slice_name="far", nodeName="node-2"),
            pool(part("big", 4), part("small", 2), size=3, slice_name="near"),
        ],
        [claim(first_of("r", asks(cel=sized(4)), asks(cel=sized(2))))],
        ["r/sub-1=small"],
        {"held": held("far")},
    ),
    "partitionable-devices-devices-consume-counter-set-in-different-nodes": (
        [
            pool(counters={"memory": 8}, size=3, slice_name="c", nodeName="node-2"),
            pool(part("far", 4), size=3, slice_name="far", nodeName="node-2"),
            pool(part("d2", 6), part("d3", 4), size=3, slice_name="near"),
        ],
        [claim(request())],
        ["req-0=d3"],
        {"held": held("far")},
    ),
    "partitionable-devices-validation-error-on-non-targeting-slice": (
        [
            pool(counters={"memory": 8}, size=3, slice_name="c"),
            pool(device("far", counters={"nope": 1}), size=3, slice_name="far", nodeName="node-2"),
            pool(part("d1", 4), size=3, slice_name="near"),
        ],
        [claim(request())],
        [INVALID],
        {},
    ),
    # Taints.
    "tainted-two-devices": (
        [pool(device("d1", taints=SCHEDULE), device("d2", taints=EXECUTE))],
        [claim(request())],
        ["none"],
        {},
    ),
    "tainted-one-device-two-taints": (
        [pool(device("d1", taints=SCHEDULE + EXECUTE))],
        [claim(request())],
        ["none"],
        {},
    ),
    "tainted-two-devices-tolerated": (
        [pool(device("d1", taints=SCHEDULE), device("d2", taints=EXECUTE))],
        [claim(request(tolerations=TOLERATE[1:]))],
        ["req-0=d2"],
        {},
    ),
    "tainted-two-devices-prioritized-list-tolerated": (
        [pool(device("d1", taints=SCHEDULE), device("d2", taints=EXECUTE))],
        [claim(first_of("r", asks(), asks(tolerations=TOLERATE[1:])))],
        ["r/sub-1=d2"],
        {},
    ),
    "tainted-no-effect": (
        [pool(device("d1", taints=[{"key": "k", "effect": "None"}]))],
        [claim(request())],
        ["req-0=d1"],
        {},
    ),
    "tainted-one-device-two-taints-both-tolerated": (
        [pool(device("d1", taints=SCHEDULE + EXECUTE))],
        [claim(request(tolerations=TOLERATE))],
        ["req-0=d1"],
        {},
    ),
    "tainted-disabled": (
        [pool(device("d1", taints=SCHEDULE))],
        [claim(request())],
        ["req-0=d1"],
        {"features": NO_TAINTS},
    ),
    "tainted-prioritized-list": (
        [pool(device("d1", taints=SCHEDULE))],
        [claim(first_of("r", asks(), asks()))],
        ["none"],
        {},
    ),
    "tainted-prioritized-list-disabled": (
        [pool(device("d1", taints=SCHEDULE))],
        [claim(first_of("r", asks(cel="false"), asks()))],
        ["r/sub-1=d1"],
        {"features": NO_TAINTS},
    ),
    "tainted-admin-access": (
        [pool(device("d1", taints=SCHEDULE))],
        [claim(request(adminAccess=True))],
        ["none"],
        {"held": held("d1")},
    ),
    "tainted-admin-access-disabled": (
        [pool(device("d1", taints=SCHEDULE))],
        [claim(request(adminAccess=True))],
        ["req-0=d1"],
        {"held": held("d1"), "features": NO_TAINTS},
    ),
    "tainted-all-devices-single": ([pool(device("d1", taints=SCHEDULE))], [claim(request(count=None))], ["none"], {}),
    "tainted-all-devices-single-disabled": (
        [pool(device("d1", taints=SCHEDULE))],
        [claim(request(count=None))],
        ["req-0=d1"],
        {"features": NO_TAINTS},
    ),
    # Binding conditions.
    "binding-conditions-without-feature-gate": (
        [pool(device("d1", bindingConditions=["a"]))],
        [claim(request())],
        ["none"],
        {"features": NO_BINDING},
    ),
    "check-combinations-with-backtracking-across-slices-and-pools": (
        [pool(device("d1", bindingConditions=["a"], last=True)), pool(D2, device("d3"), name="pool-2")],
        [claim(request("r0", 2), request("r1", cel='device.attributes["driver-a"].?last.orValue(false)'))],
        ["r0=d2", "r0=d3", "r1=d1"],
        {},
    ),
    "partitionable-devices-with-binding-conditions": (
        partitions(part("d1", 4, bindingConditions=["a"])),
        [claim(request())],
        ["req-0=d1"],
        {},
    ),
    "partitionable-devices-with-binding-conditions-multiple": (
        partitions(part("d1", 4, bindingConditions=["a"]), part("d2", 4, bindingConditions=["a"])),
        [claim(request(count=2))],
        ["req-0=d1", "req-0=d2"],
        {},
    ),
    "partitionable-devices-with-binding-conditions-some-devices-no-conditions": (
        partitions(part("d1", 2, bindingConditions=["a"]), part("d2", 2), part("d3", 2, bindingConditions=["a"])),
        [claim(request(count=3))],
        ["req-0=d1", "req-0=d2", "req-0=d3"],
        {},
    ),
    "partitionable-devices-with-binding-conditions-multi-slices": (
        [
            pool(counters={"memory": 8}, size=3, slice_name="slice-3"),
            pool(part("d1", 4, bindingConditions=["a"]), size=3, slice_name="slice-2"),
            pool(part("d2", 4), size=3, slice_name="slice-1"),
        ],
        [claim(request(count=2))],
        ["req-0=d2", "req-0=d1"],
        {},
    ),
    "partitionable-devices-with-binding-conditions-and-taints": (
        partitions(part("d1", 4, bindingConditions=["a"], taints=SCHEDULE)),
        [claim(request())],
        ["none"],
        {},
    ),
    "partitionable-devices-with-binding-conditions-and-taints-tolerated": (
        partitions(*(part(n, 4, bindingConditions=["a"], taints=SCHEDULE) for n in ("d1", "d2"))),
        [claim(request(count=2, tolerations=TOLERATE))],
        ["req-0=d1", "req-0=d2"],
        {},
    ),
    # Consumable capacity.
    "consumable-capacity-disabled-feature": (
        [pool(D1)],
        [claim(request(memory="1"))],
        ["has capacity requests, but the DRAConsumableCapacity feature is disabled"],
        {"features": NO_CAPACITY},
    ),
    "consumable-capacity-disabled-feature-with-prioritized-list": (
        [pool(D1)],
        [claim(first_of("r", asks(memory="1")))],
        ["subrequest sub-0: has capacity requests, but the DRAConsumableCapacity feature is disabled"],
        {"features": NO_CAPACITY},
    ),
    "consumable-capacity-multi-allocatable-device-with-missing-capacity-request": (
        [pool(shared("d1", None))],
        [claim(request(memory="1"))],
        ["none"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-allocation-mode-all-with-missing-capacity-request": (
        [pool(shared("d1", None))],
        [claim(request(count=None, memory="1"))],
        ["none"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-without-capacity-without-capacity-request": (
        [pool(shared("d1", None))],
        claims(request(), request()),
        ["req-0=d1", "req-0=d1"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-without-policy-without-capacity-request": (
        [pool(shared("d1"), shared("d2"))],
        claims(request(), request()),
        ["req-0=d1", "req-0=d2"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-without-policy-without-capacity-request-block": (
        [pool(shared("d1"))],
        claims(request(), request()),
        ["none"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-without-policy-with-capacity-request": (
        [pool(shared("d1", "2"))],
        claims(request(memory="1"), request(memory="1")),
        ["req-0=d1", "req-0=d1"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-policy-without-capacity-request": (
        [pool(shared("d1", "4", {"default": "2"}))],
        claims(request(), request()),
        ["req-0=d1", "req-0=d1"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-zero-request-policy": (
        [pool(shared("d1", "4", {"default": "0", "validValues": ["0"]}))],
        [claim(request())],
        ["req-0=d1"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-violates-zero-request-policy": (
        [pool(shared("d1", "4", {"default": "0", "validValues": ["0"]}))],
        [claim(request(memory="1"))],
        ["none"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-range-policy-with-capacity-request": (
        [pool(shared("d1", "4", RANGE))],
        claims(request(memory="1"), request(memory="1")),
        ["req-0=d1"] * 2,
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-range-policy-step": (
        [pool(shared("d1", "8", STEP))],
        claims(request(memory="3"), request(memory="3")),
        ["req-0=d1"] * 2,
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-valid-values-policy": (
        [pool(shared("d1", "4", VALUES))],
        claims(request(memory="2"), request(memory="2")),
        ["req-0=d1"] * 2,
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-valid-values-policy-round-up": (
        [pool(shared("d1", "4", {"default": "1", "validValues": ["1", "3"]}))],
        claims(request(memory="2"), request(memory="2")),
        ["none"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-exceeded-consumable-capacity-request": (
        [pool(shared("d1", "2"))],
        claims(request(memory="2"), request(memory="2")),
        ["none"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-request-over-max-sharing-policy": (
        [pool(shared("d1", "10", RANGE))],
        [claim(request(memory="6"))],
        ["none"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-allocated-capacity-use-remaining": (
        [pool(shared("d1"))],
        [claim(request(memory="2"))],
        ["req-0=d1"],
        {"allocatedShared": used("d1", "2")},
    ),
    "consumable-capacity-multi-allocatable-device-with-allocated-capacity-next-device": (
        [pool(shared("d1"), shared("d2"))],
        [claim(request(memory="2"))],
        ["req-0=d2"],
        {"allocatedShared": used("d1", "4")},
    ),
    "consumable-capacity-with-multi-allocatable-device-backtrack": (
        [pool(shared("d1", "2", numa=0), shared("d2", "4", numa=1))],
        [
            claim(
                request("a", memory="2"), request("b", memory="2"), constraints=[{"matchAttribute": "driver-a/numa"}]
            ),
            claim(request("c", memory="2"), name="c1"),
        ],
        ["a=d2", "b=d2", "c=d1"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-subrequest": (
        [pool(shared("d1", "2"))],
        [claim(first_of("r", asks(memory="4"), asks(memory="2")))],
        ["r/sub-1=d1"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-with-no-available-consumable-capacity": (
        [pool(shared("d1"))],
        [claim(request(memory="2"))],
        ["none"],
        {"allocatedShared": used("d1", "3")},
    ),
    "consumable-capacity-multi-allocatable-device-allocation-mode-all-filter-out-no-capacity": (
        [pool(shared("d1", None), shared("d2"))],
        [claim(request(count=None, memory="2"))],
        ["req-0=d2"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-allocation-mode-all-filter-out-insufficient-capacity": (
        [pool(shared("d1", "1"), shared("d2"))],
        [claim(request(count=None, memory="2"))],
        ["req-0=d2"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-allocation-mode-all-allocating-sufficient": (
        [pool(shared("d1"))],
        [claim(request("a", memory="2"), request("b", None, memory="2"))],
        ["a=d1", "b=d1"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-allocation-mode-all-in-use-sufficient": (
        [pool(shared("d1"), shared("d2"))],
        [claim(request(count=None, memory="2"))],
        ["req-0=d1", "req-0=d2"],
        {"allocatedShared": used("d1", "2")},
    ),
    "consumable-capacity-multi-allocatable-device-allocation-mode-all-allocating-insufficient": (
        [pool(shared("d1", "3"))],
        [claim(request("a", memory="2"), request("b", None, memory="2"))],
        ["none"],
        {},
    ),
    "consumable-capacity-multi-allocatable-device-allocation-mode-all-in-use-insufficient": (
        [pool(shared("d1"), shared("d2"))],
        [claim(request(count=None, memory="2"))],
        ["req-0=d2"],
        {"allocatedShared": used("d1", "4")},
    ),
    "consumable-capacity-dedicated-device-with-consumable-capacity-request": (
        [pool(device("d1", memory="4"))],
        [claim(request(memory="2"))],
        ["req-0=d1"],
        {},
    ),
    "consumable-capacity-dedicated-device-with-multiple-consumable-capacity-request": (
        [pool(device("d1", memory="4"))],
        claims(request(memory="2"), request(memory="2")),
        ["none"],
        {},
    ),
    "allow-multiple-allocations-exclude-multi-allocatable-device-by-class-selector": (
        [pool(shared("d1"))],
        [claim(request(cel="device.allowMultipleAllocations == false"))],
        ["none"],
        {},
    ),
    "allow-multiple-allocations-not-allocate-multi-allocatable-device-which-already-dedicated": (
        [pool(shared("d1"))],
        [claim(request(memory="1"))],
        ["none"],
        {"held": held("d1")},
    ),
    "allow-multiple-allocations-not-allocate-dedicated-device-which-change-from-multi-allocatable": (
        [pool(device("d1", memory="4"))],
        [claim(request(memory="3"))],
        ["none"],
        {"allocatedShared": used("d1", "2")},
    ),
    "allow-multiple-allocations-with-partitionable-device": (
        partitions(part("d1", 4, allowMultipleAllocations=True), part("d2", 6), part("d3", 4)),
        [
            claim(
                request("r0", cel=sized(4)),
                first_of("r1", asks(cel=sized(6)), asks(cel="!device.allowMultipleAllocations")),
            )
        ],
        ["r0=d1", "r1/sub-1=d3"],
        {},
    ),
    "allow-multiple-allocations-with-shared-device-counter-cross-cycle": (
        partitions(part("d1", 8, memory="4", allowMultipleAllocations=True), part("d2", 4)),
        [claim(request(cel="!device.allowMultipleAllocations"))],
        ["none"],
        {"allocatedShared": used("d1", "1")},
    ),
    "consumable-capacity-with-partitionable-device-multiple-capacity-pools": (
        partitions(part("d1", 4, memory="4", allowMultipleAllocations=True), part("d2", 6, memory="4"), part("d3", 4)),
        [
            claim(
                request("r0", cel=sized(4), memory="2"),
                first_of("r1", asks(cel=sized(6)), asks(cel="!device.allowMultipleAllocations")),
                request("r2", cel="device.allowMultipleAllocations", memory="2"),
            )
        ],
        ["r0=d1", "r1/sub-1=d3", "r2=d1"],
        {},
    ),
    # Distinct attributes.
    "with-distinct-constraints": (
        [pool(*(device(f"d{n}", a=n, b=n, c=n) for n in range(1, 5)))],
        [
            claim(
                *(request(f"r{n}") for n in range(4)),
                constraints=[
                    {"distinctAttribute": "driver-a/a", "requests": ["r0", "r1"]},
                    {"distinctAttribute": "driver-a/b", "requests": ["r0", "r1", "r2"]},
                    {"distinctAttribute": "driver-a/c"},
                ],
            )
        ],
        got(4, "d1", "d2", "d3", "d4"),
        {},
    ),
    "with-distinct-constraints-attribute-not-set": ([pool(D1, D2)], distinct(2), ["none"], {}),
    "with-distinct-constraints-unknown-type-attribute": (linked({}, {}), distinct(2), [UNSUPPORTED], {}),
    "with-distinct-constraints-with-subrequests": (
        [pool(shared("d1", None, links=1), device("d2", links=2, small=True))],
        [
            claim(
                request("r0", cel="device.allowMultipleAllocations"),
                first_of(
                    "r1", asks(cel="device.allowMultipleAllocations"), asks(cel="!device.allowMultipleAllocations")
                ),
                request("r2"),
                constraints=[{"distinctAttribute": "driver-a/links", "requests": ["r0", "r1"]}],
            )
        ],
        ["r0=d1", "r1/sub-1=d2", "r2=d1"],
        {},
    ),
    "distinct-constraint-one-multi-allocatable-device-with-distinct-constraint": (
        [pool(shared("d1", None, links=1))],
        distinct(2),
        ["none"],
        {},
    ),
    "distinct-constraint-two-multi-allocatable-devices-with-distinct-constraint": (
        [pool(shared("d1", None, links=1), shared("d2", None, links=2))],
        distinct(2),
        got(2, "d1", "d2"),
        {},
    ),
}

_MATCH_LISTS: dict[str, tuple[tuple[Any, ...], int, bool]] = {
    # name behind list-attributes-match-constaint-: (values, count, whether they match)
    "scalar-string-values": (("x", "x"), 2, True),
    "list-of-string-values-with-common-elements": ((["x", "y"], ["y", "z"]), 2, True),
    "list-of-string-values-with-partially-common-elements": ((["x", "y"], ["y", "z"], ["z", "x"]), 3, False),
    "list-of-string-values-without-common-elements": ((["x"], ["y"]), 2, False),
    "mixed-scalar-and-list-of-string-values-with-common-elements": (("x", ["x", "y"]), 2, True),
    "mixed-scalar-and-list-of-string-values-with-partially-common-elements": (("x", ["x", "y"], "y"), 3, False),
    "mixed-scalar-and-list-of-string-values-without-common-elements": (("x", ["y"]), 2, False),
    "list-of-int-values-with-common-elements": (([1, 2], [2]), 2, True),
    "list-of-bool-values-with-common-elements": (({"bools": [True]}, {"bools": [True, False]}), 2, True),
    "list-of-version-values-with-common-elements": (
        ({"versions": ["1.0.0"]}, {"versions": ["1.0.0", "2.0.0"]}),
        2,
        True,
    ),
}
for _name, (_values, _count, _matches) in _MATCH_LISTS.items():
    CASES[f"list-attributes-match-constaint-{_name}"] = (
        linked(*_values),
        match(_count),
        [f"req-0=d{number}" for number in range(1, _count + 1)] if _matches else ["none"],
        {"features": LISTS},
    )
_DISTINCT_LISTS: dict[str, tuple[tuple[Any, ...], list[str]]] = {
    "scalar-string-values-all-distinct": (("x", "y"), got(2, "d1", "d2")),
    "scalar-string-values-not-distinct": (("x", "x"), ["none"]),
    "list-of-string-values-all-distinct": ((["x", "y"], ["y"], ["z"]), got(2, "d1", "d3")),
    "list-of-string-values-with-common-elements": ((["x", "y"], ["y"]), ["none"]),
    "mixed-scalar-and-list-all-distinct": (("x", ["x", "y"], ["y"]), got(2, "d1", "d3")),
    "mixed-scalar-and-list-with-common-elements": (("x", ["x"]), ["none"]),
    "list-of-int-values-all-distinct": (([1, 2], [2], [3]), got(2, "d1", "d3")),
    "list-of-bool-values-all-distinct": (
        ({"bools": [True]}, {"bools": [True]}, {"bools": [False]}),
        got(2, "d1", "d3"),
    ),
    "list-of-version-values-all-distinct": (
        ({"versions": ["1.0.0"]}, {"versions": ["1.0.0"]}, {"versions": ["2.0.0"]}),
        got(2, "d1", "d3"),
    ),
}
for _name, (_values, _want) in _DISTINCT_LISTS.items():
    CASES[f"list-attributes-distinct-constraint-{_name}"] = (linked(*_values), distinct(2), _want, {"features": LISTS})
CASES |= {
    "list-attributes-match-constaint-with-empty-or-unknown-type": (
        linked({}, {}),
        match(2),
        [UNSUPPORTED],
        {"features": LISTS},
    ),
    "list-attributes-distinct-constaint-with-empty-or-unknown-type": (
        linked({}, {}),
        distinct(2),
        [UNSUPPORTED],
        {"features": LISTS},
    ),
    "list-attributes-disabled-match-constraint-with-lists": (linked(["x"], ["x"]), match(2), [UNSUPPORTED], {}),
    "list-attributes-disabled-distinct-constraint-with-lists": (linked(["x"], ["y"]), distinct(2), [UNSUPPORTED], {}),
}


@pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, Shortcuts.none()], ids=["on", "off"])
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, shortcuts: Shortcuts) -> None:
    slices, wanted, want, given = CASES[name]
    more = dict(given)
    if want == [UNSUPPORTED]:  # of 1.38: until then the constraint refuses the devices
        features = more.pop("features", Features())
        assert picked(answer(slices, wanted, shortcuts=shortcuts, features=features, **more)) == ["none"]
        more["features"] = replace(features, kubernetes="1.38")
    reply = picked(answer(slices, wanted, shortcuts=shortcuts, **more))

    if "=" not in reply[0] and reply != ["none"]:
        assert len(want) == 1
        assert want[0] in reply[0]
    else:
        assert reply == want


def test_binding_conditions_are_copied_per_device() -> None:
    """device-binding-conditions, binding-conditions-multiple-devices, binding-conditions-with-and-without."""
    devices = [D2, device("d1", bindingConditions=["a", "b"], bindingFailureConditions=["c"])]
    reply = answer([pool(*devices)], [claim(request("r0"), request("r1"))])

    first, second = reply["allocations"][0]["devices"]["results"]
    assert "bindingConditions" not in first
    assert (second["bindingConditions"], second["bindingFailureConditions"]) == (["a", "b"], ["c"])


@pytest.mark.parametrize(
    ("name", "consumed"),
    [
        ("consumable-capacity-multi-allocatable-device-with-range-policy-with-capacity-request", "2"),
        ("consumable-capacity-multi-allocatable-device-with-range-policy-step", "4"),
        ("consumable-capacity-multi-allocatable-device-with-valid-values-policy", "2"),
        ("consumable-capacity-multi-allocatable-device-with-policy-without-capacity-request", "2"),
        ("consumable-capacity-multi-allocatable-device-with-zero-request-policy", "0"),
        ("consumable-capacity-multi-allocatable-device-without-policy-without-capacity-request", "4"),
    ],
)
def test_what_a_share_consumes_is_recorded(name: str, consumed: str) -> None:
    slices, wanted, _, more = CASES[name]
    entry = answer(slices, wanted, **more)["allocations"][0]["devices"]["results"][0]

    assert (entry["shareID"], entry["consumedCapacity"]) == ("share-1", {"memory": consumed})


def test_tolerations_are_copied_to_every_result() -> None:
    slices, wanted, _, _ = CASES["partitionable-devices-with-binding-conditions-and-taints-tolerated"]
    entries = answer(slices, wanted)["allocations"][0]["devices"]["results"]

    assert [entry["tolerations"] for entry in entries] == [TOLERATE, TOLERATE]


def test_classes_can_exclude_shareable_devices() -> None:
    exclusive = device_class()
    exclusive["spec"]["selectors"].append({"cel": {"expression": "device.allowMultipleAllocations == false"}})

    assert picked(answer([pool(shared("d1"))], [claim(request())], classes=[exclusive])) == ["none"]
