"""The form of `dra-scheduler devices` for programs: docs/schemas/devices.json is the schema of these models."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from allocator import FaultKind

State: TypeAlias = Literal["free", "shared", "used", "tainted", "blocked", "closed", "unusable"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class States(_Part):
    """How many devices are in each state; together they are all there are."""

    free: int = 0
    shared: int = 0
    used: int = 0
    tainted: int = 0
    blocked: int = 0
    closed: int = 0
    unusable: int = 0


class Largest(_Part):
    """The largest count that one request of one claim could be given now, asked of the allocator."""

    within: str = Field(description='"node", or the attribute that all its devices have in common.')
    count: int = Field(description="0 to 32, the most that a claim can hold.")
    node: str | None = Field(description="The first node where it fits.")
    exact: bool = Field(description="False: the search ended early, and more may fit.")


class ClassSummary(_Part):
    """A device class, over all nodes that are listed."""

    name: str
    devices: int
    free: int = Field(description="Devices that could be given now, each by itself; partitions of one device overlap.")
    states: States
    largest: tuple[Largest, ...]


class NodeSummary(_Part):
    """A device class on one node, with the devices of pools that other nodes see too."""

    node: str
    device_class: str
    devices: int
    free: int
    closed: str = Field(description="Why no pod can go there now (cordoned, not ready); empty when one can.")


class User(_Part):
    """A claim that holds a device, or a share of it."""

    claim: str = Field(description="NAMESPACE/NAME.")
    request: str
    pods: tuple[str, ...] = Field(description="NAMESPACE/NAME of each pod that the claim is reserved for.")
    admin: bool = Field(description="Admin access: it takes nothing away from others.")
    consumed: dict[str, str] = Field(description="What the share consumes of the device's capacity.")


class Capacity(_Part):
    """A capacity of a device."""

    total: str
    left: str


class Blocker(_Part):
    """One thing that keeps a device from being given out."""

    kind: Literal["claim", "counter", "partition", "taint", "field", "node", "pool", "plugin"] = Field(
        description="claim: it has the device; counter: too little of it is left; partition: it takes of that counter."
    )
    name: str = Field(
        description="The claim (NAMESPACE/NAME), counter (SET.COUNTER), partition, key of the taint, path of the "
        "field, node, or pool; empty where the text counts more of them."
    )
    text: str


class DeviceSummary(_Part):
    """One published device."""

    driver: str
    pool: str
    device: str
    node: str | None = Field(description="None: several nodes may use it.")
    classes: tuple[str, ...]
    state: State = Field(
        description="free; shared: a share of it is used, and another could be given; used; tainted; blocked: the "
        "counters of its physical device are used up by other partitions; closed: its nodes take no pods now; "
        "unusable: its pool is incomplete or invalid, or its node is not there."
    )
    taints: tuple[str, ...]
    users: tuple[User, ...]
    blocked_by: tuple[Blocker, ...] = Field(description="All that blocks it; empty where a claim could be given it.")
    capacity: dict[str, Capacity]


class CounterSummary(_Part):
    """A counter that partitions of a physical device share."""

    counter_set: str
    counter: str
    total: str
    left: str


class PoolSummary(_Part):
    """A pool of a driver."""

    driver: str
    pool: str
    generation: int = Field(description="The newest; slices of others are superseded.")
    slices: int = Field(description="Slices of this generation.")
    expected: int = Field(description="How many there should be.")
    superseded: int = Field(description="Slices of older generations that are still there.")
    state: Literal["complete", "incomplete", "invalid"]
    reason: str
    nodes: tuple[str, ...] = Field(description="Nodes that its slices name; empty: it depends on labels.")
    devices: int
    counters: tuple[CounterSummary, ...]


class PoolFault(_Part):
    """What is wrong with a pool as its driver publishes it."""

    driver: str
    pool: str
    kind: FaultKind
    slices: tuple[str, ...] = Field(description="Names of the ResourceSlices that make it so.")
    text: str


class ProfileSummary(_Part):
    """Partitions of one size: devices of a driver that consume as much of counters."""

    driver: str
    profile: str = Field(description="What the driver calls it, in an attribute `profile`; empty where it does not.")
    counters: dict[str, str] = Field(
        description="What one consumes. Counters that differ in a last number only are one: memory-slice of "
        "memory-slice-0 and memory-slice-1."
    )
    devices: int
    free: int = Field(description="Each by itself.")
    states: States
    together: int = Field(description="How many of the free could be given, one beside the other; see is_exact.")
    is_exact: bool = Field(description="False: `together` is an upper bound, and it may be fewer.")


class DeviceList(_Part):
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
    left_out: tuple[str, ...] = Field(default=(), description="What of the objects is not considered, and why.")
    notes: tuple[str, ...]
