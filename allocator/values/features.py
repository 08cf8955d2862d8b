"""Which parts of the API are in force.

A scheduler cannot read the API server's gates: fields of a gate that is off are simply absent. These
flags are for matching an upstream scheduler whose gates were changed, and for upstream's tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

RELEASES: Final[tuple[str, ...]] = ("1.36", "1.37", "1.38")
"""Releases of Kubernetes whose verdicts are known, oldest first; 1.38 as its beta.0 has them."""

NEWEST_RELEASE: Final[str] = "1.37"
"""The newest of them that is out: what is followed where nobody names one."""


@dataclass(frozen=True, slots=True)
class Features:
    """Feature flags with the defaults of the newest release that is out.

    `device_binding_and_status` stands for DRADeviceBindingConditions together with
    DRAResourceClaimDeviceStatus; `extended_resource`, `generic_workload` and `node_allocatable_resources` mean nothing
    to the allocator. The latter two, `compatibility_groups`, `optional_node_operations` and `derived_attributes` are on
    though their gates are off by default: without the gates no object has their fields; with `compatibility_groups`
    off, slices that name groups are left out, as by 1.37. `kubernetes` (of RELEASES) switches the verdicts that 1.37
    changed: counter slices follow node selection, All mode checks only static capacity, shares without capacity count
    as sharing, and configuration entries that cover all requests; and those of 1.38: versions are equal without their
    build, and what a constraint cannot compare is an error. `fractional_capacity_range` means nothing to 1.36; in 1.37
    its gate is on only where the components' --min-compatibility-version is 1.37, which is 1.36 by default; None: on
    from 1.38 on.
    """

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_binding_and_status: bool = True
    consumable_capacity: bool = True
    list_type_attributes: bool = False
    fractional_capacity_range: bool | None = None
    compatibility_groups: bool = True
    extended_resource: bool = True
    node_allocatable_resources: bool = True
    optional_node_operations: bool = True
    derived_attributes: bool = True
    generic_workload: bool = True
    kubernetes: str = NEWEST_RELEASE
    _hash: int = field(init=False, repr=False, compare=False)  # asked for with every look-up of a node's pools

    def __post_init__(self) -> None:
        if self.kubernetes not in RELEASES:
            known = " or ".join(map(repr, RELEASES))
            raise ValueError(f"Features.kubernetes: {self.kubernetes!r} is not supported; use {known}")
        flags = tuple(getattr(self, one.name) for one in fields(self) if one.compare)
        object.__setattr__(self, "_hash", hash(flags))

    def __hash__(self) -> int:
        return self._hash

    @property
    def has_137_semantics(self) -> bool:
        return self.kubernetes != "1.36"

    @property
    def has_138_semantics(self) -> bool:
        return self.kubernetes == "1.38"

    @property
    def counts_fractions(self) -> bool:
        """Whether amounts of shared capacity are rounded to steps of a thousandth; else to whole units."""
        if self.fractional_capacity_range is None:
            return self.has_138_semantics
        return self.fractional_capacity_range and self.has_137_semantics

    @property
    def is_stable_variant(self) -> bool:
        """Whether upstream would run its oldest allocator, which knows no distinctAttribute and no bindsToNode."""
        return not (self.device_binding_and_status or self.consumable_capacity or self.list_type_attributes)


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """Speed-ups of the search. Each can be switched off; the answers stay the same (tests compare).

    Attributes:
        bulk: Take a request's devices in one go when nothing but the count matters.
        forward_check: Give up a branch when a later request has fewer candidates left than it needs.
        symmetry: Try one of several devices that no request, constraint or counter tells apart.
        memo: Remember states from which no solution was found.
        matching: Give up a branch when the remaining requests cannot all get different devices.
        counter_bounds: Give up a branch when the cheapest remaining devices exceed the counters.
        last_answer: What was found for a node is found again without a search while nothing changed there.
    """

    bulk: bool = True
    forward_check: bool = True
    symmetry: bool = True
    memo: bool = True
    matching: bool = True
    counter_bounds: bool = True
    last_answer: bool = True

    @classmethod
    def none(cls) -> Shortcuts:
        """The plain search."""
        return cls(**{one.name: False for one in fields(cls)})


ALL_SHORTCUTS = Shortcuts()
