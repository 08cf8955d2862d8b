"""The search's stack: choices that were made and can be taken back, and what came of a move."""

from __future__ import annotations

from enum import Enum
from typing import Final

from allocator.requests import RequestPlan, Slot


class Went(Enum):
    """What came of a move."""

    DOWN = 1
    """A frame was put on the stack; go on with it."""
    DONE = 2
    FAILED = 3
    EXCEEDED = 4
    """More than 32 devices for one claim, whichever devices are picked: fewer are needed further up."""


class Kind(Enum):
    """What a frame chooses: an alternative of a request, one device, several at once, or all of an All slot."""

    LIST = 1
    PICK = 2
    BULK = 3
    ALL = 4


class Frame:
    """A choice that was made and can be taken back.

    `rest` is what is left to try (PICK: devices), `positions` what is picked now. `picked`, `picked_of_claim`
    and `mark` are the state before.
    """

    __slots__ = (
        "all_exceeded",
        "alternative",
        "conflicts",
        "key",
        "kind",
        "mark",
        "need",
        "node",
        "number",
        "picked",
        "picked_of_claim",
        "positions",
        "request",
        "rest",
        "slot",
    )

    def __init__(self, kind: Kind, node: int, request: RequestPlan, slot: Slot | None) -> None:
        self.kind: Final = kind
        self.node: Final = node
        self.request: Final = request
        self.slot: Final = slot
        self.alternative = -1
        self.all_exceeded = True
        self.conflicts = 0
        self.key: object = None
        self.mark = 0
        self.need = 0
        self.number = 0
        self.picked = 0
        self.picked_of_claim = 0
        self.positions: tuple[int, ...] = ()
        self.rest = 0
