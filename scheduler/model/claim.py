"""ResourceClaims as the scheduler sees them: the allocator's spec and allocation, and who uses the claim."""

from __future__ import annotations

from dataclasses import dataclass

from allocator import Allocation, ClaimSpec, NodeView, match_node_selector
from scheduler.model.keys import ClaimKey, ClaimUid, PodUid
from scheduler.model.objects import OwnerReference, Pod, Record


class Consumer(Record, frozen=True):
    """One entry of `status.reservedFor`. Pods have an empty `api_group` and resource "pods"."""

    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""

    @property
    def pod_uid(self) -> PodUid | None:
        return PodUid(self.uid) if self.resource == "pods" and not self.api_group else None


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    """One condition of one entry of `status.devices`, for example a binding condition."""

    driver: str
    pool: str
    device: str
    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim as last observed on the API server. Immutable; a newer one has a larger `revision`.

    Args:
        spec: None when the spec could not be decoded; then `problem` says why and the claim is never allocated by us.
        allocation: `status.allocation`, None when not allocated (or not decodable, see `problem`).
        allocation_timestamp: RFC 3339 text of `status.allocation.allocationTimestamp`.
    """

    key: ClaimKey
    uid: ClaimUid
    revision: int
    spec: ClaimSpec | None
    allocation: Allocation | None = None
    allocation_timestamp: str | None = None
    reserved_for: tuple[Consumer, ...] = ()
    device_conditions: tuple[DeviceCondition, ...] = ()
    finalizers: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None
    problem: str | None = None

    @property
    def is_deleting(self) -> bool:
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None

    def is_reserved_for(self, pod: PodUid) -> bool:
        for consumer in self.reserved_for:  # noqa: SIM110 - asked with every step of a binding
            if consumer.uid == pod and consumer.pod_uid is not None:
                return True
        return False


def is_usable_on(allocation: Allocation, host: NodeView) -> bool:
    """Whether the allocation's node selector allows the node."""
    return allocation.node_selector is None or match_node_selector(allocation.node_selector, host)


def template_of(claim: ResourceClaim, pod: Pod) -> str:
    """The template that the claim was made from for the pod, "" where it was not."""
    made = {one.resource_claim_name: one.name for one in pod.status.resource_claim_statuses or ()}
    entry = made.get(claim.key.name)
    names = [one.resource_claim_template_name for one in pod.spec.resource_claims or () if one.name == entry]
    return next(filter(None, names), "")
