"""The claim controller puts another claim in the place of the one it had made, while the pod is being bound.

That is https://github.com/kubernetes/kubernetes/issues/140217: kube-controller-manager 1.36 does it by itself when a
thousand pods come at once, in one of some dozens of runs. Here it is done by hand, at each point of the binding. The
controller may notice the first claim and name it again; whatever it does, a bound pod's status names what is reserved
for it, and nothing else of the pod keeps a device.
"""

from __future__ import annotations

import pytest

from tests.controlplane.fault_proxy import Fault
from tests.integration.api import Object
from tests.integration.world import World

DEVICES = 2
CLUSTERS = ["embedded", pytest.param("controlplane", marks=pytest.mark.controlplane)]
POINTS = {
    "finalizer": ("PATCH", r"/resourceclaims/pod-gpu-[^/]+$"),
    "status": ("PATCH", r"/resourceclaims/pod-gpu-[^/]+/status$"),
    "binding": ("POST", r"/pods/pod/binding$"),
}


async def replace_claim(world: World, claim: Object) -> None:
    """A second claim of the pod, named by its status."""
    marks = {key: claim["metadata"][key] for key in ("annotations", "ownerReferences")}
    metadata = {**world.meta("pod-gpu-second"), **marks}
    await world.create("resourceclaims", {"metadata": metadata, "spec": claim["spec"]})
    entry = claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"]
    named = [{"name": entry, "resourceClaimName": "pod-gpu-second"}]
    await world.api.merge_patch("pods", "pod", {"status": {"resourceClaimStatuses": named}}, world.namespace, "status")


@pytest.mark.parametrize("world", CLUSTERS, indirect=True)
@pytest.mark.parametrize("point", POINTS)
async def test_a_pod_is_bound_with_the_claim_that_its_status_names(world: World, point: str) -> None:
    await world.add_nodes(1, devices=DEVICES)
    await world.add_class()
    await world.add_template()
    fault = world.proxy.add(Fault("hold", *POINTS[point]))
    await world.start_scheduler()
    await world.add_pod("pod", template="one-gpu")
    await world.wait_fault(fault)
    first = await world.claim_of("pod")
    await replace_claim(world, first)
    answer = await fault.release()
    assert answer == (409 if point == "binding" else 200)

    await world.wait_bound("pod")
    assert await world.violations() == []
    named = await world.claim_of("pod")
    assert named["status"]["reservedFor"][0]["name"] == "pod"

    # The first one, if it is not the one named again, gives its device back: another pod gets all the rest.
    await world.add_claim("rest", world.request(count=DEVICES - 1))
    await world.add_pod("rest", claim="rest")
    await world.wait_bound("rest")
    assert await world.violations() == []
