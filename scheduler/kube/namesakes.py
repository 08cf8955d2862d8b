"""Without election: a second process of our scheduler name is noticed, and named.

The lease that election would use is a sign of life here. Who finds it free renews it; who finds that somebody else
renews it says so. Nobody waits for it, and losing it has no consequence. A process that elects waits for one that does
not.

What is not noticed: anybody, where we may not write leases, or where the other one uses no lease there (kube-scheduler
without election, a lease in another namespace). Of two without election only the later one notices.

Cost: one request each two seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Self

from scheduler.kube.lease import Lease, LeaseLostError
from scheduler.kube.reporting import Reporter

log = logging.getLogger(__name__)

_RENEWALS_SEEN = 2  # a record that does not change may be a dead process'


class QuietReporter(Reporter):
    """Refusals are no problem: only the second process goes unnoticed."""

    def refused(self, subject: str, message: str) -> None:
        log.debug("a second process would not be noticed: %s: %s", subject, message)


class Namesakes:
    """An async context manager: it looks while it is open.

    Args:
        make_leases: New leases of all our names; called again for those that were lost.
        on_noticed: Called once for each other holder, with the lease and the text.
    """

    def __init__(self, make_leases: Sequence[Callable[[], Lease]], *, on_noticed: Callable[[Lease, str], None]) -> None:
        self._make_leases = make_leases
        self._on_noticed = on_noticed
        self._noticed: dict[str, tuple[str, str]] = {}  # by lease: the holder, and the text
        self._leases: dict[str, Lease] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._look(make), name="namesakes") for make in self._make_leases]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(lease.release() for lease in self._leases.values()))

    def texts(self) -> list[str]:
        """Who else is at work; for people."""
        return [text for _, text in self._noticed.values()]

    async def _look(self, make: Callable[[], Lease]) -> None:
        while True:
            lease = make()
            self._leases[lease.name] = lease
            await lease.acquire(on_refused=self._refused)
            if self._noticed.pop(lease.name, None) is not None:
                log.info("no other process renews the lease %s any more", lease.name)
            try:
                await lease.keep()
            except LeaseLostError as error:
                log.debug("%s", error)

    def _refused(self, lease: Lease) -> None:
        """It was not to be had."""
        known, _ = self._noticed.get(lease.name, ("", ""))
        if lease.failure is not None or lease.changes_seen < _RENEWALS_SEEN or lease.holder in ("", known):
            return
        text = (
            f"another process schedules under our name: {lease.holder} renews the lease {lease.name}; without election "
            "(--leader-elect=false) neither waits for the other: end one of them, or let both elect"
        )
        self._noticed[lease.name] = lease.holder, text
        log.warning("%s", text)
        self._on_noticed(lease, text)
