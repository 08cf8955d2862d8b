"""All slices and classes of the cluster, and what can be computed from them once for many allocations.

Rules of this module
  1. What `node_pools` returns depends on the slices, the node's name, labels and features, and `Features`: not on
     the order in which slices were put.
  2. A change drops exactly what may depend on it; `put_slice` and `remove_slice` return the nodes of which verdicts may
     change.

The work is shared at three levels: a `PoolView` by all nodes for which the same slices of the pool are
relevant, the pools without a node name by all nodes that match the same selectors, and a `NodePools` by
all nodes without pools of their own. So a node costs its own pools only.

Source: `NewAllocator` and `GatherPools` of structured/internal/incubating v0.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from allocator.answers.offers import Offer
from allocator.answers.paused_searches import PausedSearches
from allocator.answers.remembered_plans import Plans
from allocator.pools.faults import Fault, pool_faults
from allocator.pools.node_match import NodeSelectorError, check_node_selector, match_node
from allocator.pools.node_pools import NodePools
from allocator.pools.pool_slices import PoolSlices
from allocator.pools.pools import PoolView, gather_pool, is_ignored
from allocator.requests.requests import Plan, Planner, Slot
from allocator.requests.slot_records import SlotKey
from allocator.values.features import Features
from allocator.values.meter import Meter
from allocator.values.model import (
    AllocationError,
    ClaimSpec,
    DeviceClass,
    NodeSelector,
    NodeView,
    PoolId,
    ResourceSlice,
)
from allocator.values.remembered import MemoryLedger

_FAULT_WORK: Final = 20
"""Looking for faults of a pool, for each of its slices and devices."""
_FORGET_WORK: Final = 2
"""Forgetting a slot, for each pool and node."""


class _NodeEntry(NamedTuple):
    labels: Mapping[str, str]
    can_skip: bool
    pools: NodePools


class _SharedKey(NamedTuple):
    """What decides which slices without a node name are relevant for a node."""

    features: Features
    matching: tuple[bool, ...]
    name: str
    can_skip: bool


class Inventory:
    """The published devices of a cluster and its device classes, kept current one object at a time.

    Not thread-safe, like everything here. `revision` grows with every change; `classes_revision` with
    every change of a class.
    """

    def __init__(
        self,
        slices: Iterable[ResourceSlice] = (),
        classes: Iterable[DeviceClass] = (),
        *,
        is_supposed: bool = False,
        classes_of: Inventory | None = None,
        ledger: MemoryLedger | None = None,
    ) -> None:
        """`is_supposed`: it says what a question supposes; nothing that outlives the question may keep it.

        `classes_of`: its classes are those of another inventory, which it does not change.
        """
        self.is_supposed: Final = is_supposed
        self.revision = 0
        self.classes_revision = 0
        self._slices: Final[dict[str, ResourceSlice]] = {}
        self._classes_of: Final = classes_of
        self._classes: Final[dict[str, DeviceClass]] = classes_of._classes if classes_of is not None else {}
        self._pools: Final[dict[PoolId, PoolSlices]] = {}
        self._pools_of_node: Final[dict[str, dict[PoolId, int]]] = {}
        self._shared: Final[dict[PoolId, int]] = {}
        self._pinned_counters: Final[dict[PoolId, int]] = {}
        self._mapped: Final[set[str]] = set()
        self.meter: Final = Meter()
        """Counts the work of all who read this inventory; see `meter`."""
        self._planner: Final = Planner(self._classes, self.meter)
        self.plans: Final = Plans(self._planner, self._forget_slot, ledger or MemoryLedger())
        self._nodes: Final[dict[Features, dict[str, _NodeEntry]]] = {}
        self._shared_views: Final[dict[_SharedKey, dict[PoolId, PoolView]]] = {}
        self._shared_pools: Final[dict[_SharedKey, NodePools]] = {}
        self._conditions: tuple[tuple[NodeSelector, ...], frozenset[str]] | None = None
        self._log: list[str] = []
        self._log_start = 0
        self._offers: Final[dict[SlotKey, Offer]] = {}
        self.candidates: Final[dict[Hashable, tuple[int, frozenset[str] | None]]] = {}
        """See `prefilter`."""
        self.paused: Final = PausedSearches()
        self._faults: Final[dict[PoolId, tuple[Fault, ...]]] = {}
        self._unchecked: Final[dict[PoolId, None]] = {}  # changed since `faults` looked at them
        for slice_ in slices:
            self.put_slice(slice_)
        for device_class in classes:
            self.put_class(device_class)

    # --- contents ---------------------------------------------------------------------------------------

    @property
    def slices(self) -> Mapping[str, ResourceSlice]:
        """Slices by name."""
        return self._slices

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """Classes by name."""
        return self._classes

    @property
    def classes_of(self) -> Inventory:
        """The inventory whose classes these are: what is found out from them alone is kept for that one."""
        return self._classes_of or self

    def slices_of_pool(self, pool: PoolId) -> Mapping[str, ResourceSlice]:
        """All slices of a pool by name, of any generation."""
        known = self._pools.get(pool)
        return known.slices if known is not None else {}

    @property
    def nodes_with_own_slices(self) -> Collection[str]:
        """Names of the nodes that some slice names."""
        return self._pools_of_node.keys()

    @property
    def has_shared_slices(self) -> bool:
        """Whether some slice names no node, or holds counters that 1.36 takes for every node."""
        return bool(self._shared or self._pinned_counters)

    @property
    def takes_of_nodes(self) -> bool:
        """Whether some device says what it takes of its node's own resources (nodeAllocatableResources)."""
        return bool(self._mapped)

    def put_slice(self, slice_: ResourceSlice) -> frozenset[str] | None:
        """Add a slice, or replace the one of the same name.

        Returns:
            Names of the nodes for which verdicts may change, or None when it may be any node.
        """
        affected = self._affected(slice_.pool_id, slice_)
        old = self._slices.get(slice_.name)
        if old is not None:
            affected = _union(affected, self._affected(old.pool_id, old))
            self._unlink(old)
        self._slices[slice_.name] = slice_
        pool = self._pools.get(slice_.pool_id)
        if pool is None:
            pool = self._pools[slice_.pool_id] = PoolSlices()
        self._discount_masks(pool)
        pool.put(slice_)
        self._unchecked[slice_.pool_id] = None
        for index, key in self._indexes_of(slice_):
            index[key] = index.get(key, 0) + 1
        for device in slice_.devices:
            if device.node_allocatable_resources or device.node_allocatable_resource_mappings:
                self._mapped.add(slice_.name)
                break
        self._changed(slice_.name, affected)
        return affected

    def remove_slice(self, name: str) -> frozenset[str] | None:
        """Remove a slice; one that is not there changes nothing. Returns what `put_slice` does."""
        slice_ = self._slices.pop(name, None)
        if slice_ is None:
            return frozenset()
        affected = self._affected(slice_.pool_id, slice_)
        self._unlink(slice_)
        self._changed(name, affected)
        return affected

    def put_class(self, device_class: DeviceClass) -> None:
        """Add a class, or replace the one of the same name."""
        self._classes[device_class.name] = device_class
        self.revision += 1
        self.classes_revision += 1

    def remove_class(self, name: str) -> None:
        """Remove a class; one that is not there changes nothing."""
        if self._classes.pop(name, None) is not None:
            self.revision += 1
            self.classes_revision += 1

    def _indexes_of(self, slice_: ResourceSlice) -> list[tuple[dict[PoolId, int], PoolId]]:
        pool_id = slice_.pool_id
        if not slice_.node_name:
            return [(self._shared, pool_id)]
        indexes = [(self._pools_of_node.setdefault(slice_.node_name, {}), pool_id)]
        if slice_.shared_counters:
            indexes.append((self._pinned_counters, pool_id))
        return indexes

    def _unlink(self, slice_: ResourceSlice) -> None:
        pool = self._pools[slice_.pool_id]
        self._discount_masks(pool)
        pool.remove(slice_)
        self._mapped.discard(slice_.name)
        self._unchecked[slice_.pool_id] = None
        if not pool.slices:
            del self._pools[slice_.pool_id], self._unchecked[slice_.pool_id]
            self._faults.pop(slice_.pool_id, None)
        for index, key in self._indexes_of(slice_):
            index[key] -= 1
            if not index[key]:
                del index[key]
        if slice_.node_name and not self._pools_of_node[slice_.node_name]:
            del self._pools_of_node[slice_.node_name]

    def _affected(self, pool_id: PoolId, slice_: ResourceSlice) -> frozenset[str] | None:
        """Nodes whose view of the pool may change with the slice: completeness looks at the whole pool."""
        pool = self._pools.get(pool_id)
        if not slice_.node_name or slice_.shared_counters or pool_id in self._pinned_counters:
            return None
        if pool is None:
            return frozenset((slice_.node_name,))
        if pool.elsewhere:
            return None
        return frozenset((slice_.node_name, *pool.by_node))

    def slices_changed_since(self, position: int) -> tuple[int, Collection[str]]:
        """Names of slices put or removed since a position of the log (-1: all), and the present position."""
        end = self._log_start + len(self._log)
        if position < self._log_start:
            return end, self._slices.keys()
        return end, dict.fromkeys(self._log[position - self._log_start :]).keys()

    def _changed(self, name: str, affected: frozenset[str] | None) -> None:
        self.revision += 1
        if len(self._log) > 1000 + 2 * len(self._slices):
            self._log_start += len(self._log)
            self._log.clear()
        self._log.append(name)
        if affected is None:
            self._nodes.clear()
            self._shared_views.clear()
            self._shared_pools.clear()
            self._conditions = None
            self._planner.discount_all_candidates()
        else:
            for entries in self._nodes.values():
                for node in affected:
                    entry = entries.pop(node, None)
                    if entry is not None:
                        self._planner.discount_candidates(entry.pools.candidates)

    def _discount_masks(self, pool: PoolSlices) -> None:
        """The pool's views are about to be dropped."""
        for view in pool.views.values():
            if view is not None:
                self._planner.discount_masks(view.masks)

    def faults(self, features: Features) -> Mapping[PoolId, tuple[Fault, ...]]:
        """Pools with which something is wrong, for anybody: looks at what changed since; the same features each time.

        Raises:
            PausedError: not now; those that were looked at are kept.
        """
        for pool_id in tuple(self._unchecked):
            self.meter.check()
            self.faults_of(pool_id, features)
        return self._faults

    def faults_of(self, pool_id: PoolId, features: Features) -> tuple[Fault, ...]:
        """The same of one pool, at once."""
        if pool_id in self._unchecked:
            slices = self._pools[pool_id].slices.values()
            self.meter.spent += _FAULT_WORK * sum(1 + len(slice_.devices) for slice_ in slices)
            self.meter.is_fresh = False
            if found := pool_faults(slices, None, features):
                self._faults[pool_id] = found
            else:
                self._faults.pop(pool_id, None)
            del self._unchecked[pool_id]
        return self._faults.get(pool_id, ())

    # --- answers ----------------------------------------------------------------------------------------

    def plan(self, specs: Sequence[ClaimSpec], features: Features) -> Plan:
        """The plan for claims with these specs; the same object until a class of theirs changes or it is forgotten.

        Raises:
            PausedError: as `Planner.plan`.
        """
        return self.plans.get((tuple(specs), features))

    def offer(self, slot: Slot) -> Offer:
        """How many devices of each node's slices the slot accepts. Raises PausedError; what was counted stays so."""
        offer = self._offers.get(slot.key)
        if offer is None:
            offer = self._offers[slot.key] = Offer(slot)
        offer.position, changed = self.slices_changed_since(offer.position)
        offer.update(self._slices, changed, self.meter)
        return offer

    def _forget_slot(self, key: SlotKey) -> None:
        touched = 0
        for pool in self._pools.values():
            for view in pool.views.values():
                touched += 1
                if view is not None:
                    view.masks.pop(key, None)
        for entries in self._nodes.values():
            touched += len(entries)
            for entry in entries.values():
                entry.pools.candidates.pop(key, None)
        for pools in self._shared_pools.values():
            pools.candidates.pop(key, None)
        self._offers.pop(key, None)
        self.meter.spent += _FORGET_WORK * touched

    def node_pools(self, node: NodeView, features: Features) -> NodePools:
        """The pools of a node in the order they are tried.

        Raises:
            AllocationError: a slice's node selector cannot be parsed; the whole pod fails.
        """
        entries = self._nodes.get(features)
        if entries is None:
            entries = self._nodes[features] = {}
        entry = entries.get(node.name)
        can_skip = node.can_skip_operations
        if (
            entry is not None
            and (entry.labels is node.labels or entry.labels == node.labels)
            and entry.can_skip == can_skip
        ):
            return entry.pools
        pools = self._gather(node, features)
        entries[node.name] = _NodeEntry(node.labels, can_skip, pools)
        return pools

    def shared_pools(self, node: NodeView, features: Features) -> NodePools | None:
        """The pools of a node that has none of its own: one object for all nodes that see the same. Else None."""
        if not self.has_shared_slices or node.name in self._pools_of_node:
            return None
        try:
            return self.node_pools(node, features)
        except AllocationError:
            return None

    def _gather(self, node: NodeView, features: Features) -> NodePools:
        key = self._shared_key(node, features)
        views = self._shared_views.get(key)
        if views is None:
            ids: set[PoolId] = set(self._shared)
            if not features.has_137_semantics:
                ids |= self._pinned_counters.keys()
            views = self._shared_views[key] = self._views(ids, node, features, own=False)
        own = self._pools_of_node.get(node.name)
        if not own:
            pools = self._shared_pools.get(key)
            if pools is None:
                pools = self._shared_pools[key] = NodePools(views.values(), node, features)
            return pools
        mine = self._views(own, node, features)
        others = [view for pool_id, view in views.items() if pool_id not in own]
        return NodePools([*mine.values(), *others], node, features)

    def _shared_key(self, node: NodeView, features: Features) -> _SharedKey:
        if self._conditions is None:
            self._conditions = self._gather_conditions()
        selectors, names = self._conditions
        matching = tuple(_matches(selector, node) for selector in selectors)
        return _SharedKey(features, matching, node.name if node.name in names else "", node.can_skip_operations)

    def check_node_selectors(self) -> None:
        """Raises NodeSelectorError when some slice without a node name has a selector that cannot be parsed."""
        if self._conditions is None:
            self._conditions = self._gather_conditions()
        for selector in self._conditions[0]:
            check_node_selector(selector)

    def _gather_conditions(self) -> tuple[tuple[NodeSelector, ...], frozenset[str]]:
        """Selectors and node names that slices without a node name, or their devices, ask for."""
        selectors: dict[NodeSelector, None] = {}
        names: set[str] = set()
        for pool_id in self._shared:
            for slice_ in self._pools[pool_id].elsewhere.values():
                if slice_.node_selector is not None:
                    selectors[slice_.node_selector] = None
                if slice_.per_device_node_selection:
                    for device in slice_.devices:
                        if device.node_name:
                            names.add(device.node_name)
                        elif device.node_selector is not None:
                            selectors[device.node_selector] = None
        return tuple(selectors), frozenset(names)

    def _views(
        self, ids: Iterable[PoolId], node: NodeView, features: Features, *, own: bool = True
    ) -> dict[PoolId, PoolView]:
        """Views of these pools; without `own` as from a node that has no slices of its own, for all such nodes."""
        views: dict[PoolId, PoolView] = {}
        problems: dict[str, str] = {}
        for pool_id in ids:
            pool = self._pools[pool_id]
            relevant = _relevant(pool, node, features, problems, own=own)
            if not relevant:
                continue
            names = (features, *sorted(slice_.name for slice_ in relevant))
            if names not in pool.views:
                pool.views[names] = gather_pool(pool_id, relevant, pool.slices.values(), features)
            view = pool.views[names]
            if view is not None:
                views[pool_id] = view
        if problems:
            name = min(problems)
            raise AllocationError(f"gather pool information: failed to perform node selection for {problems[name]}")
        return views


def _relevant(
    pool: PoolSlices, node: NodeView, features: Features, problems: dict[str, str], *, own: bool
) -> list[ResourceSlice]:
    """The pool's slices that matter for the node; what cannot be decided goes to `problems` by slice name."""
    named = pool.by_node.get(node.name, {}) if own else {}
    relevant = list(named.values())
    if not features.has_137_semantics:
        # Counter slices are needed wherever devices of the pool are, so 1.36 takes them for every node.
        others = [slices for name, slices in pool.by_node.items() if name != node.name or not own]
        relevant += [slice_ for slices in others for slice_ in slices.values() if slice_.shared_counters]
    relevant = [slice_ for slice_ in relevant if not is_ignored(slice_, features)]
    for slice_ in pool.elsewhere.values():
        if not is_ignored(slice_, features) and _selects(slice_, node, features, problems):
            relevant.append(slice_)
    return relevant


def _selects(slice_: ResourceSlice, node: NodeView, features: Features, problems: dict[str, str]) -> bool:
    """Whether a slice without a node name matters for the node."""
    if slice_.shared_counters and not features.has_137_semantics:
        return True
    if not (slice_.all_nodes or slice_.node_selector is not None):
        return bool(slice_.per_device_node_selection) and _any_device_matches(slice_, node, problems)
    try:
        return match_node(node, None, slice_.all_nodes, slice_.node_selector)
    except NodeSelectorError as error:
        problems[slice_.name] = f"slice {slice_.name}: {error}"
        return False


def _any_device_matches(slice_: ResourceSlice, node: NodeView, problems: dict[str, str]) -> bool:
    for device in slice_.devices:
        try:
            if match_node(node, device.node_name, device.all_nodes, device.node_selector):
                return True
        except NodeSelectorError as error:
            problems[slice_.name] = f"device {device.name} in slice {slice_.name}: {error}"
            return False
    return False


def _matches(selector: NodeSelector, node: NodeView) -> bool:
    try:
        return match_node(node, None, False, selector)
    except NodeSelectorError:
        return False


def _union(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    return None if left is None or right is None else left | right
