"""Selectors that fail for a device instead of answering: which, for which device, and where in the expression.

The scheduler says the error and the number of the selector; a person wants the place.

Not here: what was probably meant (`model.selector_mistakes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from allocator import first_failure
from scheduler.explain.asked_objects import Objects
from scheduler.explain.pod_explanation import SelectorFailure
from scheduler.explain.world import Ruling


def selector_failures(ruling: Ruling, objects: Objects) -> Iterator[SelectorFailure]:
    """Those of the pod's requests and their classes that the scheduler speaks of, each for its first device."""
    assert ruling.verdict is not None
    slices = ruling.answers.machine.store.inventory.slices
    devices = [device for _, one in sorted(slices.items()) for device in one.devices]
    for label, expression in dict.fromkeys(_selectors(objects)):
        found = first_failure(expression, devices, objects.world.features)
        if found is not None and found[1].message in ruling.verdict.reason:
            device, failure = found
            yield SelectorFailure(
                of=label,
                expression=expression,
                device=str(device.id),
                message=failure.message,
                offset=failure.offset,
                shown=str(failure),
            )


def _selectors(objects: Objects) -> Iterator[tuple[str, str]]:
    """Whose each is, and its expression."""
    for request in objects.requests:
        found = objects.find("DeviceClass", str(request.body.get("deviceClassName")))
        if found is not None:
            yield from _expressions(f"DeviceClass {found[1]['metadata']['name']}", found[1].get("spec"))
        yield from _expressions(request.label, request.body)


def _expressions(label: str, owner: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    for selector in (owner or {}).get("selectors") or ():
        expression = (selector.get("cel") or {}).get("expression")
        if isinstance(expression, str):
            yield label, expression
