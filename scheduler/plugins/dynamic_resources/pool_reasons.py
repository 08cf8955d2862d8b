"""Devices that would do and do not count: slices of an older generation, incomplete, or in contradiction.

Rules of this module
  1. A fault is a cause only where it hides a device that a request accepts, and nothing that counts suffices.
  2. A driver's fix is tried with the slices that it should publish: of one generation, complete, each device once.

Not here: what is wrong with a pool (`allocator.pools.faults`), classes (`class_reasons`) and selectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from allocator import Fault, FaultKind, PoolId, ResourceSlice, newest_slices
from allocator.requests.requests import Slot
from allocator.requests.slot_masks import judge
from scheduler.model.keys import NodeName
from scheduler.plugins.dynamic_resources.class_reasons import diagnose_class
from scheduler.plugins.dynamic_resources.selector_reasons import diagnose_selectors
from scheduler.plugins.dynamic_resources.survey import HIDING, NAMES_A_STEP, NODES_TRIED, Survey
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import names

_TWICE: Final = frozenset(("device-twice", "counter-set-twice"))


def diagnose_unpublished(looked: Survey) -> Sequence[Reason]:
    """Requests that no published device would do for, whatever is in use: pools, then the class, then the selectors."""
    found: list[Reason] = []
    for request in looked.unmet():
        slot = request.slots[0]
        found += _hidden(looked, slot)
        # Why each alternative of a list fails, the funnel says.
        if not found and not (request.is_list and looked.devices):
            found += diagnose_class(looked, slot) or diagnose_selectors(looked, slot)
    return found


class _Hiding(NamedTuple):
    """A fault, and how many devices that would do it keeps from counting."""

    devices: int
    fault: Fault
    pool: PoolId


def _hidden(looked: Survey, slot: Slot) -> list[Reason]:
    """The worst fault of each kind."""
    hiding: dict[FaultKind, list[_Hiding]] = {}
    left = looked.limits.devices
    for pool, faults in looked.faults.items():
        slices = looked.view.inventory.slices_of_pool(pool)
        for fault in [one for one in faults if one.kind in HIDING]:
            read = [slices[name] for name in (fault.slices if fault.kind == "older-generation" else slices)]
            left -= sum(1 + len(one.devices) for one in read)
            if count := sum(_would_do(looked, slot, one) for one in read):
                hiding.setdefault(fault.kind, []).append(_Hiding(count, fault, pool))
        if left <= 0:
            break
    worst = [(max(some, key=lambda one: one.devices), len(some) - 1) for some in hiding.values()]
    ordered = sorted(worst, key=lambda one: (one[0].fault.kind == "older-generation", -one[0].devices))
    return [_diagnose(looked, slot, *one) for one in ordered] or list(_without_node(looked, slot))


def _would_do(looked: Survey, slot: Slot, slice_: ResourceSlice) -> int:
    """How many of its devices the request accepts and its node does not see."""
    node = looked.refused.get(slice_.node_name) if slice_.node_name else looked.nodes[0]
    if node is None:
        return 0
    number = (pools := looked.view.inventory.node_pools(node.host, looked.view.features)).number_of(slice_.pool_id)
    seen = pools.usable[number][0] if number is not None else None
    return sum(
        judge(slot, device).is_selectable
        for device in slice_.devices
        if seen is None or (at := seen.index_of(device.name)) is None or seen.devices[at] is not device
    )


def _diagnose(looked: Survey, slot: Slot, hiding: _Hiding, more: int) -> Reason:
    """The fault; `more` pools have one of its kind."""
    _, fault, pool = hiding
    slices = looked.view.inventory.slices_of_pool(pool).values()
    newest = newest_slices(slices, looked.view.features)
    generation, wanted = newest[0].generation, newest[0].resource_slice_count
    older = [one for one in slices if one.name in fault.slices and one.generation < generation]
    fields = {
        "pool": pool,
        "request": slot.key,
        "fault": fault.text,
        "slices": names(fault.slices),
        "generation": generation,
        "there": len(newest),
        "wanted": wanted,
        "missing": wanted - len(newest),
        "old": min([one.generation for one in older], default=generation),
        "more": more,
    }
    kind, form, fix = "pool-contradictory", fault.kind if fault.kind in _TWICE else "", "pool-anew"
    match fault.kind:
        case "unread-counters":
            return Reason("field-unread", fields, "pool")
        case "older-generation":
            kind, fix = "slice-superseded", "slices-again"
        case "missing-slices":
            kind, fix = "pool-incomplete", "slices-missing"
        case "counts-disagree":
            form, fields["fault"] = fault.kind, fault.text.partition(": ")[2]
        case _:
            pass
    mended = tuple(_mended([*older, *newest], generation))
    return Reason(kind, fields, form, (Fix(fix, fields, _nodes_of(looked, mended), slices=mended),))


def _mended(slices: Iterable[ResourceSlice], generation: int) -> Iterator[ResourceSlice]:
    """The slices as the driver should publish them: of one generation, complete, each device and counter set once."""
    ordered = sorted(slices, key=lambda slice_: (slice_.generation, slice_.name))
    known = {(one.name, name) for slice_ in ordered for one in slice_.shared_counters for name, _ in one.counters}
    seen, sets = set[str](), set[str]()
    for slice_ in ordered:
        devices = []
        for device in slice_.devices:
            if device.name not in seen:
                seen.add(device.name)
                unknown = any(
                    (one.counter_set, name) not in known for one in device.consumes_counters for name, _ in one.counters
                )
                devices.append(replace(device, consumes_counters=()) if unknown else device)
        counters = tuple([one for one in slice_.shared_counters if one.name not in sets])
        sets |= {one.name for one in counters}
        yield replace(
            slice_,
            generation=generation,
            resource_slice_count=len(ordered),
            devices=tuple(devices),
            shared_counters=counters,
        )


def _without_node(looked: Survey, slot: Slot) -> Iterator[Reason]:
    """The slice of a node that does not exist with most devices that would do; tried as a slice of another node."""
    inventory, infos = looked.view.inventory, looked.view.node_infos
    looked.cycle.charge(len(inventory.nodes_with_own_slices) // NAMES_A_STEP)
    gone = {name for name in inventory.nodes_with_own_slices if name not in infos}
    if not gone:
        return
    looked.cycle.charge(len(inventory.slices) // NAMES_A_STEP)
    left, best, most = looked.limits.devices, None, 0
    for slice_ in inventory.slices.values():
        if slice_.node_name in gone and left > 0:
            left -= 1 + len(slice_.devices)
            count = sum(judge(slot, device).is_selectable for device in slice_.devices)
            best, most = (slice_, count) if count > most else (best, most)
    if best is None:
        return
    slices = [one for one in inventory.slices_of_pool(best.pool_id).values() if one.node_name == best.node_name]
    fields = {
        "node": best.node_name,
        "request": slot.key,
        "slices": names(one.name for one in slices),
        "pool": best.pool_id,
        "more": len(gone) - 1,
    }
    stand_in = looked.nodes[0].name
    moved = tuple([replace(one, node_name=stand_in) for one in slices])
    yield Reason("slice-node-missing", fields, fixes=(Fix("node-registered", fields, (stand_in,), slices=moved),))


def _nodes_of(looked: Survey, slices: Iterable[ResourceSlice]) -> tuple[NodeName, ...]:
    """Refused nodes that see the slices."""
    named = {slice_.node_name for slice_ in slices if slice_.node_name}
    own = [node.name for name in sorted(named) if (node := looked.refused.get(name)) is not None]
    return tuple(own[:NODES_TRIED]) or looked.on
