"""The shell's tests run under both event loops."""

from __future__ import annotations

import asyncio

import uvloop


def pytest_asyncio_loop_factories(config, item):
    """asyncio's own loop and uvloop, which the program uses."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
