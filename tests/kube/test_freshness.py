"""What the scheduler says of itself while the API server is lost, whatever the loss, and that it finds it again."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from scheduler.app import SchedulerApp
from scheduler.config import Config, LeaderElection
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.kube.credentials import Connection
from scheduler.kube.freshness import Freshness
from scheduler.kube.watch import WatchStats
from tests.controlplane.fault_proxy import Fault, FaultProxy, api_failure
from tests.kube.certificates import Authority
from tests.patience import PATIENCE_S


@dataclass
class OneKind:
    name: str


@dataclass
class OneWatch:
    kind: OneKind
    stats: WatchStats = field(default_factory=WatchStats)


def kinds(**heard_s: float | None):
    watches = [OneWatch(OneKind(name)) for name in heard_s]
    for one, at_s in zip(watches, heard_s.values(), strict=True):
        one.stats.last_activity_s, one.stats.is_synced = at_s, at_s is not None
    return watches


def test_one_silent_kind_is_not_ready_and_all_of_them_not_alive():
    watches = kinds(Pod=100.0, Node=190.0)
    watches[0].stats.failure = "HTTP 503: down"
    fresh = Freshness(watches, 0.0, ready_s=90, alive_s=600)

    assert fresh.problems_ready(190.0) == []
    assert fresh.problems_ready(191.0) == ["Pod: nothing heard for 91 s (HTTP 503: down)"]
    assert fresh.problems_alive(790.0) == []
    assert fresh.problems_alive(791.0) == ["the API server has not been heard of for 601 s, of at most 600"]
    watches[1].stats.failure = "HTTP 503: etcd leader changed"
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert fresh.problems_ready(283.0)[1] in page


def test_what_was_never_heard_of_is_as_old_as_the_watches():
    fresh = Freshness(kinds(Pod=None), 1000.0, ready_s=90, alive_s=600)

    assert fresh.problems_ready(2000.0) == []  # "not listed yet" is somebody else's complaint
    assert fresh.problems_alive(1600.0) == []
    assert len(fresh.problems_alive(1601.0)) == 1


def test_who_waits_for_a_lease_hears_of_that():
    fresh = Freshness(kinds(Pod=None), 0.0, ready_s=90, alive_s=600, accepted_s=lambda: 900.0)

    assert fresh.problems_alive(1500.0) == []
    assert len(fresh.problems_alive(1501.0)) == 1


def test_there_may_be_no_limit_to_being_alive():
    assert Freshness(kinds(Pod=0.0), 0.0, ready_s=90, alive_s=None).problems_alive(1e9) == []


@pytest.mark.parametrize(
    ("settings", "ready_s", "alive_s"),
    [
        pytest.param({}, 90.0, 600.0, id="defaults"),
        pytest.param({"watchInactivity": "1h"}, 3620.0, 3620.0, id="follow-what-a-watch-may-be-silent"),
        pytest.param({"notReadyAfter": "10s", "notAliveAfter": "5s"}, 70.0, 70.0, id="not-before-a-watch-is-cut"),
        pytest.param({"notReadyAfter": "3m", "notAliveAfter": None}, 180.0, None, id="as-given"),
    ],
)
def test_limits_fit_each_other(settings, ready_s, alive_s):
    config = Config.model_validate(settings)

    assert (config.ready_silence_s, config.alive_silence_s) == (ready_s, alive_s)


def test_a_kind_that_the_server_does_not_have_is_not_missed():
    watches = kinds(Pod=100.0, PodGroup=0.0)
    watches[1].stats.is_absent = True

    assert Freshness(watches, 0.0, ready_s=90, alive_s=90).problems_ready(190.0) == []
    assert len(Freshness(watches, 0.0, ready_s=90, alive_s=90).problems_alive(191.0)) == 1


def test_before_there_are_watches_only_the_time_counts():
    fresh = Freshness((), 0.0, ready_s=90, alive_s=600)

    assert fresh.problems_ready(700.0) == []
    assert len(fresh.problems_alive(700.0)) == 1


# -- the whole app, through a proxy --


@asynccontextmanager
async def scheduler(connection: Connection, **settings):
    # Without a lease, which would be lost in ten seconds and end the process.
    config = Config(
        leader_election=LeaderElection(leader_elect=False),
        **{"health_port": 0, "watch_inactivity": 1.0, "not_ready_after": 1.5, "not_alive_after": 3.0} | settings,
    )
    async with SchedulerApp(connection, config) as app, aiohttp.ClientSession() as session:

        async def asked(path: str) -> tuple[int, str]:
            async with session.get(f"http://127.0.0.1:{app.health.port}{path}") as response:
                return response.status, await response.text()

        async def until(path: str, code: int) -> str:
            """Ask until that is the answer; the server paces who asks."""
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    status, text = await asked(path)
                    if status == code:
                        return text

        app.asked, app.until = asked, until  # type: ignore[attr-defined]
        await app.synced()
        yield app


def cut_off(proxy: FaultProxy, loss: str) -> None:
    match loss:
        case "partition":
            proxy.refuse()
        case "silence":  # nothing is cut, nothing comes
            proxy.add(Fault("delay", "*", ".*", times=-1, seconds=1000))
        case _:
            reason = {"503": "ServiceUnavailable", "401": "Unauthorized", "500": "InternalError"}[loss]
            proxy.add(
                Fault("answer", "*", ".*", times=-1, status=int(loss), body=api_failure(int(loss), reason, reason))
            )
    proxy.cut_watches()


@pytest.mark.parametrize("loss", ["partition", "silence", "500", "503", "401"])
async def test_a_lost_api_server_is_told_and_found_again(loss):
    """/livez and /readyz said "ok" for as long as it lasted."""
    async with (
        EmbeddedCluster(controllers=False, bookmark_interval_s=0.2) as cluster,
        FaultProxy(upstream=cluster.url) as proxy,
        scheduler(Connection(url=proxy.url, token="t")) as app,
    ):
        assert await app.asked("/readyz") == (200, "ok\n")
        cut_off(proxy, loss)
        not_ready = await app.until("/readyz", 503)
        assert ": nothing heard for " in not_ready
        not_alive = await app.until("/livez", 503)
        assert "the API server has not been heard of for " in not_alive
        if loss not in {"partition", "silence"}:
            assert {"401": "Unauthorized"}.get(loss, f"HTTP {loss}") in not_alive

        proxy.clear()
        proxy.accept()
        assert await app.until("/livez", 200) == "ok\n"
        assert await app.until("/readyz", 200) == "ok\n"


async def test_one_kind_alone_is_not_ready_and_alive():
    async with (
        EmbeddedCluster(controllers=False, bookmark_interval_s=0.2) as cluster,
        FaultProxy(upstream=cluster.url) as proxy,
        scheduler(Connection(url=proxy.url)) as app,
    ):
        failure = api_failure(500, "InternalError", "etcdserver: mvcc: corrupt")
        proxy.add(Fault("answer", "GET", "/nodes", times=-1, status=500, body=failure))
        proxy.cut_watches("nodes")
        assert (await app.until("/readyz", 503)).startswith("Node: nothing heard for ")
        while "Node: nothing heard for 3 s" not in (await app.asked("/readyz"))[1]:
            pass
        assert (await app.asked("/livez"))[0] == 200


async def test_one_that_waits_for_the_lease_is_alive_while_the_server_is():
    settings = {"watch_inactivity": 1.0, "not_ready_after": 1.0, "not_alive_after": 1.0, "health_port": 0}
    elected = LeaderElection(leader_elect=True, lease_duration=15, renew_deadline=10, retry_period=0.1)
    async with EmbeddedCluster(controllers=False) as cluster, FaultProxy(upstream=cluster.url) as proxy:
        first = SchedulerApp(Connection(url=cluster.url), Config(health_port=None, leader_election=elected))
        second = SchedulerApp(Connection(url=proxy.url), Config(leader_election=elected, **settings))
        async with first, aiohttp.ClientSession() as session:
            await first.synced()
            async with second:
                loop, url = asyncio.get_running_loop(), f"http://127.0.0.1:{second.health.port}/livez"
                begun_s = loop.time()
                while loop.time() < begun_s + 3:
                    async with session.get(url) as response:
                        assert response.status == 200
                proxy.refuse()
                async with asyncio.timeout(PATIENCE_S):
                    code = 200
                    while code == 200:
                        async with session.get(url) as response:
                            code = response.status


async def test_a_quiet_cluster_is_fresh():
    async with (
        EmbeddedCluster(controllers=False, bookmark_interval_s=0.2) as cluster,
        scheduler(Connection(url=cluster.url)) as app,
    ):
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        while loop.time() < begun_s + 4:
            assert await app.asked("/livez") == (200, "ok\n")
            assert await app.asked("/readyz") == (200, "ok\n")


@pytest.mark.slow
async def test_after_a_rotation_of_the_authority_it_goes_on(tmp_path):
    """It never talked to the API server again, and said that all was well."""
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    told = tmp_path / "ca.crt"
    told.write_bytes(first.certificate.read_bytes())
    old, new = first.server(), second.server()
    async with (
        EmbeddedCluster(controllers=False, bookmark_interval_s=0.2) as cluster,
        FaultProxy(upstream=cluster.url, tls=(old.certificate, old.key)) as proxy,
        scheduler(Connection(url=proxy.url, ca=told)) as app,
    ):
        restarts = sum(one.stats.restarts for one in app.running.reflectors)
        proxy.rotate(new.certificate, new.key)
        text = await app.until("/readyz", 503)
        assert "is not trusted: " in text
        await app.until("/livez", 503)
        told.write_bytes(second.certificate.read_bytes())
        assert await app.until("/readyz", 200) == "ok\n"
        assert await app.until("/livez", 200) == "ok\n"
        assert sum(one.stats.restarts for one in app.running.reflectors) > restarts


async def test_a_patient_scheduler_waits_for_its_api_server_and_is_alive_meanwhile():
    """A pod that ends because nobody answers is started again later and later, up to five minutes."""
    async with EmbeddedCluster(controllers=False) as cluster, FaultProxy(upstream=cluster.url) as proxy:
        proxy.refuse()
        config = Config(health_port=0)
        app = SchedulerApp(Connection(url=proxy.url), config, is_patient=True)
        entering = asyncio.create_task(app.__aenter__())
        try:
            async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
                await app.serves_health.wait()
                url = f"http://127.0.0.1:{app.health.port}"
                text = ""
                while "the API server does not answer" not in text:
                    async with session.get(f"{url}/readyz") as response:
                        assert response.status == 503
                        text = await response.text()
                async with session.get(f"{url}/livez") as response:
                    assert response.status == 200
                async with session.get(f"{url}/metrics") as response:
                    assert response.status == 200
                proxy.accept()
                await entering
                await app.synced()
                async with session.get(f"{url}/readyz") as response:
                    assert (response.status, await response.text()) == (200, "ok\n")
        finally:
            entering.cancel()
            await asyncio.gather(entering, return_exceptions=True)
            await app.__aexit__()


async def test_a_patient_scheduler_that_waits_too_long_is_not_alive():
    async with EmbeddedCluster(controllers=False) as cluster, FaultProxy(upstream=cluster.url) as proxy:
        proxy.refuse()
        app = SchedulerApp(
            Connection(url=proxy.url),
            Config(health_port=0, watch_inactivity=1.0, not_ready_after=1.0, not_alive_after=1.0),
            is_patient=True,
        )
        entering = asyncio.create_task(app.__aenter__())
        try:
            async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
                await app.serves_health.wait()
                code = 200
                while code == 200:
                    async with session.get(f"http://127.0.0.1:{app.health.port}/livez") as response:
                        code = response.status
        finally:
            entering.cancel()
            await asyncio.gather(entering, return_exceptions=True)
