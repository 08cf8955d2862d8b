"""Two apps of one name on the embedded cluster: one schedules, the other waits; and what losing the lease does.

Not here: the rules of the lease itself, in time that passes at once (`test_lease`); processes, SIGSTOP and partitions,
on both clusters (`tests/integration/test_lease.py`).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

import aiohttp
import pytest

from scheduler.app import SchedulerApp
from scheduler.config import Config, LeaderElection, ProfileConfig
from scheduler.kube import credentials
from scheduler.kube.credentials import Connection
from scheduler.kube.lease import LeaseLostError
from scheduler.kube.preflight import PreflightError
from tests.controlplane.fault_proxy import Fault, api_failure
from tests.kube.test_app import bound, claim, cluster_with, pod, proxied_cluster_with, wait_for, work
from tests.patience import PATIENCE_S

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class NotedApp(SchedulerApp):
    """Keeps what was decided."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.decided = []

    def _submit(self, decisions) -> None:
        self.decided += decisions
        super()._submit(decisions)


def running(cluster, **settings) -> NotedApp:
    """Quick to try again, and with the usual times otherwise: a machine that is busy must not cost the lease."""
    election = LeaderElection(**({"retry_period": 0.2} | settings.pop("election", {})))
    return NotedApp(
        Connection(url=cluster.url),
        Config(**({"health_port": None, "leader_election": election, "checks_invariants": True} | settings)),
    )


async def request(cluster, method: str, path: str, body: dict | None = None) -> dict:
    headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, cluster.url + path, json=body, headers=headers) as response,
    ):
        return await response.json()


class Log(logging.Handler):
    """What is logged, and waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.changed = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.changed.set()

    async def until(self, text: str) -> str:
        """The first line that begins so."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := [line for line in self.lines if line.startswith(text)]):
                self.changed.clear()
                await self.changed.wait()
        return found[0]


@pytest.fixture
async def log(caplog):
    caplog.set_level(logging.INFO)
    handler = Log()
    logging.getLogger("scheduler").addHandler(handler)
    yield handler
    logging.getLogger("scheduler").removeHandler(handler)


async def lease(cluster, name: str = "dra-scheduler") -> dict:
    return (await request(cluster, "GET", f"{LEASES}/{name}"))["spec"]


async def test_one_schedules_and_the_other_waits_until_it_leaves(log):
    async with cluster_with(devices=2) as cluster, AsyncExitStack() as first:
        one = await first.enter_async_context(running(cluster, health_port=0))
        await one.synced()
        async with running(cluster, health_port=0) as two:
            await cluster.apply(work("a"))
            await bound(cluster, 1)
            holder = (await lease(cluster))["holderIdentity"]
            waiting = f"waiting for the lease kube-system/dra-scheduler, held by {holder}"
            assert await log.until("waiting") == waiting
            await two.filled()
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{two.health.port}/readyz") as response:
                    assert (response.status, await response.text()) == (200, f"ok\n{waiting}\n")
                async with session.get(f"http://127.0.0.1:{two.health.port}/livez") as response:
                    assert response.status == 200
                for app, is_leading in ((one, 1.0), (two, 0.0)):
                    async with session.get(f"http://127.0.0.1:{app.health.port}/metrics") as response:
                        line = f'leader_election_master_status{{name="kube-system/dra-scheduler"}} {is_leading}'
                        assert line in await response.text()
            assert two.running.machine.store.pods
            assert two.decided == []
            await first.aclose()
            await two.synced()
            assert two.problems() == []
            spec = await lease(cluster)
            assert (spec["holderIdentity"] != holder, spec["leaseTransitions"]) == (True, 1)
            await cluster.apply(work("b"))
            await bound(cluster, 2)


@pytest.mark.parametrize("ends", ["in-order", "robbed"])
async def test_who_takes_over_has_seen_what_its_predecessor_wrote(log, ends):
    """Its watch of claims is silent: without looking again it gives the device of `a` to `c` as well."""
    async with proxied_cluster_with(devices=2) as (cluster, proxy), AsyncExitStack() as first:
        one = await first.enter_async_context(running(cluster))
        await one.synced()
        await cluster.apply([claim("c")])
        async with running(proxy) as two:
            await two.filled()
            proxy.hold_watches("resourceclaims")
            await cluster.apply(work("a"))
            await bound(cluster, 1)
            if ends == "robbed":
                await request(cluster, "PATCH", f"{LEASES}/dra-scheduler", {"spec": {"holderIdentity": ""}})
                with pytest.raises(LeaseLostError):
                    await one.run_until(asyncio.Event())
            await first.aclose()
            await cluster.apply([pod("c")])
            await bound(cluster, 2)

            claims = (await request(cluster, "GET", "/apis/resource.k8s.io/v1/resourceclaims"))["items"]
            used = [one["status"]["allocation"]["devices"]["results"][0]["device"] for one in claims]
            assert sorted(used) == ["gpu-0", "gpu-1"]
            assert "ResourceClaim" in await log.until("caught up")
            assert two.problems() == []


async def test_different_names_do_not_wait_for_each_other():
    async with cluster_with(devices=2) as cluster, running(cluster) as one:
        await one.synced()
        async with running(cluster, profiles=(ProfileConfig(scheduler_name="other"),)) as two:
            await two.synced()
            assert (await lease(cluster, "other"))["holderIdentity"]


async def test_without_election_the_lease_keeps_nobody_waiting():
    """It is a sign of life, and given up in the end."""
    async with cluster_with(devices=1) as cluster:
        async with running(cluster, election={"leader_elect": False}) as app:
            await app.synced()
            await cluster.apply(work("a"))
            await bound(cluster, 1)
            assert app.problems() == []
        assert not (await lease(cluster)).get("holderIdentity")


@pytest.mark.parametrize("first_elects", [True, False])
async def test_without_election_a_second_process_is_noticed_and_named(log, first_elects):
    quick = {"retry_period": 0.2}
    async with (
        cluster_with(devices=1) as cluster,
        running(cluster, election=quick | {"leader_elect": first_elects}) as one,
    ):
        await one.synced()
        while not (holder := (await leases(cluster)).get("dra-scheduler", {}).get("holderIdentity")):
            pass
        async with running(cluster, health_port=0, election={"leader_elect": False}) as two:
            await two.synced()
            text = await log.until("another process schedules under our name: ")
            assert f": {holder} renews the lease kube-system/dra-scheduler; " in text
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{two.health.port}/readyz") as response,
            ):
                assert (response.status, await response.text()) == (200, f"ok\n{text}\n")
            (event,) = await wait_for(cluster, "/apis/events.k8s.io/v1/events", lambda events: len(events) == 1)
            assert (event["reason"], event["regarding"]["kind"]) == ("SecondScheduler", "Lease")
            assert event["note"] == text
            assert one._namesakes is None or one._namesakes.texts() == []


async def leases(cluster) -> dict[str, dict]:
    return {one["metadata"]["name"]: one["spec"] for one in (await request(cluster, "GET", LEASES))["items"]}


async def test_without_election_no_right_to_leases_is_needed(log):
    async with proxied_cluster_with(devices=1) as (_, proxy):
        message = 'leases.coordination.k8s.io is forbidden: User "u" cannot get resource "leases"'
        refused = proxy.add(
            Fault("answer", "*", "/leases", times=-1, status=403, body=api_failure(403, "Forbidden", message))
        )
        async with running(proxy, election={"leader_elect": False}) as app:
            await app.synced()
            async with asyncio.timeout(PATIENCE_S):
                await refused.happened.wait()
            assert app.problems() == []
            assert not [line for line in log.lines if "lease" in line]


async def test_who_loses_its_lease_ends_and_writes_nothing_more():
    async with cluster_with(devices=4) as cluster, running(cluster, health_port=0) as app:
        await app.synced()
        await cluster.apply(work("a"))
        await bound(cluster, 1)
        # It is told by its next renewal; before that, the clock of the lease says that too much time has passed.
        (held,) = app._election.leases
        held._clocks = lambda: tuple(one + 100 for one in held._renewed_at)
        await cluster.apply(work("b"))
        with pytest.raises(LeaseLostError, match=r"kube-system/dra-scheduler was lost: not renewed for 100.0 s"):
            await app.run_until(asyncio.Event())
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{app.health.port}/livez") as seen:
            assert seen.status == 503
            assert (await seen.text()).startswith("the lease kube-system/dra-scheduler was lost")
        pods = await wait_for(cluster, "/api/v1/pods", lambda pods: len(pods) == 2)
        claims = await wait_for(cluster, "/apis/resource.k8s.io/v1/resourceclaims", lambda claims: len(claims) == 2)
        (waiting,) = (pod for pod in pods if pod["metadata"]["name"] == "b")
        (untouched,) = (claim for claim in claims if claim["metadata"]["name"] == "b")
        assert not waiting["spec"].get("nodeName")
        assert not waiting.get("status", {}).get("conditions")
        assert "finalizers" not in untouched["metadata"]
        assert not untouched.get("status")
        assert not app.running.executor.stats.in_flight
    assert held.holder == held._identity  # what was lost is not released


async def test_what_an_input_decides_that_took_longer_than_the_lease_is_not_sent():
    """No renewal is possible while the machine has the thread: the fence is asked when its decisions are sent."""
    async with proxied_cluster_with(devices=1) as (cluster, proxy), running(proxy) as app:
        await app.synced()
        (held,) = app._election.leases
        before, spent_s, handle, clocks = writes(proxy), 0.0, app.running.turns._handle, held._clocks

        def long(given, *, now_ms):
            nonlocal spent_s
            decisions = handle(given, now_ms=now_ms)
            spent_s = 10.0 if decisions else spent_s
            return decisions

        held._clocks = lambda: tuple(one + spent_s for one in clocks())
        app.running.turns._handle = long
        await cluster.apply(work("a"))
        with pytest.raises(LeaseLostError, match=r"not renewed for 1\d\.\d s"):
            await app.run_until(asyncio.Event())
        assert app.decided
        assert writes(proxy) == before


def writes(proxy) -> int:
    return sum(count for (method, path), count in proxy.seen.items() if method != "GET" and "/leases" not in path)


async def test_who_is_robbed_of_its_lease_ends(log):
    async with cluster_with(devices=1) as cluster, running(cluster) as app:
        await app.synced()
        await request(cluster, "PATCH", f"{LEASES}/dra-scheduler", {"spec": {"holderIdentity": "thief"}})
        with pytest.raises(LeaseLostError, match="the lease kube-system/dra-scheduler was lost: held by thief"):
            await app.run_until(asyncio.Event())
    assert log.lines[-1] == "the lease kube-system/dra-scheduler was lost: held by thief"


async def test_writes_that_hang_do_not_delay_renewals():
    """Every place for writes is taken, for longer than the lease lasts."""
    times = {"lease_duration": 5.0, "renew_deadline": 4.0}
    async with (
        proxied_cluster_with(devices=8) as (cluster, proxy),
        running(proxy, writes_in_flight=2, election=times) as app,
    ):
        await app.synced()
        fault = proxy.add(Fault("delay", "PATCH", "/resourceclaims/", times=2, seconds=4.5))
        await cluster.apply(work("a", "b", "c", "d"))
        await bound(cluster, 4)
        assert fault.hits == 2
        assert app.problems() == []


async def test_rights_to_the_lease_are_asked_for_at_the_start():
    async with proxied_cluster_with(devices=1) as (_, proxy):
        proxy.deny("update", "coordination.k8s.io", "leases")
        with pytest.raises(
            PreflightError, match=r"not permitted: update leases.coordination.k8s.io \(in namespace kube-system\)"
        ):
            async with running(proxy):
                raise AssertionError("not reached")
        async with running(proxy, election={"leader_elect": False}) as app:
            await app.synced()


async def test_a_right_that_is_missing_later_is_named_while_it_waits(log):
    async with proxied_cluster_with(devices=1) as (_, proxy):
        message = 'leases.coordination.k8s.io is forbidden: User "u" cannot create resource "leases"'
        refusal = api_failure(403, "Forbidden", message)
        proxy.add(Fault("answer", "POST", "/leases", times=-1, status=403, body=refusal))
        async with running(proxy, preflight=False) as app:
            await log.until("waiting")
            assert list(app.reports.refused_by_subject) == [
                "create leases.coordination.k8s.io in namespace kube-system"
            ]
            assert app.problems()[0].startswith("waiting for the lease kube-system/dra-scheduler: ")


async def test_a_namespace_that_is_missing_is_named_while_it_waits(log):
    async with cluster_with(devices=1) as cluster, running(cluster, election={"resource_namespace": "nowhere"}) as app:
        problem = await log.until("waiting")
        assert problem.startswith('waiting for the lease nowhere/dra-scheduler: namespaces "nowhere" not found')
        assert app.problems()[0] == problem


async def test_leaving_while_waiting_leaves_nothing():
    before = asyncio.all_tasks()
    async with cluster_with(devices=1) as cluster, running(cluster) as one:
        await one.synced()
        async with running(cluster):
            await asyncio.sleep(0)
        assert (await lease(cluster))["holderIdentity"].endswith(one._election.leases[0]._identity)
    assert asyncio.all_tasks() - before == set()


@pytest.mark.parametrize(
    ("connection", "setting", "wanted"),
    [
        pytest.param(Connection(in_cluster=True), None, "team", id="in-a-pod-its-own"),
        pytest.param(Connection(in_cluster=True), "other", "other", id="the-setting-wins"),
        pytest.param(Connection(url="http://x"), None, "kube-system", id="elsewhere-kube-system"),
    ],
)
async def test_namespace_of_the_lease(monkeypatch, tmp_path, connection, setting, wanted):
    (tmp_path / "namespace").write_text("team\n")
    monkeypatch.setattr(credentials, "IN_CLUSTER_NAMESPACE", tmp_path / "namespace")
    config = Config(leader_election=LeaderElection(resource_namespace=setting))

    assert SchedulerApp(connection, config)._lease_namespace() == wanted
