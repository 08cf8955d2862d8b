"""Which volumes a pod's claims would have on one node: their own, available ones, or ones that are yet to be made.

Rules of this module
  1. Claims look for volumes in the order of their sizes, smallest first; each takes the smallest volume that fits, of
     equal ones the first by name (upstream: chance).
  2. A volume that is promised to a claim is taken before all others. If it cannot be used on the node, no other is.
  3. A volume is made only for a claim that finds none; the first claim for which none can be made ends the search.

Cost: O(claims of the pod · volumes of their classes) for a node.

Source: volumebinding/binder.go (FindPodVolumes, checkVolumeProvisions, hasEnoughCapacity) v1.36.3; component-helpers
storage/volume/pv_helpers.go (FindMatchingVolume) v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from scheduler.framework.status import Status
from scheduler.model.csi_translation import TranslationError, in_tree_plugin, translated_affinity
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.node_selectors import compile_selector
from scheduler.model.objects import Node, NodeSelector
from scheduler.model.storage import (
    MIGRATED_PLUGINS,
    CapacitiesOfClass,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    TopologyTerm,
)
from scheduler.plugins.volume_binding.pod_volumes import DelayedClaim, PodVolumes, required_affinity

REASON_NODE: Final = "node(s) didn't match PersistentVolume's node affinity"
REASON_BIND: Final = "node(s) didn't find available persistent volumes to bind"
REASON_SPACE: Final = "node(s) did not have enough free storage"
REASON_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_FILESYSTEM: Final = "Filesystem"


class ChosenVolume(Struct, frozen=True):
    """A volume that exists, for a claim."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


class MadeVolume(Struct, frozen=True):
    """A volume that is to be made for a claim; `room`: what the driver says is left for it, None where it does not."""

    claim: PersistentVolumeClaim
    room: CSIStorageCapacity | None


class NodeVolumes(Struct, frozen=True):
    """What a pod's claims get on a node that has something for each."""

    chosen: tuple[ChosenVolume, ...] = ()
    made: tuple[MadeVolume, ...] = ()

    @property
    def provisioned(self) -> tuple[PersistentVolumeClaim, ...]:
        """The claims for which volumes are to be made."""
        return tuple([one.claim for one in self.made])


def find_volumes(wanted: PodVolumes, node: Node, csi_node: CSINode | None) -> NodeVolumes | Status:
    """The volumes for all claims, or why the node has none; the reasons in upstream's order."""
    is_reached, is_known = True, True
    for bound in wanted.bound:
        if bound.volume is None:
            is_known = False
            break
        try:
            is_reached = is_reachable(bound.volume, node, csi_node)
        except TranslationError as error:
            return Status.error(f"could not translate pv: {error}")
        if not is_reached:
            break
    found = _for_delayed(wanted.delayed, node)
    reasons = [REASON_NODE] if not is_reached else []
    if isinstance(found, str):
        reasons.append(found)
    if not is_known:
        reasons.append(REASON_GONE)
    return Status.unresolvable(*reasons) if reasons or isinstance(found, str) else found


def is_reachable(volume: PersistentVolume, node: Node, csi_node: CSINode | None) -> bool:
    """Whether its affinity, translated where its plugin is migrated, takes the node. Raises TranslationError."""
    plugin = in_tree_plugin(volume)
    if plugin is not None and csi_node is not None and plugin in _migrated(csi_node):
        return _is_matched(translated_affinity(volume), node.labels)
    return _is_matched(required_affinity(volume), node.labels)


def _migrated(csi_node: CSINode) -> Sequence[str]:
    return csi_node.annotations.get(MIGRATED_PLUGINS, "").split(",")


def _is_matched(affinity: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    # Only labels: the node has no name here, so terms that ask for one do not match (upstream).
    return affinity is None or any(term.matches("", labels) for term in compile_selector(affinity))


def _for_delayed(delayed: Iterable[DelayedClaim], node: Node) -> NodeVolumes | str:
    """The volumes of claims that are not bound yet, or the reason why there are none."""
    to_match: list[DelayedClaim] = []
    to_provision: list[DelayedClaim] = []
    for one in delayed:
        selected = one.selected_node
        if selected is None:
            to_match.append(one)
        elif selected == node.name:
            to_provision.append(one)
        else:
            return REASON_BIND
    to_match.sort(key=lambda one: one.claim.requested_nano or 0)
    chosen: dict[str, ChosenVolume] = {}
    for one in to_match:
        volume = _find_volume(one, node.labels, chosen)
        if volume is None:
            to_provision.append(one)
        else:
            chosen[volume.name] = ChosenVolume(one.claim, volume)
    made: list[MadeVolume] = []
    for one in to_provision:
        if not one.is_provisioned or not _is_allowed(one.storage_class.allowed_topologies, node.labels):
            return REASON_BIND
        room = None
        if one.capacities is not None and one.claim.requested_nano is not None:
            room = _room(one.capacities, one.claim.requested_nano, node.labels)
            if room is None:
                return REASON_SPACE
        made.append(MadeVolume(one.claim, room))
    return NodeVolumes(tuple(chosen.values()), tuple(made))


def _find_volume(
    wanted: DelayedClaim, labels: Mapping[str, str], taken: Mapping[str, ChosenVolume]
) -> PersistentVolume | None:
    claim = wanted.claim
    for volume in wanted.reserved:
        if volume.name not in taken and _is_large_enough(volume, claim) and volume.metadata.deletion_timestamp is None:
            return volume if _is_matched(required_affinity(volume), labels) else None
    best: PersistentVolume | None = None
    for volume in wanted.available.volumes:
        if (
            volume.name not in taken
            and (best is None or volume.capacity_nano < best.capacity_nano)
            and _is_large_enough(volume, claim)
            and set(claim.spec.access_modes or ()).issubset(volume.spec.access_modes or ())
            and (claim.spec.selector is None or compile_label_selector(claim.spec.selector).matches(volume.labels))
            and _is_matched(required_affinity(volume), labels)
        ):
            best = volume
    return best


def _is_large_enough(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume has the size, mode and attributes that the claim asks for."""
    spec, asked = volume.spec, claim.spec
    return (
        volume.capacity_nano >= (claim.requested_nano or 0)
        and (spec.volume_mode or _FILESYSTEM) == (asked.volume_mode or _FILESYSTEM)
        and (spec.volume_attributes_class_name or "") == (asked.volume_attributes_class_name or "")
    )


def _is_allowed(terms: tuple[TopologyTerm, ...] | None, labels: Mapping[str, str]) -> bool:
    """Whether a class makes volumes for a node with these labels."""
    return not terms or any(
        term.match_label_expressions
        and all(labels.get(one.key) in (one.values or ()) for one in term.match_label_expressions)
        for term in terms
    )


def _room(capacities: CapacitiesOfClass, size_nano: int, labels: Mapping[str, str]) -> CSIStorageCapacity | None:
    """Where a driver has room for one volume of that size that the node can reach: the first (upstream: any)."""
    return next(
        (
            one
            for one in capacities.capacities
            if (limit := one.largest_nano) is not None
            and one.node_topology is not None
            and limit >= size_nano
            and compile_label_selector(one.node_topology).matches(labels)
        ),
        None,
    )
