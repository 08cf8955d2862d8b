"""manifests/examples/whole-namespace.yaml on a real API server: pods of a labelled namespace go to this scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.integration.conftest import RealCluster, real_world
from tests.integration.world import ROOT, SCHEDULER_NAME, UNDER_TEST, World
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.skipif(UNDER_TEST != "ours", reason="the policy names this scheduler"),
]

EXAMPLE: Final = ROOT / "manifests/examples/whole-namespace.yaml"
PATHS: Final = {
    "MutatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
}
LABEL: Final = {"metadata": {"labels": {"dra-scheduler/all-pods": "true"}}}
# What the file's comment says to add for pods with claims only.
HAS_CLAIMS: Final = {"name": "has-claims", "expression": "has(object.spec.resourceClaims)"}


@pytest.fixture
async def world(control_plane: RealCluster, tmp_path: Path) -> AsyncIterator[World]:
    async with real_world(control_plane, tmp_path) as opened:
        await opened.add_namespace()
        try:
            yield opened
        finally:
            await opened.stop_scheduler(kill=True)
            for body in documents():
                await opened.api.request("DELETE", f"{PATHS[body['kind']]}/{body['metadata']['name']}")
            await opened.clean_up()


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8")))


def pod(world: World, name: str, **spec: Any) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}] if spec.pop("claims", True) else []
    container: dict[str, Any] = {"name": "main", "image": "registry.example/work:1"}
    if claims:
        container["resources"] = {"claims": [{"name": "gpu"}]}
    whole = {"terminationGracePeriodSeconds": 0, "resourceClaims": claims, "containers": [container], **spec}
    return {"metadata": world.meta(name), "spec": whole}


async def scheduler_of(world: World, body: dict[str, Any], *, tried: bool = True) -> str:
    """The name that the API server stores, or would."""
    path = f"/api/v1/namespaces/{world.namespace}/pods{'?dryRun=All' if tried else ''}"
    made = await world.api.request("POST", path, body)
    return str(made["spec"]["schedulerName"])


async def until(world: World, wanted: str, **spec: Any) -> None:
    """The API server reads a policy some time after it is stored, and says nothing then: ask without storing."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await scheduler_of(world, pod(world, "tried", **spec)) == wanted:
                return
            await asyncio.sleep(0.1)


async def test_pods_of_a_labelled_namespace_are_scheduled_and_others_left_alone(world: World) -> None:
    await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_template("one-gpu")
    await world.start_scheduler()
    for body in documents():
        await world.api.request("POST", PATHS[body["kind"]], body)
    await world.api.merge_patch("namespaces", world.namespace, LABEL)
    await until(world, SCHEDULER_NAME)

    assert await scheduler_of(world, pod(world, "first"), tried=False) == SCHEDULER_NAME
    await world.wait_bound("first")
    assert await scheduler_of(world, pod(world, "others", schedulerName="other")) == "other"
    assert await scheduler_of(world, pod(world, "plain", claims=False)) == SCHEDULER_NAME
    unlabelled = {"metadata": {"labels": {"dra-scheduler/all-pods": None}}}
    await world.api.merge_patch("namespaces", world.namespace, unlabelled)
    await until(world, "default-scheduler")
    # The pod that exists is as it was.
    assert (await world.api.get("pods", "first", world.namespace))["spec"]["schedulerName"] == SCHEDULER_NAME
    assert await world.violations() == []


async def test_the_policy_can_be_for_pods_with_claims_only(world: World) -> None:
    await world.api.merge_patch("namespaces", world.namespace, LABEL)
    for body in documents():
        if body["kind"] == "MutatingAdmissionPolicy":
            body["spec"]["matchConditions"].append(HAS_CLAIMS)
        await world.api.request("POST", PATHS[body["kind"]], body)
    await until(world, SCHEDULER_NAME)
    await until(world, "default-scheduler", claims=False)
    assert HAS_CLAIMS["expression"] in EXAMPLE.read_text(encoding="utf-8")
