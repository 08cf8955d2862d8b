"""How many devices of each node's slices a slot accepts, whatever is in use; kept current slice by slice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from allocator.requests.requests import Slot
from allocator.requests.slot_masks import JUDGE_WORK, judge
from allocator.values.meter import Meter
from allocator.values.model import ResourceSlice

FAILURES_MAX: Final = 8
"""Slices with a device whose selectors fail, beyond which a slot gets no bound: such evaluations can take long."""


class Offer:
    """The counts for one slot. `own` is by node; `shared` counts the slices that name no node."""

    def __init__(self, slot: Slot) -> None:
        self._slot: Final = slot
        self._entries: Final[dict[str, tuple[str, int, int]]] = {}
        self._pending: Final[dict[str, None]] = {}
        self._failed: Final[dict[str, None]] = {}
        self.position = -1
        """In the inventory's log of changes."""
        self.own: Final[dict[str, int]] = {}
        self.doubtful: Final[dict[str, int]] = {}
        self.shared = 0
        self.shared_doubtful = 0

    @property
    def is_complete(self) -> bool:
        """Whether all slices are counted; not where too many of them fail."""
        return not self._pending

    def update(self, slices: Mapping[str, ResourceSlice], changed: Collection[str], meter: Meter) -> None:
        """Count the slices that changed, of all there are. Raises PausedError; those that were counted stay so."""
        pending = self._pending
        for one in changed:
            if one in slices or one in self._entries:
                pending[one] = None
            else:
                pending.pop(one, None)
        while pending:
            name = self._next()
            if not name:
                return
            slice_ = slices.get(name)
            counted = self._count(slice_, meter) if slice_ is not None else None
            meter.is_fresh = False
            del pending[name]
            entry = self._entries.pop(name, None)
            if entry is not None:
                self._failed.pop(name, None)
                self._add(entry, -1)
            if counted is not None:
                self._entries[name] = counted
                if entry is None:
                    self._slot.record.count_slice()
                if counted[2]:
                    self._failed[name] = None
                self._add(counted, 1)

    def _next(self) -> str:
        """A slice to count, or "". Where too many fail, one of those alone: it may have been repaired."""
        if len(self._failed) <= FAILURES_MAX:
            return next(iter(self._pending))
        return next((name for name in self._failed if name in self._pending), "")

    def _count(self, slice_: ResourceSlice, meter: Meter) -> tuple[str, int, int]:
        """Node, devices accepted, whether there is one that cannot be decided."""
        usable = doubtful = 0
        for device in slice_.devices:
            if meter.spent >= meter.stop_at:
                meter.check()
            verdict = judge(self._slot, device)
            meter.spent += JUDGE_WORK
            usable += verdict.is_usable
            if verdict.failure is not None:
                doubtful = 1
                break
        return slice_.node_name or "", usable, doubtful

    def _add(self, entry: tuple[str, int, int], sign: int) -> None:
        node, usable, doubtful = entry
        if not node:
            self.shared += sign * usable
            self.shared_doubtful += sign * doubtful
            return
        for counts, change in ((self.own, usable), (self.doubtful, doubtful)):
            total = counts.get(node, 0) + sign * change
            if total:
                counts[node] = total
            else:
                counts.pop(node, None)
