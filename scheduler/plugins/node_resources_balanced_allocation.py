"""NodeResourcesBalancedAllocation: rather nodes whose resources are used more evenly with the pod than without it.

Extension points: PreScore, Score.
Reads: pod requests, node allocatable and the sums of its pods, devices behind extended resources.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/noderesources (balanced_allocation.go: same scores).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from msgspec import Struct

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import SKIP, SUCCESS, Status
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.resources import PODS, counted_amounts, is_scalar_resource
from scheduler.plugins.normalize import NODE_SCORE_MAX
from scheduler.plugins.scoring_strategies import CPU_AND_MEMORY, ResourceSpec
from scheduler.plugins.served_devices import served_devices
from scheduler.validation.field_errors import FieldError, duplicate, invalid

NAME: Final = "NodeResourcesBalancedAllocation"


class BalancedAllocationSlot(Struct, frozen=True):
    """What the pod asks of each resource that counts, with the resource's name; empty when it asks for none."""

    asked: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocation:
    """Score 50 (less even) to 100 (more even); 75 where nothing changes.

    Args:
        resources: Those whose shares are compared; each has weight 1.
    """

    weight: int = 1
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = ()

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        return self._asked(cycle)

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView) -> Status:
        return SUCCESS if self._asked(cycle) else SKIP  # all best-effort pods would go to one node (kubernetes#129138)

    def score(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> int:
        allocatable, requested = node.allocatable, node.requested
        before: list[float] = []
        after: list[float] = []
        for name, amount in self._asked(cycle):
            total, used = allocatable.get(name, 0), requested.get(name, 0)
            if amount and not total:
                total, used = served_devices(name, node, view)
            if total and name != PODS:
                before.append(min(used / total, 1.0))
                after.append(min((used + amount) / total, 1.0))
        half = NODE_SCORE_MAX // 2
        return half + (half + _evenness(after) - _evenness(before)) // 2

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        return Hint.SKIP  # it rejects no pod

    def _asked(self, cycle: Cycle) -> tuple[tuple[str, int], ...]:
        slot = cycle.find(BalancedAllocationSlot)
        if slot is None:
            slot = _slot(self.resources, tuple(counted_amounts(cycle.pod).requests.items()))
            cycle.put(slot)
        return slot.asked


def _slot(resources: tuple[ResourceSpec, ...], requests: tuple[tuple[str, int], ...]) -> BalancedAllocationSlot:
    amounts = dict(requests)
    asked = [(one.name, amounts.get(one.name, 0)) for one in resources]
    counted = [one for one in asked if one[1] or not is_scalar_resource(one[0])]
    return BalancedAllocationSlot(tuple(counted) if any(amount for _, amount in asked) else ())


def _evenness(shares: Sequence[float]) -> int:
    """100 less the standard deviation of the shares (0..1) in percent, in upstream's arithmetic."""
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        total = 0.0
        for share in shares:
            total += share
        mean = total / len(shares)
        squares = 0.0
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = sqrt(squares / len(shares))
    return int((1 - deviation) * NODE_SCORE_MAX)


def argument_errors(plugin: NodeResourcesBalancedAllocation) -> list[FieldError]:
    """What is wrong with the plugin's arguments, by paths within them, in upstream's words."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, resource in enumerate(plugin.resources):
        if resource.name in seen:
            errors.append(duplicate(f"resources[{index}].name", resource.name))
        seen.add(resource.name)
        if resource.weight != 1:
            errors.append(invalid(f"resources[{index}].weight", resource.weight, "must be 1"))
    return errors
