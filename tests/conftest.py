"""For all tests: no event loop is left over between a synchronous test and an asynchronous one."""

from __future__ import annotations

import asyncio
import os

import pytest

# looptime and pytest-asyncio ask the policy for "the current loop"; without this line it makes one that nobody closes,
# which -W error turns into a failure of whatever test runs next.
asyncio.set_event_loop(None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long runs (marker `nightly`) out, unless NIGHTLY=1 asks for them."""
    if os.environ.get("NIGHTLY") == "1":
        return
    long_runs = [item for item in items if item.get_closest_marker("nightly")]
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=long_runs)
