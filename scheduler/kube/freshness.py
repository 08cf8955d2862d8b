"""The silence of the API server, and its consequences: first not ready, after minutes not alive.

Whatever is broken (its certificate, the network, the name, its storage, our credentials), a watch falls silent and
cannot begin again. A quiet cluster is not silent: bookmarks come every minute.

Not ready: *some* kind has been silent for long, so decisions may rest on old facts. Not alive: *all* kinds have been
silent for much longer; a new process begins with fresh credentials, names and connections. A single silent kind
(refused, or failing in storage) is no reason to end: a new process would not get that kind either, and would never be
ready.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.kube.watch import Reflector


class Freshness:
    """Of some watches. Times are the event loop's, in seconds.

    Args:
        begun_s: Counts as the last sign of life at the beginning.
        ready_s, alive_s: The silence after which it is not ready, not alive; None: never.
        accepted_s: When a request was last accepted: a process that waits for its lease asks for that, and watches
            nothing.
    """

    def __init__(
        self,
        reflectors: Sequence[Reflector],
        begun_s: float,
        *,
        ready_s: float,
        alive_s: float | None,
        accepted_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._reflectors = reflectors
        self._begun_s = begun_s
        self._ready_s = ready_s
        self._alive_s = alive_s
        self._accepted_s = accepted_s

    def problems_ready(self, now_s: float) -> list[str]:
        """A line for each stale kind; kinds that were never listed are reported by the app."""
        return [
            f"{one.kind.name}: nothing heard for {self._silence_s(one, now_s):.0f} s{because(one)}"
            for one in self._watched()
            if one.stats.is_synced and self._silence_s(one, now_s) > self._ready_s
        ]

    def problems_alive(self, now_s: float) -> list[str]:
        """One line when nothing at all was heard for too long."""
        shortest = min(self._watched(), key=lambda one: self._silence_s(one, now_s), default=None)
        silence_s = now_s - self._begun_s if shortest is None else self._silence_s(shortest, now_s)
        if (accepted_s := self._accepted_s()) is not None:
            silence_s = min(silence_s, now_s - accepted_s)
        if self._alive_s is None or silence_s <= self._alive_s:
            return []
        why = because(shortest) if shortest is not None else ""
        return [f"the API server has not been heard of for {silence_s:.0f} s, of at most {self._alive_s:.0f}{why}"]

    def _watched(self) -> list[Reflector]:
        return [one for one in self._reflectors if not one.stats.is_absent]

    def _silence_s(self, one: Reflector, now_s: float) -> float:
        heard_s = one.stats.last_activity_s
        return now_s - (self._begun_s if heard_s is None else heard_s)


def because(one: Reflector) -> str:
    """Why its last attempt failed, in brackets."""
    return f" ({one.stats.failure})" if one.stats.failure else ""
