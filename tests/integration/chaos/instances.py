"""Scheduler processes of one name, each with a proxy of its own, started again when they end, as by a Deployment.

Not here: what is done to them (`faults`).
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.controlplane.cluster import resident_bytes
from tests.controlplane.fault_proxy import FaultProxy
from tests.integration import prepared

_HOLDING: Final = b"holding the lease "
_DEFECTS: Final = (b"Traceback (most recent call last)", b"defect of the scheduler")
# It ends when it has lost its lease, and when it is killed.
_EXPECTED: Final = (1, -signal.SIGKILL)


@dataclass(slots=True)
class Instance:
    """One process after the other.

    Attributes:
        token: Id of the token of its processes.
        leads_since: When the process that runs began to lead (time.monotonic); None: its log does not say that it does.
        exits: How often processes ended, by exit code.
        samples: By process, (time.monotonic, resident bytes).
    """

    name: str
    proxy: FaultProxy
    arguments: tuple[str, ...]
    log: Path
    token: str
    process: prepared.PreparedProcess | None = None
    leads_since: float | None = None
    exits: Counter[int] = field(default_factory=Counter)
    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    _read: int = 0
    _defects: list[str] = field(default_factory=list)

    async def keep(self) -> None:
        """Start it, and again whenever it ends."""
        try:
            while True:
                with self.log.open("ab") as output:
                    process = await prepared.start_scheduler(self.arguments, output.fileno())
                self.process = process
                code = await process.wait()
                self.look()
                self.exits[code] += 1
                self.process, self.leads_since = None, None
                self.proxy.accept()
        finally:
            if self.process is not None:
                with suppress(ProcessLookupError):
                    self.process.kill()
                await self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """To the process that runs, if there is one."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    def look(self) -> None:
        """Read what the log says since the last look."""
        if not self.log.exists():
            return
        with self.log.open("rb") as lines:
            lines.seek(self._read)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                if _HOLDING in line and self.process is not None:
                    self.leads_since = time.monotonic()
                if any(text in line for text in _DEFECTS):
                    self._defects.append(line.decode(errors="replace").strip())

    def sample(self) -> None:
        """Note what it holds of memory now."""
        if self.process is not None:
            with suppress(FileNotFoundError, ProcessLookupError):
                pid = self.process.pid
                size = resident_bytes(pid)
                if size:  # 0 of one that has ended and was not waited for
                    self.samples.setdefault(f"{self.name}, process {pid}", []).append((time.monotonic(), size))

    def problems(self) -> list[str]:
        found = [f"{self.name}: its log says: {text}" for text in dict.fromkeys(self._defects)]
        odd = {code: count for code, count in self.exits.items() if code not in _EXPECTED}
        return [*found, *(f"{self.name}: ended {count} times with exit code {code}" for code, count in odd.items())]


def leader(instances: list[Instance]) -> Instance | None:
    """Who said last that it holds the lease, and runs."""
    leading = [one for one in instances if one.leads_since is not None and one.process is not None]
    return max(leading, key=lambda one: one.leads_since or 0.0, default=None)


async def wait_leader(instances: list[Instance]) -> Instance:
    while True:
        found = leader(instances)
        if found is not None:
            return found
        await asyncio.sleep(0.1)
