"""Whose turn it is to send: lanes of decisions that are ready, by namespace, and a share of the slots for each.

Rules of this module
  1. Namespaces take turns; within one, what was ready first is sent first.
  2. A namespace that has its share of the slots (`core.fair_places`) is passed by until one comes back, so requests
     that hang for one namespace leave slots to the others.
  3. Whoever took a lane gives its slot back, once.

Cost: O(1) for each lane, and O(slots) when namespaces are passed by: only those that have slots can be.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import Final, Generic, TypeVar

from scheduler.core.fair_places import FairPlaces

_Lane = TypeVar("_Lane")


class FairLanes(Generic[_Lane]):
    """A queue for several takers."""

    def __init__(self, slots: int, most: int) -> None:
        self._slots: Final = FairPlaces(slots, most)
        self._ready: Final[OrderedDict[str, deque[_Lane]]] = OrderedDict()
        self._takers: Final[deque[asyncio.Future[None]]] = deque()

    def put(self, namespace: str, lane: _Lane) -> None:
        """A lane that is ready."""
        lanes = self._ready.get(namespace)
        if lanes is None:
            lanes = self._ready[namespace] = deque()
        lanes.append(lane)
        self._wake_taker()

    async def take(self) -> _Lane:
        """The next lane, once there is one whose namespace may have a slot; the slot is taken."""
        while (lane := self._next()) is None:
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            await taker
        return lane

    def give_back(self, namespace: str) -> None:
        """A slot of the namespace is free again."""
        self._slots.give_back(namespace)
        self._wake_taker()

    def _next(self) -> _Lane | None:
        ready = self._ready
        if self._slots.is_exhausted:
            return None
        for namespace in ready:
            if self._slots.may_take(namespace):
                break
        else:
            return None
        lanes = ready[namespace]
        lane = lanes.popleft()
        if lanes:
            ready.move_to_end(namespace)
        else:
            del ready[namespace]
        self._slots.take(namespace)
        if ready:
            self._wake_taker()  # more than one namespace may have waited for the slot that has come back
        return lane

    def _wake_taker(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
