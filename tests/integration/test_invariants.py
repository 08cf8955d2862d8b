"""The checker itself: silent on a correct state, and each planted violation is found, and only that one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from tests.integration.invariants import FINALIZER, State, check, check_preemptions, pod_requests, quantity

DRIVER = "gpu.example.com"


def node(name: str, **allocatable: str) -> dict[str, Any]:
    offer = {"cpu": "4", "memory": "8Gi", "pods": "10", **allocatable}
    return {"metadata": {"name": name, "labels": {"zone": "a"}}, "status": {"allocatable": offer}}


def resource_slice(pool: str, devices: list[dict[str, Any]], generation: int = 1, **spec: Any) -> dict[str, Any]:
    where = {} if {"allNodes", "perDeviceNodeSelection", "nodeSelector"} & spec.keys() else {"nodeName": pool}
    pool_of = {"name": pool, "generation": generation, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{pool}-{generation}"},
        "spec": {"driver": DRIVER, "pool": pool_of, "devices": devices, **where, **spec},
    }


def result(pool: str, device: str, **more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": DRIVER, "pool": pool, "device": device, **more}


def claim(name: str, *results: dict[str, Any], pods: tuple[str, ...] = (), on: str = "node-1") -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
    return {
        "metadata": {"namespace": "ns", "name": name, "finalizers": [FINALIZER]},
        "status": {
            "allocation": {"devices": {"results": list(results)}, "nodeSelector": {"nodeSelectorTerms": [term]}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods],
        },
    }


def pod(name: str, claim_name: str, on: str = "node-1") -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
        "spec": {
            "nodeName": on,
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"phase": "Pending"},
    }


COUNTERS = {"consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "10Gi"}}}]}
SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}


def share(number: int, memory: str) -> dict[str, Any]:
    return {"shareID": f"share-{number}", "consumedCapacity": {"memory": memory}}


def correct() -> dict[str, list[dict[str, Any]]]:
    """Two nodes; dedicated, shared, partitioned and adminAccess devices in use, all by the rules."""
    counters = {"sharedCounters": [{"name": "set", "counters": {"memory": {"value": "20Gi"}}}]}
    return {
        "nodes": [node("node-1"), node("node-2")],
        "slices": [
            resource_slice("node-1", [{"name": "old-device"}], generation=1),
            resource_slice("node-1", [{"name": "gpu-0"}, {"name": "gpu-1"}, {"name": "shared", **SHARED}], 2),
            resource_slice("node-2", [{"name": f"part-{number}", **COUNTERS} for number in range(3)]),
            resource_slice("node-2", [], **counters),
        ],
        "claims": [
            claim("one", result("node-1", "gpu-0"), pods=("a",)),
            claim("two", result("node-1", "gpu-1"), result("node-1", "shared", **share(1, "4Gi")), pods=("b", "c")),
            claim("three", result("node-1", "shared", **share(2, "6Gi")), pods=("d",)),
            claim("parts", result("node-2", "part-0"), result("node-2", "part-1"), pods=("e",), on="node-2"),
            claim("admin", result("node-1", "gpu-0", adminAccess=True), pods=("f",)),
            {"metadata": {"namespace": "ns", "name": "pending"}, "status": {}},
        ],
        "pods": [
            pod("a", "one"),
            pod("b", "two"),
            pod("c", "two"),
            pod("d", "three"),
            pod("e", "parts", on="node-2"),
            pod("waiting", "pending", on=""),
        ],
    }  # fmt: skip


def asks_gpus(state: dict[str, list[dict[str, Any]]]) -> None:
    """Pod a asks for an extended resource, which its node does not have."""
    named(state["pods"], "a")["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"


def extended_claim(state: dict[str, list[dict[str, Any]]], request: str) -> None:
    """Pod a is told that this request of its claim one stands for the resource."""
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": request}
    told = {"resourceClaimName": "one", "requestMappings": [mapping]}
    named(state["pods"], "a")["status"]["extendedResourceClaimStatus"] = told
    named(state["claims"], "one")["metadata"]["ownerReferences"] = [{"kind": "Pod", "uid": "uid-a"}]


def test_extended_resources_may_be_served_by_devices_or_by_the_node() -> None:
    by_devices, by_node = correct(), correct()
    for state in (by_devices, by_node):
        asks_gpus(state)
    extended_claim(by_devices, "r")
    by_node["nodes"][0]["status"]["allocatable"]["example.com/gpu"] = "1"
    assert check(State(**by_devices)) == check(State(**by_node)) == []


def test_a_correct_state_has_no_violation() -> None:
    assert check(State(**correct())) == []


def test_what_claims_take_of_a_node_may_be_told_and_fit() -> None:
    state = correct()
    takes_cpu(state, "1", "1")
    state["nodes"][0]["status"]["allocatable"]["cpu"] = "5"
    assert check(State(**state)) == []


Plant = Callable[[dict[str, list[dict[str, Any]]]], object]


def named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["metadata"]["name"] == name)


def results_of(state: dict[str, list[dict[str, Any]]], name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = named(state["claims"], name)["status"]["allocation"]["devices"]["results"]
    return found


def reserve(state: dict[str, list[dict[str, Any]]], name: str, count: int) -> None:
    consumers = named(state["claims"], name)["status"]["reservedFor"]
    consumers += [{"resource": "pods", "name": f"more-{n}", "uid": f"more-{n}"} for n in range(count)]


def generated(item: dict[str, Any], **statuses: Any) -> None:
    item["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "template"}]
    item["status"].update(statuses)


def takes_cpu(state: dict[str, list[dict[str, Any]]], cpu: str, told: str | None) -> None:
    """The device of pod a takes of its node, and the pod's status says how much."""
    state["slices"][1]["spec"]["devices"][0]["nodeAllocatableResourceMappings"] = {"cpu": {"allocationMultiplier": cpu}}
    if told is not None:
        note = {"resourceClaimName": "one", "containers": ["main"], "resources": {"cpu": told}}
        named(state["pods"], "a")["status"]["nodeAllocatableResourceClaimStatuses"] = [note]


PLANTED: list[tuple[str, str, str, Plant]] = [
    ("two-claims", "device-in-two-claims", f"{DRIVER}/node-1/gpu-0",
     lambda s: s["claims"].append(claim("thief", result("node-1", "gpu-0")))),
    ("twice-in-one-claim", "device-in-two-claims", f"{DRIVER}/node-1/gpu-0",
     lambda s: results_of(s, "one").append(result("node-1", "gpu-0"))),
    ("dedicated-beside-a-share", "device-in-two-claims", f"{DRIVER}/node-1/shared",
     lambda s: s["claims"].append(claim("thief", result("node-1", "shared")))),
    ("same-pool-name-of-another-driver-is-another-device", "device-not-published", "other.com/node-1/gpu-0",
     lambda s: s["claims"].append(claim("other", {**result("node-1", "gpu-0"), "driver": "other.com"}))),
    ("share-of-a-dedicated-device", "share-not-allowed", f"{DRIVER}/node-1/gpu-0",
     lambda s: results_of(s, "one")[0].update(shareID="share-9")),
    ("share-id-twice", "share-not-allowed", f"{DRIVER}/node-1/shared",
     lambda s: results_of(s, "three")[0].update(shareID="share-1")),
    ("shares-too-large", "capacity-exceeded", f"{DRIVER}/node-1/shared",
     lambda s: results_of(s, "three")[0].update(consumedCapacity={"memory": "6145Mi"})),
    ("qualified-capacity-name-is-the-same-capacity", "capacity-exceeded", f"{DRIVER}/node-1/shared",
     lambda s: results_of(s, "three")[0].update(consumedCapacity={f"{DRIVER}/memory": "11Gi"})),
    ("two-spellings-of-a-capacity", "capacity-exceeded", f"{DRIVER}/node-1/shared",
     lambda s: results_of(s, "three")[0].update(consumedCapacity={f"{DRIVER}/memory": "7Gi"})),
    ("share-below-zero", "capacity-exceeded", f"{DRIVER}/node-1/shared",
     lambda s: (results_of(s, "three")[0].update(consumedCapacity={"memory": "-9Gi"}),
                s["claims"].append(claim("more", result("node-1", "shared") | share(9, "7Gi"))))),
    ("third-partition", "counter-exceeded", f"{DRIVER}/node-2",
     lambda s: s["claims"].append(claim("thief", result("node-2", "part-2"), on="node-2"))),
    ("device-of-an-old-generation", "device-not-published", f"{DRIVER}/node-1/old-device",
     lambda s: s["claims"].append(claim("stale", result("node-1", "old-device")))),
    ("slice-withdrawn", "device-not-published", f"{DRIVER}/node-1/gpu-1",
     lambda s: s["slices"][1]["spec"]["devices"].pop(1)),
    ("reservation-missing", "pod-not-reserved", "ns/c",
     lambda s: named(s["claims"], "two")["status"]["reservedFor"].pop()),
    ("reservation-of-an-earlier-pod-of-that-name", "pod-not-reserved", "ns/a",
     lambda s: named(s["claims"], "one")["status"]["reservedFor"][0].update(uid="uid-of-before")),
    ("claim-unallocated", "pod-not-reserved", "ns/a",
     lambda s: named(s["claims"], "one").update(status={})),
    ("claim-gone", "pod-not-reserved", "ns/a",
     lambda s: s["claims"].remove(named(s["claims"], "one"))),
    ("bound-before-its-claim-was-generated", "pod-not-reserved", "ns/a",
     lambda s: generated(named(s["pods"], "a"))),
    ("somebody-elses-generated-claim", "foreign-claim", "ns/a",
     lambda s: generated(named(s["pods"], "a"), resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "one"}])),
    ("somebody-elses-extended-resource-claim", "foreign-claim", "ns/a",
     lambda s: named(s["pods"], "a")["status"].update(extendedResourceClaimStatus={"resourceClaimName": "one"})),
    ("extended-resource-of-nobody", "resource-unserved", "ns/a", asks_gpus),
    ("extended-resource-by-a-request-without-devices", "resource-unserved", "ns/a", lambda s: (
        asks_gpus(s), extended_claim(s, "other"))),
    ("allocation-for-another-node", "wrong-node", "ns/a",
     lambda s: named(s["claims"], "one")["status"]["allocation"].update(
         nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}]}
     )),
    ("device-of-another-node", "wrong-node", "ns/a",
     lambda s: (s["slices"][1]["spec"].pop("nodeName"), s["slices"][1]["spec"].update(
         perDeviceNodeSelection=True), [d.update(allNodes=True) for d in s["slices"][1]["spec"]["devices"][1:]],
         s["slices"][1]["spec"]["devices"][0].update(nodeName="node-2"))),
    ("no-finalizer", "no-finalizer", "ns/one",
     lambda s: named(s["claims"], "one")["metadata"].pop("finalizers")),
    ("reserved-without-allocation", "reserved-unallocated", "ns/pending",
     lambda s: named(s["claims"], "pending").update(status={"reservedFor": [{"name": "x", "uid": "x"}]})),
    ("consumers-257", "too-many-consumers", "ns/two", lambda s: reserve(s, "two", 255)),
    ("node-cpu", "node-overcommitted", "node-1",
     lambda s: named(s["pods"], "a")["spec"]["containers"][0]["resources"].update(requests={"cpu": "1500m"})),
    ("node-cpu-by-a-claim", "node-overcommitted", "node-1", lambda s: takes_cpu(s, "1", "1000m")),
    ("what-a-claim-takes-is-not-told", "taking-untold", "ns/a", lambda s: (
        takes_cpu(s, "1", None), s["nodes"][0]["status"]["allocatable"].update(cpu="5"))),
    ("what-a-claim-takes-is-told-wrong", "taking-untold", "ns/a", lambda s: (
        takes_cpu(s, "1", "2"), s["nodes"][0]["status"]["allocatable"].update(cpu="5"))),
    ("node-pods", "node-overcommitted", "node-1", lambda s: s["nodes"][0]["status"]["allocatable"].update(pods="3")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "subject", "plant"), [pytest.param(*row[1:], id=row[0]) for row in PLANTED])
def test_a_planted_violation_is_found(kind: str, subject: str, plant: Plant) -> None:
    state = correct()
    plant(state)

    assert [(found.kind, found.subject) for found in check(State(**state))] == [(kind, subject)]


def test_a_claim_replaced_after_the_binding_is_told_as_that() -> None:
    """Pod a was bound with claim one; the claim controller has made it another one since then."""
    state = correct()
    owners = [{"kind": "Pod", "uid": "uid-a"}]
    named(state["claims"], "pending")["metadata"]["ownerReferences"] = owners
    generated(named(state["pods"], "a"), resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "pending"}])

    (found,) = check(State(**state))
    assert found.kind == "pod-not-reserved"
    assert "; one is: did the claim controller replace it after the binding?" in found.text


def test_a_groups_claim_is_its_pods_and_nobody_elses() -> None:
    """Claim two is a PodGroup's and reserved for it; b is of that group, c of another one."""
    state = correct()
    shared = named(state["claims"], "two")
    shared["metadata"]["ownerReferences"] = [{"kind": "PodGroup", "name": "group", "uid": "uid-group"}]
    shared["status"]["reservedFor"] = [{"resource": "podgroups", "name": "group", "uid": "uid-group"}]
    for name, group in (("b", "group"), ("c", "other")):
        generated(named(state["pods"], name), resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "two"}])
        named(state["pods"], name)["spec"]["schedulingGroup"] = {"podGroupName": group}

    found = [(one.kind, one.subject) for one in check(State(**state))]
    assert found == [("foreign-claim", "ns/c"), ("pod-not-reserved", "ns/c")]


def test_exactly_256_consumers_are_allowed() -> None:
    state = correct()
    reserve(state, "two", 254)

    assert check(State(**state)) == []


def test_a_finished_pod_owes_nothing_and_takes_nothing() -> None:
    state = correct()
    state["claims"].remove(named(state["claims"], "one"))
    named(state["pods"], "a")["status"]["phase"] = "Succeeded"
    state["nodes"][0]["status"]["allocatable"]["cpu"] = "3"

    assert check(State(**state)) == []


def test_the_order_of_the_objects_does_not_matter() -> None:
    state = correct()
    for _, _, _, plant in PLANTED[:6]:
        plant(state)
    backwards = {key: list(reversed(copy.deepcopy(items))) for key, items in state.items()}

    want = {(found.kind, found.subject) for found in check(State(**state))}
    assert len(want) >= 4
    assert {(found.kind, found.subject) for found in check(State(**backwards))} == want


def test_pod_requests_take_the_larger_of_init_and_running_with_sidecars_and_overhead() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [container("1", restartPolicy="Always"), container("3")],
        "containers": [container("1500m"), container("500m")],
        "overhead": {"cpu": "100m"},
    }
    # The second init step runs beside the sidecar: 1 + 3 = 4 > 1 + 2.
    assert pod_requests({"spec": spec}) == {"cpu": Fraction(41, 10)}
    assert pod_requests({"spec": spec}, [{"cpu": Fraction(1)}]) == {"cpu": Fraction(51, 10)}
    spec["resources"] = {"requests": {"cpu": "7"}}
    assert pod_requests({"spec": spec}, [{"cpu": Fraction(1)}]) == {"cpu": Fraction(71, 10)}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("80Gi", 80 * 2**30),
        ("1500m", Fraction(3, 2)),
        ("2.5e3", 2500),
        ("5E", 5 * 10**18),
        ("1u", Fraction(1, 10**6)),
        (".5", Fraction(1, 2)),
    ],
)
def test_quantity(text: str, want: Fraction) -> None:
    assert quantity(text) == want


def test_quantity_names_what_it_cannot_read() -> None:
    with pytest.raises(ValueError, match="quantity '5X'"):
        quantity("5X")


def _with_priority(name: str, priority: int | None) -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": {"priority": priority}}


@pytest.mark.parametrize(
    ("victim", "preemptor", "wrong"), [(5, 5, True), (6, 5, True), (0, None, True), (4, 5, False), (None, 1, False)]
)
def test_only_the_less_important_may_be_preempted(victim: int | None, preemptor: int | None, wrong: bool) -> None:
    pods = {"low": _with_priority("low", victim), "high": _with_priority("high", preemptor)}
    event = {"reason": "Preempted", "regarding": {"uid": "low"}, "related": {"uid": "high"}}
    found = list(check_preemptions(pods, [event, {"reason": "Scheduled"}]))
    assert [one.kind for one in found] == ["equal-preempted"] * wrong
