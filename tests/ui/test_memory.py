"""A tab that stays open keeps nothing of the answers before, and has in the end what the API server has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.fleet import NAMESPACE
from benchmarks.page import clustered, fleet_of
from benchmarks.page_hour import Changes
from tests.ui.chromium import needs_chromium, new_page, opened_browser

pytestmark = needs_chromium

_GROWTH_BYTES_MAX = 1 << 20
_ANSWERS = """count => new Promise(done => {
  const seen = document.querySelector('.legend');
  new MutationObserver((_, it) => { if (--count <= 0) { it.disconnect(); done(); } })
    .observe(seen, {characterData: true, childList: true, subtree: true});
})"""


async def test_what_a_tab_keeps_does_not_grow_with_its_answers() -> None:
    async with clustered(40) as (api, served), opened_browser() as browser:
        page = await new_page(browser, viewport={"width": 1280, "height": 900})
        await page.goto(f"{served.page}#/devices")
        await page.wait_for_selector(".legend")
        kept = await _kept_by(page)
        changing = asyncio.create_task(Changes(api, fleet_of(40)).run())
        await page.evaluate(_ANSWERS, 10)
        before = await kept()
        await page.evaluate(_ANSWERS, 40)
        after = await kept()
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)

        assert after - before < _GROWTH_BYTES_MAX
        claims = await api.list("resourceclaims", NAMESPACE)
        used = sum("allocation" in (claim.get("status") or {}) for claim in claims)
        await page.wait_for_selector(f".legend >> text=used {used}")


async def _kept_by(page: Any) -> Callable[[], Awaitable[int]]:
    tools = await page.context.new_cdp_session(page)

    async def kept() -> int:
        await tools.send("HeapProfiler.collectGarbage")
        return int((await tools.send("Runtime.getHeapUsage"))["usedSize"])

    return kept
