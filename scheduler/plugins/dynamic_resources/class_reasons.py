"""No device at all, or none that a request's DeviceClass selects.

Not here: what the request asks for beyond its class (`selector_reasons`), devices that do not count (`pool_reasons`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from allocator import DeviceClass, ResourceSlice, decode_slice
from allocator.requests.requests import Slot
from allocator.requests.subterms import last_subterm
from allocator.values.model import DeviceSelector, RequestAlternative
from scheduler.framework.cluster_view import ClusterView
from scheduler.model.keys import NodeName
from scheduler.model.selector_mistakes import PublishedNames, compared_values, named_drivers
from scheduler.plugins.dynamic_resources.selector_reasons import (
    changes_of_class,
    of_class,
    unmet_term,
)
from scheduler.plugins.dynamic_resources.survey import Survey
from scheduler.why.reasons import Fix, Reason, Whom
from scheduler.why.say import Names

_DEVICES_MAX: Final = 64
_SLICES_READ: Final = 1_000
_ANY_DRIVER: Final = "driver"


def diagnose_class(looked: Survey, slot: Slot) -> Sequence[Reason]:
    """Nothing where the class selects a device, or the devices that were looked at do not show it."""
    if not looked.devices:
        return _no_devices(looked, slot)
    selectors = slot.device_class.selectors
    if not selectors or of_class(looked, slot):
        return ()
    found = last_subterm([one.expression or "" for one in selectors], looked.devices, slot.features, slot.matcher.meter)
    if found is None:
        return ()
    mistakes = PublishedNames(found.before, looked.place()).mistakes(found.text)
    is_meant = any(one.instead for one in mistakes)
    drivers = Counter(device.id.driver for device in looked.devices).most_common()
    fields = {
        "class": slot.device_class.name,
        "fact": mistakes[0].cause if mistakes else unmet_term(found, looked.place()),
        "drivers": "" if is_meant else Names(tuple([f"{driver} ({count})" for driver, count in drivers])),
    }
    is_driver = any(one.kind == "driver-name" for one in mistakes) and not is_meant
    fixes = (*(_installed(looked, slot) if is_driver else ()), *changes_of_class(looked, slot, found, mistakes))
    return (Reason("class-unmatched", fields, fixes=fixes),)


def _no_devices(looked: Survey, slot: Slot) -> Sequence[Reason]:
    if not looked.is_whole:
        return ()  # this node has none, and others do
    slices = len(looked.view.inventory.slices)
    fields = {"slices": slices, "none": "" if slices else "there is no ResourceSlice", "request": looked.named(slot)}
    return (Reason("no-devices", fields, fixes=tuple(_installed(looked, slot))),)


def _installed(looked: Survey, slot: Slot) -> Iterator[Fix]:
    """The class's driver, tried with slices that have what all requests of the class ask for, on each node."""
    name, of_class = slot.device_class.name, slot.device_class.selectors
    texts = [one.expression or "" for one in (*of_class, *slot.details.selectors)]
    driver = next((driver for text in texts for driver in named_drivers(text)), "")
    requests = [one.slots[0] for one in looked.plan.requests if one.slots and one.index != slot.index]
    wanted = [
        (one.count, (*of_class, *one.details.selectors)) for one in (slot, *requests) if one.device_class.name == name
    ]
    fields = {"driver": driver, "class": "" if driver else name}
    slices = _slices(driver or _ANY_DRIVER, wanted, looked.on)
    yield Fix("driver-installed", fields, looked.on, slices=slices)


def class_made(asked: RequestAlternative, on: tuple[NodeName, ...], view: ClusterView) -> Fix:
    """The class that a request names, tried as one of a driver of that name with devices on each node."""
    name = asked.device_class_name
    made = DeviceClass(name, (DeviceSelector(f'device.driver == "{name}"'),), (), None)
    is_there = any(one.driver == name for one in islice(view.inventory.slices.values(), _SLICES_READ))
    slices = () if is_there else _slices(name, [(asked.count, asked.selectors)], on)
    return Fix("class-made", {"class": name}, on, slices=slices, classes=(made,), whom=Whom.OTHERS)


def _slices(
    driver: str, wanted: Iterable[tuple[int, Iterable[DeviceSelector]]], nodes: Iterable[NodeName]
) -> tuple[ResourceSlice, ...]:
    """One of each node, with as many devices as are wanted, of the attributes that the selectors compare."""
    devices: list[dict[str, object]] = []
    for count, selectors in wanted:
        compared = [pair for one in selectors for pair in compared_values(one.expression or "")]
        attributes = {name: {"string": value} for name, value in compared}
        names = range(len(devices), min(len(devices) + max(1, count), _DEVICES_MAX))
        devices += [{"name": f"device-{number}", "attributes": attributes} for number in names]
    pools = [(node, {"name": node, "generation": 1, "resourceSliceCount": 1}) for node in nodes]
    specs = [{"driver": driver, "pool": pool, "nodeName": node, "devices": devices} for node, pool in pools]
    return tuple([decode_slice({"metadata": {"name": f"{one['nodeName']}-{driver}"}, "spec": one}) for one in specs])
