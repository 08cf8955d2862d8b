"""The real kubectl against the embedded cluster: what a user types first."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from scheduler.embedded.cluster import EmbeddedCluster
from tests.patience import PATIENCE_S

_PATIENTLY = f"--timeout={PATIENCE_S:.0f}s"
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH"),
]


MANIFEST = """
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {zone: a}}
status: {capacity: {cpu: "8", memory: 32Gi, pods: "110"}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  selectors:
  - cel: {expression: "device.driver == 'gpu.example.com'"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpu}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {model: {string: LATEST-GPU-MODEL}}
    capacity: {memory: {value: 80Gi}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly: {deviceClassName: gpu.example.com}
---
apiVersion: v1
kind: Pod
metadata: {name: trainer, labels: {app: trainer}}
spec:
  containers:
  - name: main
    image: registry.example/trainer:1
    resources: {claims: [{name: gpu}]}
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: one-gpu}
"""


class Kubectl:
    """Runs kubectl with a cluster's kubeconfig."""

    def __init__(self, cluster: EmbeddedCluster, home: Path) -> None:
        self._command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig_path)]
        self._environment = {**os.environ, "HOME": str(home), "KUBECTL_COMMAND_HEADERS": "false"}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
        )

    async def fails(self, *arguments: str, stdin: str = "") -> str:
        process = await self.start(*arguments)
        async with asyncio.timeout(PATIENCE_S):
            output, _ = await process.communicate(stdin.encode())
        assert process.returncode != 0, output.decode()
        return output.decode()

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        process = await self.start(*arguments)
        async with asyncio.timeout(PATIENCE_S):
            output, _ = await process.communicate(stdin.encode())
        assert process.returncode == 0, f"kubectl {' '.join(arguments)}: {output.decode()}"
        return output.decode()

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self(*arguments, "-o", "json"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kubectl(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kubectl]:
    async with EmbeddedCluster(token="as-in-the-demo") as cluster:
        await cluster.controllers_ready()
        run = Kubectl(cluster, tmp_path_factory.mktemp("home"))
        await run("apply", "-f", "-", stdin=MANIFEST)
        yield run


def _columns(table: str) -> list[str]:
    return table.splitlines()[0].split()


async def test_version_says_that_it_is_embedded(kubectl: Kubectl) -> None:
    assert "v1.37.2+dra-scheduler-embedded" in await kubectl("version")


async def test_api_resources_lists_the_kinds(kubectl: Kubectl) -> None:
    listed = await kubectl("api-resources")
    for name in (
        "pods",
        "nodes",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
        "deviceclasses",
        "jobs",
    ):
        assert any(line.startswith(f"{name} ") for line in listed.splitlines()), name


async def test_apply_again_changes_nothing(kubectl: Kubectl) -> None:
    before = await kubectl.json("get", "pod", "trainer")
    again = await kubectl("apply", "-f", "-", stdin=MANIFEST)
    assert "pod/trainer unchanged" in again
    after = await kubectl.json("get", "pod", "trainer")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_apply_changes_and_removes_what_the_file_changes(kubectl: Kubectl) -> None:
    changed = MANIFEST.replace("labels: {app: trainer}", "labels: {team: vision}")
    assert "pod/trainer configured" in await kubectl("apply", "-f", "-", stdin=changed)
    assert (await kubectl.json("get", "pod", "trainer"))["metadata"]["labels"] == {"team": "vision"}
    await kubectl("apply", "-f", "-", stdin=MANIFEST)


async def test_server_side_apply(kubectl: Kubectl) -> None:
    changed = MANIFEST.replace("labels: {zone: a}", "labels: {zone: b}")
    assert "node/node-1 serverside-applied" in await kubectl("apply", "--server-side", "-f", "-", stdin=changed)
    assert (await kubectl.json("get", "node", "node-1"))["metadata"]["labels"] == {"zone": "b"}


async def test_get_shows_the_columns_of_each_kind(kubectl: Kubectl) -> None:
    assert _columns(await kubectl("get", "pods")) == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert _columns(await kubectl("get", "nodes")) == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert _columns(await kubectl("get", "resourceslices")) == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert _columns(await kubectl("get", "deviceclasses")) == ["NAME", "AGE"]
    await kubectl("wait", "--for=jsonpath={.status.resourceClaimStatuses[0].name}=gpu", "pod/trainer")
    claims = await kubectl("get", "resourceclaims")
    assert _columns(claims) == ["NAME", "STATE", "AGE"]
    assert claims.splitlines()[1].split()[:2][1] == "pending"
    wide = await kubectl("get", "pods", "-o", "wide", "--show-labels")
    assert "NOMINATED NODE" in wide
    assert "app=trainer" in wide


async def test_get_selects(kubectl: Kubectl) -> None:
    assert "trainer" in await kubectl(
        "get", "pods", "-A", "-l", "app=trainer", "--field-selector", "status.phase=Pending"
    )
    assert "No resources found" in await kubectl("get", "pods", "-l", "app!=trainer")
    assert (await kubectl("get", "pod", "trainer", "-o", "jsonpath={.spec.schedulerName}")) == "default-scheduler"


async def test_describe_reads_events_of_both_groups(kubectl: Kubectl) -> None:
    event = """
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: trainer.1}
eventTime: "2026-01-02T03:04:05.000006Z"
regarding: {apiVersion: v1, kind: Pod, name: trainer, namespace: default, uid: UID}
reason: FailedScheduling
note: "0/1 nodes are available: 1 cannot allocate all claims."
type: Warning
action: Scheduling
reportingController: dra-scheduler
reportingInstance: dra-scheduler-0
"""
    uid = (await kubectl.json("get", "pod", "trainer"))["metadata"]["uid"]
    await kubectl("create", "-f", "-", stdin=event.replace("UID", uid))
    described = await kubectl("describe", "pod", "trainer")
    assert "FailedScheduling" in described
    assert "1 cannot allocate all claims" in described
    assert "Capacity" in await kubectl("describe", "node", "node-1")
    assert "gpu.example.com" in await kubectl("describe", "resourceslice", "node-1-gpu")
    assert "FailedScheduling" in await kubectl("get", "events")


async def test_describe_a_claim(kubectl: Kubectl) -> None:
    await kubectl("wait", "--for=jsonpath={.status.resourceClaimStatuses[0].name}=gpu", "pod/trainer")
    described = await kubectl("describe", "resourceclaims")
    assert "Device Class Name:  gpu.example.com" in described


async def test_refusals_read_as_usual(kubectl: Kubectl) -> None:
    assert 'Error from server (NotFound): pods "none" not found' in await kubectl.fails("get", "pod", "none")
    broken = MANIFEST.split("---")[1].replace("device.driver ==", "device.drover ==").replace("gpu.example.com}", "x}")
    text = await kubectl.fails("create", "-f", "-", stdin=broken)
    assert 'The DeviceClass "x" is invalid: spec.selectors[0].cel.expression' in text
    assert "undefined field 'drover'" in text


async def test_label_annotate_patch_and_edit_status(kubectl: Kubectl) -> None:
    await kubectl("label", "pod", "trainer", "a=b")
    await kubectl("annotate", "pod", "trainer", "c=d")
    await kubectl("patch", "pod", "trainer", "-p", '{"metadata": {"labels": {"a": null}}}')
    status = '{"status": {"conditions": [{"type": "Odd", "status": "True"}]}}'
    await kubectl("patch", "pod", "trainer", "--subresource=status", "-p", status)
    made = await kubectl.json("get", "pod", "trainer")
    assert "a" not in made["metadata"]["labels"]
    assert made["metadata"]["annotations"]["c"] == "d"
    assert [c["type"] for c in made["status"]["conditions"]] == ["Odd"]
    await kubectl("wait", "--for=condition=Odd", "pod/trainer")


async def test_create_watch_and_delete(kubectl: Kubectl) -> None:
    watching = await kubectl.start("get", "configmaps", "--watch-only", "--no-headers", "--output-watch-events")
    assert watching.stdout is not None
    # kubectl says nothing when it begins to watch: create and delete until it has seen both.
    seen: set[str] = set()

    async def read() -> None:
        assert watching.stdout is not None
        while not {"ADDED", "DELETED"} <= seen:
            kind, name, *_ = (await watching.stdout.readline()).decode().split()
            assert name == "one"
            seen.add(kind)

    reading = asyncio.create_task(read())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not reading.done():
                await kubectl("create", "configmap", "one", "--from-literal=a=b", "-o", "name")
                await kubectl("delete", "configmap", "one")
        await reading
    finally:
        reading.cancel()
        watching.terminate()
        await watching.wait()


async def test_can_i(kubectl: Kubectl) -> None:
    answer = await kubectl("auth", "can-i", "patch", "resourceclaims.resource.k8s.io", "--subresource=binding")
    assert answer.strip().endswith("yes")


async def test_create_of_other_kinds_says_what_to_do_instead(kubectl: Kubectl) -> None:
    refused = await kubectl.fails("create", "deployment", "web", "--image=registry.example/web:1")
    assert "use kubectl apply or create -f" in refused


async def test_dry_run_and_diff_change_nothing(kubectl: Kubectl) -> None:
    changed = MANIFEST.replace("labels: {app: trainer}", "labels: {app: other}")
    assert "configured (server dry run)" in await kubectl("apply", "--dry-run=server", "-f", "-", stdin=changed)
    assert (await kubectl.json("get", "pod", "trainer"))["metadata"]["labels"]["app"] == "trainer"


async def test_a_deployment_from_create_to_deletion(kubectl: Kubectl) -> None:
    deployment = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: inference}
spec:
  replicas: 2
  selector: {matchLabels: {app: inference}}
  template:
    metadata: {labels: {app: inference}}
    spec: {nodeName: node-1, containers: [{name: main, image: registry.example/server:1}]}
"""
    await kubectl("apply", "-f", "-", stdin=deployment)
    assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/inference", _PATIENTLY)
    await kubectl("patch", "deployment", "inference", "-p", '{"spec": {"replicas": 1}}')
    await kubectl("wait", "--for=jsonpath={.status.replicas}=1", "deployment/inference", _PATIENTLY)
    shown = await kubectl("get", "deployment,replicaset,pods", "-l", "app=inference")
    assert "1/1" in shown
    await kubectl("rollout", "restart", "deployment/inference")
    await kubectl("rollout", "status", "deployment/inference", _PATIENTLY)
    await kubectl("delete", "deployment", "inference", "--cascade=foreground")
    await kubectl("wait", "--for=delete", "pods", "-l", "app=inference", _PATIENTLY)


async def test_a_namespace_comes_and_goes_with_its_content(kubectl: Kubectl) -> None:
    await kubectl("create", "namespace", "team")
    await kubectl("-n", "team", "run", "p", "--image=registry.example/x:1")
    assert "pod/p" in await kubectl("-n", "team", "get", "all")
    await kubectl("delete", "namespace", "team")
    assert "NotFound" in await kubectl.fails("get", "namespace", "team")


@pytest.mark.slow
async def test_cordon_and_drain(kubectl: Kubectl) -> None:
    await kubectl("run", "lodger", "--image=registry.example/x:1", '--overrides={"spec": {"nodeName": "node-1"}}')
    await kubectl("wait", "--for=condition=Ready", "pod/lodger", _PATIENTLY)
    await kubectl("cordon", "node-1")
    assert "SchedulingDisabled" in await kubectl("get", "node", "node-1")
    assert "evicting pod default/lodger" in await kubectl("drain", "node-1", "--force", _PATIENTLY)
    assert "NotFound" in await kubectl.fails("get", "pod", "lodger")
    await kubectl("uncordon", "node-1")
