"""A process that serves the page, as `dra-scheduler ui` and others do."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.integration.prepared import start_scheduler
from tests.patience import PATIENCE_S

URL: Final = re.compile(r"the page is at (\S+)")


@asynccontextmanager
async def page_process(folder: Path, *arguments: str, command: str = "ui") -> AsyncIterator[str]:
    """`ui`, or another command that serves the page, with these arguments; its address. It ends in order.

    What it says is in the file `page.log` of the folder.
    """
    log = folder / "page.log"
    with log.open("wb") as output:
        process = await start_scheduler((command, *arguments), output.fileno())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := URL.search(log.read_text())):
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        yield found[1]
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            assert await process.wait() == 0, log.read_text()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
