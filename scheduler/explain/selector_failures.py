"""Selectors that fail for a device instead of answering: which, for which device, and where in the expression.

The scheduler says the error and the number of the selector; a person wants the place.

Not here: what was probably meant (`model.selector_mistakes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from allocator import Device, first_failure
from scheduler.explain.asked_objects import Objects
from scheduler.explain.pod_explanation import SelectorFailure
from scheduler.explain.world import Ruling


class _Written(NamedTuple):
    """A selector, and whose it is."""

    label: str
    expression: str


def selector_failures(ruling: Ruling, objects: Objects) -> tuple[SelectorFailure, ...]:
    """Those of the pod's requests and their classes that the scheduler speaks of, each for its first device."""
    if ruling.verdict is None:
        return ()
    inventory = ruling.answers.machine.store.inventory
    devices = [device for _, one in sorted(inventory.slices.items()) for device in one.devices]
    return tuple(_failures(dict.fromkeys(_selectors(objects)), devices, objects, ruling.verdict.reason))


def _failures(
    selectors: Iterable[_Written], devices: list[Device], objects: Objects, said: str
) -> Iterator[SelectorFailure]:
    for label, expression in selectors:
        found = first_failure(expression, devices, objects.world.features)
        if found is not None and found[1].message in said:
            device, failure = found
            yield SelectorFailure(
                of=label,
                expression=expression,
                device="/".join((device.id.driver, device.id.pool, device.id.device)),
                message=failure.message,
                offset=failure.offset,
                shown=str(failure),
            )


def _selectors(objects: Objects) -> Iterator[_Written]:
    for request in objects.requests:
        found = objects.find("DeviceClass", str(request.body.get("deviceClassName")))
        if found is not None:
            yield from _expressions(f"DeviceClass {found[1]['metadata']['name']}", found[1].get("spec"))
        yield from _expressions(request.label, request.body)


def _expressions(label: str, owner: Mapping[str, Any] | None) -> Iterator[_Written]:
    for selector in (owner or {}).get("selectors") or ():
        expression = (selector.get("cel") or {}).get("expression")
        if isinstance(expression, str):
            yield _Written(label, expression)
