"""Installed on a real API server by either way: what the overlays and the chart render is taken, and works.

No kubelet runs there, so the Deployment's pods do not start: the scheduler is a process with the ServiceAccount's token
and the configuration of the release, as its pod would be. The kinds of the Prometheus operator are those of its CRDs.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from tests.controlplane.build import RegistryUnreachableError, download
from tests.integration.conftest import RealCluster, real_world
from tests.integration.test_readers import TLS
from tests.integration.world import UNDER_TEST, World, devices_of
from tests.manifests.rendering import CHART, chart_text, helm, named, objects, overlay_text
from tests.ui.page_process import page_process

PROMETHEUS_OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
CRDS: Final = ("servicemonitors", "prometheusrules")
WRITTEN: Final = (
    *("/api/v1/namespaces/default/pods", "/api/v1/nodes", "/api/v1/namespaces/default/events"),
    *("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "/apis/resource.k8s.io/v1/resourceslices"),
)

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.helm,
    pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler is not installed by these manifests"),
]


def kubectl(cluster: RealCluster, *arguments: str, given: str | None = None) -> str:
    """Its output; fails the test with what it says."""
    command = ["kubectl", f"--kubeconfig={cluster.control_plane.kubeconfig('admin')}", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def with_crds(control_plane: RealCluster) -> Iterator[RealCluster]:
    """The API server knows ServiceMonitor and PrometheusRule, as the operator of that release defines them."""
    try:
        folder = download(PROMETHEUS_OPERATOR) / "example" / "prometheus-operator-crd"
    except RegistryUnreachableError as error:
        pytest.skip(f"LEFT OUT, the Go module registry does not answer: {error}")
    files = [f"--filename={folder}/monitoring.coreos.com_{name}.yaml" for name in CRDS]
    kubectl(control_plane, "create", *files)
    kubectl(control_plane, "wait", "--for=condition=Established", "--timeout=60s", *files)
    yield control_plane
    kubectl(control_plane, "delete", "--wait=false", *files)


@pytest.mark.parametrize("overlay", ["single", "high-availability", "metrics", "observe"])
def test_the_api_server_takes_every_overlay(with_crds: RealCluster, overlay: str) -> None:
    text = overlay_text(overlay)
    taken = kubectl(
        with_crds,
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-o", "name", "-f", "-"),
        given=text,
    )

    assert len(taken.splitlines()) == len(objects(text))


def test_the_api_server_takes_what_the_chart_renders(with_crds: RealCluster) -> None:
    kubectl(with_crds, "create", "namespace", "rendered")
    page = {"enabled": True, "ingress": {"enabled": True, "host": "dra.example", "tlsSecret": "dra-tls"}}
    values = {
        "metrics": {"enabled": True},
        "ui": {**page, "from": [{"podSelector": {}}]},
        "extraEnv": [{"name": "A", "value": "b"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
    }
    text = chart_text(values, release="rendered", namespace="rendered")
    taken = kubectl(with_crds, "create", "--validate=strict", "--dry-run=server", "-o", "name", "-f", "-", given=text)

    assert len(taken.splitlines()) == len(objects(text))


def test_a_field_that_does_not_exist_is_noticed(with_crds: RealCluster) -> None:
    text = overlay_text("metrics").replace("jobLabel:", "jobLable:")
    with pytest.raises(AssertionError, match="jobLable"):
        kubectl(with_crds, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", given=text)


async def test_a_release_schedules_and_its_upgrade_and_rollback_keep_every_allocation(
    control_plane: RealCluster, tmp_path: Path
) -> None:
    """helm install, upgrade, rollback and uninstall; each time the scheduler runs with what the release gave it."""
    account = ("released", "r-dra-scheduler")
    async with real_world(RealCluster(control_plane.control_plane, account), tmp_path) as world:
        await world.add_namespace()
        names = await world.add_nodes(2, devices=2)
        await world.add_class()
        await world.add_template()
        try:
            release(control_plane, "install", "--create-namespace")
            await start(control_plane, world)
            before = [f"before-{number}" for number in range(3)]
            await world.add_pods(before, template="one-gpu")
            bound = await world.wait_bound(*before)
            assert {pod["spec"]["nodeName"] for pod in bound.values()} <= set(names)
            allocated = await allocations(world, before)
            assert await world.violations() == []

            await helm_test_is_scheduled(control_plane, world)

            release(control_plane, "upgrade", "--set", "config.writesInFlight=8")
            await world.stop_scheduler()  # SIGTERM, as a rollout does
            await start(control_plane, world)
            await world.add_pods(["after"], template="one-gpu")
            await world.wait_bound("after")
            await world.add_pods(["too-many"], template="one-gpu")
            await world.wait_unschedulable("too-many")
            assert await allocations(world, before) == allocated

            release(control_plane, "rollback")
            assert "writesInFlight" not in stored(control_plane)
            await world.stop_scheduler()
            await start(control_plane, world)
            await world.api.delete("pods", "after", world.namespace)
            await world.wait_bound("too-many")
            assert await allocations(world, before) == allocated
            assert await world.violations() == []
        finally:
            await world.stop_scheduler(kill=True)
            release(control_plane, "uninstall")
            await world.clean_up()
        left = kubectl(control_plane, "get", "all,cm,sa,role,rolebinding,pdb,netpol", "-n", account[0], "-o", "name")
        left += kubectl(control_plane, "get", "clusterrole,clusterrolebinding,priorityclass", "-o", "name")
        assert [name for name in left.split() if account[1] in name] == []


async def test_the_charts_page_sees_everything_with_rights_to_read_only(
    control_plane: RealCluster, tmp_path: Path
) -> None:
    """The command of its pod, as its ServiceAccount: nothing is missing, and the API server refuses each write."""
    account = ("paged", "dra-scheduler-ui")
    plane = control_plane.control_plane
    items = objects(chart_text({"ui": {"enabled": True}}, namespace=account[0]))
    own = [one for one in items if one["metadata"]["name"] == account[1] and "Role" in one["kind"]]
    kubectl(control_plane, "create", "namespace", account[0])
    kubectl(control_plane, "create", "serviceaccount", account[1], "-n", account[0])
    kubectl(control_plane, "apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": own}))
    (container,) = named(items, "Deployment", account[1])["spec"]["template"]["spec"]["containers"]
    config = tmp_path / "config.yaml"
    config.write_text(named(items, "ConfigMap", "dra-scheduler")["data"]["config.yaml"])
    kubeconfig = plane.service_account_kubeconfig(*account)
    given = [one for one in container["args"][1:] if not one.startswith(("--config=", "--address=", "--port="))]
    arguments = (*given, f"--config={config}", f"--kubeconfig={kubeconfig}", "--serving=secure")
    # `get` /metrics is what its readers need; its own account has that, too.
    headers = {"Authorization": f"Bearer {plane.service_account_token(*account)}", "Host": account[1]}
    try:
        async with page_process(tmp_path, *arguments) as url, aiohttp.ClientSession() as session:
            for path in ("devices", "pending", "about"):
                async with session.get(f"{url}api/{path}", headers=headers, ssl=TLS) as answer:
                    assert answer.status == 200, await answer.text()
                    said = await answer.json()
            assert said["problems"] == []
            async with session.get(f"{url}api/about", headers={**headers, "Host": "elsewhere"}, ssl=TLS) as answer:
                assert answer.status == 421
            tls, owned = plane.ssl_context(), {"Authorization": headers["Authorization"]}
            for method, path in itertools.product(("POST", "PUT", "PATCH", "DELETE"), WRITTEN):
                there = path if method == "POST" else f"{path}/some"
                async with session.request(method, plane.url + there, headers=owned, ssl=tls) as answer:
                    assert answer.status == 403, f"{method} {there}: {await answer.text()}"
    finally:
        kubectl(control_plane, "delete", "clusterrole,clusterrolebinding", account[1])
        kubectl(control_plane, "delete", "namespace", account[0], "--wait=false")


def release(cluster: RealCluster, what: str, *more: str) -> None:
    """What helm does with release `r`."""
    arguments = [f"--kubeconfig={cluster.control_plane.kubeconfig('admin')}", "--namespace", "released", *more]
    if what in ("install", "upgrade"):
        # The process is not in a pod, where that would be the default.
        arguments += [str(CHART), "--set", "config.leaderElection.resourceNamespace=released"]
        arguments += ["--set", "image.repository=dra-scheduler"]
    done = helm(what, "r", *arguments)
    assert done.returncode == 0, done.stderr


async def start(cluster: RealCluster, world: World) -> None:
    """The scheduler, with the configuration that the release has stored."""
    path = world.log.with_name("released.yaml")
    path.write_text(stored(cluster))
    await world.start_scheduler(f"--config={path}")


def stored(cluster: RealCluster) -> str:
    """The configuration that the release has in its ConfigMap."""
    found = kubectl(cluster, "get", "configmap", "r-dra-scheduler", "-n", "released", "-o", "json")
    return str(json.loads(found)["data"]["config.yaml"])


async def helm_test_is_scheduled(cluster: RealCluster, world: World) -> None:
    """`helm test` would make this pod and wait for its end, for which a kubelet is needed; here it gets its node."""
    arguments = [f"--kubeconfig={cluster.control_plane.kubeconfig('admin')}", "--namespace", "released"]
    hooks = helm("get", "hooks", "r", *arguments)
    assert hooks.returncode == 0, hooks.stderr
    (pod,) = objects(hooks.stdout)
    # In this namespace no less would be admitted.
    kubectl(cluster, "label", "namespace", "released", "--overwrite", "pod-security.kubernetes.io/enforce=restricted")
    kubectl(cluster, "create", "--validate=strict", "-f", "-", given=json.dumps(pod))
    name = pod["metadata"]["name"]
    await world.api.wait_for(
        "pods",
        lambda pods: bool(pods.get(name, {}).get("spec", {}).get("nodeName")),
        "released",
        what="helm's test bound",
    )
    await world.api.delete("pods", name, "released")


async def allocations(world: World, pods: list[str]) -> dict[str, list[tuple[str, str]]]:
    found = {name: devices_of(await world.claim_of(name)) for name in pods}
    assert all(found.values())
    return found
