"""What lint, simulate and explain say when the cluster that they compare with cannot be read, in whole or in part."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from scheduler.cli.cluster_objects import ClusterReadError, read_cluster
from scheduler.cli.main import cli
from scheduler.kube.credentials import Connection
from tests.kube.misbehaving import misbehaving, pod, status, status_object


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "config"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    return path


async def test_credentials_that_are_not_accepted_are_named(tmp_path: Path) -> None:
    async with misbehaving(*[status(401, "Unauthorized", "Unauthorized")] * 2) as server:
        path = kubeconfig(tmp_path, server.url)
        with pytest.raises(ClusterReadError) as raised:
            await asyncio.to_thread(read_cluster, Connection(kubeconfig=path))

    assert str(raised.value) == (
        "cannot list ResourceSlice objects: the API server does not accept the credentials of "
        f'{path}: context "x", user "u": Unauthorized'
    )


@pytest.mark.parametrize(
    ("server", "complaint"),
    [
        ("https://no-such-host.invalid", "cannot list ResourceSlice objects: cannot find host no-such-host.invalid: "),
        ("http://127.0.0.1:1", "cannot list ResourceSlice objects: cannot connect to 127.0.0.1:1: Connection refused"),
        ("h:6443", ": cluster \"c\": server 'h:6443': it must begin with https:// or http://"),
    ],
)
def test_a_server_that_cannot_be_reached_is_said_in_words(tmp_path: Path, server: str, complaint: str) -> None:
    with pytest.raises(ClusterReadError) as raised:
        read_cluster(Connection(kubeconfig=kubeconfig(tmp_path, server)))

    assert complaint in str(raised.value)


LISTS: dict[str, list[dict[str, Any]]] = {
    "/api/v1/nodes": [
        {
            "metadata": {"name": "n", "uid": "1", "resourceVersion": "1"},
            "status": {"allocatable": {"cpu": "4", "pods": "9"}},
        }
    ],
    "/api/v1/pods": [pod("waits", 2), pod("with-device", 3, resourceClaims=[{"name": "d", "resourceClaimName": "c"}])],
    "/apis/resource.k8s.io/v1/resourceslices": [
        {
            "metadata": {"name": "s", "uid": "4", "resourceVersion": "4"},
            "spec": {
                "driver": "gpu.example.com",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n",
                "devices": [{"name": "gpu-0"}],
            },
        }
    ],
}


SERVED = {"/apis/resource.k8s.io/v1": "devicetaintrules", "/apis/scheduling.k8s.io/v1beta1": "podgroups"}


@asynccontextmanager
async def without(
    *kinds: str, code: int, gates: Mapping[str, int] = MappingProxyType({}), lists: Mapping[str, Any] = LISTS
) -> AsyncIterator[str]:
    """The URL of an API server that answers `code` where one of `kinds` is listed."""

    async def handle(request: web.Request) -> web.Response:
        if request.path.rpartition("/")[2] in kinds:
            message = f"{request.path} is forbidden" if code == HTTPStatus.FORBIDDEN else "not found"
            return web.json_response(status_object(code, "", message), status=code)
        if request.path == "/metrics":
            lines = (f'kubernetes_feature_enabled{{name="{name}",stage=""}} {value}\n' for name, value in gates.items())
            return web.Response(text="".join(lines))
        resources = [{"name": SERVED[request.path]}] if request.path in SERVED else None
        return web.json_response(
            {"metadata": {"resourceVersion": "9"}, "items": lists.get(request.path, []), "resources": resources}
        )

    application = web.Application()
    application.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def said(folder: Path, *args: str, missing: Sequence[str], code: int = HTTPStatus.FORBIDDEN) -> Result:
    """What a command says beside a server without some kinds."""
    async with without(*missing, code=code) as url:
        command = [args[0], "--kubeconfig", str(kubeconfig(folder, url)), *args[1:]]
        return await asyncio.to_thread(CliRunner().invoke, cli, command)


OWNERS = ("services", "replicationcontrollers", "replicasets", "statefulsets")


@pytest.mark.parametrize("command", ["explain", "simulate"])
async def test_kinds_that_may_not_be_listed_are_named_and_pods_that_need_none_of_them_are_answered(
    tmp_path: Path, command: str
) -> None:
    missing = (*OWNERS, "priorityclasses", "namespaces", "persistentvolumes", "poddisruptionbudgets", "podgroups")

    asked = ("waits",) if command == "explain" else ("--pod", "waits")
    result = await said(tmp_path, command, *asked, missing=missing)

    assert result.exit_code == 0, result.output
    assert "n" in result.stdout.split()
    lines = result.stderr.splitlines()
    assert (
        "warning: cannot list ReplicaSet objects: /apis/apps/v1/replicasets is forbidden; pods without constraints of "
        "their own are not spread by their ReplicaSet" in lines
    )
    for kind in (
        "Service",
        "StatefulSet",
        "PriorityClass",
        "Namespace",
        "PersistentVolume",
        "PodDisruptionBudget",
        "PodGroup",
    ):
        assert sum(f"cannot list {kind} objects" in line for line in lines) == 1, kind


async def test_a_kind_that_the_server_does_not_have_is_named_too(tmp_path: Path) -> None:
    result = await said(tmp_path, "explain", "waits", missing=["replicasets"], code=HTTPStatus.NOT_FOUND)

    assert result.exit_code == 0, result.output
    assert "cannot list ReplicaSet objects: the API server does not have this kind; pods" in result.stderr


@pytest.mark.parametrize("kind", ["resourceclaims", "resourceslices", "deviceclasses"])
async def test_without_the_claims_no_device_counts_as_free_and_other_pods_are_answered(
    tmp_path: Path, kind: str
) -> None:
    with_device = await said(tmp_path, "explain", "with-device", missing=[kind])
    other = await said(tmp_path, "explain", "waits", missing=[kind])

    assert with_device.exit_code == 1, with_device.output
    assert "; no device counts as free" in with_device.stderr
    assert other.exit_code == 0, other.output


@pytest.mark.parametrize("kind", ["resourceclaims", "devicetaintrules"])
async def test_devices_are_not_given_out_where_those_in_use_may_not_be_seen(tmp_path: Path, kind: str) -> None:
    async with without(kind, code=HTTPStatus.FORBIDDEN) as url:
        read = await asyncio.to_thread(read_cluster, Connection(kubeconfig=kubeconfig(tmp_path, url)), is_whole=True)

    assert {obj["kind"] for obj in read.objects} == {"Node", "Pod"}


@pytest.mark.parametrize("kind", ["nodes", "pods"])
async def test_without_nodes_or_pods_there_is_no_answer(tmp_path: Path, kind: str) -> None:
    result = await said(tmp_path, "explain", "waits", missing=[kind])

    assert result.exit_code == 2
    assert (
        result.stderr.splitlines()[-1] == f"Error: cannot list {kind.title()[:-1]} objects: /api/v1/{kind} is forbidden"
    )
