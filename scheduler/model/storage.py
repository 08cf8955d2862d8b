"""Volumes and what the cluster says of storage, with the fields that plugins read.

Rules of this module
  1. As in `objects`: the API's names, absent fields have Kubernetes' default, all is frozen. What nobody reads is not
     decoded; writes are patches, so nothing that is left out here is lost (`framework.decisions`).
  2. The class of a volume or claim is its beta annotation's, where there is one, else the field's; none is "".

Not here: indexes (`core.storage_objects`), what the objects mean for a pod (the plugins).

Source: k8s.io/api v0.36.3 (core/v1, storage/v1); component-helpers v0.36.3 storage/volume (annotations and classes).
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from scheduler.model.keys import ObjectKey, VolumeClaimKey
from scheduler.model.objects import LabelSelector, NodeSelector, Pod, PodMeta, Record
from scheduler.model.resources import Amount, parse_nano
from scheduler.model.volume_sources import (
    AwsElasticBlockStore,
    AzureDisk,
    CinderVolume,
    GcePersistentDisk,
    PortworxVolume,
    Volume,
)

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_STORAGE: Final = "storage"


class StorageMeta(PodMeta, frozen=True):
    annotations: dict[str, str] | None = None


class StorageObject(Record, frozen=True):
    """Base of the objects of this module; the name of the class is the kind."""

    metadata: StorageMeta

    @property
    def key(self) -> ObjectKey:
        """Without a namespace for all but claims and CSIStorageCapacities."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def revision(self) -> int:
        return self.metadata.revision

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.annotations or {}

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}


class ClaimReference(Record, frozen=True):
    """`spec.claimRef` of a volume. Without a uid it was written by hand: the claim may not exist yet."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(Record, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Record, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Record, frozen=True):
    capacity: dict[str, Amount] | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    # Sources that CSI drivers have taken over (csi-translation-lib).
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    portworx_volume: PortworxVolume | None = None


class Phase(Record, frozen=True):
    """A status of which only the phase is read."""

    phase: str = ""


class PersistentVolume(StorageObject, frozen=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: Phase = Phase()

    @property
    def class_name(self) -> str:
        beta = self.annotations.get(_BETA_CLASS)
        return beta if beta is not None else self.spec.storage_class_name

    @property
    def capacity_nano(self) -> int:
        """Bytes in units of 10^-9, as quantities are compared; 0 without a capacity."""
        return _storage_nano(self.spec.capacity) or 0

    @property
    def is_available(self) -> bool:
        """Whether any claim may have it: nobody has it, or was promised it."""
        return (
            self.spec.claim_ref is None
            and self.status.phase == "Available"
            and self.metadata.deletion_timestamp is None
        )


class ClaimResources(Record, frozen=True):
    requests: dict[str, Amount] | None = None


class PersistentVolumeClaimSpec(Record, frozen=True):
    access_modes: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    resources: ClaimResources = ClaimResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(StorageObject, frozen=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: Phase = Phase()

    @property
    def key(self) -> VolumeClaimKey:
        return VolumeClaimKey(self.metadata.namespace, self.metadata.name)

    @property
    def class_name(self) -> str:
        beta = self.annotations.get(_BETA_CLASS)
        return beta if beta is not None else self.spec.storage_class_name or ""

    @property
    def requested_nano(self) -> int | None:
        """Bytes in units of 10^-9; None without a request."""
        return _storage_nano(self.spec.resources.requests)

    @property
    def is_bound(self) -> bool:
        """Whether the volume controller has finished its binding."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.annotations


class TopologyRequirement(Record, frozen=True):
    key: str = ""
    values: tuple[str, ...] | None = None


class TopologyTerm(Record, frozen=True):
    match_label_expressions: tuple[TopologyRequirement, ...] | None = None


class StorageClass(StorageObject, frozen=True):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


class NodeVolumeLimit(Record, frozen=True):
    count: int | None = None


class CsiNodeDriver(Record, frozen=True):
    name: str = ""
    allocatable: NodeVolumeLimit | None = None


class CsiNodeSpec(Record, frozen=True):
    drivers: tuple[CsiNodeDriver, ...] | None = None


class CSINode(StorageObject, frozen=True):
    """Has its node's name."""

    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Record, frozen=True):
    storage_capacity: bool | None = None


class CSIDriver(StorageObject, frozen=True):
    spec: CsiDriverSpec = CsiDriverSpec()


class CSIStorageCapacity(StorageObject, frozen=True):
    """How much a class has left for the nodes that `node_topology` selects; None selects none."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None

    @property
    def largest_nano(self) -> int | None:
        """The largest volume, as far as it is known; in units of 10^-9 bytes."""
        limit = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        return parse_nano(limit) if limit is not None else None


class AttachedSource(Record, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Record, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachedSource = AttachedSource()


class VolumeAttachment(StorageObject, frozen=True):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


AnyStorageObject: TypeAlias = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)


class VolumesOfClass(msgspec.Struct, frozen=True):
    """The volumes of a class that any claim may have, in order of names.

    Args:
        version: Another one exactly when the volumes, or what decides who may have them, are others.
    """

    version: int = 0
    volumes: tuple[PersistentVolume, ...] = ()


class CapacitiesOfClass(msgspec.Struct, frozen=True):
    """What the drivers say is left of a class, in order of namespaces and names; with a version as `VolumesOfClass`."""

    version: int = 0
    capacities: tuple[CSIStorageCapacity, ...] = ()


def claim_of_volume(pod: Pod, volume: Volume) -> str | None:
    """The name of the PersistentVolumeClaim behind a volume of `pod`, None for other volumes; generated or not."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else None


def why_not_owned(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Why `pod` may not use a claim that has the name of one generated for it; None when the pod is its controller."""
    for owner in claim.metadata.owner_references or ():
        if owner.controller and owner.uid == pod.uid:
            return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def volume_claims(pod: Pod) -> tuple[ObjectKey, ...]:
    """The PersistentVolumeClaims that `pod` uses, each once, in order of its volumes."""
    names = [claim_of_volume(pod, volume) for volume in pod.spec.volumes or ()]
    return tuple([ObjectKey(pod.metadata.namespace, name) for name in dict.fromkeys(names) if name])


def named_claims(pod: Pod) -> tuple[ObjectKey, ...]:
    """Claims that the pod names; not those generated for it, which no other pod uses."""
    named = [volume.persistent_volume_claim for volume in pod.spec.volumes or ()]
    return tuple([ObjectKey(pod.metadata.namespace, one.claim_name) for one in named if one is not None])


def _storage_nano(amounts: dict[str, Amount] | None) -> int | None:
    amount = (amounts or {}).get(_STORAGE)
    return parse_nano(amount) if amount is not None else None
