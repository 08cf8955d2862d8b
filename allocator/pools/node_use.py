"""What allocations hold of a node's devices: the ledger's entries of its pools, side by side.

Cost: a call after a change looks at the pools that changed. Not here: the ledger (`in_use`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from allocator.pools.in_use import PoolUse
from allocator.pools.pools import NOTHING_HELD, HeldDevices, PoolView
from allocator.requests.requests import Slot
from allocator.requests.slot_records import SlotKey
from allocator.values.features import Features

_CHANGES_MAX: Final = 1024
_EXHAUSTED_MAX: Final = 64
"""Masks kept for a node. Without them: 4 to 6 % of a decision (benchmarks.placement)."""
_NUMBERS: Final = count()


class NodeUse:
    """What a ledger says about a node's devices: per pool (by index into `usable`), and as masks over all.

    `version` grows by one with each change of a pool's part of it.
    """

    def __init__(self, serial: int) -> None:
        self._number: Final = next(_NUMBERS)
        self._changes: Final[list[int]] = []
        self._exhausted: Final[dict[SlotKey, tuple[int, int]]] = {}
        self.serial: Final = serial
        self.position = -1
        self.version = 0
        self.used: Final[dict[int, HeldDevices]] = {}
        self.dedicated = 0
        self.sharing = 0

    @property
    def state(self) -> tuple[int, int]:
        """Two numbers that are others when the ledger says something else; no other ledger or node has the same."""
        return self._number, self.version

    def observe(self, number: int, pool: tuple[PoolView, int], entry: PoolUse | None, features: Features) -> None:
        """What the ledger says of one pool now; None where nothing of it is held."""
        view, start = pool
        old = self.used.pop(number, NOTHING_HELD)
        new = NOTHING_HELD
        if entry is not None:
            new = self.used[number] = view.held(entry, features)
        if new is old or (new.entry is old.entry and new.version == old.version):
            return
        self.dedicated ^= (old.dedicated ^ new.dedicated) << start
        self.sharing ^= (old.sharing ^ new.sharing) << start
        if len(self._changes) >= _CHANGES_MAX:
            self._changes.clear()
        self.version += 1
        self._changes.append(number)

    def exhausted(self, slot: Slot, usable: Sequence[tuple[PoolView, int]]) -> int:
        """Devices whose recorded consumption leaves too little for the slot; only pools that changed are looked at."""
        version, mask = self._exhausted.get(slot.key, (-1, 0))
        if version == self.version:
            return mask
        first = version - self.version + len(self._changes)
        is_followed = version >= 0 and first >= 0
        if not is_followed:
            mask = 0
        for number in set(self._changes[first:]) if is_followed else self.used:
            view, start = usable[number]
            mask &= ~(((1 << len(view.devices)) - 1) << start)
            use = self.used.get(number)
            if use is not None and use.consumed:
                consumption = view.mask_for(slot).consumption
                for index, consumed in use.consumed.items():
                    wanted = consumption.get(index)
                    if wanted is not None and not wanted.fits(consumed):
                        mask |= 1 << (start + index)
        if len(self._exhausted) >= _EXHAUSTED_MAX:
            self._exhausted.clear()
        self._exhausted[slot.key] = self.version, mask
        return mask
