"""What Reserve took for a pod, for PreBind to write and Unreserve to take back."""

from __future__ import annotations

from msgspec import Struct

from allocator import Allocation, DeviceId, NodeView
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.decisions import Decision, WriteClaimStatus
from scheduler.framework.status import Status
from scheduler.model.objects import NodeAllocatableClaim
from scheduler.plugins.dynamic_resources.pre_bind import ClaimGoal
from scheduler.plugins.dynamic_resources.special_claim_step import SpecialGoal


class Reserved(Struct, frozen=True):
    """What must be stored before the pod is bound.

    Attributes:
        goals: One for each claim of the pod, in pod order.
        takes: What the claims take of the node's own resources; the pod's status must say it.
        node, inventory_revision: As Reserve saw them: while neither changes, the devices it took are published.
    """

    goals: tuple[ClaimGoal, ...]
    special: SpecialGoal | None
    takes: tuple[NodeAllocatableClaim, ...]
    node: NodeView
    inventory_revision: int

    def refuse(self, write: Decision, host: NodeView, view: ClusterView) -> Status | None:
        """Why a write must not be sent: the device that it would allocate is gone."""
        if not isinstance(write, WriteClaimStatus) or write.allocation is None:
            return None
        if self.inventory_revision == view.inventory.revision and self.node is host:
            return None
        gone = _unpublished(write.allocation, host, view)
        return Status.error(f"claim {write.claim}: device {gone} is not published any more") if gone else None


def _unpublished(allocation: Allocation, host: NodeView, view: ClusterView) -> DeviceId | None:
    """A device that no slice offers to this node any more. A pool that is being updated may still have it."""
    pools = view.inventory.node_pools(host, view.features)
    for device in allocation.device_ids():
        number = pools.number_of(device.pool_id)
        if number is not None:
            is_offered = pools.usable[number][0].index_of(device.device) is not None
        else:
            is_offered = any(pool.id == device.pool_id and not pool.is_usable for pool in pools.pools)
        if not is_offered:
            return device
    return None
