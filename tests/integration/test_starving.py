"""Nobody is starved and nobody is left in silence: pods that wait for drivers, and a namespace whose webhook is broken.

On the real control plane the webhook is a ValidatingWebhookConfiguration whose server is down (a closed port) or hangs
(connections are taken, and nothing is ever said on them); before the embedded cluster the proxy answers as the API
server does then.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.controlplane.fault_proxy import Fault, api_failure
from tests.integration.api import ApiError
from tests.integration.world import UNDER_TEST, World, gpu
from tests.patience import PATIENCE_S

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
BINDING = {"bindsToNode": True, "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
TEXT = 'failed calling webhook "quota.example.com"'

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="what our scheduler tells")


def scheduled(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod's PodScheduled condition."""
    return next((one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"), {})


async def test_three_hundred_pods_that_wait_for_their_driver_keep_nobody_from_being_bound(world: World) -> None:
    """None of 40 was bound before, not even a plain one, for ten minutes."""
    for node in await world.add_nodes(3, cpu="640"):
        await world.publish(node, [gpu(number, kind={"string": "slow"}) | BINDING for number in range(100)])
    await world.add_nodes(1, devices=20, cpu="640", first=3)
    await world.add_class()
    attribute = f"device.attributes['{world.driver}']"
    is_slow = {"cel": {"expression": f"'kind' in {attribute} && {attribute}.kind == 'slow'"}}
    is_quick = {"cel": {"expression": f"!('kind' in {attribute})"}}
    await world.add_template("slow", world.request(selectors=[is_slow]))
    await world.add_template("quick", world.request(selectors=[is_quick]))
    await world.start_scheduler()
    waiting = [f"waits-{number}" for number in range(300)]
    await world.add_pods(waiting, template="slow")

    def is_told(pods: dict[str, Any]) -> bool:
        told = [pods[name] for name in waiting if scheduled(pods[name]).get("reason") == "BindingConditionsPending"]
        return len(told) == len(waiting)

    pods = await world.wait_for("pods", is_told, what="300 pods say what they wait for")
    message = scheduled(pods["waits-7"])["message"]
    assert message.startswith(f"waiting on node {world.tag}-node-00")
    assert " for drivers to set binding conditions: claim waits-7-gpu-" in message
    assert message.endswith(f", driver {world.driver}: ready")
    with_devices = [f"quick-{number}" for number in range(20)]
    await world.add_pods(with_devices, template="quick")
    plain = [f"plain-{number}" for number in range(20)]
    await world.add_pods(plain)
    await world.wait_bound(*with_devices, *plain)
    assert await world.violations() == []


@asynccontextmanager
async def broken_webhook(world: World, kind: str, namespace: str) -> AsyncIterator[Fault | None]:
    """Claim statuses of `namespace` must be allowed by a webhook that is down, or hangs."""
    if world.cluster.kind == "embedded":
        body = api_failure(500, "InternalError", f"Internal error occurred: {TEXT}: failed to call webhook: refused")
        path = rf"/namespaces/{namespace}/resourceclaims/[^/?]+/status"
        fault = world.proxy.add(Fault("answer" if kind == "down" else "hold", "*", path, times=-1, body=body))
        yield fault
        return
    server = await asyncio.start_server(_hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1] if kind == "hangs" else 9  # "discard", where nobody listens
    rule = {"apiGroups": ["resource.k8s.io"], "apiVersions": ["*"], "operations": ["UPDATE"]}
    hook = {
        "name": "quota.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": _authority(world)},
        "rules": [{**rule, "resources": ["resourceclaims/status"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    await world.api.request("POST", CONFIGURATIONS, {"metadata": {"name": world.tag}, "webhooks": [hook]})
    try:
        await _is_asked(world, namespace)
        yield None
    finally:
        with suppress(ApiError):
            await world.api.request("DELETE", f"{CONFIGURATIONS}/{world.tag}")
        server.close()


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, asyncio.CancelledError):
        while await reader.read(65536):
            pass
    writer.close()


def _authority(world: World) -> str:
    return base64.b64encode(world.cluster.control_plane.ca_file.read_bytes()).decode()  # type: ignore[attr-defined]


async def _is_asked(world: World, namespace: str) -> None:
    """Until the API server asks the webhook: it takes a moment to notice that there is one."""
    await world.api.create(
        "resourceclaims", {"metadata": {"name": "probe", "namespace": namespace}, "spec": world.claim_spec()}
    )
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                patch = world.api.merge_patch("resourceclaims", "probe", {"status": {}}, namespace, "status")
                await asyncio.wait_for(patch, 1)
            except (ApiError, TimeoutError):
                return
            await asyncio.sleep(0.1)  # nothing tells when it has noticed


@asynccontextmanager
async def other_namespace(world: World) -> AsyncIterator[str]:
    """One more namespace, empty again at the end."""
    name = f"{world.namespace}-other"
    await world.create("namespaces", {"metadata": {"name": name}})
    try:
        yield name
    finally:
        await world.api.delete_all("pods", name)


@pytest.mark.parametrize("kind", ["down", "hangs"])
async def test_a_broken_webhook_of_one_namespace_is_told_there_and_stops_nobody_else(world: World, kind: str) -> None:
    await world.add_nodes(4, devices=100, cpu="640")
    await world.add_class()
    async with other_namespace(world) as broken, broken_webhook(world, kind, broken) as fault:
        await world.start_scheduler()
        await world.add_pod("first")
        await world.wait_bound("first")
        await _pods_of(world, broken, 280)
        hurt = await world.api.wait_for(
            "pods",
            lambda pods: any(scheduled(pod).get("reason") == "SchedulerError" for pod in pods.values()),
            broken,
        )
        message = next(scheduled(pod)["message"] for pod in hurt.values() if scheduled(pod))
        assert "writing the status of ResourceClaim" in message or TEXT in message

        names = [f"claimed-{number}" for number in range(20)]
        await world.add_template()
        await world.add_pods(names, template="one-gpu")
        plain = [f"plain-{number}" for number in range(20)]
        await world.add_pods(plain)
        await world.wait_bound(*names, *plain)
        assert not any(pod["spec"].get("nodeName") for pod in hurt.values())
        assert await world.violations() == []
        if fault is not None:
            fault.times = 0
            fault.released.set()
        else:
            await world.api.request("DELETE", f"{CONFIGURATIONS}/{world.tag}")
        await world.api.wait_for(
            "pods",
            lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) == 280,
            broken,
        )
        assert await world.violations() == []


async def _pods_of(world: World, namespace: str, count: int) -> None:
    slots = asyncio.Semaphore(16)

    async def add(number: int) -> None:
        async with slots:
            name = f"broken-{number}"
            claim = {"metadata": {"name": name, "namespace": namespace}, "spec": world.claim_spec()}
            await world.api.create("resourceclaims", claim)
            pod = world.pod(name, claim=name)
            pod["metadata"]["namespace"] = namespace
            await world.api.create("pods", pod)

    await asyncio.gather(*(add(number) for number in range(count)))
