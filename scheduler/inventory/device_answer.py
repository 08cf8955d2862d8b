"""The form of `dra-scheduler devices` for programs; docs/schemas/devices.json is its schema.

It says what each field means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from allocator import FaultKind

State: TypeAlias = Literal["free", "shared", "used", "tainted", "blocked", "closed", "unusable"]


class States(Struct, frozen=True, kw_only=True):
    """How many devices are in each state; together they are all there are."""

    free: int = 0
    shared: int = 0
    used: int = 0
    tainted: int = 0
    blocked: int = 0
    closed: int = 0
    unusable: int = 0


def count_states(states: Iterable[State]) -> States:
    """How often each occurs."""
    return States(**Counter[str](states))


class Largest(Struct, frozen=True, kw_only=True):
    """The largest count that one request of one claim could be given now, asked of the allocator."""

    within: str
    count: int
    node: str | None
    exact: bool


class ClassSummary(Struct, frozen=True, kw_only=True):
    """A device class, over all nodes that are listed."""

    name: str
    devices: int
    free: int
    states: States
    largest: tuple[Largest, ...]


class NodeSummary(Struct, frozen=True, kw_only=True):
    """A device class on one node, with the devices of pools that other nodes see too."""

    node: str
    device_class: str
    devices: int
    free: int
    closed: str


class User(Struct, frozen=True, kw_only=True):
    """A claim that holds a device, or a share of it."""

    claim: str
    request: str
    pods: tuple[str, ...]
    admin: bool
    consumed: dict[str, str]


class Capacity(Struct, frozen=True, kw_only=True):
    """A capacity of a device."""

    total: str
    left: str


class Blocker(Struct, frozen=True, kw_only=True):
    """One thing that keeps a device from being given out."""

    kind: Literal["claim", "counter", "partition", "taint", "field", "node", "pool", "plugin"]
    name: str
    text: str


class DeviceSummary(Struct, frozen=True, kw_only=True):
    """One published device."""

    driver: str
    pool: str
    device: str
    node: str | None
    classes: tuple[str, ...]
    state: State
    taints: tuple[str, ...]
    users: tuple[User, ...]
    blocked_by: tuple[Blocker, ...]
    capacity: dict[str, Capacity]


class CounterSummary(Struct, frozen=True, kw_only=True):
    """A counter that partitions of a physical device share."""

    counter_set: str
    counter: str
    total: str
    left: str


class PoolSummary(Struct, frozen=True, kw_only=True):
    """A pool of a driver."""

    driver: str
    pool: str
    generation: int
    slices: int
    expected: int
    superseded: int
    state: Literal["complete", "incomplete", "invalid"]
    reason: str
    nodes: tuple[str, ...]
    devices: int
    counters: tuple[CounterSummary, ...]


class PoolFault(Struct, frozen=True, kw_only=True):
    """What is wrong with a pool as its driver publishes it."""

    driver: str
    pool: str
    kind: FaultKind
    slices: tuple[str, ...]
    text: str


class ProfileSummary(Struct, frozen=True, kw_only=True):
    """Partitions of one size: devices of a driver that consume as much of counters."""

    driver: str
    profile: str
    counters: dict[str, str]
    devices: int
    free: int
    states: States
    together: int
    is_exact: bool


class DeviceList(Struct, frozen=True, kw_only=True):
    """The devices of a cluster.

    `states` counts the devices of the nodes and classes that were asked for, whether `devices` has all of them or
    those that are free.
    """

    states: States
    profiles: tuple[ProfileSummary, ...]
    faults: tuple[PoolFault, ...]
    classes: tuple[ClassSummary, ...]
    nodes: tuple[NodeSummary, ...]
    devices: tuple[DeviceSummary, ...]
    pools: tuple[PoolSummary, ...]
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...]
