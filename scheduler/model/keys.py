"""Named keys: every identity is a type of its own, never a bare string or half a key."""

from __future__ import annotations

from typing import NamedTuple, NewType

PodUid = NewType("PodUid", str)
ClaimUid = NewType("ClaimUid", str)
NodeName = NewType("NodeName", str)


class ObjectKey(NamedTuple):
    """Where an object of a given kind is found on the API server; cluster-scoped ones have an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class PodGroupKey(ObjectKey):
    """Of a PodGroup."""

    __slots__ = ()


class PodKey(ObjectKey):
    """Of a pod. One that is created again has the same key and another `PodUid`."""

    __slots__ = ()


class VolumeClaimKey(ObjectKey):
    """Of a PersistentVolumeClaim."""

    __slots__ = ()


class ClaimKey(ObjectKey):
    """Of a ResourceClaim."""

    __slots__ = ()
