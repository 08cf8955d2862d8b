"""Nodes with two stacks: a device plugin serves an extended resource, and a DRA driver publishes the same devices.

Rules of this module
  1. A resource is devices of the classes with that extendedResourceName, and of the class that `deviceResources` names.
  2. Which devices the kubelet gave to the plugin's pods, nobody can know. With "refuse" a node's devices are those of
     one stack: claims get none while the plugin serves any or pods hold any, and such pods none while claims hold any.
  3. "leave" counts. As many free devices as pods hold are left alone, all of them where devices are of several sizes,
     or shared, or partitions; and pods get what claims leave. Two pods may still be given one device.
  4. The plugin's pods are those that are bound without a special claim for the resource, and those that are assumed
     while the plugin serves it, whoever scheduled them.

Not here: who is refused for that (`dynamic_resources`, `node_resources_fit`), what it reads like (`why`).

Cost: O(pods of the node) where one asks for such a resource, O(devices of the class) where there are any.

See docs/adr/0038-two-stacks.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

from msgspec import Struct

from allocator import (
    AllocationError,
    DeviceClass,
    DeviceId,
    Inventory,
    Ledger,
    NodePools,
    PausedError,
    PoolId,
    SupposedUse,
    lacking,
    one_device,
    only_devices,
)
from allocator.values.masks import positions_of
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.steps import within_steps
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.resources import counted_amounts, is_extended_resource
from scheduler.model.selector_mistakes import named_drivers
from scheduler.model.stacks import Mode, Stacks


class TwoStacks(Struct, frozen=True):
    """A resource of one node that both serve.

    Args:
        total, held: What the plugin serves, and what pods hold of that.
        devices, used: Masks over `pools`: all that it stands for, and those that claims hold, wholly or in part.
        gone: How many devices claims have here that nobody publishes now.
        left_alone: Mask of those that no claim may be given.
    """

    resource: str
    total: int
    held: int
    pools: NodePools
    devices: int
    used: int
    gone: int
    left_alone: int
    mode: Mode

    @property
    def room(self) -> int:
        """What is left for pods of the plugin; a plugin may serve a device several times over."""
        used = self.used.bit_count() + self.gone
        if used and self.mode == "refuse":
            return 0
        return self.total - self.held - used * -(-self.total // (self.devices.bit_count() + self.gone))


def resources_on(node: NodeInfo, view: ClusterView) -> list[str]:
    """The resources, sorted, that may be devices of the node as well; nearly always there are none."""
    if not (known := _by_resource(view).keys()):
        return []
    found = (known & node.allocatable.keys()) | (known & node.requested.keys())
    return sorted(name for name in found if node.allocatable.get(name) or node.requested.get(name))


def stacks_on(node: NodeInfo, view: ClusterView, pod: Pod | None = None) -> Iterator[TwoStacks]:
    """What both stacks serve on the node; nothing for a pod whose scheduler ignores that.

    Raises:
        AllocationError: a slice's node selector cannot be parsed.
        PausedError: as `allocate`.
    """
    inventory, mode = view.inventory, view.stacks.mode
    if pod is not None and pod.spec.scheduler_name in view.stacks.ignored_by:
        return
    for resource in resources_on(node, view):
        total = node.allocatable.get(resource, 0)
        inventory.meter.spent += _WORK * (1 + len(node.pods))
        held = sum(_held(pod, resource, total) for pod in node.pods.values()) if resource in node.requested else 0
        if not (total or held):
            continue
        pools, devices = inventory.node_pools(node.host, view.features), 0
        classes = _by_resource(view)[resource]
        for name in classes:
            (slot,) = inventory.plan([one_device(name)], view.features).slots
            devices |= pools.candidates_for(slot).fits
        gone = _gone(node, _drivers_of(classes, inventory), pools, view)
        if devices or gone:
            left, used = devices, _used(pools, devices, view)
            if mode == "leave" and (not (held and devices) or _are_alike(pools, devices)):
                free = list(positions_of(devices & ~used))
                left = sum(1 << position for position in free[max(0, len(free) - held) :])
            yield TwoStacks(resource, total, held, pools, devices, used, gone, left, mode)


def stacks_seen(node: NodeInfo, view: ClusterView, cycle: Cycle) -> list[TwoStacks] | None:
    """The same within a cycle; None when no steps are left, nothing where a slice is unreadable: the search says it."""
    if not resources_on(node, view):
        return []
    try:
        with within_steps(cycle, view):
            return list(stacks_on(node, view, cycle.pod))
    except PausedError:
        return None
    except AllocationError:
        return []


def beside_plugins(view: ClusterView, stacks: Iterable[TwoStacks]) -> ClusterView:
    """The cluster as claims see it from the node of `stacks`: devices that are left alone count as in use."""
    left, pools = 0, None
    for one in stacks:
        left, pools = left | one.left_alone, one.pools
    if not left or pools is None:
        return view
    known = _ledgers.get(pools)
    if known is None or known[:2] != (left, view.in_use.serial) or not known[2].is_current():
        devices = [pools.device(position).id for position in positions_of(left)]
        known = _ledgers[pools] = (left, view.in_use.serial, only_devices(view.in_use, devices, ()))
    return cast("ClusterView", _Beside(view, known[2]))


def asks_of_both(pod: object, view: ClusterView) -> bool:
    """Whether what claims do may concern the pod, and what becomes of the pod claims."""
    if not isinstance(pod, Pod):
        return False
    known = _by_resource(view).keys() | view.stacks.resources.keys()
    return not known.isdisjoint(counted_amounts(pod).requests)


def stands_for_resource(one: DeviceClass, view: ClusterView) -> bool:
    """Whether a plugin may serve the devices of the class."""
    return bool(one.extended_resource_name) or one.name in view.stacks.resources.values()


def _by_resource(view: ClusterView) -> Mapping[str, list[str]]:
    """The classes that a resource stands for. It is made anew whenever a class changes, so it reads no selector."""
    inventory, stacks = view.inventory.classes_of, view.stacks
    known = _classes.get(inventory)
    if known is None or known[:2] != (inventory.classes_revision, stacks):
        found: dict[str, list[str]] = {}
        named = [(one.extended_resource_name or "", one.name) for one in inventory.classes.values()]
        for resource, name in dict.fromkeys((*named, *stacks.resources.items())) if stacks.mode != "ignore" else ():
            one = inventory.classes.get(name)
            if one is not None and not one.unread and is_extended_resource(resource):
                found.setdefault(resource, []).append(name)
        known = _classes[inventory] = (inventory.classes_revision, stacks, found)
    return known[2]


def _drivers_of(classes: Iterable[str], inventory: Inventory) -> set[str]:
    """The drivers that the classes name."""
    selectors = (each.expression or "" for name in classes for each in inventory.classes[name].selectors)
    return set().union(*map(_drivers, selectors))


@lru_cache(maxsize=4096)
def _drivers(expression: str) -> frozenset[str]:
    """Read once, however often another class changes."""
    return frozenset(named_drivers(expression))


class _Beside:
    """A view with another ledger."""

    def __init__(self, view: ClusterView, in_use: Ledger) -> None:
        self._view: Final = view
        self.in_use: Final = in_use

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


_WORK: Final = 10
_Classes: TypeAlias = tuple[int, Stacks, Mapping[str, list[str]]]
_classes: Final[WeakKeyDictionary[Inventory, _Classes]] = WeakKeyDictionary()
_ledgers: Final[WeakKeyDictionary[NodePools, tuple[int, int, SupposedUse]]] = WeakKeyDictionary()
"""The same ledger as long as it says the same: a search that pauses goes on with it."""


def _held(pod: Pod, resource: str, total: int) -> int:
    """What a pod holds of the plugin."""
    special = pod.status.extended_resource_claim_status
    if pod.node_name is None:
        is_served = not total
    else:
        mapped = special.request_mappings or () if special is not None else ()
        is_served = any(one.resource_name == resource for one in mapped)
    return 0 if is_served else counted_amounts(pod).requests.get(resource, 0)


def _gone(node: NodeInfo, drivers: Collection[str], pools: NodePools, view: ClusterView) -> int:
    """By driver, as nobody can ask a selector about them: a driver that is upgraded publishes nothing for a while.

    Of claims that no pod here has, those of the pool that is named like the node, as such pools are.
    """
    found = set[DeviceId]()
    for claim in (view.claim(key) for uid in node.pods for key in view.claims_of(uid)):
        for held in view.counted(claim.uid) if claim is not None else ():
            found |= {one.device_id for one in held.results if not one.admin_access}
    for driver in drivers:
        if (use := view.in_use.pools.get(PoolId(driver, node.name))) is not None:
            found |= {DeviceId(driver, node.name, device) for device in use.held()}
    found -= {device.id for pool, _ in pools.usable for device in pool.devices} if found else set()
    return sum(one.driver in drivers for one in found)


def _used(pools: NodePools, devices: int, view: ClusterView) -> int:
    use = pools.use_of(view.in_use)
    used = use.dedicated | use.sharing
    for number in pools.numbers_among(devices & pools.counting):
        pool, start = pools.usable[number]
        used |= lacking(pool, view.in_use, view.features) << start  # partitions of it are in use
    return devices & used


def _are_alike(pools: NodePools, devices: int) -> bool:
    """Whether any of them is as good as another, for a count."""
    if devices & (pools.counting | pools.shareable):
        return False
    first, *others = [pools.device(position).capacity for position in positions_of(devices)]
    return all(one == first for one in others)
