"""What somebody does who sees the page for the first time: `demo --serve`, a browser, a pod that waits explained.

The commands are those of docs/ui.md; with DRA_SCREENSHOTS=1 the pictures of the docs are made anew.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.patience import PATIENCE_S
from tests.ui.chromium import needs_chromium, new_page, opened_browser

ROOT: Final = Path(__file__).parents[2]
PICTURES: Final = ROOT / "docs/pictures"
_PAGE: Final = re.compile(r"look at (\S+)")

pytestmark = needs_chromium


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """What `dra-scheduler demo --serve` prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "demo", "--serve"),
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = ""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while (found := _PAGE.search(said)) is None:
                line = (await process.stderr.readline()).decode()
                assert line, said
                said += line
        draining = asyncio.create_task(process.stderr.read())
        yield found[1]
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            assert await process.wait() == 0
        await draining
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_from_the_first_command_to_a_pod_that_is_explained(url: str) -> None:
    async with opened_browser() as browser:
        page = await new_page(browser, viewport={"width": 1200, "height": 720})
        await page.goto(url)
        await page.wait_for_selector(".link.live")
        await page.wait_for_selector(".card .why .chip")
        assert "free of 24 devices" in await page.inner_text("main")
        await _picture(page, "overview")
        await page.click("header nav >> text=Devices")
        await page.wait_for_selector(".sentence")
        assert "of 24 devices free" in await page.inner_text(".sentence")
        await _picture(page, "devices")
        await page.click("text=Pending")
        await page.click("text=greedy/wants-nine")
        await page.wait_for_selector(".funnel")
        # Which node the other pods come to differs from run to run.
        left = re.search(
            r"has (\d) devices left for request gpus \(8 would do, (\d) in use\)", await page.inner_text(".verdict")
        )
        assert left is not None
        assert int(left[1]) + int(left[2]) == 8
        assert f"ask for {left[1]} devices" in await page.inner_text(".change")
        await _picture(page, "pod")
        await page.click("text=Since its creation")
        await page.wait_for_selector(".history >> text=event FailedScheduling")
        await page.click("text=What would have to move for it?")
        await page.wait_for_selector("[aria-label=Answer] >> text=no plan: greedy/wants-nine")


async def _picture(page: Any, name: str) -> None:
    if os.environ.get("DRA_SCREENSHOTS"):
        PICTURES.mkdir(exist_ok=True)
        for theme in ("light", "dark"):
            await page.emulate_media(color_scheme=theme)
            await page.screenshot(path=str(PICTURES / f"{name}-{theme}.png"))
        await page.emulate_media(color_scheme="light")


def test_the_docs_have_these_pictures_and_no_others() -> None:
    shown = set(re.findall(r"pictures/([\w-]+\.png)", (ROOT / "docs/ui.md").read_text()))
    assert (
        shown
        == {one.name for one in PICTURES.glob("*.png")}
        == {f"{name}-{theme}.png" for name in ("overview", "devices", "pod") for theme in ("light", "dark")}
    )
