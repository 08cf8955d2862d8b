"""The whole app in one process with the embedded API server: wiring, readiness, faults, stopping."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager

import aiohttp
import pytest

from allocator import Features
from scheduler.app import SchedulerApp, profiles_of
from scheduler.config import Config, LeaderElection, ProfileConfig
from scheduler.core.ground.inputs import TimerFired
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.kube.credentials import Connection, CredentialsError
from scheduler.kube.preflight import PreflightError
from tests.controlplane.fault_proxy import Fault, FaultProxy, api_failure
from tests.kube.test_metrics import rows_of_the_page, served
from tests.patience import PATIENCE_S

RESOURCE = "resource.k8s.io/v1"


def node(name: str) -> dict:
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def resource_slice(node_name: str, devices: int) -> dict:
    return {
        "apiVersion": RESOURCE,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{index}"} for index in range(devices)],
        },
    }


CLASS = {"apiVersion": RESOURCE, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}


def claim(name: str) -> dict:
    return {
        "apiVersion": RESOURCE,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
    }


def pod(name: str, *, scheduler_name: str = "dra-scheduler") -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": scheduler_name,
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        },
    }


def work(*names: str) -> list[dict]:
    return [obj for name in names for obj in (claim(name), pod(name))]


@asynccontextmanager
async def cluster_with(devices: int):
    async with EmbeddedCluster(controllers=False) as cluster:
        await cluster.apply([node("node-1"), resource_slice("node-1", devices), CLASS])
        yield cluster


@asynccontextmanager
async def proxied_cluster_with(devices: int):
    """The cluster, and a proxy in front of it for the scheduler."""
    async with cluster_with(devices) as cluster, FaultProxy(cluster.url) as proxy:
        yield cluster, proxy


def running(cluster, **settings) -> SchedulerApp:
    """Alone under its name, so without a lease; see `test_election` for that."""
    defaults = {"health_port": None, "leader_election": LeaderElection(leader_elect=False)}
    return SchedulerApp(Connection(url=cluster.url), Config(**(defaults | settings)))


async def wait_for(cluster, path: str, is_reached) -> list[dict]:
    """Watch a collection until `is_reached` of its objects; gives them."""
    objects: dict[str, dict] = {}
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession(read_bufsize=1 << 22) as session:
        query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with session.get(f"{cluster.url}{path}{query}") as response:
            async for line in response.content:
                event = json.loads(line)
                if event["type"] in {"ADDED", "MODIFIED"}:
                    objects[event["object"]["metadata"]["name"]] = event["object"]
                if is_reached(list(objects.values())):
                    return list(objects.values())
    raise AssertionError("the watch ended")


async def bound(cluster, count: int) -> list[dict]:
    return await wait_for(
        cluster, "/api/v1/pods", lambda pods: sum(bool(one["spec"].get("nodeName")) for one in pods) == count
    )


async def reported_pending(cluster, name: str) -> dict:
    def has_verdict(one):
        return any(
            condition["type"] == "PodScheduled" and condition["status"] == "False"
            for condition in one.get("status", {}).get("conditions", [])
        )

    pods = await wait_for(
        cluster,
        "/api/v1/pods",
        lambda pods: any(one["metadata"]["name"] == name and has_verdict(one) for one in pods),
    )
    return next(one for one in pods if one["metadata"]["name"] == name)


async def test_pod_gets_device_reservation_node_and_event():
    async with cluster_with(devices=1) as cluster, running(cluster) as app:
        await app.synced()
        assert app.problems() == []
        await cluster.apply(work("a"))

        (one,) = await bound(cluster, 1)
        (held,) = await wait_for(cluster, f"/apis/{RESOURCE}/resourceclaims", len)
        events = await wait_for(cluster, "/apis/events.k8s.io/v1/events", len)
        assert one["spec"]["nodeName"] == "node-1"
        assert held["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        assert [result["device"] for result in held["status"]["allocation"]["devices"]["results"]] == ["gpu-0"]
        assert held["status"]["reservedFor"] == [
            {"resource": "pods", "name": "a", "uid": one["metadata"]["uid"]},
        ]
        assert [(event["reason"], event["regarding"]["name"]) for event in events] == [("Scheduled", "a")]


async def test_pod_without_a_device_is_told_why_and_others_are_left_alone():
    async with cluster_with(devices=1) as cluster, running(cluster) as app:
        await app.synced()
        await cluster.apply([*work("a"), claim("other"), pod("other", scheduler_name="default-scheduler")])
        await bound(cluster, 1)
        await cluster.apply(work("b"))

        pending = await reported_pending(cluster, "b")
        (condition,) = [one for one in pending["status"]["conditions"] if one["type"] == "PodScheduled"]
        assert condition["reason"] == "Unschedulable"
        assert "0/1 nodes are available" in condition["message"]
        pods = await wait_for(cluster, "/api/v1/pods", lambda pods: len(pods) == 3)
        assert {one["metadata"]["name"]: one["spec"].get("nodeName") for one in pods} == {
            "a": "node-1",
            "b": None,
            "other": None,
        }


async def test_several_scheduler_names():
    profiles = (ProfileConfig(scheduler_name="one"), ProfileConfig(scheduler_name="two"))
    async with cluster_with(devices=2) as cluster, running(cluster, profiles=profiles) as app:
        await app.synced()
        await cluster.apply([claim("a"), pod("a", scheduler_name="one"), claim("b"), pod("b", scheduler_name="two")])

        assert len(await bound(cluster, 2)) == 2


async def test_missing_right_is_named_before_anything_starts():
    async with proxied_cluster_with(devices=1) as (_, proxy):
        proxy.deny("patch", "resource.k8s.io", "resourceclaims", "binding")
        with pytest.raises(PreflightError, match=r"not permitted: patch resourceclaims/binding.resource.k8s.io"):
            async with running(proxy):
                raise AssertionError("not reached")


async def test_right_that_is_lost_fails_readiness_and_is_not_asked_for_ever(caplog):
    caplog.set_level(logging.ERROR)
    message = (
        'ResourceClaim.resource.k8s.io "a" is invalid: status.allocation: Forbidden: changing status.allocation or '
        'status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission'
    )
    async with (
        proxied_cluster_with(devices=1) as (cluster, proxy),
        running(proxy, checks_invariants=True) as app,
    ):
        await app.synced()
        refusal = api_failure(422, "Invalid", message)
        proxy.add(Fault("answer", "PATCH", "/resourceclaims/a/status", times=-1, status=422, body=refusal))
        await cluster.apply(work("a"))
        await reported_pending(cluster, "a")

        assert any("resourceclaims/binding" in problem for problem in app.problems())
        assert any("resourceclaims/binding" in record.message for record in caplog.records)
        refusals = app.metrics.registry.get_sample_value(
            "dra_scheduler_write_duration_seconds_count", {"decision": "WriteClaimStatus", "outcome": "Rejected"}
        )
        assert refusals is not None
        assert refusals <= 3


@pytest.mark.parametrize("path", ["/status", "/binding"])
async def test_write_whose_reply_is_lost_is_found_out_about(path):
    async with (
        proxied_cluster_with(devices=1) as (cluster, proxy),
        running(proxy, checks_invariants=True) as app,
    ):
        await app.synced()
        fault = proxy.add(Fault("lose-reply", "PATCH" if path == "/status" else "POST", path))
        await cluster.apply(work("a"))

        await bound(cluster, 1)
        assert fault.hits == 1


async def test_conflicts_are_survived():
    async with (
        proxied_cluster_with(devices=2) as (cluster, proxy),
        running(proxy, checks_invariants=True) as app,
    ):
        await app.synced()
        conflict = api_failure(409, "Conflict", "Operation cannot be fulfilled: the object has been modified")
        fault = proxy.add(Fault("answer", "PATCH", "/resourceclaims/", times=3, status=409, body=conflict))
        await cluster.apply(work("a", "b"))

        await bound(cluster, 2)
        assert fault.hits == 3


async def test_server_restart_and_cut_watches_lose_nothing():
    async with (
        proxied_cluster_with(devices=8) as (cluster, proxy),
        running(proxy, checks_invariants=True) as app,
    ):
        await app.synced()
        await cluster.apply(work("a", "b"))
        await bound(cluster, 2)
        assert proxy.cut_watches() > 0
        await cluster.apply(work("c", "d"))
        await bound(cluster, 4)
        await cluster.restart()
        await cluster.apply(work("e", "f"))

        await bound(cluster, 6)
        claims = await wait_for(cluster, f"/apis/{RESOURCE}/resourceclaims", lambda claims: len(claims) == 6)
        devices = [one["status"]["allocation"]["devices"]["results"][0]["device"] for one in claims]
        assert len(set(devices)) == 6


async def test_health_and_metrics():
    async with cluster_with(devices=1) as cluster, running(cluster, health_port=0) as app:
        url = f"http://127.0.0.1:{app.health.port}"
        async with aiohttp.ClientSession() as session:
            await app.synced()
            for path in ("/livez", "/healthz", "/readyz"):
                async with session.get(url + path) as response:
                    assert (response.status, await response.text()) == (200, "ok\n")
            async with session.get(url + "/configz") as response:
                shown = (await response.json())["componentconfig"]
                assert [one["schedulerName"] for one in shown["profiles"]] == list(app.config.scheduler_names)
            app.reports.refused("create pods/binding", "no")
            async with session.get(url + "/readyz") as response:
                assert response.status == 503
                assert "create pods/binding: no" in await response.text()
            async with session.get(url + "/metrics") as response:
                text = await response.text()
                assert 'dra_scheduler_watch_relists_total{kind="Pod"} 1.0' in text
                assert "dra_scheduler_problems 1.0" in text
                assert served(text) == {row.split("`")[1] for row in rows_of_the_page()}


async def test_the_longest_turn_is_known():
    async with cluster_with(devices=2) as cluster, running(cluster) as app:
        await cluster.apply(work("a", "b"))
        await bound(cluster, 2)
        assert app.running.turns.longest_handle_s > 0
        assert app.running.turns.longest_handle_cpu_s > 0
        assert b"dra_scheduler_longest_handle_seconds " in app.metrics.text()


async def test_not_ready_before_the_caches_are_filled():
    async with proxied_cluster_with(devices=1) as (_, proxy):
        proxy.add(Fault("delay", "*", "/nodes", seconds=0.2))
        async with running(proxy) as app:
            assert "Node: not listed yet" in app.problems()
            await app.synced()
            assert app.problems() == []


async def test_pods_are_read_last_and_tried_in_the_order_of_their_revisions():
    """Claims that come late, and in another order, do not change who gets the only device."""
    async with proxied_cluster_with(devices=1) as (cluster, proxy):
        await cluster.apply([claim("a"), claim("b"), pod("b"), pod("a")])
        late = proxy.add(Fault("delay", "*", "/resourceclaims", seconds=0.3))
        async with running(proxy) as app:
            await late.happened.wait()
            pods = next(one for one in app.running.reflectors if one.kind.name == "Pod")
            assert not pods.stats.is_synced
            await app.synced()
            assert [one["metadata"]["name"] for one in await bound(cluster, 1) if one["spec"].get("nodeName")] == ["b"]


async def test_leaving_stops_every_task():
    before = asyncio.all_tasks()
    async with cluster_with(devices=1) as cluster:
        inside = asyncio.all_tasks()
        async with running(cluster, health_port=0) as app:
            await app.synced()
            await cluster.apply(work("a"))
        left = asyncio.all_tasks() - inside
        assert [task.get_name() for task in left if "watch" in task.get_name() or "writer" in task.get_name()] == []
    assert asyncio.all_tasks() - before == set()


async def test_defect_of_the_machine_ends_the_app_and_liveness(caplog):
    async with cluster_with(devices=1) as cluster, running(cluster, health_port=0) as app:
        await app.synced()

        def break_down(given, *, now_ms):
            raise RuntimeError("out of order")

        app.running.turns._handle = break_down
        app.running.turns.deliver([TimerFired()])
        with pytest.raises(RuntimeError, match="out of order"):
            await app.run_until(asyncio.Event())
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{app.health.port}/livez") as seen:
            assert seen.status == 503
            assert "out of order" in await seen.text()


async def test_nothing_is_left_when_the_start_fails():
    before = asyncio.all_tasks()
    with pytest.raises(CredentialsError, match="no API server given"):
        async with SchedulerApp(Connection(), Config(health_port=None)):
            raise AssertionError("not reached")
    async with cluster_with(devices=1) as cluster, running(cluster, health_port=0) as app:
        with pytest.raises(OSError, match="in use"):
            async with running(cluster, health_port=app.health.port):
                raise AssertionError("not reached")
    assert asyncio.all_tasks() - before == set()


async def test_writes_that_keep_failing_are_told_in_log_metrics_and_readyz(caplog):
    caplog.set_level(logging.INFO)
    async with proxied_cluster_with(devices=1) as (cluster, proxy), running(proxy, health_port=0) as app:
        await app.synced()
        failure = api_failure(500, "InternalError", "injected fault")
        fault = proxy.add(Fault("answer", "PATCH", "/resourceclaims/a/status", times=-1, body=failure))
        await cluster.apply(work("a"))
        one = await reported_pending(cluster, "a")
        (condition,) = [one for one in one["status"]["conditions"] if one["type"] == "PodScheduled"]
        assert condition["reason"] == "SchedulerError"
        assert condition["message"].startswith("writing the status of ResourceClaim default/a fails since ")
        assert "injected fault" in condition["message"]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{app.health.port}/readyz") as response:
                assert response.status == 503, "nothing of the kind is done anywhere"
                assert "writing the status of ResourceClaim default/a fails since" in await response.text()
            async with session.get(f"http://127.0.0.1:{app.health.port}/metrics") as response:
                metrics = await response.text()
        assert 'dra_scheduler_request_failing_seconds{namespace="default",request="WriteClaimStatus"}' in metrics
        assert fault.hits > 3
        proxy.clear()
        await bound(cluster, 1)
        assert app.problems() == []
        told = [line for line in caplog.messages if "writing the status of ResourceClaim default/a" in line]
        assert [line.partition(": writing")[0] for line in told[1:]] == ["done again, or not needed any more"]
        assert len(told) == 2


async def test_debug_says_something_about_each_decision(caplog):
    caplog.set_level(logging.DEBUG, logger="scheduler")
    async with cluster_with(devices=1) as cluster, running(cluster) as app:
        await app.synced()
        await cluster.apply(work("a"))
        await bound(cluster, 1)
    text = "\n".join(caplog.messages)
    for said in (
        "pod default/a: node node-1, devices gpu.example.com/node-1/gpu-0 for claim default/a",
        "AddClaimFinalizer default/a",
        "WriteClaimStatus default/a at revision",
        "BindPod default/a to node node-1",
        "accepted",
    ):
        assert said in text


def test_a_profile_without_a_percentage_of_nodes_has_the_configurations() -> None:
    written = [{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 7}]
    config = Config.model_validate({"percentageOfNodesToScore": 30, "profiles": written})

    assert [(one.scheduler_name, one.percentage_of_nodes) for one in profiles_of(config, Features())] == [
        ("a", 30),
        ("b", 7),
    ]
