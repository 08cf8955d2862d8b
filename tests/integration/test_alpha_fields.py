"""Fields of devices and claims that are alpha in Kubernetes 1.37, on a real API server with their gates on and off.

Compatibility groups (KEP-5963), derived attributes (KEP-6080), optional node operations (KEP-5945). An API server whose
gate is off drops the field; a scheduler then decides as if it had never been written.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import ControlPlane
from tests.integration.api import ApiError, Object
from tests.integration.conftest import RealCluster, embedded_world, real_world, with_manifests
from tests.integration.world import UNDER_TEST, World, devices_of

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]
GATES = ("DRADeviceCompatibilityGroups", "DRADerivedAttributes", "DRAOptionalNodeOperations")


@pytest.fixture(scope="module", params=[True, False], ids=["on", "off"])
def plane(request: pytest.FixtureRequest) -> Iterator[tuple[RealCluster, bool]]:
    built_or_skip("controlplane-1.37")
    with ControlPlane(minor="1.37", feature_gates=dict.fromkeys(GATES, request.param)) as running:
        cluster = with_manifests(running) if UNDER_TEST == "ours" else RealCluster(running, ("", ""))
        yield cluster, request.param


@pytest.fixture
async def world(plane: tuple[RealCluster, bool], tmp_path: Path) -> AsyncIterator[World]:
    async with real_world(plane[0], tmp_path) as opened:
        await opened.add_namespace()
        await opened.add_class()
        await opened.start_scheduler()
        try:
            yield opened
        finally:
            await opened.stop_scheduler(kill=True)
        await opened.clean_up()


def part(name: str, *groups: str) -> Object:
    consumed = {"counterSet": "gpu", "counters": {"memory": {"value": "10Gi"}}, "compatibilityGroups": list(groups)}
    return {"name": name, "consumesCounters": [consumed]}


async def publish(world: World, *devices: Object) -> None:
    """A node with these parts of one GPU, whose memory suffices for all of them."""
    (node,) = await world.add_nodes(1)
    await world.publish(node, devices, slices=2)
    spec = {
        "driver": world.driver,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 2},
        "sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}],
    }
    await world.create("resourceslices", {"metadata": {"name": f"{node}-counters"}, "spec": spec})


async def test_devices_of_different_groups_go_together_only_where_the_server_drops_the_groups(
    world: World, plane: tuple[RealCluster, bool]
) -> None:
    await publish(world, part("a", "mig"), part("b", "vgpu"), part("c", "vgpu", "mig"))
    await world.add_template("two", world.request(count=2))
    await world.add_template("one-gpu")

    await world.add_pod("first", template="two")
    await world.wait_bound("first")
    (claim,) = await world.api.list("resourceclaims", world.namespace)
    given = [result["device"] for result in claim["status"]["allocation"]["devices"]["results"]]
    is_on = plane[1]
    assert given == (["a", "c"] if is_on else ["a", "b"])

    await world.add_pod("second", template="one-gpu")
    if not is_on:
        await world.wait_bound("second")
        return
    message = (await world.wait_unschedulable("second"))["message"]
    assert "cannot allocate all claims" in message
    if UNDER_TEST == "ours":
        assert "[partition-blocked]" in message
        assert "compatibility group vgpu" in message


HALF = "device.attributes[device.driver].slot / 2"


def slots(*numbers: int) -> list[Object]:
    return [{"name": f"gpu-{number}", "attributes": {"slot": {"int": number}}} for number in numbers]


def derived(expression: str = HALF, name: str = "derived/pair") -> Any:
    return [{"name": name, "expression": expression}]


PAIR: Any = {"constraints": [{"matchAttribute": "derived/pair"}]}


async def test_a_constraint_is_on_what_a_request_derives(world: World, plane: tuple[RealCluster, bool]) -> None:
    (node,) = await world.add_nodes(1)
    await world.publish(node, slots(1, 2, 3))
    await world.add_template("pair", world.request(count=2, derivedAttributes=derived()), **PAIR)

    await world.add_pod("first", template="pair")
    if plane[1]:
        await world.wait_bound("first")
        assert devices_of(await world.claim_of("first")) == [(node, "gpu-2"), (node, "gpu-3")]
        return
    message = (await world.wait_unschedulable("first"))["message"]
    assert "cannot allocate all claims" in message
    if UNDER_TEST == "ours":
        assert "[constraint-attribute-missing]" in message


async def test_an_expression_that_fails_is_named(world: World, plane: tuple[RealCluster, bool]) -> None:
    if not plane[1]:
        pytest.skip("the server drops the expression")
    (node,) = await world.add_nodes(1)
    await world.publish(node, slots(1))
    expression = "device.attributes[device.driver].nothing"
    await world.add_template("wrong", world.request(derivedAttributes=derived(expression)), **PAIR)

    await world.add_pod("first", template="wrong")
    where = f"evaluate derived attribute derived/pair on device {world.driver}/{node}/gpu-1 failed"
    text = f'running "DynamicResources" filter plugin: {where}: no such key: nothing'

    def told(pods: dict[str, Object]) -> bool:
        conditions = pods["first"].get("status", {}).get("conditions", ()) if "first" in pods else ()
        return any(one["reason"] == "SchedulerError" and text in one["message"] for one in conditions)

    await world.wait_for("pods", told, what="the expression named")


def costly(names: str) -> str:
    """Every name compared with every other."""
    expression = " + ".join(names) + ' == ""'
    for name in names:
        expression = f"device.attributes.exists({name}, {expression})"
    return expression


_NUMBERS = count()

REFUSED: dict[str, Any] = {
    "nobody asks for it": ({"derivedAttributes": derived()}, {}),
    "another request's constraint": (
        {"derivedAttributes": derived()},
        {"constraints": [{"matchAttribute": "derived/pair", "requests": ["other"]}]},
    ),
    "does not compile": ({"derivedAttributes": derived("nothing(device)")}, PAIR),
    "no attribute has this type": ({"derivedAttributes": derived("1.5")}, PAIR),
    "a list": ({"derivedAttributes": derived("[1]")}, PAIR),
    "twice": ({"derivedAttributes": [*derived(), *derived("1")]}, PAIR),
    "no name": ({"derivedAttributes": derived(name="")}, PAIR),
    "no domain": ({"derivedAttributes": derived(name="pair")}, {"constraints": [{"matchAttribute": "pair"}]}),
    "no expression": ({"derivedAttributes": derived("")}, PAIR),
    "too long": ({"derivedAttributes": derived("1" * 10_241)}, PAIR),
    "too many": (
        {"derivedAttributes": [*derived(), *(derived(name=f"derived/n{number}")[0] for number in range(32))]},
        PAIR,
    ),
    "too complex": ({"derivedAttributes": derived(costly("defg"))}, PAIR),
    "too complex together": (
        {"derivedAttributes": [*derived(costly("def")), *derived(costly("xyz"), "derived/other")]},
        {"constraints": [*PAIR["constraints"], {"matchAttribute": "derived/other"}]},
    ),
}


@pytest.mark.skipif(UNDER_TEST != "ours", reason="no scheduler is asked")
async def test_the_embedded_server_refuses_what_the_real_one_refuses(
    world: World, plane: tuple[RealCluster, bool], tmp_path: Path
) -> None:
    if not plane[1]:
        pytest.skip("the server drops the expressions")
    async with embedded_world(tmp_path) as embedded:
        await embedded.add_namespace()
        answers = {name: [await _refusal(one, *asked) for one in (embedded, world)] for name, asked in REFUSED.items()}
    assert {name: ours for name, (ours, _) in answers.items()} == {name: real for name, (_, real) in answers.items()}
    assert all(real for _, real in answers.values())


async def _refusal(world: World, more: Any, devices: Any) -> list[tuple[str, str, str]]:
    """(field, reason, message) of all that is wrong; the order differs."""
    requests = [world.request(**more), world.request("other")]
    spec = world.claim_spec(*requests, **devices)
    for request in requests:
        request["exactly"]["deviceClassName"] = "gpus"
    try:
        await world.create("resourceclaims", {"metadata": world.meta(f"claim-{next(_NUMBERS)}"), "spec": spec})
    except ApiError as error:
        causes = json.loads(error.body)["details"]["causes"]
        return sorted((one["field"], one["reason"], one["message"]) for one in causes)
    return []


async def test_drivers_that_need_not_be_called_are_for_nodes_that_know_it(
    world: World, plane: tuple[RealCluster, bool]
) -> None:
    """A server with the gate on takes the field, and the allocation has a copy of it."""
    knowing, other = await world.add_nodes(2)
    declared = {"status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
    await world.api.merge_patch("nodes", knowing, declared, sub="status")
    for node in (other, knowing):
        spec = {
            "driver": world.driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "skipNodeOperations": ["*"],
            "devices": slots(1),
        }
        await world.create("resourceslices", {"metadata": {"name": f"{node}-slice"}, "spec": spec})
    await world.add_template("one-gpu")

    for name in ("first", "second"):
        await world.add_pod(name, template="one-gpu")
    if not plane[1]:
        await world.wait_bound("first", "second")
        return
    pods = await world.wait_for(
        "pods", lambda pods: any(one["spec"].get("nodeName") for one in pods.values()), what="one pod bound"
    )
    bound, waiting = sorted(("first", "second"), key=lambda name: "nodeName" not in pods[name]["spec"])
    assert pods[bound]["spec"]["nodeName"] == knowing
    (result,) = (await world.claim_of(bound))["status"]["allocation"]["devices"]["results"]
    assert result["skipNodeOperations"] == ["*"]
    message = (await world.wait_unschedulable(waiting))["message"]
    assert "cannot allocate all claims" in message
