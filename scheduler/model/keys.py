"""Named keys: every identity is a type of its own, never a bare string or half a key."""

from __future__ import annotations

from typing import NamedTuple, NewType

PodUid = NewType("PodUid", str)
ClaimUid = NewType("ClaimUid", str)
NodeName = NewType("NodeName", str)


class PodGroupKey(NamedTuple):
    """Where a PodGroup is found on the API server."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodKey(NamedTuple):
    """Where a pod is found on the API server. A re-created pod has the same key and another `PodUid`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ClaimKey(NamedTuple):
    """Where a ResourceClaim is found on the API server."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
