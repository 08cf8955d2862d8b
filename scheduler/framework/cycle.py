"""Per-pod scratch of one scheduling attempt: typed slots instead of a string-keyed bag."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from scheduler.model.objects import Pod

UNLIMITED_STEPS: Final = 2**62
LOOKUPS_PER_STEP: Final = 16
"""A step is about 4 us, a lookup in a count or a comparison 0.25."""

Slot = TypeVar("Slot")


class Cycle:
    """One attempt to schedule `pod`. Plugins keep what they need between extension points in slots of their own type.

    A cycle lives from PreFilter until the pod is bound or given up; it is never shared between pods.

    Attributes:
        steps_left: Steps of costly searches that Filter may still take before it says UNFINISHED; plugins subtract what
            they took, and may take a little more.
        looked_up: What was charged by `charge` and is no whole step yet.
    """

    __slots__ = ("_slots", "looked_up", "now_ms", "pod", "steps_left")

    def __init__(self, pod: Pod, now_ms: int, steps_left: int = UNLIMITED_STEPS) -> None:
        self.pod = pod
        self.now_ms = now_ms  # the time of the extension point being called, set by the runner
        self.steps_left = steps_left
        self.looked_up = 0
        self._slots: dict[type[object], Any] = {}

    def charge(self, lookups: int) -> None:
        """Take steps for so many lookups or comparisons: in counts of a domain, of tolerations, of expressions."""
        lookups += self.looked_up
        if lookups >= LOOKUPS_PER_STEP:
            self.steps_left -= lookups // LOOKUPS_PER_STEP
            lookups %= LOOKUPS_PER_STEP
        self.looked_up = lookups

    def put(self, slot: object) -> None:
        """Store `slot` under its type, replacing an earlier one."""
        self._slots[type(slot)] = slot

    def get(self, kind: type[Slot]) -> Slot:
        """The slot of type `kind`; KeyError when the plugin's earlier extension point did not store it."""
        slot: Slot = self._slots[kind]  # `put` stores it under its own type
        return slot

    def find(self, kind: type[Slot]) -> Slot | None:
        """The slot of type `kind`, or None."""
        slot: Slot | None = self._slots.get(kind)
        return slot
