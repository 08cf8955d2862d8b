"""Metrics on a real API server: RBAC decides who reads them, and no token is left anywhere that the scheduler writes.

The scheduler has the shipped manifests' rights only, and `/metrics` and `/configz` are served over TLS.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
import yaml

from scheduler.app import SchedulerApp
from scheduler.config import Config, Serving
from scheduler.kube.credentials import Connection
from tests.controlplane.cluster import ControlPlane
from tests.integration.conftest import RealCluster
from tests.integration.world import UNDER_TEST
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler's own answers are not asked for here"),
]

TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@asynccontextmanager
async def serving(cluster: RealCluster, **options) -> AsyncIterator[SchedulerApp]:
    """A scheduler that waits for its turn, or has it: both serve."""
    path = cluster.control_plane.service_account_kubeconfig(*cluster.service_account)
    election = {"leader_elect": True, "resource_namespace": cluster.lease_namespace}
    config = Config(health_port=0, leader_election=election, serving=Serving(security="secure"))
    async with SchedulerApp(Connection(kubeconfig=path), config, **options) as app:
        await app.filled()
        yield app


async def ask(url: str, path: str, token: str | None, tls: ssl.SSLContext = TLS) -> tuple[int, str, str]:
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(url + path, ssl=tls, headers=headers) as answer,
    ):
        return answer.status, answer.content_type, await answer.text()


async def test_who_reads_metrics(control_plane: RealCluster, tokens: dict[str, str]) -> None:
    async with asyncio.timeout(PATIENCE_S), serving(control_plane) as app:
        assert app.health is not None
        url = f"https://127.0.0.1:{app.health.port}"
        plane: ControlPlane = control_plane.control_plane

        for path in ("/livez", "/readyz"):
            assert (await ask(url, path, None))[0] == 200
        code, _, checks = await ask(url, "/readyz?verbose", None)
        assert (code, checks.splitlines()[0], checks.splitlines()[-1]) == (200, "[+]ping ok", "readyz check passed")
        assert await ask(url, "/readyz?verbose", tokens["nobody"]) == (200, "text/plain", checks)
        assert (await ask(url, "/readyz?verbose", tokens["reader"]))[2].startswith("ok\n")
        assert (await ask(url, "/metrics", None))[0] == 401
        assert (await ask(url, "/configz", None))[0] == 401
        status, _, text = await ask(url, "/metrics", tokens["reader"])
        assert status == 200
        assert "scheduler_pending_pods" in text
        assert (await ask(url, "/configz", tokens["reader"]))[0] == 403
        # In the very words of the API server, whose filters kube-scheduler has.
        for token, code in (("no-such-token", 401), (tokens["nobody"], 403)):
            ours = await ask(url, "/metrics", token)
            theirs = await ask(plane.url, "/metrics", token, plane.ssl_context())
            assert ours[0] == theirs[0] == code
            assert ours[1] == theirs[1]
            assert json.loads(ours[2]) == json.loads(theirs[2])


async def test_a_right_that_is_taken_away_is_lost_within_seconds(
    control_plane: RealCluster, tokens: dict[str, str]
) -> None:
    binding = f"{RBAC}/clusterrolebindings/dra-scheduler-test-reader"
    request = control_plane.control_plane.request
    given = await asyncio.to_thread(request, "GET", binding)
    async with asyncio.timeout(PATIENCE_S), serving(control_plane) as app:
        assert app.health is not None
        url = f"https://127.0.0.1:{app.health.port}"
        while (await ask(url, "/metrics", tokens["reader"]))[0] != 200:
            pass
        await asyncio.to_thread(request, "DELETE", binding)
        try:
            while (await ask(url, "/metrics", tokens["reader"]))[0] != 403:
                pass
        finally:
            given["metadata"] = {"name": given["metadata"]["name"]}
            await asyncio.to_thread(request, "POST", f"{RBAC}/clusterrolebindings", given)


async def test_no_token_is_left_anywhere(
    control_plane: RealCluster, tokens: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither those of readers nor the scheduler's own: in the log of all levels, answers."""
    caplog.set_level(logging.DEBUG)
    marked = "marked-token-of-nobody"
    texts = []
    async with asyncio.timeout(PATIENCE_S), serving(control_plane) as app:
        assert app.health is not None
        url = f"https://127.0.0.1:{app.health.port}"
        for path in ("/metrics", "/configz", "/readyz", f"/no-such?token={marked}"):
            texts += [(await ask(url, path, token))[2] for token in (*tokens.values(), marked)]
        texts.append(app.config.model_dump_json(by_alias=True))  # what /configz says
        texts.append(repr(app.config) + repr(app._connection) + repr(vars(app)))
    own = yaml.safe_load(
        control_plane.control_plane.service_account_kubeconfig(*control_plane.service_account).read_text()
    )["users"][0]["user"]["token"]
    assert "clientConnection" in "".join(texts)

    # A ServiceAccount's token is a JWT: its parts tell as much as the whole.
    secrets = [part for token in (*tokens.values(), own) for part in token.split(".")[1:]] + [marked]
    for secret in secrets:
        assert secret not in caplog.text
        assert secret not in "".join(texts)
