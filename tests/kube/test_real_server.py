"""Credentials on a real kube-apiserver: its authority is replaced under the scheduler; somebody is impersonated."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.app import SchedulerApp
from scheduler.config import Config, LeaderElection
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.credentials import Connection
from scheduler.kube.outcomes import Accepted, Rejected
from scheduler.kube.preflight import PreflightError
from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import ControlPlane
from tests.kube.certificates import openssl
from tests.patience import PATIENCE_S

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


def _kubeconfig(folder: Path, plane: ControlPlane, **user: Any) -> Path:
    """With the authority and the token in files of their own."""
    (folder / "ca.crt").write_bytes(plane.ca_file.read_bytes())
    (folder / "token").write_text(plane.admin_token)
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": plane.url, "certificate-authority": "ca.crt"}}],
                "users": [{"name": "u", "user": {"tokenFile": "token", **user}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path


def _is_bound(plane: ControlPlane, name: str) -> bool:
    return bool(plane.request("GET", f"/api/v1/namespaces/default/pods/{name}")["spec"].get("nodeName"))


async def _bound(plane: ControlPlane, name: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(_is_bound, plane, name):
            pass


async def test_a_rotated_authority_costs_no_pod(tmp_path: Path) -> None:
    built_or_skip("controlplane")
    with ControlPlane(controllers=()) as plane:
        plane.request("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        plane.request("PUT", "/api/v1/nodes/n/status", {"metadata": {"name": "n"}, "status": {"allocatable": CAPACITY}})
        path = _kubeconfig(tmp_path, plane)
        told = tmp_path / "ca.crt"
        # Without a lease: the authority may be told later than one lasts.
        config = Config(health_port=None, leader_election=LeaderElection(leader_elect=False))
        async with SchedulerApp(Connection(kubeconfig=path), config) as app:
            await app.synced()
            plane.request("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "before"}} | POD)
            await _bound(plane, "before")
            await asyncio.to_thread(_rotate, plane)
            async with asyncio.timeout(PATIENCE_S):
                while not any("is not trusted" in str(one.stats.failure) for one in app.running.reflectors):
                    await asyncio.to_thread(_is_bound, plane, "before")
            await asyncio.to_thread(
                plane.request, "POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "after"}} | POD
            )
            told.write_bytes(plane.ca_file.read_bytes())
            await _bound(plane, "after")


async def test_who_restricts_himself_is_restricted(tmp_path: Path) -> None:
    """`as` was left out without a word: the requests were made with all rights of the token."""
    built_or_skip("controlplane")
    with ControlPlane(controllers=()) as plane:
        path = _kubeconfig(tmp_path, plane, **{"as": "jane", "as-groups": ["readers"], "as-user-extra": {"a/b": ["c"]}})
        async with ApiClient(await Connection(kubeconfig=path).open()) as client:
            review = b'{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}'
            answer = await client.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
            refused = await client.send("GET", "/api/v1/pods")
        with pytest.raises(PreflightError, match="not permitted: create pods/binding"):
            async with SchedulerApp(Connection(kubeconfig=path), Config(health_port=None)):
                raise AssertionError("not reached")

    assert isinstance(answer, Accepted)
    who = json.loads(answer.body)["status"]["userInfo"]
    assert (who["username"], who["extra"]) == ("jane", {"a/b": ["c"]})
    assert "readers" in who["groups"]
    assert isinstance(refused, Rejected)
    assert 'User "jane" cannot list resource "pods"' in refused.message
