"""What the machine is told: a closed union of frozen records.

Observations carry the whole decoded object; the machine keeps the newer of what it has and what it is told, by
revision, so duplicates and late arrivals are harmless. Answers carry the id of the decision they answer.

A deletion carries the revision at which it is known to be true: that of the DELETED event's object, or of the list in
which the object is missing. Then a list older than what was seen deletes nothing, and a late event of a deleted object
does not bring it back. 0 means unknown: the deletion is believed, and for objects with a uid it is final.

Observations of one kind that are new come in the order of their revisions, those of a list too: a claim observed at a
revision tells that all that was stored before it has been told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from allocator import DeviceClass, ResourceSlice
from scheduler.framework.decisions import WriteId
from scheduler.model.claim import ResourceClaim
from scheduler.model.device_taint_rules import DeviceTaintRule
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, PodGroupKey, PodKey, PodUid
from scheduler.model.objects import Namespace, Node, Pod
from scheduler.model.pod_group import PodGroup


@dataclass(frozen=True, slots=True)
class PodObserved:
    pod: Pod


@dataclass(frozen=True, slots=True)
class PodDeleted:
    key: PodKey
    uid: PodUid
    revision: int = 0


@dataclass(frozen=True, slots=True)
class NodeObserved:
    node: Node


@dataclass(frozen=True, slots=True)
class NodeDeleted:
    name: NodeName
    revision: int = 0


@dataclass(frozen=True, slots=True)
class ClaimObserved:
    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class ClaimDeleted:
    key: ClaimKey
    uid: ClaimUid
    revision: int = 0


@dataclass(frozen=True, slots=True)
class SliceObserved:
    slice: ResourceSlice
    revision: int


@dataclass(frozen=True, slots=True)
class SliceDeleted:
    name: str
    revision: int = 0


@dataclass(frozen=True, slots=True)
class ClassObserved:
    device_class: DeviceClass
    revision: int


@dataclass(frozen=True, slots=True)
class ClassDeleted:
    name: str
    revision: int = 0


@dataclass(frozen=True, slots=True)
class TaintRuleObserved:
    rule: DeviceTaintRule
    revision: int


@dataclass(frozen=True, slots=True)
class TaintRuleDeleted:
    """Revision 0: the server serves no rules any more, which says nothing about what it stores."""

    name: str
    revision: int = 0


@dataclass(frozen=True, slots=True)
class NamespaceObserved:
    namespace: Namespace


@dataclass(frozen=True, slots=True)
class NamespaceDeleted:
    name: str
    revision: int = 0


@dataclass(frozen=True, slots=True)
class PodGroupObserved:
    group: PodGroup
    revision: int


@dataclass(frozen=True, slots=True)
class PodGroupDeleted:
    """Revision 0: the server serves no groups any more, which says nothing about what it stores."""

    key: PodGroupKey
    revision: int = 0


@dataclass(frozen=True, slots=True)
class RelistFinished:
    """The shell has delivered everything of `kind` that exists; nothing is scheduled before all kinds have said so.

    Args:
        kind: "Pod", "Node", "ResourceClaim", "ResourceSlice", "DeviceClass", "Namespace", "DeviceTaintRule" or
            "PodGroup" (both also where the API server serves none).
    """

    kind: str


@dataclass(frozen=True, slots=True)
class WriteAccepted:
    """The write or read succeeded.

    Args:
        claim: For claim writes (but DeleteClaim) and ReadClaim: the claim as the server answered.
        pod: For ReadPod, PatchExtendedResources, PatchNodeAllocatable and a PatchPodStatus with a fence: the pod as the
            server answered.
    """

    id: WriteId
    claim: ResourceClaim | None = None
    pod: Pod | None = None


@dataclass(frozen=True, slots=True)
class WriteConflicted:
    """The object has another revision, or the pod is bound or has another uid (409). Nothing was changed."""

    id: WriteId
    message: str = ""


@dataclass(frozen=True, slots=True)
class WriteRejected:
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


@dataclass(frozen=True, slots=True)
class WriteOutcomeUnknown:
    """The request may or may not have been executed, or may still arrive (timeout, connection lost, 5xx)."""

    id: WriteId
    message: str = ""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """Time has passed: pods whose backoff ended, waits that ran out, and a batch of scheduling cycles."""


Input: TypeAlias = (
    PodObserved
    | PodDeleted
    | NodeObserved
    | NodeDeleted
    | ClaimObserved
    | ClaimDeleted
    | SliceObserved
    | SliceDeleted
    | ClassObserved
    | ClassDeleted
    | TaintRuleObserved
    | TaintRuleDeleted
    | NamespaceObserved
    | NamespaceDeleted
    | PodGroupObserved
    | PodGroupDeleted
    | RelistFinished
    | WriteAccepted
    | WriteConflicted
    | WriteRejected
    | WriteOutcomeUnknown
    | TimerFired
)
