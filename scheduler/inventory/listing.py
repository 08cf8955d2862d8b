"""The devices of a cluster: which there are, what state they are in, who uses them, what still fits.

Rules of this module
  1. What is free is asked of the allocator (`free_devices`), and so is the largest request (`largest`).
  2. A device is free when a pod's claim could be given it now: it has no taint that keeps claims off, and a node that
     may use it takes pods. Taints of nodes other than those of cordoned, unreachable and unready ones do not count:
     pods tolerate them.
  3. A device that several nodes see is listed once.
  4. Each device has one state, and the counts of all states together are the devices: of a class, of a profile, of all.
  5. What takes long is done in parts (`parts`), between which the machine may change: a part reads the machine anew.

Not here: reading objects (`scheduler.cli`), tables.

Cost: O(devices), and for each class O(nodes * their pools); the questions of `largest` are bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import structs

from allocator import (
    INCOMPLETE_FAULTS,
    INVALID_FAULTS,
    AllocationError,
    Device,
    DeviceId,
    Fault,
    Features,
    Ledger,
    NodePools,
    PoolId,
    ResourceSlice,
    free_devices,
    lacking,
    pool_faults,
    prevent_allocation,
)
from allocator.pools.pools import NOTHING_HELD, HeldDevices, PoolView
from allocator.values.masks import positions_of
from scheduler.core.machine import Machine
from scheduler.framework.diagnosis import taint_text
from scheduler.framework.two_stacks import TwoStacks, beside_plugins, stacks_on
from scheduler.inventory.blockers import Blockers, Users, plugin_blocker, taint_blockers, unread_blockers
from scheduler.inventory.device_answer import (
    Blocker,
    Capacity,
    ClassSummary,
    DeviceList,
    DeviceSummary,
    Largest,
    NodeSummary,
    PoolFault,
    ProfileSummary,
    State,
    count_states,
)
from scheduler.inventory.largest import Asking, Offered, nearness_attributes
from scheduler.inventory.partition_profiles import CounterId, Partition, profile_summaries
from scheduler.inventory.parts import Parts, unpaused, whole
from scheduler.inventory.pool_states import newest, pool_ids, pool_summary
from scheduler.inventory.users import amount_text, users_by_device
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo

if TYPE_CHECKING:
    from scheduler.offline import SourceObject

_CLOSING: Final = {
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable",
}


_GIVABLE: Final = ("free", "shared")
_PART: Final = 200
"""Devices that are looked at in one part, some 0.2 ms."""


class Filter(NamedTuple):
    """What to list.

    Attributes:
        nodes, classes: Names; empty for all.
        free_only: Nodes and devices only that have something free.
    """

    nodes: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    free_only: bool = False


@dataclass(slots=True)
class _Seen:
    """A device as its nodes see it."""

    device: Device
    slice: ResourceSlice
    view: PoolView | None = None
    """None: no node sees it."""
    index: int = 0
    is_open: bool = False
    closed: Blocker | None = None
    """The first node that takes no pods now."""
    is_lacking: bool = False
    is_dedicated: bool = False
    has_paid: bool = False
    plugin: Blocker | None = None
    """That it is left alone, as a device plugin may have given it."""
    consumed: Mapping[str, int] | None = None
    classes: dict[str, bool] = field(default_factory=dict)
    """Name of each class that it matches -> whether it is free for it."""


class UnknownNameError(ValueError):
    """A node or class is asked for that is not there."""

    def __init__(self, kind: str, name: str, known: Collection[str]) -> None:
        super().__init__(f"no {kind} is named {name}")
        self.kind: Final = kind
        self.name: Final = name
        self.known: Final = tuple(sorted(known))


def list_devices(
    objects: Iterable[SourceObject],
    *,
    now_ms: int,
    features: Features,
    wanted: Filter = Filter(),  # noqa: B008 - immutable
) -> DeviceList:
    """The devices of the objects' cluster.

    Raises:
        UnknownNameError: the filter names a node or class that is not there.
    """
    from scheduler.offline import OfflineCluster, observed_machine  # noqa: PLC0415 - `run` counts devices without it

    cluster = OfflineCluster(now_ms)
    loaded = cluster.load(objects)
    machine, broken = observed_machine(cluster, features)
    left_out = (*map(str, loaded.problems), *broken)
    found = devices_observed(machine, wanted, notes=[*left_out, *loaded.notes])
    return structs.replace(found, left_out=left_out)


def devices_observed(machine: Machine, wanted: Filter, *, notes: Iterable[str] = ()) -> DeviceList:
    """The devices that a machine has observed.

    Raises:
        UnknownNameError: the filter names a node or class that is not there.
    """
    return Listing(machine, wanted).answer(notes)


class Listing:
    """What is known of the devices, by how much of it was asked for.

    `look` comes first. What it has seen is the caller's: the machine may go on, and the answers are those of then.
    """

    def __init__(self, machine: Machine, wanted: Filter) -> None:
        store = machine.store
        for name in wanted.nodes:
            if name not in store.node_infos:
                raise UnknownNameError("node", name, store.node_infos.keys())
        for name in wanted.classes:
            if name not in store.inventory.classes:
                raise UnknownNameError("device class", name, store.inventory.classes.keys())
        self._machine = machine
        self._wanted = wanted
        self._inventory = store.inventory
        self._in_use = machine.overlay.in_use
        self._features = store.features
        self._node_names = sorted({*wanted.nodes} or store.node_infos)
        self.classes: Final = sorted(wanted.classes or store.inventory.classes)
        self._seen: dict[DeviceId, _Seen] = {}
        self._views: dict[PoolId, dict[int, PoolView]] = {}
        self._done: set[tuple[int, bool]] = set()
        self._offered: dict[str, list[Offered]] = {name: [] for name in self.classes}
        self._nodes: list[NodeSummary] = []
        self._errors: dict[str, None] = {}
        self._faults: dict[PoolId, tuple[Fault, ...]] = {}
        self._counters: dict[PoolId, Mapping[CounterId, tuple[int, int]]] = {}
        self._asking = Asking(self._inventory, self._features)

    @cached_property
    def _users(self) -> Users:
        return users_by_device(self._machine)

    @cached_property
    def _blockers(self) -> Blockers:
        return Blockers(self._users, self._in_use)

    def answer(self, notes: Iterable[str]) -> DeviceList:
        whole(self.look())
        known = self._machine.store.node_infos.keys() or None
        pools = [pool for pool in pool_ids(self._inventory) if not self._wanted.nodes or pool in self._views]
        for pool in pools:
            slices = self._inventory.slices_of_pool(pool).values()
            self._faults[pool] = pool_faults(slices, known, self._features)
        listed = [each for batch in self.batches() for each in batch]
        return DeviceList(
            states=count_states(state for _, state in listed),
            profiles=whole(self.profiles(listed)),
            faults=tuple(
                PoolFault(driver=pool.driver, pool=pool.pool, kind=one.kind, slices=one.slices, text=one.text)
                for pool, faults in self._faults.items()
                for one in faults
            ),
            classes=self._summaries(),
            nodes=tuple(one for one in self._nodes if one.free or not self._wanted.free_only),
            devices=self._devices(listed),
            pools=tuple(
                pool_summary(self._inventory.slices_of_pool(pool).values(), self._faults[pool], self._counters_of(pool))
                for pool in pools
            ),
            notes=(*notes, *self._errors, *self._gone(), *self._without_nodes()),
        )

    # -- what nodes see ----------------------------------------------------------------------------

    def look(self) -> Parts[None]:
        """Look at all nodes."""
        for name in self._node_names:
            info = self._machine.store.node_infos.get(NodeName(name))
            if info is not None:
                yield from self._look_at(info)

    def _look_at(self, info: NodeInfo) -> Parts[None]:
        closed = why_closed(info)
        try:
            pools, stacks, in_use = yield from unpaused(lambda: self._pools_of(info))
        except AllocationError as error:
            self._errors[f"node {info.name}: {error}"] = None
            return
        for view in pools.pools:
            self._views.setdefault(view.id, {})[id(view)] = view
        shut = Blocker(kind="node", name=info.name, text=f"node {info.name} is {closed}") if closed else None
        for number in range(len(pools.usable)):
            yield from self._look_at_pool(pools, number, shut)
        for one in stacks:
            blocker = plugin_blocker(info.name, one)
            for position in positions_of(one.left_alone & ~one.used):
                if (seen := self._seen.get(one.pools.device(position).id)) is not None:
                    seen.plugin = blocker
        for name in self.classes:
            yield from self._look_for(name, info, closed, in_use)
        yield

    def _pools_of(self, info: NodeInfo) -> tuple[NodePools, Sequence[TwoStacks], Ledger]:
        pools = self._inventory.node_pools(info.host, self._features)
        stacks = list(stacks_on(info, self._machine.ground.view))
        return pools, stacks, beside_plugins(self._machine.ground.view, stacks).in_use

    def _look_at_pool(self, pools: NodePools, number: int, closed: Blocker | None) -> Parts[None]:
        view, start = pools.usable[number]
        is_open = closed is None
        key = id(view), is_open
        if key in self._done and not view.has_per_device_selection:
            return
        self._done.add(key)
        held, short = self._held(view), lacking(view, self._in_use, self._features)
        for index, device in enumerate(view.devices):
            if pools.elsewhere >> (start + index) & 1:
                continue
            if not (index + 1) % _PART:
                yield
            seen = self._seen.get(device.id)
            if seen is None:
                seen = self._seen[device.id] = _Seen(device, view.slices[index], view, index)
                seen.is_lacking = bool(short >> index & 1)
                seen.is_dedicated = bool(held.dedicated >> index & 1)
                seen.has_paid = bool((held.sharing & view.shareable) >> index & 1)
                seen.consumed = held.consumed.get(index)
            seen.is_open |= is_open
            seen.closed = seen.closed or closed

    def _held(self, view: PoolView) -> HeldDevices:
        entry = self._in_use.pools.get(view.id)
        return view.held(entry, self._features) if entry is not None else NOTHING_HELD

    def _look_for(self, name: str, info: NodeInfo, closed: str, in_use: Ledger) -> Parts[None]:
        """The devices of a class on a node."""
        known: Any = {"inventory": self._inventory, "in_use": in_use, "features": self._features}
        try:
            found = yield from unpaused(lambda: free_devices(name, info.host, **known))
        except AllocationError as error:
            self._errors[f"device class {name}: {error}"] = None
            return
        pools, matched, free = found
        if closed:
            free = 0
        if not matched:
            return
        for number in pools.numbers_among(matched):
            view, _ = pools.usable[number]
            given = pools.among(free, number)
            for index in positions_of(pools.among(matched, number)):
                if not (index + 1) % _PART:
                    yield
                seen = self._seen.get(view.devices[index].id)
                if seen is not None:  # None: published since the node's pools were looked at
                    seen.classes[name] = seen.classes.get(name, False) or bool(given >> index & 1)
        self._nodes.append(
            NodeSummary(
                node=info.name,
                device_class=name,
                devices=matched.bit_count(),
                free=free.bit_count(),
                closed=closed,
            )
        )
        if free:
            self._offered[name].append(Offered(info.host, found, in_use))

    # -- the answer --------------------------------------------------------------------------------

    def _summaries(self) -> tuple[ClassSummary, ...]:
        attributes = nearness_attributes(self._inventory)
        states: dict[str, list[State]] = {name: [] for name in self.classes}
        free: Counter[str] = Counter()
        for seen in self._seen.values():
            for name, is_free in seen.classes.items():
                states[name].append(_state(seen))
                free[name] += is_free
        summaries = []
        for name in self.classes:
            near = (whole(self.largest(name, attribute)) for attribute in attributes)
            largest: list[Largest] = [whole(self.largest(name)), *(one for one in near if one.count)]
            summaries.append(
                ClassSummary(
                    name=name,
                    devices=len(states[name]),
                    free=free[name],
                    states=count_states(states[name]),
                    largest=tuple(largest),
                )
            )
        return tuple(summaries)

    def largest(self, name: str, attribute: str = "") -> Parts[Largest]:
        """The largest request for a class on one node, and within one value of the attribute."""
        return self._asking.largest(name, self._offered[name], attribute)

    def batches(self) -> Iterator[list[tuple[_Seen, State]]]:
        """The devices of the nodes and classes that are asked for, free or not; some at a time, as parts."""
        seen = iter(self._seen.values())
        while batch := list(islice(seen, _PART)):
            yield [(one, _state(one)) for one in batch if one.classes or not self._wanted.classes]
        if not (self._wanted.nodes or self._wanted.classes):
            for pool in pool_ids(self._inventory):
                yield [(one, "unusable") for one in self._unusable(pool)]

    def _devices(self, listed: Iterable[tuple[_Seen, State]]) -> tuple[DeviceSummary, ...]:
        shown = [each for each in listed if each[1] in _GIVABLE or not self._wanted.free_only]
        summaries = [self._summary(one, state) for one, state in shown]
        return tuple(sorted(summaries, key=lambda one: (one.node or "~", one.driver, one.pool, one.device)))

    def forget(self) -> Parts[None]:
        """Give back what was seen: of 40,000 devices that takes 20 ms in one go."""
        while self._seen:
            for _ in range(min(_PART, len(self._seen))):
                self._seen.popitem()
            yield

    def _counters_of(self, pool: PoolId) -> Mapping[CounterId, tuple[int, int]]:
        """What each counter holds, and what is left of it."""
        if (known := self._counters.get(pool)) is not None:
            return known
        counters: dict[CounterId, tuple[int, int]] = {}
        for view in self._views.get(pool, {}).values():
            left = view.counters_left(self._in_use.pools.get(pool))
            for counter, total, rest in zip(view.counter_ids, view.counters, left, strict=True):
                counters[counter] = total, min(rest, counters.get(counter, (total, rest))[1])
        self._counters[pool] = counters
        return counters

    def profiles(self, listed: Iterable[tuple[_Seen, State]]) -> Parts[tuple[ProfileSummary, ...]]:
        """The partitions among these devices, by profile."""
        partitions: list[Partition] = []
        left: dict[PoolId, Mapping[CounterId, int]] = {}
        for one, state in listed:
            if not one.device.consumes_counters:
                continue
            partitions.append(Partition(one.device, state, one.has_paid))
            pool = one.device.id.pool_id
            if pool not in left:
                left[pool] = {counter: rest for counter, (_, rest) in self._counters_of(pool).items()}
                yield
        return (yield from profile_summaries(partitions, left))

    def _unusable(self, pool: PoolId) -> Iterator[_Seen]:
        """The pool's devices that no node sees; none where the pool is gone by now."""
        for slice_ in newest(self._inventory.slices_of_pool(pool).values()):
            for device in slice_.devices:
                if device.id not in self._seen:
                    yield _Seen(device, slice_)

    def _summary(self, seen: _Seen, state: State) -> DeviceSummary:
        device = seen.device
        consumed = seen.consumed or {}
        return DeviceSummary(
            driver=device.id.driver,
            pool=device.id.pool,
            device=device.name,
            node=seen.slice.node_name or device.node_name or None,
            classes=tuple(seen.classes),
            state=state,
            taints=tuple(map(taint_text, device.taints)),
            users=self._users.get(device.id, ()),
            blocked_by=tuple(self._blocked_by(seen)) if state not in _GIVABLE else (),
            capacity={
                name: Capacity(
                    total=amount_text(one.value.nano),
                    left=amount_text(0 if seen.is_dedicated else one.value.nano - consumed.get(name, 0)),
                )
                for name, one in sorted(device.capacity.items())
            },
        )

    def _blocked_by(self, seen: _Seen) -> Iterator[Blocker]:
        """All that keeps the device from a claim."""
        if seen.is_dedicated or seen.consumed is not None or seen.view is None:
            yield from self._blockers.holders(seen.device.id)
        if seen.view is not None and seen.is_lacking and not seen.is_dedicated:
            yield from self._blockers.counters(seen.view, seen.index)
        if seen.plugin is not None:
            yield seen.plugin
        yield from unread_blockers(seen.device)
        yield from taint_blockers(seen.device.taints)
        if seen.view is None:
            yield self._why_unseen(seen)
        elif not seen.is_open and seen.closed is not None:
            yield seen.closed

    def _why_unseen(self, seen: _Seen) -> Blocker:
        """Why no node has a device that is published."""
        pool, name = seen.device.id.pool_id, seen.slice.node_name or seen.device.node_name or ""
        for fault in self._faults[pool]:
            if fault.kind in INCOMPLETE_FAULTS or fault.kind in INVALID_FAULTS:
                return Blocker(kind="pool", name=pool.pool, text=f"pool {pool.pool}: {fault.text}")
        if name and name not in self._machine.store.node_infos:
            return Blocker(kind="node", name=name, text=f"there is no Node {name}")
        return Blocker(kind="node", name=name, text="no node here may use it")

    def _without_nodes(self) -> Iterable[str]:
        if self._inventory.slices and not self._machine.store.node_infos:
            yield "there is no Node, so no device can be given out"

    def _gone(self) -> Iterable[str]:
        """Devices that claims hold and nobody publishes, and claims of pods with a node that nobody allocates."""
        from scheduler.offline.after_binding import given_out_twice, not_allocated  # noqa: PLC0415 - as `list_devices`

        published = {device.id for one in self._inventory.slices.values() for device in one.devices}
        for device, users in self._users.items():
            if device not in published:
                twice = given_out_twice(self._machine, device)
                yield f"{device} is held by claim {users[0].claim}, and no slice publishes it{twice and f': {twice}'}"
        store = self._machine.store
        for pod in store.pods.values():
            if stranded := pod.spec.resource_claims and not_allocated(store, pod):
                yield f"pod {pod.key}: {stranded}"


def _state(seen: _Seen) -> State:
    if seen.is_dedicated:
        return "used"
    if seen.is_lacking or seen.plugin or seen.device.unread:
        return "blocked"
    if prevent_allocation(seen.device.taints, ()):
        return "tainted"
    is_shared = seen.consumed is not None
    if is_shared and seen.classes and not any(seen.classes.values()) and seen.is_open:
        return "used"
    if not seen.is_open:
        return "closed"
    return "shared" if is_shared else "free"


def why_closed(info: NodeInfo) -> str:
    """Why no pod can go to a node now; "" when one can."""
    if info.node.spec.unschedulable:
        return "cordoned"
    taints = {taint.key for taint in info.node.spec.taints or ()}
    return next((text for key, text in _CLOSING.items() if key in taints), "")
