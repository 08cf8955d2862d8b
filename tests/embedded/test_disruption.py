"""What the disruption controller counts, on both clusters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.rest_client import Answer, RestClient, pod

pytestmark = pytest.mark.asyncio(loop_scope="module")

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def budgets(api: RestClient) -> str:
    return f"/apis/policy/v1/namespaces/{api.namespace}/poddisruptionbudgets"


def budget(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}


async def add_pods(api: RestClient, count: int, *, owner: dict[str, Any] | None = None) -> None:
    """Pods that nobody binds, all of them ready."""
    for number in range(count):
        made = pod(f"web-{number}", terminationGracePeriodSeconds=0)
        made["metadata"]["labels"] = {"app": "web"}
        if owner is not None:
            made["metadata"]["ownerReferences"] = [owner]
        await api.created(api.pods, made)
        await api.patch(f"{api.pods}/web-{number}/status", {"status": READY})


def counts(answer: Answer) -> tuple[int, ...]:
    status = answer["status"]
    return tuple(status[one] for one in ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"))


def condition(answer: Answer) -> tuple[str, str]:
    return next(
        ((one["status"], one["reason"]) for one in answer["status"].get("conditions") or ()),
        ("", ""),
    )


async def test_a_number_counts_against_the_pods_there_are(cluster_api: RestClient) -> None:
    api = cluster_api
    await add_pods(api, 3)
    await api.created(budgets(api), budget(minAvailable=2))
    seen = await api.eventually(f"{budgets(api)}/web", lambda answer: counts(answer) == (3, 2, 3, 1))
    assert condition(seen) == ("True", "SufficientPods")
    assert seen["status"]["observedGeneration"] == 1
    await api.delete(f"{api.pods}/web-0")
    seen = await api.eventually(f"{budgets(api)}/web", lambda answer: counts(answer) == (2, 2, 2, 0))
    assert condition(seen) == ("False", "InsufficientPods")


async def test_pods_that_are_not_ready_are_not_healthy_and_those_that_end_neither(cluster_api: RestClient) -> None:
    api = cluster_api
    await add_pods(api, 3)
    await api.created(budgets(api), budget(minAvailable=1))
    await api.eventually(f"{budgets(api)}/web", lambda answer: counts(answer) == (3, 1, 3, 2))
    await api.patch(f"{api.pods}/web-0/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    await api.eventually(f"{budgets(api)}/web", lambda answer: counts(answer) == (2, 1, 3, 1))
    await api.patch(f"{api.pods}/web-1", {"metadata": {"finalizers": ["example.com/keep"]}})
    await api.delete(f"{api.pods}/web-1")
    await api.eventually(f"{budgets(api)}/web", lambda answer: counts(answer) == (1, 1, 3, 0))
    await api.patch(f"{api.pods}/web-1", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"maxUnavailable": 1}, (3, 9, 10, 0)),
        ({"maxUnavailable": "75%"}, (3, 2, 10, 1)),
        ({"minAvailable": "15%"}, (3, 2, 10, 1)),
    ],
    ids=["max", "max-percent", "min-percent"],
)
async def test_the_owners_replicas_count(
    cluster_api: RestClient, spec: dict[str, Any], expected: tuple[int, ...]
) -> None:
    """The owner is of a kind whose controller runs on neither cluster: nobody makes more pods."""
    api = cluster_api
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "img"}]}}
    body = {"metadata": {"name": "web"}, "spec": {"replicas": 10, "selector": {"app": "web"}, "template": template}}
    made = await api.created(f"/api/v1/namespaces/{api.namespace}/replicationcontrollers", body)
    owner = {
        **{"apiVersion": "v1", "kind": "ReplicationController", "name": "web"},
        **{"uid": made["metadata"]["uid"], "controller": True},
    }
    await add_pods(api, 3, owner=owner)
    await api.created(budgets(api), budget(**spec))
    await api.eventually(f"{budgets(api)}/web", lambda answer: counts(answer) == expected)


async def test_what_cannot_be_counted_allows_nothing_and_says_why(cluster_api: RestClient) -> None:
    api = cluster_api
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "no-such-uid", "controller": True}
    # The garbage collector takes the pod of an owner that does not exist; its finalizer keeps it for a while.
    made = pod("web-0", terminationGracePeriodSeconds=0)
    made["metadata"] |= {"labels": {"app": "web"}, "ownerReferences": [job], "finalizers": ["example.com/keep"]}
    await api.created(api.pods, made)
    await api.created(budgets(api), budget(maxUnavailable=1))
    seen = await api.eventually(f"{budgets(api)}/web", lambda answer: condition(answer)[1] == "SyncFailed")
    assert seen["status"]["disruptionsAllowed"] == 0
    assert seen["status"]["conditions"][0]["message"]
    await api.patch(f"{api.pods}/web-0", {"metadata": {"finalizers": None}})
