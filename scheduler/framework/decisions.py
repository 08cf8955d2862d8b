"""What the machine asks its shell to do: a closed union of frozen records.

A decision with an `id` is answered by exactly one input that carries this id (`scheduler.core.ground.inputs`):
accepted, conflicted, rejected or outcome unknown. Events have no answer. The shell executes decisions that name the
same object in the order given, others in parallel, and decides nothing itself. Its `doing` is what a person reads of it
before the object's name.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NewType, TypeAlias

from msgspec import Struct

from allocator import Allocation
from scheduler.model.claim import Consumer
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, PodGroupKey, PodKey, PodUid, VolumeClaimKey
from scheduler.model.objects import ExtendedResourceClaimStatus, NodeAllocatableClaim
from scheduler.model.special_claim import DeviceCount

WriteId = NewType("WriteId", int)
UNSENT = WriteId(0)  # plugins build decisions with this id; the machine numbers them


class AddClaimFinalizer(Struct, frozen=True):
    """PATCH the claim: add our delete-protection finalizer, provided it still has `expect_revision`."""

    doing: ClassVar[str] = "adding the finalizer to ResourceClaim"
    claim: ClaimKey
    uid: ClaimUid
    expect_revision: int
    finalizers: tuple[str, ...]  # the complete new list
    id: WriteId = UNSENT


class CreateClaim(Struct, frozen=True):
    """POST the special claim of a pod's extended resources, with our finalizer. 409 when its name is taken.

    Args:
        uid: The provisional uid (`special_claim.provisional_uid`); the answer shows the real one.
        pod, pod_uid: Its controller.
        requests: All that its spec asks for.
    """

    doing: ClassVar[str] = "creating ResourceClaim"
    claim: ClaimKey
    uid: ClaimUid
    pod: PodKey
    pod_uid: PodUid
    requests: tuple[DeviceCount, ...]
    id: WriteId = UNSENT


class RemoveClaimFinalizer(Struct, frozen=True):
    """PATCH the claim: take our delete-protection finalizer away, provided it still has `expect_revision`."""

    doing: ClassVar[str] = "removing the finalizer from ResourceClaim"
    claim: ClaimKey
    uid: ClaimUid
    expect_revision: int
    finalizers: tuple[str, ...]  # the complete new list
    id: WriteId = UNSENT


class DeleteClaim(Struct, frozen=True):
    """DELETE a claim that this scheduler made, provided it still has `expect_revision`."""

    doing: ClassVar[str] = "deleting ResourceClaim"
    claim: ClaimKey
    uid: ClaimUid
    expect_revision: int
    id: WriteId = UNSENT


class WriteClaimStatus(Struct, frozen=True):
    """PATCH the claim's status, provided it still has `expect_revision`.

    Args:
        allocation: Written when not None; None leaves the stored allocation as it is.
        clear_allocation: Remove allocation, reservations and device statuses (de-allocation).
        reserved_for: The complete new list, None to leave it.
        allocation_timestamp_ms: Unix time for `allocation.allocationTimestamp`, only together with `allocation`.
    """

    doing: ClassVar[str] = "writing the status of ResourceClaim"
    claim: ClaimKey
    uid: ClaimUid
    expect_revision: int
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] | None = None
    allocation_timestamp_ms: int | None = None
    clear_allocation: bool = False
    id: WriteId = UNSENT


class ReadClaim(Struct, frozen=True):
    """GET the claim, past any cache: after a conflict, or to learn what became of a write.

    Args:
        uid: The claim that is expected there; an answer that finds nothing says that this one is gone.
    """

    doing: ClassVar[str] = "reading ResourceClaim"
    claim: ClaimKey
    uid: ClaimUid
    id: WriteId = UNSENT


class BindPod(Struct, frozen=True):
    """POST the pod's binding. The API server refuses (409) when the pod is bound already or has another uid.

    Args:
        expect_revision: It refuses, too, when the pod has another revision; None: whatever its revision is.
    """

    doing: ClassVar[str] = "binding Pod"
    pod: PodKey
    uid: PodUid
    node: NodeName
    expect_revision: int | None = None
    id: WriteId = UNSENT


class ReadPod(Struct, frozen=True):
    """GET the pod: to learn what became of a binding.

    Args:
        uid: The pod that is expected there; an answer that finds nothing says that this one is gone.
    """

    doing: ClassVar[str] = "reading Pod"
    pod: PodKey
    uid: PodUid
    id: WriteId = UNSENT


class PatchPodStatus(Struct, frozen=True):
    """PATCH the pod's status: the PodScheduled condition, and the nominated node ("" clears it, None leaves it).

    Args:
        reason: "Unschedulable", "SchedulerError", or that of what it waits for; "" leaves the condition as it is.
        expect_revision: Only when the pod still has it; None: whatever its revision is.
        fence_ms: Unix time, whole seconds, for the condition's `lastProbeTime`; together with `expect_revision` it
            keeps bindings that were decided before from landing (`core.taking_back`). None leaves it as it is.
        generation: That of the pod's spec of which the condition speaks; 0 where it has none.
    """

    doing: ClassVar[str] = "writing the condition of Pod"
    pod: PodKey
    uid: PodUid
    reason: str
    message: str
    nominated_node: str | None = None
    expect_revision: int | None = None
    fence_ms: int | None = None
    generation: int = 0
    id: WriteId = UNSENT


class PatchPodGroupStatus(Struct, frozen=True):
    """PATCH the status of a PodGroup: the condition that says whether it was placed for the first time.

    Args:
        is_transition: Its `lastTransitionTime` is now.
        is_136: In the version of the API of Kubernetes 1.36, where the condition has another name.
        generation: That of the group's spec; 0 where it has none.
    """

    doing: ClassVar[str] = "writing the condition of PodGroup"
    group: PodGroupKey
    uid: str
    reason: str
    message: str
    is_true: bool
    is_transition: bool
    is_136: bool
    generation: int = 0
    id: WriteId = UNSENT


class PatchPodDisruption(Struct, frozen=True):
    """PATCH the pod's status: the condition DisruptionTarget=True, reason PreemptionByScheduler.

    Args:
        generation: That of the pod's spec; 0 where it has none.
    """

    doing: ClassVar[str] = "announcing the preemption of Pod"
    pod: PodKey
    uid: PodUid
    message: str
    generation: int = 0
    id: WriteId = UNSENT


class DeletePod(Struct, frozen=True):
    """DELETE the pod, provided it still has this uid, with the grace period that it asks for itself."""

    doing: ClassVar[str] = "deleting the preempted Pod"
    pod: PodKey
    uid: PodUid
    id: WriteId = UNSENT


class PatchExtendedResources(Struct, frozen=True):
    """PATCH the pod's `status.extendedResourceClaimStatus`, provided it still has `expect_revision`.

    Args:
        status: The new value; None removes it.
    """

    doing: ClassVar[str] = "writing the extended resources of Pod"
    pod: PodKey
    uid: PodUid
    expect_revision: int
    status: ExtendedResourceClaimStatus | None
    id: WriteId = UNSENT


class PatchNodeAllocatable(Struct, frozen=True):
    """PATCH the pod's `status.nodeAllocatableResourceClaimStatuses`, provided it still has `expect_revision`.

    Args:
        claims: The complete new list; empty removes it.
    """

    doing: ClassVar[str] = "writing the node allocatable resources of Pod"
    pod: PodKey
    uid: PodUid
    expect_revision: int
    claims: tuple[NodeAllocatableClaim, ...]
    id: WriteId = UNSENT


class BindPersistentVolume(Struct, frozen=True):
    """PATCH a volume: promise it to a claim, provided it still has `expect_revision`.

    Args:
        volume, uid: The PersistentVolume.
        claim, claim_uid, claim_revision: The new `spec.claimRef`.
        annotations: Those to set.
    """

    doing: ClassVar[str] = "promising a PersistentVolume to PersistentVolumeClaim"
    volume: str
    uid: str
    expect_revision: int
    claim: VolumeClaimKey
    claim_uid: str
    claim_revision: int
    annotations: tuple[tuple[str, str], ...] = ()
    id: WriteId = UNSENT


class SelectNode(Struct, frozen=True):
    """PATCH a PersistentVolumeClaim: have its volume made for `node`, provided it still has `expect_revision`."""

    doing: ClassVar[str] = "selecting the node of PersistentVolumeClaim"
    claim: VolumeClaimKey
    uid: str
    expect_revision: int
    node: NodeName
    id: WriteId = UNSENT


WaitStatus: TypeAlias = Literal["success", "failure", "timeout", "error"]


class BindingWait(Struct, frozen=True):
    """How a pod's wait for binding conditions ended, for the metrics.

    Args:
        profile: The scheduler name.
        drivers: The driver of each device that had to be waited for.
        waited_ms: 0 when all conditions were met already.
    """

    profile: str
    drivers: tuple[str, ...]
    status: WaitStatus
    waited_ms: int


class RecordEvent(Struct, frozen=True):
    """Create (or aggregate into) an events.k8s.io Event about a pod or claim. Best effort, never answered."""

    kind: str  # "Pod" or "ResourceClaim"; of the shell also "Lease"
    namespace: str
    name: str
    uid: str
    type: str  # "Normal" or "Warning"
    reason: str  # "Scheduled", "FailedScheduling", …
    action: str  # "Binding", "Scheduling", …
    note: str
    measured: BindingWait | None = None  # not part of the event
    reporter: str = ""  # a scheduler name; "": any
    related: tuple[str, str, str] | None = None  # namespace, name and uid of a second pod that it is about


ClaimWrite: TypeAlias = CreateClaim | AddClaimFinalizer | WriteClaimStatus | RemoveClaimFinalizer | DeleteClaim
PodNote: TypeAlias = PatchExtendedResources | PatchNodeAllocatable
"""What a kubelet, and other schedulers, read in the pod's status, about one node."""
PodRemoval: TypeAlias = PatchPodDisruption | DeletePod
VolumeWrite: TypeAlias = BindPersistentVolume | SelectNode
Condition: TypeAlias = PatchPodStatus | PatchPodGroupStatus
"""What people read, on which nothing waits."""
Answered: TypeAlias = ClaimWrite | ReadClaim | BindPod | ReadPod | Condition | PodNote | PodRemoval | VolumeWrite
Decision: TypeAlias = Answered | RecordEvent

ObjectOf: TypeAlias = PodKey | ClaimKey | VolumeClaimKey | PodGroupKey


def object_of(decision: Answered) -> ObjectOf:
    """The object that a decision reads or writes; of a volume the claim that gets it."""
    if isinstance(decision, PatchPodGroupStatus):
        return decision.group
    if isinstance(decision, BindPod | PatchPodStatus | PodNote | PodRemoval | ReadPod):
        return decision.pod
    return decision.claim
