"""For all tests: no event loop left over from one for the next, no deadline for hypothesis, long runs on demand."""

from __future__ import annotations

import asyncio
import os

import pytest
from hypothesis import settings

# looptime and pytest-asyncio ask the policy for "the current loop"; without this line it makes one that nobody closes,
# which -W error turns into a failure of whatever test runs next.
asyncio.set_event_loop(None)

# No test may fail because the machine is busy: hypothesis' default allows an example 200 ms.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long runs (marker `nightly`) out, unless NIGHTLY=1 asks for them."""
    if os.environ.get("NIGHTLY") == "1":
        return
    long_runs = [item for item in items if item.get_closest_marker("nightly")]
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=long_runs)
