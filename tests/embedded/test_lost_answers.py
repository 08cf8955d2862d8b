"""A claim controller whose answers are lost: what was stored is found, not made a second time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.controllers.claim_controllers import ClaimController
from scheduler.embedded.controllers.client_controller import Obj, Requests
from tests.embedded.rest_client import RestClient, pod, request


class LosesAnswers(Requests):
    """The first POST is stored, and its answer lost with the connection."""

    lost = 0

    async def send(self, method: str, path: str, body: Obj | None = None, **options: Any) -> Any:
        answer = await super().send(method, path, body, **options)
        if method == "POST" and not self.lost:
            self.lost += 1
            raise aiohttp.ServerDisconnectedError
        return answer


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=False) as started:
        yield started


@pytest.fixture
async def api(cluster: EmbeddedCluster) -> AsyncIterator[RestClient]:
    async with aiohttp.ClientSession(cluster.url) as session:
        yield RestClient(session, "default", "embedded", cluster.restart)


async def test_a_claim_whose_creation_was_not_answered_is_looked_for(cluster: EmbeddedCluster, api: RestClient) -> None:
    template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [request()]}}}}
    made = await api.created(api.templates, template)
    references = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    owner = await api.created(api.pods, pod("p", resourceClaims=references))
    controller = ClaimController(cluster.url)
    controller._requests = LosesAnswers(cluster.url)
    controller._requests.open()
    # The watches are as far behind as they were when the connection was lost: no claim is in the index.
    controller._indexes = {
        "pods": {("default", "p"): [owner]},
        "claims": {},
        "templates": {("default", "t"): [made]},
    }
    try:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await controller.sync_pod("default", "p")
        await controller.sync_pod("default", "p")
    finally:
        await controller._requests.close()

    claims = (await api.get(api.claims)).body["items"]
    assert len(claims) == 1
    statuses = (await api.get(f"{api.pods}/p")).body["status"]["resourceClaimStatuses"]
    assert statuses == [{"name": "gpu", "resourceClaimName": claims[0]["metadata"]["name"]}]
