"""No device at all, or none that a request's DeviceClass selects.

Not here: what the request asks for beyond its class (`selector_blame`), devices that do not count (`pool_blame`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from allocator import decode_slice
from allocator.requests.requests import Slot
from allocator.requests.subterms import last_subterm
from scheduler.model.selector_mistakes import compared_values, named_drivers
from scheduler.plugins.dynamic_resources.selector_blame import (
    changes_of_class,
    is_misspelt,
    mistakes_of,
    of_class,
    unmet_term,
)
from scheduler.plugins.dynamic_resources.survey import Survey
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason

_DRIVERS_NAMED: Final = 3
_SIZE_OF_DRIVER: Final = 7
_DEVICES_MAX: Final = 64
_ANY_DRIVER: Final = "driver"


def blame_class(looked: Survey, slot: Slot) -> Sequence[Reason]:
    """Nothing where the class selects a device, or the devices that were looked at do not show it."""
    if not looked.devices:
        return _no_devices(looked, slot)
    selectors = slot.device_class.selectors
    if not selectors or of_class(looked, slot):
        return ()
    name, place = slot.device_class.name, looked.place()
    found = last_subterm([one.expression or "" for one in selectors], looked.devices, slot.features, slot.matcher.meter)
    if found is None:
        return ()
    drivers = Counter(device.id.driver for device in looked.devices)
    there = ", ".join(f"{driver} ({count})" for driver, count in drivers.most_common(_DRIVERS_NAMED))
    mistakes = mistakes_of(found.text, found.before, place)
    cause = mistakes[0].cause if mistakes else unmet_term(found, place)
    drivers_there = "" if mistakes and mistakes[0].instead else f"; drivers: {there}"
    is_meant = any(mistake.instead and is_misspelt(mistake.instead, found.text) for mistake in mistakes)
    is_driver = any(mistake.kind == "driver-name" for mistake in mistakes)
    changes = list(_installed(looked, slot)) if is_driver and not is_meant else []
    changes += changes_of_class(looked, slot, found, mistakes)
    return (
        plain_reason(
            "class-unmatched", f"DeviceClass {name}: {cause}{drivers_there}", ("class", name, cause), tuple(changes)
        ),
    )


def _no_devices(looked: Survey, slot: Slot) -> Sequence[Reason]:
    if not looked.is_whole:
        return ()  # this node has none, and others do
    slices = len(looked.view.inventory.slices)
    empty = f"{slices} ResourceSlice{'s' if slices > 1 else ''} without devices"
    there = empty if slices else "there is no ResourceSlice"
    cause = f"no driver publishes any device ({there}), and {looked.named(slot)} waits for one"
    return (plain_reason("no-devices", cause, "no-devices", tuple(_installed(looked, slot))),)


def _installed(looked: Survey, slot: Slot) -> Iterator[Fix]:
    """The class's driver, asked as if it published on each node what all requests of the class ask for."""
    selectors = [one.expression or "" for one in (*slot.device_class.selectors, *slot.details.selectors)]
    driver = next((driver for text in selectors for driver in named_drivers(text)), "")
    whose = f"the driver {driver}" if driver else f"the driver of DeviceClass {slot.device_class.name}"
    driver = driver or _ANY_DRIVER
    requests = [one.slots[0] for one in looked.plan.requests if one.slots]
    devices: list[dict[str, object]] = []
    for one in (slot, *[other for other in requests if other.index != slot.index]):
        if one.device_class.name != slot.device_class.name:
            continue
        texts = [text.expression or "" for text in (*one.device_class.selectors, *one.details.selectors)]
        attributes = {name: {"string": value} for text in texts for name, value in compared_values(text)}
        names = range(len(devices), min(len(devices) + max(1, one.count), _DEVICES_MAX))
        devices += [{"name": f"device-{number}", "attributes": attributes} for number in names]
    nodes = looked.tried
    specs = [
        {
            "driver": driver,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": devices,
        }
        for node in nodes
    ]
    yield plain_fix(
        _SIZE_OF_DRIVER,
        f"install {whose}, or look at its log: it publishes no ResourceSlice",
        nodes,
        slices=tuple(
            [decode_slice({"metadata": {"name": f"{one['nodeName']}-{driver}"}, "spec": one}) for one in specs]
        ),
    )
