"""Hooks through which the search tells what it does. Counting and texts are made from them (`explain`).

An observer sees; it cannot change an answer. With `SILENT` (the default) the search skips the calls.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Protocol

from allocator.model import DeviceId


class Stage(StrEnum):
    """What removed a device from the candidates of a request, in the order the checks are made."""

    IN_USE = "in use"
    CLASS_SELECTOR = "class selector"
    REQUEST_SELECTOR = "request selector"
    NODE = "node"
    CAPACITY = "capacity"
    COUNTERS = "counters"
    TAINT = "taint"
    CONSTRAINT = "constraint"
    FEATURE = "feature off"


class Observer(Protocol):
    """Receives what happens during one call of `allocate`. Methods must not raise."""

    def rejected(self, claim: int, request: str, device: DeviceId, stage: Stage) -> None:
        """`device` cannot serve `request` (`req` or `req/sub`) of the claim with this index.

        Called once per device for what holds before anything is picked, and once per trial for what
        depends on the devices picked so far.
        """

    def picked(self, claim: int, request: str, device: DeviceId) -> None:
        """`device` is taken for `request`, for now."""

    def backtracked(self, claim: int, request: str, device: DeviceId) -> None:
        """A pick is taken back."""


class _Silent:
    """Does nothing."""

    def rejected(self, claim: int, request: str, device: DeviceId, stage: Stage) -> None:
        """Nothing."""

    def picked(self, claim: int, request: str, device: DeviceId) -> None:
        """Nothing."""

    def backtracked(self, claim: int, request: str, device: DeviceId) -> None:
        """Nothing."""


SILENT: Final[Observer] = _Silent()
