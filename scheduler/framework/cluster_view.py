"""What plugins may read of the cluster: the store itself, which cannot change during a cycle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from allocator import Allocation, DeviceId, DeviceTaint, Features, Inventory, Ledger
from scheduler.framework.pod_counts_view import PodCountsView
from scheduler.framework.preemption import Preemption, RunningGroup
from scheduler.framework.storage_view import StorageView
from scheduler.model.claim import ResourceClaim
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.group import GroupKey, GroupSize
from scheduler.model.images import ImageState
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, PodGroupKey, PodKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import LabelSelector, Namespace, Pod
from scheduler.model.pod_group import PodGroup
from scheduler.model.stacks import Stacks


class ClusterView(Protocol):
    """What plugins may read of the cluster: the store itself, which cannot change during a cycle."""

    @property
    def features(self) -> Features: ...
    @property
    def stacks(self) -> Stacks: ...
    @property
    def inventory(self) -> Inventory:
        """All published slices and device classes."""
        ...

    @property
    def in_use(self) -> Ledger:
        """Devices taken by allocations of the API server and by ours in flight (held or doubtful)."""
        ...

    @property
    def node_infos(self) -> Mapping[NodeName, NodeInfo]: ...
    def image(self, name: str) -> ImageState | None:
        """The image of that name, when some node has it."""
        ...

    def claim(self, key: ClaimKey) -> ResourceClaim | None:
        """The claim as last observed."""
        ...

    def claim_names(self, namespace: str) -> Sequence[str]:
        """Names of the namespace's claims, for a person who has mistyped one; of a great many only the first."""
        ...

    def holders(self, device: DeviceId) -> Sequence[ResourceClaim]:
        """Claims that hold the device or a share of it; of a great many only the first."""
        ...

    def taint_rule(self, device: DeviceId, taint: DeviceTaint) -> str:
        """The DeviceTaintRule that puts the taint on the device, "" where its driver does."""
        ...

    def pod_named(self, key: PodKey) -> Pod | None:
        """The pod that has this name now."""
        ...

    def is_held(self, claim: ClaimUid) -> bool:
        """Whether an allocation of this claim is in flight (held or doubtful) for some pod."""
        ...

    def counted(self, claim: ClaimUid) -> Sequence[Allocation]:
        """What counts as in use for this claim: its allocation as observed, the one in flight, or both."""
        ...

    def pod(self, uid: PodUid) -> Pod | None: ...
    def node_of(self, pod: PodUid) -> NodeName | None:
        """The node that the pod is bound to or assumed on; None for one that waits, has ended or is gone."""
        ...

    def preemption_of(self, uid: PodUid) -> Preemption | None:
        """What is outstanding of the room that is being made for the pod; None when none is.

        Its victims are those that are still there, `released` the claims that are still allocated, or held, as
        recorded. While there is either, the pod may not preempt again. With neither the room is there, and kept.
        """
        ...

    def running_group(self, pod: Pod) -> RunningGroup | None:
        """The gang of the pod, None for a pod of its own. O(pods of the gang)."""
        ...

    def awaiting_release(self, claim: ClaimKey) -> Pod | None:
        """The most important pod that waits for the claim's release, as its users were preempted; None for nobody."""
        ...

    def was_awaited_in_vain(self, claim: ClaimKey) -> bool:
        """Whether users of the claim were preempted, and others have been given what it still has."""
        ...

    def namespace(self, name: str) -> Namespace | None: ...
    def pod_group(self, key: PodGroupKey) -> PodGroup | None:
        """The group as last observed; always None where the API server serves none."""
        ...

    def gang_members(self, key: GroupKey) -> Collection[PodUid]:
        """All observed pods that name this group, bound and finished ones too, in the order in which they came."""
        ...

    def group_size(self, key: GroupKey) -> GroupSize: ...

    @property
    def storage(self) -> StorageView:
        """Volumes, claims for them, classes and CSI objects."""
        ...

    @property
    def pod_counts(self) -> PodCountsView:
        """Pods on all nodes, counted by what plugins ask."""
        ...

    def selectors_of(self, pod: Pod) -> LabelSelector | None:
        """What the Services that select `pod`, and its ReplicaSet or other owner, demand together; None for nothing."""
        ...

    def disruption_budgets(self, namespace: str) -> Sequence[DisruptionBudget]:
        """The PodDisruptionBudgets of a namespace, by name; none where they are not served."""
        ...

    def knows_disruption_budgets(self) -> bool:
        """False where the PodDisruptionBudgets are not ours to read: nobody knows which pods they guard."""
        ...

    def users_of(self, claim: ClaimKey) -> Sequence[PodUid]:
        """Pods whose spec or status refers to this claim."""
        ...

    def claims_of(self, pod: PodUid) -> Sequence[ClaimKey]:
        """The claims that a pod refers to by name, as far as they have names; the name of its special claim, too."""
        ...

    def new_uid(self) -> str:
        """A fresh lower-case UUID (share ids), deterministic under test."""
        ...
