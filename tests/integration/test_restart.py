"""The scheduler is killed (SIGKILL) at each of its writes, and the next one finishes or cleans up.

The points are not made up: a first run writes down which writes a pod needs, in their order, and must find those of
the table. At each point one request is held on its way, the process is killed, and then the request

    lost      never arrives
    stored    arrives, and nobody hears the answer
    late      arrives when the next scheduler has finished: it must do no harm

Afterwards, either the pod is as wanted as before (`finishes`), or it is gone (`cleans up`), or its node no longer takes
it (`moves`). Each time another pod needs every device that should be free: none may have leaked.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import pytest

from tests.controlplane.fault_proxy import Fault
from tests.integration.api import Object
from tests.integration.world import UNDER_TEST, World, devices_of

Fate = Literal["lost", "stored", "late"]

# The writes of a pod with two claims, as regular expressions of method and path. Those of different claims are
# independent of each other; each claim's come in this order, and the binding after all of them.
POINTS: Final[dict[str, tuple[str, str]]] = {
    "finalizer of the first": ("PATCH", r"/resourceclaims/first$"),
    "finalizer of the second": ("PATCH", r"/resourceclaims/second$"),
    "status of the first": ("PATCH", r"/resourceclaims/first/status$"),
    "status of the second": ("PATCH", r"/resourceclaims/second/status$"),
    "binding": ("POST", r"/pods/pod/binding$"),
    "event": ("POST", r"/events$"),
}
BEFORE_BINDING: Final = tuple(point for point in POINTS if point not in ("binding", "event"))
# Of a pod that fits nowhere.
REFUSED_POINTS: Final[dict[str, tuple[str, str]]] = {
    "condition": ("PATCH", r"/pods/pod/status$"),
    "event": ("POST", r"/events$"),
}
# Of a pod whose extended resource is served by devices: its claim is made by the scheduler.
EXTENDED_POINTS: Final[dict[str, tuple[str, str]]] = {
    "creation": ("POST", r"/resourceclaims$"),
    "status": ("PATCH", r"/resourceclaims/[^/]+/status$"),
    "pod status": ("PATCH", r"/pods/pod/status$"),
    "binding": ("POST", r"/pods/pod/binding$"),
}
FATES: Final[tuple[Fate, ...]] = ("lost", "stored", "late")

DEVICES: Final = 4

ours_only = pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler is not a process of this world to kill")
pytestmark = ours_only


def on_both(*points: str, real: tuple[str, Fate]) -> Any:
    """Each of these points with each fate on the embedded cluster, and for time's sake one on the real one."""
    cases: list[Any] = [("embedded", point, fate) for point in points for fate in FATES]
    cases.append(pytest.param("controlplane", *real, marks=pytest.mark.controlplane))
    return pytest.mark.parametrize(("world", "point", "fate"), cases, indirect=["world"])


async def two_claims(world: World, nodes: int = 1) -> list[str]:
    """Nodes of four devices each, and two claims of one device each for the pod."""
    names = await world.add_nodes(nodes, devices=DEVICES)
    await world.add_class()
    await world.add_claim("first")
    await world.add_claim("second")
    return names


async def add_pod(world: World, **spec: Any) -> Object:
    claims = [{"name": name, "resourceClaimName": name} for name in ("first", "second")]
    return await world.add_pod("pod", resourceClaims=claims, **spec)


def writes_seen(world: World) -> dict[tuple[str, str], int]:
    """All but those of the lease, which come as long as the process runs."""
    lease = "/apis/coordination.k8s.io/v1/namespaces/*/leases"
    return {
        (method, path): count
        for (method, path), count in world.proxy.seen.items()
        if method not in ("GET", "HEAD") and not path.startswith(lease)
    }


async def kill_at(world: World, method: str, path: str, fate: Fate) -> Fault:
    """Start the scheduler, wait for that request, and kill the process while the request is on its way."""
    fault = world.proxy.add(Fault("hold", method, path))
    await world.start_scheduler()
    await world.wait_fault(fault)
    await world.stop_scheduler(kill=True)
    if fate == "stored":
        assert await fault.release() in (200, 201)
    return fault


async def arrives_late(fault: Fault, fate: Fate) -> None:
    """What the dead scheduler had sent arrives; the server may take it or refuse it."""
    if fate == "late":
        assert await fault.release() in (200, 201, 404, 409)


async def all_other_devices(world: World, count: int) -> None:
    """A pod that needs all the devices that should be free gets them."""
    await world.add_claim("rest", world.request(count=count))
    await world.add_pod("rest", claim="rest")
    await world.wait_bound("rest")


async def test_the_points_are_those_of_the_table(world: World) -> None:
    """A write that a pod newly needs must be added above."""
    await two_claims(world)
    await world.start_scheduler()
    await add_pod(world)
    await world.wait_bound("pod")
    await world.api.wait_for("events", bool, world.namespace, what="an event")
    await world.stop_scheduler()

    writes = writes_seen(world)
    claims, pods = "/apis/resource.k8s.io/v1/namespaces/*/resourceclaims/*", "/api/v1/namespaces/*/pods/*"
    reviews = ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    assert writes.pop(reviews, 0) > 0
    assert writes == {
        ("PATCH", claims): 2,
        ("PATCH", f"{claims}/status"): 2,
        ("POST", f"{pods}/binding"): 1,
        ("POST", "/apis/events.k8s.io/v1/namespaces/*/events"): 1,
    }
    assert sum(writes.values()) == len(POINTS)


@on_both(*POINTS, real=("status of the second", "stored"))
async def test_the_next_one_finishes(world: World, point: str, fate: Fate) -> None:
    await two_claims(world)
    await add_pod(world)
    fault = await kill_at(world, *POINTS[point], fate)

    assert await world.violations() == []
    await world.start_scheduler()
    await world.wait_bound("pod")
    await arrives_late(fault, fate)
    await all_other_devices(world, DEVICES - 2)
    assert await world.violations() == []
    used = [
        device
        for name in ("first", "second", "rest")
        for device in devices_of(await world.api.get("resourceclaims", name, world.namespace))
    ]
    assert len(used) == len(set(used)) == DEVICES


@on_both(*POINTS, real=("status of the first", "late"))
async def test_what_a_pod_that_went_meanwhile_had_is_free_again(world: World, point: str, fate: Fate) -> None:
    """The pod is deleted while nobody schedules: nothing of it stays in the way, whatever had been written."""
    await two_claims(world)
    await add_pod(world)
    fault = await kill_at(world, *POINTS[point], fate)
    await world.api.delete("pods", "pod", world.namespace)

    await world.start_scheduler()
    if fate == "late":
        # The allocation of a pod that is gone: the controller takes it back, as it does for every pod that ends.
        await arrives_late(fault, fate)
    await all_other_devices(world, DEVICES)
    assert await world.violations() == []
    for name in ("first", "second"):
        claim = await world.api.get("resourceclaims", name, world.namespace)
        assert not (claim.get("status") or {}).get("allocation")


@on_both(*BEFORE_BINDING, real=("status of the second", "lost"))
async def test_what_lies_on_a_node_that_takes_no_pods_is_given_back(world: World, point: str, fate: Fate) -> None:
    """Between the two processes the chosen node is cordoned: what is stored there is undone, and the pod moves."""
    first, second = await two_claims(world, nodes=2)
    await world.cordon(second)
    await add_pod(world)
    fault = await kill_at(world, *POINTS[point], fate)
    await world.cordon(first)
    await world.cordon(second, False)

    await world.start_scheduler()
    pods = await world.wait_bound("pod")
    assert pods["pod"]["spec"]["nodeName"] == second
    await arrives_late(fault, fate)
    await world.cordon(second)
    await world.cordon(first, False)
    await all_other_devices(world, DEVICES)
    assert await world.violations() == []


async def test_the_points_of_an_extended_resource_are_those_of_the_table(world: World) -> None:
    await extended(world)
    await world.start_scheduler()
    await world.wait_bound("pod")
    await world.stop_scheduler()

    writes = writes_seen(world)
    claims, pods = "/apis/resource.k8s.io/v1/namespaces/*/resourceclaims", "/api/v1/namespaces/*/pods/*"
    writes.pop(("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"))
    writes.pop(("POST", "/apis/events.k8s.io/v1/namespaces/*/events"), None)
    assert writes == {
        ("POST", claims): 1,
        ("PATCH", f"{claims}/*/status"): 1,
        ("PATCH", f"{pods}/status"): 1,
        ("POST", f"{pods}/binding"): 1,
    }


async def extended(world: World) -> None:
    """A node of four devices, and a pod that asks for one of them by the name of a resource."""
    await world.add_nodes(1, devices=DEVICES)
    await world.add_class()
    amounts = {f"deviceclass.resource.kubernetes.io/{world.class_name}": "1"}
    container = {
        "name": "main",
        "image": "registry.example.com/work:1",
        "resources": {"requests": amounts, "limits": amounts},
    }
    await world.add_pod("pod", containers=[container])


@on_both(*EXTENDED_POINTS, real=("status", "stored"))
async def test_the_next_one_finishes_an_extended_resource(world: World, point: str, fate: Fate) -> None:
    await extended(world)
    fault = await kill_at(world, *EXTENDED_POINTS[point], fate)

    assert await world.violations() == []
    await world.start_scheduler()
    pods = await world.wait_bound("pod")
    await arrives_late(fault, fate)
    told = pods["pod"]["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    claims = await world.api.list("resourceclaims", world.namespace)
    allocated = [claim["metadata"]["name"] for claim in claims if (claim.get("status") or {}).get("allocation")]
    assert allocated == [told]
    await all_other_devices(world, DEVICES - 1)
    assert await world.violations() == []


@on_both(*EXTENDED_POINTS, real=("pod status", "lost"))
async def test_an_extended_resource_of_a_pod_that_went_is_free_again(world: World, point: str, fate: Fate) -> None:
    await extended(world)
    fault = await kill_at(world, *EXTENDED_POINTS[point], fate)
    await world.api.delete("pods", "pod", world.namespace)

    await world.start_scheduler()
    if fate == "late":
        await arrives_late(fault, fate)
    await all_other_devices(world, DEVICES)
    assert await world.violations() == []


@on_both("status of the first", real=("status of the first", "late"))
async def test_a_claim_is_given_back_once(world: World, point: str, fate: Fate) -> None:
    """An idle claim lies on a node that takes no pods; the scheduler dies while it clears the allocation.

    Late, the dead one's write would clear what the next one has allocated: it must be refused.
    """
    first, second = await two_claims(world, nodes=2)
    await world.cordon(first)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [first]}]}
    result = {"request": "gpu", "driver": world.driver, "pool": first, "device": "gpu-0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    finalizers = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    await world.api.merge_patch("resourceclaims", "first", finalizers, world.namespace)
    status = {"status": {"allocation": allocation}}
    await world.api.merge_patch("resourceclaims", "first", status, world.namespace, "status")
    await add_pod(world)
    fault = await kill_at(world, *POINTS[point], fate)

    await world.start_scheduler()
    pods = await world.wait_bound("pod")
    assert pods["pod"]["spec"]["nodeName"] == second
    if fate == "late":
        assert await fault.release() == 409
    await all_other_devices(world, DEVICES - 2)
    assert await world.violations() == []


@on_both(*REFUSED_POINTS, real=("condition", "late"))
async def test_a_refusal_that_was_not_said_is_said(world: World, point: str, fate: Fate) -> None:
    await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_claim("first", world.request(count=2))
    await world.add_pod("pod", claim="first")
    fault = await kill_at(world, *REFUSED_POINTS[point], fate)

    await world.start_scheduler()
    condition = await world.wait_unschedulable("pod")
    await arrives_late(fault, fate)
    assert "cannot allocate all claims" in condition["message"]
    await world.add_nodes(1, devices=2, first=1)
    await world.wait_bound("pod")
    assert await world.violations() == []
