"""Which devices are refused, at which stage: counted for explanations (`explain`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from allocator.requests.requests import Slot


class Stage(StrEnum):
    """What removed a device from the candidates of a request, in words, in the order the checks are made."""

    IN_USE = "in use"
    CLASS_SELECTOR = "not of the device class"
    REQUEST_SELECTOR = "not matched by the request's selectors"
    NODE = "for other nodes"
    CAPACITY = "without the requested capacity"
    COUNTERS = "without counters left in their pool"
    TAINT = "tainted and not tolerated"
    CONSTRAINT = "refused by a constraint of the claim"
    FEATURE = "need a feature that is off"


class Census:
    """Masks of refused devices, by slot and stage: a device counts once for each."""

    def __init__(self) -> None:
        self._refused: Final[dict[int, dict[Stage, int]]] = {}

    def refuse(self, slot: Slot, devices: int, stage: Stage) -> None:
        """The slot cannot have these devices."""
        if devices:
            of_slot = self._refused.setdefault(slot.index, {})
            of_slot[stage] = of_slot.get(stage, 0) | devices

    def counts(self, slot: Slot) -> Mapping[Stage, int]:
        """How many devices each stage refused to the slot, in the order of the stages."""
        of_slot = self._refused.get(slot.index, {})
        return {stage: of_slot[stage].bit_count() for stage in Stage if stage in of_slot}
