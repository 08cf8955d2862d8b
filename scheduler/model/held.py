"""A claim with an allocation that it does not have yet, or will not have any more."""

from __future__ import annotations

from msgspec import Struct

from allocator import Allocation
from scheduler.model.keys import ClaimKey, ClaimUid


class Held(Struct, frozen=True):
    """A claim and its allocation, as Reserve wants it counted until the claim is observed with it."""

    claim: ClaimKey
    uid: ClaimUid
    allocation: Allocation
