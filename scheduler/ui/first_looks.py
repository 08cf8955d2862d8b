"""Rows of the list of pods that were only looked at briefly, corrected while somebody sees the list.

Rules of this module
  1. The first pod of such a row is asked about by itself, as its own page does, and speaks for all of the row. Each row
     is asked about once in a list; a list that is made anew is corrected anew.
  2. One row at a time, a namespace after the other, and those that the last list did not come to first. After each the
     corrections rest for `_REST` times as long as it took.
  3. It ends when nobody has asked for the list for `_LEFT_S`, and goes on when somebody does.

Not here: the list (`explain.waiting`), and how it looks (`responses`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Final

from msgspec import to_builtins

from scheduler.answering import played
from scheduler.explain.waiting import AllWaiting, Key, Waiting, alike, as_own, by_turns
from scheduler.ui.responses import Document, pending_picture

_REST: Final = 3
_LEFT_S: Final = 30.0
_ROWS_MAX: Final = 100


class FirstLooks:
    """Those of one page's list.

    Args:
        playing: So many machines are played at a time.
    """

    def __init__(self, playing: asyncio.Semaphore) -> None:
        self._playing: Final = playing
        self._found = AllWaiting((), 0, ())
        self._rows: object = None
        self._left: list[list[Waiting]] = []
        self._ask: Callable[[Collection[Key]], AllWaiting] | None = None
        self._asked_before: set[str] = set()
        self._seen_s = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def found(self) -> AllWaiting:
        """The list as values, with what has been corrected by now."""
        return self._found

    def begin(self, found: AllWaiting, rows: object, ask: Callable[[Collection[Key]], AllWaiting]) -> None:
        """There is a newer list, with these rows; `ask` asks about some of its pods."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        brief = [row for row in alike(found.pods) if row[0].is_first_look]
        self._asked_before &= {row[0].maker.edited for row in brief}
        rested = [row for row in brief if row[0].maker.edited not in self._asked_before]
        again = [row for row in brief if row[0].maker.edited in self._asked_before]
        if not rested:
            self._asked_before.clear()
        self._left = [*by_turns(rested, _namespace), *by_turns(again, _namespace)][:_ROWS_MAX]
        self._found, self._rows = found, rows
        self._ask = ask if self._left else None  # it has the cluster's objects

    def shown(self, document: Document) -> Document:
        """The list with what has been corrected by now; `again` where more will be."""
        if document["pods"] is not self._rows:
            return document
        self._seen_s = asyncio.get_running_loop().time()
        if self._left and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._correct())
        is_going = self._task is not None and not self._task.done()
        better = to_builtins(pending_picture(self._found))
        return {**document, "kinds": better["kinds"], "pods": better["pods"], "again": is_going}

    async def _correct(self) -> None:
        loop = asyncio.get_running_loop()
        while self._left and loop.time() < self._seen_s + _LEFT_S:
            row, ask = self._left.pop(0), self._ask
            assert ask is not None
            self._asked_before.add(row[0].maker.edited)
            async with self._playing:
                begun_s = loop.time()
                found = await played(partial(ask, {row[0].key}))
            # A pod that fits by itself waits for what others take, which the list knows.
            better = [one for one in found.pods if one.outcome == row[0].outcome]
            done = {one.key: as_own(better[0], one.key, one.maker) if better else one for one in row}
            pods = [
                replace(done[one.key], is_first_look=False, created=one.created) if one.key in done else one
                for one in self._found.pods
            ]
            self._found = replace(self._found, pods=pods)
            await asyncio.sleep(_REST * (loop.time() - begun_s))


def _namespace(row: list[Waiting]) -> str:
    return row[0].key[0]
