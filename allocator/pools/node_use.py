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

_EXHAUSTED_MAX: Final = 64
_NUMBERS: Final = count()


class NodeUse:
    """What a ledger says about a node's devices: per pool (by index into `usable`), and as masks over all.

    `version` grows by one with each change of a pool's part of it.
    """

    def __init__(self, serial: int) -> None:
        self._number: Final = next(_NUMBERS)
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
        self.version += 1

    def exhausted(self, slot: Slot, usable: Sequence[tuple[PoolView, int]]) -> int:
        """Devices whose recorded consumption leaves too little for the slot; kept while the ledger says the same."""
        version, mask = self._exhausted.get(slot.key, (-1, 0))
        if version == self.version:
            return mask
        mask = 0
        for number, use in self.used.items():
            if not use.consumed:
                continue
            view, start = usable[number]
            consumption = view.mask_for(slot).consumption
            for index, consumed in use.consumed.items():
                wanted = consumption.get(index)
                if wanted is not None and not wanted.fits(consumed):
                    mask |= 1 << (start + index)
        if len(self._exhausted) >= _EXHAUSTED_MAX:
            self._exhausted.clear()
        self._exhausted[slot.key] = self.version, mask
        return mask
