"""The published devices that a request takes, and what its claim asks of them besides: attributes and capacities.

A constraint on an attribute that none of them has is never met, and neither is a request for a capacity that none has,
or for more than any has. As all that a cluster shows these are warnings.

Rules of this module
  1. Where a request takes no device at all, or nobody knows which, nothing is said here.
  2. The allocator itself says which devices a request takes.

Cost: O(devices) for each class with its selectors, once however many requests have the same; after `_ASKED_MAX`
devices, or `_STEPS_MAX` steps of compiling and evaluating selectors, nothing is found out any more.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from allocator import (
    AllocationError,
    DecodeError,
    Device,
    DeviceClass,
    Features,
    Inventory,
    PausedError,
    decode_claim_spec,
    decode_class,
)
from allocator.requests.capacity import CapacityError, consume
from cel.quantity import Quantity
from scheduler.lint.context import Context
from scheduler.lint.findings import FieldPath
from scheduler.lint.published import Published, defaulted_claim_spec
from scheduler.lint.view import View, claim_specs, mapping, mappings, request_parts, sequence, text
from scheduler.model.nearest import listed, near, nearest
from scheduler.validation.releases import release_of

_ASKED_MAX: Final = 1_000_000
_STEPS_MAX: Final = 1_000_000  # about 4 s
_SINGLES: Final = ("matchAttribute", "distinctAttribute")


def check_taken(context: Context) -> None:
    """Look at the constraints and capacities of every claim and template."""
    published = context.published
    if published is None or not published.slices:
        return
    taken = _Taken(context, published)
    for view in context.views:
        for path, spec in claim_specs(view):
            parts = list(request_parts(path, spec))
            for here, reference, part in parts:
                for name, amount in mapping(mapping(part.get("capacity")).get("requests")).items():
                    if problem := _capacity(str(name), amount, taken.of(part), taken.features):
                        where: FieldPath = (*here, "capacity", "requests", name)
                        message = f"no device of request {reference} {problem.message}"
                        view.warning("capacity-unmet", where, message, problem.fix, key=problem.is_name)
            for index, constraint in mappings(mapping(spec.get("devices")).get("constraints")):
                for single in _SINGLES:
                    name = text(constraint.get(single))
                    if "/" in name:
                        place: FieldPath = (*path, "devices", "constraints", index, single)
                        for reference, part in _covered(constraint, parts):
                            _attribute(view, place, reference, name, taken.of(part))


def features_of(context: Context) -> Features:
    """Those of the release that is meant."""
    return Features(kubernetes=release_of(context.settings.minor))


def classes_of(context: Context, published: Published) -> dict[str, DeviceClass]:
    """The cluster's classes, and those of the files in their place."""
    classes = dict(published.classes)
    for name, view in context.classes.items():
        try:
            classes[name] = decode_class(view.obj)
        except DecodeError:
            continue
    return classes


class _Taken:
    """Finds the devices that a request's class and selectors take."""

    def __init__(self, context: Context, published: Published) -> None:
        newest = [one for one in published.slices if one.generation == published.generations[one.driver, one.pool][0]]
        self.features: Final = features_of(context)
        self._devices: Final = [device for one in newest for device in one.devices]
        self._inventory: Final = Inventory((), classes_of(context, published).values())
        self._inventory.meter.allow(_STEPS_MAX)
        self._known: Final[dict[str, Sequence[Device]]] = {}
        self._asked = 0

    def of(self, part: dict[str, Any]) -> Sequence[Device]:
        """Of a request, or an alternative of one; none where nobody knows."""
        exactly = {"deviceClassName": part.get("deviceClassName"), "selectors": part.get("selectors") or []}
        key = json.dumps(exactly, default=str)
        if key not in self._known:
            self._known[key] = self._find(exactly)
        return self._known[key]

    def _find(self, exactly: dict[str, Any]) -> Sequence[Device]:
        if self._asked + len(self._devices) > _ASKED_MAX:
            return ()
        self._asked += len(self._devices)
        try:
            spec = decode_claim_spec(
                defaulted_claim_spec({"devices": {"requests": [{"name": "r", "exactly": exactly}]}})
            )
            slots = self._inventory.plan([spec], self.features).slots
            return [device for device in self._devices if slots and slots[0].matcher.answer(device) is None]
        except (AllocationError, DecodeError, PausedError, ValueError, TypeError):
            return ()


def _covered(
    constraint: dict[str, Any], parts: Sequence[tuple[FieldPath, str, dict[str, Any]]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The requests, and alternatives of them, that a constraint is about."""
    wanted = set(filter(None, map(text, sequence(constraint.get("requests")))))
    for _, reference, part in parts:
        if not wanted or reference in wanted or reference.partition("/")[0] in wanted:
            yield reference, part


def _attribute(view: View, path: FieldPath, reference: str, name: str, devices: Sequence[Device]) -> None:
    names: set[str] = set()
    for device in devices:
        names.update(key if "/" in key else f"{device.id.driver}/{key}" for key in device.attributes)
        if name in names:
            return
    if devices:
        view.warning(
            "constraint-without-attribute",
            path,
            f"no device of request {reference} has the attribute {name}, so the constraint is never met: "
            f"{len(devices)} devices match",
            _meant(name, names),
        )


def _meant(name: str, names: Collection[str]) -> str:
    """The same name in another domain, else the nearest."""
    short = name.rpartition("/")[2]
    same = sorted(each for each in names if each.rpartition("/")[2] == short)
    if same:
        return f"they have {', '.join(same[:3])}"
    by_short = {each.rpartition("/")[2]: each for each in sorted(names)}
    found = near(short, by_short)
    return f"did you mean {by_short[found]}?" if found else listed(names)


class _Problem(NamedTuple):
    message: str
    fix: str = ""
    is_name: bool = False


def _capacity(name: str, amount: Any, devices: Sequence[Device], features: Features) -> _Problem | None:
    """Why none of the devices gives so much of a capacity; None where one does, or nobody knows."""
    having = [device for device in devices if name in device.capacity]
    if not devices:
        return None
    if not having:
        names = {each for device in devices for each in device.capacity}
        short = sorted(each for each in names if each.rpartition("/")[2] == name.rpartition("/")[2])
        fix = f"they have {', '.join(short[:3])}" if short else nearest(name, names) or listed(names)
        return _Problem(f"has the capacity {name}: {len(devices)} devices match", fix, is_name=True)
    try:
        wanted = Quantity.parse(str(amount))
    except ValueError:
        return None
    if any(_serves(device, name, wanted, features) for device in having):
        return None
    largest = max((device.capacity[name].value for device in having), key=lambda value: value.nano)
    why = f"the largest has {largest}" if wanted.nano > largest.nano else "their request policies allow no such amount"
    return _Problem(f"gives {amount} of {name}: {why}")


def _serves(device: Device, name: str, wanted: Quantity, features: Features) -> bool:
    try:
        return consume({name: wanted}, {name: device.capacity[name]}, features) is not None
    except CapacityError:
        return False
