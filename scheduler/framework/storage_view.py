"""What plugins may read of volumes and CSI objects: `ClusterView.storage`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scheduler.model.keys import NodeName, ObjectKey, PodUid
from scheduler.model.storage import (
    CapacitiesOfClass,
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumesOfClass,
)


class StorageView(Protocol):
    """The objects as last observed, or as they were assumed since.

    What a verdict reads of them belongs into the plugin's signature: versions and revisions. Two things come with the
    node's generation instead: its CSINode and its VolumeAttachments, and to which volumes the claims of the pods on it
    are bound.
    """

    def persistent_volume(self, name: str) -> PersistentVolume | None: ...
    def persistent_volumes_of_class(self, class_name: str) -> VolumesOfClass:
        """Those that any claim may have: available, without a `claimRef`."""
        ...

    def persistent_volumes_claimed_for(self, claim: ObjectKey) -> Sequence[PersistentVolume]:
        """Those whose `claimRef` has this namespace and name (whatever its uid), in order of names."""
        ...

    def persistent_volume_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None: ...
    def stored_volume(self, name: str) -> PersistentVolume | None:
        """As last observed, whatever is assumed."""
        ...

    def stored_claim(self, key: ObjectKey) -> PersistentVolumeClaim | None:
        """As last observed, whatever is assumed."""
        ...

    def users_of(self, claim: ObjectKey) -> Sequence[PodUid]:
        """Pods with a volume for this PersistentVolumeClaim, also for one generated for them."""
        ...

    def is_used_on_a_node(self, claim: ObjectKey) -> bool:
        """Whether a pod that runs on a known node, or is assumed on one, uses this PersistentVolumeClaim."""
        ...

    def supposed_uses(self, claim: ObjectKey) -> int:
        """How many pods' volumes for this PersistentVolumeClaim are supposed to be there too, or (negative) to be gone.

        What `is_used_on_a_node` says is of the cluster as it is.
        """
        ...

    def storage_class(self, name: str) -> StorageClass | None: ...
    def claim_names(self, namespace: str) -> Sequence[str]:
        """Names of PersistentVolumeClaims, for a person who has mistyped one; of a great many only the first."""
        ...

    def class_names(self) -> Sequence[str]:
        """The same of StorageClasses."""
        ...

    def csi_node(self, name: str) -> CSINode | None: ...
    def csi_driver(self, name: str) -> CSIDriver | None: ...
    def csi_storage_capacities(self, class_name: str) -> CapacitiesOfClass: ...
    def volume_attachments(self, node: NodeName) -> Sequence[VolumeAttachment]:
        """In order of names."""
        ...
