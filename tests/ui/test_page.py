"""The page in a real browser: Debian's chromium, driven by Playwright.

Where there is no chromium these tests are left out, and say so; `tests/setup` installs it where it may.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from allocator import Features
from scheduler.offline import SourceObject
from scheduler.ui.data_source import Objects, Source
from scheduler.ui.server import UiServer
from tests.offline.causes import node
from tests.offline.test_draining import shared as sharing
from tests.offline.test_making_room import budget, runs
from tests.ui.chromium import needs_chromium, new_page, opened_browser
from tests.ui.test_what_if import POD
from tests.ui.worlds import HOSTILE, crowd, fleet, hostile, partitioned, source, workload

pytestmark = needs_chromium


@pytest.fixture
async def browser() -> AsyncIterator[Any]:
    async with opened_browser() as started:
        yield started


@pytest.fixture
async def page(browser: Any) -> AsyncIterator[Any]:
    """A page on which nothing may go wrong: no error, nothing refused by the policy, no request elsewhere."""
    wrong: list[str] = []
    opened = await new_page(browser, viewport={"width": 1280, "height": 800})
    opened.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    opened.on("console", lambda said: wrong.append(f"console: {said.text}") if said.type == "error" else None)
    opened.on(
        "request",
        lambda asked: None if asked.url.startswith("http://127.0.0.1:") else wrong.append(f"request: {asked.url}"),
    )
    yield opened
    expected = getattr(opened, "expects", None)  # Chromium says of each refused request that it was
    assert [one for one in wrong if expected is None or expected not in one] == []


@asynccontextmanager
async def served(page: Any, shown: Source) -> AsyncIterator[UiServer]:
    """A server that the page has left when it ends: who is still there reports that its stream broke off."""
    async with UiServer(shown) as opened:
        yield opened
        await page.goto("about:blank")


@pytest.fixture
async def server(page: Any) -> AsyncIterator[UiServer]:
    async with served(page, source(*hostile())) as opened:
        yield opened


async def test_the_overview_comes_first_and_each_of_its_numbers_leads_on(page: Any, server: UiServer) -> None:
    await page.goto(server.url)
    await page.wait_for_selector(".card .why .chip")
    cards = page.locator(".card")
    assert await page.locator(".card .number").all_inner_texts() == ["2", "5", "1", "1"]
    assert "5 of 7 free" in await cards.nth(1).inner_text()
    assert "largest request that fits: 2" in await cards.nth(1).inner_text()
    assert "default" in await cards.nth(2).inner_text()
    assert "pod runs" in await cards.nth(2).inner_text()
    assert "1 device has the taint example.com/hot:NoSchedule" in await cards.nth(3).inner_text()
    assert [one.split() for one in await page.locator("header nav a").all_inner_texts()] == [
        *(["Overview"], ["Pending", "2"], ["Devices"], ["What", "if"], ["Warnings", "1"])
    ]
    await page.click(".card >> text=node-2/gpu-2")
    await page.wait_for_selector("aside h2 >> text=gpu-2")
    await page.click("header nav >> text=Warnings")
    await page.wait_for_selector("h2 >> text=1 warning")
    await page.click("header nav >> text=Overview")
    await page.click(".card >> text=default/waits")
    await page.wait_for_selector(".funnel")


async def test_where_nothing_waits_the_overview_says_what_is_in_use(page: Any) -> None:
    given = [SourceObject(f"object {number}", one) for number, one in enumerate([node("alone")])]
    async with served(page, Source.of_files("world.yaml", Objects(given, Features()), None)) as server:
        await page.goto(server.url)
        await page.wait_for_selector(".card")
        said = await page.inner_text("main")
        assert "No pod waits. 0 of 0 devices are in use." in said
        assert "No device is published: a DRA driver makes ResourceSlices." in said
        assert "No claim has a device." in said
        assert "Nothing wrong is seen." in said


async def test_devices_are_seen_counted_filtered_and_opened(page: Any, server: UiServer) -> None:
    await page.goto(f"{server.url}#/devices")
    await page.wait_for_selector(".legend")
    assert "5 of 7 devices free" in await page.inner_text(".sentence")
    legend = await page.inner_text(".legend")
    assert "= 7 devices" in legend
    counts = [int(word) for word in legend.split() if word.isdigit()]
    assert sum(counts[:-1]) == counts[-1]

    await page.click(".legend >> text=tainted 1")
    rows = page.locator(".rest > table tbody tr")
    assert await rows.count() == 1
    assert "state=tainted" in page.url
    await page.click(".rest > table >> text=gpu-2")
    await page.wait_for_selector("aside h2")
    assert "example.com/hot" in await page.inner_text("aside")
    assert "device=gpu.example.com+node-2+gpu-2" in page.url

    # The address is all there is to what is shown.
    address = page.url
    await page.goto("about:blank")
    await page.goto(address)
    await page.wait_for_selector("aside h2")
    assert await rows.count() == 1


async def test_from_a_waiting_pod_to_its_funnel_and_to_the_devices(page: Any, server: UiServer) -> None:
    await page.goto(f"{server.url}#/pending")
    await page.click("text=default/waits")
    await page.wait_for_selector(".funnel")
    assert "7\npublished on 3 nodes" in await page.inner_text(".funnel")
    assert "in use" in await page.inner_text(".funnel")
    assert "Nearest is node node-1: 3 devices published, 2 left." in await page.inner_text(".funnel")
    assert "dra-scheduler explain waits -n default -o wide" in await page.inner_text("main")
    await page.click("text=Nodes by reason")
    await page.click(".nodes a >> nth=0")
    await page.wait_for_selector(".legend")
    assert await page.locator(".rest > table tbody tr").count() == 1


async def test_owners_are_rows_that_open_to_their_pods_and_are_walked_with_arrow_keys(browser: Any, page: Any) -> None:
    given = [*workload(12), *workload(3, "api", day=2)]
    given[-1]["spec"]["nodeName"] = "node-1"
    async with served(page, source(*given)) as server:
        await page.goto(f"{server.url}#/pending")
        rows = page.locator(".pending > li")
        await rows.nth(2).wait_for()
        assert await page.locator("h3 a").all_inner_texts() == ["team-a/web", "team-a/api", "default/waits"]
        assert (await page.inner_text("h2")).startswith("15 pods wait · oldest ")
        first = (await rows.nth(0).inner_text()).split("\n")
        assert first[:3] == ["team-a/web", "Deployment", "12 pods"]
        assert await rows.nth(1).locator(".count").inner_text() == "2 pods, 1 other runs"
        assert await rows.nth(0).locator(".kind").all_inner_texts() == ["resources-short"]
        assert await rows.nth(0).locator("time").get_attribute("datetime") == "2026-01-01T00:00:39.000Z"
        assert await rows.nth(0).locator(".change").count() == 1

        await rows.nth(0).locator("h3 a").focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
            await page.keyboard.press(key)
        assert await page.evaluate("document.activeElement.innerText") == "team-a/api"
        await rows.nth(0).locator("summary").click()
        await rows.nth(0).locator("text=web-abc-11").click()
        await page.wait_for_selector("h2 >> text=Pod team-a/web-abc-11")
        await page.wait_for_selector("text=Others of its owner that wait: 11; that fit: 0.")


async def test_only_the_view_that_is_shown_asks_and_not_again_for_what_it_has(page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("/api/")[2].partition("?")[0]))
    async with served(page, source(*workload(2))) as server:
        await page.goto(f"{server.url}#/devices")
        await page.wait_for_selector(".legend")
        asked.clear()
        await page.goto(f"{server.url}#/pending?by=cause")
        await page.wait_for_selector(".pending h3 >> text=resources-short")
        await page.goto(f"{server.url}#/pending?by=owner&q=web")
        await page.wait_for_selector(".pending h3 >> text=team-a/web")
        assert [path for path in asked if path] == ["pending"]


async def test_who_waits_is_put_together_and_sorted_as_the_address_says(page: Any) -> None:
    async with served(page, source(*workload(12), *workload(2, "api", day=2))) as server:
        await page.goto(f"{server.url}#/pending")
        await page.select_option("label:has-text('Sort') select", "name")
        await page.wait_for_function("document.querySelector('.pending h3').innerText === 'default/waits'")
        await page.select_option("label:has-text('Group by') select", "cause")
        await page.wait_for_selector(".pending h3 >> text=resources-short")
        assert "by=cause" in page.url
        assert "sort=name" in page.url
        cause = page.locator(".pending > li", has_text="resources-short")
        assert await cause.locator(".count").inner_text() == "14 pods"
        assert await cause.locator(".causes > p:not(.change) > a").all_inner_texts() == ["team-a/web", "team-a/api"]
        await cause.locator("h3 a").click()
        await page.wait_for_selector(".pending h3 >> text=team-a/api")
        assert await page.locator(".pending > li").count() == 2
        await page.click("nav.tabs >> text=device-tainted")
        await page.wait_for_selector("h2 >> text=1 pod waits")
        await page.goto(f"{server.url}#/pending?namespace=nowhere")
        await page.click("text=All that wait")
        await page.wait_for_selector("h2 >> text=15 pods wait")


async def test_the_change_is_what_one_sees_first_and_the_schedulers_sentence_is_folded(
    page: Any,
) -> None:
    await page.set_viewport_size({"width": 390, "height": 800})
    async with served(page, source(*workload(2))) as server:
        for name in ("default/waits", "team-a/web-abc-0"):
            await page.goto(f"{server.url}#/pod?pod={name}")
            await page.wait_for_selector(f"h2 >> text=Pod {name}")
            await page.wait_for_selector(".todo h3 >> text=Do this")
            change = await page.locator(".todo .change").first.bounding_box()
            assert change["y"] + change["height"] < 800
            assert await page.locator("main details[open]").count() == 0
            levels = await page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(one => one.tagName)")
            assert levels[:3] == ["H1", "H2", "H3"]
        command = await page.inner_text(".todo > .command code")
        assert command == "kubectl edit deployment/web -n team-a"
        told = await page.locator(".todo > .change, .todo > .command").all_inner_texts()
        assert "\n".join(told).count(command) == 1
        assert (await page.inner_text(".subject")).split("\n")[-1].startswith("waiting ")


async def test_a_pods_page_says_which_plugin_refuses_and_what_has_happened(page: Any, server: UiServer) -> None:
    await page.goto(f"{server.url}#/pod?pod=default/runs")
    await page.click("text=Since its creation")
    lines = await page.locator(".history li").all_inner_texts()
    assert [line.split()[0] for line in lines] == ["created", "bound"]
    assert "to node node-1" in lines[1]
    assert await page.locator(".history time").first.get_attribute("datetime") == "2026-01-01T00:00:05.000Z"
    await page.goto(f"{server.url}#/pod?pod=default/waits")
    await page.click("text=The same by plugin")
    assert "DynamicResources\t3" in await page.inner_text("details[open]")


async def test_a_device_says_where_its_pods_would_go(page: Any) -> None:
    held, other = runs("a", "node-1", 0), runs("b", "node-1", 0, kind="")
    given = [SourceObject(f"object {number}", one) for number, one in enumerate(sharing(held, [*other]))]
    given += [SourceObject("budget", budget(1, app="a"))]
    async with served(page, Source.of_files("world.yaml", Objects(given, Features()), None)) as server:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url.rstrip("/"))
        await page.goto(f"{server.url}#/devices?device=gpu.example.com+node-1+gpu-0")
        await page.click("aside >> text=Where would its pods go?")
        await page.wait_for_selector("[aria-label=Answer] >> text=no plan: 1 of the 2 that hold node-1/gpu-0")
        rows = await page.locator("[aria-label=Answer] tbody tr").all_inner_texts()
        assert [row.split("\t") for row in rows] == [
            ["1. default/a", "node-1 → node-1", "node-1/gpu-0 → node-1/gpu-1"],
            ["default/b", "node-1", "has no controller that would make it again"],
        ]
        said = await page.inner_text("[aria-label=Answer]")
        assert "PodDisruptionBudget default/budget allows 1 of its pods to go now, and 1 would" in said
        assert "dra-scheduler drain-device gpu.example.com/node-1/gpu-0" in said
        await page.click("[aria-label=Answer] summary >> text=The commands that do it")
        await page.click("[aria-label=Answer] details button")
        await page.wait_for_selector("[aria-label=Answer] details [role=status] >> text=copied")
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied == await page.inner_text("[aria-label=Answer] pre")
        assert "DeviceTaintRule" in copied


async def test_what_if_is_asked_in_five_ways_and_the_address_asks_again(page: Any, server: UiServer) -> None:
    await page.goto(f"{server.url}#/pod?pod=default/waits")
    await page.click("text=What if there were one more of it?")
    await page.wait_for_selector("[aria-label=Answer] >> text=0 of 1 would run, 1 would wait.")
    await page.fill("input[name=without]", "node-1")
    await page.click("form:has(input[name=without]) button")
    await page.wait_for_selector("[aria-label=Answer] >> text=No pod would need another node without node-1.")
    assert "dra-scheduler simulate --remove node/node-1" in await page.inner_text("[aria-label=Answer]")
    address = page.url
    await page.goto("about:blank")
    await page.goto(address)
    await page.wait_for_selector("[aria-label=Answer] >> text=No pod would need another node without node-1.")
    await page.goto(f"{server.url}#/pod?pod=default/waits")
    await page.click("text=What would have to move for it?")
    await page.wait_for_selector("[aria-label=Answer] >> text=no plan: default/waits does not fit")
    await page.fill("input[name=drain]", "node-2/gpu-0")
    await page.click("form:has(input[name=drain]) button")
    await page.wait_for_selector("[aria-label=Answer] >> text=nobody holds node-2/gpu-0")
    await page.fill("textarea", POD)
    await page.click("form:has(textarea) button")
    await page.wait_for_selector("[aria-label=Answer] >> text=1 of 1 would run")
    assert "node-2/gpu-0" in await page.inner_text("[aria-label=Answer]")


async def test_a_wrong_question_is_answered_with_what_is_wrong(page: Any, server: UiServer) -> None:
    await page.goto(f"{server.url}#/whatif")
    await page.fill("textarea", "kind: [")
    refused: list[str] = []
    page.on("response", lambda reply: refused.append(reply.url) if reply.status == 400 else None)
    await page.click("form:has(textarea) button")
    await page.wait_for_selector("[role=alert]")
    assert "manifest:2:1: no valid YAML" in await page.inner_text("[role=alert]")
    assert refused
    page.expects = "400"


async def test_from_a_used_device_to_the_pod_that_has_it(page: Any, server: UiServer) -> None:
    await page.goto(f"{server.url}#/devices?device=gpu.example.com+node-1+gpu-0")
    await page.click("aside >> text=pod default/runs")
    await page.wait_for_selector(".verdict")
    assert "is bound to node node-1" in await page.inner_text(".verdict")


async def test_a_long_table_has_pages(page: Any) -> None:
    """More nodes than a page of the table has."""
    async with served(page, source(*crowd(120))) as server:
        await page.goto(f"{server.url}#/devices?page=7")
        await page.click(".pages >> text=before")
        assert "page 1 of 2" in await page.inner_text(".pages")
        assert await page.locator(".rest > table tbody tr").count() == 100
        await page.click(".pages >> text=next")
        assert "page 2 of 2" in await page.inner_text(".pages")
        assert await page.locator(".rest > table tbody tr").count() == 22


async def test_the_picture_can_be_clicked_and_walked_with_the_keyboard(page: Any, server: UiServer) -> None:
    await page.goto(f"{server.url}#/devices")
    await page.wait_for_selector(".grid canvas")
    await page.locator(".grid").click(position={"x": 16, "y": 32})
    await page.wait_for_selector("aside h2 >> text=gpu-0")
    await page.locator(".grid").focus()
    await page.keyboard.press("ArrowRight")
    await page.wait_for_selector("aside h2 >> text=gpu-1")
    for _ in range(5):
        await page.keyboard.press("ArrowRight")
    await page.wait_for_selector("aside h2 >> text=gpu-9")
    await page.keyboard.press("ArrowDown")  # there is no row below
    await page.keyboard.press("ArrowLeft")
    await page.wait_for_selector("aside h2 >> text=gpu-2")


async def test_partitions_are_chosen_in_their_device_and_the_panel_leaves_no_hole(page: Any) -> None:
    async with served(page, source(*partitioned())) as server:
        await page.goto(f"{server.url}#/devices?rack=example.com/rack&size=large")
        await page.wait_for_selector(".grid canvas")
        chosen = await page.locator(".tools select").evaluate_all("all => all.map(one => one.value)")
        assert chosen == ["", "example.com/rack", "numa", "large"]
        await page.click(".rest tbody summary >> nth=0")
        await page.click(".rest tbody >> text=gpu-0-one-2")
        await page.wait_for_selector("aside h2 >> text=gpu-0-one-2")
        said = await page.inner_text("aside")
        assert "pod default/runs" in said
        assert "since" in said
        assert "dra-scheduler drain-device mig-0/gpu-0-one-2" in said
        await page.click("aside >> text=gpu-0-three-0")  # a partition that lies below others is chosen here
        await page.wait_for_selector("aside h2 >> text=gpu-0-three-0")
        assert "partition gpu-0-one-2" in await page.inner_text("aside")
        picture = await page.locator(".grid").bounding_box()
        below = await page.locator(".rest").bounding_box()
        panel = await page.locator("aside").bounding_box()
        assert below["y"] - (picture["y"] + picture["height"]) < 30
        assert panel["height"] <= 800
        assert panel["x"] > picture["x"] + picture["width"]
        await page.set_viewport_size({"width": 390, "height": 800})
        panel = await page.locator("aside").bounding_box()
        assert panel["y"] > picture["y"]
        assert panel["width"] > 300


async def test_a_row_of_many_devices_is_folded_and_opens(page: Any) -> None:
    async with served(page, source(*partitioned())) as server:
        await page.goto(f"{server.url}#/devices?q=mig-0")
        row = page.locator(".rest tbody tr")
        await row.locator("summary >> text=20 devices").wait_for()
        assert await row.locator("a").count() == 0
        await row.locator("summary").click()
        await row.locator("a >> text=gpu-1-three-0").wait_for()


async def test_on_a_telephone_rows_are_folded_and_a_page_is_short(page: Any) -> None:
    """It was 2,870 px of rows that were nearly empty."""
    await page.set_viewport_size({"width": 390, "height": 800})
    async with served(page, source(*fleet(300))) as server:
        await page.goto(f"{server.url}#/devices")
        await page.wait_for_selector(".rest tbody tr")
        assert await page.locator(".rest tbody tr").count() == 20
        assert await page.locator(".rest tbody tr a").count() == 0
        assert await page.locator(".rest thead th").count() == 3
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        assert await page.evaluate("document.documentElement.scrollHeight") < 2500


async def test_on_a_telephone_the_header_takes_two_lines_and_says_all_that_it_has(page: Any) -> None:
    """It took four."""
    await page.set_viewport_size({"width": 390, "height": 800})
    many = [one for number in range(25) for one in workload(40, f"web-{number}")]
    async with served(page, source(*many, *hostile())) as server:
        for view in ("overview", "pending", "warnings"):
            await page.goto(f"{server.url}#/{view}?theme=light")
            await page.wait_for_selector("header nav .count >> text=1,002")
            assert (await page.locator("header").bounding_box())["height"] < 64
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        links = page.locator("header nav a, header .source, header .link, header select")
        boxes = [await one.bounding_box() for one in await links.all()]
        assert len(boxes) == 8
        assert all(one["x"] >= 0 and one["width"] > 20 and one["x"] + one["width"] <= 390 for one in boxes), boxes
        assert await page.get_by_role("heading", name="dra-scheduler", level=1).count() == 1
        assert await page.get_by_role("combobox", name="Theme").count() == 1


@pytest.mark.parametrize("nodes", [0, 4, 300, 5000])
async def test_any_number_of_devices_is_drawn(page: Any, nodes: int) -> None:
    given = [SourceObject(f"object {number}", one) for number, one in enumerate(fleet(nodes))]
    async with served(page, Source.of_files("world.yaml", Objects(given, Features()), None)) as server:
        await page.goto(f"{server.url}#/devices?rack=example.com/rack")
        await page.wait_for_selector(f".legend >> text=/= {8 * nodes:,} devices/")
        await page.evaluate(_FRAME)
        assert bool(await page.evaluate(_DRAWN)) == bool(nodes)


async def test_all_of_it_can_be_reached_with_the_keyboard(page: Any, server: UiServer) -> None:
    """From the address to a pod's page, a plan and a device, without a pointer."""
    await page.goto(server.url)
    await page.wait_for_selector(".card .why .chip")
    await _tab_to(page, await page.inner_text(".why .kind >> nth=0"))
    await _tab_to(page, "Pending 2")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".pending")
    await _tab_to(page, "default/waits")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".funnel")
    await _tab_to(page, "What would have to move for it?")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("[aria-label=Answer] >> text=no plan")
    await page.keyboard.press("Home")
    await page.reload()
    await _tab_to(page, "Skip to the content")
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"


async def _tab_to(page: Any, text: str) -> None:
    for _ in range(80):
        await page.keyboard.press("Tab")
        if (await page.evaluate("document.activeElement.innerText ?? ''")).split() == text.split():
            return
    raise AssertionError(f"{text} cannot be reached by Tab")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
async def test_it_fits_a_telephone_and_both_themes(page: Any, server: UiServer, theme: str, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 800})
    for view, there in (
        ("overview", ".card .why"),
        ("warnings", ".findings"),
        ("devices", ".legend"),
        ("pending", ".pending"),
        ("pod", ".verdict"),
    ):
        await page.goto("about:blank")
        await page.goto(f"{server.url}#/{view}?theme={theme}&pod=default/waits")
        await page.wait_for_selector(there)
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (theme == "light")


_FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
_DRAWN = """(() => { const canvas = document.querySelector("canvas");
  return canvas.width > 0
    && canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean); })()"""
_INK = """(() => { const canvas = document.querySelector("canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, 24).data;
  let brightest = 0;
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200) brightest = Math.max(brightest, data[at]);
  return brightest; })()"""


@pytest.mark.parametrize("way", ["the system", "the page"])
async def test_the_picture_is_drawn_anew_in_another_theme(page: Any, server: UiServer, way: str) -> None:
    """The labels are dark on light, and light on dark."""
    await page.emulate_media(color_scheme="light")
    await page.goto(f"{server.url}#/devices")
    await page.wait_for_selector(".grid canvas")
    await page.evaluate(_FRAME)
    assert await page.evaluate(_INK) < 200
    if way == "the system":
        await page.emulate_media(color_scheme="dark")
    else:
        await page.select_option("header select", "dark")
    await page.evaluate(_FRAME)
    assert await page.evaluate(_INK) > 200


async def test_what_users_write_is_shown_and_never_run(page: Any, server: UiServer) -> None:
    await page.goto(f"{server.url}#/devices?device=gpu.example.com+node-9+gpu-9")
    await page.wait_for_selector("aside h2")
    assert HOSTILE in await page.inner_text("aside")
    for view in ("pending", f"pod?pod=default/{'y' * 253}", "devices?by=gpu.example.com/model"):
        await page.goto(f"{server.url}#/{view}")
        await page.wait_for_selector("main table, main .pending, main .verdict")
        assert await page.locator("main img").count() == 0
        assert await page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert await page.evaluate("globalThis.hurt") is None


async def test_another_site_cannot_read_it(page: Any, browser: Any, server: UiServer) -> None:
    async with served(page, source()) as other:
        await page.goto(other.url)
        read = f"fetch('{server.url}api/devices').then(reply => reply.text(), () => 'refused')"
        elsewhere = await new_page(browser)
        await elsewhere.goto(other.url)
        assert await elsewhere.evaluate(read) == "refused"
