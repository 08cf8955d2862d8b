"""The embedded cluster itself: its life, its kubelets and workload controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.server.statuses import ApiError
from tests.embedded.rest_client import (
    DRA,
    STRATEGIC,
    Answer,
    RestClient,
    allocation,
    claim,
    config_map,
    consumer,
    pod,
    resource_slice,
)

INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=False) as started:
        yield started


@pytest.fixture
async def api(cluster: EmbeddedCluster) -> AsyncIterator[RestClient]:
    async with aiohttp.ClientSession(cluster.url, timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield RestClient(session, "default", "embedded", cluster.restart)


@asynccontextmanager
async def started(cluster: EmbeddedCluster) -> AsyncIterator[RestClient]:
    """A client of a cluster with settings of its own."""
    async with cluster, aiohttp.ClientSession(cluster.url) as session:
        yield RestClient(session, "default", "embedded", cluster.restart)


def _node(name: str, **status: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _kind(api_version: str, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, **body}


# -- life ------------------------------------------------------------------------------------------


async def test_the_kubeconfig_leads_to_the_server_and_goes_with_it() -> None:
    async with EmbeddedCluster(controllers=False) as cluster:
        path = cluster.kubeconfig_path
        config = yaml.safe_load(path.read_text())
        assert config["clusters"][0]["cluster"]["server"] == cluster.url
        assert path.parent.stat().st_mode & 0o077 == 0
    assert not path.exists()
    with pytest.raises(RuntimeError, match="not running"):
        _ = cluster.kubeconfig_path


async def test_kubernetes_asyncio_reads_the_kubeconfig(cluster: EmbeddedCluster) -> None:
    from kubernetes_asyncio import client, config

    await cluster.apply([_node("n1")])
    configuration = client.Configuration()
    await config.load_kube_config(str(cluster.kubeconfig_path), client_configuration=configuration)
    async with client.ApiClient(configuration) as connection:
        nodes = await client.CoreV1Api(connection).list_node()
    assert [node.metadata.name for node in nodes.items] == ["n1"]


async def test_a_restart_keeps_data_and_loses_watches(cluster: EmbeddedCluster, api: RestClient) -> None:
    made = await api.created(api.config_maps, config_map("a"))
    url = cluster.url
    async with api.watch(api.config_maps, INITIAL) as watch:
        await watch.until(lambda line: line["type"] == "BOOKMARK")
        await cluster.restart()
        with pytest.raises(aiohttp.ClientError):
            await watch.next()
    assert cluster.url == url
    assert (await api.get(f"{api.config_maps}/a")).body == made
    await api.created(api.config_maps, config_map("b"))
    version = made["metadata"]["resourceVersion"]
    async with api.watch(api.config_maps, f"resourceVersion={int(version) - 1}") as watch:
        assert (await watch.next())["object"]["code"] == 410


async def test_a_client_that_goes_before_its_watch_has_begun_is_no_failure(
    api: RestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin = web.StreamResponse.prepare

    async def gone(response: web.StreamResponse, request: web.BaseRequest) -> object:
        if "watch=" in request.query_string and request.transport is not None:
            request.transport.abort()
            raise ConnectionResetError("Cannot write to closing transport")
        return await begin(response, request)

    monkeypatch.setattr(web.StreamResponse, "prepare", gone)
    with pytest.raises(aiohttp.ClientError):
        async with api.watch(api.config_maps, INITIAL) as watch:
            await watch.next()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def test_the_watch_window_is_bounded() -> None:
    async with started(EmbeddedCluster(controllers=False, watch_window=5)) as api:
        made = await api.created(api.config_maps, config_map("a", n="0"))
        versions = [made["metadata"]["resourceVersion"]]
        for number in range(1, 21):
            answer = await api.patch(f"{api.config_maps}/a", {"data": {"n": str(number)}})
            versions.append(answer["metadata"]["resourceVersion"])
        async with api.watch(api.config_maps, f"resourceVersion={versions[-6]}&timeoutSeconds=1") as watch:
            assert [line["type"] for line in await watch.rest()] == ["MODIFIED"] * 5
        async with api.watch(api.config_maps, f"resourceVersion={versions[-7]}&timeoutSeconds=1") as watch:
            (line,) = await watch.rest()
        assert (line["type"], line["object"]["reason"]) == ("ERROR", "Expired")


async def test_bookmarks_come_in_the_interval_asked_for() -> None:
    async with started(EmbeddedCluster(controllers=False, bookmark_interval_s=0.05)) as api:
        async with api.watch(api.pods, INITIAL) as watch:
            first = await watch.next()
            await api.created(api.config_maps, config_map("a"))
            # A bookmark moves on with what happens to other kinds.
            later = await watch.until(
                lambda line: (
                    line["object"]["metadata"]["resourceVersion"] > first["object"]["metadata"]["resourceVersion"]
                )
            )
        assert later[-1]["type"] == "BOOKMARK"
        assert "annotations" not in later[-1]["object"]["metadata"]


async def test_two_hundred_pods_reach_many_watchers_once_and_in_order(
    cluster: EmbeddedCluster, api: RestClient
) -> None:
    async def collect() -> list[str]:
        async with api.watch(api.pods, INITIAL) as watch:
            ready.set()
            lines = await watch.until(lambda line: line["object"]["metadata"].get("name") == "p199")
            return [line["object"]["metadata"]["name"] for line in lines if line["type"] == "ADDED"]

    ready = asyncio.Event()
    watchers = [asyncio.create_task(collect()) for _ in range(8)]
    await ready.wait()
    for number in range(200):
        await api.created(api.pods, pod(f"p{number}"))
    for names in await asyncio.gather(*watchers):
        assert names == [f"p{number}" for number in range(200)]


# -- apply -----------------------------------------------------------------------------------------


async def test_apply_takes_lists_statuses_and_repeats(cluster: EmbeddedCluster, api: RestClient) -> None:
    items = [
        _kind("v1", "Pod", {**pod("p"), "status": {"phase": "Running"}}),
        _kind("resource.k8s.io/v1", "ResourceSlice", resource_slice("s", {"name": "d0"})),
    ]
    listed = _kind("v1", "List", {"items": items})
    made = await cluster.apply([listed])
    assert [obj["kind"] for obj in made] == ["Pod", "ResourceSlice"]
    assert made[0]["status"]["phase"] == "Running"
    again = await cluster.apply([listed])
    versions = [[obj["metadata"]["resourceVersion"] for obj in objects] for objects in (made, again)]
    assert versions[0] == versions[1]
    items[1]["spec"]["devices"] = [{"name": "d1"}]
    (changed,) = await cluster.apply(items[1:])
    assert changed["spec"]["devices"] == [{"name": "d1"}]
    assert changed["metadata"]["generation"] == 2


async def test_apply_names_the_kind_it_does_not_know(cluster: EmbeddedCluster) -> None:
    with pytest.raises(ApiError, match=r"'Gadget' of version 'example\.com/v1'"):
        await cluster.apply([_kind("example.com/v1", "Gadget", {"metadata": {"name": "x"}})])


# -- kubelets and workloads ------------------------------------------------------------------------


@pytest.fixture
async def busy() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster() as started:
        yield started


@pytest.fixture
async def busy_api(busy: EmbeddedCluster) -> AsyncIterator[RestClient]:
    async with aiohttp.ClientSession(busy.url, timeout=aiohttp.ClientTimeout(total=60)) as session:
        client = RestClient(session, "default", "embedded", busy.restart)
        await busy.apply([_node("n1", capacity={"cpu": "8", "pods": "110"})])
        yield client


def _is_running(answer: Answer) -> bool:
    return bool(answer["status"].get("phase") == "Running")


async def _bind(api: RestClient, name: str, node: str = "n1") -> None:
    answer = await api.post(f"{api.pods}/{name}/binding", {"metadata": {"name": name}, "target": {"name": node}})
    assert answer.status == 201, answer


async def test_bound_pods_run_and_deleted_pods_end(busy_api: RestClient) -> None:
    api = busy_api
    await api.created(api.pods, pod("a"))
    await _bind(api, "a")
    running = await api.eventually(f"{api.pods}/a", _is_running)
    ready = [c["status"] for c in running["status"]["conditions"] if c["type"] == "Ready"]
    assert ready == ["True"]
    assert running["status"]["containerStatuses"][0]["ready"] is True
    await api.delete(f"{api.pods}/a")
    await api.eventually(f"{api.pods}/a", lambda answer: answer.status == 404)


@pytest.fixture
async def patient_api() -> AsyncIterator[RestClient]:
    """A cluster where a deleted pod has its whole grace period, and a pod that runs."""
    async with (
        EmbeddedCluster(grace_s_max=3600.0) as started,
        aiohttp.ClientSession(started.url, timeout=aiohttp.ClientTimeout(total=60)) as session,
    ):
        api = RestClient(session, "default", "embedded", started.restart)
        await started.apply([_node("n1", capacity={"cpu": "8", "pods": "110"})])
        await api.created(api.pods, pod("a", terminationGracePeriodSeconds=3000))
        await _bind(api, "a")
        await api.eventually(f"{api.pods}/a", _is_running)
        yield api


async def test_a_deleted_pod_runs_on_until_its_grace_period_ends(patient_api: RestClient) -> None:
    api = patient_api
    deleted = await api.delete(f"{api.pods}/a")
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 3000
    await api.created(api.pods, pod("b"))
    await _bind(api, "b")
    await api.eventually(f"{api.pods}/b", _is_running)  # the kubelet has looked at everything meanwhile
    still = await api.get(f"{api.pods}/a")
    assert still["metadata"]["deletionTimestamp"]
    assert still["status"]["phase"] == "Running"
    await api.delete(f"{api.pods}/a", {"gracePeriodSeconds": 1})
    await api.eventually(f"{api.pods}/a", lambda answer: answer.status == 404)


async def test_a_pod_that_ended_is_kept_by_its_finalizer(patient_api: RestClient) -> None:
    api = patient_api
    await api.patch(f"{api.pods}/a", {"metadata": {"finalizers": ["example.com/keep"]}})
    await api.delete(f"{api.pods}/a", {"gracePeriodSeconds": 1})
    ended = await api.eventually(f"{api.pods}/a", lambda answer: answer["status"].get("phase") == "Failed")
    assert ended["metadata"]["deletionTimestamp"]
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    await api.patch(f"{api.pods}/a", {"metadata": {"finalizers": None}})
    await api.eventually(f"{api.pods}/a", lambda answer: answer.status == 404)


async def test_only_the_pod_that_is_meant_is_deleted(patient_api: RestClient) -> None:
    api = patient_api
    uid = (await api.get(f"{api.pods}/a"))["metadata"]["uid"]
    refused = await api.delete(f"{api.pods}/a", {"preconditions": {"uid": "another"}})
    assert (refused.status, refused["reason"]) == (409, "Conflict")
    assert "deletionTimestamp" not in (await api.get(f"{api.pods}/a"))["metadata"]
    assert (await api.delete(f"{api.pods}/a", {"preconditions": {"uid": uid}})).status == 200


async def test_nodes_become_ready_and_have_a_lease(busy_api: RestClient) -> None:
    def is_ready(answer: Answer) -> bool:
        return any(c["type"] == "Ready" for c in answer["status"].get("conditions", ()))

    await busy_api.eventually("/api/v1/nodes/n1", is_ready)
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
    await busy_api.eventually(lease, lambda answer: answer.status == 200)


async def test_a_pod_without_its_reservation_does_not_run(busy_api: RestClient) -> None:
    api = busy_api
    await api.created(api.claims, claim("c"))
    made = await api.created(api.pods, pod("a", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]))
    await _bind(api, "a")
    events = "/api/v1/namespaces/default/events?fieldSelector=reason=FailedPrepareDynamicResources"
    complaint = await api.eventually(events, lambda answer: bool(answer["items"]))
    assert "ResourceClaim c is not allocated" in complaint["items"][0]["message"]
    assert (await api.get(f"{api.pods}/a"))["status"]["phase"] == "Pending"
    status = {"allocation": allocation("d1"), "reservedFor": [consumer("a", made["metadata"]["uid"])]}
    await api.patch(f"{api.claims}/c/status", {"status": status})
    await api.eventually(f"{api.pods}/a", _is_running)


async def test_pods_of_a_deleted_node_go(busy_api: RestClient) -> None:
    api = busy_api
    await api.created(api.pods, pod("a"))
    await _bind(api, "a")
    await api.eventually(f"{api.pods}/a", _is_running)
    await api.delete("/api/v1/nodes/n1")
    await api.eventually(f"{api.pods}/a", lambda answer: answer.status == 404)


def _deployment(replicas: int, image: str = "img") -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


async def _bind_all(api: RestClient) -> None:
    for item in (await api.get(f"{api.pods}?fieldSelector=spec.nodeName="))["items"]:
        await _bind(api, item["metadata"]["name"])


async def test_a_deployment_makes_scales_and_replaces_its_pods(busy: EmbeddedCluster, busy_api: RestClient) -> None:
    api = busy_api
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    await busy.apply([_deployment(3)])
    await api.eventually(f"{api.pods}?labelSelector=app=web", lambda answer: len(answer["items"]) == 3)
    await _bind_all(api)
    available = await api.eventually(path, lambda answer: answer["status"].get("availableReplicas") == 3)
    assert {c["type"]: c["status"] for c in available["status"]["conditions"]} == {
        "Available": "True",
        "Progressing": "True",
    }
    await api.patch(path, {"spec": {"replicas": 1}})
    await api.eventually(f"{api.pods}?labelSelector=app=web", lambda answer: len(answer["items"]) == 1)
    await busy.apply([_deployment(1, image="other")])
    await api.eventually(f"{api.pods}?labelSelector=app=web", lambda answer: len(answer["items"]) == 2)
    await _bind_all(api)
    left = await api.eventually(f"{api.pods}?labelSelector=app=web", lambda answer: len(answer["items"]) == 1)
    assert left["items"][0]["spec"]["containers"][0]["image"] == "other"
    await api.delete(path)
    await api.eventually(f"{api.pods}?labelSelector=app=web", lambda answer: not answer["items"])


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_deletion_propagates_as_asked(busy: EmbeddedCluster, busy_api: RestClient, policy: str) -> None:
    api = busy_api
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    await busy.apply([_deployment(2)])
    await api.eventually(f"{api.pods}?labelSelector=app=web", lambda answer: len(answer["items"]) == 2)
    await api.delete(path, {"propagationPolicy": policy})
    await api.eventually(path, lambda answer: answer.status == 404)
    sets = await api.get("/apis/apps/v1/namespaces/default/replicasets")
    if policy == "Orphan":
        assert (
            "ownerReferences" not in sets["items"][0]["metadata"] or not sets["items"][0]["metadata"]["ownerReferences"]
        )
        assert len((await api.get(f"{api.pods}?labelSelector=app=web"))["items"]) == 2
    else:
        assert sets["items"] == []
        assert (await api.get(f"{api.pods}?labelSelector=app=web"))["items"] == []


async def test_a_job_runs_to_its_end(busy: EmbeddedCluster, busy_api: RestClient) -> None:
    api = busy_api
    annotation = {"embedded.dra-scheduler/run-seconds": "0.01"}
    template = {
        "metadata": {"annotations": annotation},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img"}]},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"completions": 2, "template": template},
    }
    await busy.apply([job])
    for _ in range(2):
        await api.eventually(f"{api.pods}?fieldSelector=spec.nodeName=", lambda answer: len(answer["items"]) == 1)
        await _bind_all(api)
    done = await api.eventually(
        "/apis/batch/v1/namespaces/default/jobs/j", lambda answer: bool(answer["status"].get("completionTime"))
    )
    assert done["status"]["succeeded"] == 2
    assert done["status"]["conditions"][0]["type"] == "Complete"


async def test_an_owner_that_never_was_takes_its_dependents(busy_api: RestClient) -> None:
    api = busy_api
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "11111111-2222-3333-4444-555555555555"}
    unknown = {**owner, "apiVersion": "example.com/v1", "kind": "Gadget"}
    for name, reference in (("a", owner), ("b", unknown)):
        body = config_map(name)
        body["metadata"]["ownerReferences"] = [reference]
        await api.created(api.config_maps, body)
    await api.eventually(f"{api.config_maps}/a", lambda answer: answer.status == 404)
    assert (await api.get(f"{api.config_maps}/b")).status == 200


async def test_slices_go_with_their_node(busy_api: RestClient) -> None:
    api = busy_api
    node = await api.get("/api/v1/nodes/n1")
    body = resource_slice("s", {"name": "d0"})
    reference = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"]}
    body["metadata"]["ownerReferences"] = [reference]
    await api.created(f"{DRA}/resourceslices", body)
    await api.delete("/api/v1/nodes/n1")
    await api.eventually(f"{DRA}/resourceslices/s", lambda answer: answer.status == 404)


async def test_controllers_survive_a_restart_of_the_server(busy: EmbeddedCluster, busy_api: RestClient) -> None:
    api = busy_api
    template = {"metadata": {"name": "t"}, "spec": {"spec": claim("x")["spec"]}}
    await busy.controllers_ready()
    await busy.restart()
    await api.created(api.templates, template)
    uses = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    await api.created(api.pods, pod("a", resourceClaims=uses))
    await api.eventually(f"{api.pods}/a", lambda answer: bool(answer["status"].get("resourceClaimStatuses")))


async def test_strategic_patches_of_nodes(api: RestClient) -> None:
    await api.created(
        "/api/v1/nodes", {"metadata": {"name": "n2"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    )
    answer = await api.patch(
        "/api/v1/nodes/n2", {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, media=STRATEGIC
    )
    # Taints are an atomic list: the patch replaces them.
    assert [taint["key"] for taint in answer["spec"]["taints"]] == ["b"]
