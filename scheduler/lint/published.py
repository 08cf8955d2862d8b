"""What a cluster has, read from a dump of it: drivers, attributes, classes, nodes, allocations.

Rules of this module
  1. A broken object becomes a line of `problems`, and never stops the others.

Not here: what fits (`capacity_check`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from allocator import (
    Allocation,
    AllocationError,
    DecodeError,
    DeviceClass,
    DeviceTaint,
    InUse,
    ResourceSlice,
    decode_allocation,
    decode_class,
    decode_slice,
)
from scheduler.lint.view import copy_plain, mapping, text
from scheduler.model.device_taint_rules import DeviceSelector, DeviceTaintRule, with_rule_taints
from scheduler.validation.claim_refusals import default_claim_spec


@dataclass(slots=True)
class Published:
    """The part of a cluster that lint compares with.

    Attributes:
        slices: With the taints that DeviceTaintRules put on their devices.
        classes: By name.
        templates, claims: Namespace and name of those that are there.
        generations: The newest generation of each pool, by (driver, pool), and how many slices it has of how many.
        nodes: Node objects by name.
        allocations: Of claims, by (namespace, name); `in_use` is what they hold.
        attributes: (which, domain) -> ids; `which` is `attributes` or `capacity`.
        gates: Feature gates of the API server; empty where they are not known.
        namespaces: Labels by name.
        problems: What could not be read, one line each.
        conflicts: Devices that two claims have, one line each.
    """

    slices: list[ResourceSlice] = field(default_factory=list)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    templates: set[tuple[str, str]] = field(default_factory=set)
    claims: set[tuple[str, str]] = field(default_factory=set)
    generations: dict[tuple[str, str], tuple[int, int, int]] = field(default_factory=dict)
    nodes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    allocations: dict[tuple[str, str], Allocation] = field(default_factory=dict)
    rules: list[DeviceTaintRule] = field(default_factory=list)
    in_use: InUse = field(default_factory=InUse)
    drivers: set[str] = field(default_factory=set)
    attributes: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    drivers_by_domain: dict[str, set[str]] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    namespaces: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    def domains_of(self, which: str, name: str) -> set[str]:
        """The domains under which an attribute or capacity of this name is published."""
        return {domain for (kind, domain), names in self.attributes.items() if kind == which and name in names}

    def names_in(self, which: str, domain: str) -> Collection[str]:
        """The names published in a domain."""
        return self.attributes.get((which, domain), ())


def read_published(objects: Iterable[Mapping[str, Any]], places: Iterable[str] = repeat("")) -> Published:
    """Read the objects of a dump; kinds that do not matter are passed over.

    Args:
        places: Where each object stands, for problems.
    """
    published = Published()
    for obj, place in zip(objects, places, strict=False):
        kind = text(obj.get("kind"))
        name = text(mapping(obj.get("metadata")).get("name"))
        try:
            _take(published, kind, name, obj)
        except (DecodeError, AllocationError, ValueError, TypeError, AttributeError) as error:
            said = str(error).removeprefix(f"{kind}: ").removeprefix(f"{kind} {name}: ")
            published.problems.append(f"{place}{': ' if place else ''}{kind} {name}: {said}; left out")
    for slice_ in published.slices:
        _take_generation(published, slice_)
    for slice_ in published.slices:
        # Devices of older generations are not there any more.
        if slice_.generation == published.generations[slice_.driver, slice_.pool][0]:
            _take_names(published, slice_)
    published.slices = [with_rule_taints(slice_, published.rules) for slice_ in published.slices]
    return published


def _take(published: Published, kind: str, name: str, obj: Mapping[str, Any]) -> None:
    match kind:
        case "ResourceSlice":
            published.slices.append(decode_slice(obj))
        case "DeviceTaintRule":
            published.rules.append(_taint_rule(name, mapping(obj.get("spec"))))
        case "ResourceClaimTemplate":
            published.templates.add((text(mapping(obj.get("metadata")).get("namespace")) or "default", name))
        case "DeviceClass":
            published.classes[name] = decode_class(obj)
        case "Node":
            published.nodes[name] = obj
        case "Namespace":
            published.namespaces[name] = mapping(mapping(obj.get("metadata")).get("labels"))
        case "ResourceClaim":
            _take_claim(published, name, obj)
        case _:
            pass


def _taint_rule(name: str, spec: Mapping[str, Any]) -> DeviceTaintRule:
    selector = spec.get("deviceSelector")
    taint = mapping(spec.get("taint"))
    fields = {field: text(mapping(selector).get(field)) or None for field in ("driver", "pool", "device")}
    return DeviceTaintRule(
        name,
        DeviceSelector(**fields) if isinstance(selector, dict) else None,
        DeviceTaint(text(taint.get("key")), text(taint.get("value")), text(taint.get("effect")), None),
    )


def _take_generation(published: Published, slice_: ResourceSlice) -> None:
    key = (slice_.driver, slice_.pool)
    newest, there, wanted = published.generations.get(key, (slice_.generation, 0, slice_.resource_slice_count))
    if slice_.generation > newest:
        newest, there, wanted = slice_.generation, 0, slice_.resource_slice_count
    published.generations[key] = (newest, there + (slice_.generation == newest), wanted)


def _take_names(published: Published, slice_: ResourceSlice) -> None:
    published.drivers.add(slice_.driver)
    for device in slice_.devices:
        for which, names in (("attributes", device.attributes), ("capacity", device.capacity)):
            for qualified in names:
                domain, slash, short = qualified.partition("/")
                if not slash:
                    domain, short = slice_.driver, qualified
                published.attributes.setdefault((which, domain), set()).add(short)
                published.drivers_by_domain.setdefault(domain, set()).add(slice_.driver)


def _take_claim(published: Published, name: str, obj: Mapping[str, Any]) -> None:
    key = (text(mapping(obj.get("metadata")).get("namespace")) or "default", name)
    published.claims.add(key)
    allocation = mapping(obj.get("status")).get("allocation")
    if allocation is not None:
        published.allocations[key] = decode_allocation(allocation)
        published.conflicts += (
            f"ResourceClaim {'/'.join(key)}: device {device} is allocated to another claim, too"
            for device in published.in_use.add(published.allocations[key])
        )


def defaulted_claim_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the spec as the API server would store it: allocation mode and count filled in."""
    filled: dict[str, Any] = copy_plain(spec)
    with suppress(AttributeError, TypeError):  # of a wrong type, as the decoder will say
        default_claim_spec(filled)
    return filled
