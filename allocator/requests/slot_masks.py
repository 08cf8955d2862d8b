"""Which devices of a pool a slot accepts, as masks: Python ints with one bit per device.

A `SlotMask` says what holds whatever else is allocated: selectors, gates, taints, and whether the capacity
request fits an unused device. It is computed once for each slot key and pool view, and kept with the view.

A selector failure stops the evaluation of a pool, and the devices behind it stay `unknown`: upstream would have stopped
there, and a failing evaluation can be a very expensive one. When a search reaches an unknown device, its verdict is
kept (`late`) but changes no mask: the course of a search must not depend on what was asked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from allocator.requests.capacity import NOTHING, CapacityError, Consumption
from allocator.requests.device_taints import prevent_allocation
from allocator.requests.requests import Slot
from allocator.requests.selectors import Failure
from allocator.values.model import Attribute, Device, DeviceTaint
from allocator.values.pool_attribute import PoolAttribute

_NONE_LATE: Final[dict[int, SlotVerdict]] = {}
_NO_FAILURES: Final[dict[int, Failure | CapacityError]] = {}
_NO_CONSUMPTION: Final[dict[int, Consumption]] = {}
_NOT_DERIVED: Final[dict[str, PoolAttribute]] = {}
JUDGE_WORK: Final = 40
"""Deciding a device whose selectors have been evaluated before."""
_TOLERATION_WORK: Final = 4
"""Comparing a taint with a toleration: a device may have 32, a request 16."""


class SlotMask:
    """Verdicts of a slot on the devices of a pool view; bit i is device i of the view.

    Attributes:
        selectable: All selectors match (and no gate hides the device).
        fits: Selectable, and the capacity request fits the unused device.
        usable: Fits, tolerated, all of it is read, and no gate forbids it: a candidate.
        failed: A selector cannot be answered (or 1.37: the capacity request makes no sense); `failures` says why.
        unknown: Behind a failure.
        late: Device index -> verdict, of unknown devices that a search has reached.
        consumption: Device index -> what a share would consume; only devices with capacities, and `fits`.
        derived: The attributes that the slot's request derives, of the usable devices.
        decided: How many devices were decided, in order; all of them, or up to a failure, when it `is_done`.
    """

    __slots__ = (
        "consumption",
        "decided",
        "derived",
        "failed",
        "failures",
        "fits",
        "is_done",
        "late",
        "selectable",
        "unknown",
        "usable",
    )

    def __init__(self, slot: Slot, devices: int) -> None:
        self.decided = 0
        self.is_done = False
        self.selectable = 0
        self.fits = 0
        self.usable = 0
        self.failed = 0
        self.unknown = (1 << devices) - 1
        # Most masks have none of these, and there are as many masks as pools and slots.
        self.late: dict[int, SlotVerdict] = _NONE_LATE
        self.failures: dict[int, Failure | CapacityError] = _NO_FAILURES
        self.consumption: dict[int, Consumption] = _NO_CONSUMPTION
        self.derived: Final = {name: PoolAttribute(slot.features) for name in slot.derivations} or _NOT_DERIVED

    def decide(self, slot: Slot, devices: Sequence[Device]) -> None:
        """Evaluate the pool's devices up to the first failure.

        Raises:
            PausedError: not now; those that were reached are kept.
        """
        meter = slot.matcher.meter
        for index in range(self.decided, len(devices)):
            if meter.spent >= meter.stop_at:
                meter.check()
            verdict = judge(slot, devices[index])
            if verdict.is_usable and slot.derivations:
                self._derive(slot, devices[index], index)
            meter.spent += JUDGE_WORK
            meter.is_fresh = False
            self.decided = index + 1
            self._note(verdict, index)
            # What is derived decides about other devices, so all of them have to be known.
            if self.failed and not slot.derivations:
                break
        self.is_done = True

    def _derive(self, slot: Slot, device: Device, index: int) -> None:
        values = {name: derivation.value(device) for name, derivation in slot.derivations.items()}
        for name, value in values.items():
            if isinstance(value, Attribute):
                self.derived[name].note(index, value)
            else:
                self.derived[name].failed |= 1 << index

    def decide_late(self, slot: Slot, device: Device, index: int) -> SlotVerdict:
        """The verdict on an unknown device."""
        verdict = self.late.get(index)
        if verdict is None:
            verdict = judge(slot, device)
            if self.late is _NONE_LATE:
                self.late = {}
            self.late[index] = verdict
            self._keep_details(verdict, index)
        return verdict

    def _note(self, verdict: SlotVerdict, index: int) -> None:
        bit = 1 << index
        self.unknown &= ~bit
        self._keep_details(verdict, index)
        if verdict.failure is not None:
            self.failed |= bit
        if verdict.is_selectable:
            self.selectable |= bit
            if verdict.fits:
                self.fits |= bit
                if verdict.is_usable:
                    self.usable |= bit

    def _keep_details(self, verdict: SlotVerdict, index: int) -> None:
        if verdict.failure is not None:
            if self.failures is _NO_FAILURES:
                self.failures = {}
            self.failures[index] = verdict.failure
        if verdict.fits and verdict.consumption is not None:
            if self.consumption is _NO_CONSUMPTION:
                self.consumption = {}
            self.consumption[index] = verdict.consumption


class SlotVerdict(NamedTuple):
    """What a slot says about a device that nobody uses; see `SlotMask` for the words."""

    is_selectable: bool = False
    fits: bool = False
    is_usable: bool = False
    consumption: Consumption | None = None
    failure: Failure | CapacityError | None = None


_NO: Final = SlotVerdict()
_SELECTABLE: Final = SlotVerdict(is_selectable=True)
_FITS: Final = SlotVerdict(is_selectable=True, fits=True)
_YES: Final = SlotVerdict(is_selectable=True, fits=True, is_usable=True)


def judge(slot: Slot, device: Device) -> SlotVerdict:
    """Decide one device, wherever it is.

    Raises:
        PausedError: its selectors are not evaluated yet, and not now.
    """
    features = slot.features
    if device.binding_conditions and not features.device_binding_and_status:
        return _NO
    answer = slot.matcher.answer(device)
    if answer is not None:
        return SlotVerdict(failure=answer) if isinstance(answer, Failure) else _NO
    consumption = None
    if features.consumable_capacity:
        try:
            consumption = slot.consumption_of(device)
        except CapacityError as error:
            return SlotVerdict(is_selectable=True, failure=error)
        if consumption is None:
            return _SELECTABLE
    is_usable = (
        not device.unread
        and not (device.consumes_counters and not features.partitionable_devices)
        and not (features.device_taints and device.taints and _keep_off(device.taints, slot))
    )
    if consumption is None or consumption is NOTHING:
        return _YES if is_usable else _FITS
    return SlotVerdict(True, True, is_usable, consumption)


def _keep_off(taints: Sequence[DeviceTaint], slot: Slot) -> bool:
    tolerations = slot.details.tolerations
    slot.matcher.meter.spent += _TOLERATION_WORK * len(taints) * (1 + len(tolerations))
    return prevent_allocation(taints, tolerations)
