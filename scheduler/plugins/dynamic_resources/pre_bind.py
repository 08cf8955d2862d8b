"""PreBind of one claim: what is stored compared with what must be stored, and the next write.

States of a claim that this pod is about to use, in the order in which the claim passes through them
  1. unallocated, without our finalizer   -> AddClaimFinalizer
  2. unallocated, with finalizer          -> WriteClaimStatus with allocation and reservation in one conditional write
  3. allocated (by us, or before), not reserved for the pod -> WriteClaimStatus with the longer `reservedFor`
  4. reserved for the pod                 -> nothing to do
In any other state somebody else has won a race; the attempt ends with upstream's words for it.

Rules of this module
  1. Nothing is remembered between calls, the stored claim decides: a write whose answer was lost is no special case.
  2. Every write is conditional on the revision it was derived from.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (bindClaim) 1.36.3.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from allocator import Allocation, NodeView
from scheduler.framework.decisions import AddClaimFinalizer, WriteClaimStatus
from scheduler.model.api_rules import FINALIZER, RESERVED_FOR_MAX
from scheduler.model.claim import Consumer, ResourceClaim, is_usable_on
from scheduler.model.keys import ClaimKey, ClaimUid
from scheduler.model.objects import Pod
from scheduler.model.pod_group import is_reserved_for


class ClaimStored(Struct, frozen=True):
    """Nothing left to write for this claim; `claim` is its stored state."""

    claim: ResourceClaim


class ClaimLost(Struct, frozen=True):
    """The claim cannot be had any more; the text says what happened."""

    message: str


ClaimStep: TypeAlias = AddClaimFinalizer | WriteClaimStatus | ClaimStored | ClaimLost


class ClaimGoal(Struct, frozen=True):
    """What this pod needs of a claim.

    Args:
        planned: The allocation made in Reserve, None when it was allocated before.
        consumer: Whom to reserve it for instead of the pod: its group.
    """

    key: ClaimKey
    uid: ClaimUid
    planned: Allocation | None
    consumer: Consumer | None = None


def next_step(
    goal: ClaimGoal,
    stored: ResourceClaim | None,
    pod: Pod,
    node: NodeView,
    *,
    is_held: bool,
    allocation_timestamp_ms: int | None,
) -> ClaimStep:
    """The next write for one claim.

    Args:
        stored: The claim as last observed or answered, None when it is gone.
        is_held: Whether the devices of `goal.planned` are still held for us; other devices must not be written.
        allocation_timestamp_ms: Unix time to store with an allocation, None to store none.
    """
    if stored is None or stored.uid != goal.uid or stored.is_deleting:
        return ClaimLost(f"claim {goal.key} got deleted in the meantime")
    if stored.problem is not None:
        return ClaimLost(f"claim {goal.key} cannot be read: {stored.problem}")
    if stored.allocation is None:
        # A hold ends when its allocation is observed. If the allocation was removed again, others may have the devices.
        if goal.planned is None or not is_held:
            return ClaimLost(f"claim {goal.key} got deallocated elsewhere in the meantime")
        if FINALIZER not in stored.finalizers:
            return AddClaimFinalizer(goal.key, goal.uid, stored.revision, (*stored.finalizers, FINALIZER))
        return WriteClaimStatus(
            goal.key,
            goal.uid,
            stored.revision,
            allocation=goal.planned,
            reserved_for=_reserved(stored, goal, pod),
            allocation_timestamp_ms=allocation_timestamp_ms,
        )
    if not _is_usable(goal.planned, stored.allocation, node):
        return ClaimLost(f"claim {goal.key} got allocated elsewhere in the meantime")
    if is_reserved_for(stored, pod):
        return ClaimStored(stored)
    if len(stored.reserved_for) >= RESERVED_FOR_MAX:
        return ClaimLost(
            f"add reservation to claim {goal.key}: it is reserved for {len(stored.reserved_for)} consumers already "
            f"and cannot have more than {RESERVED_FOR_MAX}"
        )
    return WriteClaimStatus(goal.key, goal.uid, stored.revision, reserved_for=_reserved(stored, goal, pod))


def is_of_another_attempt(planned: Allocation | None, stored: ResourceClaim) -> bool:
    """Whether the stored allocation differs from what this attempt had planned."""
    return planned is not None and stored.allocation is not None and not is_same_allocation(planned, stored.allocation)


def is_same_allocation(left: Allocation, right: Allocation) -> bool:
    """Whether both give the same devices (and shares of devices) to the same requests."""
    return left is right or _devices(left) == _devices(right)


def _devices(allocation: Allocation) -> list[tuple[object, ...]]:
    return [
        (result.request, result.device_id, result.share_id, bool(result.admin_access)) for result in allocation.results
    ]


def _is_usable(planned: Allocation | None, stored: Allocation, node: NodeView) -> bool:
    """Whether the stored allocation is the planned one; when none was planned, whether it can be used on this node."""
    if planned is not None:
        return is_same_allocation(planned, stored)
    return is_usable_on(stored, node)


def _reserved(stored: ResourceClaim, goal: ClaimGoal, pod: Pod) -> tuple[Consumer, ...]:
    own = Consumer(resource="pods", name=pod.metadata.name, uid=pod.uid)
    return (*stored.reserved_for, goal.consumer or own)
