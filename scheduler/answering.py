"""An answer that takes long: a thread makes it, for somebody who may leave meanwhile.

Rules of this module
  1. Whoever is cancelled waits for the thread's end all the same. So a turn, a lock or a pause that is held around an
     answer is given back when nothing runs any more.
  2. What nobody waits for ends at its next `go_on`. Whoever plays a machine calls that at each turn and each node.
  3. `played` collects what an answer leaves, also while it is being made: a machine and its cluster are circles, and
     the thresholds of `garbage_collector` let thousands of them pass. A pod's page of 300 nodes left 31 MB each time,
     and the list of 60 pods that wait in 500 nodes made 13 machines: the process had 240 MiB, and has 129 with one at
     a time. Memory is not given back: pieces of it are in use, so a peak stays.

Cost: `go_on` 0.1 us. A collection 40 to 110 ms for 300 nodes; ordinary thresholds took 10 to 100 ms more for each
answer, with pauses of 80 to 470 ms. Those 13 machines took 5.5 s with a collection after each as with one at the end,
and the longest pause is 43 ms in place of 320.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from traceback import clear_frames
from typing import Final, TypeVar

T = TypeVar("T")

_has_left: Final[ContextVar[threading.Event | None]] = ContextVar("has_left", default=None)
_machines: Final[ContextVar[Iterator[int] | None]] = ContextVar("machines", default=None)
"""Numbers those that one answer makes, from 0 on."""


class LeftError(Exception):
    """Nobody waits for this answer any more."""


def go_on() -> None:
    """Raises LeftError where whoever asked has left."""
    has_left = _has_left.get()
    if has_left is not None and has_left.is_set():
        raise LeftError


def before_machine() -> None:
    """Collects the last machine of this answer, if there was one (rule 3): whoever makes a machine says so before."""
    numbers = _machines.get()
    if numbers is not None and next(numbers):
        gc.collect()


async def in_thread(ask: Callable[[], T]) -> T:
    """What `ask` finds, in a thread (rules 1 and 2)."""
    context, has_left = copy_context(), threading.Event()
    context.run(_has_left.set, has_left)
    found = asyncio.get_running_loop().run_in_executor(None, context.run, ask)
    try:
        return await asyncio.shield(found)
    except asyncio.CancelledError:
        has_left.set()
        while not found.done():
            with suppress(asyncio.CancelledError):  # asked to end again
                await asyncio.wait([found])
        found.exception()  # whatever it is, nobody wants to know
        raise


async def played(ask: Callable[[], T]) -> T:
    """As `in_thread`, for what makes a machine of its own (rule 3)."""
    return await in_thread(partial(_collected, ask))


def _collected(ask: Callable[[], T]) -> T:
    _machines.set(itertools.count())
    try:
        go_on()
        return ask()
    except BaseException as error:
        clear_frames(error.__traceback__)  # they hold the machine as long as somebody has the error
        raise
    finally:
        gc.collect()
