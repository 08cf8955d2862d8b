"""Values the allocator works on: what drivers publish, what users ask for, and what is given to them.

Everything here is immutable and knows no search. Field names are those of `resource.k8s.io/v1` in
Python case. Where Go distinguishes nil from zero and a verdict depends on it, the field is optional.

Not here: reading and writing API JSON (`decode`), pools (`pools`), a claim's validated plan (`requests`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from cel.quantity import Quantity

RESULTS_MAX: Final = 32
"""Devices one claim can hold (AllocationResultsMaxSize)."""
OPTIONAL_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"
"""What a kubelet declares that skips calls of the driver when `skipNodeOperations` says so."""

AttributeKind: TypeAlias = Literal[
    "bool", "int", "string", "version", "bools", "ints", "strings", "versions", "unknown"
]
AttributeValue: TypeAlias = bool | int | str | tuple[bool, ...] | tuple[int, ...] | tuple[str, ...] | None


class PoolId(NamedTuple):
    """Identity of a pool: pool names are only unique within a driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """Identity of a device in the cluster."""

    driver: str
    pool: str
    device: str

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.driver, self.pool)

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Attribute(NamedTuple):
    """One attribute value. `kind` "unknown" (value None) is an attribute with no member this version knows."""

    kind: AttributeKind
    value: AttributeValue


class NodeSelectorRequirement(NamedTuple):
    """`key operator values`; used for labels (matchExpressions) and for fields (matchFields)."""

    key: str
    operator: str
    values: tuple[str, ...]


class NodeSelectorTerm(NamedTuple):
    """Requirements that must all hold. A term without any matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...]
    match_fields: tuple[NodeSelectorRequirement, ...]


class NodeSelector(NamedTuple):
    """Terms of which one must match."""

    terms: tuple[NodeSelectorTerm, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """What the allocator needs of a node. Equal and hashed by name; the rest is compared by the caches.

    `declared_features` are what its kubelet can do (`status.declaredFeatures`).
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    declared_features: tuple[str, ...] = ()

    @property
    def can_skip_operations(self) -> bool:
        """Whether devices may be given out here for which the kubelet is to skip calls of the driver."""
        return OPTIONAL_NODE_OPERATIONS in self.declared_features

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, NodeView) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)


class DeviceTaint(NamedTuple):
    """A device taint; `effect` is "None", "NoSchedule", "NoExecute" or something newer."""

    key: str
    value: str
    effect: str
    time_added: str | None


class DeviceToleration(NamedTuple):
    """A device toleration; an empty `operator` means Equal, an empty `effect` or `key` means any."""

    key: str
    operator: str
    value: str
    effect: str
    toleration_seconds: int | None


class ValidRange(NamedTuple):
    """Amounts `min`, `min + step`, … up to `max` may be consumed; without `step` all between."""

    min: Quantity | None
    max: Quantity | None
    step: Quantity | None


class RequestPolicy(NamedTuple):
    """How much of a capacity one share may consume."""

    default: Quantity | None
    valid_values: tuple[Quantity, ...]
    valid_range: ValidRange | None


class DeviceCapacity(NamedTuple):
    """A capacity of a device."""

    value: Quantity
    policy: RequestPolicy | None


class CounterConsumption(NamedTuple):
    """What a device takes from one counter set of its pool, beside devices of which compatibility groups."""

    counter_set: str
    counters: tuple[tuple[str, Quantity], ...]
    groups: tuple[str, ...] = ()


class CounterSet(NamedTuple):
    """Counters that the devices of a pool share."""

    name: str
    counters: tuple[tuple[str, Quantity], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One device of a slice.

    `binding_conditions` is None where the list is absent (it orders pools). `unread`: paths of fields of it, or
    of its slice (`spec.…`), that nobody here acts on; it is given to nobody.
    """

    id: DeviceId
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, DeviceCapacity]
    allow_multiple_allocations: bool
    consumes_counters: tuple[CounterConsumption, ...]
    node_name: str | None
    node_selector: NodeSelector | None
    all_nodes: bool
    taints: tuple[DeviceTaint, ...]
    binds_to_node: bool
    binding_conditions: tuple[str, ...] | None
    binding_failure_conditions: tuple[str, ...] | None
    node_allocatable_resource_mappings: Mapping[str, Any] | None  # 1.36's form of the next
    node_allocatable_resources: Mapping[str, Any] | None
    unread: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.id.device


@dataclass(frozen=True, slots=True, eq=False)
class ResourceSlice:
    """What a driver publishes. Compared by identity: decode again to get a changed one.

    `unread`: paths of fields outside of its devices that nobody here acts on. `skip_node_operations`: what the kubelet
    need not call the driver for; every allocation of a device has a copy.
    """

    name: str
    driver: str
    pool: str
    generation: int
    resource_slice_count: int
    node_name: str | None
    node_selector: NodeSelector | None
    all_nodes: bool
    per_device_node_selection: bool | None
    devices: tuple[Device, ...]
    shared_counters: tuple[CounterSet, ...]
    skip_node_operations: tuple[str, ...]
    unread: tuple[str, ...] = ()

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.driver, self.pool)


class DeviceSelector(NamedTuple):
    """A CEL selector; `expression` is None where the API object has a selector of a newer type."""

    expression: str | None


@dataclass(frozen=True, slots=True, eq=False)
class DeviceClass:
    """A device class. `config` entries are the API's DeviceConfiguration objects, handed on unread.

    `creation_timestamp` (RFC 3339, "" when unknown) decides between classes of one extended resource name. `unread`:
    paths of fields that nobody here acts on; no request of the class is served.
    """

    name: str
    selectors: tuple[DeviceSelector, ...]
    config: tuple[Mapping[str, Any], ...]
    extended_resource_name: str | None
    creation_timestamp: str = ""
    unread: tuple[str, ...] = ()


class DerivedAttribute(NamedTuple):
    """An attribute of a request's devices that constraints see: an expression in place of what a driver publishes."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True, eq=False)
class RequestAlternative:
    """One way to serve a request: the `exactly` part, or one entry of `firstAvailable`."""

    name: str
    device_class_name: str
    selectors: tuple[DeviceSelector, ...]
    allocation_mode: str
    count: int
    admin_access: bool | None
    tolerations: tuple[DeviceToleration, ...]
    capacity_requests: tuple[tuple[str, Quantity], ...] | None
    derived: tuple[DerivedAttribute, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A request of a claim: exactly one of `exactly` and `first_available` is set in a valid claim."""

    name: str
    exactly: RequestAlternative | None
    first_available: tuple[RequestAlternative, ...]

    @property
    def alternatives(self) -> tuple[RequestAlternative, ...]:
        return self.first_available or ((self.exactly,) if self.exactly is not None else ())


class Constraint(NamedTuple):
    """A constraint over the devices of some requests (`req` or `req/sub`; none means all)."""

    requests: tuple[str, ...]
    match_attribute: str | None
    distinct_attribute: str | None

    @property
    def attribute(self) -> str:
        """Whichever of them is given; empty in a constraint of a kind that is not known."""
        return self.match_attribute or self.distinct_attribute or ""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimConfig:
    """A configuration entry of a claim; `configuration` is the API's DeviceConfiguration, unread."""

    requests: tuple[str, ...]
    configuration: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ClaimSpec:
    """What a claim asks for. `decode_claim_spec` gives the same object for equal JSON, so `is` compares values."""

    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]
    config: tuple[ClaimConfig, ...]


class Claim(Struct, frozen=True):
    """An unallocated claim to allocate."""

    namespace: str
    name: str
    spec: ClaimSpec

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class DeviceResult(Struct, frozen=True):
    """One device given to a request (DeviceRequestAllocationResult).

    `request` is `req` or `req/sub`; `share_id` and `consumed_capacity` only for devices that several
    allocations may hold.
    """

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = None
    consumed_capacity: tuple[tuple[str, Quantity], ...] = ()
    skip_node_operations: tuple[str, ...] = ()

    @property
    def device_id(self) -> DeviceId:
        return tuple.__new__(DeviceId, (self.driver, self.pool, self.device))  # half the time of a NamedTuple's own


class AllocationConfig(Struct, frozen=True):
    """A configuration entry of an allocation; `source` is FromClass or FromClaim."""

    source: str
    requests: tuple[str, ...]
    configuration: Mapping[str, Any]


class Allocation(Struct, frozen=True, weakref=True):
    """A claim's `status.allocation`. `node_selector` None means usable on every node."""

    results: tuple[DeviceResult, ...]
    config: tuple[AllocationConfig, ...] = ()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None

    def device_ids(self) -> Iterator[DeviceId]:
        """The devices in order of the results, admin access included."""
        return (result.device_id for result in self.results)

    @property
    def skips_operations(self) -> bool:
        """Whether it can be used only where the kubelet can skip calls of a driver."""
        return any(result.skip_node_operations for result in self.results)


class DecodeError(ValueError):
    """An API object cannot be read; `str(error)` names the object, the field and what was wrong."""

    def __init__(self, kind: str, name: str, field: str, problem: str) -> None:
        super().__init__(f"{kind} {name}: {field}: {problem}" if name else f"{kind}: {field}: {problem}")
        self.kind: Final = kind
        self.name: Final = name
        self.field: Final = field
        self.problem: Final = problem


class AllocationError(Exception):
    """The allocation cannot be decided; the text is upstream's where upstream has one.

    The whole pod fails, whatever other nodes offer (CEL errors, a missing class, too many devices, …), but for one that
    `is_of_node`. `steps` is the effort until then.
    """

    steps = 0
    is_of_node = False
    """Only this node cannot be decided about: one of its pools is not whole, and all of its devices are asked for."""
