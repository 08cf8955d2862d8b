"""Which volume keeps a pod from a node: what VolumeBinding says of nodes that it refused.

Not here: the verdict (`matching`). No change is proposed: where a volume can be reached is its driver's affair.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.framework.blame import Blame
from scheduler.framework.cluster_view import ClusterView
from scheduler.model.csi_translation import TranslationError
from scheduler.model.node_info import NodeInfo
from scheduler.plugins.volume_binding.matching import is_reachable
from scheduler.plugins.volume_binding.pod_volumes import DelayedClaim, PodVolumes


def blame_for_volumes(plugin: str, wanted: PodVolumes, node: NodeInfo, view: ClusterView) -> Sequence[Blame]:
    """The claim whose volume the node does not reach, or for which it has none."""
    csi_node = view.storage.csi_node(node.name)
    for bound in wanted.bound:
        claim, volume = "/".join(bound.claim.key), bound.volume
        if volume is None:
            name = bound.claim.spec.volume_name
            cause = f"PersistentVolume {name} of PersistentVolumeClaim {claim} does not exist"
            return (Blame("volume-missing", cause, (plugin, claim)),)
        try:
            is_reached = is_reachable(volume, node.node, csi_node)
        except TranslationError:
            continue
        if not is_reached:
            what = f"PersistentVolume {volume.name} of PersistentVolumeClaim {claim}"
            return (Blame("volume-unreachable", f"{what} cannot be reached from node {node.name}", (plugin, claim)),)
    if not wanted.delayed:
        return ()
    cause = "; ".join(_delayed(one, node) for one in wanted.delayed)
    return (Blame("volume-not-provided", cause, (plugin, "delayed")),)


def _delayed(one: DelayedClaim, node: NodeInfo) -> str:
    claim, class_name = "/".join(one.claim.key), one.storage_class.name
    if one.selected_node is not None and one.selected_node != node.name:
        return f"the volume of PersistentVolumeClaim {claim} is being made for node {one.selected_node}"
    made = (
        f"its provisioner makes none for node {node.name} now" if one.is_provisioned else "its provisioner makes none"
    )
    return (
        f"StorageClass {class_name} has no free volume that node {node.name} reaches for PersistentVolumeClaim "
        f"{claim}, and {made}"
    )
