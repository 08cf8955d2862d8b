"""The cluster as if objects were otherwise, or pods on a node or gone from it: for a question, and never for longer.

Rules of this module
  1. Plugins read the supposed cluster through their ordinary view; when the question ends, all is as it was. What is in
     use is never touched: meanwhile the view shows another ledger.
  2. What was remembered of the node is neither read nor changed: ask with a new cycle, beginning at PreFilter.
  3. The same question finds the same ledger again while nothing has changed in its pools, so that a search that takes
     more than one cycle goes on where it was.

Not here: asking the plugins in the supposed cluster (`dry_run`), which devices to suppose (`kept_devices`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from allocator import Allocation, DeviceClass, Inventory, Ledger, ResourceSlice, SupposedUse
from scheduler.core.state.core_view import CoreView
from scheduler.core.state.store import Store
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod

_LEDGERS_MAX: Final = 16


class SupposedDevices(Struct, frozen=True):
    """What is in use as it is not.

    Args:
        taken: Counts as in use, too.
        released: Counts as free; each is in use by exactly this allocation, as are those of `until`.
        until: In their place will be those of `taken`; both count, but nothing twice.
    """

    taken: tuple[Allocation, ...] = ()
    released: tuple[Allocation, ...] = ()
    until: tuple[Allocation, ...] = ()


AS_THEY_ARE: Final = SupposedDevices()


class Otherwise(Struct, frozen=True):
    """What is not as it is.

    Args:
        added, removed: Pods that are on the node, and that are gone; of those some may be on other nodes.
        devices: What is in use.
        node, claims, slices, classes: Objects as they would be.
    """

    added: Sequence[Pod] = ()
    removed: Collection[PodUid] = ()
    devices: SupposedDevices = AS_THEY_ARE
    node: Node | None = None
    claims: Sequence[ResourceClaim] = ()
    slices: Sequence[ResourceSlice] = ()
    classes: Sequence[DeviceClass] = ()


class Suppositions:
    """Makes one at a time."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._ledgers: Final[OrderedDict[tuple[int, ...], tuple[SupposedDevices, SupposedUse]]] = OrderedDict()

    @contextmanager
    def suppose(self, node: NodeInfo, view: CoreView, otherwise: Otherwise) -> Iterator[NodeInfo]:
        """The node as it would be.

        Raises:
            AllocationError: A slice's node selector cannot be parsed.
        """
        removed = otherwise.removed
        elsewhere = self._elsewhere(node, removed)
        gone = [node.pods[uid] for uid in removed if uid in node.pods]
        gone += [info.pods[uid] for info, uids in elsewhere for uid in uids]
        supposed = node.simulated(added=otherwise.added, removed=removed)

        def nodes() -> Iterator[NodeInfo]:
            yield supposed
            for info, uids in elsewhere:
                yield info.simulated(removed=uids)

        with (
            self._store.pod_counts.as_if(nodes),
            self._store.storage.as_if(added=otherwise.added, removed=gone),
            self.claims(view, otherwise.claims),
            self._inventory(view, node, otherwise.slices, otherwise.classes),
            self.devices(view, otherwise.devices),
        ):
            if otherwise.node is not None:
                supposed.node = otherwise.node
            yield supposed

    def _elsewhere(self, node: NodeInfo, removed: Collection[PodUid]) -> list[tuple[NodeInfo, list[PodUid]]]:
        """The other nodes of `removed`, each with those that are there."""
        by_node: dict[NodeName, list[PodUid]] = {}
        for uid in removed:
            name = None if uid in node.pods else self._store.node_of(uid)
            if name is not None:
                by_node.setdefault(name, []).append(uid)
        infos = self._store.node_infos
        return [(infos[name], uids) for name, uids in by_node.items() if name in infos]

    @contextmanager
    def devices(self, view: CoreView, devices: SupposedDevices) -> Iterator[None]:
        """Only devices more and less."""
        if not (devices.taken or devices.released):
            yield
            return
        before = view.in_use
        view.in_use = self._ledger(before, devices)
        try:
            yield
        finally:
            view.in_use = before

    @contextmanager
    def claims(self, view: CoreView, changed: Iterable[ResourceClaim]) -> Iterator[None]:
        """Claims as they would be."""
        by_key = {claim.key: claim for claim in changed}
        before = view.claim
        if by_key:
            view.claim = lambda key: by_key[key] if key in by_key else before(key)
        try:
            yield
        finally:
            view.claim = before

    @contextmanager
    def _inventory(
        self, view: CoreView, node: NodeInfo, slices: Iterable[ResourceSlice], classes: Iterable[DeviceClass]
    ) -> Iterator[None]:
        """Slices and classes as they would be, for questions about this node: other nodes' pools are not there."""
        put, named = {one.name: one for one in slices}, {one.name: one for one in classes}
        if not (put or named):
            yield
            return
        before = view.inventory
        pools = {one.id for one in before.node_pools(node.host, view.features).pools}
        pools |= {one.pool_id for one in put.values()}
        there = {name: one for pool in sorted(pools) for name, one in before.slices_of_pool(pool).items()}
        slices = {**there, **put}.values()
        view.inventory = (
            Inventory(slices, {**before.classes, **named}.values(), is_supposed=True)
            if named
            else Inventory(slices, is_supposed=True, classes_of=before.classes_of)
        )
        try:
            yield
        finally:
            view.inventory = before

    def _ledger(self, ledger: Ledger, devices: SupposedDevices) -> SupposedUse:
        lists = (devices.taken, devices.released, devices.until)
        key = (ledger.serial, *(part for one in lists for part in (len(one), *map(id, one))))
        known = self._ledgers.pop(key, None)
        if known is None or not known[1].is_current():
            supposed = SupposedUse(ledger, taken=devices.taken, released=devices.released, until=devices.until)
            known = devices, supposed  # keeps the allocations, by whose identity it is found
        self._ledgers[key] = known
        if len(self._ledgers) > _LEDGERS_MAX:
            self._ledgers.popitem(last=False)
        return known[1]
