"""PodGroups and their claims: a group's claim is reserved once for the group, not for each of its pods.

Rules of this module
  1. An entry of a pod's `spec.resourceClaims` is the group's when the PodGroup has one of the same name and source.
  2. Pods know their group by name only; a reservation for the group counts for every pod that names it.

Not here: placing the pods of a group together (`group`, `core.group_cycles`), and making the group's claims (the
resource claim controller).

Source: k8s.io/dynamic-resource-allocation resourceclaim (IsForPod, IsReservedForPod), KEP-5729; scheduling.k8s.io
v1alpha2 in Kubernetes 1.36, v1beta1 in 1.37, with the gates GenericWorkload and DRAWorkloadResourceClaims.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from scheduler.model.claim import Consumer, ResourceClaim
from scheduler.model.keys import PodGroupKey
from scheduler.model.objects import OwnerReference, Pod, PodResourceClaim

API_GROUP: Final = "scheduling.k8s.io"
RESOURCE: Final = "podgroups"


class GroupCondition(NamedTuple):
    """Of a PodGroup: whether it was placed for the first time, and why not."""

    is_true: bool
    reason: str
    message: str


class Disrupted(Enum):
    """How the pods of a group are removed to make room for others."""

    ALONE = "single"
    TOGETHER = "all"  # v1alpha2: PodGroup


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A group as observed, with the claims its pods share.

    `min_count`: how many of its pods are placed together or not at all; None: each is placed by itself (policy basic).
    `unread`: paths of fields that nobody here acts on; its pods wait.
    `priority`: 0 where it says none, as in kube-scheduler.
    `preemption_policy`: None where it says none.
    `disrupted`: its disruptionMode, None where it says none.
    `topology_key`: a node label of which all of its pods' nodes have the same value.
    `generation`, `condition`: of its status; no other group for it.
    """

    key: PodGroupKey
    uid: str
    claims: tuple[PodResourceClaim, ...] = ()
    min_count: int | None = None
    unread: tuple[str, ...] = ()
    priority: int = 0
    preemption_policy: str | None = None
    disrupted: Disrupted | None = None
    topology_key: str | None = None
    generation: int = field(default=0, compare=False)
    condition: GroupCondition | None = field(default=None, compare=False)

    @property
    def consumer(self) -> Consumer:
        """The one entry of `status.reservedFor` for all of its pods."""
        return Consumer(RESOURCE, self.key.name, self.uid, API_GROUP)


def condition_type(*, is_136: bool) -> str:
    return "PodGroupScheduled" if is_136 else "PodGroupInitiallyScheduled"


def group_key(pod: Pod) -> PodGroupKey | None:
    """The group that `pod` names, None for a pod of its own."""
    group = pod.spec.scheduling_group
    return PodGroupKey(pod.metadata.namespace, group.pod_group_name) if group and group.pod_group_name else None


def is_for_group(consumer: Consumer, pod: Pod) -> bool:
    """Whether a reservation is for the group of `pod`."""
    key = group_key(pod)
    return key is not None and (consumer.api_group, consumer.resource, consumer.name) == (API_GROUP, RESOURCE, key.name)


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether `pod` may use the claim: it is reserved for the pod, or for its group."""
    if claim.is_reserved_for(pod.uid):
        return True
    return pod.spec.scheduling_group is not None and any(is_for_group(one, pod) for one in claim.reserved_for)


def is_group_owner(owner: OwnerReference | None, pod: Pod) -> bool:
    """Whether a claim's controller is the group of `pod`; the version of the API does not matter."""
    key = group_key(pod)
    return (
        owner is not None
        and key is not None
        and owner.kind == "PodGroup"
        and owner.api_version.partition("/")[0] == API_GROUP
        and owner.name == key.name
    )
