"""Whose turn it is to send: lanes of decisions that are ready, by sharer, and a share of the slots for each.

A sharer is the pods of a namespace, or its claims; the executor names them.

Rules of this module
  1. Sharers take turns; within one, what was ready first is sent first.
  2. A sharer that has its share of the slots (`core.fair_places`) is passed by until a slot comes back. So requests of
     one sharer that hang leave slots to the others.
  3. A sharer whose last write failed has `FAILING_SLOTS` until a write of that kind succeeds. Its pods come out of
     their backoff together, and hundreds of writes that a webhook refuses took the API server's CPU from everybody.
  4. Who takes a lane gives its slot back once.

Cost: O(1) for each lane, and O(slots) when sharers are passed by: only those that have slots can be.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from scheduler.core.ground.fair_places import FairPlaces

FAILING_SLOTS: Final = 2
_FAILING_MAX: Final = 1_000  # sharers remembered; the one that failed first is forgotten, and has all its slots again

_Lane = TypeVar("_Lane")


class FairLanes(Generic[_Lane]):
    """A queue for several takers."""

    def __init__(self, slots: int, most: int) -> None:
        self._slots: Final = FairPlaces(slots, most)
        self._ready: Final[OrderedDict[str, deque[_Lane]]] = OrderedDict()
        self._takers: Final[deque[asyncio.Future[None]]] = deque()
        self._failing: Final[dict[str, Hashable]] = {}  # the kind of write that failed

    def put(self, sharer: str, lane: _Lane) -> None:
        """A lane that is ready."""
        lanes = self._ready.get(sharer)
        if lanes is None:
            lanes = self._ready[sharer] = deque()
        lanes.append(lane)
        self._wake_taker()

    async def take(self) -> _Lane:
        """The next lane, once there is one whose sharer may have a slot; the slot is taken."""
        while (lane := self._next()) is None:
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            await taker
        return lane

    def give_back(self, sharer: str) -> None:
        """A slot of the sharer is free again."""
        self._slots.give_back(sharer)
        self._wake_taker()

    def note_failure(self, sharer: str, kind: Hashable) -> None:
        """A write of this kind failed: refused, or its outcome is unknown."""
        self._failing[sharer] = kind
        if len(self._failing) > _FAILING_MAX:
            del self._failing[next(iter(self._failing))]

    def note_success(self, sharer: str, kind: Hashable) -> None:
        """A write of this kind was stored."""
        if self._failing.get(sharer) == kind:
            del self._failing[sharer]
            self._wake_taker()

    def _may_take(self, sharer: str) -> bool:
        return self._slots.may_take(sharer) and (
            sharer not in self._failing or self._slots.taken_by(sharer) < FAILING_SLOTS
        )

    def _next(self) -> _Lane | None:
        ready = self._ready
        if self._slots.is_exhausted:
            return None
        for sharer in ready:
            if self._may_take(sharer):
                break
        else:
            return None
        lanes = ready[sharer]
        lane = lanes.popleft()
        if lanes:
            ready.move_to_end(sharer)
        else:
            del ready[sharer]
        self._slots.take(sharer)
        if ready:
            self._wake_taker()  # more than one sharer may have waited for the slot that has come back
        return lane

    def _wake_taker(self) -> None:
        while self._ready and self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
