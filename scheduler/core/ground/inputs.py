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

from typing import TypeAlias

from msgspec import Struct

from allocator import DeviceClass, ResourceSlice
from scheduler.framework.decisions import WriteId
from scheduler.model.claim import ResourceClaim
from scheduler.model.device_taint_rules import DeviceTaintRule
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, ObjectKey, PodGroupKey, PodKey, PodUid
from scheduler.model.objects import Namespace, Node, Pod
from scheduler.model.pod_group import PodGroup
from scheduler.model.pod_selectors import PodSelector
from scheduler.model.storage import AnyStorageObject, PersistentVolume, PersistentVolumeClaim


class PodObserved(Struct, frozen=True):
    pod: Pod


class PodDeleted(Struct, frozen=True):
    key: PodKey
    uid: PodUid
    revision: int = 0


class NodeObserved(Struct, frozen=True):
    node: Node


class NodeDeleted(Struct, frozen=True):
    name: NodeName
    revision: int = 0


class ClaimObserved(Struct, frozen=True):
    claim: ResourceClaim


class ClaimDeleted(Struct, frozen=True):
    key: ClaimKey
    uid: ClaimUid
    revision: int = 0


class SliceObserved(Struct, frozen=True):
    slice: ResourceSlice
    revision: int


class SliceDeleted(Struct, frozen=True):
    name: str
    revision: int = 0


class ClassObserved(Struct, frozen=True):
    device_class: DeviceClass
    revision: int


class ClassDeleted(Struct, frozen=True):
    name: str
    revision: int = 0


class TaintRuleObserved(Struct, frozen=True):
    rule: DeviceTaintRule
    revision: int


class TaintRuleDeleted(Struct, frozen=True):
    """Revision 0: the server serves no rules any more, which says nothing about what it stores."""

    name: str
    revision: int = 0


class NamespaceObserved(Struct, frozen=True):
    namespace: Namespace


class NamespaceDeleted(Struct, frozen=True):
    name: str
    revision: int = 0


class PodGroupObserved(Struct, frozen=True):
    group: PodGroup
    revision: int


class PodGroupDeleted(Struct, frozen=True):
    """Revision 0: the server serves no groups any more, which says nothing about what it stores."""

    key: PodGroupKey
    revision: int = 0


class StorageObserved(Struct, frozen=True):
    """A volume, a claim for one, a class or a CSI object."""

    object: AnyStorageObject


class StorageDeleted(Struct, frozen=True):
    """Args:
    kind: "PersistentVolume", …, the name of a class of `model.storage`.
    """

    kind: str
    key: ObjectKey
    revision: int = 0


class PodSelectorObserved(Struct, frozen=True):
    selector: PodSelector
    revision: int


class PodSelectorDeleted(Struct, frozen=True):
    """Args:
    kind: One of `model.pod_selectors.SELECTOR_KINDS`.
    """

    kind: str
    key: ObjectKey
    revision: int = 0


class DisruptionBudgetObserved(Struct, frozen=True):
    budget: DisruptionBudget
    revision: int


class DisruptionBudgetDeleted(Struct, frozen=True):
    key: ObjectKey
    revision: int = 0


class RelistFinished(Struct, frozen=True):
    """The shell has delivered everything of `kind` that exists; nothing is scheduled before all kinds have said so.

    Args:
        kind: "Pod", "Node", "ResourceClaim", "ResourceSlice", "DeviceClass", "Namespace", "DeviceTaintRule" or
            "PodGroup" (both also where the API server serves none), or a kind that a plugin reads (`Plugin.reads`).
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


ForPlugins: TypeAlias = (
    StorageObserved
    | StorageDeleted
    | PodSelectorObserved
    | PodSelectorDeleted
    | DisruptionBudgetObserved
    | DisruptionBudgetDeleted
)
"""Of kinds that are watched only where a plugin reads them."""
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
    | ForPlugins
    | RelistFinished
    | WriteAccepted
    | WriteConflicted
    | WriteRejected
    | WriteOutcomeUnknown
    | TimerFired
)
