"""`dra-scheduler ui` beside a cluster that changes, seen in a real browser; and who may see what.

Not here: each view by itself (`tests/ui`).
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.api import Object
from tests.integration.conftest import RealCluster
from tests.integration.test_readers import RBAC, TLS
from tests.integration.world import UNDER_TEST, World, devices_of
from tests.patience import PATIENCE_S
from tests.ui.chromium import needs_chromium, new_context, new_page, opened_browser
from tests.ui.page_process import URL, page_process

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="this is about our page")


def used(claims: dict[str, Object]) -> set[tuple[str, str]]:
    return {
        device for one in claims.values() if (one.get("status") or {}).get("allocation") for device in devices_of(one)
    }


async def shown(page: Any) -> dict[str, int]:
    """The counts of the states, as the page has them."""
    words = (await page.inner_text(".legend")).replace("=", "").split()
    return {name: int(count) for name, count in zip(words[::2], words[1::2], strict=False) if count.isdigit()}


@needs_chromium
async def test_the_page_follows_a_cluster_and_ends_as_the_server_has_it(world: World, tmp_path: Path) -> None:
    """Pods come and go; then the page has what the API server has. One that waits is explained, with its events."""
    await world.add_nodes(4, devices=4)
    await world.add_class()
    await world.add_template()
    await world.add_template("five", world.request(count=5))
    await world.start_scheduler()
    kubeconfig = world.cluster.scheduler_kubeconfig(world.proxy.upstream)
    if isinstance(world.cluster, RealCluster):  # the scheduler has no right to read events, nor what only lint wants
        kubeconfig = world.cluster.control_plane.kubeconfig("admin")
    async with page_process(tmp_path, f"--kubeconfig={kubeconfig}") as url, opened_browser() as browser:
        page = await new_page(browser)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        await page.goto(f"{url}#/devices")
        await page.wait_for_selector(".legend")
        for round_ in range(3):
            names = [f"pod-{round_}-{number}" for number in range(8)]
            await world.add_pods(names, template="one-gpu")
            await world.wait_bound(*names)
            for name in names[: 6 if round_ < 2 else 3]:
                await world.api.delete("pods", name, world.namespace)
        count = 2 + 2 + 5
        claims = await world.wait_for("resourceclaims", lambda left: len(left) == count, what="claims of others gone")
        assert len(used(claims)) == count
        # As many may have been in use while pods still came: the page has caught up when the devices are the same.
        asking, drawn = await new_page(browser), set[tuple[str, str]]()
        async with asyncio.timeout(PATIENCE_S):
            while drawn != used(claims):
                document = await (await asking.request.get(f"{url}api/devices")).json()
                texts, columns = document["texts"], document["columns"]
                drawn = {
                    (texts[pool], texts[device])
                    for pool, device, state in zip(columns["pool"], columns["device"], columns["state"], strict=True)
                    if texts[state] == "used"
                }
        await page.wait_for_selector(f".legend >> text=used {count}")
        counts = await shown(page)
        assert counts["used"] == count
        assert counts["free"] == 16 - count

        await world.add_pod("greedy", template="five")
        await world.wait_decided("greedy")
        await page.goto(f"{url}#/pending")
        await page.click(f"text={world.namespace}/greedy")
        await page.click("text=Since its creation")
        await page.wait_for_selector(".history >> text=event FailedScheduling")
        assert "asks for 5" in await page.inner_text(".verdict")
        assert wrong == []


@pytest.mark.parametrize("kill", [False, True], ids=["ends in order", "killed"])
async def test_run_has_the_page_too_and_it_ends_with_the_scheduler(world: World, kill: bool) -> None:
    await world.add_nodes(1)
    await world.start_scheduler("--ui=0")
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
        while not (found := URL.search(world.log.read_text())):  # noqa: ASYNC110 - what another process does
            await asyncio.sleep(0.05)
        assert '"live":true' in await _about(session, found[1])
        await world.stop_scheduler(kill=kill)
        while await _about(session, found[1]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_page_that_is_killed_is_begun_anew_and_the_scheduler_goes_on(world: World) -> None:
    """As the system does when a question takes all memory."""
    await world.add_nodes(1, devices=2)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler("--ui=0")
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
        while not (found := URL.findall(world.log.read_text())):  # noqa: ASYNC110 - what another process does
            await asyncio.sleep(0.05)
        (page,) = _pages_of(world)
        os.kill(page, signal.SIGKILL)
        await world.add_pods(["one"], template="one-gpu")
        await world.wait_bound("one")
        while len(found := URL.findall(world.log.read_text())) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert '"live":true' in await _about(session, found[1])
    assert "the page's process ended with exit code -9; it is started again in 1 s" in world.log.read_text()
    assert Path(f"/proc/{_pages_of(world)[0]}/oom_score_adj").read_text() == "1000\n"


def _pages_of(world: World) -> list[int]:
    """The processes that the scheduler began."""
    assert world._scheduler is not None
    children = Path(f"/proc/{world._scheduler.pid}/task/{world._scheduler.pid}/children")
    return [int(one) for one in children.read_text().split()]


async def test_the_page_of_a_scheduler_has_the_devices_that_it_uses(world: World) -> None:
    """What the command line says is the page's too, where nothing may be written (settings go through no folder)."""
    pool, other = await world.add_nodes(2, devices=1)
    await world.start_scheduler("--ui=0", f"--slices=driver={world.driver},pool={pool}")
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
        while not (found := URL.search(world.log.read_text())):  # noqa: ASYNC110 - what another process does
            await asyncio.sleep(0.05)
        document: dict[str, Any] = {"texts": [], "version": -1}
        while pool not in document["texts"]:
            async with session.get(f"{found[1]}api/devices?after={document['version']}") as reply:
                document = await reply.json()
            await asyncio.sleep(0.05)
        texts = document["texts"]
    assert other not in texts


async def _about(session: aiohttp.ClientSession, url: str) -> str:
    """What the page says of itself; "" when it is not there."""
    try:
        async with session.get(f"{url}api/about") as reply:
            return await reply.text()
    except aiohttp.ClientError:
        return ""


@needs_chromium
@pytest.mark.controlplane
async def test_behind_reviews_the_page_asks_for_a_token(
    control_plane: RealCluster,
    tokens: dict[str, str],
    tmp_path: Path,
) -> None:
    kubeconfig = control_plane.control_plane.service_account_kubeconfig(*control_plane.service_account)
    arguments = (f"--kubeconfig={kubeconfig}", "--serving=secure")
    async with page_process(tmp_path, *arguments) as url, aiohttp.ClientSession() as session:
        assert url.startswith("https://")
        for path, token, code in (
            *(("", "", 200), ("js/main.js", "", 200), ("api/devices", "", 401), ("api/events", "", 401)),
            *(("api/devices", tokens["nobody"], 403), ("api/devices", tokens["reader"], 200)),
        ):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(url + path, ssl=TLS, headers=headers) as reply:
                assert (path, reply.status) == (path, code)
        async with opened_browser() as browser:
            page = await (await new_context(browser, ignore_https_errors=True)).new_page()
            await page.goto(f"{url}#/devices")
            await page.fill("input[name=token]", tokens["nobody"])
            await page.click("text=Show me")
            await page.wait_for_selector(".who [role=alert] >> text=forbidden")
            await page.fill("input[name=token]", tokens["reader"])
            await page.click("text=Show me")
            await page.wait_for_selector(".sentence")
            await page.wait_for_selector(".link.live")
            assert await page.locator(".who").count() == 0
            assert tokens["reader"] not in page.url
    assert tokens["reader"] not in (tmp_path / "page.log").read_text()


@needs_chromium
@pytest.mark.controlplane
async def test_with_rights_in_one_namespace_what_is_not_seen_is_said(
    control_plane: RealCluster, tmp_path: Path
) -> None:
    """Who may read devices, and pods and claims of one namespace: no device counts as free, no other pod has a name."""
    plane = control_plane.control_plane
    await asyncio.to_thread(_two_teams, plane.request)
    kubeconfig = plane.service_account_kubeconfig("team-a", "member")
    async with page_process(tmp_path, f"--kubeconfig={kubeconfig}") as url, opened_browser() as browser:
        page = await new_page(browser)
        await page.goto(url)
        await page.wait_for_selector("text=Not seen, or not as it is")
        await page.click("text=Not seen, or not as it is")
        said = await page.inner_text("main")
        assert "resourceclaims" in said.lower()
        assert "forbidden" in said.lower()
        for view in ("overview", "devices", "pending", "whatif", "warnings"):
            await page.goto(f"{url}#/{view}")
            await page.wait_for_selector("main :is(.sentence, .error, table, .questions, .card, h2)")
            assert "secret-project" not in await page.inner_text("main")
        async with aiohttp.ClientSession() as session:
            for path in ("api/overview", "api/devices", "api/pending", "api/pod?namespace=team-b&name=secret-project"):
                async with session.get(url + path) as reply:
                    if "name=" not in path:
                        assert "secret-project" not in await reply.text()
                    assert reply.status in (200, 404, 502)


def _two_teams(request: Any) -> None:
    for name in ("team-a", "team-b"):
        request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    request("POST", "/api/v1/namespaces/team-a/serviceaccounts", {"metadata": {"name": "member"}})
    wide = [
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceslices", "deviceclasses"],
            "verbs": ["list", "watch"],
        },
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
    ]
    narrow = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list", "watch"]},
    ]
    subjects = [{"kind": "ServiceAccount", "name": "member", "namespace": "team-a"}]
    group = "rbac.authorization.k8s.io"
    request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "page-member"}, "rules": wide})
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "page-member"}
    request(
        "POST",
        f"{RBAC}/clusterrolebindings",
        {"metadata": {"name": "page-member"}, "roleRef": role, "subjects": subjects},
    )
    request("POST", f"{RBAC}/namespaces/team-a/roles", {"metadata": {"name": "member"}, "rules": narrow})
    role = {"apiGroup": group, "kind": "Role", "name": "member"}
    body = {"metadata": {"name": "member"}, "roleRef": role, "subjects": subjects}
    request("POST", f"{RBAC}/namespaces/team-a/rolebindings", body)
    pod = {
        "metadata": {"name": "secret-project", "namespace": "team-b"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]},
    }
    request("POST", "/api/v1/namespaces/team-b/pods", pod)
