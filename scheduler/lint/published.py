"""What a cluster has, read from a dump of it: drivers, attributes, classes, nodes, allocations.

Rules of this module
  1. A broken object becomes a line of `problems`, and never stops the others.

Not here: what fits there (`scheduler.explain.linted`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from allocator import AllocationError, DecodeError, DeviceClass, PoolId, ResourceSlice, decode_class, decode_slice
from scheduler.lint.view import mapping, text


@dataclass(slots=True)
class Published:
    """The part of a cluster that lint compares with.

    Attributes:
        objects: All that was read.
        classes: By name.
        nodes: Their names.
        allocated: Namespace and name of claims that have devices.
        attributes: (which, domain) -> ids; `which` is `attributes` or `capacity`.
        gates: Feature gates of the API server; empty where they are not known.
        problems: What could not be read, one line each.
    """

    objects: list[Mapping[str, Any]] = field(default_factory=list)
    slices: list[ResourceSlice] = field(default_factory=list)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    allocated: set[tuple[str, str]] = field(default_factory=set)
    drivers: set[str] = field(default_factory=set)
    attributes: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    drivers_by_domain: dict[str, set[str]] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def domains_of(self, which: str, name: str) -> set[str]:
        """The domains under which an attribute or capacity of this name is published."""
        return {domain for (kind, domain), names in self.attributes.items() if kind == which and name in names}

    def names_in(self, which: str, domain: str) -> Collection[str]:
        """The names published in a domain."""
        return self.attributes.get((which, domain), ())


def read_published(objects: Iterable[Mapping[str, Any]], gates: Mapping[str, bool] | None = None) -> Published:
    """Read the objects of a dump; kinds that do not matter are passed over."""
    published = Published(objects=list(objects), gates=gates or {})
    for obj in published.objects:
        kind = text(obj.get("kind"))
        name = text(mapping(obj.get("metadata")).get("name"))
        try:
            _take(published, kind, name, obj)
        except (DecodeError, AllocationError, ValueError, TypeError, AttributeError) as error:
            said = str(error).removeprefix(f"{kind}: ").removeprefix(f"{kind} {name}: ")
            published.problems.append(f"{kind} {name}: {said}; left out")
    newest: dict[PoolId, int] = {}
    for slice_ in published.slices:
        newest[slice_.pool_id] = max(newest.get(slice_.pool_id, 0), slice_.generation)
    for slice_ in published.slices:
        # Devices of older generations are not there any more.
        if slice_.generation == newest[slice_.pool_id]:
            _take_names(published, slice_)
    return published


def _take(published: Published, kind: str, name: str, obj: Mapping[str, Any]) -> None:
    match kind:
        case "ResourceSlice":
            published.slices.append(decode_slice(obj))
        case "DeviceClass":
            published.classes[name] = decode_class(obj)
        case "Node":
            published.nodes.add(name)
        case "ResourceClaim" if mapping(obj.get("status")).get("allocation") is not None:
            published.allocated.add((text(mapping(obj.get("metadata")).get("namespace")) or "default", name))
        case _:
            pass


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
