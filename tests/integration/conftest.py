"""`world`: every test here runs on the embedded cluster and on the real control plane.

The real one lives as long as the session (3 s to start) and runs with the shipped manifests' ServiceAccount and
RBAC; the embedded one is new for every test.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import CONTROLLERS, ControlPlane
from tests.controlplane.fault_proxy import FaultProxy
from tests.integration.api import connected
from tests.integration.prepared import PreparedClaimProcess
from tests.integration.world import ROOT, SCHEDULER_NAME, UNDER_TEST, World
from tests.manifests.rendering import MANIFESTS as SHIPPED

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_READERS = "readers"

MANIFESTS = ROOT / "manifests" / "base"

# The workload shapes among the examples are Jobs and Deployments; one example has a volume.
WORKLOAD_CONTROLLERS = (
    *("deployment-controller", "job-controller", "replicaset-controller"),
    "persistentvolume-binder-controller",
)

_numbers = itertools.count()
_FOR_EVER_S = 3600.0


@dataclass(slots=True)
class RealCluster:
    """The control plane of the session, with the manifests applied."""

    control_plane: ControlPlane
    service_account: tuple[str, str]
    kind: str = "controlplane"
    _kubeconfigs: dict[str, Path] = field(default_factory=dict)

    @property
    def lease_namespace(self) -> str:
        return self.service_account[0]

    async def restart_apiserver(self) -> None:
        await asyncio.to_thread(self.control_plane.restart_apiserver)

    def scheduler_kubeconfig(self, server: str) -> Path:
        """Each time with a new token; `kubeconfig_of` says where the last one is."""
        path = self.control_plane.service_account_kubeconfig(*self.service_account, server=server)
        self._kubeconfigs[server] = path
        return path

    def allow_lease(self, name: str) -> None:
        namespace, account = self.service_account
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/{account}"
        role = self.control_plane.request("GET", path)
        for rule in role["rules"]:
            if name not in rule.get("resourceNames", [name]):
                rule["resourceNames"].append(name)
        self.control_plane.request("PUT", path, role)

    def kubeconfig_of(self, server: str) -> Path:
        return self._kubeconfigs[server]

    def signal_claim_controllers(self, number: signal.Signals) -> None:
        self.control_plane.component("kube-controller-manager").process.send_signal(number)

    def start_kube_scheduler(self, server: str, scheduler_name: str = SCHEDULER_NAME) -> Callable[[], None]:
        self.control_plane.start_kube_scheduler(scheduler_name, server=server)
        return self.control_plane.stop_kube_scheduler


@dataclass(slots=True)
class InMemoryCluster:
    """The embedded cluster; it asks for no credentials."""

    embedded: Any
    folder: Path
    kind: str = "embedded"
    lease_namespace: str = "kube-system"

    async def restart_apiserver(self) -> None:
        await self.embedded.restart()

    def scheduler_kubeconfig(self, server: str) -> Path:
        config = yaml.safe_load(Path(self.embedded.kubeconfig_path).read_text())
        config["clusters"][0]["cluster"] = {"server": server}
        # One for each server: a scheduler reads its kubeconfig again when it changes.
        path = self.folder / f"scheduler-{urlsplit(server).port}.kubeconfig"
        written = path.with_suffix(".written")
        written.write_text(yaml.safe_dump(config))
        written.replace(path)  # another scheduler of the test may be reading it
        return path

    def allow_lease(self, name: str) -> None:
        """There are no rights here."""

    def signal_claim_controllers(self, number: signal.Signals) -> None:
        self.embedded._claim_process._process.send_signal(number)

    def start_kube_scheduler(self, server: str, scheduler_name: str = SCHEDULER_NAME) -> Callable[[], None]:
        pytest.skip("kube-scheduler needs more kinds than the embedded cluster has")


@pytest.fixture(scope="package")
def control_plane() -> Iterator[RealCluster]:
    built_or_skip("controlplane")
    with ControlPlane(controllers=(*CONTROLLERS, *WORKLOAD_CONTROLLERS)) as running:
        yield RealCluster(running, ("", "")) if UNDER_TEST != "ours" else with_manifests(running)


def with_manifests(running: ControlPlane) -> RealCluster:
    """The control plane with the shipped manifests applied."""
    kubeconfig = running.kubeconfig("admin")
    applied = subprocess.run(
        ["kubectl", f"--kubeconfig={kubeconfig}", "apply", "-k", str(MANIFESTS), "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if applied.returncode != 0:
        pytest.fail(f"the shipped manifests were not accepted by the API server:\n{applied.stderr}")
    return RealCluster(running, _service_account())


def _service_account() -> tuple[str, str]:
    rendered = subprocess.run(["kubectl", "kustomize", str(MANIFESTS)], capture_output=True, text=True, check=True)
    (account,) = [item["metadata"] for item in yaml.safe_load_all(rendered.stdout) if item["kind"] == "ServiceAccount"]
    return account["namespace"], account["name"]


@pytest.fixture(scope="package")
def tokens(control_plane: RealCluster) -> dict[str, str]:
    """Of two ServiceAccounts, of which one has the shipped role for readers."""
    plane = control_plane.control_plane
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": _READERS}})
    for name in ("reader", "nobody"):
        plane.request("POST", f"/api/v1/namespaces/{_READERS}/serviceaccounts", {"metadata": {"name": name}})
    role = yaml.safe_load((SHIPPED / "components" / "metrics" / "reader.yaml").read_text())
    plane.request("POST", f"{_RBAC}/clusterroles", role)
    body = {
        "metadata": {"name": "dra-scheduler-test-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": _READERS}],
    }
    plane.request("POST", f"{_RBAC}/clusterrolebindings", body)
    return {name: plane.service_account_token(_READERS, name) for name in ("reader", "nobody")}


OpenWorld = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture(params=["embedded", pytest.param("controlplane", marks=pytest.mark.controlplane)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A cluster with an empty namespace and no nodes; start the scheduler with `world.start_scheduler()`."""
    if request.param == "controlplane":
        opened = real_world(request.getfixturevalue("control_plane"), tmp_path)
    else:
        opened = embedded_world(tmp_path)
    async with opened as ready:
        await ready.add_namespace()
        try:
            yield ready
        finally:
            await ready.stop_scheduler(kill=True)
        if ready.cluster.kind == "controlplane":
            await ready.clean_up()


@asynccontextmanager
async def real_world(real: RealCluster, folder: Path) -> AsyncIterator[World]:
    """A world on a control plane that is running."""
    plane = real.control_plane
    tls = (plane.ca_file, plane.key_file)
    async with (
        FaultProxy(plane.url, plane.ssl_context(), tls) as proxy,
        connected(plane.url, plane.admin_token, plane.ssl_context()) as api,
    ):
        yield World(real, api, proxy, f"t{next(_numbers):04}", folder / "scheduler.log")


@asynccontextmanager
async def embedded_world(folder: Path) -> AsyncIterator[World]:
    if UNDER_TEST != "ours":
        pytest.skip("kube-scheduler needs more kinds than the embedded cluster has")
    from scheduler.embedded.cluster import EmbeddedCluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scheduler.embedded.cluster.ClaimProcess", PreparedClaimProcess)
        async with (
            # As on the real one, where no kubelet runs, a test itself ends the pods that it lets terminate.
            EmbeddedCluster(grace_s_max=_FOR_EVER_S) as embedded,
            FaultProxy(embedded.url) as proxy,
            connected(embedded.url) as api,
        ):
            yield World(
                InMemoryCluster(embedded, folder), api, proxy, f"t{next(_numbers):04}", folder / "scheduler.log"
            )
