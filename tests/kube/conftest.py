"""The shell's tests run under both event loops."""

from __future__ import annotations

import asyncio

import looptime
import uvloop

# looptime asks for the current loop before each test that is not asynchronous. Before Python 3.14 such a question
# makes a loop that nobody closes, unless somebody has said that there is none.
asyncio.set_event_loop(None)


def pytest_asyncio_loop_factories(config, item):
    """asyncio's own loop and uvloop, which the program uses; one is enough to start processes from.

    The lease's tests are about nothing but time: theirs passes as fast as nothing happens.
    """
    if item.path.name == "test_lease.py":
        # Nothing there waits for the outside, so the time may move on at once.
        return {"looptime": lambda: looptime.new_event_loop(noop_cycles=1)}
    if item.path.name == "test_freshness.py":
        return {"uvloop": uvloop.new_event_loop}  # seconds of silence pass there: once is enough
    if item.path.name == "test_run_command.py":
        return {"asyncio": asyncio.new_event_loop}
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
