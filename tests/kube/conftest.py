"""The shell's tests run under both event loops."""

from __future__ import annotations

import asyncio

import uvloop

# looptime asks for the current loop before each test that is not asynchronous. Before Python 3.14 such a question
# makes a loop that nobody closes, unless somebody has said that there is none.
asyncio.set_event_loop(None)


def pytest_asyncio_loop_factories(config, item):
    """asyncio's own loop and uvloop, which the program uses; one is enough to start processes from."""
    if item.path.name == "test_run_command.py":
        return {"asyncio": asyncio.new_event_loop}
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
