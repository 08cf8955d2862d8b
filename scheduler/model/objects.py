"""API objects with the fields the scheduler reads, decoded from JSON in one step by msgspec.

Rules of this module
  1. Field names are the API's (`rename="camel"`); unknown fields are ignored, absent ones have Kubernetes' default.
  2. Objects are frozen. Writes are narrow patches (`scheduler.framework.decisions`), never whole objects.
  3. Lists that Go may print as null are `| None`.

Not here: ResourceClaims, ResourceSlices and DeviceClasses. The allocator knows those (`allocator.decode_*`);
`scheduler.model.claim` wraps a claim's spec and status.

Source: k8s.io/api v0.36 (core/v1).
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from scheduler.model.keys import NodeName, PodKey, PodUid
from scheduler.model.record import Record as Record  # noqa: PLC0414 - where others look for it
from scheduler.model.volume_sources import Volume


class OwnerReference(Record, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class PodMeta(Record, frozen=True):
    """Metadata without annotations: nobody reads a pod's annotations, and they can be long, and secret."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None

    @property
    def revision(self) -> int:
        """`resourceVersion` as a number: newer objects have larger ones (Kubernetes guarantees this since 1.35)."""
        return int(self.resource_version or 0)


class ObjectMeta(PodMeta, frozen=True):
    annotations: dict[str, str] | None = None


class Toleration(Record, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Taint(Record, frozen=True):
    key: str
    value: str = ""
    effect: str = ""


class NodeSelectorRequirement(Record, frozen=True, omit_defaults=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(Record, frozen=True, omit_defaults=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelector(Record, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredSchedulingTerm(Record, frozen=True):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinityTerms(Record, frozen=True, omit_defaults=True):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Unread(Record, frozen=True):
    """An object that nobody here acts on: whatever has it waits."""


class LabelSelector(Record, frozen=True, omit_defaults=True):
    """metav1.LabelSelector: all of `match_labels` and all of `match_expressions` must hold (`label_selectors`)."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None


class PodAffinityTerm(Record, frozen=True, omit_defaults=True):
    """Its `matchLabelKeys` and `mismatchLabelKeys` are in the selector already: the API server merges them."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(Record, frozen=True, omit_defaults=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Record, frozen=True, omit_defaults=True):
    """Of pod affinity or anti-affinity."""

    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Record, frozen=True, omit_defaults=True):
    node_affinity: NodeAffinityTerms | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


_AFFINITY_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_NODE_TERMS_DECODER: Final[msgspec.json.Decoder[NodeAffinityTerms | None]] = msgspec.json.Decoder(
    NodeAffinityTerms | None
)
_AFFINITY_DECODER: Final = msgspec.json.Decoder(Affinity)
_PACKED_MIN: Final = 4_096


class PackedAffinity:
    """An `Affinity` of many terms, kept as compressed text: decoded it takes three, prepared seven times the text.

    Its parts are decoded anew whenever they are asked for, so whoever asks often remembers by `nodes` or `pods`.

    Attributes:
        nodes: What it asks of nodes; equal bytes for equal terms.
        pods: The whole without that.
        size: Of both texts.
    """

    __slots__ = ("nodes", "pods", "size")

    def __init__(self, nodes: bytes, pods: bytes) -> None:
        self.nodes: Final = zlib.compress(nodes, 1)
        self.pods: Final = zlib.compress(pods, 1)
        self.size: Final = len(nodes) + len(pods)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedAffinity) and self.nodes == other.nodes and self.pods == other.pods

    def __hash__(self) -> int:
        return hash((self.nodes, self.pods))

    def unpacked(self) -> Affinity:
        return msgspec.structs.replace(self._of_pods(), node_affinity=self.node_affinity)

    def _of_pods(self) -> Affinity:
        return _AFFINITY_DECODER.decode(zlib.decompress(self.pods))

    @property
    def node_affinity(self) -> NodeAffinityTerms | None:
        return _NODE_TERMS_DECODER.decode(zlib.decompress(self.nodes))

    @property
    def pod_affinity(self) -> PodAffinity | None:
        return self._of_pods().pod_affinity

    @property
    def pod_anti_affinity(self) -> PodAffinity | None:
        return self._of_pods().pod_anti_affinity


class TopologySpreadConstraint(Record, frozen=True):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class SeccompProfile(Record, frozen=True):
    type: str = ""


class SecurityContext(Record, frozen=True):
    """Of a pod or a container."""

    seccomp_profile: SeccompProfile | None = None


class ContainerClaim(Record, frozen=True):
    name: str
    request: str = ""


class ResourceRequirements(Record, frozen=True):
    # A quantity is usually a string; hand-made objects carry bare numbers, which the API server accepts too.
    requests: dict[str, str | int | float] | None = None
    claims: tuple[ContainerClaim, ...] | None = None


class ContainerPort(Record, frozen=True):
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerRestartRule(Record, frozen=True):
    action: str = ""


class VolumeMount(Record, frozen=True, gc=False):
    bind_mount_options: tuple[str, ...] | None = None


class Container(Record, frozen=True):
    name: str = ""
    image: str = ""
    restart_policy: str | None = None
    resources: ResourceRequirements | None = None
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None
    security_context: SecurityContext | None = None


class SchedulingGate(Record, frozen=True):
    name: str = ""


class PodResourceClaim(Record, frozen=True):
    """One entry of `spec.resourceClaims`: a claim by name, or one generated from a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(Record, frozen=True):
    """The PodGroup a pod belongs to (Kubernetes 1.36, alpha)."""

    pod_group_name: str | None = None


class PodSpec(Record, frozen=True):
    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    resources: ResourceRequirements | None = None
    overhead: dict[str, str | int | float] | None = None
    priority: int | None = None
    preemption_policy: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: Unread | None = None  # 1.35's name for a gang: of a Workload, which nobody reads
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    host_network: bool = False
    host_users: bool | None = None
    security_context: SecurityContext | None = None


class ContainerStatus(Record, frozen=True):
    """What the kubelet says of a container's requests: those it was admitted with, and those it runs with."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int | float] | None = None


DISRUPTION_TARGET: Final = "DisruptionTarget"  # a condition's type
PREEMPTED_BY_SCHEDULER: Final = "PreemptionByScheduler"  # its reason


class Condition(Record, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodCondition(Condition, frozen=True):
    last_probe_time: str | None = None


class PodResourceClaimStatus(Record, frozen=True):
    """Which generated claim an entry of `spec.resourceClaims` got; a null name means none is needed."""

    name: str
    resource_claim_name: str | None = None


class ContainerExtendedResource(Record, frozen=True):
    """Which request of the special claim has the devices of one extended resource of one container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(Record, frozen=True):
    """The special claim behind a pod's extended resources, and which container finds which devices in it."""

    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResource, ...] | None = None


class NodeAllocatableClaim(Record, frozen=True, omit_defaults=True):
    """What the devices of one of the pod's claims take of the node's own resources (KEP-5517)."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] | None = None
    resources: dict[str, str | int | float] | None = None  # 1.36; the others are of 1.37
    mapping: tuple[dict[str, str | int | float | None], ...] | None = None
    overhead: tuple[dict[str, str | int | float | None], ...] | None = None


class PodStatus(Record, frozen=True):
    phase: str = ""
    conditions: tuple[PodCondition, ...] | None = None
    nominated_node_name: str = ""
    start_time: str | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] | None = None
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableClaim, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int | float] | None = None


class Pod(Record, frozen=True):
    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def packed(self) -> Pod:
        """The same pod, or an equal one that takes less memory."""
        affinity = self.spec.affinity
        if affinity is None or self.packed_affinity is not None:
            return self
        nodes = _AFFINITY_ENCODER.encode(affinity.node_affinity)
        pods = _AFFINITY_ENCODER.encode(msgspec.structs.replace(affinity, node_affinity=None))
        if len(nodes) + len(pods) < _PACKED_MIN:
            return self
        spec = msgspec.structs.replace(self.spec, affinity=PackedAffinity(nodes, pods))
        return msgspec.structs.replace(self, spec=spec)

    @property
    def packed_affinity(self) -> PackedAffinity | None:
        """Its affinity where that is packed: then `spec.affinity` is this object, which has an `Affinity`'s parts."""
        affinity: object = self.spec.affinity
        return affinity if isinstance(affinity, PackedAffinity) else None

    @property
    def affinity(self) -> Affinity | None:
        """Its affinity, decoded where it is packed."""
        packed = self.packed_affinity
        return packed.unpacked() if packed is not None else self.spec.affinity

    @property
    def key(self) -> PodKey:
        return PodKey(self.metadata.namespace, self.metadata.name)

    @property
    def uid(self) -> PodUid:
        return self.metadata.uid  # type: ignore[return-value]  # a NewType's call takes as long again

    @property
    def node_name(self) -> NodeName | None:
        """The node the pod is bound to, or None."""
        return self.spec.node_name or None  # type: ignore[return-value]  # as `uid`

    @property
    def is_terminal(self) -> bool:
        """A finished pod holds no resources on its node."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def is_deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def priority(self) -> int:
        return self.spec.priority or 0


class NodeSpec(Record, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeImage(Record, frozen=True):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatus(Record, frozen=True):
    """Of a node that is stored, `images` is empty: they are kept by name (`core.node_images`)."""

    allocatable: dict[str, str | int | float] | None = None
    declared_features: tuple[str, ...] | None = None
    images: tuple[NodeImage, ...] | None = None


class Node(Record, frozen=True):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> NodeName:
        return NodeName(self.metadata.name)

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}


class Namespace(Record, frozen=True):
    metadata: ObjectMeta
