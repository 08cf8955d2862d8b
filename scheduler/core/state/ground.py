"""What every part of the core stands on: the state, the time, what is decided, and the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from allocator import Features
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.fair_places import FairPlaces
from scheduler.core.ground.outbox import Outbox
from scheduler.core.ground.timers import TimerId, Timers
from scheduler.core.state.claim_overlay import ClaimOverlay
from scheduler.core.state.core_view import CoreView
from scheduler.core.state.kept_devices import KeptDevices
from scheduler.core.state.reservations import Reservations
from scheduler.core.state.store import Store
from scheduler.core.state.supposition import Suppositions
from scheduler.core.state.volume_overlay import VolumeOverlay


class Ground(Struct, frozen=True):
    """Whole before any other part is made, so each part takes this and its own neighbours."""

    store: Store
    overlay: ClaimOverlay
    volumes: VolumeOverlay
    stakes: Reservations
    outbox: Outbox
    timers: Timers
    settings: CoreSettings
    view: CoreView
    suppositions: Suppositions
    kept: KeptDevices

    def retry(self, action: Callable[[], None], attempts: int, *, is_hopeless: bool = False) -> TimerId:
        """Call `action` when a write, or its read, may be sent again; see `CoreSettings.write_retry_ms`."""
        wait_ms = self.settings.write_retry_ms(attempts, is_hopeless=is_hopeless)
        return self.timers.at(self.timers.now_ms + wait_ms, action)


class Part:
    """A part of the core, with names of its own for what it stands on: these are looked up again and again."""

    __slots__ = (
        "_ground", "_kept", "_outbox", "_overlay", "_retry", "_settings", "_stakes", "_store", "_timers", "_view",
        "_volumes",
    )  # fmt: skip

    def __init__(self, ground: Ground) -> None:
        self._ground: Final = ground
        self._store: Final = ground.store
        self._overlay: Final = ground.overlay
        self._volumes: Final = ground.volumes
        self._stakes: Final = ground.stakes
        self._outbox: Final = ground.outbox
        self._timers: Final = ground.timers
        self._settings: Final = ground.settings
        self._view: Final = ground.view
        self._kept: Final = ground.kept
        self._retry: Final = ground.retry


def make_ground(features: Features, new_uid: Callable[[], str], places: FairPlaces, settings: CoreSettings) -> Ground:
    """That of a machine which knows nothing yet."""
    store, timers = Store(features, settings.remembered_bytes_max), Timers()
    overlay, volumes = ClaimOverlay(store), VolumeOverlay(store)
    return Ground(
        store,
        overlay,
        volumes,
        Reservations(store, overlay, volumes),
        Outbox(places, timers, takes_notes=settings.takes_notes),
        timers,
        settings,
        CoreView(store, overlay, new_uid, settings.stacks),
        Suppositions(store),
        KeptDevices(store, overlay),
    )
