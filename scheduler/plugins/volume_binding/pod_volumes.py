"""The claims of a pod, and what volumes they have or still need.

Rules of this module
  1. A claim is bound when the volume controller says so. One that waits for its first consumer, and names no volume,
     is ours to bind. Any other is not bound yet, and the pod waits.
  2. Claims are seen as they are assumed: a claim or volume that another pod's binding has taken is taken.

Not here: which volumes fit on a node (`volume_matching`).

Source: volumebinding/{volume_binding,binder}.go (podHasPVCs, GetPodVolumeClaims) v1.36.3.
Differs on purpose: a claim that the pod has in two volumes is one claim; upstream looks for a second volume for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from msgspec import Struct

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.status import Status
from scheduler.framework.storage_view import StorageView
from scheduler.model.objects import NodeSelector, Pod
from scheduler.model.storage import (
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    CapacitiesOfClass,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumesOfClass,
    claim_of_volume,
    why_not_owned,
)

UNBOUND_IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"


class BoundClaim(Struct, frozen=True):
    """A bound claim, and its volume if that is known."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None


class DelayedClaim(Struct, frozen=True):
    """A claim that is bound with its pod.

    Args:
        reserved: Volumes that are promised to it, in order of names.
        available: Volumes of its class that any claim may have.
        capacities: What is left of its class, None where the driver does not say.
    """

    claim: PersistentVolumeClaim
    storage_class: StorageClass
    reserved: tuple[PersistentVolume, ...]
    available: VolumesOfClass
    capacities: CapacitiesOfClass | None

    @property
    def selected_node(self) -> str | None:
        return self.claim.annotations.get(SELECTED_NODE)

    @property
    def is_provisioned(self) -> bool:
        """Whether a volume can be made for it."""
        return self.storage_class.provisioner not in ("", NO_PROVISIONER)


class PodVolumes(Struct, frozen=True):
    """All claims of a pod that can be scheduled."""

    bound: tuple[BoundClaim, ...]
    delayed: tuple[DelayedClaim, ...]

    def signature(self) -> Hashable:
        """All that a verdict about a node depends on: what is asked, not the names of claims that ask it."""
        bound = tuple([_bound_shape(one.volume) for one in self.bound])
        return bound, tuple([_delayed_shape(one) for one in self.delayed])


def volumes_of_pod(pod: Pod, view: ClusterView) -> PodVolumes | Status | None:
    """The claims of `pod`; a status when it cannot be scheduled; None for a pod without claims."""
    claims: dict[str, PersistentVolumeClaim] = {}
    for volume in pod.spec.volumes or ():
        name = claim_of_volume(pod, volume)
        if name is None:
            continue
        claim = view.storage.persistent_volume_claim(pod.metadata.namespace, name)
        refusal = _refusal(pod, name, claim, is_generated=volume.ephemeral is not None)
        if refusal is not None:
            return Status.unresolvable(refusal)
        assert claim is not None
        claims[name] = claim
    return _sorted_out(claims.values(), view.storage) if claims else None


def _refusal(pod: Pod, name: str, claim: PersistentVolumeClaim | None, *, is_generated: bool) -> str | None:
    if claim is None:
        if is_generated:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return why_not_owned(pod, claim) if is_generated else None


def _sorted_out(claims: Iterable[PersistentVolumeClaim], storage: StorageView) -> PodVolumes | Status:
    bound: list[BoundClaim] = []
    delayed: list[DelayedClaim] = []
    has_immediate = False
    for claim in claims:
        if claim.is_bound:
            bound.append(BoundClaim(claim, storage.persistent_volume(claim.spec.volume_name)))
            continue
        storage_class = storage.storage_class(claim.class_name) if claim.class_name else None
        if storage_class is not None and storage_class.volume_binding_mode is None:
            return Status.error(f'VolumeBindingMode not set for StorageClass "{storage_class.name}"')
        is_delayed = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        if storage_class is None or not is_delayed or claim.spec.volume_name:
            has_immediate = True
            continue
        delayed.append(_delayed(claim, storage_class, storage))
    return Status.unresolvable(UNBOUND_IMMEDIATE) if has_immediate else PodVolumes(tuple(bound), tuple(delayed))


def _delayed(claim: PersistentVolumeClaim, storage_class: StorageClass, storage: StorageView) -> DelayedClaim:
    reserved = tuple(
        volume
        for volume in storage.persistent_volumes_claimed_for(claim.key)
        if volume.class_name == storage_class.name and is_claimed_by(volume, claim)
    )
    driver = storage.csi_driver(storage_class.provisioner)
    has_limits = driver is not None and bool(driver.spec.storage_capacity)
    return DelayedClaim(
        claim,
        storage_class,
        reserved,
        storage.persistent_volumes_of_class(storage_class.name),
        storage.csi_storage_capacities(storage_class.name) if has_limits else None,
    )


def is_claimed_by(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound or promised to this claim."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == claim.key
        and reference.uid in ("", claim.metadata.uid)
    )


def _bound_shape(volume: PersistentVolume | None) -> Hashable:
    if volume is None:
        return None
    spec = volume.spec
    in_tree = (
        *(spec.aws_elastic_block_store, spec.gce_persistent_disk, spec.cinder),
        *(spec.azure_disk, spec.portworx_volume),
    )
    if all(source is None for source in in_tree):
        return required_affinity(volume)
    # Where it is migrated its labels count, too.
    return required_affinity(volume), in_tree, tuple(sorted(volume.labels.items()))


def _delayed_shape(one: DelayedClaim) -> Hashable:
    claim, storage_class = one.claim, one.storage_class
    spec, selector = claim.spec, claim.spec.selector
    labels = None
    if selector is not None:
        labels = (tuple(sorted((selector.match_labels or {}).items())), selector.match_expressions)
    return (
        (storage_class.name, storage_class.provisioner, storage_class.allowed_topologies),
        (claim.requested_nano, spec.access_modes, spec.volume_mode, spec.volume_attributes_class_name, labels),
        one.selected_node,
        tuple([(volume.name, volume.revision) for volume in one.reserved]),
        one.available.version if one.available.volumes else 0,
        one.capacities.version if one.capacities is not None else None,
    )


def required_affinity(volume: PersistentVolume) -> NodeSelector | None:
    affinity = volume.spec.node_affinity
    return affinity.required if affinity is not None else None
