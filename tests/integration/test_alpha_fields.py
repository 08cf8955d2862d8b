"""Fields of devices and claims that are alpha in Kubernetes 1.37, on a real API server with their gates on and off.

Compatibility groups (KEP-5963), derived attributes (KEP-6080), optional node operations (KEP-5945), attributes with
lists (KEP-5491), options of bind mounts. And a gate that is beta, and on by default only for who sets
--min-compatibility-version=1.37: shares in steps that are no whole numbers (KEP-5075). An API server whose gate is off
drops the field; a scheduler then decides as if it had never been written.
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
GATES = (
    *("DRADeviceCompatibilityGroups", "DRADerivedAttributes", "DRAOptionalNodeOperations"),
    *("VolumeBindMountOptions", "DRAConsumableCapacity", "DRAFractionalCapacityRange"),
)


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


LINKS = {"gpu-a": ["x"], "gpu-b": ["y", "z"], "gpu-c": ["x", "z"]}


def linked() -> list[Object]:
    return [{"name": name, "attributes": {"links": {"strings": values}}} for name, values in LINKS.items()]


async def test_a_server_without_the_gate_takes_no_attribute_with_a_list(
    world: World, plane: tuple[RealCluster, bool]
) -> None:
    (node,) = await world.add_nodes(1)
    with pytest.raises(ApiError, match=r"attributes\[links\].*must specify one of"):
        await world.publish(node, linked())


async def test_an_attribute_with_a_list_matches_by_each_of_its_values(tmp_path: Path) -> None:
    """A constraint wants one value that all devices have. Ours has the gate off by default, whatever the server has."""
    built_or_skip("controlplane-1.37")
    gates = {"DRAListTypeAttributes": True}
    with ControlPlane(minor="1.37", feature_gates=gates) as running:
        cluster = with_manifests(running) if UNDER_TEST == "ours" else RealCluster(running, ("", ""))
        async with real_world(cluster, tmp_path) as world:
            await world.add_namespace()
            await world.add_class()
            configuration = world.configuration()
            configuration.write_text(f"{configuration.read_text()}featureGates: {json.dumps(gates)}\n")
            await world.start_scheduler(f"--config={configuration}")
            try:
                await _lists_are_matched(world)
            finally:
                await world.stop_scheduler(kill=True)


async def _lists_are_matched(world: World) -> None:
    (node,) = await world.add_nodes(1)
    await world.publish(node, linked())
    selectors = [{"cel": {"expression": f"device.attributes['{world.driver}'].links.includes('z')"}}]
    constraints = [{"matchAttribute": f"{world.driver}/links"}]
    await world.add_template("pair", world.request(count=2, selectors=selectors), constraints=constraints)
    await world.add_template("apart", world.request(count=3), constraints=constraints)

    await world.add_pod("apart", template="apart")
    assert "cannot allocate all claims" in (await world.wait_unschedulable("apart"))["message"]
    await world.add_pod("pair", template="pair")
    await world.wait_bound("pair")
    assert devices_of(await world.claim_of("pair")) == [(node, "gpu-b"), (node, "gpu-c")]


async def test_a_pod_with_options_of_a_bind_mount_runs_where_the_kubelet_knows_them(
    world: World, plane: tuple[RealCluster, bool]
) -> None:
    other, knowing = await world.add_nodes(2)
    declared = {"status": {"declaredFeatures": ["VolumeBindMountOptions"]}}
    await world.api.merge_patch("nodes", knowing, declared, sub="status")
    await world.cordon(knowing)
    mount = {"name": "data", "mountPath": "/data", "bindMountOptions": ["noexec"]}
    container = {"name": "main", "image": "registry.example.com/work:1", "volumeMounts": [mount]}
    await world.add_pod("mounts", containers=[container], volumes=[{"name": "data", "emptyDir": {}}])

    if not plane[1]:
        await world.wait_bound("mounts")
        assert (await world.api.get("pods", "mounts", world.namespace))["spec"]["nodeName"] == other
        return
    message = (await world.wait_unschedulable("mounts"))["message"]
    assert "1 node(s) didn't match Pod's required features" in message
    await world.cordon(knowing, unschedulable=False)
    await world.wait_bound("mounts")
    assert (await world.api.get("pods", "mounts", world.namespace))["spec"]["nodeName"] == knowing


async def test_a_share_is_rounded_up_to_a_step_that_is_no_whole_number(
    world: World, plane: tuple[RealCluster, bool]
) -> None:
    """Ours has the gate from the server. Without the gates the device is one that is given whole."""
    (node,) = await world.add_nodes(1)
    policy = {"default": "1", "validRange": {"min": "500m", "max": "2", "step": "250m"}}
    capacity = {"cores": {"value": "2", "requestPolicy": policy}}
    await world.publish(node, [{"name": "gpu", "allowMultipleAllocations": True, "capacity": capacity}])
    await world.add_template("share", world.request(capacity={"requests": {"cores": "600m"}}))
    await world.add_template("rest", world.request(capacity={"requests": {"cores": "500m"}}))

    for name, template in (("first", "share"), ("second", "share"), ("third", "rest")):
        await world.add_pod(name, template=template)
        if name == "second" and not plane[1]:
            assert "cannot allocate all claims" in (await world.wait_unschedulable(name))["message"]
            return
        await world.wait_bound(name)
    for name, consumed in (("first", "750m"), ("second", "750m"), ("third", "500m")):
        (result,) = (await world.claim_of(name))["status"]["allocation"]["devices"]["results"]
        assert result.get("consumedCapacity") == {"cores": consumed}
