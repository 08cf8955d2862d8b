"""Time at the border: the machine's clock in milliseconds, clocks that notice a sleep, and times as texts.

The machine's clock is Unix time that never goes back: it is read once from the wall and then advanced by the event
loop's monotonic clock, so a test that drives the loop's time drives the machine's too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeAlias

from scheduler.model.timestamps import format_rfc3339


class Clock:
    """Milliseconds since 1970 in UTC, monotonic within the process.

    Args:
        monotonic: Seconds, never going back; `loop.time` in the app.
        wall: Unix time in seconds; read once, here.
    """

    __slots__ = ("_anchor_s", "_monotonic")

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], float] = time.time) -> None:
        self._monotonic = monotonic
        self._anchor_s = wall() - monotonic()

    def now_ms(self) -> int:
        return int((self._anchor_s + self._monotonic()) * 1000)

    def monotonic_s(self, at_ms: int) -> float:
        """The reading of the monotonic clock at `at_ms`, for `loop.call_at`."""
        return at_ms / 1000 - self._anchor_s


# CLOCK_BOOTTIME is Linux's: monotonic time that goes on while the machine is suspended.
_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)

Moment: TypeAlias = tuple[float, ...]


def read_clocks() -> Moment:
    """Seconds by every clock that may have noticed a sleep: wall, monotonic and, where there is one, since boot.

    All of them notice a stopped process. The monotonic clock misses the sleep of a laptop. A virtual machine that was
    paused from outside is often noticed by the wall clock only, after that has been set right.
    """
    awake = (time.time(), time.monotonic())
    return (*awake, time.clock_gettime(_BOOTTIME)) if _BOOTTIME is not None else awake


def most_elapsed_s(since: Moment, now: Moment) -> float:
    """Seconds between two moments, by the clock on which most time has passed (a wall clock may be set back)."""
    return max(later - earlier for earlier, later in zip(since, now, strict=True))


def encode_micro_time(at_ms: int) -> str:
    """metav1.MicroTime: RFC 3339 in UTC with exactly six digits of a second."""
    return f"{format_rfc3339(at_ms // 1000)[:-1]}.{at_ms % 1000:03d}000Z"
