"""What a pod's requests ask for, and the devices that are looked at closely to say why none would do.

Rules of this module
  1. Of many nodes those are looked at whose own slices have most devices that a request accepts.
  2. Where the whole cluster has few enough devices, all of them are looked at: then a cause may speak of all.

Not here: reasons (`pool_reasons` and others), counting what each stage removes (`device_causes`).

Cost: O(nodes) look-ups, then `Limits.nodes` nodes and `Limits.devices` devices.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from allocator import (
    INCOMPLETE_FAULTS,
    INVALID_FAULTS,
    AllocationError,
    Device,
    Fault,
    FaultKind,
    PausedError,
    PoolId,
    ResourceSlice,
)
from allocator.requests.requests import Plan, RequestPlan, Slot
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits
from scheduler.framework.status import Status
from scheduler.framework.steps import within_steps
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.plugins.dynamic_resources.changed_claims import label_of, with_request
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import Fields, names

HIDING: Final = frozenset[FaultKind](("older-generation", *INCOMPLETE_FAULTS, *INVALID_FAULTS))
"""Devices in slices with such a fault may not count."""
NODES_TRIED: Final = 3
_SLOTS_NAMED: Final = 3
NAMES_A_STEP: Final = 40
"""Of nodes, devices or slices that are only looked up, for one look-up of the cycle."""


@dataclass(frozen=True)
class Requests:
    """The requests of a pod, as sentences name them.

    Attributes:
        on: The nodes on which a fix is tried.
    """

    search: NodeSearch
    cycle: Cycle
    view: ClusterView
    limits: Limits
    plan: Plan
    on: tuple[NodeName, ...]

    @property
    def pod(self) -> Pod:
        """Who asks."""
        return self.cycle.pod

    def named(self, slot: Slot) -> str:
        """A request by its name; with its claim where another claim has one of that name."""
        claim = self.claim(slot)
        if claim is None:
            resource, classes = self.resource(slot), self.view.inventory.classes.values()
            self.cycle.charge(len(classes))
            is_shared = sum(one.extended_resource_name == resource for one in classes) > 1
            return f"resource {resource}" + (f" (DeviceClass {slot.device_class.name})" if is_shared else "")
        is_ambiguous = any(one.base == slot.base and one.claim != slot.claim for one in self.plan.slots)
        return f"request {slot.label} of ResourceClaim {claim.key}" if is_ambiguous else f"request {slot.label}"

    def all_named(self, slots: Iterable[Slot]) -> str:
        """Several requests."""
        texts = list(dict.fromkeys(map(self.named, slots)))
        return " and ".join(texts) if len(texts) <= _SLOTS_NAMED else str(names(texts))

    def label(self, slot: Slot) -> str:
        """A request as a person finds it: with its claim, and the template that this was made from."""
        claim = self.claim(slot)
        return self.named(slot) if claim is None else f"request {slot.label} of {label_of(claim, self.pod)}"

    def asking(self, slot: Slot, kind: str, fields: Fields, more: int = 0, **changed: object) -> Iterator[Fix]:
        """The request with other fields; nothing where it serves an extended resource, which no claim asks for."""
        if (claim := self.claim(slot)) is not None:
            said, claims = {**fields, "request": self.label(slot)}, (with_request(claim, slot.label, **changed),)
            yield Fix(kind, said, self.on, more=more, claims=claims)

    def resource(self, slot: Slot) -> str | None:
        """The extended resource that the slot serves."""
        special = self.search.claims.special
        if special is None or self.claim(slot) is not None:
            return None
        return next((name for name, one in special.classes.items() if one == slot.device_class.name), None)

    def claim(self, slot: Slot) -> ResourceClaim | None:
        """The claim as it is stored; None for the one that the scheduler makes for extended resources."""
        unallocated = self.search.claims.unallocated
        return unallocated[slot.claim] if slot.claim < len(unallocated) else None


@dataclass(frozen=True)
class Survey(Requests):
    """One pod's requests, and where they were asked.

    Attributes:
        refused: The nodes that were refused, by name; `nodes` are those of them that are looked at.
        devices: Published for some node, in slices that count; all of the cluster's where `is_whole`.
    """

    refused: Mapping[str, NodeInfo]
    nodes: tuple[NodeInfo, ...]
    faults: Mapping[PoolId, tuple[Fault, ...]]
    devices: tuple[Device, ...]
    is_whole: bool

    def place(self) -> str:
        """Where devices were looked for, after "no device"."""
        return "" if self.is_whole else f" of node {self.nodes[0].name}"

    def unmet(self) -> Iterator[RequestPlan]:
        """Requests for which no node that was looked at has as many devices as they ask for, in use or not.

        Raises:
            PausedError: not all answers are known, and not to be found out now.
        """
        for request in self.plan.requests:
            if request.slots and not any(self._is_met(slot) for slot in request.slots):
                yield request

    def _is_met(self, slot: Slot) -> bool:
        """Also where a selector fails: that is another cause."""
        for node in self.nodes:
            pools, found = self.view.inventory.node_pools(node.host, self.view.features), 0
            for pool, start in pools.usable:
                mask = pool.mask_for(slot)
                if mask.failed:
                    return True
                found += (mask.selectable << start & ~pools.elsewhere).bit_count()
            is_known = not slot.is_all or all(pool.is_usable for pool in pools.pools)
            if found >= (1 if slot.is_all else max(1, slot.count)) and is_known:
                return True
        return False


def surveyed(
    search: NodeSearch,
    cycle: Cycle,
    nodes: Sequence[NodeInfo],
    view: ClusterView,
    limits: Limits,
    *,
    ask: Callable[[Survey], Iterable[Reason]],
) -> list[Reason]:
    """What is found where the pod's requests were asked: nothing where that cannot be said within the cycle's steps."""
    try:
        with within_steps(cycle, view):
            looked = _survey(search, cycle, nodes, view, limits)
            return list(ask(looked)) if looked is not None else []
    except (AllocationError, PausedError):
        return []


def _survey(
    search: NodeSearch, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits
) -> Survey | None:
    """None where the pod asks for nothing.

    Raises:
        AllocationError, PausedError: as the allocator.
    """
    wanted = search.wanted_on(nodes[0])
    if isinstance(wanted, Status) or not wanted:
        return None
    inventory = view.inventory
    plan = inventory.plan([claim.spec for claim in wanted], view.features)
    cycle.charge(len(nodes) // NAMES_A_STEP)
    own = inventory.nodes_with_own_slices
    having = [node for node in nodes if node.name in own] or list(nodes)
    if len(having) > limits.nodes:
        offers = [inventory.offer(slot).own for slot in plan.slots]
        cycle.charge(len(having) * (1 + len(offers)) // NAMES_A_STEP)
        having = heapq.nlargest(limits.nodes, having, lambda node: sum(one.get(node.name, 0) for one in offers))
    faults = inventory.faults(view.features)
    devices, is_whole = _devices(cycle, having, faults, view, limits)
    refused: dict[str, NodeInfo] = {node.name: node for node in nodes}
    on = tuple([node.name for node in having[:NODES_TRIED]])
    return Survey(search, cycle, view, limits, plan, on, refused, tuple(having), faults, devices, is_whole)


def _devices(
    cycle: Cycle,
    nodes: Sequence[NodeInfo],
    faults: Mapping[PoolId, tuple[Fault, ...]],
    view: ClusterView,
    limits: Limits,
) -> tuple[tuple[Device, ...], bool]:
    """All devices that count, or those of the nodes where there are too many."""
    devices: list[Device] = []
    for read, slice_ in enumerate(view.inventory.slices.values()):
        if len(devices) > limits.devices or read > limits.devices:
            break
        if _counts(slice_, faults, view):
            devices += slice_.devices
    else:
        cycle.charge(len(devices) // NAMES_A_STEP)
        devices = devices or [device for slice_ in view.inventory.slices.values() for device in slice_.devices]
        if len(devices) <= limits.devices:
            return tuple(devices), True
    devices = [
        device
        for node in nodes[:1]
        for pool, _ in view.inventory.node_pools(node.host, view.features).usable
        for device in pool.devices
    ]
    cycle.charge((len(devices) + limits.devices) // NAMES_A_STEP)
    return tuple(devices[: limits.devices]), False


def _counts(slice_: ResourceSlice, faults: Mapping[PoolId, tuple[Fault, ...]], view: ClusterView) -> bool:
    if slice_.node_name and slice_.node_name not in view.node_infos:
        return False
    return not any(slice_.name in fault.slices for fault in faults.get(slice_.pool_id, ()) if fault.kind in HIDING)
