"""A real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from tests.patience import PATIENCE_S

CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
needs_chromium: Final = pytest.mark.skipif(
    CHROMIUM is None, reason="LEFT OUT, the page in a browser: there is no chromium; tests/setup installs it as root"
)


@asynccontextmanager
async def opened_browser(*flags: str) -> AsyncIterator[Any]:
    """A browser; `flags` are added to those that all tests have."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*_FLAGS, *flags])
        try:
            yield started
        finally:
            await started.close()


async def new_context(browser: Any, **options: Any) -> Any:
    """A context whose pages wait as long as all tests do, where Playwright's would wait 30 s."""
    context = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE_S * 1000)
    return context


async def new_page(browser: Any, **options: Any) -> Any:
    return await (await new_context(browser, **options)).new_page()
