"""The page's process: it ends when it is told to, and its memory is bounded."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import yaml

from scheduler.cli import ui
from tests.patience import PATIENCE_S
from tests.ui.worlds import objects

_PAGE: Final = """
import sys, threading, pathlib
from scheduler.answering import go_on
from scheduler.cli import ui
from scheduler.cli.main import cli
from scheduler.ui import what_if

def stubborn(*_):
    threading.Event().wait()

def endless(*_):
    while True:
        go_on()

def greedy(*_):
    return {"room": len(bytearray(1 << 30))}

ui._ENDING_S = 1 if sys.argv[1] == "stubborn" else 60
ui._CONTAINER_MEMORY = (pathlib.Path(sys.argv[2]),)
what_if.answer = globals()[sys.argv[1]]
cli(["ui", "-f", sys.argv[3]])
"""


@asynccontextmanager
async def page(tmp_path: Path, answer: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The page's process, in a container of 600 MB, with this answer to what if; and its address."""
    (tmp_path / "memory").write_text("600000000\n")
    (tmp_path / "world.yaml").write_text(yaml.safe_dump_all(objects()))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PAGE, answer, tmp_path / "memory", tmp_path / "world.yaml"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := re.search(rb"the page is at (\S+)", line := await process.stderr.readline())):
                assert line
            yield process, found[1].decode()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
@pytest.mark.parametrize(("answer", "code"), [("endless", 0), ("stubborn", -signal.SIGALRM)])
async def test_the_process_ends_while_a_question_is_played(
    tmp_path: Path, answer: str, code: int, number: signal.Signals
) -> None:
    """In order where the question looks whether somebody waits, and all the same where it does not."""
    async with page(tmp_path, answer) as (process, url), aiohttp.ClientSession() as session:
        asked = asyncio.ensure_future(session.get(f"{url}api/whatif?pod=default/waits"))
        async with session.get(f"{url}api/about") as reply:  # the question is on its way, or before it
            assert reply.status == 200
        process.send_signal(number)
        assert await process.wait() == code
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what is mapped as data")
async def test_a_question_that_needs_more_memory_than_the_page_has_ends_nothing(tmp_path: Path) -> None:
    async with page(tmp_path, "greedy") as (process, url), aiohttp.ClientSession() as session:
        async with session.get(f"{url}api/whatif?pod=default/waits") as reply:
            assert (reply.status, await reply.text()) == (503, "this question needs more memory than the page has\n")
        async with session.get(f"{url}api/pod?namespace=default&name=waits") as reply:
            assert reply.status == 200
        assert process.returncode is None


@pytest.mark.parametrize(("text", "most"), [("1000000\n", 500_000), ("max\n", None), (None, None)])
def test_the_page_takes_half_of_the_memory_of_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, most: int | None
) -> None:
    file = tmp_path / "memory.max"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(ui, "_CONTAINER_MEMORY", (file,))
    assert most is None or ui.memory_max() == most
    assert 0 < ui.memory_max() < 1 << 50


async def test_a_page_that_ends_is_begun_anew_later_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So one that ends at once takes no time from the scheduler."""
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 8:
            raise asyncio.CancelledError

    monkeypatch.setattr("scheduler.cli.ui.asyncio.sleep", rest)
    with pytest.raises(asyncio.CancelledError):
        await ui._keep(("false",), ())
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]
