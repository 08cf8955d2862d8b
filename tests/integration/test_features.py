"""What happens to a feature's objects after the first allocation: a driver answers or does not, taints come and go,
the last pod of a shared claim goes, a claim stands in the way of its pod.

Not here: first allocations (`test_devices`, `test_examples`).
"""

from __future__ import annotations

import pytest

from tests.integration.api import ApiError, Object
from tests.integration.test_examples import FEATURES, cluster_of
from tests.integration.world import UNDER_TEST, World, devices_of

BINDING = FEATURES / "binding-conditions.yaml"
POD = "waits-for-its-gpu"
SCHEDULED_AT = "2026-01-02T03:04:05Z"

POD_WITH_CLAIM = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  schedulerName: dra-scheduler
  containers:
    - name: main
      image: registry.example/work:1
      resources: {{claims: [{{name: gpu}}]}}
  resourceClaims:
    - {{name: gpu, resourceClaimName: {claim}}}
"""
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec:
  devices:
    requests:
      - name: gpu
        exactly: {{deviceClassName: gpu.example.com{more}}}
"""


def pod_with(claim: str, name: str) -> str:
    return POD_WITH_CLAIM.format(name=name, claim=claim)


def claim_named(name: str, more: str = "") -> str:
    return CLAIM.format(name=name, more=more)


# -- binding conditions: the tests play the driver ----------------------------------------------------------------


async def begin_binding(world: World, *arguments: str) -> Object:
    """The example, up to the moment where the scheduler waits for the driver; returns the claim."""
    await world.apply(cluster_of(BINDING))
    await world.start_scheduler(*arguments)
    await world.apply(BINDING, one_by_one=False)
    await wait_event(world, "BindingConditionsPending")
    claim = await world.claim_of(POD)
    assert devices_of(claim) == [("chassis", "gpu-0")]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["bindingConditions"] == [f"{world.driver}/attached"]
    assert result["bindingFailureConditions"] == [f"{world.driver}/attach-failed"]
    assert claim["status"]["allocation"]["allocationTimestamp"]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["fabric-0"]}]}
    assert claim["status"]["allocation"]["nodeSelector"] == {"nodeSelectorTerms": [term]}, "bindsToNode"
    assert [consumer["name"] for consumer in claim["status"]["reservedFor"]] == [POD]
    pod = await world.api.get("pods", POD, world.namespace)
    assert "nodeName" not in pod["spec"]
    return claim


async def wait_event(world: World, reason: str, part: str = "") -> None:
    await world.wait_for(
        "events",
        lambda events: any(e["reason"] == reason and part in e.get("note", "") for e in events.values()),
        what=f"event {reason} {part}",
    )


async def report(world: World, claim: Object, condition: str, reason: str = "FabricManager") -> None:
    """What the driver finds out about the claim's device."""
    ((pool, device),) = devices_of(claim)
    found = {
        "type": f"{world.driver}/{condition}",
        "status": "True",
        "reason": reason,
        "message": "as the fabric says",
        "lastTransitionTime": SCHEDULED_AT,
    }
    devices = [{"driver": world.driver, "pool": pool, "device": device, "conditions": [found]}]
    await world.api.merge_patch(
        "resourceclaims", claim["metadata"]["name"], {"status": {"devices": devices}}, world.namespace, "status"
    )


async def keep_new_claims_from(world: World, device: str, **others: object) -> None:
    """The driver taints a device it cannot attach; the scheduler would take it again. `others` changes the others."""
    slices = {item["metadata"]["name"]: item for item in await world.api.list("resourceslices")}
    devices = slices["chassis-gpus"]["spec"]["devices"]
    taint = {"key": f"{world.driver}/unreachable", "effect": "NoSchedule"}
    changed = [{**one, "taints": [taint]} if one["name"] == device else {**one, **others} for one in devices]
    await world.api.merge_patch("resourceslices", "chassis-gpus", {"spec": {"devices": changed}})


async def wait_claim_on(world: World, claim: Object, device: str) -> Object:
    name = claim["metadata"]["name"]

    def is_there(claims: dict[str, Object]) -> bool:
        return bool(claims[name].get("status", {}).get("allocation")) and devices_of(claims[name])[0][1] == device

    return (await world.wait_for("resourceclaims", is_there, what=f"claim {name} on {device}"))[name]


async def test_a_pod_is_bound_when_its_device_reports_ready(world: World) -> None:
    claim = await begin_binding(world)

    await report(world, claim, "attached")
    await world.wait_bound(POD)
    assert devices_of(await world.claim_of(POD)) == [("chassis", "gpu-0")]
    if UNDER_TEST == "ours":  # kube-scheduler tells the beginning only
        await wait_event(world, "BindingConditionsMet")
    assert await world.violations() == []


async def test_a_device_that_fails_to_bind_is_given_back_and_another_one_tried(world: World) -> None:
    claim = await begin_binding(world)

    await keep_new_claims_from(world, "gpu-0")
    await report(world, claim, "attach-failed", "LinkDown")
    await wait_event(world, "FailedScheduling", "reason=LinkDown")
    if UNDER_TEST == "ours":
        await wait_event(world, "BindingConditionsFailed", "reason=LinkDown")
    moved = await wait_claim_on(world, claim, "gpu-1")
    assert not moved["status"].get("devices"), "what was reported about the device that was given back"
    await report(world, moved, "attached")
    await world.wait_bound(POD)
    assert await world.violations() == []


async def test_a_device_that_does_not_answer_in_time_is_given_back(world: World) -> None:
    if UNDER_TEST == "kube-scheduler":
        pytest.skip("its binding timeout is not set by these tests, and is 10 minutes")
    config = world.configuration()
    profiles = "profiles:\n  - pluginConfig:\n      - {name: DynamicResources, args: {bindingTimeout: 2s}}\n"
    config.write_text(config.read_text() + profiles)
    claim = await begin_binding(world, f"--config={config}")

    await keep_new_claims_from(world, "gpu-0", bindsToNode=None, bindingConditions=None, bindingFailureConditions=None)
    await wait_event(world, "FailedScheduling", f"device binding timeout: claim={claim['metadata']['name']}")
    await wait_event(world, "BindingConditionsTimeout", f"claim={claim['metadata']['name']}")
    await world.wait_bound(POD)
    assert devices_of(await world.claim_of(POD)) == [("chassis", "gpu-1")]
    assert await world.violations() == []


async def test_pods_that_share_a_device_wait_for_it_together_and_move_together(world: World) -> None:
    """Two pods, one claim: its device fails, both give it up, and both are bound with the next one."""
    await world.apply(cluster_of(BINDING))
    await world.start_scheduler()
    names = ("one", "two")
    await world.apply(claim_named("shared"), *(pod_with("shared", name) for name in names), one_by_one=False)
    claims = await world.wait_for(
        "resourceclaims",
        lambda claims: len(claims["shared"].get("status", {}).get("reservedFor") or ()) == 2,
        what="both reserved",
    )
    await keep_new_claims_from(world, "gpu-0")
    await report(world, claims["shared"], "attach-failed")
    moved = await wait_claim_on(world, claims["shared"], "gpu-1")
    await report(world, moved, "attached")
    await world.wait_bound(*names)
    assert await world.violations() == []


async def test_a_pod_that_goes_while_its_device_is_being_attached_gives_it_back(world: World) -> None:
    await begin_binding(world)
    await keep_new_claims_from(world, "gpu-1")
    await world.apply(claim_named("other"), pod_with("other", "next"), one_by_one=False)
    await world.wait_unschedulable("next")

    await world.api.delete("pods", POD, world.namespace)
    claims = await world.wait_for(
        "resourceclaims",
        lambda claims: bool(claims["other"].get("status", {}).get("allocation")),
        what="the device is the next pod's",
    )
    await report(world, claims["other"], "attached")
    await world.wait_bound("next")
    assert await world.violations() == []


async def test_a_scheduler_that_starts_while_a_device_is_being_attached_waits_for_it(world: World) -> None:
    """Allocated and reserved by a scheduler that died: the next one neither binds early nor starts over."""
    claim = await begin_binding(world)
    await world.stop_scheduler(kill=True)
    await world.start_scheduler()
    await world.apply(pod_without_claim("witness"))

    pod = await world.api.get("pods", POD, world.namespace)
    assert "nodeName" not in pod["spec"]
    await report(world, claim, "attached")
    await world.wait_bound(POD)
    assert devices_of(await world.claim_of(POD)) == [("chassis", "gpu-0")]
    assert await world.violations() == []


def pod_without_claim(name: str) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  schedulerName: dra-scheduler\n"
        "  containers: [{name: main, image: registry.example/work:1}]\n"
    )


# -- de-allocation by PostFilter ----------------------------------------------------------------------------------


async def two_nodes_and_a_claim_on_the_first(world: World) -> tuple[str, str]:
    """Claim `data` is allocated on the first node and reserved for nobody, as a scheduler leaves it that gave up."""
    first, second = await world.add_nodes(2, devices=1)
    await world.add_class(name=world.driver)  # as `apply` spells gpu.example.com
    await world.apply(claim_named("data"))
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [first]}]}
    result = {"request": "gpu", "driver": world.driver, "pool": first, "device": "gpu-0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    finalizers = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    await world.api.merge_patch("resourceclaims", "data", finalizers, world.namespace)
    await world.api.merge_patch(
        "resourceclaims", "data", {"status": {"allocation": allocation}}, world.namespace, "status"
    )
    return first, second


async def test_a_claim_that_nobody_uses_is_freed_for_a_pod_that_cannot_go_where_it_is(world: World) -> None:
    first, second = await two_nodes_and_a_claim_on_the_first(world)
    await world.cordon(first)
    await world.start_scheduler()
    await world.apply(pod_with("data", "reader"), one_by_one=False)

    assert (await world.wait_bound("reader"))["reader"]["spec"]["nodeName"] == second
    assert devices_of(await world.api.get("resourceclaims", "data", world.namespace)) == [(second, "gpu-0")]
    assert await world.violations() == []


async def test_a_claim_on_a_node_that_is_gone_is_freed_for_its_pod(world: World) -> None:
    first, second = await two_nodes_and_a_claim_on_the_first(world)
    await world.api.delete("resourceslices", f"{first}-1-first")
    await world.api.delete("nodes", first)
    await world.start_scheduler()
    await world.apply(pod_with("data", "reader"), one_by_one=False)

    assert (await world.wait_bound("reader"))["reader"]["spec"]["nodeName"] == second
    assert await world.violations() == []


async def test_a_claim_that_another_pod_uses_is_not_freed_until_that_pod_is_gone(world: World) -> None:
    first, second = await two_nodes_and_a_claim_on_the_first(world)
    await world.start_scheduler()
    await world.apply(pod_with("data", "owner"))
    await world.cordon(first)
    await world.apply(pod_with("data", "reader"), one_by_one=False)
    condition = await world.wait_unschedulable("reader")

    assert "resourceclaim not available on the node" in condition["message"]
    claim = await world.api.get("resourceclaims", "data", world.namespace)
    assert devices_of(claim) == [(first, "gpu-0")]
    assert [consumer["name"] for consumer in claim["status"]["reservedFor"]] == ["owner"]
    assert await world.violations() == []

    await world.api.delete("pods", "owner", world.namespace)
    assert (await world.wait_bound("reader"))["reader"]["spec"]["nodeName"] == second
    assert await world.violations() == []


# -- shared claims, taints, admin access --------------------------------------------------------------------------


async def test_a_shared_claim_is_freed_with_the_last_of_its_pods_and_no_sooner(world: World) -> None:
    await world.add_nodes(1, devices=1)
    await world.add_class(name=world.driver)  # as `apply` spells gpu.example.com
    await world.start_scheduler()
    await world.apply(claim_named("shared"), pod_with("shared", "one"), pod_with("shared", "two"))
    await world.apply(claim_named("next"), pod_with("next", "waiting"))
    await world.wait_unschedulable("waiting")
    await world.api.delete("pods", "one", world.namespace)
    claims = await world.wait_for(
        "resourceclaims",
        lambda claims: [one["name"] for one in claims["shared"]["status"].get("reservedFor") or ()] == ["two"],
        what="pod one's reservation is taken away",
    )
    assert devices_of(claims["shared"])
    assert "nodeName" not in (await world.api.get("pods", "waiting", world.namespace))["spec"]

    await world.api.delete("pods", "two", world.namespace)
    await world.wait_bound("waiting")
    assert await world.violations() == []


async def test_a_taint_that_the_driver_takes_away_wakes_the_pod_that_it_kept_waiting(world: World) -> None:
    (name,) = await world.add_nodes(1)
    await world.apply(
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu.example.com}\n"
        "spec: {selectors: [{cel: {expression: device.driver == 'gpu.example.com'}}]}\n---\n"
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: tainted}\nspec:\n"
        f"  driver: gpu.example.com\n  nodeName: {name}\n"
        f"  pool: {{name: {name}, generation: 1, resourceSliceCount: 1}}\n"
        "  devices: [{name: gpu-0, taints: [{key: example.com/resetting, effect: NoSchedule}]}]\n"
    )
    await world.start_scheduler()
    await world.apply(claim_named("data"), pod_with("data", "waiting"))
    await world.wait_unschedulable("waiting")

    await world.api.merge_patch("resourceslices", "tainted", {"spec": {"devices": [{"name": "gpu-0"}]}})
    await world.wait_bound("waiting")
    assert await world.violations() == []


async def test_admin_access_is_for_labelled_namespaces_only(world: World) -> None:
    await world.add_nodes(1, devices=1)
    await world.add_class(name=world.driver)  # as `apply` spells gpu.example.com
    await world.start_scheduler()
    await world.apply(claim_named("work"), pod_with("work", "worker"))
    admin = claim_named("watch", ", adminAccess: true")
    with pytest.raises(ApiError, match=r"admin access to devices requires the `resource\.kubernetes\.io/admin-access"):
        await world.apply(admin)

    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await world.api.merge_patch("namespaces", world.namespace, labels)
    await world.apply(admin, pod_with("watch", "watcher"))
    pods = await world.wait_bound("worker", "watcher")
    assert set(pods) == {"worker", "watcher"}
    work, watch = [await world.api.get("resourceclaims", name, world.namespace) for name in ("work", "watch")]
    assert devices_of(watch) == devices_of(work)
    assert watch["status"]["allocation"]["devices"]["results"][0]["adminAccess"]
    assert await world.violations() == []
