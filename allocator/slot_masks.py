"""Which devices of a pool a slot accepts, as masks: Python ints with one bit per device.

A `SlotMask` says what holds whatever else is allocated: selectors, gates, taints, and whether the capacity
request fits an unused device. It is computed once per (slot key, pool view) and kept with the view.

A selector failure stops the evaluation of a pool: the rest stays `unknown` until somebody needs it, because
upstream would have stopped there, and because a failing evaluation can be a very expensive one.
"""

from __future__ import annotations

from typing import Final

from allocator.capacity import NOTHING, CapacityError, Consumption, consume
from allocator.model import Device
from allocator.pools import PoolView
from allocator.requests import Slot
from allocator.selectors import Failure, Mismatch
from allocator.taints import prevent_allocation


class SlotMask:
    """Verdicts of a slot on the devices of a pool view; bit i is device i of the view.

    Attributes:
        selectable: All selectors match (and no gate hides the device).
        fits: Selectable, and the capacity request fits the unused device.
        usable: Fits, tolerated, and no gate forbids it: a candidate.
        failed: A selector cannot be answered (or 1.37: the capacity request makes no sense); `failures` says why.
        unknown: Not evaluated yet, behind a failure.
        consumption: Device index -> what a share would consume; only devices with capacities, and `fits`.
    """

    __slots__ = ("consumption", "failed", "failures", "fits", "selectable", "unknown", "usable")

    def __init__(self, devices: int) -> None:
        self.selectable = 0
        self.fits = 0
        self.usable = 0
        self.failed = 0
        self.unknown = (1 << devices) - 1
        self.failures: Final[dict[int, Failure | CapacityError]] = {}
        self.consumption: Final[dict[int, Consumption]] = {}


def slot_mask(slot: Slot, view: PoolView) -> SlotMask:
    """The verdicts, evaluated up to the first failure."""
    mask: SlotMask | None = view.derived.get(slot.key)
    if mask is None:
        mask = SlotMask(len(view.devices))
        for index in range(len(view.devices)):
            evaluate(slot, view, mask, index)
            if mask.failed:
                break
        view.derived[slot.key] = mask
    return mask


def evaluate(slot: Slot, view: PoolView, mask: SlotMask, index: int) -> None:
    """Decide one device that is unknown."""
    device = view.devices[index]
    bit = 1 << index
    mask.unknown &= ~bit
    features = slot.features
    if device.binding_conditions and not features.device_binding_and_status:
        return
    answer = slot.matcher.answer(device)
    if answer is not None:
        if isinstance(answer, Failure):
            mask.failed |= bit
            mask.failures[index] = answer
        return
    mask.selectable |= bit
    if features.consumable_capacity and not _fits(slot, device, mask, index):
        return
    mask.fits |= bit
    if device.consumes_counters and not features.partitionable_devices:
        return
    if features.device_taints and device.taints and prevent_allocation(device.taints, slot.details.tolerations):
        return
    mask.usable |= bit


def _fits(slot: Slot, device: Device, mask: SlotMask, index: int) -> bool:
    try:
        consumption = consume(slot.capacity, device.capacity, is_137=slot.features.is_137)
    except CapacityError as error:
        mask.failed |= 1 << index
        mask.failures[index] = error
        return False
    if consumption is None:
        return False
    if consumption is not NOTHING:
        mask.consumption[index] = consumption
    return True


def mismatch(slot: Slot, device: Device) -> Mismatch | Failure | None:
    """Which selector refuses the device, for explanations."""
    return slot.matcher.answer(device)
