"""What one object's check needs to know of the others: the files' classes and claims, and the cluster's.

Not here: reading a cluster (`published`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from allocator.values.names import is_c_identifier
from scheduler.lint.published import Published
from scheduler.lint.view import View, at, claim_spec_path, mapping, mappings, sequence, text
from scheduler.model.api_rules import ID_LENGTH_MAX
from scheduler.model.selector_reading import pinned_drivers
from scheduler.validation.api_fields import NEWEST


@dataclass(frozen=True, slots=True)
class Settings:
    """How to judge.

    Attributes:
        kubernetes: Whose API server is meant, "1.34" to "1.38".
        driver: The driver whose attributes are meant where an expression names no domain; empty for none.
        driver_map: What drivers are called today, by the name that is written.
        gates: Feature gates that differ from the release's defaults, by upstream's names.
    """

    kubernetes: str = f"1.{NEWEST}"
    driver: str = ""
    driver_map: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)

    @property
    def minor(self) -> int:
        return int(self.kubernetes.split(".")[1])


class Context:
    """The views of all files, and what is known of a cluster (`published`, None for nothing)."""

    def __init__(self, views: Sequence[View], settings: Settings, published: Published | None) -> None:
        self.views: Final = views
        self.settings: Final = settings
        self.published: Final = published
        self.classes: Final = {view.object_name: view for view in views if view.is_dra and view.kind == "DeviceClass"}
        self.class_names: Final = frozenset({*self.classes, *(published.classes if published is not None else ())})
        self._by_key: Final = {(view.kind, view.namespace, view.object_name): view for view in views if view.is_dra}

    def objects(self, kind: str) -> dict[tuple[str, str], Mapping[str, Any]]:
        """Those of the cluster, and the files' in their place, by namespace and name."""
        there = self.published.objects if self.published is not None else ()
        found = {key_of(obj): obj for obj in there if obj.get("kind") == kind}
        return found | {key_of(view.obj): view.obj for view in self.views if view.kind == kind}

    def gate(self, name: str) -> bool | None:
        """Whether a gate is on, where that was said or the cluster shows it; None for the release's default."""
        if name in self.settings.gates:
            return self.settings.gates[name]
        return self.published.gates.get(name) if self.published is not None else None

    def find(self, kind: str, namespace: str, name: str) -> View | None:
        """A claim or template of the files."""
        return self._by_key.get((kind, namespace, name))

    def claim_spec(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Its spec."""
        view = self.find(kind, namespace, name)
        path = claim_spec_path(kind)
        spec = at(view.obj, path) if view is not None and path is not None else None
        return spec if isinstance(spec, dict) else None

    def is_class_known(self, name: str) -> bool:
        return name in self.classes or (self.published is not None and name in self.published.classes)

    def drivers_of_class(self, name: str) -> frozenset[str]:
        """Drivers the class's selectors demand; empty when it is unknown or demands none."""
        if name in self.classes:
            spec = mapping(self.classes[name].obj.get("spec"))
            return self.pins_of(spec.get("selectors"))
        if self.published is not None and name in self.published.classes:
            selectors = self.published.classes[name].selectors
            return frozenset().union(*(pinned_drivers(selector.expression or "") for selector in selectors))
        return frozenset()

    def pins_of(self, selectors: Any) -> frozenset[str]:
        """Drivers that a list of selectors demands, as they are called today."""
        return frozenset().union(
            *(pinned_drivers(expression, self.driver_meant) for _, expression in expressions(selectors))
        )

    def driver_meant(self, written: str) -> str | None:
        """What a driver is called today: by the map, or the usual name where a cluster has such a driver."""
        if written in self.settings.driver_map:
            return self.settings.driver_map[written]
        usual = usual_driver(written)
        return usual if usual and self.published is not None and usual in self.published.drivers else None

    def name_meant(self, which: str, written: str) -> str:
        """A name that can be: the published one that differs in case and separators only, else the nearest."""
        if is_id(written):
            return written
        if self.published is not None:
            folded = _folded(written)
            names = {name for (kind, _), ids in self.published.attributes.items() if kind == which for name in ids}
            found = {name for name in names if _folded(name) == folded}
            if len(found) == 1:
                return found.pop()
        return legal_id(written)

    def is_name_certain(self, which: str, domain: str, name: str) -> bool:
        """Whether a name that was made legal may be written: published, or nothing is known to be published."""
        if self.published is None or not self.published.slices:
            return True
        return name in self.published.names_in(which, domain)

    def domain_finder(self, drivers: Collection[str]) -> Callable[[str, str], str | None]:
        """Which domain is meant by an attribute without one, for devices that have one of `drivers`.

        What is published decides where a cluster is known. Else it is the driver's own domain, which is where a
        driver's attributes stand unless they say otherwise.
        """

        def find(which: str, name: str) -> str | None:
            if self.published is not None and self.published.slices:
                domains = self.published.domains_of(which, name)
                if drivers:
                    domains = {domain for domain in domains if self.published.drivers_by_domain[domain] & set(drivers)}
                return next(iter(domains)) if len(domains) == 1 else None
            wanted = set(drivers) or ({self.settings.driver} if self.settings.driver else set())
            return next(iter(wanted)) if len(wanted) == 1 else None

        return find


def key_of(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace and name."""
    metadata = mapping(obj.get("metadata"))
    return text(metadata.get("namespace")) or "default", text(metadata.get("name"))


def usual_driver(resource: str) -> str:
    """`gpu.nvidia.com` for the extended resource `nvidia.com/gpu`; empty for other names."""
    domain, slash, name = resource.partition("/")
    return f"{name}.{domain}" if slash and name and "/" not in name else ""


def legal_id(name: str) -> str:
    """The nearest name that an attribute can have: a C identifier of at most 32 characters."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return (f"_{name}" if name[:1].isdigit() or not name else name)[:32]


def is_id(name: str) -> bool:
    """Whether an attribute can have this name."""
    return is_c_identifier(name) and len(name) <= ID_LENGTH_MAX


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").replace(".", "").lower()


def expressions(selectors: Any) -> Iterable[tuple[int, str]]:
    """Index and text of the CEL expressions of a list of selectors."""
    for index, selector in mappings(sequence(selectors)):
        expression = mapping(selector.get("cel")).get("expression")
        if isinstance(expression, str):
            yield index, text(expression)


NOTHING_KNOWN: Final = Context((), Settings(), None)
"""Of an expression alone: neither files nor a cluster nor drivers."""
