"""Each view of clusters of 0, 33, 2,400 and 40,000 devices, in both themes, on a screen and on a telephone.

With DRA_SCREENSHOTS=1 the pictures of docs/page-pictures.md are made anew, those after the page was built anew.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from allocator import Features
from scheduler.offline import SourceObject
from scheduler.ui.data_source import Objects, Source
from scheduler.ui.server import UiServer
from tests.ui.chromium import needs_chromium, new_context, opened_browser
from tests.ui.sizes import cluster
from tests.ui.walk import LISTENING, is_wide, needs_axe, unreached, violations

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/page-pictures.md"
PICTURES: Final = ROOT / "docs/pictures/page"
SHOWN: Final = frozenset(re.findall(r"pictures/page/([\w/-]+\.webp)", PAGE.read_text()))
"""What the page of the docs shows; of these pictures are made."""
WIDTHS: Final = (1280, 390)
_HEIGHT: Final = 800

pytestmark = [needs_chromium, needs_axe]


class View(NamedTuple):
    """One view.

    Attributes:
        name: As its pictures are called.
        address: What stands behind `#/`.
        there: A selector of what is there when all is.
    """

    name: str
    address: str
    there: str


GPU: Final = "gpu.example.com+gpu-node-0001+gpu-0"
PARTITION: Final = "gpu.example.com+a100-mig-0000+gpu-0-1g-4"
ALWAYS: Final = (
    View("overview", "overview", ".card .why .kind"),
    View("devices", "devices", ".legend"),
    View("pending", "pending", ".pending"),
    View("warnings", "warnings", "h2"),
)
EMPTY: Final = (
    *ALWAYS,
    View("pod", "pod?pod=team-a/hello-0", ".verdict"),
    View("whatif", "whatif?pod=team-a/hello-0&copies=1", "[aria-label=Answer]"),
)
FULL: Final = (
    *ALWAYS,
    View("device", f"devices?device={GPU}", "aside h2"),
    View("partitions", f"devices?near=numa&rack=example.com/rack&size=large&device={PARTITION}", "aside h2"),
    View("causes", "pending?by=cause", ".pending"),
    View("pod", "pod?pod=research/sweep-0", ".funnel"),
    View("whatif", "whatif?without=gpu-node-0001", "[aria-label=Answer]"),
    View("room", "whatif?room=research/sweep-0", "[aria-label=Answer]"),
    View("drain", "whatif?drain=gpu-node-0001/gpu-0", "[aria-label=Answer]"),
)


@pytest.fixture
async def browser() -> AsyncIterator[Any]:
    async with opened_browser() as started:
        yield started


@pytest.mark.parametrize(
    ("devices", "views"), [(0, EMPTY), (33, FULL), (2400, FULL), pytest.param(40_000, FULL, marks=pytest.mark.nightly)]
)
async def test_each_view_in_each_size(browser: Any, devices: int, views: Sequence[View]) -> None:
    given = [SourceObject(f"object {number}", one) for number, one in enumerate(cluster(devices))]
    wrong: list[str] = []
    async with UiServer(Source.of_files("cluster.json", Objects(given, Features()), None)) as server:
        for width in WIDTHS:
            context = await new_context(browser, bypass_csp=True, viewport={"width": width, "height": _HEIGHT})
            await context.add_init_script(LISTENING)
            for view in views:
                page = await context.new_page()
                found = await _looked_at(page, server.url, view, f"{devices}-{view.name}-%s-{width}")
                wrong += [f"{devices} devices, {view.name}, {width} px: {one}" for one in found]
                await page.close()
            await context.close()
    assert wrong == []


async def _looked_at(page: Any, url: str, view: View, name: str) -> list[str]:
    """What is wrong with a view, in light and in dark; `name` of its pictures, with %s for the theme."""
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("console", lambda said: wrong.append(f"console: {said.text}") if said.type == "error" else None)
    for theme in ("light", "dark"):
        await page.goto(f"{url}#/{view.address}{'&' if '?' in view.address else '?'}theme={theme}")
        await page.wait_for_selector(view.there)
        await page.wait_for_function(SETTLED)
        await picture(page, f"after/{name % theme}.webp")
        wrong += [f"{theme}: {one}" for one in await violations(page, is_colour_only=theme == "dark")]
    if await is_wide(page):
        wrong.append("it is wider than the screen")
    return wrong + await unreached(page)


# Nothing is asked for any more, and the picture is drawn.
SETTLED: Final = """new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const said = [...document.querySelectorAll("main [role=status]")].map((one) => one.innerText);
  done(!said.some((text) => /Asking|Refreshing|playing/.test(text)));
})))"""


async def picture(page: Any, name: str) -> None:
    """Make a picture, below `PICTURES`, where the docs show it and somebody asks for it."""
    if os.environ.get("DRA_SCREENSHOTS") and name in SHOWN:
        (PICTURES / name).parent.mkdir(parents=True, exist_ok=True)
        devtools = await page.context.new_cdp_session(page)
        taken = await devtools.send("Page.captureScreenshot", {"format": "webp", "quality": 60})
        (PICTURES / name).write_bytes(base64.b64decode(taken["data"]))


async def test_arrows_go_by_the_rows_length_and_escape_closes_the_device(browser: Any) -> None:
    """On a telephone nodes stand below each other: down is the same place on the next node."""
    given = [SourceObject(f"object {number}", one) for number, one in enumerate(cluster(33))]
    async with UiServer(Source.of_files("cluster.json", Objects(given, Features()), None)) as server:
        context = await new_context(browser, viewport={"width": 390, "height": _HEIGHT})
        page = await context.new_page()
        await page.goto(f"{server.url}#/devices?device=gpu.example.com+gpu-node-0000+gpu-2")
        await page.wait_for_selector("aside h2 >> text=gpu-2")
        await page.locator(".grid").focus()
        for key, there in (("Down", "1 gpu-2"), ("Right", "1 gpu-3"), ("Up", "0 gpu-3"), ("Left", "0 gpu-2")):
            await page.keyboard.press(f"Arrow{key}")
            await page.wait_for_function(f"decodeURIComponent(location.hash).replaceAll('+', ' ').endsWith('{there}')")
        await page.locator("aside .close").focus()
        await page.keyboard.press("Escape")
        await page.wait_for_selector("aside", state="detached")
        assert await page.evaluate("document.activeElement.className") == "grid"
        await context.close()


def test_the_docs_have_these_pictures_and_no_others() -> None:
    made = {str(one.relative_to(PICTURES)): one.stat().st_size for one in PICTURES.rglob("*") if one.is_file()}
    assert set(made) == SHOWN
    assert max(made.values()) < 150_000
    assert sum(made.values()) < 3_500_000
