"""Faults that the machine cannot mend by itself: refusals for lack of permissions, for readiness and logs."""

from __future__ import annotations

from typing import Final

from scheduler.core.ground.inputs import WriteRejected

_PROBLEMS_MAX: Final = 32


class Problems:
    """Refusals that are about our configuration, until a pod has been bound again."""

    def __init__(self) -> None:
        self._texts: Final[dict[str, None]] = {}

    def refused(self, refusal: WriteRejected) -> None:
        """Keep a refusal that retrying does not mend."""
        if refusal.is_configuration and len(self._texts) < _PROBLEMS_MAX:
            self._texts[f"the API server refuses a write ({refusal.code} {refusal.reason}): {refusal.message}"] = None

    def succeeded(self) -> None:
        """A pod went all the way: permissions are complete now."""
        self._texts.clear()

    def texts(self) -> tuple[str, ...]:
        return tuple(self._texts)
