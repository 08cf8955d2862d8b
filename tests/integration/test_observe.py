"""`observe` with the rights of overlays/observe, on a real control plane whose only scheduler is kube-scheduler.

40 pods wait for causes that were planted; what they wait for, and which object makes it so, is to be right for 38. The
audit log has what was asked: nothing but reads. Each write is refused.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import pytest
import yaml

from scheduler.kube.api_requests import ApiClient
from scheduler.kube.credentials import Connection
from scheduler.kube.outcomes import Rejected
from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import CONTROLLERS, ControlPlane
from tests.integration.api import Object
from tests.integration.conftest import RealCluster, real_world
from tests.integration.test_rbac import METHODS, READS_TOO, Right, rights_of, used_by
from tests.integration.world import UNDER_TEST, World, gpu, node
from tests.manifests.rendering import MANIFESTS, overlay_text
from tests.patience import PATIENCE_S
from tests.ui.page_process import page_process

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.skipif(UNDER_TEST != "ours", reason="this is about our command"),
]
ACCOUNT: Final = ("dra-scheduler", "dra-scheduler")
LEAST_RIGHT: Final = 38
RIGHTS: Final = rights_of(yaml.safe_load((MANIFESTS / "overlays" / "observe" / "rbac.yaml").read_text()))
WRITES: Final = ("create", "update", "patch", "delete")
MORE_RESOURCES: Final = (
    *(("", "pods/binding"), ("", "pods/status"), ("", "pods/eviction"), ("", "secrets"), ("", "configmaps")),
    *(("resource.k8s.io", "resourceclaims/status"), ("resource.k8s.io", "resourceclaims/binding")),
    *(("coordination.k8s.io", "leases"), ("events.k8s.io", "events"), ("rbac.authorization.k8s.io", "clusterroles")),
    *(("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")),
)


class Planted(NamedTuple):
    """Patterns of the kind, and of the object or fact that makes it so."""

    kind: str
    about: str


def apply_overlay(plane: ControlPlane) -> None:
    """Create what overlays/observe has."""
    done = subprocess.run(
        ["kubectl", f"--kubeconfig={plane.kubeconfig('admin')}", "apply", "-f", "-"],
        input=overlay_text("observe"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def observed() -> Iterator[RealCluster]:
    """A control plane with overlays/observe, and kube-scheduler under its own name."""
    built_or_skip("controlplane")
    with ControlPlane(CONTROLLERS, audits=READS_TOO) as plane:
        apply_overlay(plane)
        plane.start_kube_scheduler("default-scheduler")
        yield RealCluster(plane, ACCOUNT)


@pytest.fixture
async def world(observed: RealCluster, tmp_path: Path) -> AsyncIterator[World]:
    async with real_world(observed, tmp_path) as opened:
        await opened.add_namespace()
        try:
            yield opened
        finally:
            await opened.clean_up()


def kubeconfig(observed: RealCluster) -> str:
    return f"--kubeconfig={observed.control_plane.service_account_kubeconfig(*ACCOUNT)}"


async def fleet(world: World) -> None:
    """Nodes each of which refuses for a reason of its own; a model of device for each."""
    for number, (model, spec) in enumerate(
        {
            "FREE": {},
            "HELD": {},
            "CORDONED": {"unschedulable": True},
            "KEPT": {"taints": [{"key": "example.com/team", "value": "a", "effect": "NoSchedule"}]},
            "HOT": {},
            "HALF": {},
        }.items()
    ):
        name = world.node_name(number)
        await world.create("nodes", node(name, labels={"example.com/pool": model.lower()}, **spec))
        devices = [gpu(index, model={"string": model}) for index in range(2 if model == "HELD" else 4)]
        if model == "HOT":
            taint = {"key": "example.com/overheated", "effect": "NoSchedule"}
            devices = [{**one, "taints": [taint]} for one in devices]
        await world.publish(name, devices, slices=2 if model == "HALF" else 1)
    await world.add_class()
    await world.create("priorityclasses", {"metadata": {"name": f"{world.tag}-high"}, "value": 1000})


def of_model(world: World, model: str, **more: Any) -> Object:
    expression = f"device.attributes['{world.driver}'].model == '{model}'"
    return world.request(selectors=[{"cel": {"expression": expression}}], **more)


def wants(world: World, expression: str) -> Object:
    return world.request(selectors=[{"cel": {"expression": expression.replace("DRIVER", world.driver)}}])


def same(world: World, attribute: str) -> Object:
    """Three devices that have one value of it."""
    constraint = {"matchAttribute": attribute.replace("DRIVER", world.driver), "requests": ["gpu"]}
    return {"requests": [of_model(world, "FREE", count=3)], "constraints": [constraint]}


async def plant(world: World) -> dict[str, Planted]:
    """Two pods for each cause; holders run before."""
    await fleet(world)
    for name in ("holder-0", "holder-1"):
        await world.add_claim(name, of_model(world, "HELD"))
        await world.add_pod(name, claim=name, schedulerName="default-scheduler")
    await world.wait_bound("holder-0", "holder-1")

    at = world.node_name
    attribute = f"device.attributes['{world.driver}']"
    missing_class = {"name": "gpu", "exactly": {"deviceClassName": "no-such-class"}}
    claims: dict[str, tuple[Object, Planted]] = {
        "class": ({"requests": [missing_class]}, Planted("class-missing", "no-such-class")),
        "value": ({"requests": [of_model(world, "NOBODY")]}, Planted("selector-unmet", "NOBODY")),
        "typo": ({"requests": [wants(world, f"{attribute}.modle == 'FREE'")]}, Planted("selector-.*", "modle")),
        "fails": (
            {"requests": [wants(world, f"{attribute}.driverVersion == '1.0.0'")]},
            Planted("selector-error", "driverVersion"),
        ),
        "count": ({"requests": [of_model(world, "FREE", count=9)]}, Planted("devices-short", f"{at(0)}.*asks for 9")),
        "held": ({"requests": [of_model(world, "HELD")]}, Planted("devices-in-use", "holder-0|holder-1")),
        "cordon": ({"requests": [of_model(world, "CORDONED")]}, Planted("node-cordoned", at(2))),
        "kept": ({"requests": [of_model(world, "KEPT")]}, Planted("node-tainted", f"{at(3)}.*example.com/team")),
        "hot": ({"requests": [of_model(world, "HOT")]}, Planted("device-tainted", "example.com/overheated")),
        "half": ({"requests": [of_model(world, "HALF")]}, Planted("pool-incomplete", at(5))),
        "root": (same(world, "resource.kubernetes.io/pcieRoot"), Planted("constraint-unmet", "pcieRoot")),
        "lacks": (same(world, "DRIVER/nvlink"), Planted("constraint-attribute-missing", "nvlink")),
    }
    planted: dict[str, Planted] = {}
    for name, (spec, cause) in claims.items():
        for number in range(2):
            pod = f"{name}-{number}"
            await world.add_claim(pod, *spec["requests"], **{key: spec[key] for key in spec if key != "requests"})
            # Whoever is important waits for devices all the same: kube-scheduler preempts nobody for them.
            important = {"priorityClassName": f"{world.tag}-high"} if name == "held" else {}
            await world.add_pod(pod, claim=pod, schedulerName="default-scheduler", **important)
            planted[pod] = cause
    for number in range(2):
        planted |= await plant_plain(world, number)
    return planted


async def plant_plain(world: World, number: int) -> dict[str, Planted]:
    """Causes that are no matter of devices."""
    space = world.namespace
    pods = {
        "label": (
            {"nodeSelector": {"example.com/zone": "nowhere"}},
            Planted("node-affinity-unmet", "example.com/zone"),
        ),
        "gate": ({"schedulingGates": [{"name": "example.com/wait"}]}, Planted("scheduling-gate", "example.com/wait")),
        "claim": (
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "no-such-claim"}]},
            Planted("claim-missing", f"{space}/no-such-claim"),
        ),
        "template": (
            {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "no-such-template"}]},
            Planted("claim-not-made", "no-such-template"),
        ),
        "volume": (
            {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "no-such-volume"}}]},
            Planted("volume-claim-missing", "no-such-volume"),
        ),
        "far": (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}}},
            Planted("pod-affinity-unmet", "nobody"),
        ),
    }
    found = {}
    for name, (spec, cause) in pods.items():
        await world.add_pod(f"{name}-{number}", **{"schedulerName": "default-scheduler", **spec})
        found[f"{name}-{number}"] = cause
    cpu = world.pod(f"cpu-{number}", schedulerName="default-scheduler")
    cpu["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100"}}
    await world.create("pods", cpu)
    await world.add_pod(f"name-{number}", schedulerName="default-schedular")
    return {
        **found,
        f"cpu-{number}": Planted("resources-short", "64 cpu"),
        f"name-{number}": Planted("scheduler-unknown", "default-schedular"),
    }


SILENT: Final = ("name-", "claim-", "template-")
"""Of these kube-scheduler says nothing: it does not look at them, or keeps them out of its queue without a word."""
NEAR: Final = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nobody"}}}


async def answers(url: str, count: int) -> dict[str, Object]:
    """Rows of the list by pod, once as many wait as were planted and each has been looked at closely."""
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{url}api/pending") as reply:
                document = await reply.json()
            found = {name: row for row in document.get("pods", ()) for name in row["names"]}
            if len(found) >= count and not document.get("again"):
                return found
            await asyncio.sleep(0.1)


def is_refused(pod: Object) -> bool:
    """Also where a selector fails, which is an error of the scheduler, and at a gate."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


async def test_pods_of_kube_scheduler_have_their_causes_named_with_rights_to_read(
    observed: RealCluster, world: World, tmp_path: Path
) -> None:
    plane = observed.control_plane
    planted = await plant(world)
    assert len(planted) == 40

    def all_refused(pods: dict[str, Object]) -> bool:
        return all(is_refused(pods[name]) or name.startswith(SILENT) for name in planted)

    await world.wait_for("pods", all_refused, what="kube-scheduler has refused all that were planted")
    plane.audit_log.write_text("")
    async with page_process(tmp_path, kubeconfig(observed), "--port=0", "--no-health", command="observe") as url:
        found = await answers(url, len(planted))
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}api/pod?namespace={world.namespace}&name=held-0") as reply:
                held = await reply.json()
            async with session.get(f"{url}api/about") as reply:
                about = await reply.json()
    assert (held["unlisted"], about["problems"]) == ([], [])
    assert held["kind"] == "devices-in-use"
    assert [note for note in held["notes"] if note.startswith("dra-scheduler would preempt for it: ")]

    wrong = {
        name: (found[name]["kind"], found[name]["cause"])
        for name, cause in planted.items()
        if not re.fullmatch(cause.kind, found[name]["kind"]) or not re.search(cause.about, found[name]["cause"])
    }
    print(f"{len(planted) - len(wrong)} of {len(planted)} right; not: {json.dumps(wrong, indent=1)}")
    assert len(planted) - len(wrong) >= LEAST_RIGHT, wrong

    used = used_by(plane.audit_log, f"system:serviceaccount:{':'.join(ACCOUNT)}")
    assert [one for one, codes in used.items() if 403 in codes] == []
    verbs = {one.partition(" ")[0] for one in used}
    assert verbs <= {"get", "list", "watch"}
    rights = {str(one) for one in RIGHTS}
    asked = {one for one in used if not one.partition(" ")[2].startswith("/")}
    assert asked <= rights
    assert rights - asked <= {"list podgroups.scheduling.k8s.io"}, "a server of 1.37 does not serve them by default"


async def test_each_write_is_refused(observed: RealCluster) -> None:
    path = observed.control_plane.service_account_kubeconfig(*ACCOUNT)
    resources = {(one.group, one.resource) for one in RIGHTS} | {*MORE_RESOURCES}
    let_through = []
    async with ApiClient(await Connection(kubeconfig=path).open()) as client:
        for group, resource in sorted(resources):
            for verb in WRITES:
                right = Right("ClusterRole", group, resource, verb)
                body = None if verb == "delete" else b"{}"
                content = "application/merge-patch+json" if verb == "patch" else "application/json"
                outcome = await client.send(METHODS[verb], right.path(""), body, content)
                if not (isinstance(outcome, Rejected) and outcome.code == 403):
                    let_through.append(f"{right}: {outcome}")
    assert let_through == []


async def test_without_the_right_to_create_events_none_is_created_and_that_is_said(
    observed: RealCluster, world: World, tmp_path: Path
) -> None:
    await world.create("nodes", node(world.node_name(0)))
    await world.add_pod("waits", schedulerName="default-scheduler", nodeSelector={"a": "b"})
    await world.wait_unschedulable("waits")
    log = tmp_path / "page.log"
    arguments = (kubeconfig(observed), "--port=0", "--no-health", "--events")
    async with page_process(tmp_path, *arguments, command="observe"), asyncio.timeout(PATIENCE_S):
        while "the API server takes no events" not in log.read_text():  # noqa: ASYNC110 - what another process does
            await asyncio.sleep(0.05)
    events = await world.api.list("events", world.namespace)
    assert [one for one in events if one["reason"] == "WhyPending"] == []
