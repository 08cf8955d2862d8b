"""An API server whose feature gates are off drops fields with 200 OK: the scheduler says so, and is not misled.

Off by default before Kubernetes 1.36, and possible after: a cluster where they were on, so that slices have the fields,
and then turned off.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fault_proxy import Fault, api_failure
from tests.integration.conftest import real_world, with_manifests
from tests.integration.test_examples import FEATURES, cluster_of
from tests.integration.world import ROOT, UNDER_TEST, World, devices_of

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler has gates of its own, which nobody closes here"),
]

CLOSED = {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}
BINDING = FEATURES / "binding-conditions.yaml"
SHARED = FEATURES / "consumable-network.yaml"
POD = "waits-for-its-gpu"
BINDING_FIELDS = ("bindingConditions", "bindingFailureConditions")
SHARE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: link-{number}}}
spec:
  devices:
    requests:
      - {{name: link, exactly: {{deviceClassName: nic.example.com, capacity: {{requests: {{bandwidth: 1G}}}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: pod-{number}}}
spec:
  schedulerName: dra-scheduler
  containers: [{{name: main, image: "registry.example/work:1", resources: {{claims: [{{name: link}}]}}}}]
  resourceClaims: [{{name: link, resourceClaimName: link-{number}}}]
"""


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose slices were published while the gates were still open."""
    built_or_skip("controlplane")
    with ControlPlane() as plane:
        async with real_world(with_manifests(plane), tmp_path) as world:
            await world.add_namespace()
            await world.apply(cluster_of(BINDING), cluster_of(SHARED))
            plane.feature_gates = CLOSED
            await asyncio.to_thread(plane.restart_apiserver)
            try:
                yield world
            finally:
                await world.stop_scheduler(kill=True)


async def lint(world: World, *files: Path) -> set[tuple[str, str, str]]:
    """File, field and gate of what `dra-scheduler lint` says this cluster drops."""
    kubeconfig = world.cluster.control_plane.kubeconfig()  # type: ignore[attr-defined]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "lint", *files, "-o", "json", "--kubeconfig", kubeconfig),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    found = [item for item in json.loads(output)["items"] if item["code"] == "gate-off"]
    pattern = re.compile(r"the API server drops (\w+) without an error: the feature gate (\w+) is off in this cluster")
    return {(Path(item["file"]).name, *pattern.match(item["message"]).groups()) for item in found}


async def test_what_closed_gates_take_away_is_named_and_no_allocation_relies_on_it(closed: World) -> None:
    """First a scheduler that sees the gates, then one that may not read /metrics; on one server, as it takes a while.

    The first gives a device that must be attached to nobody, and a card that could be shared out whole. The second
    allocates that device, and tells what the stored allocation has lost.
    """
    await closed.start_scheduler()
    await closed.apply(BINDING, *(SHARE.format(number=number) for number in range(3)))

    for name in (POD, "pod-2"):
        assert "cannot allocate all claims" in (await closed.wait_unschedulable(name))["message"]
    for number in range(2):
        claim = await closed.claim_of(f"pod-{number}")
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert (result["device"], result.get("shareID")) == (f"nic-{number}", None)
    for gate in CLOSED:
        assert f"feature gate {gate} is off: it drops " in closed.log_tail()
    assert await closed.violations() == []
    assert await lint(closed, cluster_of(BINDING), cluster_of(SHARED)) == {
        ("consumable-network-cluster.yaml", "allowMultipleAllocations", "DRAConsumableCapacity"),
        ("consumable-network-cluster.yaml", "requestPolicy", "DRAConsumableCapacity"),
        *(("binding-conditions-cluster.yaml", field, "DRADeviceBindingConditions") for field in BINDING_FIELDS),
        ("binding-conditions-cluster.yaml", "bindsToNode", "DRADeviceBindingConditions"),
    }

    await closed.stop_scheduler()
    hidden = api_failure(403, "Forbidden", 'forbidden: User cannot get path "/metrics"')
    closed.proxy.add(Fault("answer", "GET", r"^/metrics", status=403, body=hidden))
    await closed.start_scheduler()
    await closed.wait_bound(POD)
    assert devices_of(await closed.claim_of(POD)) == [("chassis", "gpu-0")]
    events = await closed.wait_for(
        "events",
        lambda events: any(event["reason"] == "AllocationFieldsDropped" for event in events.values()),
        what="event AllocationFieldsDropped",
    )
    (event,) = [one for one in events.values() if one["reason"] == "AllocationFieldsDropped"]
    lost = [f"{field} (feature gate DRADeviceBindingConditions)" for field in BINDING_FIELDS]
    assert event["note"] == f"the API server dropped {', '.join(lost)} from the allocation that was written"
    assert event["regarding"]["kind"] == "ResourceClaim"
    assert f"the API server dropped {', '.join(lost)} from the allocation of claim " in closed.log_tail()
    assert await closed.violations() == []
