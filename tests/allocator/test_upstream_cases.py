"""Upstream's allocator tests by name, part 1: selection, All, constraints, configuration, lists of alternatives.

The names are those of `structured/internal/allocatortesting/allocator_testing.go`; what is asked is our own
reading of each, in our own words. `want` is what `picked` gives: `request=device` in order, or a part of the
error, or "none". upstream-tests.md is the table.
"""

from __future__ import annotations

from typing import Any

import pytest

from allocator import ALL_SHORTCUTS, Features, Shortcuts
from tests.allocator.build import answer, asks, claim, device, device_class, first_of, picked, pool, request

Json = dict[str, Any]
NUMA = [{"matchAttribute": "driver-a/numa"}]
INVALID = "invalid resource pools were encountered"
BUSY = "asks for all devices, but resource pool driver-a/pool-1 is currently being updated"
D1, D2, D3 = device("d1"), device("d2"), device("d3")
MEM1, MEM2 = device("d1", memory="1Gi"), device("d2", memory="2Gi")
AT_LEAST = 'device.capacity["driver-a"].memory.compareTo(quantity("{}")) >= 0'
REGION = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "region", "operator": "In", "values": ["region-1"]}]}]}
PLANET = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "planet", "operator": "In", "values": ["earth"]}]}]}
ELSEWHERE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "region", "operator": "In", "values": ["x"]}]}]}
BY_NAME = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]}
TWO = [claim(request("r0")), claim(request("r1"), name="claim-1")]
GI = 2**30


def node_2(*devices: Json, **more: Any) -> Json:
    return pool(*devices, nodeName="node-2", **more)


def two_pools(first: Json, second: Json) -> list[Json]:
    return [pool(first), pool(second, name="pool-2")]


def all_of(**more: Any) -> Json:
    return request(count=None, **more)


def at_least(name: str, size: str) -> Json:
    return request(name, cel=AT_LEAST.format(size))


def both(**more: Any) -> list[Json]:
    return [claim(request("r0"), request("r1"), **more)]


def held(*names: str) -> list[str]:
    return [f"driver-a/pool-1/{name}" for name in names]


CASES: dict[str, tuple[list[Json], list[Json], list[str], Json]] = {
    # name: (slices, claims, want, keyword arguments of `answer`)
    "empty": ([], [], [], {}),
    "simple": ([pool(D1)], [claim(request())], ["req-0=d1"], {}),
    "other-node": ([node_2(D1, name="p2"), pool(D2)], [claim(request())], ["req-0=d2"], {}),
    "small-and-large": ([pool(MEM1, MEM2)], [claim(at_least("s", "1Gi"), at_least("l", "2Gi"))], ["s=d1", "l=d2"], {}),
    "small-and-large-backtrack-requests": (
        [pool(MEM2, MEM1)],
        [claim(at_least("s", "1Gi"), at_least("l", "2Gi"))],
        ["s=d1", "l=d2"],
        {},
    ),
    "small-and-large-backtrack-claims": (
        [pool(MEM2, MEM1)],
        [claim(at_least("s", "1Gi")), claim(at_least("l", "2Gi"), name="c1")],
        ["s=d1", "l=d2"],
        {},
    ),
    "devices-split-across-different-slices": (
        two_pools(D1, D2),
        [claim(request(count=2))],
        ["req-0=d1", "req-0=d2"],
        {},
    ),
    "obsolete-slice": (
        [pool(D1, slice_name="old"), pool(D2, slice_name="new", generation=2, size=2)],
        [claim(request())],
        ["none"],
        {},
    ),
    "duplicate-slice": (
        [pool(D1, slice_name="s1", size=2), pool(D1, slice_name="s2", size=2)],
        [claim(request())],
        [INVALID],
        {},
    ),
    "no-slices": ([], [claim(request())], ["none"], {}),
    "not-enough-suitable-devices": ([pool(D1)], TWO, ["none"], {}),
    "no-classes": ([pool(D1)], [claim(request())], ["could not retrieve device class class-a"], {"classes": []}),
    "unknown-class": (
        [pool(D1)],
        [claim(request(cls="unknown-class"))],
        ["could not retrieve device class unknown-class"],
        {},
    ),
    "empty-class": (
        [pool(D1)],
        [claim(request(cls=""))],
        ["missing device class name (unsupported request type?)"],
        {},
    ),
    "no-claims-to-allocate": ([pool(D1)], [], [], {}),
    # All mode.
    "all-devices-single": ([pool(D1)], [claim(all_of())], ["req-0=d1"], {}),
    "all-devices-with-consumed-counters": (
        [pool(counters={"m": 4}, size=2, slice_name="c"), pool(device("d1", counters={"m": 4}), size=2)],
        [claim(all_of())],
        ["req-0=d1"],
        {},
    ),
    "all-devices-many": (two_pools(D1, D2), [claim(all_of())], ["req-0=d1", "req-0=d2"], {}),
    "all-devices-of-the-incomplete-pool": ([pool(D1, size=2)], [claim(all_of())], [BUSY], {}),
    "all-devices-plus-another": (
        [pool(D1), pool(D2, driver="driver-b")],
        [claim(all_of()), claim(request("b", cls="class-b"), name="c1")],
        ["req-0=d1", "b=d2"],
        {},
    ),
    "all-devices-plus-another-reversed": (
        [pool(D1), pool(D2, driver="driver-b")],
        [claim(request("b", cls="class-b")), claim(all_of(), name="c1")],
        ["b=d2", "req-0=d1"],
        {},
    ),
    "all-devices-many-plus-another": (
        [*two_pools(D1, D2), pool(D3, driver="driver-b")],
        [claim(all_of()), claim(request("b", cls="class-b"), name="c1")],
        ["req-0=d1", "req-0=d2", "b=d3"],
        {},
    ),
    "all-devices-many-plus-another-reversed": (
        [*two_pools(D1, D2), pool(D3, driver="driver-b")],
        [claim(request("b", cls="class-b")), claim(all_of(), name="c1")],
        ["b=d3", "req-0=d1", "req-0=d2"],
        {},
    ),
    "all-devices-no-solution": ([pool(D1)], [claim(request()), claim(all_of(), name="c1")], ["none"], {}),
    "all-devices-no-solution-reversed": ([pool(D1)], [claim(all_of()), claim(request(), name="c1")], ["none"], {}),
    "all-devices-slice-without-devices": ([pool()], [claim(all_of())], ["none"], {}),
    "all-devices-no-slices": ([], [claim(all_of())], ["none"], {}),
    "all-devices-some-allocated": ([pool(D1, D2)], [claim(all_of())], ["none"], {"held": held("d1")}),
    "all-devices-some-allocated-admin-access": (
        [pool(D1, D2)],
        [claim(all_of(adminAccess=True))],
        ["req-0=d1", "req-0=d2"],
        {"held": held("d1")},
    ),
    "all-devices-some-allocating-admin-access": (
        [pool(D1, D2)],
        [claim(request("r0", adminAccess=True), request("r1", None, adminAccess=True))],
        ["none"],
        {},
    ),
    "count-devices-some-allocated-admin-access": (
        [pool(D1, D2)],
        [claim(request(count=2, adminAccess=True))],
        ["req-0=d1", "req-0=d2"],
        {"held": held("d1")},
    ),
    "separate-claims-share-device-admin-access": (
        [pool(D1)],
        [claim(request("r0", adminAccess=True)), claim(request("r1", adminAccess=True), name="c1")],
        ["r0=d1", "r1=d1"],
        {},
    ),
    "admin-access-claims-device-allocating-for-non-admin-access": (
        [pool(D1)],
        [claim(request("r0")), claim(request("r1", adminAccess=True), name="c1")],
        ["r0=d1", "r1=d1"],
        {},
    ),
    "all-devices-slice-without-devices-prioritized-list": (
        [pool(), pool(D2, driver="driver-b")],
        [claim(first_of("r", asks(None), asks(cls="class-b")))],
        ["r/sub-1=d2"],
        {},
    ),
    "all-devices-no-slices-prioritized-list": (
        [pool(D2, driver="driver-b")],
        [claim(first_of("r", asks(None), asks(cls="class-b")))],
        ["r/sub-1=d2"],
        {},
    ),
    "all-devices-some-allocated-prioritized-list": (
        [pool(D1, D2)],
        [claim(first_of("r", asks(None), asks(1)))],
        ["r/sub-1=d2"],
        {"held": held("d1")},
    ),
    # Where devices are.
    "network-attached-device": ([pool(D1, nodeSelector=REGION)], [claim(request())], ["req-0=d1"], {}),
    "unsuccessful-allocation-network-attached-device": (
        [pool(D1, nodeSelector=ELSEWHERE)],
        [claim(request())],
        ["none"],
        {},
    ),
    "many-network-attached-devices": (
        [
            pool(D1, nodeSelector=REGION),
            pool(D2, name="pool-2", allNodes=True),
            pool(D3, name="pool-3", nodeSelector=PLANET),
            pool(device("d4"), name="pool-4", nodeSelector=BY_NAME),
        ],
        [claim(request(count=4))],
        ["req-0=d1", "req-0=d2", "req-0=d3", "req-0=d4"],
        {},
    ),
    "local-and-network-attached-devices": (
        [pool(D1), pool(D2, name="pool-2", nodeSelector=REGION)],
        [claim(request(count=2))],
        ["req-0=d1", "req-0=d2"],
        {},
    ),
    "several-different-drivers": (
        [pool(D1), pool(D2, driver="driver-b")],
        [claim(request("a")), claim(request("b", cls="class-b"), name="c1")],
        ["a=d1", "b=d2"],
        {},
    ),
    "already-allocated-devices": ([pool(D1, D2)], TWO, ["none"], {"held": held("d1", "d2")}),
    "admin-access-disabled": (
        [pool(D1)],
        [claim(request(adminAccess=True))],
        ["admin access is requested, but the feature is disabled"],
        {"features": Features(admin_access=False)},
    ),
    "admin-access-enabled": ([pool(D1)], [claim(request(adminAccess=True))], ["req-0=d1"], {"held": held("d1")}),
    # Constraints.
    "with-constraint": (
        [pool(*(device(n, numa=1, version="v1.2.3", model="x", ecc=True) for n in ("d1", "d2")))],
        both(constraints=[{"matchAttribute": f"driver-a/{n}"} for n in ("numa", "version", "model", "ecc")]),
        ["r0=d1", "r1=d2"],
        {},
    ),
    "with-constraint-non-existent-attribute": ([pool(D1, D2)], both(constraints=NUMA), ["none"], {}),
    "with-constraint-not-matching-int-attribute": (
        [pool(device("d1", numa=0), device("d2", numa=1))],
        [claim(request(count=2), constraints=NUMA)],
        ["none"],
        {},
    ),
    "with-constraint-not-matching-int-attribute-all-devices": (
        [pool(device("d1", numa=0), device("d2", numa=1))],
        [claim(all_of(), constraints=NUMA)],
        ["cannot add device driver-a/pool-1/d2 because a claim constraint would not be satisfied"],
        {},
    ),
    "with-constraint-not-matching-string-attribute": (
        [pool(device("d1", numa="a"), device("d2", numa="b"))],
        both(constraints=NUMA),
        ["none"],
        {},
    ),
    "with-constraint-not-matching-bool-attribute": (
        [pool(device("d1", numa=True), device("d2", numa=False))],
        both(constraints=NUMA),
        ["none"],
        {},
    ),
    "with-constraint-not-matching-version-attribute": (
        [pool(device("d1", numa="v1.0.0"), device("d2", numa="v1.0.1"))],
        both(constraints=NUMA),
        ["none"],
        {},
    ),
    "with-constraint-for-request": (
        [pool(device("d1", numa=0), device("d2", numa=1))],
        both(constraints=[{**NUMA[0], "requests": ["r0"]}]),
        ["r0=d1", "r1=d2"],
        {},
    ),
    "with-constraint-for-request-retry": (
        [pool(device("d1", numa=0, model="x"), device("d2", numa=1, model="y"), device("d3", numa=1, model="y"))],
        both(constraints=[{**NUMA[0], "requests": ["r0"]}, {"matchAttribute": "driver-a/model"}]),
        ["r0=d2", "r1=d3"],
        {},
    ),
    # What is refused before the search.
    "unknown-selector": (
        [pool(D1)],
        [claim({"name": "r", "exactly": {**asks(), "selectors": [{}]}})],
        ["selector #0: CEL expression empty (unsupported selector type?)"],
        {},
    ),
    "unknown-allocation-mode": (
        [pool(D1)],
        [claim({"name": "r", "exactly": {**asks(), "allocationMode": "future-mode"}})],
        ["unsupported count mode future-mode"],
        {},
    ),
    "unknown-constraint": (
        [pool(D1)],
        [claim(request(), constraints=[{}])],
        ["empty constraint (unsupported constraint type?)"],
        {},
    ),
    "invalid-CEL-one-device": ([pool(D1)], [claim(request(cel="noSuchVar"))], ["undeclared reference"], {}),
    "invalid-CEL-one-device-class": (
        [pool(D1)],
        [claim(request())],
        ["class class-a: selector #0: CEL compile error: compilation failed"],
        {"classes": [{"metadata": {"name": "class-a"}, "spec": {"selectors": [{"cel": {"expression": "noSuchVar"}}]}}]},
    ),
    "invalid-CEL-all-devices": ([pool(D1)], [claim(all_of(cel="noSuchVar"))], ["undeclared reference"], {}),
    "too-many-devices-single-request": (
        [],
        [claim(request(count=500))],
        ["devices 500 exceeds the claim limit of 32"],
        {},
    ),
    "many-devices-okay": ([], [claim(request(count=32))], ["none"], {}),
    "too-many-devices-total": (
        [],
        [claim(request("r0", 32), request("r1"))],
        ["devices 33 exceeds the claim limit of 32"],
        {},
    ),
    "all-devices-invalid-CEL": ([], [claim(request(count=500, cel="noSuchVar"))], ["exceeds the claim limit"], {}),
    # Lists of alternatives.
    "prioritized-list-first-unavailable": (
        [pool(D2, driver="driver-b")],
        [claim(first_of("r", asks(), asks(cls="class-b")))],
        ["r/sub-1=d2"],
        {},
    ),
    "prioritized-list-non-available": (
        [pool(D1), pool(D2, driver="driver-b")],
        [claim(first_of("r", asks(2), asks(2, cls="class-b")))],
        ["none"],
        {},
    ),
    "prioritized-list-subrequests-with-expressions": (
        [pool(*(device(n, memory=m) for n, m in (("d1", "2Gi"), ("d2", "2Gi"), ("d3", "1Gi"))))],
        [
            claim(
                request("r0", cel=AT_LEAST.format("1Gi")),
                first_of("r1", asks(cel=AT_LEAST.format("4Gi")), asks(2, cel=AT_LEAST.format("2Gi"))),
            )
        ],
        ["r0=d3", "r1/sub-1=d1", "r1/sub-1=d2"],
        {},
    ),
    "prioritized-list-subrequests-with-constraints-ref-parent-request": (
        [pool(device("d1", numa=0), device("d2", numa=1, big=True), device("d3", numa=0))],
        [
            claim(
                request("r0", cel='device.attributes["driver-a"].numa == 0'),
                first_of("r1", asks(cel='device.attributes["driver-a"].?big.orValue(false)'), asks()),
                constraints=[{**NUMA[0], "requests": ["r0", "r1"]}],
            )
        ],
        ["r0=d1", "r1/sub-1=d3"],
        {},
    ),
    "prioritized-list-subrequests-with-constraints-ref-sub-request": (
        [pool(device("d1", numa=0), device("d2", numa=1))],
        [
            claim(
                request("r0"),
                first_of("r1", asks(), asks()),
                constraints=[{**NUMA[0], "requests": ["r0", "r1/sub-0"]}],
            )
        ],
        ["r0=d1", "r1/sub-1=d2"],
        {},
    ),
    "prioritized-list-subrequests-with-allocation-mode-all": (
        [pool(D1, D2)],
        [claim(first_of("r", asks(None), asks()))],
        ["r/sub-1=d1"],
        {"held": held("d2")},
    ),
    "prioritized-list-allocation-mode-all-multiple-requests": (
        [pool(D1, D2)],
        [claim(request("r0"), first_of("r1", asks(None), asks()))],
        ["r0=d1", "r1/sub-1=d2"],
        {},
    ),
    "prioritized-list-disabled": (
        [pool(D1)],
        [claim(first_of("r", asks()))],
        ["has subrequests, but the DRAPrioritizedList feature is disabled"],
        {"features": Features(prioritized_list=False)},
    ),
    "prioritized-list-multi-request": (
        [pool(device("d1", memory="8Gi"), device("d2", memory="4Gi"))],
        [
            claim(
                request("r0", cel=AT_LEAST.format("8Gi")),
                first_of("r1", asks(cel=AT_LEAST.format("8Gi")), asks(cel=AT_LEAST.format("4Gi"))),
            )
        ],
        ["r0=d1", "r1/sub-1=d2"],
        {},
    ),
    "prioritized-list-with-backtracking": (
        [pool(device("d1", memory="8Gi"), device("d2", memory="4Gi"))],
        [
            claim(
                first_of("r0", asks(cel=AT_LEAST.format("8Gi")), asks(cel=AT_LEAST.format("4Gi"))),
                request("r1", cel=AT_LEAST.format("8Gi")),
            )
        ],
        ["r0/sub-1=d2", "r1=d1"],
        {},
    ),
    "prioritized-list-too-many-in-first-subrequest": (
        [pool(D1)],
        [claim(first_of("r", asks(500), asks()))],
        ["r/sub-1=d1"],
        {},
    ),
    "prioritized-list-allocation-mode-all": (
        [pool(D1, D2)],
        [claim(first_of("r", asks(None), asks()))],
        ["r/sub-1=d2"],
        {"held": held("d1")},
    ),
    "prioritized-list-allocation-mode-all-with-selectors": (
        [pool(D1, D2), pool(D3, driver="driver-b")],
        [claim(first_of("r", asks(None, cel="false"), asks(None, cls="class-b")))],
        ["r/sub-1=d3"],
        {},
    ),
    "prioritized-list-allocation-mode-all-with-selectors-multiple-pools": (
        two_pools(device("d1", numa=0), device("d2", numa=0)),
        [claim(first_of("r", asks(None, cel="false"), asks(None, cel='device.attributes["driver-a"].numa == 0')))],
        ["r/sub-1=d1", "r/sub-1=d2"],
        {},
    ),
    "prioritized-list-allocation-mode-all-with-selectors-multiple-pools-across-nodes": (
        [pool(D1), node_2(D2, name="pool-2")],
        [claim(first_of("r", asks(None), asks()))],
        ["r/sub-0=d1"],
        {},
    ),
    "prioritized-list-allocation-mode-all-with-selectors-deviceclass-subset": (
        [pool(D1), pool(D2, driver="driver-b")],
        [claim(first_of("r", asks(None), asks()))],
        ["r/sub-0=d1"],
        {},
    ),
    "max-number-devices": (
        [pool(*(device(f"d{n:02}") for n in range(32)))],
        [claim(request(count=32))],
        [f"req-0=d{n:02}" for n in range(32)],
        {},
    ),
    "prioritized-list-max-allocation-limit-request": (
        [pool(*(device(f"d{n:02}") for n in range(32)))],
        [claim(first_of("a", asks(32), asks(16)), first_of("b", asks(32), asks(16)))],
        [f"a/sub-1=d{n:02}" for n in range(16)] + [f"b/sub-1=d{n:02}" for n in range(16, 32)],
        {},
    ),
    "prioritized-list-max-allocation-allocation-mode-all": (
        [pool(*(device(f"d{n:02}") for n in range(31))), pool(device("x"), device("y"), driver="driver-b")],
        [claim(first_of("a", asks(None), asks(1)), request("b", 2, cls="class-b"))],
        ["a/sub-1=d00", "b=x", "b=y"],
        {},
    ),
    # Completeness and generations.
    "allocation-mode-all-with-multi-host-resource-pool": (
        [pool(D1, size=2, slice_name="s1"), node_2(D2, size=2, slice_name="s2")],
        [claim(all_of())],
        ["req-0=d1"],
        {},
    ),
    "multi-host-resource-pool-with-stale-slice-for-current-node": (
        [pool(D1, size=2, slice_name="s1"), node_2(D2, size=2, generation=2, slice_name="s2")],
        [claim(request())],
        ["none"],
        {},
    ),
    "multi-host-resource-pool-complete-update-from-node-1-to-node-2": (
        [pool(D1, slice_name="s1"), node_2(D2, generation=2, slice_name="s2")],
        [claim(request())],
        ["req-0=d1"],
        {},
    ),
    "multi-host-resource-pool-complete-update-from-node-2-to-node-1": (
        [node_2(D2, slice_name="s2"), pool(D1, generation=2, slice_name="s1")],
        [claim(request())],
        ["req-0=d1"],
        {},
    ),
    "multi-host-resource-pool-incomplete-update-from-node-1-to-node-2": (
        [pool(D1, slice_name="s1"), node_2(D2, generation=2, size=2, slice_name="s2")],
        [claim(request())],
        ["req-0=d1"],
        {},
    ),
    "multi-host-resource-pool-incomplete-update-from-node-2-to-node-1": (
        [node_2(D2, slice_name="s2"), pool(D1, generation=2, size=2, slice_name="s1")],
        [claim(request())],
        ["none"],
        {},
    ),
    "different-resourceslices-in-pool-can-target-different-nodes": (
        [node_2(D1, size=2, slice_name="s1"), pool(D2, size=2, slice_name="s2")],
        [claim(request())],
        ["req-0=d2"],
        {},
    ),
    "invalid-pool-is-ok-if-devices-can-be-allocated-from-other": (
        [pool(D1, D1), pool(D2, name="pool-2")],
        [claim(request())],
        ["req-0=d2"],
        {},
    ),
    "invalid-pool-is-error-if-no-other-device-can-be-allocated": ([pool(D1, D1)], [claim(request())], [INVALID], {}),
    "no-allocation-from-incomplete-pools": ([pool(D1, size=2)], [claim(request())], ["none"], {}),
    "check-combinations-with-backtracking": (
        [pool(device("d1", last=True), D2, D3)],
        [claim(request("r0", 2), request("r1", cel='device.attributes["driver-a"].?last.orValue(false)'))],
        ["r0=d2", "r0=d3", "r1=d1"],
        {},
    ),
    "check-combinations-with-prioritized-list": (
        [pool(D1, D2, D3)],
        [claim(first_of("r0", asks(3), asks(2)), first_of("r1", asks(2), asks(1)))],
        ["r0/sub-1=d1", "r0/sub-1=d2", "r1/sub-1=d3"],
        {},
    ),
    # Order of pools and slices.
    "lexicographical-sorting-pools": (
        [pool(D2, name="pool-2"), pool(D1, name="pool-1")],
        [claim(request(count=2))],
        ["req-0=d1", "req-0=d2"],
        {},
    ),
    "lexicographical-sorting-pools-with-binding-conditions": (
        [pool(device("d1", bindingConditions=["x"])), pool(D2, name="pool-2")],
        [claim(request(count=2))],
        ["req-0=d2", "req-0=d1"],
        {},
    ),
    "lexicographical-sorting-slices": (
        [pool(D2, slice_name="slice-2", size=2), pool(D1, slice_name="slice-1", size=2)],
        [claim(request(count=2))],
        ["req-0=d1", "req-0=d2"],
        {},
    ),
    "lexicographical-sorting-slices-with-binding-conditions": (
        [
            pool(D2, slice_name="slice-2", size=2),
            pool(device("d1", bindingConditions=["x"]), slice_name="slice-1", size=2),
        ],
        [claim(request(count=2))],
        ["req-0=d1", "req-0=d2"],
        {},
    ),
}


@pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, Shortcuts.none()], ids=["on", "off"])
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, shortcuts: Shortcuts) -> None:
    slices, claims, want, more = CASES[name]
    got = picked(answer(slices, claims, shortcuts=shortcuts, **more))

    if got and "=" not in got[0] and got != ["none"]:
        assert len(want) == 1
        assert want[0] in got[0]
    else:
        assert got == want


def results(slices: list[Json], claims: list[Json], **more: Any) -> Json:
    reply = answer(slices, claims, **more)
    assert reply["outcome"] == "allocated", reply
    allocation: Json = reply["allocations"][0]
    return allocation


def test_network_attached_devices_hand_their_selectors_on() -> None:
    """many-network-attached-devices: one term with the union of expressions and fields."""
    slices, claims, _, _ = CASES["many-network-attached-devices"]

    assert results(slices, claims)["nodeSelector"] == {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "region", "operator": "In", "values": ["region-1"]},
                    {"key": "planet", "operator": "In", "values": ["earth"]},
                ],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
            }
        ]
    }


def test_one_local_device_ties_the_claim_to_the_node() -> None:
    """local-and-network-attached-devices, node-restriction."""
    slices, claims, _, _ = CASES["local-and-network-attached-devices"]
    binding = pool(device("d1", bindsToNode=True), nodeSelector=REGION)

    assert results(slices, claims)["nodeSelector"] == BY_NAME
    assert results([binding], [claim(request())])["nodeSelector"] == BY_NAME
    assert "nodeSelector" not in results([pool(D1, allNodes=True)], [claim(request())])


CONFIG = [{"opaque": {"driver": "driver-a", "parameters": {"a": 1}}}]
OPAQUE = CONFIG[0]["opaque"]


def entry(source: str, requests: list[str]) -> Json:
    return {"source": source, "requests": requests, "opaque": OPAQUE}


def test_configuration_of_classes_and_claims() -> None:
    """with-class-device-config(-with-multiple-request-and-configs), claim-with-device-config,
    with-claim-config-for-two-requests."""
    classes = [device_class(config=CONFIG), device_class("class-b", "driver-b", config=CONFIG)]
    slices = [pool(D1, D2), pool(D3, driver="driver-b")]
    three = claim(
        request("r0"), request("r1"), request("r2", cls="class-b"), config=[{**CONFIG[0], "requests": ["r0", "r2"]}]
    )

    assert results(slices, [three], classes=classes)["devices"]["config"] == [
        entry("FromClass", ["r0", "r1"]),
        entry("FromClass", ["r2"]),
        entry("FromClaim", ["r0", "r2"]),
        entry("FromClaim", ["r0", "r2"]),
    ]
    assert results(slices, [three], classes=classes, features=Features(kubernetes="1.37"))["devices"]["config"] == [
        entry("FromClass", ["r0", "r1"]),
        entry("FromClass", ["r2"]),
        entry("FromClaim", ["r0", "r2"]),
    ]


@pytest.mark.parametrize(("kubernetes", "requests"), [("1.36", ["r/sub-1"]), ("1.37", None)])
def test_configuration_follows_the_chosen_alternative(kubernetes: str, requests: list[str] | None) -> None:
    """prioritized-list-device-config, prioritized-list-class-config."""
    classes = [
        device_class(config=[{"opaque": {"driver": "x", "parameters": {}}}]),
        device_class("class-b", "driver-b", config=CONFIG),
    ]
    wanted = claim(
        first_of("r", asks(), asks(cls="class-b")),
        config=[{**CONFIG[0], "requests": ["r/sub-0"]}, {**CONFIG[0], "requests": ["r/sub-1"]}],
    )
    got = results([pool(D1, driver="driver-b")], [wanted], classes=classes, features=Features(kubernetes=kubernetes))

    assert [(item["source"], item.get("requests")) for item in got["devices"]["config"]] == [
        ("FromClass", requests),
        ("FromClaim", requests),
    ]


def test_configuration_naming_sub_requests_is_kept_or_cleared_in_1_37() -> None:
    """claim-config-scoped-to-subrequests-of-one-request, claim-config-covering-all-requests-is-cleared."""
    wanted = claim(
        first_of("r0", asks(), asks()),
        request("r1"),
        config=[{**CONFIG[0], "requests": ["r0/sub-0", "r0/sub-1"]}, {**CONFIG[0], "requests": ["r0/sub-0", "r1"]}],
    )
    got = results([pool(D1, D2)], [wanted], features=Features(kubernetes="1.37"))

    assert [item.get("requests") for item in got["devices"]["config"]] == [["r0/sub-0", "r0/sub-1"], None]
