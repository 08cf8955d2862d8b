"""What goes into the machine: a closed union of frozen records.

Observations carry the whole decoded object. The machine keeps the newest state by revision, so duplicates and late
arrivals are harmless. Answers carry the id of the decision they answer.

A deletion carries the revision at which it is known to be true: that of the DELETED event's object, or of the list in
which the object is missing. So an old list deletes nothing newer than itself, and a late event of a deleted object does
not bring it back. 0 means unknown: the deletion is believed, and for objects with a uid it is final.

New observations of a kind arrive in revision order, lists included. So once a claim at revision r has been observed,
every claim stored before r has been observed too.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from scheduler.framework.decisions import WriteId
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ObjectKey
from scheduler.model.objects import Pod
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim


class Observed(Struct, frozen=True):
    """An object exists, in this state.

    Args:
        kind: "Pod", "ResourceClaim", …: one of `observation.KINDS`.
        object: A record of the model, or of the allocator. The row of the kind knows its type.
    """

    kind: str
    key: ObjectKey
    uid: str
    revision: int
    object: Any


class Deleted(Struct, frozen=True):
    """An object exists no more. Pods and claims are known by their uid, all others by their key.

    Of a kind that the server has stopped serving revision 0 says nothing about what is stored: the object may return.
    """

    kind: str
    key: ObjectKey
    uid: str
    revision: int = 0


class RelistFinished(Struct, frozen=True):
    """The shell has delivered everything of `kind` that exists; nothing is scheduled before all kinds have said so.

    Args:
        kind: One of `observation.KINDS`, also where the API server does not serve it.
        is_readable: False: the API server does not let us read the kind. What was known of it is not withdrawn by this.
    """

    kind: str
    is_readable: bool = True


class WriteAccepted(Struct, frozen=True):
    """The write or read succeeded.

    Args:
        claim: For claim writes (but DeleteClaim) and ReadClaim: the claim as the server answered.
        pod: For ReadPod, PatchExtendedResources, PatchNodeAllocatable and a PatchPodStatus with a fence: the pod as the
            server answered.
        volume: For BindPersistentVolume and SelectNode: the volume, or the claim for one, as the server answered.
    """

    id: WriteId
    claim: ResourceClaim | None = None
    pod: Pod | None = None
    volume: PersistentVolume | PersistentVolumeClaim | None = None


class WriteConflicted(Struct, frozen=True):
    """The object has another revision, or the pod is bound or has another uid (409). Nothing was changed."""

    id: WriteId
    message: str = ""


class WriteRejected(Struct, frozen=True):
    """The server refused; nothing was changed.

    Args:
        code: The HTTP status: 404 gone, 403 forbidden, 422 invalid, …
        is_configuration: Our permissions are incomplete (403, or 422 about `resourceclaims/binding`): retrying
            in a loop helps nobody; the shell reports it and `/readyz` fails.
        is_retriable: Certainly not executed (429, connection refused before sending): try again after a backoff.
    """

    id: WriteId
    code: int
    reason: str
    message: str
    is_configuration: bool = False
    is_retriable: bool = False


class WriteOutcomeUnknown(Struct, frozen=True):
    """The request may or may not have been executed, or may still arrive (timeout, connection lost, 5xx)."""

    id: WriteId
    message: str = ""


class TimerFired(Struct, frozen=True):
    """Time has passed: pods whose backoff ended, waits that ran out, and a batch of scheduling cycles."""


Input: TypeAlias = (
    Observed
    | Deleted
    | RelistFinished
    | WriteAccepted
    | WriteConflicted
    | WriteRejected
    | WriteOutcomeUnknown
    | TimerFired
)
