"""Claims, slices and classes: what the API refuses, fills in and keeps, the same on both servers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.embedded.rest_client import (
    DRA,
    STRATEGIC,
    RestClient,
    allocation,
    claim,
    consumer,
    pod,
    request,
    resource_slice,
)

INVALID, REQUIRED, FORBIDDEN = "FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"
MANY, DUPLICATE, UNSUPPORTED, LONG = (
    "FieldValueTooMany",
    "FieldValueDuplicate",
    "FieldValueNotSupported",
    "FieldValueTooLong",
)
UID = "11111111-2222-3333-4444-555555555555"
EXACTLY = "spec.devices.requests[0].exactly"


def _selector(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


# -- claims ----------------------------------------------------------------------------------------

BAD_CLAIMS = {
    "request-without-a-class": (claim("c", {"name": "r", "exactly": {}}), REQUIRED, f"{EXACTLY}.deviceClassName"),
    "request-name-is-no-label": (claim("c", request("Bad_")), INVALID, "spec.devices.requests[0].name"),
    "request-twice": (claim("c", request("a"), request("a")), DUPLICATE, "spec.devices.requests[1]"),
    "request-of-nothing": (claim("c", {"name": "r"}), REQUIRED, "spec.devices.requests[0]"),
    "too-many-requests": (claim("c", *(request(f"r{i}") for i in range(33))), MANY, "spec.devices.requests"),
    "count-zero-is-one-but-negative-is-refused": (claim("c", request(count=-1)), INVALID, f"{EXACTLY}.count"),
    "all-with-a-count": (claim("c", request(allocationMode="All", count=2)), INVALID, f"{EXACTLY}.count"),
    "unknown-mode": (claim("c", request(allocationMode="Some")), UNSUPPORTED, f"{EXACTLY}.allocationMode"),
    "class-name": (claim("c", request(deviceClassName="Bad_")), INVALID, f"{EXACTLY}.deviceClassName"),
    "empty-selector": (claim("c", request(selectors=[{}])), REQUIRED, f"{EXACTLY}.selectors[0].cel"),
    "long-selector": (
        claim("c", request(selectors=[_selector("device.driver == '" + "x" * 10240 + "'")])),
        LONG,
        f"{EXACTLY}.selectors[0].cel.expression",
    ),
    "too-many-selectors": (claim("c", request(selectors=[_selector("true")] * 33)), MANY, f"{EXACTLY}.selectors"),
    "toleration-exists-with-a-value": (
        claim("c", request(tolerations=[{"key": "k", "operator": "Exists", "value": "v"}])),
        INVALID,
        f"{EXACTLY}.tolerations[0].value",
    ),
    "toleration-operator": (
        claim("c", request(tolerations=[{"key": "k", "operator": "Odd"}])),
        UNSUPPORTED,
        f"{EXACTLY}.tolerations[0].operator",
    ),
    "toleration-effect": (
        claim("c", request(tolerations=[{"key": "k", "operator": "Exists", "effect": "PreferNoSchedule"}])),
        UNSUPPORTED,
        f"{EXACTLY}.tolerations[0].effect",
    ),
    "both-kinds-of-request": (
        claim("c", {**request("r"), "firstAvailable": [{"name": "a", "deviceClassName": "x"}]}),
        INVALID,
        "spec.devices.requests[0]",
    ),
    "alternative-twice": (
        claim("c", {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "x"}] * 2}),
        DUPLICATE,
        "spec.devices.requests[0].firstAvailable[1]",
    ),
    "too-many-alternatives": (
        claim("c", {"name": "r", "firstAvailable": [{"name": f"a{i}", "deviceClassName": "x"} for i in range(9)]}),
        MANY,
        "spec.devices.requests[0].firstAvailable",
    ),
    "constraint-on-an-unknown-request": (
        claim("c", constraints=[{"requests": ["other"], "matchAttribute": "a.com/b"}]),
        INVALID,
        "spec.devices.constraints[0].requests[0]",
    ),
    "constraint-without-domain": (
        claim("c", constraints=[{"matchAttribute": "b"}]),
        INVALID,
        "spec.devices.constraints[0].matchAttribute",
    ),
    "constraint-of-nothing": (claim("c", constraints=[{}]), REQUIRED, "spec.devices.constraints[0]"),
    "config-without-opaque": (claim("c", config=[{}]), REQUIRED, "spec.devices.config[0].opaque"),
    "config-without-driver": (
        claim("c", config=[{"opaque": {"parameters": {}}}]),
        REQUIRED,
        "spec.devices.config[0].opaque.driver",
    ),
    "config-parameters-no-object": (
        claim("c", config=[{"opaque": {"driver": "a.com", "parameters": [1]}}]),
        INVALID,
        "spec.devices.config[0].opaque.parameters",
    ),
    "admin-access-needs-the-namespace-label": (
        claim("c", request(adminAccess=True)),
        FORBIDDEN,
        "spec.devices.requests[0].adminAccess",
    ),
}


@pytest.mark.parametrize(("body", "reason", "field"), BAD_CLAIMS.values(), ids=BAD_CLAIMS.keys())
async def test_bad_claims_are_refused(api: RestClient, body: dict[str, Any], reason: str, field: str) -> None:
    answer = await api.post(api.claims, body)
    assert answer.status == 422, answer
    assert (reason, field) in answer.causes
    assert answer["message"].startswith('ResourceClaim.resource.k8s.io "c" is invalid: ')
    # The same spec in a template is refused in the same way.
    template = {"metadata": {"name": "t"}, "spec": {"spec": copy.deepcopy(body["spec"])}}
    again = await api.post(api.templates, template)
    assert again.status == 422
    nested = field if reason == FORBIDDEN else f"spec.{field}"
    assert (reason, nested) in again.causes or (reason, field) in again.causes


async def test_claim_defaults(api: RestClient) -> None:
    made = await api.created(
        api.claims,
        claim(
            "c",
            request("one", tolerations=[{"key": "k", "value": "v"}]),
            request("all", allocationMode="All"),
            {"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": "x"}]},
        ),
    )
    one, everything, either = made["spec"]["devices"]["requests"]
    assert one["exactly"]["allocationMode"] == "ExactCount"
    assert one["exactly"]["count"] == 1
    assert one["exactly"]["tolerations"][0]["operator"] == "Equal"
    assert everything["exactly"] == {"deviceClassName": "gpu.example.com", "allocationMode": "All"}
    assert either["firstAvailable"] == [
        {"name": "a", "deviceClassName": "x", "allocationMode": "ExactCount", "count": 1}
    ]
    assert made["status"] == {}


async def test_claim_specs_are_immutable(api: RestClient) -> None:
    await api.created(api.claims, claim("c"))
    answer = await api.patch(f"{api.claims}/c", {"spec": {"devices": {"requests": [request("other")]}}})
    assert (answer.status, answer.causes) == (422, {(INVALID, "spec")})
    assert answer["message"].endswith(": field is immutable")


async def test_admin_access_in_a_namespace_that_allows_it(api: RestClient) -> None:
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await api.patch(f"/api/v1/namespaces/{api.namespace}", label)
    made = await api.created(api.claims, claim("c", request(adminAccess=True)))
    assert made["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] is True


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "device.driver ==",
        "device.nothing == 'x'",
        "1 + 1",
        "device.driver == 5",
        "['a', 'b'].all(x, x == device.driver) &&",
    ],
)
async def test_selectors_that_do_not_compile_are_refused(api: RestClient, expression: str) -> None:
    answer = await api.post(api.claims, claim("c", request(selectors=[_selector(expression)])))
    assert answer.status == 422, answer
    assert answer.causes == {(INVALID, f"{EXACTLY}.selectors[0].cel.expression")}
    name = f"{api.namespace}-class"
    answer = await api.post(
        f"{DRA}/deviceclasses", {"metadata": {"name": name}, "spec": {"selectors": [_selector(expression)]}}
    )
    assert answer.causes == {(INVALID, "spec.selectors[0].cel.expression")}


async def test_selectors_that_cost_too_much_are_refused(api: RestClient) -> None:
    inner = (
        "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a != b))))"
    )
    answer = await api.post(api.claims, claim("c", request(selectors=[_selector(inner)])))
    assert answer.status == 422
    assert answer.causes == {(FORBIDDEN, f"{EXACTLY}.selectors[0].cel.expression")}
    assert "too complex, exceeds cost limit" in answer["message"]


# -- status ----------------------------------------------------------------------------------------


async def _status(api: RestClient, status: dict[str, Any], name: str = "c") -> Any:
    return await api.patch(f"{api.claims}/{name}/status", {"status": status})


async def test_allocation_is_set_once_and_taken_back_whole(api: RestClient) -> None:
    await api.created(api.claims, claim("c"))
    assert (await _status(api, {"allocation": allocation("d1")})).status == 200
    changed = await _status(api, {"allocation": allocation("d2")})
    assert (changed.status, changed.causes) == (422, {(INVALID, "status.allocation")})
    gone = await _status(api, {"allocation": None})
    assert (gone.status, gone["status"]) == (200, {})
    assert (await _status(api, {"allocation": allocation("d2")})).status == 200


async def test_reservations_need_an_allocation(api: RestClient) -> None:
    await api.created(api.claims, claim("c"))
    early = await _status(api, {"reservedFor": [consumer("p", UID)]})
    assert (early.status, early.causes) == (422, {(FORBIDDEN, "status.reservedFor")})
    both = await _status(api, {"allocation": allocation("d1"), "reservedFor": [consumer("p", UID)]})
    assert (both.status, both["status"]["reservedFor"]) == (200, [consumer("p", UID)])
    twice = await _status(api, {"reservedFor": [consumer("p", UID), consumer("q", UID)]})
    assert (DUPLICATE, "status.reservedFor[1]") in twice.causes
    nameless = await _status(api, {"reservedFor": [{"resource": "pods", "uid": UID}]})
    assert nameless.causes == {(REQUIRED, "status.reservedFor[0].name")}


async def test_at_most_256_consumers(api: RestClient) -> None:
    await api.created(api.claims, claim("c"))
    consumers = [consumer(f"p{number}", f"uid-{number}") for number in range(257)]
    full = await _status(api, {"allocation": allocation("d1"), "reservedFor": consumers[:256]})
    assert full.status == 200
    over = await _status(api, {"reservedFor": consumers})
    assert (over.status, over.causes) == (422, {(MANY, "status.reservedFor")})


async def test_deleted_claims_take_no_new_consumers(api: RestClient) -> None:
    body = claim("c")
    body["metadata"]["finalizers"] = ["example.com/keep"]
    await api.created(api.claims, body)
    await _status(api, {"allocation": allocation("d1"), "reservedFor": [consumer("p", "uid-1")]})
    await api.delete(f"{api.claims}/c")
    more = await _status(api, {"reservedFor": [consumer("p", "uid-1"), consumer("q", "uid-2")]})
    assert (more.status, more.causes) == (422, {(FORBIDDEN, "status.reservedFor")})
    fewer = await _status(api, {"reservedFor": None})
    assert fewer.status == 200
    await api.patch(f"{api.claims}/c", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        ({"request": "other"}, INVALID, "request"),
        ({"request": "gpu/sub"}, INVALID, "request"),
        ({"driver": ""}, REQUIRED, "driver"),
        ({"pool": "Bad_"}, INVALID, "pool"),
        ({"device": "Bad_"}, INVALID, "device"),
        ({"shareID": "no-uuid"}, INVALID, "shareID"),
        ({"bindingConditions": ["a"]}, INVALID, "bindingFailureConditions"),
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["a"]}, INVALID, "bindingFailureConditions[0]"),
    ],
)
async def test_bad_results_are_refused(api: RestClient, change: dict[str, Any], reason: str, field: str) -> None:
    await api.created(api.claims, claim("c"))
    made = allocation("d1")
    made["devices"]["results"][0] |= change
    answer = await _status(api, {"allocation": made})
    assert answer.status == 422, answer
    assert (reason, f"status.allocation.devices.results[0].{field}") in answer.causes


async def test_sizes_of_an_allocation(api: RestClient) -> None:
    await api.created(api.claims, claim("c", request(allocationMode="All")))
    over = await _status(api, {"allocation": allocation(*(f"d{number}" for number in range(33)))})
    assert over.causes == {(MANY, "status.allocation.devices.results")}
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
    full = allocation(*(f"d{number}" for number in range(32)), nodeSelector=selector)
    answer = await _status(api, {"allocation": full})
    assert answer.status == 200, answer
    assert answer["status"]["allocation"]["nodeSelector"] == selector


async def test_config_of_an_allocation(api: RestClient) -> None:
    await api.created(api.claims, claim("c"))
    opaque = {"driver": "gpu.example.com", "parameters": {"kind": "GpuConfig"}}
    made = allocation("d1")
    made["devices"]["config"] = [{"source": "FromNowhere", "opaque": opaque}]
    answer = await _status(api, {"allocation": made})
    assert answer.causes == {(UNSUPPORTED, "status.allocation.devices.config[0].source")}
    made["devices"]["config"] = [{"source": "FromClass", "requests": ["gpu"], "opaque": opaque}]
    assert (await _status(api, {"allocation": made})).status == 200


async def test_status_of_freed_devices_goes_with_them(api: RestClient) -> None:
    await api.created(api.claims, claim("c"))
    await _status(api, {"allocation": allocation("d1")})
    device = {"driver": "gpu.example.com", "pool": "node-1", "device": "d1", "data": {"a": 1}}
    other = await _status(api, {"devices": [{**device, "device": "d2"}]})
    assert (INVALID, "status.devices[0]") in other.causes
    assert (await _status(api, {"devices": [device]}))["status"]["devices"] == [{**device, "conditions": None}]
    assert (await _status(api, {"allocation": None}))["status"] == {}


# -- slices ----------------------------------------------------------------------------------------

DEVICE = "spec.devices[0]"
TAINT = {"key": "k", "effect": "NoSchedule"}
COUNTERS = {"memory": {"value": "10Gi"}}


def _device(**fields: Any) -> dict[str, Any]:
    return {"name": "d0", **fields}


def _shared(policy: dict[str, Any], value: str = "10Gi") -> dict[str, Any]:
    return _device(allowMultipleAllocations=True, capacity={"memory": {"value": value, "requestPolicy": policy}})


POLICY = f"{DEVICE}.capacity[memory].requestPolicy"

BAD_SLICES = {
    "no-driver": ({"driver": ""}, [], REQUIRED, "spec.driver"),
    "driver-name": ({"driver": "bad_driver"}, [], INVALID, "spec.driver"),
    "pool-name": ({"pool": {"name": "a//b", "resourceSliceCount": 1}}, [], INVALID, "spec.pool.name"),
    "pool-without-slices": ({"pool": {"name": "p"}}, [], INVALID, "spec.pool.resourceSliceCount"),
    "negative-generation": (
        {"pool": {"name": "p", "generation": -1, "resourceSliceCount": 1}},
        [],
        INVALID,
        "spec.pool.generation",
    ),
    "nowhere": ({"nodeName": None}, [], REQUIRED, "spec"),
    "two-places": ({"allNodes": True}, [], INVALID, "spec"),
    "not-all-nodes": ({"nodeName": None, "allNodes": False}, [], INVALID, "spec.allNodes"),
    "two-selector-terms": (
        {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": [{}, {}]}},
        [],
        INVALID,
        "spec.nodeSelector.nodeSelectorTerms",
    ),
    "devices-and-counters": (
        {"sharedCounters": [{"name": "set", "counters": COUNTERS}]},
        [_device()],
        INVALID,
        "spec",
    ),
    "too-many-devices": ({}, [{"name": f"d{i}"} for i in range(129)], MANY, "spec.devices"),
    "too-many-devices-with-taints": (
        {},
        [{"name": f"d{i}", "taints": [TAINT]} for i in range(65)],
        MANY,
        "spec.devices",
    ),
    "device-twice": ({}, [_device(), _device()], DUPLICATE, "spec.devices[1]"),
    "device-name": ({}, [_device(name="Bad_")], INVALID, f"{DEVICE}.name"),
    "attribute-of-nothing": ({}, [_device(attributes={"a": {}})], INVALID, f"{DEVICE}.attributes[a]"),
    "attribute-of-two-types": (
        {},
        [_device(attributes={"a": {"int": 1, "bool": True}})],
        INVALID,
        f"{DEVICE}.attributes[a]",
    ),
    "attribute-name": ({}, [_device(attributes={"1a": {"int": 1}})], INVALID, f"{DEVICE}.attributes"),
    "attribute-domain": ({}, [_device(attributes={"/a": {"int": 1}})], INVALID, f"{DEVICE}.attributes"),
    "attribute-id-too-long": (
        {},
        [_device(attributes={"a" * 33: {"int": 1}})],
        LONG,
        f"{DEVICE}.attributes",
    ),
    "attribute-version": (
        {},
        [_device(attributes={"a": {"version": "1.2"}})],
        INVALID,
        f"{DEVICE}.attributes[a].version",
    ),
    "attribute-text-too-long": (
        {},
        [_device(attributes={"a": {"string": "x" * 65}})],
        LONG,
        f"{DEVICE}.attributes[a].string",
    ),
    "too-many-attributes": (
        {},
        [_device(attributes={f"a{i}": {"int": i} for i in range(33)})],
        INVALID,
        DEVICE,
    ),
    "policy-on-a-dedicated-device": (
        {},
        [_device(capacity={"memory": {"value": "1Gi", "requestPolicy": {"default": "1Gi"}}})],
        FORBIDDEN,
        POLICY,
    ),
    "policy-of-both-kinds": (
        {},
        [_shared({"default": "1Gi", "validValues": ["1Gi"], "validRange": {"min": "1Gi"}})],
        FORBIDDEN,
        POLICY,
    ),
    "policy-without-default": ({}, [_shared({"validValues": ["1Gi"]})], REQUIRED, f"{POLICY}.default"),
    "policy-values-unsorted": (
        {},
        [_shared({"default": "1Gi", "validValues": ["2Gi", "1Gi"]})],
        INVALID,
        f"{POLICY}.validValues[1]",
    ),
    "policy-values-too-large": (
        {},
        [_shared({"default": "1Gi", "validValues": ["1Gi", "11Gi"]})],
        INVALID,
        f"{POLICY}.validValues[1]",
    ),
    "policy-default-not-among-the-values": (
        {},
        [_shared({"default": "3Gi", "validValues": ["1Gi", "2Gi"]})],
        INVALID,
        f"{POLICY}.validValues",
    ),
    "policy-range-without-min": (
        {},
        [_shared({"default": "1Gi", "validRange": {}})],
        REQUIRED,
        f"{POLICY}.validRange.min",
    ),
    "policy-default-below-min": (
        {},
        [_shared({"default": "1Gi", "validRange": {"min": "2Gi"}})],
        INVALID,
        f"{POLICY}.validRange.default",
    ),
    "policy-max-above-value": (
        {},
        [_shared({"default": "1Gi", "validRange": {"min": "1Gi", "max": "11Gi"}})],
        INVALID,
        f"{POLICY}.validRange.max",
    ),
    "policy-step-that-misses-the-default": (
        {},
        [_shared({"default": "2Gi", "validRange": {"min": "1Gi", "step": "3Gi"}})],
        INVALID,
        f"{POLICY}.validRange.step",
    ),
    "taint-effect": ({}, [_device(taints=[{"key": "k", "effect": "Odd"}])], UNSUPPORTED, f"{DEVICE}.taints[0].effect"),
    "taint-without-effect": ({}, [_device(taints=[{"key": "k"}])], REQUIRED, f"{DEVICE}.taints[0].effect"),
    "too-many-taints": ({}, [_device(taints=[TAINT] * 17)], MANY, f"{DEVICE}.taints"),
    "too-many-counter-sets-consumed": (
        {},
        [_device(consumesCounters=[{"counterSet": f"s{i}", "counters": COUNTERS} for i in range(3)])],
        MANY,
        f"{DEVICE}.consumesCounters",
    ),
    "consumption-without-counters": (
        {},
        [_device(consumesCounters=[{"counterSet": "s"}])],
        REQUIRED,
        f"{DEVICE}.consumesCounters[0].counters",
    ),
    "device-node-without-per-device-selection": ({}, [_device(nodeName="n")], INVALID, DEVICE),
    "per-device-selection-without-a-node": (
        {"nodeName": None, "perDeviceNodeSelection": True},
        [_device()],
        REQUIRED,
        DEVICE,
    ),
    "binding-conditions-alone": (
        {},
        [_device(bindingConditions=["ready"])],
        INVALID,
        f"{DEVICE}.bindingFailureConditions",
    ),
    "too-many-binding-conditions": (
        {},
        [_device(bindingConditions=list("abcde"), bindingFailureConditions=["f"])],
        MANY,
        f"{DEVICE}.bindingConditions",
    ),
    "counter-set-without-counters": (
        {"sharedCounters": [{"name": "s"}]},
        [],
        REQUIRED,
        "spec.sharedCounters[0].counters",
    ),
    "too-many-counter-sets": (
        {"sharedCounters": [{"name": f"s{i}", "counters": COUNTERS} for i in range(9)]},
        [],
        MANY,
        "spec.sharedCounters",
    ),
}


@pytest.mark.parametrize(("spec", "devices", "reason", "field"), BAD_SLICES.values(), ids=BAD_SLICES.keys())
async def test_bad_slices_are_refused(
    api: RestClient, spec: dict[str, Any], devices: list[Any], reason: str, field: str
) -> None:
    name = f"{api.namespace}-slice"
    answer = await api.post(f"{DRA}/resourceslices", resource_slice(name, *devices, **spec))
    assert answer.status == 422, answer
    assert (reason, field) in answer.causes, answer.causes


async def test_a_slice_with_everything_is_accepted_and_defaulted(api: RestClient) -> None:
    name = f"{api.namespace}-slice"
    device = _device(
        attributes={
            "index": {"int": 0},
            "uuid": {"string": "gpu-0"},
            "example.com/on": {"bool": True},
            "v": {"version": "1.2.3-a+b"},
        },
        capacity={"memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi", "2Gi"]}}},
        allowMultipleAllocations=True,
        taints=[TAINT],
        bindingConditions=["example.com/ready"],
        bindingFailureConditions=["example.com/failed"],
    )
    path = f"{DRA}/resourceslices"
    made = await api.created(path, resource_slice(name, device))
    (kept,) = made["spec"]["devices"]
    assert kept["taints"][0]["timeAdded"]
    kept["taints"][0].pop("timeAdded")
    assert kept == device
    listed = await api.get(f"{path}?fieldSelector=spec.nodeName=node-1,spec.driver=gpu.example.com")
    assert name in {item["metadata"]["name"] for item in listed["items"]}
    for change, field in (
        ({"driver": "other.example.com"}, "spec.driver"),
        ({"pool": {"name": "other"}}, "spec.pool.name"),
        ({"nodeName": "other"}, "spec.nodeName"),
    ):
        answer = await api.patch(f"{path}/{name}", {"spec": change})
        assert (INVALID, field) in answer.causes
    assert (await api.delete(f"{path}/{name}")).status == 200


# -- classes and taint rules -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "reason", "field"),
    [
        ({"selectors": [{}]}, REQUIRED, "spec.selectors[0].cel"),
        ({"config": [{}]}, REQUIRED, "spec.config[0].opaque"),
        ({"extendedResourceName": "cpu"}, INVALID, "spec.extendedResourceName"),
        ({"extendedResourceName": "kubernetes.io/gpu"}, INVALID, "spec.extendedResourceName"),
        ({"extendedResourceName": "requests.example.com/gpu"}, INVALID, "spec.extendedResourceName"),
    ],
)
async def test_bad_classes_are_refused(api: RestClient, spec: dict[str, Any], reason: str, field: str) -> None:
    answer = await api.post(f"{DRA}/deviceclasses", {"metadata": {"name": f"{api.namespace}-class"}, "spec": spec})
    assert (answer.status, answer.causes) == (422, {(reason, field)})


GPUS = "example.com/gpu"
MAPPING = {"containerName": "c", "resourceName": GPUS, "requestName": "container-0-request-0"}
EXTENDED = "status.extendedResourceClaimStatus"


async def _asking_pod(api: RestClient) -> str:
    amounts = {GPUS: "1"}
    container = {"name": "c", "image": "img", "resources": {"requests": amounts, "limits": amounts}}
    await api.created(api.pods, pod("p", containers=[container], schedulerName="nobody"))
    return f"{api.pods}/p/status"


async def test_the_claim_behind_extended_resources_is_told_and_stays(api: RestClient) -> None:
    path = await _asking_pod(api)
    told = {"resourceClaimName": "p-extended-resources-1", "requestMappings": [MAPPING]}
    for status in (told, told | {"resourceClaimName": "p-extended-resources-2"}):
        answer = await api.patch(path, {"status": {"extendedResourceClaimStatus": status}}, media=STRATEGIC)
        assert (answer.status, answer["status"]["extendedResourceClaimStatus"]) == (200, status)
    answer = await api.patch(path, {"status": {"extendedResourceClaimStatus": None}}, media=STRATEGIC)
    assert (answer.status, answer["status"]["extendedResourceClaimStatus"]) == (200, status), "1.37 keeps it"


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ({"requestMappings": [MAPPING]}, (REQUIRED, f"{EXTENDED}.resourceClaimName")),
        ({"resourceClaimName": "c"}, (REQUIRED, f"{EXTENDED}.requestMappings")),
        ({"requestMappings": [MAPPING], "resourceClaimName": "C_"}, (INVALID, f"{EXTENDED}.resourceClaimName")),
        (
            {"requestMappings": [{**MAPPING, "containerName": "d"}], "resourceClaimName": "c"},
            (INVALID, f"{EXTENDED}.requestMappings[0].containerName"),
        ),
        (
            {"requestMappings": [{**MAPPING, "resourceName": "example.com/nic"}], "resourceClaimName": "c"},
            (INVALID, f"{EXTENDED}.requestMappings[0].resourceName"),
        ),
        (
            {"requestMappings": [{**MAPPING, "requestName": "R_"}], "resourceClaimName": "c"},
            (INVALID, f"{EXTENDED}.requestName"),
        ),
        (
            {"requestMappings": [MAPPING, MAPPING], "resourceClaimName": "c"},
            (DUPLICATE, f"{EXTENDED}.requestMappings[1].requestName"),
        ),
    ],
)
async def test_bad_words_about_extended_resources_are_refused(
    api: RestClient, status: dict[str, Any], cause: tuple[str, str]
) -> None:
    path = await _asking_pod(api)
    answer = await api.patch(path, {"status": {"extendedResourceClaimStatus": status}}, media=STRATEGIC)
    assert answer.status == 422
    assert cause in answer.causes


async def test_taint_rules(api: RestClient) -> None:
    path, name = "/apis/resource.k8s.io/v1/devicetaintrules", f"{api.namespace}-rule"
    rule = {"metadata": {"name": name}, "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": TAINT}}
    made = await api.created(path, rule)
    assert made["spec"]["taint"]["timeAdded"]
    assert made["metadata"]["generation"] == 1
    bad = copy.deepcopy(rule)
    bad["metadata"]["name"] += "-bad"
    bad["spec"]["deviceSelector"] = {"pool": "Bad_"}
    bad["spec"]["taint"] = {"key": "k", "effect": "Odd"}
    answer = await api.post(path, bad)
    assert {(INVALID, "spec.deviceSelector.pool"), (UNSUPPORTED, "spec.taint.effect")} <= answer.causes
    # The time says since when there is this effect; a client that gives both is believed.
    old = "2026-01-01T00:00:00Z"
    kept = await api.patch(f"{path}/{name}", {"spec": {"taint": {"timeAdded": old, "effect": "None"}}})
    assert (kept["spec"]["taint"]["timeAdded"], kept["metadata"]["generation"]) == (old, 2)
    bumped = await api.patch(f"{path}/{name}", {"spec": {"taint": {"effect": "NoSchedule"}}})
    assert bumped["spec"]["taint"]["timeAdded"] > old
    assert (await api.delete(f"{path}/{name}")).status == 200
