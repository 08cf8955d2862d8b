"""What an embedded server of Kubernetes 1.38 refuses, warns of and says of itself, and one of 1.37 does not."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from scheduler.embedded.cluster import EmbeddedCluster

DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/namespaces/default/resourceclaims"
RULES = f"{DRA}/devicetaintrules"
SLICES = f"{DRA}/resourceslices"


def claim(capacity: dict[str, Any] | None = None, match: str = "", sub: bool = False) -> dict[str, Any]:
    part: dict[str, Any] = {"deviceClassName": "gpu", "capacity": {"requests": capacity or {}}}
    request = {"name": "r", "firstAvailable": [{"name": "s", **part}]} if sub else {"name": "r", "exactly": part}
    constraints = [{"matchAttribute": match}] if match else []
    return {"metadata": {"name": "x"}, "spec": {"devices": {"requests": [request], "constraints": constraints}}}


def slice_of(**device: Any) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    nodes: dict[str, Any] = {"perDeviceNodeSelection": True} if "nodeSelector" in device else {"nodeName": "n"}
    devices = [{"name": "d", **device}]
    return {"metadata": {"name": "x"}, "spec": {"driver": "a.example.com", "pool": pool, "devices": devices, **nodes}}


def versions(text: str) -> dict[str, Any]:
    return slice_of(attributes={"v": {"version": text}})


TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
SLASH = "must not contain more than one slash"
DIGITS = "with at most 18 digits in numbers"
AT = "spec.devices.requests[0].exactly.capacity.requests"
ROWS = [
    pytest.param(CLAIMS, claim({f"c{n}": "1" for n in range(32)}), "", id="32-capacities"),
    pytest.param(CLAIMS, claim({f"c{n}": "1" for n in range(33)}), f"{AT}: Too many: 33", id="33-capacities"),
    pytest.param(CLAIMS, claim({"a-b": "1"}), "a valid C identifier", id="a-capacity's-name"),
    pytest.param(
        CLAIMS, claim({"a.b/c/d": "1"}), f'{AT}: Invalid value: "a.b/c/d": {SLASH}', id="a-capacity's-slashes"
    ),
    pytest.param(CLAIMS, claim({"c": "-1"}, sub=True), "firstAvailable[0].capacity.requests[c]", id="below-zero"),
    pytest.param(CLAIMS, claim({"c": "0"}), "", id="zero"),
    pytest.param(CLAIMS, claim(match="a.b/c/d"), "constraints[0].matchAttribute: Invalid value", id="a-constraint"),
    pytest.param(SLICES, slice_of(attributes={"a.b/c/d": {"int": 1}}), SLASH, id="an-attribute"),
    pytest.param(SLICES, slice_of(capacity={"a.b/c/d": {"value": "1"}}), SLASH, id="a-capacity"),
    pytest.param(SLICES, versions(f"1.{'9' * 18}.0"), "", id="18-digits"),
    pytest.param(SLICES, versions(f"1.{'9' * 19}.0"), DIGITS, id="19-digits"),
    pytest.param(SLICES, versions(f"1.0.0-a.{'9' * 19}"), DIGITS, id="19-digits-of-a-pre-release"),
    pytest.param(SLICES, versions(f"1.0.0-a{'9' * 19}+{'9' * 19}"), "", id="19-digits-elsewhere"),
    pytest.param(SLICES, slice_of(nodeSelector={"nodeSelectorTerms": [TERM]}), "", id="one-term"),
    pytest.param(SLICES, slice_of(nodeSelector={"nodeSelectorTerms": [TERM] * 2}), "exactly one", id="two-terms"),
]


async def said(minor: int, path: str, body: dict[str, Any]) -> tuple[int, str, str]:
    async with (
        EmbeddedCluster(minor=minor, controllers=False) as cluster,
        aiohttp.ClientSession(cluster.url) as session,
        session.post(path, json=body) as reply,
    ):
        return reply.status, (await reply.json()).get("message", ""), reply.headers.get("Warning", "")


@pytest.mark.parametrize(("path", "body", "refusal"), ROWS)
async def test_a_rule_is_of_1_38(path: str, body: dict[str, Any], refusal: str) -> None:
    assert (await said(37, path, body))[0] == 201
    status, message, _ = await said(38, path, body)
    assert status == (422 if refusal else 201), message
    assert refusal in message


async def test_an_empty_selector_of_a_taint_rule_is_warned_of() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    rule = {"metadata": {"name": "x"}, "spec": {"deviceSelector": {}, "taint": taint}}
    warned = '299 - "spec.deviceSelector: an empty selector matches every device from every driver in the cluster"'
    assert await said(38, RULES, rule) == (201, "", warned)
    assert await said(37, RULES, rule) == (201, "", "")
    assert await said(38, RULES, {**rule, "spec": {"deviceSelector": {"driver": "d"}, "taint": taint}}) == (201, "", "")


async def test_what_is_stored_stays() -> None:
    """Devices that do not change, and results that are there, are not looked at."""
    async with EmbeddedCluster(minor=37, controllers=False) as cluster, aiohttp.ClientSession(cluster.url) as session:
        old = versions(f"1.{'9' * 19}.0")
        async with session.post(SLICES, json=old) as reply:
            stored = await reply.json()
        cluster.api.minor = 38  # the server is upgraded
        stored["spec"]["pool"]["generation"] = 2
        async with session.put(f"{SLICES}/x", json=stored) as reply:
            assert reply.status == 200
            stored = await reply.json()
        stored["spec"]["devices"][0]["allowMultipleAllocations"] = True
        async with session.put(f"{SLICES}/x", json=stored) as reply:
            assert reply.status == 422


@pytest.mark.parametrize(
    ("consumed", "refusal"),
    [({"c": "-1"}, "[c]: Invalid value"), ({"a.b/c/d": "1"}, SLASH), ({f"c{n}": "1" for n in range(33)}, "Too many")],
    ids=["below-zero", "slashes", "33"],
)
async def test_what_a_status_says_is_taken(consumed: dict[str, str], refusal: str) -> None:
    result = {"request": "r", "driver": "a.example.com", "pool": "p", "device": "d", "consumedCapacity": consumed}
    status = {"allocation": {"devices": {"results": [result]}}}
    for minor, code in ((37, 200), (38, 422)):
        async with (
            EmbeddedCluster(minor=minor, controllers=False) as cluster,
            aiohttp.ClientSession(cluster.url) as session,
        ):
            async with session.post(CLAIMS, json=claim()) as reply:
                made = await reply.json()
            async with session.put(f"{CLAIMS}/x/status", json={**made, "status": status}) as reply:
                assert reply.status == code
                assert code == 200 or refusal in (await reply.json())["message"]


async def test_the_server_says_its_release_and_serves_no_v1beta1() -> None:
    async with EmbeddedCluster(minor=38, controllers=False) as cluster, aiohttp.ClientSession(cluster.url) as session:
        async with session.get("/version") as reply:
            assert (await reply.json())["minor"] == "38"
        async with session.get("/apis/resource.k8s.io/v1beta1/resourceslices") as reply:
            assert reply.status == 404
