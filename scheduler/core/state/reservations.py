"""What is set aside for a pod from Reserve on: devices, volumes, and room on its node. All of it, or nothing.

Not here: what is observed meanwhile (the overlays and `store`); which pods a release wakes (`aftermath`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from scheduler.core.state.claim_overlay import ClaimOverlay
from scheduler.core.state.store import Store
from scheduler.core.state.volume_overlay import Holdable, VolumeOverlay
from scheduler.framework.api import ReserveResult
from scheduler.model.held import Held
from scheduler.model.keys import NodeName, PodUid


class Released(NamedTuple):
    """Holds that have ended; a volume, or a claim for one, as it was held and as it is stored."""

    devices: tuple[Held, ...]
    volumes: list[tuple[Holdable, Holdable]]


class Reservations:
    """What is set aside for each pod."""

    def __init__(self, store: Store, overlay: ClaimOverlay, volumes: VolumeOverlay) -> None:
        self._store: Final = store
        self._overlay: Final = overlay
        self._volumes: Final = volumes

    def put(self, uid: PodUid, node: NodeName, reserved: ReserveResult) -> None:
        """Count the pod on `node`, and keep for it what Reserve found."""
        self._overlay.hold(uid, reserved.held)
        self._store.assume(uid, node, reserved.of_node)
        if reserved.volumes:
            self._volumes.hold(uid, reserved.volumes)

    def release(self, uid: PodUid, *, is_bound: bool = False) -> Released:
        """Release what is still set aside. A pod that is bound keeps its room on its node."""
        released = Released(self._overlay.release(uid), self._volumes.release(uid))
        if not is_bound:
            self._store.forget_assumed(uid)
        return released
