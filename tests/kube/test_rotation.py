"""A real kube-apiserver whose certificate and authority are replaced while the scheduler runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from scheduler.app import SchedulerApp
from scheduler.config import Config, LeaderElection
from scheduler.kube.credentials import Connection
from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import ControlPlane
from tests.kube.certificates import openssl

pytestmark = pytest.mark.controlplane

POD = {"spec": {"schedulerName": "dra-scheduler", "containers": [{"name": "c", "image": "i"}]}}
CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def _rotate(plane: ControlPlane) -> None:
    """Another certificate, its own authority, in the place of the first; the server starts again with it."""
    plane.kill_apiserver()
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", "/CN=rotated", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        *("-keyout", plane.key_file, "-out", plane.ca_file),
    )
    plane.restart_apiserver()


def _is_bound(plane: ControlPlane, name: str) -> bool:
    return bool(plane.request("GET", f"/api/v1/namespaces/default/pods/{name}")["spec"].get("nodeName"))


async def _bound(plane: ControlPlane, name: str) -> None:
    async with asyncio.timeout(90):
        while not await asyncio.to_thread(_is_bound, plane, name):
            pass


async def test_a_rotated_authority_costs_no_pod(tmp_path: Path) -> None:
    built_or_skip("controlplane")
    with ControlPlane(controllers=()) as plane:
        plane.request("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        plane.request("PUT", "/api/v1/nodes/n/status", {"metadata": {"name": "n"}, "status": {"allocatable": CAPACITY}})
        told = tmp_path / "ca.crt"
        told.write_bytes(plane.ca_file.read_bytes())
        (tmp_path / "token").write_text(plane.admin_token)
        path = tmp_path / "kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": {"server": plane.url, "certificate-authority": "ca.crt"}}],
                    "users": [{"name": "u", "user": {"tokenFile": "token"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        # Without a lease: the authority may be told later than one lasts.
        config = Config(health_port=None, leader_election=LeaderElection(leader_elect=False))
        async with SchedulerApp(Connection.from_kubeconfig(path), config) as app:
            await app.synced()
            plane.request("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "before"}} | POD)
            await _bound(plane, "before")
            await asyncio.to_thread(_rotate, plane)
            async with asyncio.timeout(90):
                while not any("is not trusted" in str(one.stats.failure) for one in app.reflectors):
                    await asyncio.to_thread(_is_bound, plane, "before")
            await asyncio.to_thread(
                plane.request, "POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "after"}} | POD
            )
            told.write_bytes(plane.ca_file.read_bytes())
            await _bound(plane, "after")
