"""All that sends writes to the API server and drives each to a known outcome.

Not here: the pods' conditions, on which nothing depends (`pod_conditions`), and bindings (`binding_cycle`).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from scheduler.core.reports.troubles import Troubles
from scheduler.core.state.ground import Ground
from scheduler.core.writes.claim_writes import ClaimWrites
from scheduler.core.writes.pod_removals import PodRemovals
from scheduler.core.writes.pod_writes import PodWrites
from scheduler.core.writes.taking_back import TakingBack
from scheduler.core.writes.volume_writes import VolumeWrites
from scheduler.model.keys import ClaimKey


class Writers(Struct, frozen=True):
    """Those of one machine."""

    claims: ClaimWrites
    pods: PodWrites
    volumes: VolumeWrites
    removals: PodRemovals
    taking_back: TakingBack


def make_writers(ground: Ground, troubles: Troubles, freed: Callable[[ClaimKey], None]) -> Writers:
    """`freed` is called with the claim after one of its writes was settled."""
    claims, pods = ClaimWrites(ground, troubles, freed=freed), PodWrites(ground, troubles)
    taking_back = TakingBack(ground, claims, pods)
    return Writers(claims, pods, VolumeWrites(ground, troubles), PodRemovals(ground, troubles), taking_back)
