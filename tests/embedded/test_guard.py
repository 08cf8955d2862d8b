"""Who may talk to an embedded cluster: nobody from a page in a browser, and with a token only who has it."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.credentials import Connection
from scheduler.kube.outcomes import Accepted, Rejected
from tests.patience import PATIENCE_S

PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
TOKEN = "only-for-those-who-read-the-kubeconfig"


@pytest.fixture
async def open_cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=False) as cluster:
        yield cluster


@pytest.fixture
async def guarded_cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=False, token=TOKEN) as cluster:
        yield cluster


async def asked(cluster: EmbeddedCluster, method: str = "POST", path: str = PODS, **headers: str) -> tuple[int, dict]:
    """One request of that kind; its code and the body of the answer."""
    content = {"Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method, cluster.url + path, data=json.dumps(POD), headers=content | headers, ssl=cluster.tls
        ) as response,
    ):
        return response.status, await response.json(content_type=None)


def pods(cluster: EmbeddedCluster) -> int:
    return len(cluster.api.store.listed("pods"))


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Host": "evil.example"}, id="dns-rebinding"),
        pytest.param({"Host": "evil.example:6443"}, id="dns-rebinding-with-port"),
        pytest.param({"Host": "127.0.0.1.evil.example"}, id="looks-like-loopback"),
        pytest.param({"Host": "10.0.0.1"}, id="another-address"),
        pytest.param({"Host": ""}, id="no-host"),
        pytest.param({"Host": "[::1"}, id="no-host-at-all"),
        pytest.param({"Origin": "https://evil.example"}, id="another-sites-page"),
        pytest.param({"Origin": "http://localhost:3000"}, id="another-local-page"),
        pytest.param({"Origin": "null"}, id="a-sandboxed-page"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, id="cross-site"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, id="same-site"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_what_a_page_in_a_browser_could_send_is_refused(
    open_cluster: EmbeddedCluster, method: str, headers: dict[str, str]
) -> None:
    code, status = await asked(open_cluster, method, **headers)

    assert (code, status["kind"], status["reason"]) == (403, "Status", "Forbidden")
    assert pods(open_cluster) == 0


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1", "127.1.2.3:99", "[::1]:6443", "LOCALHOST:5", "[::ffff:127.0.0.1]"]
)
async def test_every_name_of_this_machine_for_itself_is_taken(open_cluster: EmbeddedCluster, host: str) -> None:
    assert (await asked(open_cluster, Host=host))[0] == 201


async def test_a_person_who_types_the_address_is_let_in(open_cluster: EmbeddedCluster) -> None:
    assert (await asked(open_cluster, "GET", **{"Sec-Fetch-Site": "none"}))[0] == 200
    origin = open_cluster.url
    assert (await asked(open_cluster, "GET", Origin=origin, **{"Sec-Fetch-Site": "same-origin"}))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="none"),
        pytest.param({"Authorization": "Bearer wrong"}, id="wrong"),
        pytest.param({"Authorization": f"Basic {TOKEN}"}, id="not-a-bearer"),
        pytest.param({"Authorization": f"Bearer {TOKEN}x"}, id="longer"),
        pytest.param({"Authorization": "Bearer \u00e4"}, id="not-ascii"),
    ],
)
@pytest.mark.parametrize("path", [PODS, "/version", "/livez", "/api/v1/pods?watch=true"])
async def test_without_the_token_nothing_is_answered(
    guarded_cluster: EmbeddedCluster, path: str, headers: dict[str, str]
) -> None:
    code, status = await asked(guarded_cluster, "GET", path, **headers)

    assert (code, status["reason"], status["message"]) == (401, "Unauthorized", "Unauthorized")


async def test_the_token_is_a_bearer_token_over_tls_as_with_a_real_server(guarded_cluster: EmbeddedCluster) -> None:
    """So kubectl sends it, whatever path it asks for; in the path it is nothing."""
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded_cluster.url.startswith("https://")
    assert (await asked(guarded_cluster, "GET", **bearer))[0] == 200
    assert (await asked(guarded_cluster, "GET", **bearer, Origin=guarded_cluster.url))[0] == 200
    assert (await asked(guarded_cluster, "GET", **bearer, Origin=guarded_cluster.url.replace("https", "http")))[
        0
    ] == 403
    assert (await asked(guarded_cluster, "GET", **bearer, Host="evil.example"))[0] == 403
    assert (await asked(guarded_cluster, "GET", f"/{TOKEN}{PODS}"))[0] == 401


async def test_the_kubeconfig_holds_the_token_and_is_ours_alone(guarded_cluster: EmbeddedCluster) -> None:
    path = guarded_cluster.kubeconfig_path
    config = yaml.safe_load(path.read_text())
    assert config["users"][0]["user"] == {"token": TOKEN}
    assert config["clusters"][0]["cluster"]["server"] == guarded_cluster.url
    assert {stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    async with ApiClient(await Connection(kubeconfig=path).open()) as client:
        assert isinstance(await client.send("POST", PODS, json.dumps(POD).encode()), Accepted)
    async with ApiClient(await Connection(url=guarded_cluster.url, ca=guarded_cluster.authority).open()) as client:
        refused = await client.send("GET", PODS)
        assert isinstance(refused, Rejected)
        assert refused.code == 401


async def test_controllers_have_the_token_and_do_not_show_it() -> None:
    claim = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}
    objects = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "t"}, "spec": claim},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a"},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
            },
        },
    ]
    async with EmbeddedCluster(token=TOKEN) as cluster:
        await cluster.controllers_ready()
        await cluster.apply(objects)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        path = "/apis/resource.k8s.io/v1/resourceclaims?watch=true"
        async with (
            asyncio.timeout(PATIENCE_S),
            aiohttp.ClientSession(headers=headers) as session,
            session.get(cluster.url + path, ssl=cluster.tls) as response,
        ):
            seen = json.loads(await response.content.readline())
            assert seen["object"]["metadata"]["name"].startswith("a-gpu-")
        processes = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout  # noqa: ASYNC221
        assert "claim_process" in processes
        assert TOKEN not in processes


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["scheduler.embedded", "--no-controllers"], id="embedded"),
        pytest.param(["scheduler", "demo", "--serve", "--empty"], id="demo"),
    ],
)
async def test_a_served_cluster_has_a_random_token(command: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        path = ""
        async with asyncio.timeout(PATIENCE_S):
            while not path.endswith("kubeconfig"):
                line = await process.stdout.readline()
                assert line, "it ended before it named its kubeconfig"
                path = line.decode().strip().removeprefix("export KUBECONFIG=")
        config = yaml.safe_load(Path(path).read_text())
        server, token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
        authority = base64.b64decode(server["certificate-authority-data"]).decode()
        async with ApiClient(await Connection(url=server["server"], ca=authority).open()) as client:
            refused = await client.send("GET", PODS)
        async with ApiClient(await Connection(kubeconfig=path).open()) as client:
            allowed = await client.send("GET", PODS)
    finally:
        process.terminate()
        await process.wait()

    assert isinstance(refused, Rejected)
    assert refused.code == 401
    assert isinstance(allowed, Accepted)
    assert len(token) >= 40
