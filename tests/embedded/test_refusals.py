"""What the embedded server refuses, and in which words, against the real one: objects spoiled in one place each."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from scheduler.embedded.cluster import EmbeddedCluster
from tests.controlplane.cluster import ControlPlane
from tests.embedded.rest_client import trusted
from tests.embedded.spoiled import API_VERSIONS, KINDS, Case, some_cases

CASES = some_cases(every=7)  # with NIGHTLY=1 all 2,900

KNOWN: dict[str, str] = {
    "slice .devices[0].allowMultipleAllocations gone": "the real one goes through a Go map, in any order",
    "slice .devices[0].allowMultipleAllocations flipped": "the real one goes through a Go map, in any order",
    "slice with two values of an attribute": "the real one prints a Go struct",
    "slice with lists": "behind a gate that is off there",
    "slice with 48 values": "behind a gate that is off there",
    "slice with 49 values": "behind a gate that is off there",
    "slice with allocatable resources": "behind a gate that is off there",
    "claim with a constraint of both kinds": "distinctAttribute is behind a gate that is off there",
}


def is_comparable(case: Case) -> bool:
    # A list of terms is printed as the Go structs that it is there.
    return case.name not in KNOWN and not (case.name.startswith("counters") and ".nodeSelectorTerms " in case.name)


async def answer(session: aiohttp.ClientSession, case: Case) -> tuple[int, str]:
    version = API_VERSIONS.get(case.resource, "resource.k8s.io/v1")
    namespace = "namespaces/default/" if "claim" in case.resource else ""
    body = {"apiVersion": version, "kind": KINDS[case.resource], "metadata": {"name": "x"}, "spec": case.spec}
    async with session.post(f"/apis/{version}/{namespace}{case.resource}?dryRun=All", json=body) as reply:
        said: dict[str, Any] = await reply.json()
        return reply.status, said["message"] if reply.status >= 400 else ""


@pytest.mark.controlplane
@pytest.mark.xfail(
    strict=True, reason="the embedded server's validation is 1.36.3's, and 1.37.2 says some of it otherwise"
)
async def test_the_embedded_server_refuses_what_the_real_one_refuses_and_says_the_same(
    control_plane: ControlPlane,
) -> None:
    connector = aiohttp.TCPConnector(ssl=trusted(str(control_plane.ca_file)))
    headers = {"Authorization": f"Bearer {control_plane.admin_token}"}
    async with (
        EmbeddedCluster(controllers=False) as cluster,
        aiohttp.ClientSession(cluster.url) as embedded,
        aiohttp.ClientSession(control_plane.url, headers=headers, connector=connector) as real,
    ):
        differing = []
        refused = 0
        for case in filter(is_comparable, CASES):
            wanted, got = await asyncio.gather(answer(real, case), answer(embedded, case))
            refused += wanted[0] >= 400
            if got != wanted:
                differing.append((case.name, wanted, got))

    assert differing == []
    assert refused > len(CASES) / 2
