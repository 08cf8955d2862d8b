"""Each view has no violation that axe-core finds, in both themes and on a telephone."""

from __future__ import annotations

from typing import Final

import pytest

from scheduler.ui.server import UiServer
from tests.offline.causes import Obj
from tests.ui.chromium import needs_chromium, new_context, opened_browser
from tests.ui.walk import needs_axe, violations
from tests.ui.worlds import hostile, partitioned, source

pytestmark = [needs_chromium, needs_axe]
VIEWS: Final = (
    ("overview", ".card .why .chip"),
    ("warnings", ".findings"),
    ("devices?device=gpu.example.com+node-1+gpu-0", "aside h2"),
    ("devices?by=gpu.example.com/model&state=used", ".legend"),
    ("pending", ".pending"),
    ("pending?by=cause", ".pending"),
    ("pod?pod=default/waits", ".funnel"),
    ("pod?pod=default/runs", "text=Since its creation"),
    ("whatif?without=node-1", "[aria-label=Answer]"),
    ("whatif?room=default/waits", "[aria-label=Answer]"),
    ("whatif?drain=node-1/gpu-0", "[aria-label=Answer]"),
)
PARTITIONS: Final = (("devices?rack=example.com/rack&device=gpu.example.com+mig-0+gpu-0-one-2", "aside h2"),)


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
@pytest.mark.parametrize(
    ("world", "views"), [(hostile(), VIEWS), (partitioned(), PARTITIONS)], ids=["all", "partitions"]
)
async def test_no_view_has_a_violation(
    theme: str, width: int, world: list[Obj], views: tuple[tuple[str, str], ...]
) -> None:
    wrong: dict[str, list[str]] = {}
    async with UiServer(source(*world)) as server, opened_browser() as browser:
        # The page's own policy lets in no script but its own.
        context = await new_context(browser, bypass_csp=True, viewport={"width": width, "height": 800})
        for view, there in views:
            page = await context.new_page()
            await page.goto(f"{server.url}#/{view}{'&' if '?' in view else '?'}theme={theme}")
            await page.wait_for_selector(there)
            told = await violations(page)
            if told:
                wrong[view] = told
            await page.close()
    assert wrong == {}
